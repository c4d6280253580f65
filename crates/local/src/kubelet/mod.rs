//! A node agent that runs pods as processes. It uses only the API server.
//!
//! 1. Everything that is needed to find a container again is on disk before it is started. So a kubelet that
//!    is killed loses nothing: the next one adopts running containers by the files of their shims, and
//!    neither duplicates nor kills them.
//! 2. A process is killed only if it certainly belongs to a container.
//! 3. The next action for a pod and its status are pure functions of facts (`pod/decide.rs`,
//!    `pod/status.rs`); the rest observes and acts.
//! 4. Each pod has its own actor. No pod waits for another.
//!
//! Not enforced: CPU and memory limits, volume sizes, security contexts (a container runs as the user of the
//! kubelet), network policies.

pub mod address;
mod agent;
mod drain;
mod env;
mod events;
mod files;
mod host;
pub mod image;
pub mod layout;
mod node;
mod options;
mod pod;
mod probe;
mod process;
pub(crate) mod quantity;
pub mod server;
mod shared;
pub mod shim;
mod volume;

use std::fmt;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

pub use options::{Capacity, Options, Timing, parse_capacity};
pub use pod::decide::Backoff;

use agent::{Agent, Order};
use layout::Layout;
use shared::Shared;

/// How long a kubelet that was just killed may still hold its directory.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// How long the API server may take to respond at startup, possibly its own startup too.
const REGISTER_PATIENCE: Duration = Duration::from_secs(60);

/// Why an operation of the kubelet failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot use the kubelet's directory {}", path.display())]
    Dir {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    #[error("another kubelet uses the directory {}: give each kubelet its own", .0.display())]
    Locked(PathBuf),
    #[error("cannot serve logs and commands")]
    Serve(#[source] server::ServerError),
    #[error("cannot register the node; its identity needs the permissions of a node")]
    Register(#[source] kube::Error),
    #[error("cannot cordon the node")]
    Cordon(#[source] kube::Error),
    #[error("cannot evict the pods of the node")]
    Drain(#[source] kube::Error),
    #[error("the drain timed out; remaining pods: {}", .0.join(", "))]
    NotDrained(Vec<String>),
    #[error("cannot remove the Node object; a node has no permission to do it itself")]
    Remove(#[source] kube::Error),
}

/// A node on this machine. Dropping it leaves all containers running; the next kubelet with the same
/// directory adopts them.
pub struct Kubelet {
    shared: Arc<Shared>,
    orders: UnboundedSender<Order>,
    agent: JoinHandle<()>,
    /// Aborted on drop.
    _tasks: JoinSet<()>,
    pods: watch::Receiver<usize>,
    _lock: File,
}

impl Kubelet {
    /// Registers the node and starts to run its pods.
    ///
    /// # Errors
    /// If the directory cannot be used or the node cannot be registered.
    pub async fn start(mut options: Options) -> Result<Self, Error> {
        let lock = lock(&options.dir).await?;
        // Shims have another working directory.
        options.dir = fs::canonicalize(&options.dir).map_err(dir_error(&options.dir))?;
        let (table, hosts) = watch::channel(String::new());
        let mut tasks = JoinSet::new();
        let path = options.hosts_file.clone();
        tasks.spawn(async move { match agent::follow_hosts(path, table).await {} });
        let served = host::serve(&options, &mut tasks).await.map_err(Error::Serve)?;
        let shared = Arc::new(Shared::new(options, hosts, &served));
        let uid = register(&shared).await?;
        let name = shared.options.name.clone();
        shared.events.node(&name, "Starting", "Starting kubelet.".to_owned());
        tasks.spawn(node::keep_alive(Arc::clone(&shared), uid));
        let (orders, inbox) = mpsc::unbounded_channel();
        let (count, pods) = watch::channel(0);
        let agent = tokio::spawn(Agent::new(&shared, orders.clone(), count).run(inbox));
        Ok(Self { shared, orders, agent, _tasks: tasks, pods, _lock: lock })
    }

    /// The name of the node.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.options.name
    }

    /// Its files, for logs and commands.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.shared.layout
    }

    /// Number of pods, including terminating ones.
    #[must_use]
    pub fn pods(&self) -> usize {
        *self.pods.borrow()
    }

    /// Cordons the node and evicts its pods, respecting disruption budgets and grace periods.
    ///
    /// # Errors
    /// If pods remain at the time limit.
    pub async fn drain(&self, limit: Duration) -> Result<(), Error> {
        drain::drain(&self.shared.client, self.name(), limit).await
    }

    /// Drains the node, stops its remaining containers, and removes it from the cluster. `admin` needs the
    /// permission to remove nodes, which a node does not have.
    ///
    /// # Errors
    /// If pods remain at the time limit, or the Node cannot be removed.
    pub async fn leave(self, admin: &kube::Client, limit: Duration) -> Result<(), Error> {
        self.drain(limit).await?;
        let name = self.name().to_owned();
        self.stop().await;
        drain::remove(admin, &name).await
    }

    /// Stops all containers, each with the grace period of its pod, and keeps the files to resume them: the
    /// next start with the same directory starts them again, regardless of their restart policy.
    pub async fn stop(mut self) {
        let _ = self.orders.send(Order::Pause);
        let _ = (&mut self.agent).await;
    }

    /// Stops the kubelet and leaves all containers running.
    pub fn detach(self) {}
}

impl fmt::Debug for Kubelet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubelet").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.agent.abort();
    }
}

/// Stops the containers that a killed kubelet left running, each with the grace period of its pod. The next
/// start with the same directory resumes them.
///
/// # Errors
/// If a kubelet uses the directory, or it cannot be used.
pub async fn end_leftovers(dir: &Path) -> Result<(), Error> {
    if !dir.join("pods").is_dir() {
        return Ok(());
    }
    let _lock = lock(dir).await?;
    let layout = Layout::new(fs::canonicalize(dir).map_err(dir_error(dir))?);
    let records = layout.records();
    futures::future::join_all(records.iter().map(|record| pod::pause(&layout, record))).await;
    Ok(())
}

fn dir_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Dir { path, source }
}

/// Creates and locks the directory.
async fn lock(dir: &Path) -> Result<File, Error> {
    fs::create_dir_all(dir).map_err(dir_error(dir))?;
    // It contains values of Secrets.
    fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(dir_error(dir))?;
    let file = File::create(dir.join("lock")).map_err(dir_error(dir))?;
    let until = Instant::now() + LOCK_PATIENCE;
    while rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() > until {
            return Err(Error::Locked(dir.to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(file)
}

async fn register(shared: &Shared) -> Result<String, Error> {
    let until = Instant::now() + REGISTER_PATIENCE;
    loop {
        match node::register(shared).await {
            Ok(uid) => return Ok(uid),
            // A denied permission will not be granted by waiting.
            Err(kube::Error::Api(status)) if status.code == 403 || Instant::now() > until => {
                return Err(Error::Register(kube::Error::Api(status)));
            }
            Err(error) if Instant::now() > until => return Err(Error::Register(error)),
            Err(error) => tracing::info!(%error, "cannot register the node yet, will retry"),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
