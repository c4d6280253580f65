//! The cluster that users belong to, in Kubernetes.

use anyhow::{Context as _, bail};
use api::Kafka;
use clap::Args;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use crate::commands::reach::Reach;
use crate::failure::{OutcomeUnknown, Usage};

/// A cluster, and how to reach it.
#[derive(Debug, Args)]
pub(super) struct Target {
    /// Name of the Kafka resource
    #[arg(long, global = true, value_name = "NAME")]
    cluster: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

/// A client for one cluster.
pub(super) struct Session {
    pub(super) cluster: String,
    pub(super) namespace: String,
    client: Client,
}

impl Target {
    pub(super) async fn session(&self) -> anyhow::Result<Session> {
        let cluster = self.cluster.clone();
        let cluster =
            cluster.ok_or_else(|| Usage::error("which cluster? Name it with --cluster"))?;
        let (client, namespace) = self.reach.client().await?;
        Ok(Session { cluster, namespace, client })
    }
}

impl Session {
    pub(super) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The cluster, if it exists.
    pub(super) async fn find_kafka(&self) -> anyhow::Result<Option<Kafka>> {
        let api: Api<Kafka> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = api.get_opt(&self.cluster).await;
        found.with_context(|| {
            format!("cannot read the Kafka {} in {}", self.cluster, self.namespace)
        })
    }

    /// The cluster.
    pub(super) async fn kafka(&self) -> anyhow::Result<Kafka> {
        match self.find_kafka().await? {
            Some(kafka) => Ok(kafka),
            None => bail!("there is no Kafka {} in namespace {}", self.cluster, self.namespace),
        }
    }

    /// A Secret, if it exists.
    pub(super) async fn find_secret(&self, name: &str) -> anyhow::Result<Option<Secret>> {
        let found = self.secrets().get_opt(name).await;
        found.with_context(|| format!("cannot read the Secret {name} in {}", self.namespace))
    }
}

/// The error of a write: an error response means not done, anything else may have been.
pub(super) fn after_write(error: kube::Error, what: &str) -> anyhow::Error {
    let answered = matches!(error, kube::Error::Api(_));
    let error = anyhow::Error::new(error);
    match answered {
        true => error.context(format!("cannot {what}")),
        false => {
            error.context(OutcomeUnknown(format!("it is not known whether it was done: {what}")))
        }
    }
}
