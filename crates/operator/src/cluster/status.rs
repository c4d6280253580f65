//! The status of a `Kafka`: a copy of what is known, for people and for tools. Nothing decides by it.

use std::collections::BTreeSet;

use api::kafka::cruise_control::AutoRebalanceMode;
use api::kafka::status::{
    AutoRebalanceBrokers, AutoRebalanceState, AutoRebalanceStatus, ControllerStatus, KafkaStatus,
    ListenerAddress, ListenerStatus,
};
use api::names::Names;
use api::{Condition, Kafka, Reference, Rest};
use control::cluster::spec::ListenerKind;
use control::conditions::{self, Note, Outcome};
use control::quorum::format::QuorumMode;
use control::rebalance::auto::{Brokers, Decision, Mode, Notice, Phase};
use kube::runtime::events::{Event, EventType};
use kube::{Api, Resource as _, ResourceExt as _};
use model::NodeId;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::error::PassError;
use super::pass::Work;
use crate::context::Context;
use crate::write::WriteError;

/// What a pass has to say about a cluster.
#[derive(Debug)]
pub(crate) struct Report {
    names: Names,
    outcome: Outcome,
    warnings: Vec<Note>,
    was_ready: bool,
    /// The status besides the conditions.
    status: KafkaStatus,
}

impl Report {
    /// Of a pass that made a decision.
    pub(crate) fn of(work: Work, outcome: Outcome) -> Self {
        let status = status(&work, outcome == Outcome::Done);
        Self {
            names: work.blueprint.names,
            outcome,
            warnings: work.warnings,
            was_ready: work.record.was_ready,
            status,
        }
    }

    /// Of a pass that did nothing: the rest of the status stays as it was.
    pub(crate) fn of_nothing(
        (names, kafka): (&Names, &Kafka),
        outcome: Outcome,
        warnings: Vec<Note>,
    ) -> Self {
        let status = kafka.status.clone().unwrap_or_default();
        Self { names: names.clone(), outcome, warnings, was_ready: false, status }
    }

    /// How the cluster is.
    pub(crate) const fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Whether a person has to act.
    pub(crate) const fn is_held(&self) -> bool {
        self.outcome.is_held()
    }

    /// Writes the status, if it says something new, and publishes an Event for what people should notice.
    pub(crate) async fn write(&mut self, ctx: &Context, kafka: &Kafka) -> Result<(), PassError> {
        ctx.standings.set(&self.names, self.outcome.kind(self.was_ready));
        let conditions = conditions::conditions(&self.outcome, &self.warnings, self.was_ready);
        self.status.conditions = Some(written(&conditions));
        if self.outcome.is_observed() {
            self.status.observed_generation = kafka.metadata.generation;
        } else {
            self.status.observed_generation.get_or_insert(0);
        }
        let api: Api<Kafka> = Api::namespaced(ctx.client.clone(), &self.names.namespace);
        let status = serde_json::to_value(&self.status)?;
        let name = &self.names.cluster;
        let changed = match ctx.writer.patch_status(&api, name, &status, Some(kafka)).await {
            Ok(written) => written.is_some(),
            // It was deleted during the pass.
            Err(WriteError::Missing { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if changed {
            tell(ctx, kafka, &self.outcome).await;
        }
        Ok(())
    }
}

fn written(conditions: &[conditions::Condition]) -> Vec<Condition> {
    // Seconds are enough, and what people see elsewhere.
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let now = now.format(&Rfc3339).ok();
    let one = |condition: &conditions::Condition| Condition {
        kind: Some(condition.kind.name().to_owned()),
        status: Some("True".to_owned()),
        last_transition_time: now.clone(),
        reason: condition.note.as_ref().map(|note| note.reason.name().to_owned()),
        message: condition.note.as_ref().map(|note| note.message.clone()),
        rest: Rest::default(),
    };
    conditions.iter().map(one).collect()
}

/// An Event for what holds a cluster up or has ended. Progress is in the status alone.
async fn tell(ctx: &Context, kafka: &Kafka, outcome: &Outcome) {
    let (type_, reason, note) = match outcome {
        Outcome::Held(note) => (EventType::Warning, note.reason.name(), note.message.clone()),
        Outcome::Done => (EventType::Normal, "Ready", "the cluster matches its spec".into()),
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
        tracing::info!("cannot publish an Event: {error}");
    }
}

/// Publishes an Event for each of these warnings.
pub(crate) async fn tell_warnings(work: &Work, notices: &[Note]) {
    let (kafka, names) = (&work.blueprint.kafka, &work.blueprint.names);
    for note in notices {
        tracing::info!("{}/{}: {}", names.namespace, names.cluster, note.message);
        let event = Event {
            type_: EventType::Warning,
            reason: note.reason.name().to_owned(),
            note: Some(note.message.chars().take(1000).collect()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(error) = work.ctx.recorder.publish(&event, &kafka.object_ref(&())).await {
            tracing::info!("cannot publish an Event: {error}");
        }
    }
}

/// The status besides the conditions. What this pass does not know stays as it was.
fn status(work: &Work, is_done: bool) -> KafkaStatus {
    let record = &work.record;
    let mut status = work.blueprint.kafka.status.clone().unwrap_or_default();
    let pool = |pool: &api::KafkaNodePool| Reference {
        name: Some(pool.name_any()),
        ..Reference::default()
    };
    status.kafka_node_pools = Some(work.blueprint.pools.iter().map(pool).collect());
    status.cluster_id = record.cluster_id.clone().or(status.cluster_id);
    if record.quorum.mode == QuorumMode::Dynamic && !record.quorum.initial.is_empty() {
        status.initial_controllers = Some(record.quorum.initial.to_string());
    }
    status.controllers = controllers(work).or(status.controllers);
    let nodes = record.nodes().into_iter().map(|node| node.id).collect();
    let stale = work.known.outputs.stale_brokers.as_ref();
    status.node_ids = Some(node_ids(nodes, stale, status.node_ids.as_deref()));
    status.listeners = listeners(work).or(status.listeners);
    if is_done {
        status.kafka_version = Some(work.known.configuration.kafka_version.clone());
        status.operator_last_successful_version = Some(env!("CARGO_PKG_VERSION").to_owned());
    }
    if let Some(version) = work.known.outputs.metadata_version {
        status.kafka_metadata_version = Some(version.to_string());
    }
    if let Some(decision) = &work.known.outputs.auto_rebalance {
        status.auto_rebalance = auto_rebalance(decision);
    }
    status
}

/// The ids of the recorded nodes, and of brokers that Kafka has not forgotten: one of a pool that is gone may be in no record.
/// Where Kafka does not tell which these are, all that were told before stay.
fn node_ids(
    recorded: BTreeSet<NodeId>,
    stale: Option<&BTreeSet<NodeId>>,
    before: Option<&[i64]>,
) -> Vec<i64> {
    let number = |id: &NodeId| i64::from(id.get());
    let mut ids: BTreeSet<i64> = recorded.iter().map(number).collect();
    match stale {
        Some(stale) => ids.extend(stale.iter().map(number)),
        None => ids.extend(before.unwrap_or_default()),
    }
    ids.into_iter().collect()
}

/// What the cluster does for itself; `None` if nothing.
fn auto_rebalance(decision: &Decision) -> Option<AutoRebalanceStatus> {
    let recorded = decision.recorded.as_ref().filter(|_| decision.shown)?;
    let since = i128::from(recorded.since_ms / 1000) * 1_000_000_000;
    let since = OffsetDateTime::from_unix_timestamp_nanos(since).ok();
    let mode = |(mode, brokers): &(Mode, Brokers)| AutoRebalanceBrokers {
        mode: Some(match mode {
            Mode::AddBrokers => AutoRebalanceMode::AddBrokers,
            Mode::RemoveBrokers => AutoRebalanceMode::RemoveBrokers,
        }),
        brokers: Some(brokers.iter().map(|id| i64::from(id.get())).collect()),
        rest: Rest::default(),
    };
    let modes: Vec<_> = decision.modes.iter().map(mode).collect();
    let error = decision.notices.iter().find(|notice| matches!(notice, Notice::Setback(..)));
    Some(AutoRebalanceStatus {
        state: Some(match recorded.phase {
            Phase::Idle => AutoRebalanceState::Idle,
            Phase::RebalanceOnScaleDown => AutoRebalanceState::RebalanceOnScaleDown,
            Phase::RebalanceOnScaleUp => AutoRebalanceState::RebalanceOnScaleUp,
        }),
        last_transition_time: since.and_then(|time| time.format(&Rfc3339).ok()),
        modes: Some(modes).filter(|modes| !modes.is_empty()),
        last_error: error.map(ToString::to_string),
        rest: Rest::default(),
    })
}

/// The voters, if Kafka told.
fn controllers(work: &Work) -> Option<Vec<ControllerStatus>> {
    let quorum = work.known.kafka.quorum.as_ref()?;
    let voter = |voter: &kafka_admin::QuorumReplica| ControllerStatus {
        id: Some(i64::from(voter.id.get())),
        directory_id: voter.directory.map(|directory| directory.to_string()),
        rest: Rest::default(),
    };
    Some(quorum.voters.iter().map(voter).collect())
}

/// The listeners with the addresses where clients begin.
fn listeners(work: &Work) -> Option<Vec<ListenerStatus>> {
    let addresses = work.known.addresses.as_ref()?;
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
        let address = |(host, port): &(String, u16)| ListenerAddress {
            host: Some(host.clone()),
            port: Some(i64::from(*port)),
            rest: Rest::default(),
        };
        let trusted = work.known.authorities.as_ref().filter(|_| listener.tls);
        ListenerStatus {
            name: Some(listener.name.clone()),
            addresses: Some(at.iter().map(address).collect()),
            bootstrap_servers: Some(servers.join(",")),
            certificates: trusted.map(|authorities| vec![authorities.trusted.clone()]),
            rest: Rest::default(),
        }
    };
    Some(work.blueprint.spec.listeners.iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_shows_what_is_recorded_of_auto_rebalancing() {
        let broker = NodeId::new(5).into_iter().collect();
        let recorded = control::rebalance::auto::Recorded {
            phase: Phase::RebalanceOnScaleUp,
            since_ms: 1_700_000_000_999,
            ..Default::default()
        };
        let decision = Decision {
            event: None,
            recorded: Some(recorded),
            shown: true,
            acts: Vec::new(),
            notices: Vec::new(),
            held: None,
            modes: vec![(Mode::AddBrokers, broker)],
        };
        let shown = serde_json::to_value(auto_rebalance(&decision)).ok();
        let expected = serde_json::json!({
            "state": "RebalanceOnScaleUp",
            "lastTransitionTime": "2023-11-14T22:13:20Z",
            "modes": [{ "mode": "add-brokers", "brokers": [5] }],
        });
        assert_eq!(shown, Some(expected));
        assert_eq!(auto_rebalance(&Decision { shown: false, ..decision }), None);
    }

    #[test]
    fn the_id_of_a_broker_is_told_as_long_as_kafka_knows_it() {
        let ids = |ids: &[i32]| -> BTreeSet<NodeId> {
            ids.iter().filter_map(|id| NodeId::new(*id)).collect()
        };
        // The recorded nodes, registered brokers besides, what was told before, what is told.
        type Row<'a> = (&'a [i32], Option<&'a [i32]>, Option<&'a [i64]>, &'a [i64]);
        let rows: [Row<'_>; 6] = [
            (&[0, 1], Some(&[]), None, &[0, 1]),
            (&[0, 1], Some(&[7]), None, &[0, 1, 7]),
            (&[0, 8], Some(&[7]), Some(&[0, 7, 8]), &[0, 7, 8]),
            (&[0, 1], Some(&[]), Some(&[0, 1, 7]), &[0, 1]),
            (&[0, 1], None, Some(&[0, 7]), &[0, 1, 7]),
            (&[0, 1], None, None, &[0, 1]),
        ];
        for (recorded, stale, before, expected) in rows {
            let stale = stale.map(ids);
            let told = node_ids(ids(recorded), stale.as_ref(), before);
            assert_eq!(told, expected, "{recorded:?} {stale:?} {before:?}");
        }
    }
}
