//! What is due after events of the watches.

use std::time::{Duration, Instant};

use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::*;
use crate::topics::schedule::End;

struct World {
    cache: Cache,
    now: Instant,
}

fn object((version, kind): (&str, &str), metadata: Value, rest: Value) -> DynamicObject {
    let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": metadata });
    let fields = object.as_object_mut().unwrap();
    fields.extend(rest.as_object().unwrap().clone());
    serde_json::from_value(object).unwrap()
}

const V1: &str = "kafka.strimzi.io/v1";

fn kafka(namespace: &str, operator: Value) -> DynamicObject {
    let spec = json!({ "kafka": { "listeners": [] }, "entityOperator": operator });
    let metadata = json!({ "namespace": namespace, "name": "c", "uid": "c" });
    object((V1, "Kafka"), metadata, json!({ "spec": spec }))
}

fn user(name: &str, more: Value) -> DynamicObject {
    let mut metadata = json!({
        "namespace": "ns", "name": name, "uid": name, "generation": 1,
        "labels": { "strimzi.io/cluster": "c" },
    });
    metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object((V1, "KafkaUser"), metadata, json!({ "spec": {} }))
}

fn secret(name: &str, password: &str) -> DynamicObject {
    let labels = json!({ "strimzi.io/cluster": "c", "strimzi.io/kind": "KafkaUser" });
    let metadata = json!({ "namespace": "ns", "name": name, "uid": name, "labels": labels });
    object(("v1", "Secret"), metadata, json!({ "data": { "password": password } }))
}

impl World {
    /// The watches of all namespaces have listed nothing.
    fn new() -> Self {
        let mut world = Self { cache: Cache::new(false), now: Instant::now() };
        for event in [Event::Init, Event::InitDone] {
            world.user(event.clone());
            world.secret(event);
        }
        world
    }

    fn managed() -> Self {
        let mut world = Self::new();
        world.kafka(Event::Apply(kafka("ns", json!({ "userOperator": {} }))));
        assert_eq!(world.due(), [("all".to_owned(), vec![], vec![])]);
        world
    }

    fn kafka(&mut self, event: Event<DynamicObject>) {
        self.cache.kafka_event(None, Ok(event), self.now);
    }

    fn user(&mut self, event: Event<DynamicObject>) {
        self.cache.user_event(None, Ok(event), self.now);
    }

    fn secret(&mut self, event: Event<DynamicObject>) {
        self.cache.secret_event(None, Ok(event), self.now);
    }

    /// The passes that are due by now: the scope, the resources, and the users that have one.
    fn due(&mut self) -> Vec<(String, Vec<String>, Vec<String>)> {
        self.now += Duration::from_millis(60);
        let due = self.cache.due(self.now);
        let line = |(_, work): &(Names, Work)| {
            let scope = match &work.scope {
                Scope::All => "all".to_owned(),
                Scope::These(these) => these.iter().cloned().collect::<Vec<_>>().join(" "),
            };
            let entries = work.entries.iter().map(|one| one.resource.name.clone());
            (scope, entries.collect(), work.live.iter().cloned().collect())
        };
        let lines = due.iter().map(line).collect();
        for (names, _) in due {
            let end = End::Through(BTreeSet::new());
            self.cache.ended(&names, Done { end }, self.now);
        }
        lines
    }

    fn one(&mut self) -> (String, Vec<String>, Vec<String>) {
        let mut due = self.due();
        assert_eq!(due.len(), 1, "{due:?}");
        due.remove(0)
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn only_users_that_changed_are_looked_at() {
    let mut world = World::managed();
    world.user(Event::Apply(user("a", json!({}))));
    world.user(Event::Apply(user("b", json!({}))));
    assert_eq!(world.one(), ("a b".to_owned(), names(&["a", "b"]), names(&["a", "b"])));
    world.user(Event::Apply(user("a", json!({ "resourceVersion": "7" }))));
    assert_eq!(world.due(), [], "nothing that matters has changed");
    world.user(Event::Apply(user("a", json!({ "generation": 2 }))));
    assert_eq!(world.one(), ("a".to_owned(), names(&["a"]), names(&["a", "b"])));
}

#[test]
fn a_user_that_is_gone_is_in_the_scope_of_a_pass() {
    let mut world = World::managed();
    world.user(Event::Apply(user("a", json!({}))));
    world.due();
    world.user(Event::Delete(user("a", json!({}))));
    assert_eq!(world.one(), ("a".to_owned(), vec![], vec![]), "U10.1");
    // One that is being deleted is no longer among those that live.
    let deleting = json!({ "deletionTimestamp": "2026-01-01T00:00:01Z" });
    world.user(Event::Apply(user("b", deleting)));
    assert_eq!(world.one(), ("b".to_owned(), names(&["b"]), vec![]), "U4.2");
    // And one that the next list does not have was deleted between two watches.
    world.user(Event::Apply(user("c", json!({}))));
    world.due();
    for event in [Event::Init, Event::InitApply(user("b", json!({}))), Event::InitDone] {
        world.user(event);
    }
    assert_eq!(world.one().0, "b c", "U10.2");
}

#[test]
fn a_user_of_another_cluster_is_gone_from_the_former() {
    let mut world = World::managed();
    world.user(Event::Apply(user("a", json!({}))));
    world.due();
    world.user(Event::Apply(user("a", json!({ "labels": { "strimzi.io/cluster": "d" } }))));
    assert_eq!(world.one(), ("a".to_owned(), vec![], vec![]), "U10.6");
}

#[test]
fn a_change_of_a_secret_concerns_its_user() {
    let mut world = World::managed();
    world.user(Event::Apply(user("a", json!({}))));
    world.due();
    world.secret(Event::Apply(secret("a", "cGFzcw==")));
    assert_eq!(world.one().0, "a", "U4.1");
    world.secret(Event::Apply(secret("a", "cGFzcw==")));
    assert_eq!(world.due(), []);
    world.secret(Event::Apply(secret("a", "b3RoZXI=")));
    assert_eq!(world.one().0, "a");
    world.secret(Event::Delete(secret("a", "b3RoZXI=")));
    assert_eq!(world.one().0, "a", "U5.9");
}

#[test]
fn without_user_operator_and_in_other_namespaces_nothing_is_done() {
    let mut world = World::new();
    world.user(Event::Apply(user("a", json!({}))));
    world.kafka(Event::Apply(kafka("ns", json!({ "topicOperator": {} }))));
    assert_eq!(world.due(), [], "E1");
    world.kafka(Event::Apply(kafka("x", json!({ "userOperator": { "watchedNamespace": "ns" } }))));
    assert_eq!(world.due(), [], "E2: whoever may edit a Kafka could reach Secrets elsewhere");
    world.kafka(Event::Apply(kafka("ns", json!({ "userOperator": {} }))));
    assert_eq!(world.one(), ("all".to_owned(), names(&["a"]), names(&["a"])));
    world.kafka(Event::Apply(kafka("ns", json!({ "userOperator": {} }))));
    assert_eq!(world.due(), []);
    let other = json!({ "userOperator": { "secretPrefix": "p-" } });
    world.kafka(Event::Apply(kafka("ns", other)));
    assert_eq!(world.one().0, "all", "what holds for all has changed");
    world.kafka(Event::Delete(kafka("ns", json!({ "userOperator": {} }))));
    world.user(Event::Apply(user("b", json!({}))));
    assert_eq!(world.due(), [], "Kafka is gone with all its users");
}

#[test]
fn nothing_is_done_before_all_is_known() {
    let mut world = World { cache: Cache::new(false), now: Instant::now() };
    world.kafka(Event::Apply(kafka("ns", json!({ "userOperator": {} }))));
    world.user(Event::Apply(user("a", json!({}))));
    assert_eq!(
        world.due(),
        [],
        "a user that was not listed yet must not look like one that is gone"
    );
    for event in [Event::Init, Event::InitApply(user("a", json!({}))), Event::InitDone] {
        world.user(event);
    }
    assert_eq!(world.due(), [], "a Secret that was not listed yet neither");
    for event in [Event::Init, Event::InitDone] {
        world.secret(event);
    }
    assert_eq!(world.one().0, "all");
}

#[test]
fn a_cluster_has_one_pass_at_a_time_whatever_becomes_of_its_spec() {
    let mut world = World::managed();
    world.user(Event::Apply(user("a", json!({}))));
    world.now += Duration::from_millis(60);
    let (names, _) = world.cache.due(world.now).remove(0);
    world.kafka(Event::Apply(kafka("ns", json!({}))));
    world.kafka(Event::Apply(kafka("ns", json!({ "userOperator": {} }))));
    assert_eq!(world.due(), [], "a pass over the same users runs");
    assert_eq!(world.cache.next_due(), None);
    world.cache.ended(&names, Done { end: End::Through(BTreeSet::new()) }, world.now);
    assert_eq!(world.one().0, "all", "U4.6: it was begun for the former spec");
}
