//! Volumes on a real control plane: the real scheduler chooses nodes and the real controllers bind,
//! release and protect. Pods are only objects; their data is written by the tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "support/cluster.rs"]
mod cluster;
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use local::storage::{self, NodeVolumes, Provisioner, Step, StorageError};
use serde_json::json;
use tokio::task::JoinHandle;

use cluster::{Cluster, eventually};

/// One namespace and one node with its provisioner.
struct Stage<'a> {
    cluster: &'a Cluster,
    /// What the provisioner works with: no more rights than it says it needs.
    client: kube::Client,
    name: &'a str,
}

/// A provisioner that ends with its scenario.
struct Running(JoinHandle<StorageError>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<'a> Stage<'a> {
    async fn new(cluster: &'a Cluster, name: &'a str) -> Self {
        cluster.namespace(name).await;
        cluster.node(name, "127.0.0.1".parse().unwrap(), json!({})).await;
        let client = cluster.limited(name, storage::policy_rules()).await;
        Self { cluster, client, name }
    }

    fn provisioner(&self) -> Provisioner {
        let node = NodeVolumes::new(self.name, self.cluster.node_dir(self.name));
        Provisioner::new(self.client.clone(), vec![node])
    }

    fn run(&self) -> Running {
        let work = self.provisioner().run();
        Running(tokio::spawn(async { work.await.unwrap_err() }))
    }

    /// Lives until the step, as if killed there.
    async fn run_until(&self, step: Step) {
        let ended = self.provisioner().stop_after(step).run().await;
        assert!(matches!(ended, Err(StorageError::Stopped(found)) if found == step), "{ended:?}");
    }

    async fn claim(&self, changes: serde_json::Value) {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"],
                              "resources": {"requests": {"storage": "1Gi"}}});
        spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let object = json!({"metadata": {"name": "data"}, "spec": spec});
        self.cluster.create::<PersistentVolumeClaim>(self.name, object).await;
    }

    /// A pod for the node of this stage that uses the claim.
    async fn pod(&self) {
        let object = json!({
            "metadata": {"name": "pod"},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": self.name},
                "containers": [{"name": "c", "image": "x",
                                "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
            },
        });
        self.cluster.create::<Pod>(self.name, object).await;
    }

    fn claims(&self) -> Api<PersistentVolumeClaim> {
        self.cluster.api(self.name)
    }

    fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.cluster.client.clone())
    }

    /// Waits until the claim is bound, and returns its volume.
    async fn bound(&self) -> PersistentVolume {
        let claim = eventually("a bound claim", || async {
            let claim = self.claims().get("data").await.unwrap();
            let phase = claim.status.as_ref().and_then(|status| status.phase.clone());
            (phase.as_deref() == Some("Bound")).then_some(claim)
        })
        .await;
        let name = claim.spec.unwrap().volume_name.unwrap();
        assert_eq!(name, format!("pvc-{}", claim.metadata.uid.unwrap()));
        self.volumes().get(&name).await.unwrap()
    }

    async fn scheduled(&self) {
        let pods = self.cluster.api::<Pod>(self.name);
        eventually("a pod on its node", || async {
            pods.get("pod").await.unwrap().spec.unwrap().node_name
        })
        .await;
    }

    /// The pod goes, and then the claim.
    async fn end(&self) {
        self.cluster.end_pod(self.name, "pod").await;
        self.claims().delete("data", &DeleteParams::default()).await.unwrap();
        eventually("a claim that is gone", || async {
            self.claims().get_opt("data").await.unwrap().is_none().then_some(())
        })
        .await;
    }

    async fn gone(&self, volume: &PersistentVolume) {
        let name = volume.name_any();
        eventually("a volume that is gone", || async {
            self.volumes().get_opt(&name).await.unwrap().is_none().then_some(())
        })
        .await;
        assert!(self.directories().is_empty(), "{:?}", self.directories());
    }

    fn directories(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.cluster.node_dir(self.name).join("volumes")) else {
            return Vec::new();
        };
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

fn path(volume: &PersistentVolume) -> PathBuf {
    Path::new(&volume.spec.as_ref().unwrap().local.as_ref().unwrap().path).to_owned()
}

fn storage(
    amounts: Option<
        &std::collections::BTreeMap<
            String,
            k8s_openapi::apimachinery::pkg::api::resource::Quantity,
        >,
    >,
) -> String {
    amounts.unwrap()["storage"].0.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_live_as_long_as_their_class_says() {
    let cluster = Cluster::start().await;
    storage::ensure_classes(&cluster.client).await.unwrap();
    storage::ensure_classes(&cluster.client).await.unwrap();
    data_outlives_its_pod_and_goes_with_its_claim(&cluster).await;
    retained_data_outlives_its_claim_and_its_volume(&cluster).await;
    a_claim_that_asks_for_more_gets_it(&cluster).await;
    a_volume_that_is_deleted_first_goes_with_its_data(&cluster).await;
    what_cannot_be_had_is_told(&cluster).await;
    a_directory_that_is_not_ours_is_left_alone(&cluster).await;
}

async fn data_outlives_its_pod_and_goes_with_its_claim(cluster: &Cluster) {
    let stage = Stage::new(cluster, "delete").await;
    let _running = stage.run();
    stage.claim(json!({})).await;
    stage.pod().await;
    let volume = stage.bound().await;
    stage.scheduled().await;
    assert_eq!(volume.spec.as_ref().unwrap().storage_class_name.as_deref(), Some(storage::CLASS));
    fs::write(path(&volume).join("log"), "kept").unwrap();
    cluster.event(stage.name, "data", "Provisioning").await;
    let words = cluster.event(stage.name, "data", "ProvisioningSucceeded").await;
    assert_eq!(words, format!("Successfully provisioned volume {}", volume.name_any()));

    cluster.end_pod(stage.name, "pod").await;
    stage.pod().await;
    stage.scheduled().await;
    assert_eq!(fs::read_to_string(path(&volume).join("log")).unwrap(), "kept");
    stage.end().await;
    stage.gone(&volume).await;
}

async fn retained_data_outlives_its_claim_and_its_volume(cluster: &Cluster) {
    let stage = Stage::new(cluster, "retain").await;
    let _running = stage.run();
    stage.claim(json!({"storageClassName": storage::CLASS_RETAIN})).await;
    stage.pod().await;
    let volume = stage.bound().await;
    fs::write(path(&volume).join("log"), "kept").unwrap();
    stage.end().await;
    let name = volume.name_any();
    eventually("a released volume", || async {
        let phase = stage.volumes().get(&name).await.unwrap().status.unwrap().phase;
        (phase.as_deref() == Some("Released")).then_some(())
    })
    .await;
    stage.volumes().delete(&name, &DeleteParams::default()).await.unwrap();
    eventually("a volume that is gone", || async {
        stage.volumes().get_opt(&name).await.unwrap().is_none().then_some(())
    })
    .await;
    // Also another life leaves it alone.
    drop(stage.run());
    assert_eq!(fs::read_to_string(path(&volume).join("log")).unwrap(), "kept");
}

async fn a_claim_that_asks_for_more_gets_it(cluster: &Cluster) {
    let stage = Stage::new(cluster, "grow").await;
    let running = stage.run();
    stage.claim(json!({})).await;
    stage.pod().await;
    stage.bound().await;
    drop(running);
    let more = Patch::Merge(json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}}));
    stage.claims().patch("data", &PatchParams::default(), &more).await.unwrap();
    stage.run_until(Step::VolumeGrown).await;
    let claim = stage.claims().get("data").await.unwrap();
    assert_eq!(storage(claim.status.unwrap().capacity.as_ref()), "1Gi");
    let _running = stage.run();
    eventually("a grown claim", || async {
        let claim = stage.claims().get("data").await.unwrap();
        (storage(claim.status.unwrap().capacity.as_ref()) == "3Gi").then_some(())
    })
    .await;
    let volume = stage.bound().await;
    assert_eq!(storage(volume.spec.as_ref().unwrap().capacity.as_ref()), "3Gi");
}

async fn a_volume_that_is_deleted_first_goes_with_its_data(cluster: &Cluster) {
    let stage = Stage::new(cluster, "volume-first").await;
    let _running = stage.run();
    stage.claim(json!({})).await;
    stage.pod().await;
    let volume = stage.bound().await;
    fs::write(path(&volume).join("log"), "in use").unwrap();
    stage.volumes().delete(&volume.name_any(), &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(fs::read_to_string(path(&volume).join("log")).unwrap(), "in use");
    stage.end().await;
    stage.gone(&volume).await;
}

async fn what_cannot_be_had_is_told(cluster: &Cluster) {
    let stage = Stage::new(cluster, "refused").await;
    let _running = stage.run();
    stage.claim(json!({"accessModes": ["ReadWriteMany"]})).await;
    stage.pod().await;
    let words = cluster.event(stage.name, "data", "ProvisioningFailed").await;
    assert!(words.contains("gregor-local") && words.contains("ReadWriteOnce"), "{words}");
    assert!(stage.directories().is_empty());
}

async fn a_directory_that_is_not_ours_is_left_alone(cluster: &Cluster) {
    let stage = Stage::new(cluster, "foreign").await;
    stage.claim(json!({})).await;
    let uid = stage.claims().get("data").await.unwrap().metadata.uid.unwrap();
    let home = cluster.node_dir(stage.name).join("volumes").join(format!("pvc-{uid}"));
    fs::create_dir_all(home.join("data")).unwrap();
    fs::write(home.join("data").join("precious"), "x").unwrap();
    let _running = stage.run();
    stage.pod().await;
    let words = cluster.event(stage.name, "data", "ProvisioningFailed").await;
    assert!(words.contains("left unchanged"), "{words}");
    fs::rename(&home, cluster.dir().join("moved-away")).unwrap();
    let volume = stage.bound().await;
    assert_eq!(fs::read_dir(path(&volume)).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_point_is_repaired_by_the_next_life() {
    let cluster = Cluster::start().await;
    storage::ensure_classes(&cluster.client).await.unwrap();
    for (name, step) in [("made", Step::DirectoryMade), ("created", Step::VolumeCreated)] {
        let stage = Stage::new(&cluster, name).await;
        stage.claim(json!({})).await;
        stage.pod().await;
        stage.run_until(step).await;
        assert_eq!(stage.directories().len(), 1);
        let _running = stage.run();
        let volume = stage.bound().await;
        assert_eq!(stage.directories(), [path(&volume).parent().unwrap()]);
        stage.scheduled().await;
    }
    the_object_goes_after_the_data(&cluster).await;
    a_claim_that_is_gone_leaves_nothing(&cluster, "gone-early", Step::DirectoryMade).await;
    a_claim_that_is_gone_leaves_nothing(&cluster, "gone-late", Step::VolumeCreated).await;
}

async fn the_object_goes_after_the_data(cluster: &Cluster) {
    let stage = Stage::new(cluster, "removed").await;
    let running = stage.run();
    stage.claim(json!({})).await;
    stage.pod().await;
    let volume = stage.bound().await;
    fs::write(path(&volume).join("log"), "x").unwrap();
    drop(running);
    stage.end().await;
    stage.run_until(Step::DataRemoved).await;
    assert!(stage.directories().is_empty());
    assert!(stage.volumes().get_opt(&volume.name_any()).await.unwrap().is_some());
    let _running = stage.run();
    stage.gone(&volume).await;
}

async fn a_claim_that_is_gone_leaves_nothing(cluster: &Cluster, name: &str, step: Step) {
    let stage = Stage::new(cluster, name).await;
    stage.claim(json!({})).await;
    stage.pod().await;
    stage.run_until(step).await;
    stage.end().await;
    let _running = stage.run();
    eventually("nothing on the disk", || async { stage.directories().is_empty().then_some(()) })
        .await;
    eventually("no volume", || async {
        let list = stage.volumes().list(&Default::default()).await.unwrap();
        let of_this = |volume: &PersistentVolume| {
            volume.spec.as_ref().unwrap().claim_ref.as_ref().unwrap().namespace.as_deref()
                == Some(name)
        };
        (!list.items.iter().any(of_this)).then_some(())
    })
    .await;
}
