//! Does what the roller has decided, after it was recorded.

use control::node::Roles;
use control::rolling::config::Change;
use control::rolling::pass::Action;
use control::rolling::reasons::{self, Reason};
use k8s_openapi::api::core::v1::Pod;
use kafka_admin::{Admin, ConfigChange, ConfigResource, Election};
use kube::runtime::events::{Event, EventType};
use kube::{Api, Resource as _};
use model::{NodeId, TopicPartition};
use serde_json::{Value, json};

use super::MANUAL;
use crate::cluster::error::PassError;
use crate::cluster::partitions;
use crate::cluster::pass::Work;
use crate::words::chain;

pub(super) async fn act(work: &mut Work, action: &Action) -> Result<(), PassError> {
    match action {
        Action::Restart { node, uid, reasons } => restart(work, *node, uid, reasons).await,
        Action::UpdateNode { node, changes } => {
            let Some(admin) = admin_of(work, *node) else { return Ok(()) };
            alter(work, &admin, ConfigResource::Node(*node), changes).await;
            Ok(())
        }
        Action::UpdateCluster { changes } => {
            let access = work.known.kafka.access.as_ref();
            let Some(admin) = access.and_then(|access| access.brokers.clone()) else {
                return Ok(());
            };
            alter(work, &admin, ConfigResource::ClusterDefault, changes).await;
            Ok(())
        }
        Action::ElectPreferred { brokers } => {
            elect(work, brokers).await;
            Ok(())
        }
        Action::ClearManual { pool } => {
            let name = work.blueprint.names.pod_set(pool);
            let api = work.api::<api::StrimziPodSet>();
            let patch = json!({ "metadata": { "annotations": { MANUAL: Value::Null } } });
            work.ctx.writer.patch(&api, &name, &patch, work.found.pod_sets.get(&name)).await?;
            Ok(())
        }
    }
}

/// Deletes the pod; its set makes it again as it shall be.
async fn restart(
    work: &mut Work,
    node: NodeId,
    uid: &str,
    why: &[Reason],
) -> Result<(), PassError> {
    let Some(of) = work.blueprint.nodes.iter().find(|one| one.id == node) else { return Ok(()) };
    let name = work.blueprint.pod(of);
    tell(work, &name, why).await;
    let api: Api<Pod> = work.api();
    work.ctx.writer.delete(&api, &name, uid, None).await?;
    Ok(())
}

/// An Event on the cluster about the restart of a pod. It is told before: afterwards we may not be here.
async fn tell(work: &Work, pod: &str, why: &[Reason]) {
    let reason = why.first().map_or("Restart", Reason::name);
    let found = work.found.pods.get(pod);
    let event = Event {
        type_: EventType::Normal,
        reason: reason.to_owned(),
        note: Some(format!("restarting {pod}: {}", reasons::list(why))),
        action: "StrimziInitiatedPodRestart".to_owned(),
        secondary: found.map(|pod| pod.object_ref(&())),
    };
    let kafka = work.blueprint.kafka.object_ref(&());
    if let Err(error) = work.ctx.recorder.publish(&event, &kafka).await {
        tracing::info!("no Event could be told: {error}");
    }
}

fn admin_of(work: &Work, node: NodeId) -> Option<Admin> {
    let access = work.known.kafka.access.as_ref()?;
    let of = work.blueprint.nodes.iter().find(|one| one.id == node)?;
    match of.roles {
        Roles::Broker | Roles::Combined => access.brokers.clone(),
        Roles::Controller => Some(access.controllers.clone()),
    }
}

/// Changes settings. What Kafka refuses is tried again by the next pass, or restarted for.
async fn alter(work: &Work, admin: &Admin, of: ConfigResource, changes: &[Change]) {
    let wire: Vec<_> = changes
        .iter()
        .map(|change| match change {
            Change::Set(key, value) => ConfigChange::Set(key.clone(), value.clone()),
            Change::Delete(key) => ConfigChange::Delete(key.clone()),
        })
        .collect();
    let keys: Vec<_> = changes.iter().map(Change::key).collect();
    let what = format!("change {} of {of}", keys.join(", "));
    let call = admin.alter_configs(&of, &wire, false);
    let done = work.ctx.writer.kafka("alter configs", &what, call, |error| error.outcome()).await;
    if let Err(error) = done {
        tracing::info!("{}", chain(&error));
    }
}

/// Gives brokers back what they should lead.
async fn elect(work: &Work, brokers: &[NodeId]) {
    let access = work.known.kafka.access.as_ref();
    let Some(admin) = access.and_then(|access| access.brokers.clone()) else { return };
    let Some(seen) = partitions::read(work).await else { return };
    let theirs = seen.leaders.iter().filter(|(_, preferred, leader)| {
        preferred.is_some_and(|preferred| brokers.contains(&preferred)) && preferred != leader
    });
    let partitions: Vec<TopicPartition> =
        theirs.map(|(partition, _, _)| partition.clone()).collect();
    if partitions.is_empty() {
        return;
    }
    let what = format!("elect the preferred leaders of {} partitions", partitions.len());
    let call = admin.elect_leaders(Election::Preferred, Some(&partitions));
    let done = work.ctx.writer.kafka("elect leaders", &what, call, |error| error.outcome()).await;
    if let Err(error) = done {
        tracing::info!("{}", chain(&error));
    }
}
