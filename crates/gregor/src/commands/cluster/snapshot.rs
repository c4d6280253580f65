//! What was observed of a cluster, in a file: `gregor status --snapshot` writes one, and `gregor why` and `gregor status` decide
//! on it as they do on the cluster.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use api::names::Names;
use api::{Kafka, KafkaNodePool, KafkaRebalance, StrimziPodSet};
use k8s_openapi::api::core::v1::Pod;
use operator::cluster::foresee::{Observed, View as Seen};
use serde::{Deserialize, Serialize};

use super::{Found, Looked, unknown};
use crate::output::note;

/// The form of the file. A file with a newer number is not read.
const FORMAT: u32 = 1;

/// A file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    format: u32,
    /// The version of Gregor that wrote it.
    gregor: String,
    /// When, in milliseconds since 1970.
    taken_ms: u64,
    name: String,
    namespace: String,
    kafka: Kafka,
    pools: Vec<KafkaNodePool>,
    pod_sets: Vec<StrimziPodSet>,
    pods: Vec<Pod>,
    rebalances: Option<Vec<KafkaRebalance>>,
    observed: Observed,
}

/// Only the number, which every form has.
#[derive(Deserialize)]
struct Form {
    format: u32,
}

/// Writes what was observed. Only its owner may read the file.
pub(super) fn write(path: &Path, looked: &Looked, now_ms: u64) -> anyhow::Result<()> {
    let Looked { found, seen, .. } = looked;
    let file = File {
        format: FORMAT,
        gregor: env!("CARGO_PKG_VERSION").to_owned(),
        taken_ms: now_ms,
        name: found.names.cluster.clone(),
        namespace: found.names.namespace.clone(),
        kafka: found.kafka.clone(),
        pools: found.pools.clone(),
        pod_sets: found.sets.clone(),
        pods: found.pods.clone(),
        rebalances: found.rebalances.clone(),
        observed: seen.observed.clone(),
    };
    let text = serde_json::to_vec_pretty(&file).context("cannot serialize the snapshot")?;
    let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    opened
        .and_then(|mut file| file.write_all(&text))
        .with_context(|| format!("cannot write {}", path.display()))?;
    note(&format!("wrote {} ({} KiB)", path.display(), text.len().div_ceil(1024)));
    Ok(())
}

/// Reads a file: the cluster, and when it was observed.
pub(super) fn read(path: &Path) -> anyhow::Result<(Looked, u64)> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let is_none = || format!("{} is no snapshot of a cluster", path.display());
    let form: Form = serde_json::from_slice(&text).with_context(is_none)?;
    ensure!(
        form.format <= FORMAT,
        "{} was written by a newer Gregor (format {}, this one reads up to {FORMAT})",
        path.display(),
        form.format
    );
    let file: File = serde_json::from_slice(&text).with_context(is_none)?;
    let found = Found {
        names: Names::new(&file.namespace, &file.name),
        kafka: file.kafka,
        pools: file.pools,
        sets: file.pod_sets,
        pods: file.pods,
        rebalances: file.rebalances,
    };
    let seen = Seen::replay(file.observed);
    let unknown = unknown(&found, &seen);
    Ok((Looked { found, seen, unknown }, file.taken_ms))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_files_of_a_known_form_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let problem = |text: &str| {
            fs::write(&path, text).unwrap();
            format!("{:#}", read(&path).err().unwrap())
        };
        assert!(problem("").contains("is no snapshot of a cluster"));
        assert!(problem(r#"{ "kind": "Kafka" }"#).contains("is no snapshot of a cluster"));
        let newer = problem(&json!({ "format": FORMAT + 1 }).to_string());
        assert!(newer.contains("was written by a newer Gregor"), "{newer}");
        fs::remove_file(&path).unwrap();
        assert!(format!("{:#}", read(&path).err().unwrap()).contains("cannot read"));
    }
}
