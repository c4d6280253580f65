//! What is due after events of the watches.

use std::time::{Duration, Instant};

use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::*;

struct World {
    cache: Cache,
    now: Instant,
}

fn object(kind: &str, (namespace, name): (&str, &str), rest: Value) -> DynamicObject {
    let mut object = json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": kind,
        "metadata": { "namespace": namespace, "name": name, "uid": name, "generation": 1 },
    });
    for (key, value) in rest.as_object().unwrap() {
        match object.get_mut(key).and_then(Value::as_object_mut) {
            Some(fields) => fields.extend(value.as_object().unwrap().clone()),
            None => object[key] = value.clone(),
        }
    }
    serde_json::from_value(object).unwrap()
}

fn kafka(namespace: &str, operator: Value) -> DynamicObject {
    let spec = json!({ "kafka": { "listeners": [] }, "entityOperator": operator });
    object("Kafka", (namespace, "c"), json!({ "spec": spec }))
}

fn topic(namespace: &str, name: &str, rest: Value) -> DynamicObject {
    let labels = json!({ "strimzi.io/cluster": "c" });
    let mut object = object("KafkaTopic", (namespace, name), json!({ "spec": {} }));
    object.metadata.labels = serde_json::from_value(labels).unwrap();
    let mut value = serde_json::to_value(object).unwrap();
    for (key, more) in rest.as_object().unwrap() {
        value[key].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    }
    serde_json::from_value(value).unwrap()
}

impl World {
    /// The watches of all namespaces have listed nothing.
    fn new(watches_other_namespaces: bool) -> Self {
        let mut world = Self { cache: Cache::new(watches_other_namespaces), now: Instant::now() };
        for event in [Event::Init, Event::InitDone] {
            world.topic(event);
        }
        world
    }

    fn kafka(&mut self, event: Event<DynamicObject>) {
        self.cache.kafka_event(None, Ok(event), self.now);
    }

    fn topic(&mut self, event: Event<DynamicObject>) {
        self.cache.topic_event(None, Ok(event), self.now);
    }

    /// What is due by now, by namespace of the cluster: the names of the resources.
    fn due(&mut self) -> Vec<(String, Vec<String>)> {
        self.now += Duration::from_millis(60);
        let due = self.cache.due(self.now);
        let line = |(names, work): &(Names, Work)| {
            let entries = work.entries.iter().map(|one| one.resource.name.clone());
            (names.namespace.clone(), entries.collect())
        };
        let lines = due.iter().map(line).collect();
        for (names, work) in due {
            let end = End::Through(BTreeSet::new());
            let done = Done { end, vanished: work.vanished, is_moving: Some(false) };
            self.cache.ended(&names, done, self.now);
        }
        lines
    }
}

fn here(names: &[&str]) -> Vec<(String, Vec<String>)> {
    vec![("ns".to_owned(), names.iter().map(|name| (*name).to_owned()).collect())]
}

fn nothing() -> Vec<(String, Vec<String>)> {
    Vec::new()
}

#[test]
fn a_pass_is_over_all_at_first_and_then_over_what_changed() {
    let mut world = World::new(false);
    world.topic(Event::Apply(topic("ns", "a", json!({}))));
    assert_eq!(world.due(), nothing(), "no cluster manages it");
    world.kafka(Event::Apply(kafka("ns", json!({ "topicOperator": {} }))));
    world.topic(Event::Apply(topic("ns", "b", json!({}))));
    world.topic(Event::Apply(topic("other", "z", json!({}))));
    assert_eq!(world.due(), here(&["a", "b"]));
    assert_eq!(world.due(), nothing());
    let written = json!({ "metadata": { "resourceVersion": "2" } });
    world.topic(Event::Apply(topic("ns", "a", written)));
    assert_eq!(world.due(), nothing(), "T3.1, T13.4: only its status was written");
    world.topic(Event::Apply(topic("ns", "a", json!({ "metadata": { "generation": 2 } }))));
    assert_eq!(world.due(), here(&["a"]));
    // The owner of a topic goes, and another resource that claims it is looked at.
    let claims = json!({ "spec": { "topicName": "a" } });
    world.topic(Event::Apply(topic("ns", "second", claims)));
    assert_eq!(world.due(), here(&["a", "second"]));
    world.topic(Event::Delete(topic("ns", "a", json!({}))));
    assert_eq!(world.due(), here(&["second"]));
    // Settings that hold for all have changed.
    let slower = json!({ "topicOperator": { "reconciliationIntervalMs": 1000 } });
    world.kafka(Event::Apply(kafka("ns", slower)));
    assert_eq!(world.due(), here(&["b", "second"]));
    world.kafka(Event::Apply(kafka("ns", json!({ "userOperator": {} }))));
    world.topic(Event::Apply(topic("ns", "b", json!({ "metadata": { "generation": 2 } }))));
    assert_eq!(world.due(), nothing(), "it no longer manages topics");
}

#[test]
fn nothing_is_due_before_all_resources_are_known() {
    let mut world = World { cache: Cache::new(false), now: Instant::now() };
    world.kafka(Event::Apply(kafka("ns", json!({ "topicOperator": {} }))));
    world.topic(Event::Init);
    world.topic(Event::InitApply(topic("ns", "a", json!({}))));
    assert_eq!(world.due(), nothing(), "another resource may own the topic");
    world.topic(Event::InitDone);
    assert_eq!(world.due(), here(&["a"]));
    // A watch that begins anew shows what has gone meanwhile.
    world.topic(Event::Init);
    world.topic(Event::InitApply(topic("ns", "b", json!({}))));
    world.topic(Event::InitDone);
    assert_eq!(world.due(), here(&["b"]));
    assert_eq!(world.cache.topics.len(), 1);
}

#[test]
fn resources_of_another_namespace_are_managed_only_if_that_is_allowed() {
    let there = json!({ "topicOperator": { "watchedNamespace": "ns" } });
    for (is_allowed, expected) in
        [(false, Vec::<String>::new()), (true, vec!["elsewhere".to_owned()])]
    {
        let mut world = World::new(is_allowed);
        world.topic(Event::Apply(topic("ns", "a", json!({}))));
        world.kafka(Event::Apply(kafka("elsewhere", there.clone())));
        let by: Vec<_> = world.due().into_iter().map(|(namespace, _)| namespace).collect();
        assert_eq!(by, expected, "E2");
    }
    // The cluster of the same name in the namespace of the resources comes first.
    let mut world = World::new(true);
    world.kafka(Event::Apply(kafka("elsewhere", there)));
    world.kafka(Event::Apply(kafka("ns", json!({ "topicOperator": {} }))));
    world.topic(Event::Apply(topic("ns", "a", json!({}))));
    let due = world.due();
    assert_eq!(due[0], ("elsewhere".to_owned(), vec![]));
    assert_eq!(due[1..], here(&["a"]), "E9");
}

#[test]
fn without_finalizers_a_resource_that_is_gone_is_remembered_until_its_topic_is() {
    let env = json!([{ "name": "STRIMZI_USE_FINALIZERS", "value": "false" }]);
    let template = json!({ "topicOperatorContainer": { "env": env } });
    let mut world = World::new(false);
    let operator = json!({ "topicOperator": {}, "template": template });
    world.kafka(Event::Apply(kafka("ns", operator)));
    world.topic(Event::Apply(topic("ns", "a", json!({}))));
    world.due();
    world.topic(Event::Delete(topic("ns", "a", json!({}))));
    for _ in 0..2 {
        world.now += Duration::from_secs(3);
        let due = world.cache.due(world.now);
        assert_eq!(due[0].1.vanished.len(), 1, "until a pass has dealt with it");
        for (names, work) in due {
            let done = Done {
                end: End::Through(BTreeSet::new()),
                vanished: work.vanished,
                is_moving: None,
            };
            world.cache.ended(&names, done, world.now);
        }
    }
}

#[test]
fn a_cluster_that_goes_lets_go_of_its_resources() {
    let mut world = World::new(false);
    world.kafka(Event::Apply(kafka("ns", json!({ "topicOperator": {} }))));
    world.topic(Event::Apply(topic("ns", "a", json!({}))));
    world.due();
    world.kafka(Event::Delete(kafka("ns", json!({ "topicOperator": {} }))));
    world.now += Duration::from_millis(60);
    let due = world.cache.due(world.now);
    assert!(matches!(due[0].1.task, Task::Release), "T5.12 {due:?}");
    assert_eq!(due[0].1.entries.len(), 1);
    let failed = End::Through(BTreeSet::from(["a".to_owned()]));
    let names = due[0].0.clone();
    world.cache.ended(
        &names,
        Done { end: failed, vanished: Vec::new(), is_moving: None },
        world.now,
    );
    world.now += Duration::from_secs(3);
    let due = world.cache.due(world.now);
    assert_eq!(due.len(), 1, "tried again");
    let done = Done { end: End::Through(BTreeSet::new()), vanished: Vec::new(), is_moving: None };
    world.cache.ended(&names, done, world.now);
    assert_eq!(world.cache.next_due(), None, "nothing is left of it");
}

#[test]
fn a_resource_that_cannot_be_read_is_left_alone_and_harms_no_other() {
    let mut bad = topic("ns", "bad", json!({}));
    bad.data["spec"] = json!({ "partitions": "many" });
    assert_eq!(entry(bad).resource.spec, None);
    let mut without = topic("ns", "old", json!({}));
    without.data["spec"] = Value::Null;
    assert_eq!(entry(without).resource.spec, None);
}

#[test]
fn resources_that_change_their_cluster_are_left_to_the_other() {
    let mut world = World::new(false);
    world.kafka(Event::Apply(kafka("ns", json!({ "topicOperator": {} }))));
    world.topic(Event::Apply(topic("ns", "a", json!({}))));
    world.topic(Event::Apply(topic("ns", "second", json!({ "spec": { "topicName": "a" } }))));
    assert_eq!(world.due(), here(&["a", "second"]));
    let labels = json!({ "strimzi.io/cluster": "other" });
    world.topic(Event::Apply(topic("ns", "a", json!({ "metadata": { "labels": labels } }))));
    assert_eq!(world.due(), here(&["second"]), "T4.9, T6.7: the other may own the topic now");
    let metadata = json!({
        "labels": labels, "finalizers": ["strimzi.io/topic-operator"],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    });
    world.topic(Event::Apply(topic("ns", "a", json!({ "metadata": metadata }))));
    assert_eq!(world.due(), nothing(), "T5.11");
    let without = json!({ "metadata": { "labels": {} } });
    world.topic(Event::Apply(topic("ns", "b", without)));
    assert_eq!(world.due(), nothing(), "T6.7: it belongs to no cluster");
}

#[test]
fn an_owner_that_is_no_longer_managed_or_is_gone_makes_way() {
    let mut world = World::new(false);
    world.kafka(Event::Apply(kafka("ns", json!({ "topicOperator": {} }))));
    world.topic(Event::Apply(topic("ns", "a", json!({}))));
    world.topic(Event::Apply(topic("ns", "second", json!({ "spec": { "topicName": "a" } }))));
    world.due();
    let annotations = json!({ "strimzi.io/managed": "false" });
    let unmanaged = json!({ "metadata": { "annotations": annotations } });
    world.topic(Event::Apply(topic("ns", "a", unmanaged)));
    assert_eq!(world.due(), here(&["a", "second"]), "T4.7");
    world.topic(Event::Delete(topic("ns", "a", json!({}))));
    assert_eq!(world.due(), here(&["second"]), "T4.6");
}

#[test]
fn however_many_resources_change_at_once_each_is_looked_at_once() {
    const MANY: usize = 1500;
    let mut world = World::new(false);
    world.kafka(Event::Apply(kafka("ns", json!({ "topicOperator": {} }))));
    assert_eq!(world.due(), here(&[]));
    for generation in [1, 2] {
        for number in 0..MANY {
            let changed = json!({ "metadata": { "generation": generation } });
            world.topic(Event::Apply(topic("ns", &format!("t{number:05}"), changed)));
        }
    }
    world.topic(Event::Delete(topic("ns", "t00000", json!({}))));
    let mut seen = BTreeSet::new();
    for _ in 0..MANY {
        let due = world.due();
        let Some((_, names)) = due.into_iter().next() else { break };
        for name in names {
            assert!(seen.insert(name), "T3.4: two events of one resource are one");
        }
    }
    assert_eq!(world.cache.claimants.len(), MANY - 1, "who is gone claims nothing");
    assert_eq!(seen.len(), MANY - 1, "T3.3: none is lost, T3.5: but for one that is gone");
}

#[test]
fn a_cluster_has_one_pass_at_a_time_whatever_becomes_of_its_spec() {
    let mut world = World::new(false);
    let managed = || Event::Apply(kafka("ns", json!({ "topicOperator": {} })));
    world.kafka(managed());
    world.topic(Event::Apply(topic("ns", "a", json!({}))));
    let running = world.cache.due(world.now).remove(0);
    world.kafka(Event::Apply(kafka("ns", json!({}))));
    world.kafka(managed());
    assert_eq!(world.due(), nothing(), "a pass over the same topics runs");
    assert_eq!(world.cache.next_due(), None);
    let (end, vanished) = (End::Through(BTreeSet::new()), Vec::new());
    world.cache.ended(&running.0, Done { end, vanished, is_moving: Some(false) }, world.now);
    assert_eq!(world.due(), here(&["a"]), "it was begun for the former spec");
}
