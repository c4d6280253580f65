//! The status of a `Kafka`: a copy of what is known, for people and for tools. Nothing decides by it.

use api::Kafka;
use api::names::Names;
use control::cluster::spec::ListenerKind;
use control::conditions::{self, Note, Outcome, Reason};
use control::quorum::format::QuorumMode;
use control::rebalance::auto::{Brokers, Decision, Mode, Notice};
use kube::runtime::events::{Event, EventType};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::error::PassError;
use super::pass::Work;
use crate::context::Context;

/// What a pass has to say about a cluster.
#[derive(Debug)]
pub(crate) struct Report {
    names: Names,
    outcome: Outcome,
    warnings: Vec<Note>,
    was_ready: bool,
    /// Fields of the status besides the conditions; what is not here stays as it was.
    fields: Map<String, Value>,
}

impl Report {
    /// Of a pass that went through its steps.
    pub(crate) fn of(work: Work, outcome: Outcome) -> Self {
        let fields = fields(&work, outcome == Outcome::Done);
        Self {
            names: work.blueprint.names,
            outcome,
            warnings: work.warnings,
            was_ready: work.record.was_ready,
            fields,
        }
    }

    /// Of a pass that did nothing.
    pub(crate) fn refused(names: &Names, note: Note, warnings: Vec<Note>) -> Self {
        Self {
            names: names.clone(),
            outcome: Outcome::Held(note),
            warnings,
            was_ready: false,
            fields: Map::new(),
        }
    }

    /// Whether nothing happens before somebody changes something.
    pub(crate) fn is_settled(&self) -> bool {
        self.outcome == Outcome::Done
    }

    /// Whether the cluster waits for this and nothing before it.
    pub(crate) fn awaits(&self, reason: Reason) -> bool {
        matches!(&self.outcome, Outcome::Progressing(note) if note.reason == reason)
    }

    /// Writes the status, if it says something new, and tells an Event of what people should notice.
    pub(crate) async fn write(&mut self, ctx: &Context, kafka: &Kafka) -> Result<(), PassError> {
        let mut status = match serde_json::to_value(kafka.status.as_ref())? {
            Value::Object(status) => status,
            _ => Map::new(),
        };
        status.append(&mut self.fields);
        let conditions = conditions::conditions(&self.outcome, &self.warnings, self.was_ready);
        status.insert("conditions".to_owned(), written(&conditions));
        let is_observed = match self.outcome {
            Outcome::Done | Outcome::Held(_) | Outcome::Paused => true,
            Outcome::Progressing(_) => false,
        };
        if is_observed || !status.contains_key("observedGeneration") {
            let generation = if is_observed { kafka.metadata.generation } else { Some(0) };
            status.insert("observedGeneration".to_owned(), json!(generation));
        }
        let api: Api<Kafka> = Api::namespaced(ctx.client.clone(), &self.names.namespace);
        let status = Value::Object(status);
        let name = &self.names.cluster;
        let changed = ctx.writer.patch_status(&api, name, &status, Some(kafka)).await?.is_some();
        if changed {
            tell(ctx, kafka, &self.outcome).await;
        }
        Ok(())
    }
}

/// Writes that nobody works on the cluster because its user said so.
pub(crate) async fn paused(ctx: &Context, names: &Names, kafka: &Kafka) -> Result<(), PassError> {
    let mut report = Report {
        names: names.clone(),
        outcome: Outcome::Paused,
        warnings: Vec::new(),
        was_ready: false,
        fields: Map::new(),
    };
    report.write(ctx, kafka).await
}

fn written(conditions: &[conditions::Condition]) -> Value {
    // Seconds are enough, and what people see elsewhere.
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let now = now.format(&Rfc3339).unwrap_or_default();
    let one = |condition: &conditions::Condition| {
        let mut value = json!({
            "type": condition.kind.name(),
            "status": "True",
            "lastTransitionTime": now,
        });
        if let Some(note) = &condition.note {
            value["reason"] = json!(note.reason.name());
            value["message"] = json!(note.message);
        }
        value
    };
    conditions.iter().map(one).collect()
}

/// An Event for what holds a cluster up or has ended. Progress is in the status alone.
async fn tell(ctx: &Context, kafka: &Kafka, outcome: &Outcome) {
    let (type_, reason, note) = match outcome {
        Outcome::Held(note) => (EventType::Warning, note.reason.name(), note.message.clone()),
        Outcome::Done => (EventType::Normal, "Ready", "the cluster is as it was asked for".into()),
        Outcome::Progressing(_) | Outcome::Paused => return,
    };
    let event = Event {
        type_,
        reason: reason.to_owned(),
        note: Some(note.chars().take(1000).collect()),
        action: "Reconcile".to_owned(),
        secondary: None,
    };
    if let Err(error) = ctx.recorder.publish(&event, &kafka.object_ref(&())).await {
        tracing::info!("no Event could be told: {error}");
    }
}

/// An Event, once, for an annotation that has no effect. The condition stays as long as the annotation.
pub(crate) async fn tell_ignored(work: &Work) {
    const IGNORED: Reason = Reason::QuorumMigrationIgnored;
    let Some(note) = work.warnings.iter().find(|note| note.reason == IGNORED) else { return };
    let kafka = &work.blueprint.kafka;
    let conditions = kafka.status.as_ref().and_then(|status| status.conditions.as_ref());
    let is_told =
        conditions.into_iter().flatten().any(|one| one.reason.as_deref() == Some(IGNORED.name()));
    if is_told {
        return;
    }
    let event = Event {
        type_: EventType::Warning,
        reason: IGNORED.name().to_owned(),
        note: Some(note.message.clone()),
        action: "Reconcile".to_owned(),
        secondary: None,
    };
    if let Err(error) = work.ctx.recorder.publish(&event, &kafka.object_ref(&())).await {
        tracing::info!("cannot publish an Event: {error}");
    }
}

fn fields(work: &Work, is_done: bool) -> Map<String, Value> {
    let record = &work.record;
    let pools = work.blueprint.pools.iter().map(|pool| json!({ "name": pool.name_any() }));
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| {
        if !value.is_null() {
            fields.insert(name.to_owned(), value);
        }
    };
    set("kafkaNodePools", pools.collect());
    set("clusterId", json!(record.cluster_id));
    if record.quorum.mode == QuorumMode::Dynamic && !record.quorum.initial.is_empty() {
        set("initialControllers", json!(record.quorum.initial.to_string()));
    }
    set("controllers", controllers(work));
    let nodes = record.nodes();
    set("nodeIds", nodes.iter().map(|node| node.id.get()).collect::<Vec<_>>().into());
    set("listeners", listeners(work));
    if is_done {
        set("kafkaVersion", json!(work.known.configuration.kafka_version));
        set("operatorLastSuccessfulVersion", json!(env!("CARGO_PKG_VERSION")));
    }
    set(
        "kafkaMetadataVersion",
        json!(work.known.outputs.metadata_version.map(|version| version.to_string())),
    );
    if let Some(decision) = &work.known.outputs.auto_rebalance {
        // Also null, which takes it away.
        fields.insert("autoRebalance".to_owned(), auto_rebalance(decision));
    }
    fields
}

/// What the cluster does for itself; null if nothing.
fn auto_rebalance(decision: &Decision) -> Value {
    let Some(recorded) = decision.recorded.as_ref().filter(|_| decision.shown) else {
        return Value::Null;
    };
    let since = i128::from(recorded.since_ms / 1000) * 1_000_000_000;
    let since = OffsetDateTime::from_unix_timestamp_nanos(since).ok();
    let since = since.and_then(|time| time.format(&Rfc3339).ok());
    let mut status = json!({ "state": recorded.phase.name(), "lastTransitionTime": since });
    if !decision.modes.is_empty() {
        let mode =
            |(mode, brokers): &(Mode, Brokers)| json!({ "mode": mode.name(), "brokers": brokers });
        status["modes"] = decision.modes.iter().map(mode).collect();
    }
    let error = decision.notices.iter().find(|notice| matches!(notice, Notice::Setback(..)));
    if let Some(error) = error {
        status["lastError"] = json!(error.to_string());
    }
    status
}

/// Those that vote, if Kafka told.
fn controllers(work: &Work) -> Value {
    let Some(quorum) = &work.known.kafka.quorum else { return Value::Null };
    let voters = quorum.voters.iter().map(|voter| {
        let mut value = json!({ "id": voter.id.get() });
        if let Some(directory) = voter.directory {
            value["directoryId"] = json!(directory.to_string());
        }
        value
    });
    voters.collect()
}

/// The listeners with the addresses where clients begin.
fn listeners(work: &Work) -> Value {
    let Some(addresses) = &work.known.addresses else { return Value::Null };
    let one = |listener: &control::cluster::spec::Listener| {
        let mut at: Vec<(String, u16)> = match listener.kind {
            ListenerKind::NodePort => {
                work.known.machines.get(&listener.name).cloned().unwrap_or_default()
            }
            ListenerKind::Internal | ListenerKind::ClusterIp | ListenerKind::LoadBalancer => {
                addresses.bootstrap.get(&listener.name).cloned().unwrap_or_default()
            }
        };
        at.sort();
        at.dedup();
        let servers: Vec<_> = at.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        let mut value = json!({
            "name": listener.name,
            "addresses": at
                .iter()
                .map(|(host, port)| json!({ "host": host, "port": port }))
                .collect::<Vec<_>>(),
            "bootstrapServers": servers.join(","),
        });
        if listener.tls
            && let Some(authorities) = &work.known.authorities
        {
            value["certificates"] = json!([authorities.trusted]);
        }
        value
    };
    work.blueprint.spec.listeners.iter().map(one).collect()
}
