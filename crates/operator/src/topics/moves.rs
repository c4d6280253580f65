//! Carries out changes of the number of replicas, with the means of rebalances.
//!
//! A cluster has one note of moves ([`crate::rebalance::store`]), so these moves and those of a `KafkaRebalance` never run
//! at once, and the pass over the cluster keeps the brokers that they are about. What is to be moved is recorded before it
//! is begun. Each pass over topics makes one pass over the moves.

use std::collections::{BTreeMap, BTreeSet};

use api::Kafka;
use api::names::Names;
use control::rebalance::execution::{Job, Limits, Recorded, Task};
use control::rebalance::request::Orders;
use control::rebalance::request::snapshot::Claimant;
use control::topics::ReplicasChange;
use control::topics::replicas::{Begin, Broker, Brokers, Moving, Wanted, begin, is_outdated};
use kafka_admin::Admin;
use kube::{Api, ResourceExt as _};
use model::{NodeId, TopicName};

use super::error::TopicsError;
use super::pass::Work;
use crate::context::Context;
use crate::metrics::KafkaEffect;
use crate::rebalance::engine::native;
use crate::rebalance::site::Site;
use crate::rebalance::store::{Document, Kept, Moves, key};
use crate::time::now_ms;

/// Changes the number of replicas of topics of one cluster.
pub(super) struct Mover<'a> {
    ctx: &'a Context,
    names: &'a Names,
    admin: &'a Admin,
    ground: Option<Ground>,
}

/// What was read of the cluster and its moves.
struct Ground {
    site: Site,
    document: Document,
    kept: Kept<Moves>,
    moving: Moving,
}

/// What a pass over moves came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Driven {
    /// Whether moves for topics run still.
    pub(super) is_running: bool,
    /// Topics whose moves have ended in this pass.
    pub(super) ended: BTreeSet<TopicName>,
}

impl<'a> Mover<'a> {
    pub(super) fn new(ctx: &'a Context, names: &'a Names, admin: &'a Admin) -> Self {
        Self { ctx, names, admin, ground: None }
    }

    /// Reads what moves in the cluster, if that was not read in this pass.
    async fn ground(&mut self) -> Result<&mut Ground, TopicsError> {
        let ground = match self.ground.take() {
            Some(ground) => ground,
            None => self.read().await?,
        };
        Ok(self.ground.insert(ground))
    }

    async fn read(&self) -> Result<Ground, TopicsError> {
        let api: Api<Kafka> = Api::namespaced(self.ctx.client.clone(), &self.names.namespace);
        let found = api.get_opt(&self.names.cluster).await;
        let kafka = found.map_err(|error| TopicsError::Cluster(Box::new(error)))?;
        let kafka = kafka.ok_or(TopicsError::NoCluster)?;
        let site = Site::read(self.ctx, &kafka).await?.ok_or(TopicsError::NoCluster)?;
        let document = Document::of_moves(&self.ctx.client, &kafka)?;
        let kept: Kept<Moves> = document.load().await?;
        let moving = match kept.value.as_ref().filter(|moves| !moves.is_over()) {
            None => Moving::Nothing,
            Some(moves) if moves.is_for_topics_of(&kafka) => {
                let at = Document::of_job(&self.ctx.client, &kafka, &moves.key())?;
                let job: Job = at.get(&moves.key()).await?.unwrap_or_default();
                Moving::Topics { session: moves.key(), targets: targets(&job) }
            }
            Some(moves) => Moving::Rebalance(moves.by.name.clone()),
        };
        Ok(Ground { site, document, kept, moving })
    }

    /// Begins what may begin, and says how far each topic is. Nothing in Kafka changes yet: that is for
    /// [`Mover::drive`], when all is recorded.
    pub(super) async fn begin(
        &mut self,
        wanted: &BTreeMap<TopicName, Wanted>,
    ) -> Result<BTreeMap<TopicName, ReplicasChange>, TopicsError> {
        if wanted.is_empty() {
            return Ok(BTreeMap::new());
        }
        let begun = self.consider(wanted).await?;
        let ctx = self.ctx;
        if !begun.targets.is_empty() {
            self.ground().await?.record(ctx, &begun).await?;
        }
        Ok(begun.changes)
    }

    /// The decision about what may begin. Nothing is recorded.
    pub(super) async fn consider(
        &mut self,
        wanted: &BTreeMap<TopicName, Wanted>,
    ) -> Result<Begin, TopicsError> {
        let (ctx, admin) = (self.ctx, self.admin);
        let ground = self.ground().await?;
        let brokers = match ground.moving {
            Moving::Nothing => brokers(ctx, admin, &ground.site).await?,
            Moving::Topics { .. } | Moving::Rebalance(_) => Brokers::new(),
        };
        let by = ground.claimant();
        Ok(begin(wanted, &brokers, &ground.moving, &key(&by.uid, by.attempt)))
    }

    /// Makes one pass over the moves that run for topics.
    pub(super) async fn drive(&mut self, work: &Work) -> Result<Driven, TopicsError> {
        if self.ground.is_none() && !work.is_all && !work.is_moving {
            return Ok(Driven::default());
        }
        let ctx = self.ctx;
        let ground = self.ground().await?;
        let Moving::Topics { targets, .. } = &ground.moving else { return Ok(Driven::default()) };
        let stop = is_outdated(&ground.moving, &work.asked());
        let orders = Orders { claimed: true, stop, hold: false };
        native::drive(ctx, &ground.site, (&ground.document, &mut ground.kept), orders).await?;
        let is_running = ground.kept.value.as_ref().is_some_and(|moves| !moves.is_over());
        let ended = if is_running { BTreeSet::new() } else { targets.keys().cloned().collect() };
        Ok(Driven { is_running, ended })
    }
}

impl Ground {
    /// Whom the next moves for topics are for.
    fn claimant(&self) -> Claimant {
        let uid = self.site.kafka.uid().unwrap_or_default();
        let before = self.kept.value.as_ref().filter(|moves| moves.by.uid == uid);
        let attempt = before.map_or(0, |moves| moves.by.attempt) + 1;
        Claimant { name: "KafkaTopic".to_owned(), uid, attempt }
    }

    /// Records moves over the note of those that have ended.
    async fn record(&mut self, ctx: &Context, begun: &Begin) -> Result<(), TopicsError> {
        let (kafka, by) = (&self.site.kafka, self.claimant());
        // Of one that ended in the last act of a process its job may be left.
        if let Some(over) = &self.kept.value {
            let at = Document::of_job(&ctx.client, kafka, &over.key())?;
            at.drop_parts(&ctx.writer, over.parts).await?;
        }
        let job = job(begun);
        let session = key(&by.uid, by.attempt);
        let at = Document::of_job(&ctx.client, kafka, &session)?;
        let parts = at.put(&ctx.writer, &session, &job).await?;
        let brokers: BTreeSet<NodeId> =
            job.tasks.iter().flat_map(|task| task.target.iter().copied()).collect();
        let moves = Moves { by, parts, brokers, recorded: Recorded::begin(&job.limits, now_ms()) };
        self.document.save(&ctx.writer, &mut self.kept, &moves).await?;
        self.moving = Moving::Topics { session, targets: targets(&job) };
        Ok(())
    }
}

fn job(begun: &Begin) -> Job {
    let tasks = begun.targets.iter().map(|(partition, target)| Task {
        partition: partition.clone(),
        target: target.clone(),
        // The bytes are not reported; the status says whether it is done.
        bytes: 0,
    });
    Job { limits: Limits::default(), tasks: tasks.collect(), changes_count: true, ..Job::default() }
}

/// The number of replicas that each topic of a job gets.
fn targets(job: &Job) -> BTreeMap<TopicName, usize> {
    job.tasks.iter().map(|task| (task.partition.topic.clone(), task.target.len())).collect()
}

/// The brokers that there are, with what they have.
async fn brokers(ctx: &Context, admin: &Admin, site: &Site) -> Result<Brokers, TopicsError> {
    let metrics = ctx.writer.metrics();
    metrics.kafka_call("describe cluster", KafkaEffect::Read);
    let cluster = admin.describe_cluster().await?;
    metrics.kafka_call("list topics", KafkaEffect::Read);
    let page = admin.all_topics().await?;
    let broker = |node: &kafka_admin::ClusterNode| Broker {
        rack: node.rack.clone(),
        is_up: !node.fenced,
        is_open: site.brokers.contains(&node.id) && !site.closed.contains(&node.id),
        replicas: 0,
    };
    let mut brokers: Brokers = cluster.nodes.iter().map(|node| (node.id, broker(node))).collect();
    let partitions = page.topics.iter().flat_map(|topic| &topic.partitions);
    for id in partitions.flat_map(|partition| &partition.replicas) {
        if let Some(broker) = brokers.get_mut(id) {
            broker.replicas += 1;
        }
    }
    Ok(brokers)
}
