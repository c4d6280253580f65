//! Acts on Kafka.

use control::cluster::act::What;
use control::node::Roles;
use control::quorum::answer::Answer;
use control::quorum::plan::Listener;
use control::rolling::config::Change;
use kafka_admin::{Admin, ConfigChange, ConfigResource, Election, LevelChange, VoterListener};
use model::{DirectoryId, NodeId, TopicPartition};

use super::Answered;
use super::answers::{of_call, of_outcome, of_voter};
use crate::cluster::observe::CORDON;
use crate::cluster::pass::Work;

/// How changes of settings are counted.
const ALTER: &str = "alter configs";

/// Sends an act to Kafka. `None`, and so no answer, if it is not one for Kafka, or no node can be asked.
pub(super) async fn send(work: &Work, what: &What) -> Answered {
    let sent = match what {
        What::AddVoter { id, directory, listeners } => {
            add_voter(work, what, (*id, *directory), listeners).await
        }
        What::RemoveVoter { id, directory } => remove_voter(work, what, (*id, *directory)).await,
        What::Unregister { id } => unregister(work, what, *id).await,
        What::Cordon { id } => {
            let change = ConfigChange::Set(CORDON.to_owned(), "*".to_owned());
            alter(work, ("cordon", what), (brokers(work), &ConfigResource::Node(*id)), &[change])
                .await
        }
        What::Uncordon { id } => {
            let change = ConfigChange::Delete(CORDON.to_owned());
            alter(work, ("cordon", what), (brokers(work), &ConfigResource::Node(*id)), &[change])
                .await
        }
        What::ChangeMetadataVersion { level, up, .. } => {
            let way = if *up { LevelChange::Upgrade } else { LevelChange::SafeDowngrade };
            update_feature(work, what, ("metadata.version", *level), way).await
        }
        What::RaiseKraftVersion { level } => {
            update_feature(work, what, ("kraft.version", *level), LevelChange::Upgrade).await
        }
        What::AlterNode { id, changes } => {
            let of = ConfigResource::Node(*id);
            alter(work, (ALTER, what), (admin(work, *id), &of), &changes_of(changes)).await
        }
        What::AlterCluster { changes } => {
            let of = ConfigResource::ClusterDefault;
            alter(work, (ALTER, what), (brokers(work), &of), &changes_of(changes)).await
        }
        What::ElectPreferred { partitions } => elect(work, what, partitions).await,
        What::DeleteClaim { .. }
        | What::Delete { .. }
        | What::RestartPod { .. }
        | What::RemoveMigrationAnnotation
        | What::ClearRestartRequest { .. }
        | What::Apply(_)
        | What::ShrinkPodSet { .. }
        | What::ChangeAuthority { .. }
        | What::PublishTrust
        | What::StoreOperatorCertificate
        | What::StoreCertificate { .. }
        | What::Rebalance(_)
        | What::StopUnclaimedMoves
        | What::RememberCredential { .. }
        | What::SetCredential { .. }
        | What::DeleteCredential { .. }
        | What::ReleaseUser { .. } => None,
    };
    sent.unwrap_or_else(nobody)
}

/// The answer to an act for which no node can be asked.
pub(super) fn nobody() -> Answered {
    (Answer::NotSent, Some("the cluster has no Kafka node to connect to".to_owned()))
}

fn controllers(work: &Work) -> Option<&Admin> {
    work.known.kafka.access.as_ref().map(|access| &access.controllers)
}

pub(super) fn brokers(work: &Work) -> Option<&Admin> {
    work.known.kafka.access.as_ref()?.brokers.as_ref()
}

/// The client that reaches a node.
fn admin(work: &Work, node: NodeId) -> Option<&Admin> {
    let of = work.blueprint.nodes.iter().find(|one| one.id == node)?;
    match of.roles {
        Roles::Broker | Roles::Combined => brokers(work),
        Roles::Controller => controllers(work),
    }
}

async fn add_voter(
    work: &Work,
    what: &What,
    (id, directory): (NodeId, DirectoryId),
    listeners: &[Listener],
) -> Option<Answered> {
    let cluster = work.known.kafka.cluster_id(&work.record);
    let listeners = listeners.iter().map(|one| VoterListener {
        name: one.name.clone(),
        host: one.host.clone(),
        port: one.port,
    });
    let listeners: Vec<_> = listeners.collect();
    let call = controllers(work)?.add_voter(cluster.as_ref(), id, directory, &listeners);
    let writer = &work.ctx.writer;
    let done = writer.kafka("add voter", &what.to_string(), call, |e| e.outcome()).await;
    Some(of_call(done, of_voter))
}

async fn remove_voter(
    work: &Work,
    what: &What,
    (id, directory): (NodeId, DirectoryId),
) -> Option<Answered> {
    let cluster = work.known.kafka.cluster_id(&work.record);
    let call = controllers(work)?.remove_voter(cluster.as_ref(), id, directory);
    let writer = &work.ctx.writer;
    let done = writer.kafka("remove voter", &what.to_string(), call, |e| e.outcome()).await;
    Some(of_call(done, of_voter))
}

async fn unregister(work: &Work, what: &What, id: NodeId) -> Option<Answered> {
    let call = brokers(work)?.unregister_broker(id);
    let writer = &work.ctx.writer;
    let done = writer.kafka("unregister", &what.to_string(), call, |e| e.outcome()).await;
    Some(of_call(done, |error| of_outcome(error.outcome())))
}

async fn update_feature(
    work: &Work,
    what: &What,
    (feature, level): (&str, i16),
    way: LevelChange,
) -> Option<Answered> {
    let call = controllers(work)?.update_feature(feature, level, way, false);
    let writer = &work.ctx.writer;
    let done = writer.kafka("update feature", &what.to_string(), call, |e| e.outcome()).await;
    Some(of_call(done, |error| of_outcome(error.outcome())))
}

fn changes_of(changes: &[Change]) -> Vec<ConfigChange> {
    let change = |change: &Change| match change {
        Change::Set(key, value) => ConfigChange::Set(key.clone(), value.clone()),
        Change::Delete(key) => ConfigChange::Delete(key.clone()),
    };
    changes.iter().map(change).collect()
}

/// Changes settings. A change that Kafka refuses is tried again by a later pass, or made with a restart.
async fn alter(
    work: &Work,
    (name, what): (&str, &What),
    (admin, of): (Option<&Admin>, &ConfigResource),
    changes: &[ConfigChange],
) -> Option<Answered> {
    let call = admin?.alter_configs(of, changes, false);
    let writer = &work.ctx.writer;
    let done = writer.kafka(name, &what.to_string(), call, |e| e.outcome()).await;
    Some(of_call(done, |error| of_outcome(error.outcome())))
}

async fn elect(work: &Work, what: &What, partitions: &[TopicPartition]) -> Option<Answered> {
    let call = brokers(work)?.elect_leaders(Election::Preferred, Some(partitions));
    let writer = &work.ctx.writer;
    let done = writer.kafka("elect leaders", &what.to_string(), call, |e| e.outcome()).await;
    Some(of_call(done, |error| of_outcome(error.outcome())))
}
