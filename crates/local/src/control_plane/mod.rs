//! A real Kubernetes control plane as processes: etcd, kube-apiserver, kube-controller-manager and
//! kube-scheduler, on 127.0.0.1, with their own certificates.
//!
//! All state is in one state directory, mode 0700:
//!
//! | path | content |
//! |---|---|
//! | `version` | format version; a newer one than ours is rejected |
//! | `lock`, `supervisor.json` | the process that runs it; one at a time |
//! | `ports.json` | ports of the components, stable across starts |
//! | `pki/` | certificates and keys, with their expiry |
//! | `kubeconfig` | for the user, with all permissions |
//! | `kubeconfigs/COMPONENT`, `nodes/NAME/kubeconfig` | for components and for nodes |
//! | `config/` | configuration of the API server |
//! | `etcd/` | the data |
//! | `run/COMPONENT.json` | the process of each component, with its exact command line |
//! | `logs/COMPONENT.log` | output of each component; long ones are rotated at a start |
//!
//! Invariants:
//!
//! 1. Whatever is killed, at any moment, no acknowledged write is lost (with [`Durability::Full`]: writes are
//!    synced before they are acknowledged).
//! 2. Every process is recorded in the state directory before it executes a component. So the next start
//!    finds what a killed one left, and adopts it if it is exactly what it would start itself, or else stops
//!    it.
//! 3. Of two starts in one directory the second one is rejected before it changes anything.
//!
//! This module does not imitate any part of the API, knows nothing of pods or Kafka, and never listens on an
//! address that other machines can reach.

mod components;
mod error;
mod health;
mod kubeconfig;
mod pki;
mod ports;
mod process;
mod state;
mod supervisor;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use artifacts::kubernetes::Binaries;

pub use crate::process::ProcessIdentity;
pub use components::Component;
pub use error::Error;
pub use pki::KeyFiles;
pub use state::{Held, StateDir};

use crate::network::Network;
use components::{AUDIT_POLICY, AUTHENTICATION_CONFIG, Surroundings};
use host::reaper::Reaper;
use pki::{Authority, Pki};
use ports::Ports;
use process::{CommandLine, Process};
use supervisor::{Seat, Watched};

/// Behaviour on power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// No acknowledged write is lost.
    #[default]
    Full,
    /// The last writes may be lost. Faster, and sufficient for tests; killing any process still loses
    /// nothing.
    Fast,
}

/// Options of a control plane.
#[derive(Debug, Clone)]
pub struct Options {
    /// The state directory, created if it does not exist.
    pub state_dir: PathBuf,
    pub binaries: Binaries,
    /// Whether writes are synced before they are acknowledged.
    pub durability: Durability,
    /// Whether the components are killed when this process exits, in any way: for tests.
    pub die_with_parent: bool,
    /// Audit log for the requests of service accounts: for tests.
    pub audit_log: Option<PathBuf>,
}

impl Options {
    /// A durable control plane that outlives this process.
    #[must_use]
    pub fn new(state_dir: impl Into<PathBuf>, binaries: Binaries) -> Self {
        let durability = Durability::Full;
        let state_dir = state_dir.into();
        Self { state_dir, binaries, durability, die_with_parent: false, audit_log: None }
    }

    /// For a test: fast, and stopped with the test.
    #[must_use]
    pub fn for_test(state_dir: impl Into<PathBuf>, binaries: Binaries) -> Self {
        let options = Self::new(state_dir, binaries);
        Self { durability: Durability::Fast, die_with_parent: true, ..options }
    }
}

/// An event in the life of a control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A process was started.
    Started {
        /// Of which component.
        component: Component,
        /// Its number.
        pid: u32,
    },
    /// A process of an earlier run was adopted.
    TakenOver {
        /// Of which component.
        component: Component,
        /// Its number.
        pid: u32,
    },
    /// A process of an earlier run differs from what would be started now, and is stopped.
    Replacing {
        /// Of which component.
        component: Component,
        /// Its number.
        pid: u32,
    },
    /// A port is in use by another program, so another one is used.
    PortMoved {
        component: Component,
        /// The port before.
        from: u16,
        /// The port now.
        to: u16,
    },
    /// A component is ready.
    Ready {
        /// Which.
        component: Component,
        /// Time since the start.
        after: Duration,
    },
    /// A component exited unexpectedly and is restarted.
    Died {
        /// Which.
        component: Component,
        /// Delay of the restart.
        pause: Duration,
    },
    /// A component is being stopped.
    Stopping {
        /// Which.
        component: Component,
    },
}

/// Receives events.
type Report = Arc<dyn Fn(Event) + Send + Sync>;

/// A running control plane. Dropping it kills all its processes and waits for them; [`ControlPlane::stop`]
/// shuts down in order, and [`ControlPlane::detach`] leaves them running.
pub struct ControlPlane {
    held: Option<Held>,
    state: StateDir,
    pki: Pki,
    ports: Ports,
    network: Network,
    client: kube::Client,
    watched: Vec<Watched>,
}

/// Credentials with which a node joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeIdentity {
    /// For the API: user `system:node:NAME`, group `system:nodes`.
    pub kubeconfig: PathBuf,
    /// Serving certificate, for the requested names and addresses and 127.0.0.1.
    pub serving: KeyFiles,
    /// CA of the API server's client certificate, whose common name is `kube-apiserver-kubelet-client`: a
    /// node must serve no other client.
    pub client_ca: PathBuf,
}

impl ControlPlane {
    /// Starts a control plane and waits until it is ready. Adopts processes of an earlier run.
    pub async fn start(
        options: Options,
        report: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        for component in Component::ALL {
            let program = options.binaries.program(component.program());
            CommandLine::new(program, Vec::new(), &[])?;
        }
        let held = StateDir::hold_or_create(&options.state_dir)?;
        let begin = Begin { options: &options, report: Arc::new(report), begun: Instant::now() };
        let prepared = match begin.prepare(&held.dir).await {
            Ok(prepared) => prepared,
            Err(error) => {
                held.discard_if_new();
                return Err(error);
            }
        };
        let (state, new) = (held.dir.clone(), held.new);
        let result = begin.run(held, prepared).await;
        if new && matches!(result, Err(Error::DiskFull(_))) {
            // The directory is empty, and the space may be needed.
            state.hold().and_then(StateDir::purge).ok();
        }
        result
    }

    /// The state directory.
    #[must_use]
    pub fn state_dir(&self) -> &StateDir {
        &self.state
    }

    /// A kubeconfig with all permissions, mode 0600.
    #[must_use]
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.state.kubeconfig()
    }

    /// A client with all permissions.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The CA certificate of the API, in PEM.
    pub fn ca_pem(&self) -> Result<String, Error> {
        let path = self.pki.files(Authority::Api.file()).certificate;
        std::fs::read_to_string(&path).map_err(Error::io("read", &path))
    }

    /// The loopback addresses of its services, nodes and pods.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The port of the API server on 127.0.0.1.
    #[must_use]
    pub fn api_port(&self) -> u16 {
        self.ports.api_server
    }

    /// The credentials of a node, created if necessary. The API server will call the node by `addresses`.
    pub fn node_identity(&self, name: &str, addresses: &[IpAddr]) -> Result<NodeIdentity, Error> {
        check_node_name(name)?;
        let [client, serving] = self.pki.ensure_node(name, addresses)?;
        let authority = self.pki.files(Authority::Api.file()).certificate;
        let kubeconfig = self.state.root().join("nodes").join(name).join("kubeconfig");
        let text = kubeconfig::text(self.ports.api_server, &authority, &client)?;
        state::write_private(&kubeconfig, &text)?;
        Ok(NodeIdentity { kubeconfig, serving, client_ca: authority })
    }

    /// Process id of a component; `None` between its exit and its restart.
    #[must_use]
    pub fn pid(&self, component: Component) -> Option<u32> {
        self.watched.iter().find(|one| one.seat.component == component)?.seat.pid()
    }

    /// Stops all components in reverse start order.
    pub async fn stop(mut self) -> Result<(), Error> {
        let mut result = Ok(());
        while let Some(watched) = self.watched.pop() {
            // The others are stopped anyway.
            result = result.and(watched.end().await);
        }
        result
    }

    /// Leaves all components running; the next start adopts them.
    pub async fn detach(mut self) {
        while let Some(watched) = self.watched.pop() {
            let seat = watched.leave().await;
            // Dropping it would kill them; now they are killed when this process exits.
            std::mem::forget(seat.reaper.clone());
        }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        while let Some(watched) = self.watched.pop() {
            if let Err(error) = watched.kill() {
                tracing::error!(%error, "cannot stop a component");
            }
        }
        // Last, so that nothing else can be started before all have exited.
        self.held.take();
    }
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Stops the processes of an earlier run in a state directory that no process holds, in reverse start order.
pub async fn end_leftovers(held: &Held, report: impl Fn(Event)) -> Result<(), Error> {
    for component in Component::ALL.into_iter().rev() {
        if let Some((mut process, _)) = Process::find(&held.dir, component, None) {
            report(Event::Stopping { component });
            process.end(supervisor::PATIENCE).await?;
        }
    }
    Ok(())
}

/// A start in progress.
struct Begin<'a> {
    options: &'a Options,
    report: Report,
    begun: Instant,
}

/// Prerequisites of the first process.
struct Prepared {
    pki: Pki,
    ports: Ports,
    network: Network,
    command_lines: Vec<(Component, CommandLine)>,
    adopted: Vec<(Component, Process)>,
    client: kube::Client,
}

impl Begin<'_> {
    /// Creates certificates, ports and configuration; finds or stops running processes.
    async fn prepare(&self, state: &StateDir) -> Result<Prepared, Error> {
        let network = Network::claim(state.root()).map_err(Error::Network)?;
        let service_range = network.service_range();
        let pki = Pki::ensure(&state.pki(), network.api_server())?;
        let mut ports = match state.read_json("ports.json")? {
            Some(ports) => ports,
            None => Ports::choose(state.root())?,
        };
        // In start order: if a port of one changes, those that use it have other flags.
        let mut adopted = Vec::new();
        let mut command_lines = Vec::new();
        for component in Component::ALL {
            let line = self.command_line(state, &pki, (&ports, &service_range), component)?;
            match Process::find(state, component, Some(&line)) {
                Some((process, true)) => adopted.push((component, process)),
                Some((mut process, false)) => {
                    (self.report)(Event::Replacing { component, pid: process.id() });
                    process.end(supervisor::PATIENCE).await?;
                    self.free_ports(state, &mut ports, component)?;
                }
                None => self.free_ports(state, &mut ports, component)?,
            }
            command_lines.push((
                component,
                self.command_line(state, &pki, (&ports, &service_range), component)?,
            ));
        }
        state.write_json("ports.json", &ports)?;
        let client = write_kubeconfigs(state, &pki, &ports).await?;
        write_if_changed(&state.authentication_config(), AUTHENTICATION_CONFIG.as_bytes())?;
        if self.options.audit_log.is_some() {
            write_if_changed(&state.audit_policy(), AUDIT_POLICY.as_bytes())?;
        }
        Ok(Prepared { pki, ports, network, command_lines, adopted, client })
    }

    fn command_line(
        &self,
        state: &StateDir,
        pki: &Pki,
        (ports, service_range): (&Ports, &str),
        component: Component,
    ) -> Result<CommandLine, Error> {
        let durability = self.options.durability;
        let audit_log = self.options.audit_log.as_deref();
        let surroundings = Surroundings { state, pki, ports, durability, audit_log, service_range };
        let program = self.options.binaries.program(component.program());
        let input = match component_user(component) {
            Some(name) => component_kubeconfig(pki, ports, name)?,
            None => Vec::new(),
        };
        CommandLine::new(program, surroundings.flags(component), &input)
    }

    fn free_ports(
        &self,
        state: &StateDir,
        ports: &mut Ports,
        component: Component,
    ) -> Result<(), Error> {
        for (from, to) in ports.replace_taken(component, state.root())? {
            (self.report)(Event::PortMoved { component, from, to });
        }
        Ok(())
    }

    /// Starts the processes that do not run, in order, and waits for each.
    async fn run(&self, held: Held, prepared: Prepared) -> Result<ControlPlane, Error> {
        let Prepared { pki, ports, network, command_lines, mut adopted, client } = prepared;
        let state = held.dir.clone();
        let reaper = match self.options.die_with_parent {
            true => {
                let reaper = Reaper::start(None).map_err(Error::io("run", Path::new("sh")))?;
                Some(Arc::new(reaper))
            }
            false => None,
        };
        // From here on a failure drops this, which kills what was started.
        let watched = Vec::new();
        let mut plane =
            ControlPlane { held: Some(held), state, pki, ports, network, client, watched };
        for (component, line) in command_lines {
            let found = adopted.iter().position(|(one, _)| *one == component);
            let process = found.map(|index| adopted.swap_remove(index).1);
            let report = Arc::clone(&self.report);
            let seat = Seat::new(component, &plane.state, line, reaper.clone(), report);
            plane.watched.push(seat.take(process)?);
            // The last two do not depend on each other.
            if matches!(component, Component::Etcd | Component::ApiServer) {
                self.wait_for(&plane, component).await?;
            }
        }
        for component in [Component::ControllerManager, Component::Scheduler] {
            self.wait_for(&plane, component).await?;
        }
        Ok(plane)
    }

    async fn wait_for(&self, plane: &ControlPlane, component: Component) -> Result<(), Error> {
        let probe = health::probe(component, plane).await?;
        let seat = plane.watched.iter().map(|watched| &watched.seat);
        for seat in seat.filter(|seat| seat.component == component) {
            health::wait(&probe, seat).await?;
            if component == Component::ControllerManager {
                health::wait_for_service_account(&plane.client, seat).await?;
            }
        }
        (self.report)(Event::Ready { component, after: self.begun.elapsed() });
        Ok(())
    }
}

/// Writes all kubeconfigs and creates the client with all permissions.
async fn write_kubeconfigs(
    state: &StateDir,
    pki: &Pki,
    ports: &Ports,
) -> Result<kube::Client, Error> {
    for component in Component::ALL {
        if let Some(name) = component_user(component) {
            let text = component_kubeconfig(pki, ports, name)?;
            write_if_changed(&state.component_kubeconfig(component), &text)?;
        }
    }
    let admin = component_kubeconfig(pki, ports, "admin")?;
    write_if_changed(&state.kubeconfig(), &admin)?;
    kubeconfig::client(&admin).await
}

/// The identity with which a component accesses the API through a kubeconfig.
fn component_user(component: Component) -> Option<&'static str> {
    match component {
        Component::Etcd | Component::ApiServer => None,
        Component::ControllerManager => Some("controller-manager"),
        Component::Scheduler => Some("scheduler"),
    }
}

fn component_kubeconfig(pki: &Pki, ports: &Ports, name: &str) -> Result<Vec<u8>, Error> {
    let authority = pki.files(Authority::Api.file()).certificate;
    kubeconfig::text(ports.api_server, &authority, &pki.files(name))
}

/// Components watch some of these files, so unchanged ones are not touched.
fn write_if_changed(path: &Path, content: &[u8]) -> Result<(), Error> {
    match std::fs::read(path) {
        Ok(there) if there == content => Ok(()),
        _ => state::write_private(path, content),
    }
}

/// A node name becomes part of file names and certificates, so it must be valid.
fn check_node_name(name: &str) -> Result<(), Error> {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fits = !name.is_empty()
        && name.len() <= 253
        && name.starts_with(letter)
        && name.ends_with(letter)
        && name.chars().all(|c| letter(c) || c == '-' || c == '.');
    if fits { Ok(()) } else { Err(Error::NodeName(name.to_owned())) }
}
