//! An edit that is planned on a file, compared with the same edit on the objects that the file was made of.

use control::cluster::snapshot::SettingsView;
use control::life::coexist::Selector;
use control::rolling::config::{Described, Source};
use k8s_openapi::api::core::v1::Secret;
use model::NodeId;
use serde_json::json;

use super::super::{Edit, Start};
use super::*;
use crate::store;

/// What must not be in a file.
const CANARY: &str = "canary";

fn settings() -> Settings {
    Settings {
        namespaces: Vec::new(),
        kafka_images: [("4.3.1".to_owned(), "kafka:4.3.1".to_owned())].into(),
        cluster_domain: "cluster.local".to_owned(),
        interval: Duration::ZERO,
        operation_timeout: OPERATION_TIMEOUT,
        watches_other_namespaces: false,
        selector: Selector::default(),
    }
}

fn kafka(config: Value) -> Value {
    let listener = json!({ "name": "plain", "port": 9092, "type": "internal", "tls": false });
    json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
        "metadata": { "name": "my", "namespace": "here", "uid": "u" },
        "spec": { "kafka": { "version": "4.3.1", "listeners": [listener], "config": config } },
    })
}

fn pool(replicas: u32) -> Value {
    let storage = json!({ "type": "persistent-claim", "size": "1Gi" });
    json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaNodePool",
        "metadata": { "name": "both", "namespace": "here", "labels": { "strimzi.io/cluster": "my" } },
        "spec": { "replicas": replicas, "roles": ["controller", "broker"], "storage": storage },
    })
}

fn named<K: serde::de::DeserializeOwned>(all: &mut ByName<K>, sent: &Value) {
    let name = sent["metadata"]["name"].as_str().unwrap().to_owned();
    all.insert(name, serde_json::from_value(sent.clone()).unwrap());
}

/// Has everything be there that was built, as if it had been applied.
fn apply(work: &Work, found: &mut Found) {
    for (object, compared) in &work.objects.changes {
        let sent = &compared.sent;
        match object {
            Object::ServiceAccount(_) => named(&mut found.accounts, sent),
            Object::NetworkPolicy(_) => named(&mut found.policies, sent),
            Object::PodDisruptionBudget(_) => named(&mut found.budgets, sent),
            Object::Service(_) => named(&mut found.services, sent),
            Object::PersistentVolumeClaim(_) => named(&mut found.claims, sent),
            Object::ConfigMap(_) => named(&mut found.config_maps, sent),
            Object::PodSet(_) => named(&mut found.pod_sets, sent),
            Object::ClusterRoleBinding(_) => {}
        }
    }
    for pod in work.objects.pod_sets.iter().flat_map(|set| &set.spec.pods) {
        let mut pod = serde_json::to_value(pod).unwrap();
        pod["metadata"]["uid"] = json!("u");
        pod["status"] = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
        named(&mut found.pods, &pod);
    }
    let name = work.blueprint.names.record();
    let mut map: ConfigMap =
        serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
    store::encode(&mut map, &work.record, &store::Unknown::default()).unwrap();
    found.config_maps.insert(name, map);
}

/// A cluster with this configuration that is as it should be.
async fn live(config: Value) -> (Stage, View) {
    let ctx = Context::new(Writer::closed(client::closed()), settings(), "test");
    let written = kafka(config);
    let kafka: Kafka = typed(&written, "Kafka").unwrap();
    let pools = vec![FoundPool { pool: typed(&pool(1), "pool").unwrap(), written: pool(1) }];
    let mut found = Found { pools, at_ms: 1, ..Found::default() };
    let begun = steps::desired::begin(&ctx, kafka.clone(), &written, found.clone());
    let mut work = begun.unwrap().unwrap();
    work.record.quorum.mode = control::quorum::format::QuorumMode::Dynamic;
    build::all(&mut work, true).await;
    apply(&work, &mut found);
    let secret = json!({ "metadata": { "name": "s" }, "stringData": { "key": CANARY } });
    named::<Secret>(&mut found.secrets, &secret);
    let stage = Stage { ctx, in_full: false };
    let view = stage.go((kafka, &written), Start::of(found), Extent::Present).await.unwrap();
    (stage, view)
}

/// Through a file, in which values are hidden as `gregor status --snapshot` does it.
fn file(stage: &Stage, view: &View) -> (String, Saved) {
    let saved = stage.saved(view).unwrap();
    let text = serde_json::to_string(&saved).unwrap();
    let read: Saved = serde_json::from_str(&text).unwrap();
    assert_eq!(read, saved);
    let hidden = text.replace("\"hunter2\"", &format!("\"{HIDDEN}\""));
    (text, serde_json::from_str(&hidden).unwrap())
}

async fn edited(stage: &Stage, view: &View, edit: &Edit) -> View {
    stage.edited(&Names::new("here", "my"), edit, Some(view)).await.unwrap()
}

async fn restored(saved: Saved, observed: Observed) -> Result<(Stage, View), ForeseeError> {
    Stage::restored(&Names::new("here", "my"), saved, observed).await
}

fn edit(kafka: Option<Value>, pools: &[Value]) -> Edit {
    let pools = pools.iter().map(|pool| ("both".to_owned(), pool.clone())).collect();
    Edit { kafka, pools, ..Edit::default() }
}

fn same(live: &View, file: &View) {
    assert_eq!(file.refused, live.refused);
    assert_eq!((&file.recorded, &file.desired), (&live.recorded, &live.desired));
    assert_eq!(file.pods, live.pods);
    assert_eq!(file.properties, live.properties);
    assert_eq!(file.kafka_version, live.kafka_version);
    assert_eq!(file.claims, live.claims);
    assert_eq!(file.written, live.written);
    assert_eq!((&file.notes, &file.warnings), (&live.notes, &live.warnings));
}

#[tokio::test]
async fn an_edit_comes_to_the_same_on_a_file() {
    let (stage, view) = live(json!({ "log.retention.ms": 5 })).await;
    let (_, saved) = file(&stage, &view);
    let (again, present) = restored(saved, view.observed.clone()).await.unwrap();
    same(&view, &present);
    assert!(!present.pods.is_empty());
    let edits = [
        Edit::default(),
        edit(None, &[pool(3)]),
        edit(Some(kafka(json!({ "log.retention.ms": 6, "num.partitions": 2 }))), &[]),
        edit(Some(kafka(json!({ "offsets.topic.replication.factor": "many" }))), &[pool(0)]),
        Edit { deleted_pools: ["both".to_owned()].into(), ..Edit::default() },
    ];
    for edit in edits {
        let (live, file) =
            (edited(&stage, &view, &edit).await, edited(&again, &present, &edit).await);
        same(&live, &file);
    }
    // ConfigMaps are compared although they are not in the file.
    let unchanged = edited(&again, &present, &Edit::default()).await;
    let changed = edit(Some(kafka(json!({ "log.retention.ms": 6 }))), &[]);
    let changed = edited(&again, &present, &changed).await;
    let maps = |view: &View| view.written.iter().filter(|one| one.kind == "ConfigMap").count();
    assert_eq!((maps(&unchanged), maps(&changed)), (0, 1));
}

#[tokio::test]
async fn nothing_secret_and_no_content_of_config_maps_is_in_a_file() {
    let (stage, view) = live(json!({})).await;
    assert!(view.known.as_ref().unwrap().found.secrets.contains_key("s"));
    let (text, saved) = file(&stage, &view);
    assert!(!text.contains(CANARY) && !text.contains("server.config"), "{text}");
    assert!(saved.config_maps.values().filter(|map| map.data.is_some()).count() == 1);
    assert!(saved.pods.values().all(|pod| pod.spec.is_none()));
}

#[tokio::test]
async fn values_that_a_file_hides_are_no_change() {
    const PASSWORD: &str = "my.plugin.password";
    const LIFETIME: &str = "delegation.token.max.lifetime.ms";
    let config = |password: Option<&str>| match password {
        Some(password) => json!({ PASSWORD: password, LIFETIME: "hunter2" }),
        None => json!({ LIFETIME: "hunter2" }),
    };
    let (stage, mut view) = live(config(Some("hunter2"))).await;
    // Kafka shows one of them.
    let running = Described {
        value: Some("hunter2".to_owned()),
        source: Source::File,
        read_only: true,
        sensitive: false,
        synonyms: Vec::new(),
    };
    let (node, snapshot) = (NodeId::new(0).unwrap(), view.observed.snapshot.as_mut().unwrap());
    let running = [(LIFETIME.to_owned(), running)].into();
    let seen = SettingsView { desired: BTreeMap::new(), running };
    snapshot.kafka.settings.insert(node, Fact::read(seen, 1));
    let (_, saved) = file(&stage, &view);
    assert!(!serde_json::to_string(&saved).unwrap().contains("hunter2"));
    let (again, present) = restored(saved, view.observed.clone()).await.unwrap();
    for password in ["hunter2", "other"] {
        let edit = edit(Some(kafka(config(Some(password)))), &[]);
        let edited = edited(&again, &present, &edit).await;
        let fields = [LIFETIME, PASSWORD].map(|key| format!("Kafka: spec.kafka.config.{key}"));
        assert_eq!(edited.hidden, fields);
        assert_eq!(edited.properties, present.properties);
        assert_eq!(edited.pods, present.pods);
        assert!(edited.written.iter().all(|one| one.kind != "ConfigMap"), "{:?}", edited.written);
        let diff = edited.roll.as_ref().unwrap().0.nodes[0].config.clone().unwrap();
        assert!(diff.restart.is_empty() && !diff.has_updates(), "{diff:?}");
    }
    // That one is gone is seen.
    let edited = edited(&again, &present, &edit(Some(kafka(config(None))), &[])).await;
    assert_ne!(edited.properties, present.properties);
    assert_eq!(edited.hidden.len(), 1);
}

#[tokio::test]
async fn what_is_not_in_a_file_is_not_known() {
    let (stage, view) = live(json!({})).await;
    let (_, saved) = file(&stage, &view);
    let (again, present) = restored(saved, view.observed.clone()).await.unwrap();
    let mut rack = kafka(json!({}));
    rack["spec"]["kafka"]["rack"] = json!({ "topologyKey": "zone" });
    let reference = json!({ "configMapKeyRef": { "name": "rules", "key": "k" } });
    rack["spec"]["kafka"]["metricsConfig"] =
        json!({ "type": "jmxPrometheusExporter", "valueFrom": reference });
    let mut larger = pool(1);
    larger["spec"]["storage"]["size"] = json!("2Gi");
    larger["spec"]["storage"]["class"] = json!("fast");
    let edited = edited(&again, &present, &edit(Some(rack), &[larger])).await;
    let notes: Vec<_> = edited.notes.iter().map(|(_, note)| note.message.as_str()).collect();
    let binding = "ClusterRoleBinding strimzi-here-my-kafka-init is not part of the snapshot";
    assert!(notes.contains(&binding), "{notes:?}");
    let rules = "ConfigMap rules is not part of the snapshot: assuming that it has the entry k";
    assert!(notes.contains(&rules), "{notes:?}");
    assert!(!edited.held && !edited.pods.is_empty(), "{notes:?}");
    assert!(!edited.secrets_readable);
}

#[tokio::test]
async fn resources_that_are_refused_now_are_no_plan() {
    let (stage, view) = live(json!({})).await;
    let mut saved = stage.saved(&view).unwrap();
    saved.kafka_images.clear();
    let error = restored(saved.clone(), view.observed.clone()).await.err().unwrap();
    assert!(matches!(error, ForeseeError::Refused(_)), "{error}");
    saved.assume_version("4.3.1");
    assert!(restored(saved, view.observed.clone()).await.is_ok());
}

#[tokio::test]
async fn an_edit_that_repairs_what_is_refused_is_planned() {
    let (stage, view) = live(json!({})).await;
    let saved = stage.saved(&view).unwrap();
    let mut observed = view.observed.clone();
    let note = control::conditions::Note::new(control::conditions::Reason::InvalidResource, "no");
    (observed.refused, observed.snapshot) = (Some(note.clone()), None);
    observed.record = control::cluster::record::Record::default();
    let (again, present) = restored(saved, observed).await.unwrap();
    assert_eq!(present.refused, Some(note));
    let repaired = edited(&again, &present, &edit(Some(kafka(json!({}))), &[])).await;
    assert_eq!((repaired.refused, repaired.written), (None, Vec::new()));
}

#[tokio::test]
async fn a_file_that_is_made_up_is_refused() {
    let (stage, view) = live(json!({})).await;
    let saved = stage.saved(&view).unwrap();
    let list = json!([{ "name": "my", "namespace": "here" }, { "kafka": {} }, null]);
    let kafka = Saved { kafka: list, ..saved.clone() };
    let pools = Saved { pools: vec![json!([{ "name": "both" }, {}, null])], ..saved.clone() };
    for made_up in [kafka, pools, Saved::default()] {
        let error = restored(made_up, view.observed.clone()).await.err().unwrap();
        assert!(matches!(error, ForeseeError::Unreadable { .. }), "{error}");
    }
    let other = Names::new("here", "other");
    let error = Stage::restored(&other, saved, view.observed.clone()).await.err().unwrap();
    assert!(matches!(error, ForeseeError::Mixed), "{error}");
}

#[tokio::test]
async fn hashes_of_what_is_hidden_are_not_in_a_file() {
    let (stage, view) = live(json!({})).await;
    let saved = serde_json::to_value(stage.saved(&view).unwrap()).unwrap();
    for kind in ["configMaps", "podSets"] {
        let all = saved[kind].as_object().unwrap();
        assert!(!all.is_empty());
        assert!(!saved[kind].to_string().contains("gregor.io/applied"), "{kind}");
    }
    assert!(saved["services"].to_string().contains("gregor.io/applied"));
}
