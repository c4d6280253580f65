//! Describes the machine that a broker is about to run on, in files that its configuration refers to.
//!
//! Runs before the node, in a container of its own that may read machines; the node itself may not.
//! What the files say is decided by [`control::node::machine`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::node::machine::{self, Machine, Missing};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, Config};

use crate::exit;

/// The API server answers in milliseconds. One that does not is asked again by whoever runs us.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// What is to be described, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineOptions {
    /// The name of the machine's Kubernetes Node.
    pub name: String,
    /// The label that says in which rack the machine is, if there are racks.
    pub rack_label: Option<String>,
    /// Where the files go.
    pub dir: PathBuf,
}

/// Why a machine was not described.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// We are in no Kubernetes.
    #[error("cannot find the API server: this is meant to run in a pod, with a service account")]
    NoServer(#[source] Box<kube::config::InClusterError>),
    /// The client.
    #[error("cannot ask the API server")]
    Client(#[source] Box<kube::Error>),
    /// The API server said no, or nothing that makes sense.
    #[error("cannot read the Node {name}")]
    Read {
        /// Its name.
        name: String,
        /// Why not.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server said nothing.
    #[error("cannot read the Node {0}: the API server does not answer in time")]
    Timeout(String),
    /// The machine does not say what is needed.
    #[error("the Node {name} does not say enough: {missing}")]
    Missing {
        /// Its name.
        name: String,
        /// What is missing.
        missing: Missing,
    },
    /// A file.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl MachineError {
    /// The code of [`exit`] that says so.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Missing { .. } => exit::CONFIG,
            Self::NoServer(_)
            | Self::Client(_)
            | Self::Read { .. }
            | Self::Timeout(_)
            | Self::Write { .. } => exit::FAILED,
        }
    }
}

/// Reads the machine's Node and writes what a broker has to know of it. May be repeated.
///
/// # Errors
/// If it cannot be read or written, or if the Node does not say enough. Then no file is written.
pub async fn describe_machine(options: &MachineOptions) -> Result<(), MachineError> {
    let config = Config::incluster().map_err(|error| MachineError::NoServer(Box::new(error)))?;
    let client = Client::try_from(config).map_err(|error| MachineError::Client(Box::new(error)))?;
    let name = || options.name.clone();
    let nodes = Api::<Node>::all(client);
    let node = tokio::time::timeout(ANSWER_TIMEOUT, nodes.get(&options.name))
        .await
        .map_err(|_| MachineError::Timeout(name()))?
        .map_err(|source| MachineError::Read { name: name(), source: Box::new(source) })?;
    let files = machine::describe(&machine(node), options.rack_label.as_deref())
        .map_err(|missing| MachineError::Missing { name: name(), missing })?;
    for (file, text) in files {
        write(&options.dir.join(file), &text)?;
        let shown: Vec<_> = text.lines().collect();
        tracing::info!("{file}: {}", shown.join(" "));
    }
    Ok(())
}

fn machine(node: Node) -> Machine {
    let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
    Machine {
        labels: node.metadata.labels.unwrap_or_default(),
        addresses: addresses.into_iter().map(|one| (one.type_, one.address)).collect(),
    }
}

fn write(path: &Path, text: &str) -> Result<(), MachineError> {
    let failed = |source| MachineError::Write { path: path.to_owned(), source };
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_is_missing_is_not_a_failure_of_the_program() {
        let missing = Missing::Rack("zone".to_owned());
        let error = MachineError::Missing { name: "m".to_owned(), missing };
        assert_eq!(error.exit_code(), 78);
        assert!(
            error.to_string().starts_with("the Node m does not say enough: it has no label zone")
        );
        assert_eq!(MachineError::Timeout("m".to_owned()).exit_code(), 1);
    }

    #[test]
    fn files_are_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("init/rack.id");
        write(&path, "a longer rack").unwrap();
        write(&path, "b").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "b");
    }
}
