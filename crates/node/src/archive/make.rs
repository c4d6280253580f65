//! Creates a class archive: runs a node with the common features and keeps the archive that its JVM writes.
//!
//! The node serves no other purpose. It runs alone, on loopback, in a directory that is removed afterwards.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use super::ArchiveFile;
use crate::home::{HomeError, KafkaHome};
use crate::life::Files;
use crate::{exit, jvm};

/// The log line of a server that is ready.
const READY: &str = "Kafka Server started";
/// Time to start and stop a node and to write about 50 MB, on a busy machine.
const MAKE_TIMEOUT: Duration = Duration::from_secs(180);
/// Any valid id.
const CLUSTER: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// Options of `gregor node --class-archive`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveOptions {
    /// Where Kafka is.
    pub kafka_home: PathBuf,
    /// Java installation; default: the first `java` in `PATH`.
    pub java_home: Option<PathBuf>,
    /// Directory for archives.
    pub dir: PathBuf,
}

/// Why there is no archive. Nodes start without it.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error("this Java does not state its build")]
    UnknownJava,
    /// The directory.
    #[error("cannot write to {}", dir.display())]
    Write {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    #[error("cannot prepare the training node")]
    Prepare(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot run Java")]
    Run(#[source] io::Error),
    /// A program exited early.
    #[error("{what} exited early ({status}): {said}")]
    Ended {
        /// Which.
        what: &'static str,
        /// How.
        status: ExitStatus,
        /// Its last output.
        said: String,
    },
    #[error("the training node did not finish in time")]
    Timeout,
    #[error("the JVM wrote no class archive")]
    Nothing(#[source] io::Error),
}

impl ArchiveError {
    /// The exit code of this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        exit::FAILED
    }
}

/// Creates the archive for a Kafka and its Java unless it exists, and returns its path. Waits if another
/// process is creating it.
///
/// # Errors
/// If it cannot be created. Nodes start without it.
pub async fn make_class_archive(options: &ArchiveOptions) -> Result<PathBuf, ArchiveError> {
    let home = KafkaHome::open(&options.kafka_home, options.java_home.as_deref())?;
    let place = home.archive_place(&options.dir).ok_or(ArchiveError::UnknownJava)?;
    if let Some(found) = place.find() {
        return Ok(found);
    }
    let failed = |source| ArchiveError::Write { dir: options.dir.clone(), source };
    let locking = place.clone();
    let locked = tokio::task::spawn_blocking(move || locking.lock()).await;
    let _lock = locked.map_err(io::Error::other).flatten().map_err(failed)?;
    if let Some(found) = place.find() {
        return Ok(found);
    }
    let new = place.path("new");
    let _ = fs::remove_file(&new);
    let learn = learn(&home, &place, &new);
    timeout(MAKE_TIMEOUT, learn).await.map_err(|_| ArchiveError::Timeout)?
}

async fn learn(home: &KafkaHome, place: &ArchiveFile, new: &Path) -> Result<PathBuf, ArchiveError> {
    let files = Files::write().map_err(|error| ArchiveError::Prepare(error.into()))?;
    let server = write_server(files.dir.path()).map_err(ArchiveError::Prepare)?;
    format(home, &server, &files.tool_log4j).await?;
    let mut options: Vec<_> = jvm::COLLECTOR.map(str::to_owned).into();
    options.extend([
        "-Xmx512m".to_owned(),
        format!("-Dlog4j2.configurationFile={}", files.log4j.display()),
        format!("-XX:ArchiveClassesAtExit={}", new.display()),
    ]);
    let command = home.command(options, jvm::SERVER, vec![server.into_os_string()]);
    let mut child = start(&command)?;
    let stdout =
        child.stdout.take().ok_or_else(|| ArchiveError::Run(io::Error::other("no output")));
    let mut lines = BufReader::new(stdout?).lines();
    let mut said = Vec::new();
    while let Some(line) = next(&mut lines).await? {
        if line.contains(READY) {
            let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
            // Not reaped yet, so the id is still its own.
            pid.map_or(Ok(()), |pid| kill_process(pid, Signal::TERM))
                .map_err(|error| ArchiveError::Run(error.into()))?;
            // Until it exits, or its output breaks.
            while next(&mut lines).await?.is_some() {}
            child.wait().await.map_err(ArchiveError::Run)?;
            return place.take(new).map_err(ArchiveError::Nothing);
        }
        said.push(line);
    }
    let status = child.wait().await.map_err(ArchiveError::Run)?;
    let said = said[said.len().saturating_sub(3)..].join(" / ");
    Err(ArchiveError::Ended { what: "the training node", status, said })
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<Option<String>, ArchiveError> {
    lines.next_line().await.map_err(ArchiveError::Run)
}

fn start(command: &[OsString]) -> Result<Child, ArchiveError> {
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    program.kill_on_drop(true).spawn().map_err(ArchiveError::Run)
}

async fn format(home: &KafkaHome, server: &Path, log4j: &Path) -> Result<(), ArchiveError> {
    let options = vec![
        "-Xmx256m".to_owned(),
        "-XX:TieredStopAtLevel=1".to_owned(),
        format!("-Dlog4j2.configurationFile={}", log4j.display()),
    ];
    let words: [OsString; 5] =
        ["format".into(), "-t".into(), CLUSTER.into(), "-c".into(), server.into()];
    let command = home.command(options, crate::storage::TOOL, words.into());
    let output = start(&command)?.wait_with_output().await.map_err(ArchiveError::Run)?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stdout).trim().replace('\n', " / ");
            Err(ArchiveError::Ended { what: "Kafka's storage tool", status: output.status, said })
        }
    }
}

/// Writes the configuration of a node with the common features: both roles, TLS on every listener, ACLs,
/// secrets in files.
fn write_server(dir: &Path) -> Result<PathBuf, Box<dyn std::error::Error + Send + Sync>> {
    let identity = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    fs::write(dir.join("tls.crt"), identity.cert.pem())?;
    fs::write(dir.join("tls.key"), identity.signing_key.serialize_pem())?;
    // Both ports are reserved before either is released, so that they differ.
    let ports = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let [broker, controller] = [ports[0].local_addr()?, ports[1].local_addr()?];
    let path = dir.join("server.properties");
    fs::write(&path, server_properties(dir, &broker.to_string(), &controller.to_string()))?;
    Ok(path)
}

fn server_properties(dir: &Path, broker: &str, controller: &str) -> String {
    let dir = dir.display();
    format!(
        "node.id=0\nprocess.roles=broker,controller\n\
         listeners=BROKER://{broker},CONTROLLER://{controller}\n\
         controller.quorum.voters=0@{controller}\n\
         controller.listener.names=CONTROLLER\ninter.broker.listener.name=BROKER\n\
         listener.security.protocol.map=BROKER:SSL,CONTROLLER:SSL\n\
         log.dirs={dir}/data\nlog.cleaner.dedupe.buffer.size=2097152\n\
         config.providers=dir\n\
         config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider\n\
         ssl.keystore.type=PEM\nssl.truststore.type=PEM\nssl.client.auth=required\n\
         ssl.keystore.certificate.chain=${{dir:{dir}:tls.crt}}\n\
         ssl.keystore.key=${{dir:{dir}:tls.key}}\n\
         ssl.truststore.certificates=${{dir:{dir}:tls.crt}}\n\
         authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
         allow.everyone.if.no.acl.found=true\n"
    )
}
