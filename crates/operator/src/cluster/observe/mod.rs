//! The snapshot of a cluster: what was read of Kubernetes and Kafka, reduced to what decisions use.

mod contact;
mod keys;
mod pods;
mod settings;

pub(crate) use settings::desired as desired_settings;

use std::collections::{BTreeMap, BTreeSet};

use control::annotations::Annotation;
use control::cluster::fact::{Fact, Why};
use control::cluster::snapshot::{BrokerView, FeaturesView, KafkaView, Needs, NodeView, Snapshot};
use control::node::Roles;
use control::quorum::bootstrap;
use control::users::{Mark, User};
use futures::StreamExt as _;
use kafka_admin::{ConfigResource, Quorum};
use model::NodeId;
use objects::views;

use super::error::PassError;
use super::pass::Work;
use super::steps::kafka::view;
use super::{partitions, rebalances};
use crate::metrics::KafkaEffect;
use crate::time::now_ms;
use crate::users;
use crate::words::chain;

/// The annotation on a pod or a pod set with which a user asks for a restart.
pub(crate) const RESTART: &str = Annotation::ManualRollingUpdate.name();
/// The number of nodes that are asked at a time. Some may not answer, and each of those takes its whole time-out.
const ASKED_AT_ONCE: usize = 16;
/// The setting that closes a broker for new replicas.
pub(crate) const CORDON: &str = "cordoned.log.dirs";

/// What is known without asking anybody.
pub(crate) fn snapshot(work: &Work) -> Snapshot {
    let (blueprint, found) = (&work.blueprint, &work.found);
    let configured = (&work.record, &work.known.configuration);
    let operation_timeout_ms = u64::try_from(work.ctx.settings.operation_timeout.as_millis()).ok();
    Snapshot {
        now_ms: now_ms(),
        objects_ms: work.found.at_ms,
        nodes: views::nodes(blueprint, found, configured, &work.objects.pod_sets),
        refused: blueprint.refused.clone(),
        pods: views::pods(found),
        claims: views::claims(&blueprint.names, found),
        objects: views::objects(&blueprint.names, found),
        desired: views::desired(blueprint, found, configured, operation_timeout_ms),
        kafka: kafka(work),
        authorities: Fact::default(),
        certificates: Fact::default(),
        rebalance: Fact::default(),
        users: users(work),
        built: work.objects.views.clone(),
    }
}

/// Reads what a decision needs besides. What could not be read is unknown: areas that do not need it go on. Returns the
/// first read from Kubernetes that failed.
pub(crate) async fn read(work: &Work, snapshot: &mut Snapshot, needs: &Needs) -> Option<PassError> {
    let mut failed = None;
    if needs.authorities {
        snapshot.authorities = keys::authorities(work);
    }
    if needs.certificates {
        snapshot.certificates = known(keys::certificates(work).await, &mut failed);
    }
    let contact = |_, node| contact::of(work, node, snapshot.pod(node).and_then(|pod| pod.roles));
    let contacts = of_each(snapshot, &needs.contacts, contact).await;
    snapshot.kafka.contacts.extend(contacts);
    let recoveries =
        of_each(snapshot, &needs.recoveries, |_, node| pods::recovery(work, node)).await;
    snapshot.kafka.recoveries.extend(recoveries);
    let settings =
        of_each(snapshot, &needs.settings, |id, node| settings::of(work, id, node)).await;
    snapshot.kafka.settings.extend(settings);
    if needs.partitions {
        partitions::read(work, snapshot).await;
    }
    if needs.controllers {
        snapshot.kafka.controllers = controllers(work).await;
    }
    // At once: where no node is ready, none may answer.
    let directories = of_each(snapshot, &needs.directories, |_, node| directory(work, node)).await;
    snapshot.kafka.directories.extend(directories);
    for id in &needs.servers {
        let servers = setting(work, snapshot, *id, bootstrap::SERVERS).await;
        snapshot.kafka.servers.insert(*id, servers);
    }
    for id in &needs.cordons {
        let closed = match setting(work, snapshot, *id, CORDON).await {
            Fact::Read { value, at_ms } => Fact::read(!value.unwrap_or_default().is_empty(), at_ms),
            Fact::Unknown(why) => Fact::Unknown(why),
        };
        snapshot.kafka.cordons.insert(*id, closed);
    }
    if needs.rebalance {
        let read = rebalances::read(work).await.map(|read| read.view.clone());
        snapshot.rebalance = known(read, &mut failed);
    }
    if needs.scram_users {
        snapshot.kafka.scram_users = scram_users(work).await;
    }
    failed
}

/// A fact that was read; one that could not be is unknown, and the first reason is kept.
fn known<T>(read: Result<Fact<T>, PassError>, failed: &mut Option<PassError>) -> Fact<T> {
    read.unwrap_or_else(|error| {
        failed.get_or_insert(error);
        Fact::Unknown(Why::NoAnswer)
    })
}

/// Reads a fact of each of these nodes, of some at a time.
async fn of_each<'a, T, F: Future<Output = Fact<T>>>(
    snapshot: &'a Snapshot,
    nodes: &BTreeSet<NodeId>,
    read: impl Fn(NodeId, &'a NodeView) -> F,
) -> BTreeMap<NodeId, Fact<T>> {
    let known = nodes.iter().filter_map(|id| Some((*id, snapshot.nodes.get(id)?)));
    let reads: Vec<_> = known
        .map(|(id, node)| {
            let read = read(id, node);
            async move { (id, read.await) }
        })
        .collect();
    futures::stream::iter(reads).buffer_unordered(ASKED_AT_ONCE).collect().await
}

/// The users whose Secret holds a password. Fingerprints depend on the id of the cluster.
fn users(work: &Work) -> Vec<User> {
    let Some(id) = work.known.kafka.cluster_id(&work.record) else { return Vec::new() };
    let cluster = &work.blueprint.names.cluster;
    let secrets = work.found.secrets.values().filter(|secret| users::is_user(secret, cluster));
    secrets.map(|secret| without_fingerprints(users::user(secret, &id))).collect()
}

/// A user without the fingerprints of passwords, from which passwords could be guessed: decisions only compare them.
fn without_fingerprints(user: User) -> User {
    const WANTED: &str = "wanted";
    let word = |print: &String| {
        let is_wanted = user.wanted.as_ref() == Some(print);
        if is_wanted { WANTED.to_owned() } else { "other".to_owned() }
    };
    let mark = match &user.mark {
        Mark::None => Mark::None,
        Mark::Setting(print) => Mark::Setting(word(print)),
        Mark::Set(print) => Mark::Set(word(print)),
    };
    User { wanted: user.wanted.as_ref().map(|_| WANTED.to_owned()), mark, ..user }
}

/// The users for whom Kafka has a credential.
async fn scram_users(work: &Work) -> Fact<BTreeSet<String>> {
    let access = work.known.kafka.access.as_ref();
    let Some(admin) = access.and_then(|access| access.brokers.as_ref()) else {
        return Fact::Unknown(Why::Unreachable);
    };
    let at_ms = now_ms();
    work.ctx.writer.metrics().kafka_call("describe SCRAM credentials", KafkaEffect::Read);
    match users::known(admin).await {
        Ok(known) => Fact::read(known, at_ms),
        Err(error) => {
            tracing::info!("the SCRAM credentials are unknown: {}", chain(&error));
            Fact::Unknown(Why::NoAnswer)
        }
    }
}

/// What Kafka answered when it was asked in this pass.
fn kafka(work: &Work) -> KafkaView {
    let facts = &work.known.kafka;
    let Some(at_ms) = facts.access.as_ref().and(facts.asked_ms) else {
        return KafkaView::default();
    };
    fn fact<T>(value: Option<T>, at_ms: u64) -> Fact<T> {
        value.map_or(Fact::Unknown(Why::NoAnswer), |value| Fact::read(value, at_ms))
    }
    let brokers = facts.brokers.as_ref().map(|(_, cluster)| {
        let view = |node: &kafka_admin::ClusterNode| BrokerView {
            fenced: node.fenced,
            rack: node.rack.clone(),
        };
        cluster.nodes.iter().map(|node| (node.id, view(node))).collect()
    });
    let features = facts.features.as_ref().map(|_| FeaturesView {
        kraft_version: facts.kraft_version(),
        metadata_version: facts.metadata_level(),
    });
    KafkaView {
        quorum: fact(facts.quorum.as_ref().map(|quorum| view(work, quorum)), at_ms),
        endpoints: endpoints(facts.quorum.as_ref()),
        earlier: work.ctx.marks.get(&work.blueprint.names),
        brokers: match facts.access.as_ref().is_some_and(|access| access.brokers.is_some()) {
            true => fact(brokers, at_ms),
            false => Fact::Unknown(Why::Unreachable),
        },
        brokers_from: facts.brokers.as_ref().map(|(broker, _)| *broker),
        features: fact(features, at_ms),
        ..KafkaView::default()
    }
}

/// The addresses of the voters, as Kafka knows them.
fn endpoints(quorum: Option<&Quorum>) -> BTreeMap<NodeId, (String, u16)> {
    let voters = quorum.into_iter().flat_map(|quorum| &quorum.voters);
    let endpoint = |voter: &kafka_admin::QuorumReplica| {
        let first = voter.endpoints.first()?;
        Some((voter.id, (first.host.clone(), first.port)))
    };
    voters.filter_map(endpoint).collect()
}

/// The controllers that are registered.
async fn controllers(work: &Work) -> Fact<BTreeSet<NodeId>> {
    let Some(access) = &work.known.kafka.access else { return Fact::Unknown(Why::Unreachable) };
    let at_ms = now_ms();
    work.ctx.writer.metrics().kafka_call("describe cluster", KafkaEffect::Read);
    match access.controllers.describe_cluster().await {
        Ok(found) => Fact::read(found.nodes.iter().map(|node| node.id).collect(), at_ms),
        Err(error) => {
            tracing::info!("the registered controllers are unknown: {}", chain(&error));
            Fact::Unknown(Why::NoAnswer)
        }
    }
}

/// The directory id of the metadata disk of a node, from its agent.
async fn directory(work: &Work, node: &NodeView) -> Fact<model::DirectoryId> {
    let Some(client) = &work.known.kafka.nodes else { return Fact::Unknown(Why::Unreachable) };
    let at_ms = now_ms();
    match client.directory(&node.host).await {
        Ok(directory) => Fact::read(directory, at_ms),
        Err(error) => {
            tracing::debug!("the directory id of {} is unknown: {}", node.pod, chain(&error));
            Fact::Unknown(Why::NoAnswer)
        }
    }
}

/// One setting of a node that runs.
async fn setting(work: &Work, snapshot: &Snapshot, id: NodeId, name: &str) -> Fact<Option<String>> {
    let node = snapshot.nodes.get(&id);
    let started_as = node.and_then(|node| snapshot.pod(node)).and_then(|pod| pod.roles);
    let roles = started_as.or_else(|| node.and_then(|node| node.current));
    let access = work.known.kafka.access.as_ref();
    let admin = access.and_then(|access| match roles? {
        Roles::Broker | Roles::Combined => access.brokers.as_ref(),
        Roles::Controller => Some(&access.controllers),
    });
    let Some(admin) = admin else { return Fact::Unknown(Why::Unreachable) };
    let at_ms = now_ms();
    work.ctx.writer.metrics().kafka_call("describe configs", KafkaEffect::Read);
    match admin.describe_configs(&ConfigResource::Node(id), Some(&[name])).await {
        Ok(mut found) => Fact::read(found.remove(name).and_then(|entry| entry.value), at_ms),
        Err(error) => {
            tracing::info!("{name} of node {id} is unknown: {}", chain(&error));
            Fact::Unknown(Why::NoAnswer)
        }
    }
}
