//! Sends acts on the `KafkaRebalance` resources that a cluster makes for itself, and cancels moves whose request is gone.
//!
//! An act is on a resource as it was read in this pass: it carries its version or its uid, and is refused if that has
//! changed.

use api::KafkaRebalance;
use api::names::CLUSTER_LABEL;
use control::rebalance::auto::{Act, Brokers, Mode, is_copied};
use control::rebalance::request::Command;
use kube::{Api, ResourceExt as _};
use serde_json::{Map, Value, json};

use super::{Answered, DONE};
use crate::cluster::error::PassError;
use crate::cluster::pass::Work;
use crate::cluster::rebalances::{FINALIZER, ROUND, failed, name, round_of, template_name};
use crate::context::Context;
use crate::rebalance::engine::native;
use crate::rebalance::request::{AUTO_APPROVAL, COMMAND};
use crate::rebalance::site::Site;

/// Changes a request as it was decided on. One that is gone, or that is another one by now, is left unchanged.
pub(super) async fn change(work: &Work, act: &Act) -> Result<Answered, PassError> {
    // A decision on requests that were not read asks for nothing.
    let Some(found) = work.known.rebalances.get() else { return Ok(DONE) };
    let (api, writer) = (work.api::<KafkaRebalance>(), &work.ctx.writer);
    let of = |mode: &Mode| found.get(&name(work, *mode));
    match act {
        Act::Create { mode, brokers, round } => {
            let template = template_name(&work.blueprint.kafka, *mode).flatten();
            let template = template.and_then(|template| found.get(&template));
            writer.create(&api, &made(work, (*mode, brokers, *round), template)?).await?;
        }
        Act::Refresh { mode, brokers, round } => {
            let Some(kr) = of(mode).filter(|kr| round_of(kr) == Some(*round)) else {
                return Ok(DONE);
            };
            let patch = json!({
                "metadata": {
                    "annotations": { COMMAND: Command::Refresh.name() },
                    "resourceVersion": kr.resource_version(),
                },
                "spec": { "brokers": brokers },
            });
            writer.patch(&api, &kr.name_any(), &patch, Some(kr)).await?;
        }
        Act::Stop(mode) => {
            let Some(kr) = of(mode) else { return Ok(DONE) };
            let patch = json!({ "metadata": {
                "annotations": { COMMAND: Command::Stop.name() },
                "resourceVersion": kr.resource_version(),
            } });
            writer.patch(&api, &kr.name_any(), &patch, Some(kr)).await?;
        }
        Act::Delete(mode) => {
            let Some(kr) = of(mode) else { return Ok(DONE) };
            if let Some(uid) = kr.uid() {
                let version = kr.resource_version();
                writer.delete(&api, &kr.name_any(), (&uid, version.as_deref())).await?;
            }
        }
        Act::Release(mode) => {
            let Some(kr) = of(mode) else { return Ok(DONE) };
            release(&work.ctx, kr).await?;
        }
    }
    Ok(DONE)
}

/// Cancels moves whose request is gone.
pub(super) async fn stop_unclaimed(work: &Work) -> Result<Answered, PassError> {
    let names = work.blueprint.names.clone();
    let site = Site::of(&work.ctx, &work.blueprint.kafka, names, &work.record).map_err(failed)?;
    native::drive_unclaimed(&work.ctx, &site).await.map_err(failed)?;
    Ok(DONE)
}

/// Removes our finalizer from a request.
pub(crate) async fn release(ctx: &Context, kr: &KafkaRebalance) -> Result<(), PassError> {
    let others: Vec<_> = kr.finalizers().iter().filter(|name| *name != FINALIZER).collect();
    if others.len() == kr.finalizers().len() {
        return Ok(());
    }
    let api: Api<KafkaRebalance> =
        Api::namespaced(ctx.client.clone(), &kr.namespace().unwrap_or_default());
    let version = kr.resource_version();
    let patch = json!({ "metadata": { "finalizers": others, "resourceVersion": version } });
    ctx.writer.patch(&api, &kr.name_any(), &patch, Some(kr)).await?;
    Ok(())
}

/// A request: approved beforehand, owned by the cluster, and kept by our finalizer.
fn made(
    work: &Work,
    (mode, brokers, round): (Mode, &Brokers, u64),
    template: Option<&KafkaRebalance>,
) -> Result<KafkaRebalance, serde_json::Error> {
    let names = &work.blueprint.names;
    serde_json::from_value(json!({
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaRebalance",
        "metadata": {
            "name": name(work, mode),
            "namespace": names.namespace,
            "labels": { CLUSTER_LABEL: names.cluster },
            "annotations": { AUTO_APPROVAL: "true", ROUND: round.to_string() },
            "finalizers": [FINALIZER],
            "ownerReferences": work.blueprint.owner().into_iter().collect::<Vec<_>>(),
        },
        "spec": spec((mode, brokers), template)?,
    }))
}

/// The spec of a request, from its template.
fn spec(
    (mode, brokers): (Mode, &Brokers),
    template: Option<&KafkaRebalance>,
) -> Result<Map<String, Value>, serde_json::Error> {
    let copied = template.map(|template| serde_json::to_value(&template.spec)).transpose()?;
    let mut spec = match copied {
        Some(Value::Object(spec)) => spec,
        _ => Map::new(),
    };
    spec.retain(|name, _| is_copied(name));
    spec.insert("mode".to_owned(), json!(mode.name()));
    spec.insert("brokers".to_owned(), json!(brokers));
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use model::NodeId;

    use super::*;

    /// A template that sets every field.
    fn template() -> KafkaRebalance {
        serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaRebalance",
            "metadata": { "name": "t" },
            "spec": {
                "mode": "full",
                "brokers": [1],
                "rebalanceDisk": true,
                "moveReplicasOffVolumes": [{ "brokerId": 1, "volumeIds": [0] }],
                "goals": ["RackAwareGoal"],
                "skipHardGoalCheck": true,
                "excludedTopics": "a.*",
                "concurrentPartitionMovementsPerBroker": 2,
                "concurrentIntraBrokerPartitionMovements": 3,
                "concurrentLeaderMovements": 4,
                "replicationThrottle": 5,
                "replicaMovementStrategies": ["PostponeUrpReplicaMovementStrategy"],
                "fieldOfTheFuture": { "a": 1 },
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_request_has_the_goals_and_options_of_its_template_and_its_own_mode_and_brokers() {
        let brokers = [NodeId::new(4).unwrap()].into();
        for mode in [Mode::AddBrokers, Mode::RemoveBrokers] {
            let made = spec((mode, &brokers), Some(&template())).unwrap();
            let expected = json!({
                "mode": mode.name(),
                "brokers": [4],
                "goals": ["RackAwareGoal"],
                "skipHardGoalCheck": true,
                "excludedTopics": "a.*",
                "concurrentPartitionMovementsPerBroker": 2,
                "concurrentIntraBrokerPartitionMovements": 3,
                "concurrentLeaderMovements": 4,
                "replicationThrottle": 5,
                "replicaMovementStrategies": ["PostponeUrpReplicaMovementStrategy"],
                "fieldOfTheFuture": { "a": 1 },
            });
            assert_eq!(Value::Object(made), expected);
        }
        let made = spec((Mode::RemoveBrokers, &brokers), None).unwrap();
        assert_eq!(Value::Object(made), json!({ "mode": "remove-brokers", "brokers": [4] }));
    }

    #[test]
    fn no_field_of_a_template_is_forgotten() {
        // A new field of the spec has to be added here, and to the template above.
        let api::KafkaRebalanceSpec {
            mode,
            brokers,
            goals,
            skip_hard_goal_check,
            rebalance_disk,
            excluded_topics,
            concurrent_partition_movements_per_broker,
            concurrent_intra_broker_partition_movements,
            concurrent_leader_movements,
            replication_throttle,
            replica_movement_strategies,
            move_replicas_off_volumes,
            rest: _,
        } = template().spec;
        let numbers = [
            concurrent_partition_movements_per_broker,
            concurrent_intra_broker_partition_movements,
            concurrent_leader_movements,
            replication_throttle,
        ];
        assert!(numbers.iter().all(Option::is_some));
        assert!(mode.is_some() && brokers.is_some() && move_replicas_off_volumes.is_some());
        assert!(goals.is_some() && replica_movement_strategies.is_some());
        assert!(skip_hard_goal_check.is_some() && rebalance_disk.is_some());
        assert!(excluded_topics.is_some());
    }
}
