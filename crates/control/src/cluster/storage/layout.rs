//! Where things are on the disks of a node.
//!
//! The names and paths are Strimzi's, so that the claims of a cluster that it made are found, with the data
//! at its mount path.

use model::NodeId;

use super::metadata_volume;
use crate::cluster::spec::{Storage, Volume};

/// Where volumes are mounted.
const ROOT: &str = "/var/lib/kafka";

/// One volume of a node at its mount path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedVolume {
    /// Its name in the pod: `data`, or `data-<number>`. A claim is named `<this>-<pod>`.
    pub name: String,
    /// Where it is mounted.
    pub mount: String,
    /// The directory on it that Kafka uses.
    pub log_dir: String,
    /// What it is.
    pub volume: Volume,
}

/// The disks of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The volumes by number.
    pub volumes: Vec<MountedVolume>,
    /// Where the metadata log is; empty only for storage without a volume, which is refused.
    pub metadata_dir: String,
    /// Where partitions are.
    pub log_dirs: Vec<String>,
}

/// The disks of the node with this id.
#[must_use]
pub fn layout(storage: &Storage, node: NodeId) -> Layout {
    let mounted = |name: String, volume: &Volume| {
        let mount = format!("{ROOT}/{name}");
        MountedVolume { log_dir: log_dir(&name, node), name, mount, volume: volume.clone() }
    };
    let mut volumes: Vec<_> = match storage {
        Storage::Single(volume) => vec![mounted("data".to_owned(), volume)],
        Storage::Jbod(volumes) => {
            volumes.iter().map(|volume| mounted(jbod(volume.id), volume)).collect()
        }
    };
    volumes.sort_by_key(|volume| volume.volume.id);
    let metadata = metadata_volume(storage);
    let metadata = volumes.iter().find(|volume| Some(volume.volume.id) == metadata);
    Layout {
        metadata_dir: metadata.map(|volume| volume.log_dir.clone()).unwrap_or_default(),
        log_dirs: volumes.iter().map(|volume| volume.log_dir.clone()).collect(),
        volumes,
    }
}

/// The directory that Kafka uses on a volume of JBOD storage. The volume need not exist: a user may have written any number.
#[must_use]
pub fn jbod_log_dir(volume: i64, node: NodeId) -> String {
    log_dir(&jbod(volume), node)
}

/// The name of a volume of JBOD storage in the pod.
fn jbod(number: impl std::fmt::Display) -> String {
    format!("data-{number}")
}

/// The directory that Kafka uses on a volume with this name.
fn log_dir(name: &str, node: NodeId) -> String {
    format!("{ROOT}/{name}/kafka-log{node}")
}
