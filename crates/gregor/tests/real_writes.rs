//! The operator's writes and its election against a real API server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use artifacts::kubernetes;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use local::control_plane::{ControlPlane, Options};
use operator::crash::CrashSwitch;
use operator::fence::Fence;
use operator::lease::{Election, Timing};
use operator::metrics::Metrics;
use operator::write::{Deleted, Object, WriteError, Writer};
use rustix::process::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A control plane that ends with the test.
struct World {
    plane: ControlPlane,
    temp: tempfile::TempDir,
}

impl World {
    async fn start() -> Self {
        let environment = artifacts::Environment::from_process();
        let binaries = kubernetes::ensure(&environment, None, &artifacts::Silent).unwrap();
        let temp = tempfile::tempdir().unwrap();
        let options = Options::for_test(temp.path().join("state"), binaries);
        let plane = ControlPlane::start(options, |_| {}).await.unwrap();
        Self { plane, temp }
    }

    fn client(&self) -> Client {
        self.plane.client()
    }

    fn writer(&self, fence: Fence) -> Writer {
        Writer::new(self.client(), fence, CrashSwitch::Off, Metrics::new())
    }

    async fn install_definitions(&self) {
        let client = self.client();
        let objects = api::crds::crds().iter().map(api::crds::manifest).collect();
        let manifests = local::manifests::from_objects("test", objects).unwrap();
        local::manifests::apply(&client, &manifests, |_| {}).await.unwrap();
        let sets = Api::<api::StrimziPodSet>::all(client);
        let begun = Instant::now();
        while sets.list(&ListParams::default()).await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the definitions are not served");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn object(kind: &str, version: &str, more: Value) -> Value {
    let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "a" } });
    for (name, value) in more.as_object().unwrap() {
        object[name] = value.clone();
    }
    object
}

/// How many writes of a kind ended so.
fn count(writer: &Writer, kind: &str, outcome: &str) -> u64 {
    let text = writer.metrics().encode();
    let begins = format!("gregor_writes_total{{kind=\"{kind}\",");
    let of_kind = text.lines().filter(|line| line.starts_with(&begins));
    let wanted = of_kind.filter(|line| line.contains(&format!("outcome=\"{outcome}\"")));
    wanted.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// Applied twice, the second time with what is stored now: nothing is sent, whatever the server has added
/// and however it writes things.
async fn nothing_is_sent_twice<K>(writer: &Writer, object: Value)
where
    K: Object + kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    let api = Api::<K>::namespaced(writer.client().clone(), "default");
    let kind = K::kind(&()).into_owned();
    let desired: K = typed(object);
    let first = writer.apply(&api, "a", &desired, None).await.unwrap();
    let stored = api.get("a").await.unwrap();
    assert_eq!(without_status(&first), without_status(&stored));
    writer.apply(&api, "a", &desired, Some(&stored)).await.unwrap();
    let counts = (count(writer, &kind, "Changed"), count(writer, &kind, "Skipped"));
    assert_eq!(counts, (1, 1), "{kind}: {}", serde_json::to_string_pretty(&stored).unwrap());
}

/// An object without what controllers of Kubernetes may write at any time.
fn without_status(object: &impl Serialize) -> Value {
    let mut object = serde_json::to_value(object).unwrap();
    object.as_object_mut().unwrap().remove("status");
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.retain(|name, _| name != "resourceVersion" && name != "managedFields");
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_changes_nothing_is_not_sent_and_one_that_does_is() {
    let world = World::start().await;
    world.install_definitions().await;
    let writer = world.writer(Fence::open());
    kinds_of_a_cluster(&writer).await;
    drift_and_removal_are_noticed(&writer).await;
    a_status_is_written_whole(&writer).await;
    what_the_server_drops_is_not_sent_again(&writer).await;
    only_the_one_that_is_meant_is_replaced_or_deleted(&writer).await;
    the_server_holds_an_apply_to_its_version(&writer).await;
    what_others_wrote_is_read_again(&writer).await;
}

async fn kinds_of_a_cluster(writer: &Writer) {
    let config = json!({ "data": { "a": "1", "empty": "" } });
    nothing_is_sent_twice::<ConfigMap>(writer, object("ConfigMap", "v1", config)).await;
    let secret = json!({ "stringData": { "a": "b" }, "type": "Opaque" });
    nothing_is_sent_twice::<Secret>(writer, object("Secret", "v1", secret)).await;
    let service = json!({ "spec": {
        "selector": { "a": "b" },
        "publishNotReadyAddresses": false,
        "ports": [{ "name": "tcp", "port": 9092 }, { "name": "tls", "port": 9093, "targetPort": "tls" }],
    } });
    nothing_is_sent_twice::<Service>(writer, object("Service", "v1", service)).await;
    let account = json!({ "automountServiceAccountToken": false });
    nothing_is_sent_twice::<ServiceAccount>(writer, object("ServiceAccount", "v1", account)).await;
    let claim = json!({ "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1024Mi" } },
    } });
    let claim = object("PersistentVolumeClaim", "v1", claim);
    nothing_is_sent_twice::<PersistentVolumeClaim>(writer, claim).await;
    let budget = json!({ "spec": {
        "minAvailable": 2, "selector": { "matchLabels": { "a": "b" } },
    } });
    let budget = object("PodDisruptionBudget", "policy/v1", budget);
    nothing_is_sent_twice::<PodDisruptionBudget>(writer, budget).await;
    let policy = json!({ "spec": {
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [{ "from": [{ "namespaceSelector": {} }], "ports": [{ "port": 9091 }] }, {}],
    } });
    let policy = object("NetworkPolicy", "networking.k8s.io/v1", policy);
    nothing_is_sent_twice::<NetworkPolicy>(writer, policy).await;
    let pod = json!({ "metadata": { "name": "a-0", "creationTimestamp": null }, "spec": {
        "containers": [{ "name": "c", "image": "i", "resources": { "limits": { "cpu": 2 } } }],
    } });
    let set = json!({ "spec": {
        "selector": { "matchLabels": { "a": "b" } }, "pods": [pod],
    } });
    let set = object("StrimziPodSet", "core.strimzi.io/v1", set);
    nothing_is_sent_twice::<api::StrimziPodSet>(writer, set).await;
}

async fn drift_and_removal_are_noticed(writer: &Writer) {
    let api = Api::<ConfigMap>::namespaced(writer.client().clone(), "default");
    let map = |data: Value| -> ConfigMap {
        typed(
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "b" }, "data": data }),
        )
    };
    let both = map(json!({ "x": "1", "y": "2" }));
    writer.apply(&api, "b", &both, None).await.unwrap();
    // Somebody else changes a value of ours and adds one of his own.
    let patch = Patch::Merge(json!({ "data": { "x": "9", "theirs": "3" } }));
    let drifted = api.patch("b", &PatchParams::default(), &patch).await.unwrap();
    let back = writer.apply(&api, "b", &both, Some(&drifted)).await.unwrap();
    let data = |map: &ConfigMap| serde_json::to_value(&map.data).unwrap();
    assert_eq!(data(&back), json!({ "x": "1", "y": "2", "theirs": "3" }));
    // What we no longer want is all there still; it is taken away, and theirs stays.
    let less = writer.apply(&api, "b", &map(json!({ "x": "1" })), Some(&back)).await.unwrap();
    assert_eq!(data(&less), json!({ "x": "1", "theirs": "3" }));
    // Also if somebody has deleted it in between.
    api.delete("b", &Default::default()).await.unwrap();
    writer.apply(&api, "b", &both, None).await.unwrap();
    assert_eq!(data(&api.get("b").await.unwrap()), json!({ "x": "1", "y": "2" }));
    // A single annotation, and again, and away.
    let note = json!({ "metadata": { "annotations": { "note": "1" } } });
    let noted = writer.patch(&api, "b", &note, None).await.unwrap().unwrap();
    assert!(writer.patch(&api, "b", &note, Some(&noted)).await.unwrap().is_none());
    let away = json!({ "metadata": { "annotations": { "note": null } } });
    let gone = writer.patch(&api, "b", &away, Some(&noted)).await.unwrap().unwrap();
    assert_eq!(gone.annotations().get("note"), None);
    assert!(writer.patch(&api, "b", &away, Some(&gone)).await.unwrap().is_none());
}

async fn a_status_is_written_whole(writer: &Writer) {
    let api = Api::<api::StrimziPodSet>::namespaced(writer.client().clone(), "default");
    let status = |time: &str, ready: i64| {
        json!({
            "readyPods": ready,
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": time }],
        })
    };
    let set = api.get("a").await.unwrap();
    let first = status("2026-01-01T00:00:00Z", 1);
    let set = writer.patch_status(&api, "a", &first, Some(&set)).await.unwrap().unwrap();
    let later = status("2026-01-02T00:00:00Z", 1);
    assert!(writer.patch_status(&api, "a", &later, Some(&set)).await.unwrap().is_none());
    let other = json!({ "currentPods": 1 });
    let set = writer.patch_status(&api, "a", &other, Some(&set)).await.unwrap().unwrap();
    assert_eq!(serde_json::to_value(set.status).unwrap(), json!({ "currentPods": 1 }));
}

/// Where the server drops a field of a status it is sent once, and again only when something changed.
async fn what_the_server_drops_is_not_sent_again(writer: &Writer) {
    let api = Api::<PersistentVolumeClaim>::namespaced(writer.client().clone(), "default");
    let claim = api.get("a").await.unwrap();
    let mut status = serde_json::to_value(&claim.status).unwrap();
    status["noSuchField"] = json!("x");
    // The first time it is noted who has written to the status, which is a change.
    let noted = writer.patch_status(&api, "a", &status, Some(&claim)).await.unwrap().unwrap();
    let sent = writer.patch_status(&api, "a", &status, Some(&noted)).await.unwrap().unwrap();
    assert_eq!(sent.resource_version(), noted.resource_version(), "it was not dropped");
    assert!(writer.patch_status(&api, "a", &status, Some(&sent)).await.unwrap().is_none());
    let note = json!({ "metadata": { "annotations": { "note": "1" } } });
    let changed = writer.patch(&api, "a", &note, None).await.unwrap().unwrap();
    assert!(writer.patch_status(&api, "a", &status, Some(&changed)).await.unwrap().is_some());
}

async fn only_the_one_that_is_meant_is_replaced_or_deleted(writer: &Writer) {
    let api = Api::<ConfigMap>::namespaced(writer.client().clone(), "default");
    let map: ConfigMap = typed(object("ConfigMap", "v1", json!({})));
    let exists = writer.create(&api, &map).await.unwrap_err();
    assert!(matches!(exists, WriteError::Exists { .. }), "{exists}");
    let seen = api.get("a").await.unwrap();
    let mut newer = seen.clone();
    newer.data.get_or_insert_default().insert("n".into(), "1".into());
    writer.replace(&api, &newer).await.unwrap();
    let conflict = writer.replace(&api, &newer).await.unwrap_err();
    assert!(matches!(conflict, WriteError::Conflict { .. }), "{conflict}");
    let gone = writer.delete(&api, "a", ("0000-another", None)).await.unwrap();
    assert_eq!(gone, Deleted::Another);
    let uid = seen.uid().unwrap();
    let closed = Writer::new(
        writer.client().clone(),
        Fence::closed(),
        CrashSwitch::Off,
        writer.metrics().clone(),
    );
    let refused = closed.delete(&api, "a", (&uid, None)).await.unwrap_err();
    assert!(matches!(refused, WriteError::NotLeader { .. }), "{refused}");
    assert!(api.get_opt("a").await.unwrap().is_some());
    let version = seen.resource_version();
    let outdated = (uid.as_str(), version.as_deref());
    assert_eq!(
        writer.delete(&api, "a", ("0000-another", outdated.1)).await.unwrap(),
        Deleted::Another
    );
    // It was changed since; one that leads reads it again.
    assert_ne!(api.get("a").await.unwrap().resource_version(), version);
    assert_eq!(writer.delete(&api, "a", outdated).await.unwrap(), Deleted::Asked);
    assert_eq!(writer.delete(&api, "a", outdated).await.unwrap(), Deleted::Absent);
    the_server_holds_a_deletion_to_its_version(writer).await;
    let wrong: Service = typed(object("Service", "v1", json!({ "spec": { "ports": [] } })));
    let services = Api::<Service>::namespaced(writer.client().clone(), "default");
    let mut wrong = wrong;
    wrong.metadata.name = Some("Not A Name".into());
    let invalid = writer.create(&services, &wrong).await.unwrap_err();
    assert!(matches!(invalid, WriteError::Invalid { .. }), "{invalid}");
}

/// What the fence of deletions rests on.
async fn the_server_holds_a_deletion_to_its_version(writer: &Writer) {
    let api = Api::<ConfigMap>::namespaced(writer.client().clone(), "default");
    let map: ConfigMap = typed(object("ConfigMap", "v1", json!({})));
    let first = writer.create(&api, &map).await.unwrap();
    let note = json!({ "metadata": { "annotations": { "note": "1" } } });
    let second = writer.patch(&api, "a", &note, None).await.unwrap().unwrap();
    for (version, expected) in [(first.resource_version(), 409), (second.resource_version(), 200)] {
        let seen = Preconditions { uid: first.uid(), resource_version: version };
        let params = DeleteParams::background().preconditions(seen);
        let code = match api.delete("a", &params).await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(code, expected);
    }
}

/// What the fence of applied objects rests on.
async fn the_server_holds_an_apply_to_its_version(writer: &Writer) {
    let api = Api::<ConfigMap>::namespaced(writer.client().clone(), "default");
    let apply = async |version: &str, uid: Option<&str>, value: &str| {
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "tied", "resourceVersion": version },
            "data": { "x": value },
        });
        if let Some(uid) = uid {
            object["metadata"]["uid"] = uid.into();
        }
        let params = PatchParams::apply("test").force();
        match api.patch("tied", &params, &Patch::Apply(&object)).await {
            Ok(map) => Ok(map),
            Err(kube::Error::Api(status)) => Err(status.code),
            Err(error) => panic!("{error}"),
        }
    };
    let none = Some("00000000-0000-4000-8000-000000000000");
    assert_eq!(apply("7", none, "0").await.unwrap_err(), 409, "what is gone is not made again");
    let first = apply("1", None, "1").await.unwrap();
    assert_eq!(apply("1", None, "2").await.unwrap_err(), 409, "there is one by now");
    let (version, uid) = (first.resource_version().unwrap(), first.uid().unwrap());
    let second = apply(&version, Some(&uid), "2").await.unwrap();
    assert_eq!(apply(&version, Some(&uid), "3").await.unwrap_err(), 409, "it has changed");
    assert_eq!(second.data.unwrap()["x"], "2");
    let owned = serde_json::to_string(&second.metadata.managed_fields).unwrap();
    assert!(!owned.contains("resourceVersion") && !owned.contains("f:uid"), "{owned}");
    api.delete("tied", &Default::default()).await.unwrap();
}

/// One that leads need not mind that somebody else has written, made or deleted the object since.
async fn what_others_wrote_is_read_again(writer: &Writer) {
    let api = Api::<ConfigMap>::namespaced(writer.client().clone(), "default");
    let map = |value: &str| -> ConfigMap {
        let metadata = json!({ "name": "shared" });
        let data = json!({ "x": value });
        typed(
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data }),
        )
    };
    let first = writer.apply(&api, "shared", &map("1"), None).await.unwrap();
    let again = writer.apply(&api, "shared", &map("2"), None).await.unwrap();
    assert_eq!(again.data.unwrap()["x"], "2");
    let third = writer.apply(&api, "shared", &map("3"), Some(&first)).await.unwrap();
    assert_eq!(third.data.clone().unwrap()["x"], "3");
    api.delete("shared", &Default::default()).await.unwrap();
    let made = writer.apply(&api, "shared", &map("4"), Some(&third)).await.unwrap();
    assert_ne!(made.uid(), third.uid());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_leads_and_the_next_one_follows() {
    let world = World::start().await;
    // Quick, so that the test is; in the same proportions.
    let timing = Timing {
        lease: Duration::from_secs(3),
        give_up: Duration::from_secs(2),
        retry: Duration::from_millis(300),
    };
    let candidate = |name: &str| Election::new(world.client(), "default", "lead", name, timing);
    let leases = Api::<Lease>::namespaced(world.client(), "default");
    let holder = async || {
        let lease = leases.get("lead").await.unwrap();
        let spec = lease.spec.unwrap();
        (spec.holder_identity, spec.lease_transitions)
    };
    let mut first = candidate("first");
    let fence = first.fence();
    assert_eq!(fence.time_left(), Duration::ZERO);
    first.win().await;
    assert!(fence.time_left() > Duration::from_secs(2));
    assert_eq!(holder().await, (Some("first".to_owned()), Some(0)));

    // While one leads nobody else does, for longer than a Lease.
    let mut second = candidate("second");
    tokio::select! {
        () = first.keep() => panic!("it lost the Lease"),
        () = second.win() => panic!("two lead"),
        () = tokio::time::sleep(timing.lease * 2) => {}
    }
    // Given away it is taken at once, and not a Lease later.
    first.release().await.unwrap();
    assert_eq!(fence.time_left(), Duration::ZERO);
    let asked = Instant::now();
    second.win().await;
    assert!(asked.elapsed() < timing.lease, "{:?}", asked.elapsed());
    assert_eq!(holder().await, (Some("second".to_owned()), Some(1)));

    // The same pod begins a new life: it does not wait for itself.
    drop(second);
    let mut second = candidate("second");
    let asked = Instant::now();
    second.win().await;
    assert!(asked.elapsed() < timing.lease, "{:?}", asked.elapsed());

    // One that stops renewing is followed only after its own fence has closed.
    let fence = second.fence();
    let mut third = candidate("third");
    third.win().await;
    assert_eq!(fence.time_left(), Duration::ZERO);
    assert_eq!(holder().await, (Some("third".to_owned()), Some(2)));
    // And it notices.
    let noticed = tokio::time::timeout(Duration::from_secs(5), second.keep()).await;
    assert!(noticed.is_ok(), "the former leader goes on");
}

/// An operator that ends itself after every act, outside of any pod.
struct Life(Child);

impl Life {
    fn begin(world: &World) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_gregor"))
            .args(["operator", "--identity=same", "--http-port=0", "--one-act-per-life"])
            .env("KUBECONFIG", world.plane.kubeconfig_path())
            .env("GREGOR_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// What it did, if it ended within this time.
    fn act(&mut self, patience: Duration) -> Option<String> {
        let begun = Instant::now();
        while begun.elapsed() < patience {
            if let Some(status) = self.0.try_wait().unwrap() {
                use std::os::unix::process::ExitStatusExt as _;
                assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}");
                let mut text = String::new();
                std::io::Read::read_to_string(self.0.stderr.as_mut().unwrap(), &mut text).unwrap();
                let line = text.lines().rfind(|line| line.starts_with("one act per life: "));
                return line.map(|line| line["one act per life: ".len()..].to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_one_act_per_life_a_set_of_pods_still_comes_to_be_once() {
    let world = World::start().await;
    world.install_definitions().await;
    let labels = json!({ "strimzi.io/kind": "Kafka", "set": "a" });
    let pod = |name: &str| {
        json!({
            "metadata": { "name": name, "labels": labels },
            "spec": { "containers": [{ "name": "c", "image": "pause" }] },
        })
    };
    let set = json!({ "spec": {
        "selector": { "matchLabels": labels },
        "pods": [pod("a-0"), pod("a-1"), pod("a-2")],
    } });
    let sets = Api::<api::StrimziPodSet>::namespaced(world.client(), "default");
    let set = typed(object("StrimziPodSet", "core.strimzi.io/v1", set));
    sets.create(&PostParams::default(), &set).await.unwrap();
    let mut acts = Vec::new();
    // A life that lasts this long has nothing more to do.
    while let Some(act) = Life::begin(&world).act(Duration::from_secs(8)) {
        acts.push(act);
        assert!(acts.len() < 30, "it never ends: {acts:#?}");
    }
    let created: Vec<_> = acts.iter().filter(|act| act.starts_with("create Pod ")).collect();
    assert_eq!(
        created,
        ["create Pod default/a-0", "create Pod default/a-1", "create Pod default/a-2"],
        "{acts:#?}"
    );
    let pods = Api::<Pod>::namespaced(world.client(), "default");
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 3);
    let status = sets.get("a").await.unwrap().status.unwrap();
    assert_eq!((status.pods, status.current_pods), (Some(3), Some(3)));
    drop(world.temp);
}
