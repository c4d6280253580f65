//! The cluster that users belong to, in Kubernetes.

use anyhow::{Context as _, bail};
use api::{Kafka, KafkaUser, read};
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
#[derive(Clone)]
pub(super) struct Session {
    pub(super) cluster: String,
    /// Where the users are.
    pub(super) namespace: String,
    /// Where the cluster is.
    cluster_namespace: String,
    client: Client,
}

impl Target {
    pub(super) async fn session(&self) -> anyhow::Result<Session> {
        let cluster = self.cluster.clone();
        let cluster =
            cluster.ok_or_else(|| Usage::error("no cluster given: name it with --cluster"))?;
        let (client, namespace) = self.reach.client().await?;
        Ok(Session { cluster, cluster_namespace: namespace.clone(), namespace, client })
    }
}

impl Session {
    /// The same, where the users of the cluster are. Fails if the operator does not manage users there.
    pub(super) fn of_users(&self, kafka: &Kafka) -> anyhow::Result<Self> {
        let Some(users) = read::users(kafka) else {
            bail!(
                "the Kafka {} does not manage users: set its spec.entityOperator.userOperator to {{}}",
                self.cluster
            );
        };
        Ok(Self { namespace: users.namespace, ..self.clone() })
    }

    pub(super) fn users(&self) -> Api<KafkaUser> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A user, if there is one.
    pub(super) async fn find_user(&self, name: &str) -> anyhow::Result<Option<KafkaUser>> {
        let found = self.users().get_opt(name).await;
        found.with_context(|| format!("cannot read the KafkaUser {name} in {}", self.namespace))
    }

    /// A Secret of the cluster itself, if there is one.
    pub(super) async fn find_cluster_secret(&self, name: &str) -> anyhow::Result<Option<Secret>> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.cluster_namespace);
        let found = api.get_opt(name).await;
        found
            .with_context(|| format!("cannot read the Secret {name} in {}", self.cluster_namespace))
    }

    pub(super) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The cluster, if it exists.
    pub(super) async fn find_kafka(&self) -> anyhow::Result<Option<Kafka>> {
        let namespace = &self.cluster_namespace;
        let api: Api<Kafka> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(&self.cluster).await;
        found.with_context(|| format!("cannot read the Kafka {} in {namespace}", self.cluster))
    }

    /// The cluster.
    pub(super) async fn kafka(&self) -> anyhow::Result<Kafka> {
        match self.find_kafka().await? {
            Some(kafka) => Ok(kafka),
            None => {
                bail!("there is no Kafka {} in namespace {}", self.cluster, self.cluster_namespace)
            }
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
            error.context(OutcomeUnknown(format!("it is unknown whether this was done: {what}")))
        }
    }
}
