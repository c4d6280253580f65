//! Collects the parts of a report. A part that cannot be read is named, and the others are collected all the same.

use std::time::Duration;

use anyhow::Context as _;
use api::names::{CLUSTER_LABEL, Names};
use api::{Kafka, KafkaNodePool, KafkaRebalance, KafkaTopic, KafkaUser, StrimziPodSet};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DynamicObject, GetParams, ListParams, LogParams};
use kube::core::{ApiResource, Request};
use kube::{Api, Client, Resource, ResourceExt as _};
use operator::install;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::super::snapshot;
use super::scrub::Scrubber;

/// Time limit of a direct request to a pod.
const DIRECT: Duration = Duration::from_secs(3);

/// The parts of a report.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Files by name.
    pub(super) all: Vec<(String, Vec<u8>)>,
    /// Parts that could not be read.
    pub(super) missing: Vec<String>,
    /// Whether there is such a cluster.
    pub(super) has_kafka: bool,
    /// Removes secrets.
    pub(super) scrubber: Scrubber,
}

impl Parts {
    pub(super) fn add(&mut self, name: &str, bytes: Vec<u8>) {
        self.all.push((name.to_owned(), bytes));
    }

    pub(super) fn miss(&mut self, what: &str, error: &anyhow::Error) {
        self.missing.push(format!("{what}: {error:#}"));
    }
}

/// Collects everything but the snapshot.
pub(super) async fn all(client: &Client, names: &Names, lines: i64) -> Parts {
    let mut parts = Parts::default();
    secrets(client, names, &mut parts).await;
    let about = format!("gregor {}\n", env!("CARGO_PKG_VERSION"));
    parts.add("version.txt", about.into_bytes());
    let everything = ListParams::default;
    let labelled = || everything().labels(&format!("{CLUSTER_LABEL}={}", names.cluster));
    let of = (client, names);
    let named = everything().fields(&format!("metadata.name={}", names.cluster));
    parts.has_kafka = resources::<Kafka>(of, named, &mut parts).await > 0;
    resources::<KafkaNodePool>(of, labelled(), &mut parts).await;
    resources::<KafkaTopic>(of, labelled(), &mut parts).await;
    resources::<KafkaUser>(of, labelled(), &mut parts).await;
    resources::<KafkaRebalance>(of, labelled(), &mut parts).await;
    resources::<StrimziPodSet>(of, labelled(), &mut parts).await;
    resources::<Pod>(of, labelled(), &mut parts).await;
    resources::<Service>(of, labelled(), &mut parts).await;
    resources::<ServiceAccount>(of, labelled(), &mut parts).await;
    resources::<PersistentVolumeClaim>(of, labelled(), &mut parts).await;
    resources::<NetworkPolicy>(of, labelled(), &mut parts).await;
    resources::<PodDisruptionBudget>(of, labelled(), &mut parts).await;
    // Records and plans. The ConfigMaps of nodes have settings: their secret values are in Secrets, which are removed.
    resources::<ConfigMap>(of, labelled(), &mut parts).await;
    resources::<Event>(of, everything(), &mut parts).await;
    let pods = Api::<Pod>::namespaced(client.clone(), &names.namespace);
    logs(&pods, labelled(), lines, &mut parts).await;
    operator(client, lines, &mut parts).await;
    parts
}

/// Lists Secrets without their values, which are removed from everything else.
async fn secrets(client: &Client, names: &Names, parts: &mut Parts) {
    let api: Api<Secret> = Api::namespaced(client.clone(), &names.namespace);
    match api.list(&ListParams::default()).await {
        Ok(found) => {
            let listed: Vec<_> = found.iter().map(without_values).collect();
            parts.scrubber = Scrubber::of(&found.items);
            let text = serde_json::to_vec_pretty(&listed).unwrap_or_default();
            parts.add("resources/Secret.json", text);
        }
        Err(error) => parts.miss("Secrets", &error.into()),
    }
}

/// A Secret, with the lengths of its values.
fn without_values(secret: &Secret) -> Value {
    let data = secret.data.iter().flatten();
    let lengths: Vec<_> =
        data.map(|(entry, value)| format!("{entry} ({} bytes)", value.0.len())).collect();
    json!({
        "name": secret.name_any(),
        "type": secret.type_,
        "labels": secret.labels(),
        "created": secret.creation_timestamp(),
        "entries": lengths,
    })
}

/// Adds resources of a kind as they were written, with unknown fields. Returns how many there are.
async fn resources<K>(
    (client, names): (&Client, &Names),
    which: ListParams,
    parts: &mut Parts,
) -> usize
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let (kind, resource) = (K::kind(&()), ApiResource::erase::<K>(&()));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &names.namespace, &resource);
    let found = match api.list(&which).await {
        Ok(found) => found.items,
        Err(error) => {
            parts.miss(&kind, &error.into());
            return 0;
        }
    };
    let mut listed = serde_json::to_value(&found).unwrap_or_default();
    snapshot::hide(&mut listed);
    let text = serde_json::to_vec_pretty(&listed).unwrap_or_default();
    parts.add(&format!("resources/{kind}.json"), text);
    found.len()
}

/// Adds the logs of pods: of each container, and of its previous run if it was restarted.
async fn logs(api: &Api<Pod>, which: ListParams, lines: i64, parts: &mut Parts) {
    let pods = match api.list(&which).await {
        Ok(pods) => pods.items,
        Err(error) => return parts.miss("logs", &error.into()),
    };
    for pod in pods {
        let statuses =
            pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        for status in statuses {
            for previous in [false, true] {
                if previous && status.restart_count == 0 {
                    continue;
                }
                let params = LogParams {
                    container: Some(status.name.clone()),
                    previous,
                    tail_lines: Some(lines),
                    timestamps: true,
                    ..LogParams::default()
                };
                let ending = if previous { ".previous.log" } else { ".log" };
                let name = format!("logs/{}/{}{ending}", pod.name_any(), status.name);
                match api.logs(&pod.name_any(), &params).await {
                    Ok(text) => parts.add(&name, text.into_bytes()),
                    Err(error) => parts.miss(&name, &error.into()),
                }
            }
        }
    }
}

/// Adds the Deployment, the logs and the metrics of operators.
async fn operator(client: &Client, lines: i64, parts: &mut Parts) {
    let ours =
        || ListParams::default().labels(&format!("app.kubernetes.io/name={}", install::NAME));
    let everywhere: Api<Deployment> = Api::all(client.clone());
    let deployments = match everywhere.list(&ours()).await {
        Ok(found) => found.items,
        Err(error) => return parts.miss("the operator", &error.into()),
    };
    for deployment in deployments {
        let namespace = deployment.namespace().unwrap_or_default();
        let mut written = serde_json::to_value(&deployment).unwrap_or_default();
        snapshot::hide(&mut written);
        let text = serde_json::to_vec_pretty(&written).unwrap_or_default();
        parts.add(&format!("operator/{namespace}/Deployment.json"), text);
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        logs(&pods, ours(), lines, parts).await;
        let listed = match pods.list(&ours()).await {
            Ok(listed) => listed.items,
            Err(error) => return parts.miss("the pods of the operator", &error.into()),
        };
        for pod in listed {
            let name = format!("operator/{namespace}/{}.metrics.txt", pod.name_any());
            match metrics(client, &namespace, &pod).await {
                Ok(text) => parts.add(&name, text.into_bytes()),
                Err(error) => parts.miss(&name, &error),
            }
        }
    }
}

/// The metrics of an operator: through the API server, or from its pod where the API server refuses, as it does for the
/// loopback addresses of local mode.
async fn metrics(client: &Client, namespace: &str, pod: &Pod) -> anyhow::Result<String> {
    let (name, port) = (pod.name_any(), install::HTTP_PORT);
    let proxy = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy");
    let request = Request::new(proxy).get("metrics", &GetParams::default());
    let error = match client.request_text(request.context("cannot build a request")?).await {
        Ok(text) => return Ok(text),
        Err(error) => anyhow::Error::new(error),
    };
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    let Some(address) = address else { return Err(error) };
    let direct = tokio::time::timeout(DIRECT, direct(&address, port)).await;
    direct.ok().and_then(Result::ok).ok_or(error)
}

async fn direct(address: &str, port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((address, port)).await?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    body.ok_or_else(|| std::io::Error::other("no HTTP response"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn secrets_are_listed_without_their_values() {
        let mut secret = Secret::default();
        secret.metadata.name = Some("my-user".to_owned());
        secret.data = Some([("password".to_owned(), ByteString(b"canary".to_vec()))].into());
        let listed = without_values(&secret).to_string();
        assert!(listed.contains("my-user") && listed.contains("password (6 bytes)"), "{listed}");
        assert!(!listed.contains("canary") && !listed.contains("Y2FuYXJ5"), "{listed}");
    }
}
