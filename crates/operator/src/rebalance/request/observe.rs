//! Reads what a request rests on: its resource, its record, its cluster, and what the engine answers.
//!
//! Reads only; the record is given what Cruise Control says of its plan, which it forgets.

use std::collections::BTreeSet;

use api::compat::{self, Verdict};
use api::names::CLUSTER_LABEL;
use api::rebalance::RebalanceMode;
use api::{Kafka, KafkaRebalance, KafkaRebalanceSpec};
use control::cluster::fact::{Fact, Why};
use control::cluster::storage::jbod_log_dir;
use control::rebalance::request::snapshot::{
    self, Annotations, Claimant, IgnoredField, Readiness, Resource, Snapshot, Status,
};
use control::rebalance::request::spec::{Mode, Spec};
use control::rebalance::request::{Needs, Recorded};
use kube::{Api, ResourceExt as _};
use model::NodeId;
use serde_json::Value;

use super::pass::Work;
use super::{AUTO_APPROVAL, COMMAND, TEMPLATE};
use crate::context::PAUSE;
use crate::rebalance::RebalanceError;
use crate::rebalance::engine::{ENGINE, cruise_control, native};
use crate::rebalance::site::Site;
use crate::rebalance::store::{Document, Kept, Moves, RequestRecord};
use crate::time::now_ms;

/// The resource, as decisions see it. `written` is all that it says.
pub(super) fn resource(kr: &KafkaRebalance, written: &Value) -> Resource {
    let status = kr.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let said = conditions
        .filter_map(|one| Some((one.kind.clone()?, one.message.clone().unwrap_or_default())));
    Resource {
        uid: kr.uid().unwrap_or_default(),
        generation: kr.metadata.generation.unwrap_or_default(),
        deleting: kr.metadata.deletion_timestamp.is_some(),
        cluster: kr.labels().get(CLUSTER_LABEL).cloned(),
        annotations: annotations(kr),
        spec: spec(&kr.spec),
        status: Status {
            observed_generation: status.and_then(|status| status.observed_generation),
            conditions: said.collect(),
        },
        ignored_fields: ignored_fields(written),
    }
}

/// The annotations of a resource, as decisions see them.
pub(crate) fn annotations(kr: &KafkaRebalance) -> Annotations {
    let annotation = |name: &str| kr.annotations().get(name).cloned();
    Annotations {
        rebalance: annotation(COMMAND),
        template: annotation(TEMPLATE),
        auto_approval: annotation(AUTO_APPROVAL),
        pause: annotation(PAUSE),
    }
}

fn ignored_fields(written: &Value) -> Vec<IgnoredField> {
    let findings = compat::unhonoured(written, compat::Kind::KafkaRebalance).into_iter();
    let field = |finding: compat::Finding| match finding.verdict {
        Verdict::Honoured | Verdict::Unneeded => None,
        Verdict::Accepted | Verdict::Refused => Some(IgnoredField::Unhonoured(finding.to_string())),
        Verdict::Unknown => Some(IgnoredField::Unknown(finding.to_string())),
    };
    findings.filter_map(field).collect()
}

/// A spec, as decisions see it.
pub(crate) fn spec(spec: &KafkaRebalanceSpec) -> Spec {
    let volumes = spec.move_replicas_off_volumes.as_ref();
    Spec {
        mode: match spec.mode() {
            RebalanceMode::Full => Mode::Full,
            RebalanceMode::AddBrokers => Mode::AddBrokers,
            RebalanceMode::RemoveBrokers => Mode::RemoveBrokers,
            RebalanceMode::RemoveDisks => Mode::RemoveDisks,
        },
        has_brokers: spec.brokers.as_ref().is_some_and(|brokers| !brokers.is_empty()),
        has_volumes: volumes.is_some_and(|volumes| !volumes.is_empty()),
        rebalance_disk: spec.rebalance_disk == Some(true),
        goals: spec.goals.clone().unwrap_or_default(),
        skip_hard_goal_check: spec.skip_hard_goal_check == Some(true),
    }
}

/// The log directories that a spec asks to empty. A volume whose broker has no valid id is none.
pub(crate) fn log_dirs(spec: &KafkaRebalanceSpec) -> BTreeSet<(NodeId, String)> {
    let mut all = BTreeSet::new();
    for one in spec.move_replicas_off_volumes.iter().flatten() {
        let id = one.broker_id.and_then(|id| NodeId::new(i32::try_from(id).ok()?));
        let Some(id) = id else { continue };
        let volumes = one.volume_ids.iter().flatten();
        all.extend(volumes.map(|volume| (id, jbod_log_dir(*volume, id))));
    }
    all
}

/// Reads the facts that a decision lacks.
pub(super) async fn read(
    work: &mut Work,
    needs: &Needs,
    snapshot: &mut Snapshot,
) -> Result<(), RebalanceError> {
    if let Some(cluster) = &needs.kafka {
        read_cluster(work, cluster, snapshot).await?;
    }
    if let Some(attempt) = needs.plan {
        let at_ms = now_ms();
        let stored = native::stored(work, attempt).await?;
        snapshot.plan_stored = Fact::read(stored.is_some(), at_ms);
    }
    if let Some(claimant) = &needs.other {
        let at_ms = now_ms();
        snapshot.other = Fact::read(other(work, claimant).await?, at_ms);
    }
    if let Some(questions) = &needs.cruise_control {
        snapshot.cruise_control = cruise_control::ask(work, questions).await?;
    }
    Ok(())
}

/// Reads the cluster of a request, and the moves there.
async fn read_cluster(
    work: &mut Work,
    cluster: &str,
    snapshot: &mut Snapshot,
) -> Result<(), RebalanceError> {
    let at_ms = now_ms();
    let api: Api<Kafka> = Api::namespaced(work.ctx.client.clone(), &work.namespace());
    let found = api.get_opt(cluster).await;
    let Some(found) = found.map_err(|error| RebalanceError::Read(Box::new(error)))? else {
        snapshot.kafka = Fact::read(None, at_ms);
        snapshot.moves = Fact::Unknown(Why::Unreachable);
        return Ok(());
    };
    let document = Document::of_moves(&work.ctx.client, &found)?;
    let kept: Kept<Moves> = document.load().await?;
    snapshot.moves = Fact::read(kept.value.as_ref().map(Moves::facts), at_ms);
    work.moves = Some((document, kept));
    work.site = Site::read(&work.ctx, &found).await?;
    snapshot.kafka = Fact::read(Some(kafka(&found, work.site.as_ref())), at_ms);
    work.kafka = Some(found);
    Ok(())
}

/// A cluster, as decisions see it. `site` is what its record says.
fn kafka(kafka: &Kafka, site: Option<&Site>) -> snapshot::Kafka {
    let conditions = kafka.status.as_ref().and_then(|status| status.conditions.as_ref());
    let said = conditions.into_iter().flatten();
    let said = said.map(|one| (one.kind.as_deref(), one.status.as_deref(), one.reason.as_deref()));
    snapshot::Kafka {
        deleting: kafka.metadata.deletion_timestamp.is_some(),
        has_cruise_control: kafka.spec.cruise_control.is_some(),
        readiness: Readiness::of(said),
        was_ready: site.is_some_and(|site| site.was_ready),
        engine: kafka.annotations().get(ENGINE).cloned(),
        has_record: site.is_some(),
        stuck_nodes: site.map(|site| site.stuck_nodes.clone()).unwrap_or_default(),
        leaving: site.map(|site| site.closed.clone()).unwrap_or_default(),
    }
}

/// How far the request is that moves were made for; `None` if it is gone, or is another one by now.
async fn other(work: &Work, claimant: &Claimant) -> Result<Option<Recorded>, RebalanceError> {
    let found = work.api().get_opt(&claimant.name).await;
    let found = found.map_err(|error| RebalanceError::Read(Box::new(error)))?;
    let found = found.filter(|kr| kr.uid().as_deref() == Some(&claimant.uid));
    let Some(other) = found else { return Ok(None) };
    let kept: Kept<RequestRecord> = Document::of_request(&work.ctx.client, &other)?.load().await?;
    Ok(kept.value.map(|record| record.request))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api::names::Names;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_is_reduced_to_what_decisions_use() {
        let written = json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaRebalance",
            "metadata": {
                "name": "r", "uid": "u", "generation": 3, "labels": { CLUSTER_LABEL: "c" },
                "annotations": { COMMAND: "refresh", TEMPLATE: "false", AUTO_APPROVAL: "true", PAUSE: "no" },
            },
            "spec": {
                "mode": "remove-disks", "brokers": [], "goals": ["RackAwareGoal"],
                "moveReplicasOffVolumes": [{ "brokerId": 1, "volumeIds": [0] }],
                "skipHardGoalCheck": true, "fieldOfTheFuture": 1,
            },
            "status": { "observedGeneration": 2, "conditions": [
                { "type": "NotReady", "status": "True", "message": "why" }, { "type": "Warning" },
            ] },
        });
        let found = resource(&serde_json::from_value(written.clone()).unwrap(), &written);
        let text = |value: &str| Some(value.to_owned());
        assert_eq!((found.uid.as_str(), found.generation, found.deleting), ("u", 3, false));
        assert_eq!(found.cluster, text("c"));
        let annotations = Annotations {
            rebalance: text("refresh"),
            template: text("false"),
            auto_approval: text("true"),
            pause: text("no"),
        };
        assert_eq!(found.annotations, annotations);
        let spec = Spec {
            mode: Mode::RemoveDisks,
            has_brokers: false,
            has_volumes: true,
            rebalance_disk: false,
            goals: vec!["RackAwareGoal".to_owned()],
            skip_hard_goal_check: true,
        };
        assert_eq!(found.spec, spec);
        assert_eq!(found.status.observed_generation, Some(2));
        let said = [("NotReady", "why"), ("Warning", "")];
        let said = said.map(|(kind, message)| (kind.to_owned(), message.to_owned()));
        assert_eq!(found.status.conditions, said);
        let [IgnoredField::Unknown(field)] = found.ignored_fields.as_slice() else {
            panic!("{:?}", found.ignored_fields);
        };
        assert!(field.contains("fieldOfTheFuture"), "{field}");
    }

    #[test]
    fn the_log_directories_to_be_emptied_are_those_of_brokers_with_an_id() {
        let off = json!([
            { "brokerId": 3, "volumeIds": [1, 2] },
            { "brokerId": 0, "volumeIds": [12] },
            // Without a broker, or with one that cannot be, nobody's disk is emptied.
            { "volumeIds": [7] },
            { "brokerId": -1, "volumeIds": [7] },
            { "brokerId": 5 },
        ]);
        let spec = json!({ "mode": "remove-disks", "moveReplicasOffVolumes": off });
        let found = log_dirs(&serde_json::from_value(spec).unwrap());
        let paths: Vec<_> = found.iter().map(|(id, path)| format!("{id} {path}")).collect();
        let expected = [
            "0 /var/lib/kafka/data-12/kafka-log0",
            "3 /var/lib/kafka/data-1/kafka-log3",
            "3 /var/lib/kafka/data-2/kafka-log3",
        ];
        assert_eq!(paths, expected);
    }

    fn ids(ids: &[i32]) -> BTreeSet<NodeId> {
        ids.iter().map(|id| NodeId::new(*id).unwrap()).collect()
    }

    /// A cluster that broker 3 leaves and whose broker 4 does not start.
    fn site() -> Site {
        let kafka = json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "metadata": { "name": "c" },
            "spec": { "kafka": { "listeners": [] } },
        });
        Site {
            names: Names::new("n", "c"),
            kafka: serde_json::from_value(kafka).unwrap(),
            brokers: ids(&[3, 4]),
            pods: BTreeMap::new(),
            closed: ids(&[3]),
            stuck_nodes: ids(&[4]),
            was_ready: true,
            access: None,
        }
    }

    #[test]
    fn a_cluster_is_what_its_status_and_its_record_say() {
        let of = |conditions: Value| {
            let found = serde_json::from_value(json!({
                "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
                "metadata": { "name": "c", "annotations": { ENGINE: "cruise-control" } },
                "spec": { "kafka": { "listeners": [] }, "cruiseControl": {} },
                "status": { "conditions": conditions },
            }));
            kafka(&found.unwrap(), Some(&site()))
        };
        let ready = of(json!([{ "type": "Ready", "status": "True" }]));
        let expected = snapshot::Kafka {
            deleting: false,
            has_cruise_control: true,
            readiness: Readiness::Ready,
            was_ready: true,
            engine: Some("cruise-control".to_owned()),
            has_record: true,
            stuck_nodes: ids(&[4]),
            leaving: ids(&[3]),
        };
        assert_eq!(ready, expected);
        let not_ready = |reason: &str| {
            of(json!([{ "type": "NotReady", "status": "True", "reason": reason }])).readiness
        };
        assert_eq!(not_ready("RollStopped"), Readiness::RollStopped);
        assert_eq!(not_ready("RollFailed"), Readiness::RollFailed);
        assert_eq!(not_ready("InvalidSpec"), Readiness::NotReady);
        assert_eq!(
            of(json!([{ "type": "Ready", "status": "False" }])).readiness,
            Readiness::NotReady
        );
    }
}
