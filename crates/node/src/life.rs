//! Runs a node from reading its configuration to the exit of Kafka.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use control::cluster::logging;
use control::node::liveness::Liveness;
use control::quorum::format::{self, Act, Reason, Voters};
use model::NodeId;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::Semaphore;

use crate::agent::{self, Agent};
use crate::config::{Config, ConfigError};
use crate::health::{self, Addresses, Health};
use crate::home::{HomeError, KafkaHome};
use crate::jvm::{self, Jvm, JvmError};
use crate::metrics::{Exporter, FOLLOW_INTERVAL};
use crate::pulse::Pulse;
use crate::storage::{self, StorageError};
use crate::tls::{TlsError, TlsListener};
use crate::{archive, disks, exit};

/// Exit codes of a JVM that stopped on request: by TERM, by INT, or by itself.
const STOPPED_CODES: [u8; 3] = [0, 128 + 15, 128 + 2];

/// Options of `gregor node`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The configuration directory.
    pub config_dir: PathBuf,
    pub kafka_home: PathBuf,
    /// Java installation; default: the first `java` in `PATH`.
    pub java_home: Option<PathBuf>,
    /// Memory limit of the node, if known.
    pub memory_bytes: Option<u64>,
    /// Uid of the node's pod, if there is one.
    pub pod_uid: Option<String>,
    /// Directory of class archives, if they are used.
    pub class_archive: Option<PathBuf>,
    /// Where to listen.
    pub addresses: Addresses,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error("cannot serve the health endpoint")]
    Tls(#[source] TlsError),
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    #[error("cannot install signal handlers")]
    Signals(#[source] io::Error),
    #[error("cannot write to the temporary directory")]
    Temporary(#[source] io::Error),
    /// The disks must not be used or formatted.
    #[error("{0}")]
    Refused(Reason),
    #[error("cannot format the disks")]
    Format(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot start Kafka")]
    Start(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl NodeError {
    /// The exit code of this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) => exit::CONFIG,
            Self::Refused(reason) if reason.may_pass() => exit::WAIT,
            Self::Refused(_) => exit::DISKS,
            Self::Format(_) => exit::STORAGE_TOOL,
            Self::Home(_)
            | Self::Tls(_)
            | Self::Listen { .. }
            | Self::Signals(_)
            | Self::Temporary(_)
            | Self::Start(_) => exit::FAILED,
        }
    }
}

impl From<StorageError> for NodeError {
    fn from(error: StorageError) -> Self {
        Self::Format(Box::new(error))
    }
}

impl From<JvmError> for NodeError {
    fn from(error: JvmError) -> Self {
        Self::Start(Box::new(error))
    }
}

/// Runs a node until Kafka exits, and returns the exit code.
///
/// # Errors
/// If Kafka was never started.
pub async fn run(options: Options) -> Result<u8, NodeError> {
    // Before anything else: PID 1 of a container ignores signals without a handler.
    let mut stop = Stop::new().map_err(NodeError::Signals)?;
    let config = Config::read(&options.config_dir)?;
    let home = KafkaHome::open(&options.kafka_home, options.java_home.as_deref())?;
    let (home, archive) = with_archive(home, options.class_archive.as_deref(), &config);
    let health = Arc::new(Health {
        roles: config.roles,
        beat_ms: config.beat_ms,
        metadata_dir: config.metadata_dir.clone(),
        agent: Agent::new(options.addresses.agent),
        pulse: Pulse::new(config.roles, hangs_file(config.node)),
        stopping: AtomicBool::new(false),
        disk: Arc::new(Semaphore::new(1)),
    });
    serve(&options.addresses, &health).await?;
    let files = Files::write().map_err(NodeError::Temporary)?;
    let preparing = async {
        tokio::join!(
            format_disks(&home, &config, &files, options.pod_uid.as_deref()),
            prepare_metrics(&home, &config, &options.addresses, files.dir.path()),
        )
    };
    let (formatted, exporter) = tokio::select! {
        prepared = preparing => prepared,
        // Nothing is running yet; the storage tool ends with this process, and the next start continues.
        _ = stop.asked() => {
            tracing::info!("received a stop signal before Kafka was started");
            return Ok(exit::STOPPED);
        }
    };
    tracing::info!("{}", formatted?);
    let log4j_file = config.log4j_file.as_deref().unwrap_or(&files.log4j);
    let own_jar = exporter.as_ref().map_or(home.agent(), |exporter| &exporter.own_jar);
    let own =
        format!("{}={}:{}", own_jar.display(), options.addresses.agent, files.agent.display());
    let users = exporter.as_ref().map(|exporter| exporter.agent.clone());
    let agents: Vec<_> = [own].into_iter().chain(users).collect();
    let command = jvm::command(&home, &config, options.memory_bytes, log4j_file, &agents);
    let jvm = Jvm::start(&command)?;
    exporter.map(|exporter| tokio::spawn(exporter.follow(FOLLOW_INTERVAL)));
    tokio::spawn(Arc::clone(&health).follow_pulse(jvm.process()));
    tracing::info!(node = %config.node, roles = %config.roles, "started Kafka");
    let code = watch(jvm, &mut stop, &health).await;
    if let Some(place) = archive {
        place.judge(code);
    }
    Ok(code)
}

/// The record of hangs. It is on the volume for temporary files, which survives a restart of the container
/// and is removed with the pod.
fn hangs_file(node: NodeId) -> PathBuf {
    std::env::temp_dir().join(format!("gregor-node-{node}.hangs"))
}

/// The home with its class archive, if one exists and archives are enabled.
fn with_archive(
    home: KafkaHome,
    dir: Option<&Path>,
    config: &Config,
) -> (KafkaHome, Option<archive::ArchiveFile>) {
    let wanted = dir.filter(|_| !archive::has_other_plans(&config.jvm_options));
    let place = wanted.and_then(|dir| home.archive_place(dir));
    match place.as_ref().and_then(archive::ArchiveFile::find) {
        Some(file) => (home.with_archive(file), place),
        None => (home, None),
    }
}

/// Forwards stop signals until Kafka exits. A JVM that hangs is asked for a thread dump, and is killed on a
/// stop signal: it would not handle the signal, and the kubelet would wait for the whole grace period.
async fn watch(mut jvm: Jvm, stop: &mut Stop, health: &Health) -> u8 {
    let mut asked = false;
    let code = loop {
        tokio::select! {
            code = jvm.wait() => break code,
            signal = stop.asked() => {
                let liveness = health.liveness();
                asked = true;
                health.stopping.store(true, Ordering::Relaxed);
                match liveness {
                    Liveness::Live => {
                        tracing::info!("received a stop signal; stopping Kafka");
                        jvm.signal(signal);
                    }
                    Liveness::Hung { unanswered } => {
                        tracing::error!(unanswered, "received a stop signal; Kafka's JVM hangs and is killed");
                        jvm.signal(Signal::KILL);
                    }
                }
            }
            () = health.pulse.hangs.notified() => jvm.signal(Signal::QUIT),
        }
    };
    if asked && STOPPED_CODES.contains(&code) {
        tracing::info!("Kafka stopped");
        return exit::STOPPED;
    }
    tracing::error!(code, "Kafka exited");
    code
}

/// Formats the disks if necessary; returns what was done.
async fn format_disks(
    home: &KafkaHome,
    config: &Config,
    files: &Files,
    pod_uid: Option<&str>,
) -> Result<String, NodeError> {
    let decision = format::decide(&disks::observe(config, pod_uid));
    for note in &decision.notes {
        tracing::warn!("{note}");
    }
    let format = match decision.act {
        Act::Leave => return Ok("the disks are formatted".to_owned()),
        Act::Refuse(reason) => return Err(NodeError::Refused(reason)),
        Act::Format(format) => format,
    };
    storage::format(home, config, &format, &files.tool_log4j).await?;
    let voters = match &format.voters {
        Voters::Static => "for a static quorum",
        Voters::NoInitialControllers => "without initial controllers",
        Voters::InitialControllers(_) => "as one of the initial controllers",
    };
    Ok(format!("formatted the disks {voters}"))
}

/// Prepares the exporter with the user's rules. A node starts without it if that fails.
async fn prepare_metrics(
    home: &KafkaHome,
    config: &Config,
    addresses: &Addresses,
    dir: &Path,
) -> Option<Exporter> {
    let file = config.metrics_file.as_deref()?;
    let Some(address) = addresses.metrics else {
        tracing::warn!(file = %file.display(), "no address is configured for the metrics of metricsConfig");
        return None;
    };
    match Exporter::prepare(home, file, address, dir).await {
        Ok(exporter) => Some(exporter),
        Err(error) => {
            tracing::error!(
                "Kafka starts without the metrics of metricsConfig: {}",
                host::error::chain(&error)
            );
            None
        }
    }
}

/// Starts the health endpoint.
async fn serve(addresses: &Addresses, health: &Arc<Health>) -> Result<(), NodeError> {
    let listen = async |address: SocketAddr| {
        let listener = TcpListener::bind(address).await;
        listener.map_err(|source| NodeError::Listen { address, source })
    };
    if let Some((address, files)) = &addresses.https {
        let listener = TlsListener::new(listen(*address).await?, files).map_err(NodeError::Tls)?;
        health::serve_tls(listener, Arc::clone(health));
    }
    let everything = addresses.https.is_none();
    health::serve_plain(listen(addresses.http).await?, Arc::clone(health), everything);
    Ok(())
}

/// Stop signals.
struct Stop {
    term: unix::Signal,
    int: unix::Signal,
}

impl Stop {
    fn new() -> io::Result<Self> {
        let term = unix::signal(SignalKind::terminate())?;
        Ok(Self { term, int: unix::signal(SignalKind::interrupt())? })
    }

    async fn asked(&mut self) -> Signal {
        tokio::select! {
            _ = self.term.recv() => Signal::TERM,
            _ = self.int.recv() => Signal::INT,
        }
    }
}

/// Files that Java reads and that are not in the configuration directory.
pub(crate) struct Files {
    agent: PathBuf,
    pub(crate) log4j: PathBuf,
    pub(crate) tool_log4j: PathBuf,
    pub(crate) dir: TempDir,
}

impl Files {
    pub(crate) fn write() -> io::Result<Self> {
        let dir = TempDir::with_prefix("gregor-node-")?;
        let write = |name: &str, text: &str| -> io::Result<PathBuf> {
            let path: &Path = dir.path();
            let path = path.join(name);
            fs::write(&path, text)?;
            Ok(path)
        };
        Ok(Self {
            agent: write("agent.yaml", agent::CONFIG)?,
            log4j: write("log4j2.properties", &logging::default_text("INFO"))?,
            // The tool's output is its result; it matters only if the tool fails.
            tool_log4j: write("tool-log4j2.properties", &logging::default_text("WARN"))?,
            dir,
        })
    }
}
