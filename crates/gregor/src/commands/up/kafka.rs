//! Waits for the Kafka clusters that were applied, says how far they are, and where clients begin.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use api::{Kafka, KafkaStatus};
use kube::{Api, Client};
use local::manifests::Manifest;

use crate::machine::operator::is_kafka;
use crate::output::note;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// After that long a person must look at it; a cluster of six nodes is ready in a fraction of it.
const PATIENCE: Duration = Duration::from_secs(600);

/// A cluster that is ready.
#[derive(Debug)]
pub(super) struct Cluster {
    name: String,
    namespace: String,
    listeners: Vec<(String, String)>,
}

/// Returns when all clusters among the manifests are ready.
///
/// # Errors
/// One is not ready after ten minutes. Everything goes on running.
pub(super) async fn wait(client: &Client, manifests: &[Manifest]) -> anyhow::Result<Vec<Cluster>> {
    let begun = Instant::now();
    let default = client.default_namespace();
    let mut waiting: Vec<(&str, &str)> = manifests
        .iter()
        .filter(|manifest| is_kafka(manifest))
        .map(|manifest| (manifest.namespace().unwrap_or(default), manifest.name()))
        .collect();
    let mut said = BTreeMap::new();
    let mut ready = Vec::new();
    while !waiting.is_empty() {
        let mut still = Vec::new();
        for (namespace, name) in waiting {
            let api = Api::<Kafka>::namespaced(client.clone(), namespace);
            // What cannot be read now can be in a moment; what is gone is not waited for.
            let kafka = match api.get_opt(name).await {
                Ok(Some(kafka)) => kafka,
                Ok(None) => continue,
                Err(_) => {
                    still.push((namespace, name));
                    continue;
                }
            };
            let sentence = match state(&kafka) {
                State::Ready(status) => {
                    note(&format!("Kafka {namespace}/{name} is ready"));
                    ready.push(Cluster::new(namespace, name, status));
                    continue;
                }
                State::Waiting(sentence) => sentence,
            };
            if said.get(&(namespace, name)) != Some(&sentence) {
                note(&format!("Kafka {namespace}/{name}: {sentence}"));
                said.insert((namespace, name), sentence.clone());
            }
            if begun.elapsed() > PATIENCE {
                let minutes = PATIENCE.as_secs() / 60;
                anyhow::bail!(
                    "Kafka {namespace}/{name} is not ready after {minutes} minutes: {sentence}; it \
                     goes on, and kubectl -n gregor logs deployment/gregor-operator shows more"
                );
            }
            still.push((namespace, name));
        }
        waiting = still;
        if !waiting.is_empty() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(ready)
}

enum State<'a> {
    Ready(&'a KafkaStatus),
    Waiting(String),
}

fn state(kafka: &Kafka) -> State<'_> {
    let waiting = |sentence: &str| State::Waiting(sentence.to_owned());
    let Some(status) = &kafka.status else {
        return waiting("waiting for the operator");
    };
    let holds = |kind: &str, wanted: &str| {
        status.conditions.iter().flatten().find(|condition| {
            condition.kind.as_deref() == Some(kind) && condition.status.as_deref() == Some(wanted)
        })
    };
    let is_current = status.observed_generation >= kafka.metadata.generation;
    if is_current && holds("Ready", "True").is_some() {
        return State::Ready(status);
    }
    match holds("NotReady", "True").or_else(|| holds("Ready", "False")) {
        Some(why) => {
            let words = [&why.reason, &why.message].into_iter().flatten().cloned();
            State::Waiting(words.collect::<Vec<_>>().join(": "))
        }
        None if is_current => waiting("not ready yet"),
        None => waiting("waiting for the operator"),
    }
}

impl Cluster {
    fn new(namespace: &str, name: &str, status: &KafkaStatus) -> Self {
        let listeners = status.listeners.iter().flatten().filter_map(|listener| {
            Some((listener.name.clone()?, listener.bootstrap_servers.clone()?))
        });
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            listeners: listeners.collect(),
        }
    }
}

/// Where clients begin, and what to try next.
pub(super) fn summary(clusters: &[Cluster], hosts: &Path, kubectl: &Path) -> String {
    let mut text = String::new();
    for cluster in clusters {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "Kafka {} in {} has these bootstrap addresses:\n",
            cluster.name, cluster.namespace
        );
        for (name, servers) in &cluster.listeners {
            let _ = writeln!(text, "  {name:<11} {servers}");
        }
        text.push('\n');
    }
    if let Some(cluster) = clusters.first() {
        let (hosts, kubectl) = (hosts.display(), kubectl.display());
        let namespace = &cluster.namespace;
        let _ = write!(
            text,
            "These names are in {hosts}; a Java client on this machine finds them there with\n\n  \
             KAFKA_OPTS=-Djdk.net.hosts.file={hosts}\n\nTo try next:\n\n  \
             {kubectl} -n {namespace} get kafka,kafkanodepool,pods\n  \
             {kubectl} -n {namespace} scale kafkanodepool NAME --replicas=N\n  \
             {kubectl} -n gregor logs -f deployment/gregor-operator\n\n",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn kafka(status: Value) -> Kafka {
        serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "Kafka",
            "metadata": { "name": "a", "generation": 2 },
            "spec": { "kafka": { "listeners": [] } },
            "status": status,
        }))
        .unwrap()
    }

    #[track_caller]
    fn check(status: Value, expected: &str) {
        let kafka = kafka(status);
        let found = match state(&kafka) {
            State::Ready(_) => "ready".to_owned(),
            State::Waiting(sentence) => sentence,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_cluster_is_ready_when_its_last_edit_is() {
        let condition = |kind: &str, reason: Option<&str>| json!([{ "type": kind, "status": "True", "reason": reason, "message": "m" }]);
        let ready = condition("Ready", None);
        check(Value::Null, "waiting for the operator");
        check(json!({ "observedGeneration": 1, "conditions": ready }), "waiting for the operator");
        check(json!({ "observedGeneration": 2, "conditions": ready }), "ready");
        check(json!({ "observedGeneration": 2 }), "not ready yet");
        let creating = condition("NotReady", Some("Creating"));
        check(json!({ "observedGeneration": 2, "conditions": creating }), "Creating: m");
    }

    #[test]
    fn the_summary_names_every_listener() {
        let kafka = kafka(json!({ "listeners": [
            { "name": "plain", "bootstrapServers": "a:9092" },
            { "name": "tls", "bootstrapServers": "a:9093,b:9093" },
            { "name": "not-yet" },
        ] }));
        let cluster = Cluster::new("demo", "a", kafka.status.as_ref().unwrap());
        let text = summary(&[cluster], Path::new("/s/hosts"), Path::new("/b/kubectl"));
        assert!(text.contains("\n  plain       a:9092\n  tls         a:9093,b:9093\n"), "{text}");
        assert!(text.contains("jdk.net.hosts.file=/s/hosts"), "{text}");
        assert_eq!(summary(&[], Path::new("x"), Path::new("y")), "");
    }
}
