//! A provisioner of volumes that are directories on the nodes of this process.
//!
//! For each claim of a class with the provisioner `gregor.io/local` whose pod was scheduled on one of our
//! nodes, it creates `<node dir>/volumes/pvc-<uid>/data` and then a `PersistentVolume` for it. The data
//! outlives pods, the node agent and the control plane.
//!
//! 1. The directory is on disk, marked with its claim, before the volume object exists. Names are derived
//!    from the claim's uid, so a crash between the two is repaired by repeating both.
//! 2. The data is removed before the object, and only a directory that is marked with the same uid is ever
//!    removed. A finalizer keeps the object until then.
//! 3. With the reclaim policy `Retain` nothing is removed.
//!
//! The size is not enforced: a volume can grow until the disk is full. The requested size is recorded, counts
//! in quotas, and can be increased.
//!
//! The provisioner never touches a volume that it did not create, and never decides where a pod runs.

mod act;
mod classes;
mod directory;
mod error;
mod plan;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::rights::rule;
use crate::watch;
use act::{Actor, Task};
use plan::{ClaimStep, VolumeStep};

pub use classes::{CLASS, CLASS_RETAIN, ensure_classes};
pub use error::StorageError;

/// The provisioner name in storage classes.
pub const PROVISIONER: &str = "gregor.io/local";

/// Provisions a whole cluster at once without overloading the API server.
const TASKS_AT_ONCE: usize = 8;

/// A failed task is retried after this time, doubled each time up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Required permissions, cluster-wide. A node has fewer. [`ensure_classes`] additionally creates and patches
/// storage classes.
#[must_use]
pub fn policy_rules() -> Vec<PolicyRule> {
    let volumes = ["get", "list", "watch", "create", "patch", "delete"];
    vec![
        rule("", &["persistentvolumes"], &volumes),
        rule("", &["persistentvolumeclaims"], &["get", "list", "watch"]),
        rule("", &["persistentvolumeclaims/status"], &["patch"]),
        rule("storage.k8s.io", &["storageclasses"], &["list", "watch"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ]
}

/// The volume directory of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeVolumes {
    node: String,
    volumes: PathBuf,
}

impl NodeVolumes {
    /// The volumes of the node with this name (also its label `kubernetes.io/hostname`), in
    /// `<node_dir>/volumes`. The path must be absolute, because volume objects contain it.
    pub fn new(node: impl Into<String>, node_dir: impl AsRef<Path>) -> Self {
        Self { node: node.into(), volumes: node_dir.as_ref().join("volumes") }
    }
}

/// A point at which a test can stop the provisioner, like a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The directory exists, the volume object does not.
    DirectoryMade,
    /// The volume object exists.
    VolumeCreated,
    /// The data is removed, the volume object is not.
    DataRemoved,
    /// The volume's capacity is increased, the claim's is not.
    VolumeGrown,
}

/// The provisioner of the nodes of this process.
pub struct Provisioner {
    client: Client,
    nodes: Vec<NodeVolumes>,
    stop_after: Option<Step>,
}

impl Provisioner {
    /// Several provisioners can share a control plane if each node belongs to one of them.
    pub fn new(client: Client, nodes: Vec<NodeVolumes>) -> Self {
        Self { client, nodes, stop_after: None }
    }

    /// Stops [`run`](Self::run) with an error right after this step. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn stop_after(mut self, step: Step) -> Self {
        self.stop_after = Some(step);
        self
    }

    /// Runs until it is dropped, which is safe at any moment. Failures of single tasks are logged, published
    /// as Events and retried.
    ///
    /// # Errors
    ///
    /// Only if a test requested to stop.
    pub async fn run(self) -> Result<Infallible, StorageError> {
        let mut tasks = JoinSet::new();
        let bell = Arc::new(Notify::new());
        let copies = Copies::keep(&self.client, &bell, &mut tasks);
        copies.wait_until_ready().await;
        let actor = Actor::new(self.client, self.stop_after);
        actor.sweep(&self.nodes).await;
        let mut retries = Retries::default();
        loop {
            let due = copies.tasks(&self.nodes).into_iter().filter(|task| retries.is_due(task));
            let done: Vec<_> = futures::stream::iter(due)
                .map(|task| async { (actor.perform(&task).await, task) })
                .buffer_unordered(TASKS_AT_ONCE)
                .collect()
                .await;
            for (result, task) in done {
                if let Err(StorageError::Stopped(step)) = result {
                    return Err(StorageError::Stopped(step));
                }
                retries.note(&task, result.is_ok());
            }
            tokio::select! {
                () = bell.notified() => {}
                () = retries.wait() => {}
            }
        }
    }
}

/// Caches of the relevant objects.
struct Copies {
    claims: Store<PersistentVolumeClaim>,
    volumes: Store<PersistentVolume>,
    classes: Store<StorageClass>,
}

impl Copies {
    fn keep(client: &Client, bell: &Arc<Notify>, tasks: &mut JoinSet<()>) -> Self {
        let config = watcher::Config::default;
        Self {
            claims: watch::keep(Api::all(client.clone()), config(), bell.clone(), tasks),
            volumes: watch::keep(Api::all(client.clone()), config(), bell.clone(), tasks),
            classes: watch::keep(Api::all(client.clone()), config(), bell.clone(), tasks),
        }
    }

    async fn wait_until_ready(&self) {
        // The writers live as long as the tasks, so none of these can fail while we are polled.
        let _ready = futures::join!(
            self.claims.wait_until_ready(),
            self.volumes.wait_until_ready(),
            self.classes.wait_until_ready()
        );
    }

    /// All steps to execute now.
    fn tasks(&self, nodes: &[NodeVolumes]) -> Vec<Task> {
        let claims = self.claims.state().into_iter().filter_map(|claim| {
            let spec = claim.spec.as_ref()?;
            let class = spec.storage_class_name.as_deref();
            let class = class.and_then(|name| self.classes.get(&ObjectRef::new(name)));
            let volume = spec.volume_name.as_deref();
            let volume = volume.and_then(|name| self.volumes.get(&ObjectRef::new(name)));
            match plan::claim_step(&claim, class.as_deref(), volume.as_deref(), nodes) {
                ClaimStep::Nothing => None,
                step => Some(Task::Claim(claim, step)),
            }
        });
        let volumes =
            self.volumes.state().into_iter().filter_map(|volume| {
                match plan::volume_step(&volume, nodes) {
                    VolumeStep::Nothing => None,
                    step => Some(Task::Volume(volume, step)),
                }
            });
        claims.chain(volumes).collect()
    }
}

/// When failed tasks are retried.
#[derive(Debug, Default)]
struct Retries(BTreeMap<String, (u32, Instant)>);

impl Retries {
    fn is_due(&self, task: &Task) -> bool {
        self.0.get(&key(task)).is_none_or(|(_, next)| *next <= Instant::now())
    }

    fn note(&mut self, task: &Task, done: bool) {
        let key = key(task);
        if done {
            self.0.remove(&key);
            return;
        }
        let failures = self.0.get(&key).map_or(0, |(failures, _)| *failures);
        let pause = (RETRY_FIRST * 2u32.saturating_pow(failures)).min(RETRY_MAX);
        self.0.insert(key, (failures.saturating_add(1).min(16), Instant::now() + pause));
    }

    /// Waits until the first retry is due; forever if there is none.
    async fn wait(&self) {
        match self.0.values().map(|(_, next)| *next).min() {
            // A retry that was due in the past and has no task any more must not keep the loop busy.
            Some(next) => {
                tokio::time::sleep_until(next.max(Instant::now() + RETRY_FIRST)).await;
            }
            None => std::future::pending().await,
        }
    }
}

fn key(task: &Task) -> String {
    match task {
        Task::Claim(claim, _) => format!("claim {}", claim.uid().unwrap_or_default()),
        Task::Volume(volume, _) => format!("volume {}", volume.name_any()),
    }
}
