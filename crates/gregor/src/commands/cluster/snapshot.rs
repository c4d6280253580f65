//! What was observed of a cluster, in a file: `gregor status --snapshot` writes one, and `gregor why`, `gregor status` and
//! `gregor plan` decide on it as they do on the cluster.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use api::names::Names;
use api::{Kafka, KafkaNodePool, KafkaRebalance, StrimziPodSet};
use host::file::{self, Survives};
use k8s_openapi::api::core::v1::Pod;
use operator::cluster::foresee::{HIDDEN, Observed, View as Seen};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Edits, Found, Looked, report, unknown};
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
    /// What edits are planned on. Files of older versions have none.
    edits: Option<Edits>,
}

/// Only the number, which every form has.
#[derive(Deserialize)]
struct Form {
    format: u32,
}

/// What was observed, as a file.
pub(super) fn bytes(looked: &Looked, now_ms: u64) -> anyhow::Result<Vec<u8>> {
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
        edits: looked.edits.clone(),
    };
    let mut file = serde_json::to_value(&file).context("cannot serialize the snapshot")?;
    hide(&mut file);
    serde_json::to_vec_pretty(&file).context("cannot serialize the snapshot")
}

/// Writes what was observed. Only its owner may read the file.
pub(super) fn write(path: &Path, looked: &Looked, now_ms: u64) -> anyhow::Result<()> {
    let text = bytes(looked, now_ms)?;
    file::write(path, &text, file::PRIVATE, Survives::Process)
        .with_context(|| format!("cannot write {}", path.display()))?;
    note(&format!("wrote {} ({} KiB)", path.display(), text.len().div_ceil(1024)));
    Ok(())
}

/// Hides what users may have written into their resources instead of a Secret: values of environment variables, and
/// settings and Java properties whose names speak of passwords. Annotations in which tools keep whole resources are left
/// out.
pub(super) fn hide(value: &mut Value) {
    let hide_value = |value: &mut Value| {
        if !value.is_null() {
            *value = HIDDEN.into();
        }
    };
    match value {
        Value::Object(fields) => {
            fields.remove("managedFields");
            if let Some(Value::Object(annotations)) = fields.get_mut("annotations") {
                annotations.retain(|_, value| !is_resource(value));
            }
            if fields.get("sensitive") == Some(&Value::Bool(true)) {
                // Kafka does not tell them.
                fields.get_mut("value").into_iter().for_each(hide_value);
            }
            for (name, value) in fields.iter_mut() {
                match (name.as_str(), &mut *value) {
                    ("env", Value::Array(variables)) => {
                        variables
                            .iter_mut()
                            .filter_map(|one| one.get_mut("value"))
                            .for_each(hide_value);
                    }
                    ("javaSystemProperties", Value::Array(properties)) => {
                        let name = |one: &Value| one["name"].as_str().is_some_and(is_secret);
                        let secret = properties.iter_mut().filter(|one| name(one));
                        secret.filter_map(|one| one.get_mut("value")).for_each(hide_value);
                    }
                    ("config" | "listenerConfig", Value::Object(settings)) => {
                        let secret = settings.iter_mut().filter(|(name, _)| is_secret(name));
                        secret.for_each(|(_, value)| hide_value(value));
                    }
                    _ => {}
                }
                hide(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether an annotation holds a resource, as `kubectl apply` and other tools keep it.
fn is_resource(annotation: &Value) -> bool {
    let value: Option<Value> = annotation.as_str().and_then(|text| serde_json::from_str(text).ok());
    value.is_some_and(|value| value.get("spec").is_some())
}

/// Whether the name of a setting speaks of something secret.
fn is_secret(name: &str) -> bool {
    const WORDS: [&str; 11] = [
        "password",
        "passphrase",
        "secret",
        "token",
        "jaas",
        "credential",
        "access.key",
        "accesskey",
        "apikey",
        "private",
        "connection.string",
    ];
    let name = name.to_lowercase();
    let is_key = name.rsplit(['.', '-', '_']).next() == Some("key");
    is_key || WORDS.iter().any(|word| name.contains(word))
}

/// Reads a file: the cluster, and when it was observed.
pub(super) fn read(path: &Path) -> anyhow::Result<(Looked, u64)> {
    let file = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = report::snapshot_in(&file)
        .with_context(|| format!("cannot read {}", path.display()))?
        .unwrap_or(file);
    let is_none = || format!("{} is not a snapshot of a cluster", path.display());
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
    Ok((Looked { found, seen, unknown, edits: file.edits }, file.taken_ms))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_users_wrote_beside_secrets_is_hidden() {
        let mut file = json!({
            "kafka": { "spec": { "kafka": {
                "config": { "log.retention.ms": 5, "ssl.keystore.password": "canary" },
                "jvmOptions": { "javaSystemProperties": [
                    { "name": "keyStorePassword", "value": "canary" },
                    { "name": "file.encoding", "value": "seen" },
                ] },
                "tieredStorage": { "config": {
                    "storage.aws.secret.access.key": "canary", "storage.azure.account.key": "canary",
                    "storage.azure.connection.string": "canary",
                } },
                "listeners": [{ "authentication": { "listenerConfig": {
                    "plain.sasl.jaas.config": "canary", "ssl.keystore.key": "canary",
                } } }],
            } } },
            "pods": [{
                "metadata": { "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "{\"spec\": \"canary\"}",
                    "kapp.k14s.io/original": "{\"spec\": {\"env\": \"canary\"}}", "kept": "yes",
                } },
                "spec": { "containers": [{ "env": [
                    { "name": "A", "value": "canary" },
                    { "name": "B", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                ] }] },
            }],
        });
        hide(&mut file);
        let text = file.to_string();
        assert!(!text.contains("canary"), "{text}");
        for kept in ["log.retention.ms", "keyStorePassword", "seen", "kept", "fieldPath", "\"A\""] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
    }

    #[test]
    fn only_files_of_a_known_form_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let problem = |text: &str| {
            fs::write(&path, text).unwrap();
            format!("{:#}", read(&path).err().unwrap())
        };
        assert!(problem("").contains("is not a snapshot of a cluster"));
        assert!(problem(r#"{ "kind": "Kafka" }"#).contains("is not a snapshot of a cluster"));
        let newer = problem(&json!({ "format": FORMAT + 1 }).to_string());
        assert!(newer.contains("was written by a newer Gregor"), "{newer}");
        fs::remove_file(&path).unwrap();
        assert!(format!("{:#}", read(&path).err().unwrap()).contains("cannot read"));
    }
}
