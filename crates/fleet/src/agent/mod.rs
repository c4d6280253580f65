//! The agent of a data plane: creates the requested Kafkas, and reports the remaining capacity.
//!
//! 1. A Kafka is deleted only if the manager lists it with `deleted: true`, never because it is not listed.
//! 2. What is reported is counted from what is there: nodes, and the Kafkas as they are written down in the
//!    cluster. Nothing is a constant.
//! 3. A Kafka that would not fit is refused before anything of it is made.
//! 4. What cannot be read is not reported: no report is better than a wrong one.
//!
//! Statuses of Kafkas are told before the report, so that a report counts every Kafka that was told of.

mod credentials;
pub mod install;
mod kafkas;
mod survey;
mod token;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use hyper::Method;
use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client as Kubernetes};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Notify;

pub use token::TokenSource;

use crate::client::{Client, ClientError, is_confidential};
use crate::http::{AgentConfig, BASE, ManagedKafkaList};
use crate::store::now_ms;
use token::Tokens;

/// How it is, told together with the report.
const SETTLE: Duration = Duration::from_secs(1);

/// What an agent is started with.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// Where the fleet manager is.
    pub manager: String,
    /// The id of the data plane.
    pub plane: String,
    /// Where its token comes from.
    pub token: TokenSource,
    /// How often to report when nothing changes.
    pub interval: Duration,
    /// Which nodes are for Kafkas, as a label selector; all if empty.
    pub node_selector: String,
    /// The version of Kafka that is asked for; the operator's own choice if none.
    pub kafka_version: Option<String>,
}

/// Why a pass of the agent came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The token, or the secret for it, cannot be read.
    #[error("cannot read {0:?}")]
    Token(PathBuf, #[source] std::io::Error),
    /// Whoever is on the way could read the token.
    #[error(
        "{0} must begin with https://, unless it is a loopback address; no token is sent to it"
    )]
    Insecure(String),
    /// The identity provider gives no token.
    #[error("cannot get a token")]
    NoToken(#[source] ClientError),
    /// The manager does not answer, or says no.
    #[error("cannot {0}")]
    Manager(&'static str, #[source] ClientError),
    /// The answer of the manager is not valid.
    #[error("the manager's answer is not valid")]
    Answer(#[source] serde_json::Error),
    /// The nodes cannot be read.
    #[error("cannot list the nodes")]
    Nodes(#[source] kube::Error),
    /// The Kafkas cannot be read.
    #[error("cannot list the Kafkas")]
    Kafkas(#[source] kube::Error),
    /// A Kafka cannot be made.
    #[error("cannot apply the Kafka {0}")]
    Apply(String, #[source] kube::Error),
    /// The credentials of an owner cannot be stored.
    #[error("cannot store the credentials of the Kafka {0}")]
    Credentials(String, #[source] kube::Error),
    /// A Kafka cannot be deleted.
    #[error("cannot delete the Kafka {0}")]
    Delete(String, #[source] kube::Error),
}

/// An agent.
#[derive(Clone)]
pub struct Agent {
    options: AgentOptions,
    client: Client,
    kubernetes: Kubernetes,
    tokens: Arc<Tokens>,
    /// Grows from report to report, also over restarts: it begins with the time.
    sequence: i64,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Agent {
    /// An agent for the cluster of the client.
    #[must_use]
    pub fn new(options: AgentOptions, client: Client, kubernetes: Kubernetes) -> Self {
        let tokens = Arc::new(Tokens::new(options.token.clone()));
        Self { options, client, kubernetes, tokens, sequence: 0 }
    }

    /// Works until told to stop.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let changed = Arc::new(Notify::new());
        let watches = tokio::spawn(watch(self.kubernetes.clone(), Arc::clone(&changed)));
        let mut stop = std::pin::pin!(stop);
        loop {
            if let Err(error) = self.pass().await {
                tracing::warn!(error = %crate::chain(&error), "not reported");
            }
            tokio::select! {
                () = &mut stop => break,
                () = tokio::time::sleep(self.options.interval) => {}
                () = async { changed.notified().await; tokio::time::sleep(SETTLE).await } => {}
            }
        }
        watches.abort();
    }

    /// Asks what there is to be, brings it about as far as it can, and tells.
    ///
    /// # Errors
    /// At the first thing that cannot be had; the next pass begins anew.
    pub async fn pass(&mut self) -> Result<(), AgentError> {
        if !is_confidential(&self.options.manager) {
            return Err(AgentError::Insecure(self.options.manager.clone()));
        }
        let config: AgentConfig = self.get("get the configuration", "").await?;
        let wanted: ManagedKafkaList = self.get("get the Kafkas", "/kafkas").await?;
        let statuses = self.bring_about(&config, &wanted).await?;
        if !statuses.is_empty() {
            let body = serde_json::to_value(&statuses).map_err(AgentError::Answer)?;
            self.put("report the Kafkas", "/kafkas/status", &body).await?;
        }
        let mut report = self.survey(&config).await?;
        self.sequence = now_ms().max(self.sequence + 1);
        report.sequence = Some(self.sequence);
        let body = serde_json::to_value(&report).map_err(AgentError::Answer)?;
        self.put("report", "/status", &body).await
    }

    fn url(&self, path: &str) -> String {
        let manager = self.options.manager.trim_end_matches('/');
        format!("{manager}{BASE}/agent-clusters/{}{path}", self.options.plane)
    }

    async fn get<T: DeserializeOwned>(
        &self,
        what: &'static str,
        path: &str,
    ) -> Result<T, AgentError> {
        let token = self.tokens.get(&self.client).await?;
        let answer = self.client.json(Method::GET, &self.url(path), Some(&token), None).await;
        let answer = answer.map_err(|error| AgentError::Manager(what, error))?;
        serde_json::from_value(answer).map_err(AgentError::Answer)
    }

    async fn put(&self, what: &'static str, path: &str, body: &Value) -> Result<(), AgentError> {
        let token = self.tokens.get(&self.client).await?;
        let answer = self.client.send(Method::PUT, &self.url(path), Some(&token), Some(body)).await;
        answer.map(drop).map_err(|error| AgentError::Manager(what, error))
    }
}

/// Notices that nodes or Kafkas have changed.
async fn watch(kubernetes: Kubernetes, changed: Arc<Notify>) {
    let nodes = watcher(Api::<Node>::all(kubernetes.clone()), watcher::Config::default())
        .default_backoff()
        .map(drop);
    let (resource, _) = kafkas::resources();
    let kafkas = Api::<DynamicObject>::all_with(kubernetes, &resource);
    // The resource may not be defined yet, so errors are no news.
    let kafkas =
        kube::runtime::watcher(kafkas, watcher::Config::default()).default_backoff().map(drop);
    let mut both = futures::stream::select(nodes, kafkas).boxed();
    while both.next().await.is_some() {
        changed.notify_one();
    }
}
