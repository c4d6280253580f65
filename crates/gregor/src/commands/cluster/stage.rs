//! How the commands get to see what the operator would do: its own steps, with its own settings, gone through
//! without a change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::names::Names;
use control::annotations::Annotation;
use control::life::coexist::Selector;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kafka_admin::Resolve;
use kube::api::ListParams;
use kube::{Api, Client, Config, ResourceExt as _};
use operator::cluster::foresee::Stage;
use operator::context::{OPERATION_TIMEOUT, Settings};
use operator::install;

use crate::commands::hosts::Hosts;
use crate::commands::operator::KafkaImage;
use crate::commands::reach::Reach;

/// The DNS domain of most Kubernetes clusters.
const DOMAIN: &str = "cluster.local";

/// Where to look, and with what.
pub(crate) struct Staged {
    pub(crate) stage: Stage,
    pub(crate) names: Names,
    /// The API server.
    pub(crate) server: String,
    /// What had to be assumed of the operator.
    pub(crate) assumed: Option<String>,
}

/// Makes the stage for one cluster. `version` is a Kafka that is asked for.
pub(crate) async fn stage(
    (reach, hosts): (&Reach, &Hosts),
    cluster: &str,
    namespace: Option<&str>,
    version: Option<&str>,
) -> anyhow::Result<Staged> {
    let (config, default) = reach.config().await?;
    let names = Names::new(namespace.unwrap_or(&default), cluster);
    let resolve = hosts.names(reach.directory().as_deref())?;
    of_config(config, resolve, names, version).await
}

/// The same, with the identity of this configuration.
pub(crate) async fn of_config(
    config: Config,
    resolve: Arc<dyn Resolve>,
    names: Names,
    version: Option<&str>,
) -> anyhow::Result<Staged> {
    let server = config.cluster_url.to_string();
    let client = Client::try_from(config.clone()).context("cannot create a Kubernetes client")?;
    let found = environment(&client).await;
    let assumed = found.is_none().then(|| {
        "the Deployment of the operator was not found: assuming that it has images for all Kafka \
         versions that run or are requested"
            .to_owned()
    });
    let variables = found.unwrap_or_default();
    let mut kafka_images = images(variables.get("GREGOR_KAFKA_IMAGES").map_or("", String::as_str));
    if assumed.is_some() {
        kafka_images = running(&client, &names).await;
        if let Some(version) = version {
            kafka_images.entry(version.to_owned()).or_default();
        }
    }
    let settings = Settings {
        namespaces: Vec::new(),
        kafka_images,
        cluster_domain: variables.get("GREGOR_CLUSTER_DOMAIN").map_or(DOMAIN, |v| v).to_owned(),
        interval: Duration::ZERO,
        operation_timeout: variables
            .get(install::TIMEOUT_VARIABLE)
            .and_then(|text| text.parse().ok())
            .map_or(OPERATION_TIMEOUT, Duration::from_millis),
        watches_other_namespaces: false,
        selector: Selector::default(),
    };
    let stage = Stage::new(config, settings, resolve)?;
    Ok(Staged { stage, names, server, assumed })
}

/// What the operator's container is told in its environment; `None` if there is no operator to be seen.
async fn environment(client: &Client) -> Option<BTreeMap<String, String>> {
    let labels = format!("app.kubernetes.io/name={}", install::NAME);
    let wanted = ListParams::default().labels(&labels);
    let everywhere: Api<Deployment> = Api::all(client.clone());
    let here: Api<Deployment> = Api::namespaced(client.clone(), install::NAMESPACE);
    let found = match everywhere.list(&wanted).await {
        Ok(found) => found.items,
        // Who may not look everywhere may still look where it usually is.
        Err(_) => here.list(&wanted).await.ok()?.items,
    };
    let pod = found.into_iter().next()?.spec?.template.spec?;
    let variables = pod.containers.into_iter().next()?.env.unwrap_or_default();
    Some(variables.into_iter().filter_map(|one| Some((one.name, one.value?))).collect())
}

fn images(text: &str) -> BTreeMap<String, String> {
    KafkaImage::map(text.split_whitespace().filter_map(|one| one.parse().ok()).collect())
}

/// The versions of Kafka that run, with their images.
async fn running(client: &Client, names: &Names) -> BTreeMap<String, String> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &names.namespace);
    let labels = format!("{}={}", api::names::CLUSTER_LABEL, names.cluster);
    let pods = api.list(&ListParams::default().labels(&labels)).await;
    let of = |pod: &Pod| {
        let version = pod.annotations().get(Annotation::KafkaVersion.name())?.clone();
        let image = pod.spec.as_ref()?.containers.first()?.image.clone()?;
        Some((version, image))
    };
    pods.map(|pods| pods.iter().filter_map(of).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_read_as_the_operator_reads_them() {
        let all: Vec<_> = images("4.1.2=a/b:1 4.3.1=c").into_iter().collect();
        assert_eq!(all, [("4.1.2".into(), "a/b:1".into()), ("4.3.1".into(), "c".into())]);
    }
}
