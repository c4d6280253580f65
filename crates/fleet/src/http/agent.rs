//! What agents ask and tell.

use std::collections::BTreeMap;

use api::names::ORGANISATION_LABEL;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use fleet_control::{AgentWord, Capacity, KafkaEvent, KafkaStatus, read_agent};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::callers::{Agent, Body, is_id};
use super::error::{Code, Error, Refusal};
use super::report::{AgentReport, Condition};
use crate::config::Size;
use crate::reports::{Received, ReportOutcome};
use crate::store::{Credential, Kafka, Tx, new_id, now_ms};
use crate::tenants::organisation_label;

/// The reason of the condition when there is no capacity after all.
const INSUFFICIENT: &str = "Cluster has insufficient resources";

/// More than any chain of certificates takes.
const PEM_MAX: usize = 16_384;

/// The configuration of a data plane, for its agent.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = DataplaneClusterAgentConfig)]
pub struct AgentConfig {
    /// Its specification.
    pub spec: AgentSpec,
}

/// The specification of a data plane.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentSpec {
    /// Whether Kafkas are reachable from inside the data plane only.
    pub net: Net,
    /// Limits of the number of nodes, by instance type.
    pub capacity: BTreeMap<String, MaxNodes>,
    /// Its nodes.
    pub nodes: PoolSpec,
    /// Whether its nodes are in several zones.
    pub multi_az: bool,
    /// The capacity and brokers of one Kafka of size Model T.
    pub model_t: KafkaSpec,
}

/// The network of Kafkas.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Net {
    /// Reachable from inside the data plane only.
    pub private: bool,
}

/// A number of nodes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaxNodes {
    /// The largest number.
    pub max_nodes: u32,
}

/// Limits of the nodes of a data plane.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolSpec {
    /// The smallest number.
    pub min: u32,
    /// The largest number.
    pub max: u32,
    /// The number of nodes of one scaling step.
    pub delta: u32,
    /// The capacity of one node.
    pub per_node: KafkaCapacity,
}

/// The desired Kafkas of a data plane.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ManagedKafkaList {
    /// Always `ManagedKafkaList`.
    pub kind: String,
    /// The Kafkas.
    pub items: Vec<ManagedKafka>,
}

/// A desired Kafka of a data plane.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ManagedKafka {
    /// Its id.
    pub id: String,
    /// Always `ManagedKafka`.
    pub kind: String,
    /// Its name and namespace.
    pub metadata: Metadata,
    /// Its specification.
    pub spec: KafkaSpec,
    /// Passwords of its owners that the agent has not stored yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<OwnerCredential>,
}

/// A password of an owner of a Kafka.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct OwnerCredential {
    /// Its id; the agent reports it in `credentialsStored`.
    pub id: String,
    /// The user of Kafka.
    pub username: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for OwnerCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnerCredential").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Metadata of a resource.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Metadata {
    /// The name of the resource.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// `bf2.org/id` and `bf2.org/placementId`.
    pub annotations: BTreeMap<String, String>,
    /// `bf2.org/kafkaInstanceProfileType`, and `gregor.io/organisation`.
    pub labels: BTreeMap<String, String>,
}

/// The specification of a Kafka.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaSpec {
    /// Its capacity.
    pub capacity: KafkaCapacity,
    /// Its brokers.
    pub brokers: u32,
    /// The memory of a broker, as a quantity.
    pub broker_memory: String,
    /// CPU of a broker, in millicores.
    pub broker_cpu_milli: u64,
    /// Whether brokers are in several zones.
    pub multi_az: bool,
    /// The users who administer it.
    pub owners: Vec<String>,
    /// Whether to delete it. An agent deletes a Kafka for no other reason.
    pub deleted: bool,
}

/// The capacity of a Kafka.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaCapacity {
    /// Bytes per second, inbound and outbound.
    pub ingress_egress_throughput_per_sec: u64,
    /// Client connections.
    pub total_max_connections: u64,
    /// Bytes of storage.
    pub max_data_retention_size: u64,
    /// Partitions.
    pub max_partitions: u64,
}

impl From<Capacity> for KafkaCapacity {
    fn from(room: Capacity) -> Self {
        Self {
            ingress_egress_throughput_per_sec: room.throughput_bytes,
            total_max_connections: room.connections,
            max_data_retention_size: room.retention_bytes,
            max_partitions: room.partitions,
        }
    }
}

impl From<&KafkaCapacity> for Capacity {
    fn from(room: &KafkaCapacity) -> Self {
        Self {
            connections: room.total_max_connections,
            partitions: room.max_partitions,
            throughput_bytes: room.ingress_egress_throughput_per_sec,
            retention_bytes: room.max_data_retention_size,
        }
    }
}

/// The status of a Kafka, as its agent reports it.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DataPlaneKafkaStatus {
    /// The condition `Ready` holds its state.
    pub conditions: Option<Vec<Condition>>,
    /// The versions that it runs.
    pub versions: Option<Versions>,
    /// Bootstrap address for clients.
    pub bootstrap_server_host: Option<String>,
    /// The certificate authority that its listeners are signed by, in PEM.
    pub ca_certificate: Option<String>,
    /// Ids of credentials that are stored in the data plane.
    pub credentials_stored: Vec<String>,
}

/// Versions.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Versions {
    /// The version of Apache Kafka.
    pub kafka: Option<String>,
}

fn no_such_agent(id: &str) -> Refusal {
    // Not 404, which means that the caller is not the agent of this data plane.
    Refusal::new(Code::BadRequest, format!("Cluster agent with ID '{id}' not found"))
}

/// Show the configuration of a data plane to its agent.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/agent-clusters/{id}", tag = "agent",
    params(("id" = String, Path)),
    responses((status = 200, body = AgentConfig), (status = 400, body = Error),
        (status = 401, body = Error), (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn get_agent(
    State(app): State<App>,
    agent: Agent,
) -> Result<Json<AgentConfig>, Refusal> {
    let plane = app.store.plane(&agent.plane).await?;
    let plane = plane.ok_or_else(|| no_such_agent(&agent.plane))?;
    let nodes = &app.config.agent;
    let per_node = Size {
        connections: nodes.connections,
        partitions: nodes.partitions,
        throughput: nodes.throughput.clone(),
        retention: nodes.retention.clone(),
        ..app.config.model_t.clone()
    };
    let kinds = app.config.instance_types.iter();
    Ok(Json(AgentConfig {
        spec: AgentSpec {
            net: Net { private: false },
            capacity: kinds
                .map(|kind| (kind.id.clone(), MaxNodes { max_nodes: nodes.nodes_max }))
                .collect(),
            nodes: PoolSpec {
                min: nodes.nodes_min,
                max: nodes.nodes_max,
                delta: nodes.node_delta,
                per_node: per_node.capacity().into(),
            },
            multi_az: plane.multi_az,
            model_t: spec(&app.config.model_t, false, Vec::new()),
        },
    }))
}

fn spec(size: &Size, deleted: bool, owners: Vec<String>) -> KafkaSpec {
    KafkaSpec {
        capacity: size.capacity().into(),
        brokers: size.brokers,
        broker_memory: size.memory.clone(),
        broker_cpu_milli: size.cpu_milli,
        multi_az: size.multi_az,
        owners,
        deleted,
    }
}

/// Report the capacity of a data plane: in use, left, and the change by one scaling step.
#[utoipa::path(put, path = "/api/kafkas_mgmt/v1/agent-clusters/{id}/status", tag = "agent",
    params(("id" = String, Path)), request_body = AgentReport,
    responses((status = 204), (status = 400, body = Error), (status = 401, body = Error),
        (status = 404, body = Error), (status = 413, body = Error), (status = 429, body = Error)))]
pub(super) async fn put_status(
    State(app): State<App>,
    agent: Agent,
    Body(body): Body<AgentReport>,
) -> Result<StatusCode, Refusal> {
    let report = body.read().map_err(|errors| Refusal::new(Code::Fields, errors.0.join("; ")))?;
    if body.sequence.is_some_and(|sequence| sequence < 0) {
        return Err(Refusal::new(Code::Fields, "sequence must not be negative"));
    }
    let received = Received { sequence: body.sequence, report, message: clean(&body.message()) };
    let outcome = app.reports.write(&agent.plane, received).await;
    app.counters.report(match &outcome {
        Ok(ReportOutcome::Stored) => "stored",
        Ok(ReportOutcome::Old) => "old",
        Ok(ReportOutcome::Refused(_)) => "refused",
        Ok(ReportOutcome::NoSuchPlane) => "unknown",
        Err(_) => "failed",
    });
    match outcome? {
        ReportOutcome::Refused(reason) => Err(Refusal::new(Code::Fields, reason)),
        ReportOutcome::NoSuchPlane => Err(no_such_agent(&agent.plane)),
        ReportOutcome::Stored | ReportOutcome::Old => Ok(StatusCode::NO_CONTENT),
    }
}

/// List the desired Kafkas of a data plane. The agent leaves a Kafka that is missing here unchanged.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/agent-clusters/{id}/kafkas", tag = "agent",
    params(("id" = String, Path)),
    responses((status = 200, body = ManagedKafkaList), (status = 400, body = Error),
        (status = 401, body = Error), (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn get_kafkas(
    State(app): State<App>,
    agent: Agent,
) -> Result<Json<ManagedKafkaList>, Refusal> {
    if app.store.plane(&agent.plane).await?.is_none() {
        return Err(no_such_agent(&agent.plane));
    }
    let kafkas = app.store.kafkas_of_plane(&agent.plane).await?;
    let listed = kafkas.iter().filter(|kafka| kafka.status().is_listed());
    let mut credentials = app.store.credentials_of_plane(&agent.plane).await?;
    let items = listed.filter_map(|kafka| {
        let credentials = credentials.remove(&kafka.id).unwrap_or_default();
        managed(&app, kafka, credentials)
    });
    let items = items.collect();
    Ok(Json(ManagedKafkaList { kind: "ManagedKafkaList".to_owned(), items }))
}

fn managed(app: &App, kafka: &Kafka, credentials: Vec<Credential>) -> Option<ManagedKafka> {
    let size = app.config.size(&kafka.instance_type, &kafka.size_id).cloned();
    let Some(size) = size else {
        tracing::error!(id = kafka.id, "the size of a Kafka is no longer configured");
        return None;
    };
    let annotations = [("bf2.org/id", &kafka.id), ("bf2.org/placementId", &kafka.placement_id)];
    let organisation = organisation_label(&kafka.organisation);
    let labels = [
        ("bf2.org/kafkaInstanceProfileType", &kafka.instance_type),
        (ORGANISATION_LABEL, &organisation),
    ];
    let map = |pairs: &[(&str, &String)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).clone())).collect()
    };
    Some(ManagedKafka {
        id: kafka.id.clone(),
        kind: "ManagedKafka".to_owned(),
        metadata: Metadata {
            name: kafka.name.clone(),
            namespace: format!("kafka-{}", kafka.id),
            annotations: map(&annotations),
            labels: map(&labels),
        },
        spec: KafkaSpec {
            capacity: kafka.need.into(),
            ..spec(&size, kafka.status() == KafkaStatus::Deprovision, vec![kafka.owner.clone()])
        },
        credentials: credentials
            .into_iter()
            .map(|Credential { id, username, password }| OwnerCredential { id, username, password })
            .collect(),
    })
}

/// Report the status of the Kafkas of a data plane. Kafkas that were moved to another data plane are ignored.
#[utoipa::path(put, path = "/api/kafkas_mgmt/v1/agent-clusters/{id}/kafkas/status", tag = "agent",
    params(("id" = String, Path)), request_body = BTreeMap<String, DataPlaneKafkaStatus>,
    responses((status = 200), (status = 400, body = Error), (status = 401, body = Error),
        (status = 404, body = Error), (status = 413, body = Error), (status = 429, body = Error)))]
pub(super) async fn put_kafkas_status(
    State(app): State<App>,
    agent: Agent,
    Body(statuses): Body<BTreeMap<String, DataPlaneKafkaStatus>>,
) -> Result<StatusCode, Refusal> {
    if app.store.plane(&agent.plane).await?.is_none() {
        return Err(no_such_agent(&agent.plane));
    }
    let mut tx = app.store.begin().await?;
    for (id, status) in statuses.iter().filter(|(id, _)| is_id(id)) {
        match tx.kafka(id).await? {
            Some(kafka) if kafka.plane_id.as_deref() == Some(&agent.plane) => {
                take_status(&mut tx, kafka, status).await?;
            }
            Some(_) => tracing::warn!(id, plane = agent.plane, "a Kafka of another data plane"),
            None => {}
        }
    }
    tx.commit().await?;
    app.wake.notify_waiters();
    Ok(StatusCode::OK)
}

/// The value of the condition `Ready`.
fn word(status: &DataPlaneKafkaStatus) -> (AgentWord, String) {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let is_ready = |one: &&Condition| {
        one.kind.as_deref().is_some_and(|kind| kind.eq_ignore_ascii_case("ready"))
    };
    let Some(ready) = conditions.iter().find(is_ready) else {
        return (AgentWord::Installing, String::new());
    };
    let message = ready.message.clone().unwrap_or_default();
    let word = match (ready.status.as_deref(), ready.reason.as_deref()) {
        (Some("True"), _) => AgentWord::Ready,
        (Some("Unknown"), _) => AgentWord::Unknown,
        (_, Some("Deleted")) => AgentWord::Deleted,
        (_, Some("Error")) => AgentWord::Error,
        (_, Some("Rejected")) if message == INSUFFICIENT => AgentWord::RejectedForCapacity,
        (_, Some("Rejected")) => AgentWord::Rejected,
        _ => AgentWord::Installing,
    };
    (word, clean(&message))
}

/// PostgreSQL has no text with a zero in it, and nobody reads more than a few lines.
fn clean(text: &str) -> String {
    text.chars().filter(|c| *c != '\0').take(1000).collect()
}

async fn take_status(
    tx: &mut Tx,
    mut kafka: Kafka,
    status: &DataPlaneKafkaStatus,
) -> Result<(), Refusal> {
    let before = kafka.clone();
    let (word, message) = word(status);
    kafka.reported_at = kafka.reported_at.or(Some(now_ms()));
    if let Some(host) = &status.bootstrap_server_host {
        kafka.bootstrap = clean(host);
    }
    if let Some(version) = status.versions.as_ref().and_then(|versions| versions.kafka.as_ref()) {
        kafka.version = clean(version);
    }
    if let Some(certificate) = &status.ca_certificate {
        kafka.ca_certificate = certificate.chars().filter(|c| *c != '\0').take(PEM_MAX).collect();
    }
    for id in status.credentials_stored.iter().filter(|id| is_id(id)) {
        tx.credential_stored(&kafka.id, id).await?;
    }
    if let Some(event) = read_agent(kafka.status(), word) {
        kafka.happens(event)?;
        match event {
            KafkaEvent::BecameReady => kafka.reason.clear(),
            KafkaEvent::Broke => kafka.reason = message,
            KafkaEvent::Rejected => (kafka.placement_id, kafka.reason) = (new_id(), message),
            KafkaEvent::RejectedForCapacity => {
                (kafka.plane_id, kafka.reported_at) = (None, None);
                (kafka.bootstrap, kafka.reason) = (String::new(), message);
                kafka.ca_certificate.clear();
            }
            KafkaEvent::Placed
            | KafkaEvent::PatienceEnded
            | KafkaEvent::DeletionRequested
            | KafkaEvent::Removed => {}
        }
    }
    if kafka != before {
        tx.save_kafka(&kafka).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_condition_ready_counts() {
        let status = |kind: &str, status: &str, reason: &str, message: &str| {
            let some = |text: &str| Some(text.to_owned());
            let condition = Condition {
                kind: some(kind),
                status: some(status),
                reason: some(reason),
                message: some(message),
            };
            DataPlaneKafkaStatus { conditions: Some(vec![condition]), ..Default::default() }
        };
        let rows = [
            (status("Ready", "True", "", ""), AgentWord::Ready),
            (status("READY", "True", "", ""), AgentWord::Ready),
            (status("Ready", "Unknown", "Error", ""), AgentWord::Unknown),
            (status("Ready", "False", "Installing", ""), AgentWord::Installing),
            (status("Ready", "False", "Deleted", ""), AgentWord::Deleted),
            (status("Ready", "False", "Error", "no"), AgentWord::Error),
            (status("Ready", "False", "Rejected", INSUFFICIENT), AgentWord::RejectedForCapacity),
            (status("Ready", "False", "Rejected", "else"), AgentWord::Rejected),
            (status("Other", "True", "", ""), AgentWord::Installing),
            (DataPlaneKafkaStatus::default(), AgentWord::Installing),
        ];
        for (status, expected) in rows {
            assert_eq!(word(&status).0, expected, "{status:?}");
        }
    }
}
