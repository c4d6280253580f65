//! The snapshot of a cluster: what was read of Kubernetes and Kafka, reduced to what decisions use.

mod contact;
mod keys;
mod pods;
mod settings;

pub(crate) use settings::desired as desired_settings;

use std::collections::{BTreeMap, BTreeSet};

use api::names::{KIND_LABEL, NAME_LABEL, POD_NAME_LABEL, POOL_LABEL};
use control::annotations::Annotation;
use control::cluster::areas::roll::MAX_PARALLEL;
use control::cluster::fact::{Fact, Why};
use control::cluster::snapshot::{
    BrokerView, ClaimView, Desired, FeaturesView, KafkaView, Needs, NodeView, ObjectKind,
    ObjectView, Snapshot,
};
use control::cluster::spec::Storage;
use control::cluster::storage::metadata_is_ephemeral;
use control::node::Roles;
use control::quorum::{bootstrap, migrate};
use control::users::{Mark, User};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kafka_admin::{ConfigResource, Quorum};
use kube::{Resource, ResourceExt as _};
use model::NodeId;
use objects::claims::DELETE_CLAIM;
use objects::services;

use super::error::PassError;
use super::pass::Work;
use super::steps::kafka::view;
use super::{partitions, rebalances};
use crate::metrics::KafkaEffect;
use crate::time::now_ms;
use crate::users;
use crate::words::chain;

/// The annotation with which a user waives the check for partitions.
const SKIP_CHECK: &str = Annotation::SkipScaleDownCheck.name();
/// The annotation on a pod or a pod set with which a user asks for a restart.
pub(crate) const RESTART: &str = Annotation::ManualRollingUpdate.name();
/// The annotation that allows brokers whose partitions go offline in any case to be restarted together.
const JOIN_OFFLINE: &str = Annotation::AllowOfflineBatches.name();
/// The annotation with which a user accepts that the metadata is lost with the pods of controllers.
const ACCEPT_LOSS: &str = Annotation::AcceptMetadataLoss.name();
/// The number of nodes that are asked at a time. Some may not answer, and each of those takes its whole time-out.
const ASKED_AT_ONCE: usize = 16;
/// The setting that closes a broker for new replicas.
pub(crate) const CORDON: &str = "cordoned.log.dirs";

/// What is known without asking anybody.
pub(crate) fn snapshot(work: &Work) -> Snapshot {
    Snapshot {
        now_ms: now_ms(),
        objects_ms: work.found.at_ms,
        nodes: nodes(work),
        refused: work.blueprint.refused.clone(),
        pods: pods::views(work),
        claims: claims(work),
        objects: objects(work),
        desired: desired(work),
        kafka: kafka(work),
        authorities: Fact::default(),
        certificates: Fact::default(),
        rebalance: Fact::default(),
        users: users(work),
        built: work.objects.views.clone(),
    }
}

/// What the user asks for.
fn desired(work: &Work) -> Desired {
    let (blueprint, kafka) = (&work.blueprint, &work.blueprint.kafka);
    let max_parallel = |pool: &api::KafkaNodePool| {
        Some((pool.name_any(), pool.annotations().get(MAX_PARALLEL)?.clone()))
    };
    let sets = work.found.pod_sets.values().filter(|set| is_annotated(*set, RESTART));
    Desired {
        kafka_version: work.known.configuration.kafka_version.parse().ok(),
        metadata_version: blueprint.spec.metadata_version.clone(),
        skip_partition_check: is_annotated(kafka, SKIP_CHECK),
        pools: blueprint.spec.pools.iter().map(|pool| pool.name.clone()).collect(),
        services: services(work),
        migration: is_annotated(kafka, migrate::ANNOTATION),
        migration_annotated: kafka.annotations().contains_key(migrate::ANNOTATION),
        configured_dynamic: work.known.configuration.is_dynamic,
        max_parallel: kafka.annotations().get(MAX_PARALLEL).cloned(),
        pool_max_parallel: blueprint.pools.iter().filter_map(max_parallel).collect(),
        join_offline: is_annotated(kafka, JOIN_OFFLINE),
        ephemeral_pools: pools_with(&work.record.storage, metadata_is_ephemeral),
        ephemeral_data_pools: pools_with(&work.record.storage, Storage::has_ephemeral),
        accept_metadata_loss: is_annotated(kafka, ACCEPT_LOSS),
        windows: super::keys::maintenance(work).to_vec(),
        restart_pools: sets.filter_map(|set| set.labels().get(POOL_LABEL).cloned()).collect(),
        operation_timeout_ms: u64::try_from(work.ctx.settings.operation_timeout.as_millis()).ok(),
    }
}

/// The pools whose storage is such. The record has also those of pools that are gone. Storage that cannot be read may be:
/// it is not known that anything on it outlives the pod.
fn pools_with(
    storage: &BTreeMap<String, String>,
    is_such: impl Fn(&Storage) -> bool,
) -> BTreeSet<String> {
    let may_be = |(pool, text): &(&String, &String)| {
        api::read::storage_from_text(text, pool).map_or(true, |storage| is_such(&storage))
    };
    storage.iter().filter(may_be).map(|(pool, _)| pool.clone()).collect()
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

fn is_annotated<K: Resource>(object: &K, annotation: &str) -> bool {
    object.annotations().get(annotation).is_some_and(|value| value == "true")
}

fn nodes(work: &Work) -> BTreeMap<NodeId, NodeView> {
    let current: BTreeMap<NodeId, Roles> =
        work.blueprint.nodes.iter().map(|node| (node.id, node.roles)).collect();
    let revisions = pods::desired_revisions(work);
    let view = |node: &control::cluster::record::Node| {
        let pod = work.blueprint.pod(node);
        NodeView {
            pool: node.pool.clone(),
            host: work.blueprint.names.host(&pod),
            revision: revisions.get(&pod).cloned(),
            settings: work.known.configuration.fingerprint(node.id),
            pod,
            recorded: Some(node.roles),
            desired: work.blueprint.wished.get(&node.id).copied(),
            current: current.get(&node.id).copied(),
        }
    };
    work.record.nodes().iter().map(|node| (node.id, view(node))).collect()
}

fn claims(work: &Work) -> BTreeMap<String, ClaimView> {
    let claims = work.found.claims.iter().filter_map(|(name, claim)| {
        let view = ClaimView {
            uid: claim.uid()?,
            ours: is_ours(work, claim),
            delete_with_node: claim.annotations().get(DELETE_CLAIM).is_some_and(|v| v == "true"),
            deleting: claim.metadata.deletion_timestamp.is_some(),
            resize_pending: is_resize_pending(claim),
        };
        Some((name.clone(), view))
    });
    claims.collect()
}

fn is_resize_pending(claim: &PersistentVolumeClaim) -> bool {
    let conditions = claim.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|one| one.type_ == "FileSystemResizePending" && one.status == "True")
}

/// The names of the Services that the cluster should have; `None` if they cannot be built.
fn services(work: &Work) -> Option<BTreeSet<String>> {
    let all = services::all(&work.blueprint).ok()?;
    Some(all.iter().map(|service| service.name_any()).collect())
}

/// Whether an object was created for the Kafka nodes of this cluster.
fn is_ours<K: Resource>(work: &Work, object: &K) -> bool {
    let labels = object.meta().labels.as_ref();
    let has = |name: &str, value: &str| {
        labels.and_then(|labels| labels.get(name)).is_some_and(|found| found == value)
    };
    has(KIND_LABEL, "Kafka") && has(NAME_LABEL, &work.blueprint.names.component())
}

/// The objects that belong to one node, pool or listener.
fn objects(work: &Work) -> Vec<ObjectView> {
    fn view<K: Resource>(work: &Work, kind: ObjectKind, object: &K) -> Option<ObjectView> {
        let meta = object.meta();
        let label = |name: &str| meta.labels.as_ref()?.get(name).cloned();
        Some(ObjectView {
            kind,
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            ours: is_ours(work, object),
            deleting: meta.deletion_timestamp.is_some(),
            pod: label(POD_NAME_LABEL),
            pool: label(POOL_LABEL),
        })
    }
    let found = &work.found;
    let maps = found.config_maps.values().map(|one| view(work, ObjectKind::ConfigMap, one));
    let secrets = found.secrets.values().map(|one| view(work, ObjectKind::Secret, one));
    let services = found.services.values().map(|one| view(work, ObjectKind::Service, one));
    let sets = found.pod_sets.values().map(|one| view(work, ObjectKind::PodSet, one));
    maps.chain(secrets).chain(services).chain(sets).flatten().collect()
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
        return Fact::Unknown(Why::NobodyToAsk);
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
            false => Fact::Unknown(Why::NobodyToAsk),
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
    let Some(access) = &work.known.kafka.access else { return Fact::Unknown(Why::NobodyToAsk) };
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
    let Some(client) = &work.known.kafka.nodes else { return Fact::Unknown(Why::NobodyToAsk) };
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
    let Some(admin) = admin else { return Fact::Unknown(Why::NobodyToAsk) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_that_cannot_be_read_may_be_deleted_with_the_pod() {
        let claim = r#"{"type": "persistent-claim", "size": "1Gi"}"#;
        let mixed = r#"{"type": "jbod", "volumes": [
            {"id": 0, "type": "persistent-claim", "size": "1Gi"}, {"id": 1, "type": "ephemeral"}]}"#;
        let rows = [
            // The storage of a pool, whether its metadata is deleted with the pod, and whether anything is.
            ("claim", claim, false, false),
            ("ephemeral", r#"{"type": "ephemeral"}"#, true, true),
            ("mixed", mixed, false, true),
            ("broken", "{", true, true),
            ("later", r#"{"type": "levitating"}"#, true, true),
        ];
        let text = |pool: &str, text: &str| (pool.to_owned(), text.to_owned());
        let storage = rows.iter().map(|(pool, storage, _, _)| text(pool, storage)).collect();
        let metadata = pools_with(&storage, metadata_is_ephemeral);
        let data = pools_with(&storage, Storage::has_ephemeral);
        for (pool, _, of_metadata, of_data) in rows {
            let found = (metadata.contains(pool), data.contains(pool));
            assert_eq!(found, (of_metadata, of_data), "{pool}");
        }
    }
}
