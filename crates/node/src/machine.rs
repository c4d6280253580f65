//! Writes labels of the Kubernetes Node to files that a broker's configuration refers to.
//!
//! Runs before the node, in an init container that may read Nodes; the Kafka container may not. The content
//! of the files is decided by [`control::node::machine`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::node::machine::{self, Machine, Missing};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, Config};

use crate::exit;

/// The API server responds in milliseconds. After a time-out the kubelet restarts the init container.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Options of `gregor node --describe-machine`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineOptions {
    /// The name of the machine's Kubernetes Node.
    pub name: String,
    /// The label with the rack, if rack awareness is configured.
    pub rack_label: Option<String>,
    /// Directory for the files.
    pub dir: PathBuf,
}

/// Why the Node could not be described.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    #[error("cannot find the API server: this command runs in a pod with a service account")]
    NoServer(#[source] Box<kube::config::InClusterError>),
    #[error("cannot connect to the API server")]
    Client(#[source] Box<kube::Error>),
    /// The request failed.
    #[error("cannot read the Node {name}")]
    Read {
        /// Its name.
        name: String,
        /// Why not.
        #[source]
        source: Box<kube::Error>,
    },
    #[error("cannot read the Node {0}: the API server did not respond in time")]
    Timeout(String),
    /// The Node lacks a label or an address.
    #[error("the Node {name} is not usable: {missing}")]
    Missing {
        /// Its name.
        name: String,
        /// What is missing.
        missing: Missing,
    },
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
    /// The exit code of this error.
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

/// Reads the Node and writes the files. Idempotent.
///
/// # Errors
/// If the Node cannot be read, lacks something, or a file cannot be written. Then no file is written.
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
        assert!(error.to_string().starts_with("the Node m is not usable: it has no label zone"));
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
