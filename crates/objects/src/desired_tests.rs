//! Specs and records, accepted and rejected.

use control::cluster::origin::Origin;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;

use super::*;
use crate::found::FoundPool;
use crate::object;
use crate::samples::{blueprint, id};

/// The resources and existing objects of a cluster.
struct Scene {
    kafka: Kafka,
    found: Found,
    record: Option<Record>,
    made: u8,
}

impl Scene {
    /// Two brokers and one controller; no objects exist.
    fn new() -> Self {
        Self::with(json!({}), json!({}))
    }

    fn with(kafka: Value, pool: Value) -> Self {
        let sample = blueprint(kafka, pool);
        let pools = sample.pools.into_iter().map(|pool| {
            let written = serde_json::to_value(&pool).unwrap();
            FoundPool { pool, written }
        });
        let found = Found { pools: pools.collect(), ..Found::default() };
        Self { kafka: sample.kafka, found, record: None, made: 0 }
    }

    fn pool(&mut self, name: &str) -> &mut KafkaNodePool {
        let mut pools = self.found.pools.iter_mut();
        &mut pools.find(|one| one.pool.name_any() == name).unwrap().pool
    }

    fn accept(&mut self) -> Result<Desired, Refused> {
        self.accept_with(json!({}))
    }

    /// Accepts the resource with more fields in its spec.
    fn accept_with(&mut self, fields: Value) -> Result<Desired, Refused> {
        let mut written = serde_json::to_value(&self.kafka).unwrap();
        for (name, value) in fields.as_object().unwrap() {
            written["spec"][name] = value.clone();
        }
        let made = &mut self.made;
        let mut fresh = || {
            *made += 1;
            DirectoryId::from_bytes([*made; 16]).unwrap()
        };
        accept(Input {
            kafka: self.kafka.clone(),
            written: &written,
            found: &self.found,
            record: self.record.clone(),
            images: &[("4.3.1".to_owned(), "image".to_owned())].into(),
            domain: "cluster.local",
            watches_other_namespaces: false,
            fresh: &mut fresh,
        })
    }

    /// Accepts the spec and keeps the record.
    fn pass(&mut self) -> Desired {
        let desired = self.accept().unwrap();
        self.record = Some(desired.record.clone());
        desired
    }

    /// Adds a claim.
    fn claim(&mut self, name: &str, cluster_id: Option<&str>, roles: Option<&str>) {
        let annotations = json!({ claims::CLUSTER_ID: cluster_id, claims::ROLES: roles });
        let metadata = json!({ "name": name, "annotations": annotations });
        let mut claim: Value = json!({ "metadata": metadata });
        let annotations = claim["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.retain(|_, value| !value.is_null());
        self.found.claims.insert(name.to_owned(), object(claim).unwrap());
    }

    fn reason(&mut self) -> &'static str {
        self.accept().unwrap_err().note.reason.name()
    }
}

fn numbers(nodes: impl IntoIterator<Item = NodeId>) -> Vec<i32> {
    nodes.into_iter().map(NodeId::get).collect()
}

#[test]
fn a_cluster_gets_its_id_and_its_first_controllers_once() {
    let mut scene = Scene::new();
    let first = scene.pass();
    assert_eq!(numbers(first.blueprint.nodes.iter().map(|node| node.id)), [0, 1, 2]);
    assert_eq!(numbers(first.blueprint.desired.keys().copied()), [0, 1, 2]);
    assert_eq!(first.record.quorum.mode, QuorumMode::Dynamic);
    let initial = first.record.quorum.initial.to_string();
    assert!(initial.starts_with("2@my-controller-2."), "{initial}");
    // The directory of the controller, and the cluster.
    assert_eq!(scene.made, 2);
    assert!(first.record.cluster_id.is_some());
    let second = scene.pass();
    assert_eq!((second.record, scene.made), (first.record, 2));
}

#[test]
fn a_lost_record_is_rebuilt_and_not_begun_anew() {
    let mut scene = Scene::new();
    let initial = scene.pass().record.quorum.initial.to_string();
    scene.record = None;
    scene.made = 0;
    // From the status of the resources.
    let status = json!({ "clusterId": "abc", "initialControllers": initial });
    scene.kafka.status = serde_json::from_value(status).unwrap();
    let status = json!({ "nodeIds": [4, 5], "roles": ["broker"] });
    scene.pool("broker").status = serde_json::from_value(status).unwrap();
    let rebuilt = scene.pass();
    assert_eq!((rebuilt.record.cluster_id.as_deref(), scene.made), (Some("abc"), 0));
    assert!(rebuilt.record.quorum.rebuilt);
    assert_eq!(rebuilt.record.quorum.mode, QuorumMode::Dynamic);
    assert_eq!(numbers(rebuilt.record.ids("broker")), [4, 5]);
    // Without a list of initial controllers the mode is unknown.
    scene.record = None;
    scene.kafka.status = serde_json::from_value(json!({ "clusterId": "abc" })).unwrap();
    assert_eq!(scene.pass().record.quorum.mode, QuorumMode::Unknown);
    // From a claim, if even the status is lost.
    scene.record = None;
    scene.kafka.status = None;
    let annotations = json!({ claims::CLUSTER_ID: "def" });
    let claim: PersistentVolumeClaim =
        object(json!({ "metadata": { "name": "data-my-broker-4", "annotations": annotations } }))
            .unwrap();
    scene.found.claims.insert("data-my-broker-4".to_owned(), claim);
    assert_eq!(scene.pass().record.cluster_id.as_deref(), Some("def"));
    assert_eq!(scene.made, 0);
    // With the mode of the quorum, with which nodes start although none of them runs.
    scene.record = None;
    let claim = scene.found.claims.get_mut("data-my-broker-4").unwrap();
    let annotations = claim.metadata.annotations.as_mut().unwrap();
    annotations.insert(claims::QUORUM_MODE.to_owned(), "static".to_owned());
    assert_eq!(scene.pass().record.quorum.mode, QuorumMode::Static);
}

#[test]
fn a_record_that_contradicts_itself_is_refused() {
    let mut scene = Scene::new();
    scene.pass();
    scene.record.as_mut().unwrap().cluster_id = None;
    assert_eq!(scene.reason(), "QuorumModeUnknown");
}

#[test]
fn nodes_come_and_go_by_the_pools_and_those_that_leave_stay_until_they_may_go() {
    let mut scene = Scene::new();
    scene.pass();
    scene.pool("broker").spec.replicas = 3;
    let more = scene.pass();
    assert_eq!(numbers(more.blueprint.desired.keys().copied()), [0, 1, 2, 3]);
    assert_eq!(numbers(more.record.ids("broker")), [0, 1, 3]);
    scene.pool("broker").spec.replicas = 1;
    let fewer = scene.pass();
    assert_eq!(numbers(fewer.blueprint.desired.keys().copied()), [0, 2]);
    assert_eq!(numbers(fewer.blueprint.nodes.iter().map(|node| node.id)), [0, 1, 2, 3]);
    // A pool that is being deleted has no desired nodes.
    let deleted = json!({ "name": "broker", "deletionTimestamp": "2026-01-01T00:00:00Z" });
    scene.pool("broker").metadata = serde_json::from_value(deleted).unwrap();
    let none = scene.pass();
    assert_eq!(numbers(none.blueprint.desired.keys().copied()), [2]);
    assert_eq!(none.blueprint.nodes.len(), 4);
}

#[test]
fn a_static_quorum_gets_no_controller() {
    let mut scene = Scene::new();
    scene.pass();
    let record = scene.record.as_mut().unwrap();
    record.quorum.mode = QuorumMode::Static;
    scene.pool("controller").spec.replicas = 3;
    let desired = scene.pass();
    assert_eq!(numbers(desired.blueprint.refused.iter().copied()), [3, 4]);
    assert_eq!(numbers(desired.record.ids("controller")), [2]);
}

#[test]
fn storage_that_cannot_be_changed_stays_and_the_user_is_told() {
    let mut scene = Scene::new();
    let before = scene.pass();
    let mut changed = Scene::with(json!({}), json!({ "storage": { "type": "ephemeral" } }));
    changed.record = scene.record.clone();
    let after = changed.pass();
    assert_eq!(after.record.storage, before.record.storage);
    assert!(!after.warnings.is_empty());
    assert_eq!(after.blueprint.spec.pools[0].storage, before.blueprint.spec.pools[0].storage);
}

#[test]
fn what_cannot_be_had_is_refused_and_changes_nothing() {
    let mut scene = Scene::with(json!({ "version": "3.9.0" }), json!({}));
    assert_eq!(scene.reason(), "UnsupportedKafkaVersion");
    let mut scene = Scene::new();
    scene.found.unreadable_pools.push(("other".to_owned(), "no roles".to_owned()));
    let refused = scene.accept().unwrap_err();
    assert!(refused.note.message.contains("KafkaNodePool other"), "{refused:?}");
    assert_eq!((refused.note.reason.name(), scene.made), ("InvalidResource", 0));
}

#[test]
fn the_next_ids_that_a_user_asks_for_are_used() {
    let mut scene = Scene::new();
    scene.pass();
    let annotations = scene.pool("broker").annotations_mut();
    annotations.insert(ids::NEXT.to_owned(), "[100-109]".to_owned());
    scene.pool("broker").spec.replicas = 3;
    assert_eq!(numbers(scene.pass().record.ids("broker")), [0, 1, 100]);
}

/// A pool was removed past its finalizer, and then the record was lost. Its broker may host replicas: it is
/// scaled down like others.
#[test]
fn nodes_are_found_again_from_their_claims_when_all_statuses_are_lost() {
    let mut scene = Scene::new();
    scene.claim("data-0-my-broker-7", Some("abc"), Some("broker"));
    scene.claim("data-1-my-broker-7", Some("abc"), Some("broker"));
    scene.claim("data-0-my-broker-2", Some("abc"), Some("broker"));
    scene.claim("data-my-controller-12", Some("abc"), Some("controller"));
    let rebuilt = scene.pass();
    // Nothing is generated: an id would ask to format a disk.
    assert_eq!((rebuilt.record.cluster_id.as_deref(), scene.made), (Some("abc"), 0));
    assert!(rebuilt.record.quorum.rebuilt && rebuilt.record.quorum.initial.is_empty());
    assert_eq!(numbers(rebuilt.record.ids("broker")), [2, 7]);
    assert_eq!(numbers(rebuilt.record.ids("controller")), [12]);
    let roles: Vec<_> = rebuilt.record.nodes().iter().map(|node| node.roles).collect();
    assert_eq!(roles, [Roles::Broker, Roles::Broker, Roles::Controller]);
}

#[test]
fn a_lost_record_that_would_be_a_guess_is_refused() {
    type Change = fn(&mut Scene);
    let rows: [(&str, Change); 3] = [
        ("KafkaNodePool gone does not exist", |s| s.claim("data-0-my-gone-7", Some("abc"), None)),
        ("several clusters", |s| {
            s.claim("data-0-my-broker-0", Some("abc"), None);
            s.claim("data-0-my-broker-1", Some("def"), None);
        }),
        ("it is unknown whose data", |s| s.claim("data-0-my-broker-0", None, None)),
    ];
    for (expected, change) in rows {
        let mut scene = Scene::new();
        change(&mut scene);
        let refused = scene.accept().unwrap_err();
        assert_eq!(refused.note.reason, Reason::RecordLost);
        assert!(refused.note.message.contains(expected), "{}", refused.note.message);
        assert_eq!(scene.made, 0);
    }
}

#[test]
fn nodes_of_a_removed_pool_are_rebuilt_from_their_pod_set() {
    let mut scene = Scene::new();
    scene.kafka.status = serde_json::from_value(json!({ "clusterId": "abc" })).unwrap();
    let labels = |broker: &str, controller: &str| json!({ BROKER_LABEL: broker, CONTROLLER_LABEL: controller });
    let pod = |name: &str, labels: Value| json!({ "metadata": { "name": name, "labels": labels } });
    let pods = [
        pod("my-old-7", labels("true", "false")),
        pod("my-old-8", labels("true", "true")),
        pod("my-old-9", labels("false", "true")),
        pod("my-old-10", json!({})),
    ];
    let metadata = json!({ "name": "my-old", "labels": { POOL_LABEL: "old" } });
    let set = object(json!({
        "apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet", "metadata": metadata,
        "spec": { "selector": { "matchLabels": {} }, "pods": pods },
    }));
    scene.found.pod_sets.insert("my-old".to_owned(), set.unwrap());
    let rebuilt = scene.pass();
    let expected = [(7, Roles::Broker), (8, Roles::Combined), (9, Roles::Controller)];
    let expected = expected.map(|(id, roles)| (NodeId::new(id).unwrap(), roles));
    assert_eq!(rebuilt.record.pools["old"], expected.into());
    let stays = |id: i32| rebuilt.blueprint.nodes.iter().any(|node| node.id.get() == id);
    assert!([7, 8, 9].into_iter().all(stays), "{:?}", rebuilt.blueprint.nodes);
    assert!(!rebuilt.blueprint.desired.keys().any(|id| id.get() >= 7));
}

#[test]
#[rustfmt::skip]
fn every_reason_to_warn_or_to_refuse_has_a_row() {
    use Reason::{DuplicateNodeIds, InvalidNodeIds, InvalidResource, QuorumModeUnknown, RecordLost, UnhonouredFields, UnknownFields};
    type Change = fn(&mut Scene);
    fn record(scene: &mut Scene) -> &mut Record {
        scene.record.as_mut().unwrap()
    }
    fn name_ids(scene: &mut Scene) {
        scene.pool("broker").annotations_mut().insert(ids::NEXT.to_owned(), "many".to_owned());
        scene.pool("broker").spec.replicas = 3;
    }
    fn lose(scene: &mut Scene) {
        scene.record = None;
        scene.claim("data-0-my-gone-7", Some("abc"), None);
    }
    // More fields of the spec, what differs after the first pass, the reason, whether the spec is refused.
    let rows: [(Value, Change, Reason, bool); 7] = [
        (json!({ "zookeeper": { "replicas": 3 } }), |_| {}, UnhonouredFields, false),
        (json!({ "fieldOfTheFuture": 1 }),          |_| {}, UnknownFields, false),
        (json!({}), name_ids,                                InvalidNodeIds, false),
        (json!({}), |s| s.found.unreadable_pools.push(("other".to_owned(), "no roles".to_owned())), InvalidResource, true),
        (json!({}), |s| _ = record(s).pools.get_mut("controller").unwrap().insert(id(0), Roles::Controller), DuplicateNodeIds, true),
        (json!({}), |s| record(s).cluster_id = None,         QuorumModeUnknown, true),
        (json!({}), lose,                                    RecordLost, true),
    ];
    let mut seen = BTreeSet::new();
    for (fields, change, reason, is_refused) in rows {
        let mut scene = Scene::new();
        scene.pass();
        change(&mut scene);
        match scene.accept_with(fields) {
            Ok(Desired { warnings, .. }) => {
                let told: BTreeSet<Reason> = warnings.iter().map(|note| note.reason).collect();
                assert!(told.contains(&reason) && !is_refused, "{reason}: {warnings:?}");
            }
            Err(refused) => assert_eq!((refused.note.reason, true), (reason, is_refused)),
        }
        seen.insert(reason);
    }
    // Those of the validation have their rows there.
    let listed = Reason::OWN.iter().filter(|reason| reason.origins().contains(&Origin::Spec));
    assert_eq!(seen, listed.copied().collect());
}

#[test]
fn annotations_without_effect_are_named() {
    let mut scene = Scene::new();
    let annotated = |name: &str| {
        json!({ "name": name, "annotations": {
        "strimzi.io/delete-pod-and-pvc": "true", "gregor.io/max-parallel": "2",
    } })
    };
    scene.pool("broker").metadata = serde_json::from_value(annotated("broker")).unwrap();
    let pod = object(json!({ "metadata": annotated("my-broker-0") })).unwrap();
    scene.found.pods.insert("my-broker-0".to_owned(), pod);
    let mut warnings = scene.pass().warnings;
    warnings.retain(|note| note.message.contains("annotation"));
    let messages: Vec<_> = warnings.iter().map(|note| note.message.as_str()).collect();
    let expected = |of: &str| {
        format!(
            "{of}: the annotation strimzi.io/delete-pod-and-pvc is not supported: drain the broker, then delete its \
             claim and its pod with kubectl"
        )
    };
    assert_eq!(messages, [expected("KafkaNodePool broker"), expected("Pod my-broker-0")]);
    assert!(warnings.iter().all(|note| note.reason == Reason::UnhonouredFields));
}
