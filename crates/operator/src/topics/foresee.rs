//! What a change of the number of replicas of a topic would move, for people who want to know before it happens.
//!
//! The decision is the operator's own, on what Kafka says now. Nothing is recorded or changed.

use std::collections::BTreeMap;

use api::names::Names;
use control::topics::replicas::Begin;
use control::topics::{ChangeState, Resource, Settings, Spec, Status, View, plan};
use model::{NodeId, TopicName, TopicPartition};

use super::error::TopicsError;
use super::moves::Mover;
use super::view;
use crate::context::Context;

/// What would be moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Foreseen {
    /// The brokers of each partition that changes, before and after; the preferred leader first.
    pub moves: Vec<(TopicPartition, Vec<NodeId>, Vec<NodeId>)>,
    /// Why the change would wait; nothing is moved then.
    pub waits: Option<String>,
}

/// Foresees the change of a topic to this number of replicas. `None` if Kafka has no such topic.
pub(crate) async fn replicas(
    ctx: &Context,
    names: &Names,
    topic: &TopicName,
    replicas: usize,
) -> Result<Option<Foreseen>, TopicsError> {
    let access = ctx.admins.kept(names).and_then(|access| access.brokers);
    let admin = access.ok_or(TopicsError::NoBrokers)?;
    let wanted = BTreeMap::from([(topic.clone(), Some(replicas))]);
    let mut views = view::read(&admin, ctx.writer.metrics(), &wanted).await?;
    let view = match views.remove(topic) {
        None | Some(View::Absent) => return Ok(None),
        Some(View::Refused(problem)) => return Err(TopicsError::Refused(problem.message)),
        Some(view @ View::Found(_)) => view,
    };
    let change = plan(&resource(names, topic, replicas), &view, &Settings::default());
    let Some(change) = change.replicas else { return Ok(Some(Foreseen::default())) };
    let before: BTreeMap<i32, Vec<NodeId>> =
        change.partitions.iter().map(|one| (one.number, one.replicas.clone())).collect();
    let wanted = BTreeMap::from([(topic.clone(), change)]);
    let Begin { targets, changes } = Mover::new(ctx, names, &admin).consider(&wanted).await?;
    let moves = targets.into_iter().map(|(partition, after)| {
        let before = before.get(&partition.partition.0).cloned().unwrap_or_default();
        (partition, before, after)
    });
    let pending = changes.into_values().find(|one| one.state == Some(ChangeState::Pending));
    Ok(Some(Foreseen { moves: moves.collect(), waits: pending.and_then(|one| one.message) }))
}

/// A resource that asks for nothing but this number of replicas.
fn resource(names: &Names, topic: &TopicName, replicas: usize) -> Resource {
    let spec =
        Spec { replicas: Some(i16::try_from(replicas).unwrap_or(i16::MAX)), ..Spec::default() };
    Resource {
        namespace: names.namespace.clone(),
        name: topic.to_string(),
        uid: String::new(),
        created_s: 0,
        generation: 0,
        cluster: Some(names.cluster.clone()),
        is_deleting: false,
        has_finalizer: true,
        is_managed: true,
        is_paused: false,
        config_mode: None,
        spec: Some(spec),
        status: Status::default(),
    }
}
