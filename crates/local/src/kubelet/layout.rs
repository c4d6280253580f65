//! Files of a kubelet.
//!
//! ```text
//! DIR/pods/UID/pod.json                         which pod, its address          (PodRecord)
//! DIR/pods/UID/hosts                            its /etc/hosts
//! DIR/pods/UID/volumes/NAME/                    volumes that live as long as the pod
//! DIR/pods/UID/containers/NAME/ATTEMPT/         one run of a container          (shim::AttemptDir)
//! DIR/logs/NAMESPACE_POD_UID/NAME/ATTEMPT.log   its output
//! ```

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::files;
use super::shim::AttemptDir;

/// The directory of a kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout(PathBuf);

/// Persistent data of a pod besides its containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodRecord {
    /// The pod's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its address.
    pub ip: Ipv4Addr,
    /// When the kubelet first saw it.
    pub started_at: Timestamp,
    /// Grace period, for the case that the pod object is gone.
    pub grace_seconds: u64,
}

impl Layout {
    /// The files in this directory.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self(dir)
    }

    /// The directory of all pods.
    #[must_use]
    pub fn pods(&self) -> PathBuf {
        self.0.join("pods")
    }

    /// The files of a pod.
    #[must_use]
    pub fn pod(&self, uid: &str) -> PodDir {
        PodDir(self.pods().join(uid))
    }

    /// The directory of all logs.
    #[must_use]
    pub fn all_logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// The logs of a pod.
    #[must_use]
    pub fn logs(&self, record: &PodRecord) -> PathBuf {
        let PodRecord { namespace, name, uid, .. } = record;
        self.all_logs().join(format!("{namespace}_{name}_{uid}"))
    }

    /// The log of one run of a container. A full log is renamed with the suffix `.1`.
    #[must_use]
    pub fn log(&self, record: &PodRecord, container: &str, attempt: u32) -> PathBuf {
        self.logs(record).join(container).join(format!("{attempt}.log"))
    }

    /// All recorded pods. A record that cannot be parsed is skipped and logged.
    #[must_use]
    pub fn records(&self) -> Vec<PodRecord> {
        let entries = fs::read_dir(self.pods()).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path().join("pod.json"));
        let read = |path: PathBuf| match files::read_json(&path) {
            Ok(record) => record,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot read the record of a pod");
                None
            }
        };
        paths.filter_map(read).collect()
    }

    /// The most recent pod with this name.
    #[must_use]
    pub fn find(&self, namespace: &str, name: &str) -> Option<PodRecord> {
        let records = self.records().into_iter();
        let named = records.filter(|r| r.namespace == namespace && r.name == name);
        named.max_by_key(|record| record.started_at)
    }
}

/// The files of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDir(PathBuf);

impl PodDir {
    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The record of the pod.
    #[must_use]
    pub fn record(&self) -> PathBuf {
        self.0.join("pod.json")
    }

    /// Its hosts file.
    #[must_use]
    pub fn hosts(&self) -> PathBuf {
        self.0.join("hosts")
    }

    /// A volume with the lifetime of the pod.
    #[must_use]
    pub fn volume(&self, name: &str) -> PathBuf {
        self.0.join("volumes").join(name)
    }

    /// The directory of the runs of a container.
    #[must_use]
    pub fn container(&self, name: &str) -> PathBuf {
        self.0.join("containers").join(name)
    }

    /// One run of a container.
    #[must_use]
    pub fn attempt(&self, container: &str, number: u32) -> AttemptDir {
        AttemptDir::new(self.container(container).join(number.to_string()))
    }

    /// The numbers of the runs of a container that are kept, sorted.
    #[must_use]
    pub fn attempts(&self, container: &str) -> Vec<u32> {
        let entries = fs::read_dir(self.container(container)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut numbers: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    /// All containers that were ever started.
    #[must_use]
    pub fn containers(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.join("containers")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(uid: &str, second: i64) -> PodRecord {
        PodRecord {
            namespace: "n".into(),
            name: "p".into(),
            uid: uid.into(),
            ip: Ipv4Addr::new(127, 1, 0, 2),
            started_at: Timestamp::from_second(second).unwrap(),
            grace_seconds: 30,
        }
    }

    #[test]
    fn the_newest_of_two_pods_with_the_same_name_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        assert!(layout.records().is_empty());
        for (uid, second) in [("a", 2), ("b", 3), ("c", 1)] {
            fs::create_dir_all(layout.pod(uid).path()).unwrap();
            files::write_json(&layout.pod(uid).record(), &record(uid, second)).unwrap();
        }
        fs::create_dir_all(layout.pod("half-made").path()).unwrap();
        assert_eq!(layout.find("n", "p").unwrap().uid, "b");
        assert_eq!(layout.find("n", "q"), None);
        assert_eq!(layout.records().len(), 3);
    }

    #[test]
    fn attempts_are_in_the_order_of_their_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let pod = Layout::new(dir.path().to_owned()).pod("a");
        assert!(pod.attempts("c").is_empty());
        for number in [10, 2, 9] {
            fs::create_dir_all(pod.attempt("c", number).path()).unwrap();
        }
        assert_eq!(pod.attempts("c"), [2, 9, 10]);
        assert_eq!(pod.containers(), ["c"]);
    }
}
