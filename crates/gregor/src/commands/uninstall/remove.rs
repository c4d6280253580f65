//! The steps of the removal. Each can be repeated: what is gone already is no error.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use api::{KafkaNodePool, KafkaRebalance, KafkaTopic};
use control::life::uninstall::{Held, Kind};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use operator::install;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::observe::Installed;
use crate::commands::{dynamic, installed};

/// Time for the operator to stop: its grace period, and the Lease of one that was killed.
const STOP_MAX: Duration = Duration::from_secs(120);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// Attempts to remove a finalizer while others write to the resource.
const ATTEMPTS: usize = 5;

/// Stops the operator: deletes its Deployment, and waits until its pods are gone and the Lease is not held.
pub(super) async fn stop(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let params = DeleteParams::background();
    match deployments.delete(install::NAME, &params).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(error).context("cannot delete the operator's Deployment"),
    }
    let begun = Instant::now();
    loop {
        let Some(why) = running(client, namespace).await? else { return Ok(()) };
        if begun.elapsed() > STOP_MAX {
            bail!(
                "the operator does not stop: {why}. Its finalizers were not removed; repeat the command"
            );
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What of the operator still runs.
async fn running(client: &Client, namespace: &str) -> anyhow::Result<Option<String>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let ours = ListParams::default().labels(&format!("app.kubernetes.io/name={}", install::NAME));
    let pods = pods.list_metadata(&ours).await.context("cannot list the pods of the operator")?;
    if let Some(pod) = pods.items.first() {
        return Ok(Some(format!("pod {} exists", pod.name_any())));
    }
    let operators = installed::operators(client, Some(namespace)).await?;
    let holds = operators.iter().any(|one| one.name == install::NAME && one.runs);
    Ok(holds.then(|| format!("its Lease {namespace}/{} is held", install::NAME)))
}

/// Removes the finalizer of a resource.
pub(super) async fn finalizer(client: &Client, held: &Held) -> anyhow::Result<()> {
    let done = match held.kind {
        Kind::Pool => finalizer_of::<KafkaNodePool>(client, held).await,
        Kind::Topic => finalizer_of::<KafkaTopic>(client, held).await,
        Kind::Rebalance => finalizer_of::<KafkaRebalance>(client, held).await,
        Kind::User => finalizer_of::<Secret>(client, held).await,
    };
    let Held { kind, namespace, name, .. } = held;
    done.with_context(|| {
        format!("cannot remove the finalizer of {} {namespace}/{name}", kind.name())
    })
}

async fn finalizer_of<K>(client: &Client, held: &Held) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), &held.namespace);
    let mut attempt = 0;
    loop {
        attempt += 1;
        let Some(found) = api.get_metadata_opt(&held.name).await? else { return Ok(()) };
        let others: Vec<_> =
            found.finalizers().iter().filter(|one| *one != held.kind.finalizer()).collect();
        if others.len() == found.finalizers().len() {
            return Ok(());
        }
        let version = found.resource_version();
        let patch = json!({ "metadata": { "finalizers": others, "resourceVersion": version } });
        let done =
            api.patch_metadata(&held.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        match done {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}

/// Deletes the other objects of the installation. Returns those that were there.
pub(super) async fn objects(client: &Client, installed: &Installed) -> anyhow::Result<Vec<String>> {
    let mut removed = Vec::new();
    for object in &installed.removable {
        let what = dynamic::what(object);
        let Some((api, name)) = dynamic::api(client, object).await? else { continue };
        match api.delete(&name, &DeleteParams::background()).await {
            Ok(_) => removed.push(what),
            // The Deployment was deleted first.
            Err(kube::Error::Api(status)) if status.code == 404 => removed.push(what),
            Err(error) => return Err(error).with_context(|| format!("cannot delete {what}")),
        }
        if object["kind"] == "Role" {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
            match leases.delete(install::NAME, &DeleteParams::default()).await {
                Ok(_) => removed.push(format!("Lease {namespace}/{}", install::NAME)),
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error).context("cannot delete the operator's Lease"),
            }
        }
    }
    Ok(removed)
}
