//! A node agent that runs pods as processes. It talks to the API server only.
//!
//! 1. Everything that is needed to find a container again is on the disk before it is started. So a
//!    kubelet that is killed loses nothing: the next one takes over what runs, by what the shims have
//!    written, and neither doubles nor kills it.
//! 2. A process is ended only if it is certain that it is a container's.
//! 3. What a pod does next and what its status says are pure functions of what is known
//!    (`pod/decide.rs`, `pod/status.rs`); the rest only looks, writes and does.
//! 4. Each pod has an actor of its own. No pod waits for another.
//!
//! What is not enforced: limits of CPU and memory, sizes of volumes, security contexts (a container
//! runs as the user of the kubelet), network policies.

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

/// How long a kubelet that has just been killed may still hold its directory.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// How long the API server may take to answer at the start, which may be its own start too.
const REGISTER_PATIENCE: Duration = Duration::from_secs(60);

/// Why a kubelet cannot do what it is to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory.
    #[error("the kubelet's directory {} cannot be used", path.display())]
    Dir {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Another kubelet.
    #[error("another kubelet runs with the directory {}: give each its own", .0.display())]
    Locked(PathBuf),
    /// The endpoint for logs and commands.
    #[error("logs and commands could not be served")]
    Serve(#[source] server::ServerError),
    /// The Node object.
    #[error(
        "the node could not be registered; the identity must be allowed to do what a node does"
    )]
    Register(#[source] kube::Error),
    /// The first step of a drain.
    #[error("the node could not be kept from getting new pods")]
    Cordon(#[source] kube::Error),
    /// A step of a drain.
    #[error("the node's pods could not be evicted")]
    Drain(#[source] kube::Error),
    /// The time was over.
    #[error("these pods did not leave in time: {}", .0.join(", "))]
    NotDrained(Vec<String>),
    /// The last step of leaving.
    #[error("the Node object could not be removed; a node may not do it itself")]
    Remove(#[source] kube::Error),
}

/// A node of a cluster, on this machine. Dropped, it leaves all containers running; the next one with
/// the same directory takes them over.
pub struct Kubelet {
    shared: Arc<Shared>,
    orders: UnboundedSender<Order>,
    agent: JoinHandle<()>,
    /// They end with this.
    _tasks: JoinSet<()>,
    pods: watch::Receiver<usize>,
    _lock: File,
}

impl Kubelet {
    /// Registers the node and takes its pods on.
    ///
    /// # Errors
    /// If the directory cannot be used or the node not be registered.
    pub async fn start(mut options: Options) -> Result<Self, Error> {
        let lock = lock(&options.dir).await?;
        // Shims have another working directory than we.
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

    /// Where things are on the disk, for those who serve logs and commands.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.shared.layout
    }

    /// How many pods are here, with those that are ending.
    #[must_use]
    pub fn pods(&self) -> usize {
        *self.pods.borrow()
    }

    /// Keeps new pods away and evicts those that are here, as budgets for disruption and grace periods
    /// allow.
    ///
    /// # Errors
    /// If pods are left when the time is over.
    pub async fn drain(&self, limit: Duration) -> Result<(), Error> {
        drain::drain(&self.shared.client, self.name(), limit).await
    }

    /// Drains the node, ends what is left on it, and removes it from the cluster. `admin` must be
    /// allowed to remove nodes, which a node itself is not.
    ///
    /// # Errors
    /// If pods are left when the time is over, or the Node cannot be removed.
    pub async fn leave(self, admin: &kube::Client, limit: Duration) -> Result<(), Error> {
        self.drain(limit).await?;
        let name = self.name().to_owned();
        self.stop().await;
        drain::remove(admin, &name).await
    }

    /// Ends all containers, each with the time that its pod gives it, and keeps what is needed to
    /// continue: the next start with the same directory starts them again, whatever their restart
    /// policy says.
    pub async fn stop(mut self) {
        let _ = self.orders.send(Order::Pause);
        let _ = (&mut self.agent).await;
    }

    /// Ends the kubelet and leaves all containers running.
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

/// Ends the containers that a kubelet which was killed has left running, each with the time that its pod
/// gave it. The next start with the same directory continues them.
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

/// Makes the directory and makes sure that nobody else uses it.
async fn lock(dir: &Path) -> Result<File, Error> {
    fs::create_dir_all(dir).map_err(dir_error(dir))?;
    // Values of Secrets are below it.
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
            // A refusal does not become a permission by waiting.
            Err(kube::Error::Api(status)) if status.code == 403 || Instant::now() > until => {
                return Err(Error::Register(kube::Error::Api(status)));
            }
            Err(error) if Instant::now() > until => return Err(Error::Register(error)),
            Err(error) => tracing::info!(%error, "the node is not registered yet"),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
