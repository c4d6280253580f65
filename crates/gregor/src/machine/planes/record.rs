//! What is on disk of a data plane: its desired state, which nodes it has, and its Kubernetes.
//!
//! | path | what | who writes |
//! |---|---|---|
//! | `desired.json` | the desired state | the provider |
//! | `nodes.json` | the nodes that were begun and are not gone | the keeper |
//! | `kubernetes/` | the state directory of the control plane and its nodes | `local` |

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use host::file::{self, Survives};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The desired state of a data plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Desired {
    /// How many nodes.
    pub(super) nodes: u32,
    /// Whether they are in several zones.
    pub(super) multi_az: bool,
    /// The fleet manager that its agent reports to; no agent yet if none.
    pub(super) manager: Option<String>,
    /// It is being deleted, with everything.
    pub(super) deleting: bool,
}

impl Desired {
    pub(super) fn new(nodes: u32, multi_az: bool) -> Self {
        Self { nodes, multi_az, manager: None, deleting: false }
    }
}

/// A node that was begun and is not gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NodePhase {
    /// It is there, or is coming.
    Member,
    /// It is being drained and removed.
    Leaving,
}

/// The nodes by their number.
pub(super) type NodeRecord = BTreeMap<u8, NodePhase>;

/// The directory of a data plane.
#[derive(Debug, Clone)]
pub(super) struct Place(PathBuf);

impl Place {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self(dir)
    }

    /// The state directory of its Kubernetes.
    pub(super) fn kubernetes(&self) -> PathBuf {
        self.0.join("kubernetes")
    }

    /// The desired state; nothing if there is no such data plane.
    pub(super) fn desired(&self) -> io::Result<Option<Desired>> {
        read(&self.0.join("desired.json"))
    }

    pub(super) fn write_desired(&self, desired: &Desired) -> io::Result<()> {
        private_dir(&self.0)?;
        write(&self.0.join("desired.json"), desired)
    }

    pub(super) fn nodes(&self) -> io::Result<NodeRecord> {
        Ok(read(&self.0.join("nodes.json"))?.unwrap_or_default())
    }

    pub(super) fn write_nodes(&self, nodes: &NodeRecord) -> io::Result<()> {
        write(&self.0.join("nodes.json"), nodes)
    }

    /// Removes the files of a data plane of which nothing runs any more. The desired state, which says that it is being deleted,
    /// is removed last.
    pub(super) fn remove(&self) -> io::Result<()> {
        file::ignore_absent(fs::remove_dir_all(self.kubernetes()))?;
        file::ignore_absent(fs::remove_file(self.0.join("nodes.json")))?;
        file::ignore_absent(fs::remove_file(self.0.join("desired.json")))?;
        file::ignore_absent(fs::remove_dir_all(&self.0))
    }
}

/// A directory that only its owner may read.
pub(super) fn private_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text).map_err(io::Error::other)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the value, also to disk.
pub(super) fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(value).map_err(io::Error::other)?;
    file::write(path, &text, file::PRIVATE, Survives::Machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_desired_state_is_found_again_until_nothing_is_left() {
        let temp = tempfile::tempdir().unwrap();
        let place = Place::new(temp.path().join("planes/p"));
        assert_eq!(place.desired().unwrap(), None);
        let desired = Desired { deleting: true, ..Desired::new(3, false) };
        place.write_desired(&desired).unwrap();
        place.write_nodes(&NodeRecord::from([(2, NodePhase::Leaving)])).unwrap();
        fs::create_dir_all(place.kubernetes().join("etcd")).unwrap();
        assert_eq!(place.desired().unwrap(), Some(desired));
        assert_eq!(place.nodes().unwrap()[&2], NodePhase::Leaving);
        place.remove().unwrap();
        assert_eq!(place.desired().unwrap(), None);
        assert!(!temp.path().join("planes/p").exists());
        place.remove().unwrap();
    }
}
