//! Supervises one data plane: reconciles it with the desired state, and reports what it observes.
//!
//! Every step looks at what is recorded and at what runs, and does what is missing; so a step that failed or
//! was cut off is only done again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use fleet::agent::install::{self, AgentInstallation};
use fleet::identity::Credentials;
use fleet::provider::AgentAccess;
use local::control_plane::{self, ControlPlane, Error as PlaneError, Options, StateDir};
use local::{manifests, storage};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Common;
use super::nodes::Nodes;
use super::record::{Desired, Place};
use crate::machine::images::agent_image;
use crate::machine::{audit_log, end_leftovers, start_proxy};

/// Between two passes when nothing changes.
const PAUSE: Duration = Duration::from_secs(1);

/// After a failure of everything, such as a control plane that does not start.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);

/// How long an agent's token is good. It is renewed long before.
const TOKEN_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
const TOKEN_RENEWAL: Duration = Duration::from_secs(24 * 3600);

/// What a keeper has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// The control plane, its first nodes and the operator are there.
    pub(super) installed: bool,
    /// The manager to which its agent reports.
    pub(super) agent_of: Option<String>,
    /// How many nodes there are, with those that are going.
    pub(super) nodes: Option<u32>,
    /// Nothing of it is left.
    pub(super) gone: bool,
}

/// The keeper of a data plane.
pub(super) struct Keeper {
    id: String,
    place: Place,
    common: Arc<Common>,
}

/// Why a life of the data plane has ended.
enum End {
    Stopped,
    Deleted,
}

/// A control plane that runs, with its nodes.
struct Running {
    plane: ControlPlane,
    nodes: Nodes,
    proxy: JoinHandle<()>,
    installed: bool,
    agent: Option<(String, Instant)>,
}

impl Keeper {
    pub(super) fn new(id: &str, place: Place, common: Arc<Common>) -> Self {
        Self { id: id.to_owned(), place, common }
    }

    /// Works until the data plane is gone, or until told to stop.
    pub(super) async fn run(
        self,
        mut desired: watch::Receiver<Desired>,
        seen: watch::Sender<Seen>,
        mut stop: watch::Receiver<bool>,
    ) {
        loop {
            match self.live(&mut desired, &seen, &mut stop).await {
                Ok(End::Stopped) => return,
                Ok(End::Deleted) => {
                    seen.send_modify(|seen| seen.gone = true);
                    return;
                }
                Err(error) => {
                    tracing::warn!(plane = self.id, "{error:#}; retrying");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(FAILURE_PAUSE) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// One life of the control plane in this process.
    async fn live(
        &self,
        desired: &mut watch::Receiver<Desired>,
        seen: &watch::Sender<Seen>,
        stop: &mut watch::Receiver<bool>,
    ) -> anyhow::Result<End> {
        // Nothing is started for one that is being deleted.
        if desired.borrow().deleting {
            self.clear().await?;
            return Ok(End::Deleted);
        }
        let mut running = tokio::select! {
            running = self.start() => running?,
            // Whatever was started ends with the attempt.
            _ = stop.wait_for(|stop| *stop) => return Ok(End::Stopped),
        };
        let end = loop {
            let current = desired.borrow_and_update().clone();
            if current.deleting {
                break End::Deleted;
            }
            if *stop.borrow() {
                break End::Stopped;
            }
            if let Err(error) = self.step(&mut running, &current, seen).await {
                tracing::warn!(plane = self.id, "{error:#}; retrying");
            }
            seen.send_if_modified(|seen| running.tell(seen));
            tokio::select! {
                _ = desired.changed() => {}
                _ = stop.changed() => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
        };
        running.stop().await?;
        if let End::Deleted = end {
            self.clear().await?;
        }
        Ok(end)
    }

    async fn start(&self) -> anyhow::Result<Running> {
        let binaries = self.common.programs.binaries.clone();
        let state = self.place.kubernetes();
        let audit_log = audit_log(&state);
        let options = Options { audit_log, ..Options::new(state, binaries) };
        let id = self.id.clone();
        let report = move |event| tracing::debug!(plane = id, ?event, "the control plane");
        let plane = ControlPlane::start(options, report).await?;
        let client = plane.client();
        storage::ensure_classes(&client).await.context("cannot create the storage classes")?;
        let proxy = start_proxy(&plane);
        let nodes = Nodes::new(self.place.clone(), Arc::clone(&self.common))?;
        Ok(Running { plane, nodes, proxy, installed: false, agent: None })
    }

    /// All that is missing, in the order in which one rests on the other.
    async fn step(
        &self,
        running: &mut Running,
        desired: &Desired,
        seen: &watch::Sender<Seen>,
    ) -> anyhow::Result<()> {
        running.nodes.start(&running.plane, desired).await?;
        if !running.installed {
            let mut objects = self.common.programs.operator.manifests()?;
            manifests::sort(&mut objects);
            manifests::apply(&running.plane.client(), &objects, |_| {}).await?;
            running.installed = true;
        }
        seen.send_if_modified(|seen| running.tell(seen));
        if let Some(manager) = &desired.manager {
            self.install_agent(running, manager).await?;
            seen.send_if_modified(|seen| running.tell(seen));
        }
        running.nodes.let_go(&running.plane, desired).await
    }

    async fn install_agent(&self, running: &mut Running, manager: &str) -> anyhow::Result<()> {
        let is_done = |(to, at): &(String, Instant)| to == manager && at.elapsed() < TOKEN_RENEWAL;
        if running.agent.as_ref().is_some_and(is_done) {
            return Ok(());
        }
        let token = self.common.issuer.agent(&self.id, TOKEN_LIFE)?;
        let access =
            AgentAccess { manager: manager.to_owned(), credentials: Credentials::Token(token) };
        let mut installation = AgentInstallation::new(&agent_image(), &self.id, &access);
        installation.arguments.push(format!("--interval={}", self.common.report_seconds));
        let (client, objects) = (running.plane.client(), install::objects(&installation));
        let applied = install::apply(&client, &objects).await;
        applied.map_err(anyhow::Error::from_boxed).context("cannot install the agent")?;
        running.agent = Some((manager.to_owned(), Instant::now()));
        Ok(())
    }

    /// Ends whatever an earlier life has left, and removes everything.
    async fn clear(&self) -> anyhow::Result<()> {
        let kubernetes = self.place.kubernetes();
        end_leftovers(&kubernetes).await?;
        match StateDir::open(&kubernetes) {
            Ok(dir) => {
                let held = dir.hold()?;
                control_plane::end_leftovers(&held, |_| {}).await?;
                StateDir::purge(held)?;
            }
            // It was never begun, or is gone up to its last file.
            Err(PlaneError::NoStateDir(_) | PlaneError::NotAStateDir(_)) => {}
            Err(error) => return Err(error.into()),
        }
        self.place.remove().context("cannot remove what is left")
    }
}

impl Running {
    /// Tells what is there now; false if that is known.
    fn tell(&self, seen: &mut Seen) -> bool {
        let now = Seen {
            installed: self.installed && self.nodes.all_started(),
            agent_of: self.agent.as_ref().map(|(manager, _)| manager.clone()),
            nodes: self.nodes.all_started().then(|| self.nodes.count()),
            gone: false,
        };
        let changed = *seen != now;
        *seen = now;
        changed
    }

    /// Ends pods first, and then what they talk to.
    async fn stop(self) -> anyhow::Result<()> {
        self.nodes.stop().await;
        self.proxy.abort();
        self.plane.stop().await?;
        Ok(())
    }
}
