//! Reduces existing objects and the spec to the facts that decisions use.
//!
//! Pure functions. The operator queries Kafka and the nodes.

use std::collections::{BTreeMap, BTreeSet};

use api::StrimziPodSet;
use api::names::{
    BROKER_LABEL, CONTROLLER_LABEL, KIND_LABEL, NAME_LABEL, Names, POD_NAME_LABEL, POOL_LABEL,
    node_of_pod,
};
use control::annotations::Annotation;
use control::cluster::record::Record;
use control::cluster::snapshot::{
    ClaimView, Desired, NodeView, ObjectKind, ObjectView, PodView, Revision,
};
use control::cluster::spec::Storage;
use control::cluster::storage::metadata_is_ephemeral;
use control::node::Roles;
use control::quorum::migrate;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource, ResourceExt as _};
use model::NodeId;

use crate::Blueprint;
use crate::areas::configuration::{Configuration, DYNAMIC, KAFKA_VERSION, QUORUM};
use crate::claims::DELETE_CLAIM;
use crate::found::Found;
use crate::pods::{REVISION, SETTINGS, is_ready};
use crate::services;

/// The Kafka container of every pod.
const KAFKA_CONTAINER: &str = "kafka";
/// Annotation on a pod or pod set with which a user requests a restart.
const RESTART: &str = Annotation::ManualRollingUpdate.name();

/// The desired state. `operation_timeout_ms` is the operator's limit for a pod to become ready.
#[must_use]
pub fn desired(
    blueprint: &Blueprint,
    found: &Found,
    (record, configuration): (&Record, &Configuration),
    operation_timeout_ms: Option<u64>,
) -> Desired {
    let kafka = &blueprint.kafka;
    let annotation = Annotation::MaxParallel.name();
    let max_parallel = |pool: &api::KafkaNodePool| {
        Some((pool.name_any(), pool.annotations().get(annotation)?.clone()))
    };
    let sets = found.pod_sets.values().filter(|set| is_annotated(*set, RESTART));
    let windows = kafka.spec.maintenance_time_windows.as_deref().unwrap_or_default();
    Desired {
        kafka_version: configuration.kafka_version.parse().ok(),
        metadata_version: blueprint.spec.metadata_version.clone(),
        skip_partition_check: is_annotated(kafka, Annotation::SkipScaleDownCheck.name()),
        pools: blueprint.spec.pools.iter().map(|pool| pool.name.clone()).collect(),
        services: service_names(blueprint),
        migration: is_annotated(kafka, migrate::ANNOTATION),
        migration_annotated: kafka.annotations().contains_key(migrate::ANNOTATION),
        configured_dynamic: configuration.is_dynamic,
        max_parallel: kafka.annotations().get(annotation).cloned(),
        pool_max_parallel: blueprint.pools.iter().filter_map(max_parallel).collect(),
        join_offline: is_annotated(kafka, Annotation::AllowOfflineBatches.name()),
        ephemeral_pools: pools_with(&record.storage, metadata_is_ephemeral),
        ephemeral_data_pools: pools_with(&record.storage, Storage::has_ephemeral),
        accept_metadata_loss: is_annotated(kafka, Annotation::AcceptMetadataLoss.name()),
        windows: windows.to_vec(),
        restart_pools: sets.filter_map(|set| set.labels().get(POOL_LABEL).cloned()).collect(),
        operation_timeout_ms,
    }
}

/// Pools with such storage. The record includes removed pools. Storage that cannot be parsed counts: it is
/// unknown whether its data outlives the pod.
fn pools_with(
    storage: &BTreeMap<String, String>,
    is_such: impl Fn(&Storage) -> bool,
) -> BTreeSet<String> {
    let may_be = |(pool, text): &(&String, &String)| {
        api::read::storage_from_text(text, pool).map_or(true, |storage| is_such(&storage))
    };
    storage.iter().filter(may_be).map(|(pool, _)| pool.clone()).collect()
}

/// All recorded nodes. `pod_sets` are the desired pod sets.
#[must_use]
pub fn nodes(
    blueprint: &Blueprint,
    found: &Found,
    (record, configuration): (&Record, &Configuration),
    pod_sets: &[StrimziPodSet],
) -> BTreeMap<NodeId, NodeView> {
    let current: BTreeMap<NodeId, Roles> =
        blueprint.nodes.iter().map(|node| (node.id, node.roles)).collect();
    let revisions = desired_revisions(found, pod_sets);
    let view = |node: &control::cluster::record::Node| {
        let pod = blueprint.pod(node);
        NodeView {
            pool: node.pool.clone(),
            host: blueprint.names.host(&pod),
            revision: revisions.get(&pod).cloned(),
            settings: configuration.fingerprint(node.id),
            pod,
            recorded: Some(node.roles),
            desired: blueprint.desired.get(&node.id).copied(),
            current: current.get(&node.id).copied(),
        }
    };
    record.nodes().iter().map(|node| (node.id, view(node))).collect()
}

/// Desired revision of each pod from its pod set, by pod name.
fn desired_revisions(found: &Found, pod_sets: &[StrimziPodSet]) -> BTreeMap<String, Revision> {
    // Pod sets of removed pools are not built any more.
    let pods = found.pod_sets.values().chain(pod_sets).flat_map(|set| &set.spec.pods);
    let revision = |pod: &api::Verbatim| {
        let metadata = pod.0.get("metadata")?;
        let annotations = metadata.get("annotations")?.as_object()?;
        let annotation = |name: &str| annotations.get(name)?.as_str().map(str::to_owned);
        Some((metadata.get("name")?.as_str()?.to_owned(), revision(annotation)))
    };
    pods.filter_map(revision).collect()
}

/// All claims by name.
#[must_use]
pub fn claims(names: &Names, found: &Found) -> BTreeMap<String, ClaimView> {
    let claims = found.claims.iter().filter_map(|(name, claim)| {
        let view = ClaimView {
            uid: claim.uid()?,
            ours: is_ours(names, claim),
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

/// Names of the desired Services; `None` if they cannot be built.
fn service_names(blueprint: &Blueprint) -> Option<BTreeSet<String>> {
    let all = services::all(blueprint).ok()?;
    Some(all.iter().map(|service| service.name_any()).collect())
}

/// Whether an object was created for the Kafka nodes of this cluster.
fn is_ours<K: Resource>(names: &Names, object: &K) -> bool {
    let labels = object.meta().labels.as_ref();
    let has = |name: &str, value: &str| {
        labels.and_then(|labels| labels.get(name)).is_some_and(|found| found == value)
    };
    has(KIND_LABEL, "Kafka") && has(NAME_LABEL, &names.component())
}

/// Objects of a single node, pool or listener.
#[must_use]
pub fn objects(names: &Names, found: &Found) -> Vec<ObjectView> {
    fn view<K: Resource>(names: &Names, kind: ObjectKind, object: &K) -> Option<ObjectView> {
        let meta = object.meta();
        let label = |name: &str| meta.labels.as_ref()?.get(name).cloned();
        Some(ObjectView {
            kind,
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            ours: is_ours(names, object),
            deleting: meta.deletion_timestamp.is_some(),
            pod: label(POD_NAME_LABEL),
            pool: label(POOL_LABEL),
        })
    }
    let maps = found.config_maps.values().map(|one| view(names, ObjectKind::ConfigMap, one));
    let secrets = found.secrets.values().map(|one| view(names, ObjectKind::Secret, one));
    let services = found.services.values().map(|one| view(names, ObjectKind::Service, one));
    let sets = found.pod_sets.values().map(|one| view(names, ObjectKind::PodSet, one));
    maps.chain(secrets).chain(services).chain(sets).flatten().collect()
}

/// All pods by name.
#[must_use]
pub fn pods(found: &Found) -> BTreeMap<String, PodView> {
    found.pods.iter().map(|(name, one)| (name.clone(), pod(name, one))).collect()
}

fn pod(name: &str, pod: &Pod) -> PodView {
    let millis = |time: Option<&Time>| u64::try_from(time?.0.as_millisecond()).ok();
    let annotation = |name: &str| pod.annotations().get(name).cloned();
    PodView {
        node: node_of_pod(name),
        pool: pod.labels().get(POOL_LABEL).cloned(),
        uid: pod.uid().unwrap_or_default(),
        ready: is_ready(pod),
        roles: roles(pod),
        kafka_version: annotation(KAFKA_VERSION).and_then(|text| text.parse().ok()),
        dynamic_quorum: annotation(QUORUM).is_some_and(|mode| mode == DYNAMIC),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        deletion_ms: millis(pod.metadata.deletion_timestamp.as_ref()),
        created_ms: millis(pod.metadata.creation_timestamp.as_ref()).unwrap_or_default(),
        waiting: waiting(pod),
        unschedulable: is_unschedulable(pod),
        revision: revision(annotation),
        restart: is_annotated(pod, RESTART),
        disk_replaced: is_annotated(pod, Annotation::DiskReplaced.name()),
        exit_code: exit_code(pod),
    }
}

/// The roles of a pod, from its labels.
fn roles(pod: &Pod) -> Option<Roles> {
    let is = |label: &str| pod.labels().get(label).map(|value| value == "true");
    match (is(BROKER_LABEL)?, is(CONTROLLER_LABEL)?) {
        (true, true) => Some(Roles::Combined),
        (true, false) => Some(Roles::Broker),
        (false, true) => Some(Roles::Controller),
        (false, false) => None,
    }
}

/// The reason why the first waiting container waits.
fn waiting(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let inits = status.init_container_statuses.iter().flatten();
    let mut all = inits.chain(status.container_statuses.iter().flatten());
    all.find_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.clone())
}

/// The last exit code of the Kafka container, unless it runs.
fn exit_code(pod: &Pod) -> Option<i32> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    let kafka = containers.iter().find(|container| container.name == KAFKA_CONTAINER)?;
    let state = kafka.state.as_ref();
    if state.is_some_and(|state| state.running.is_some()) {
        return None;
    }
    let ended = state.and_then(|state| state.terminated.as_ref());
    let ended = ended.or_else(|| kafka.last_state.as_ref()?.terminated.as_ref());
    ended.map(|ended| ended.exit_code)
}

fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    })
}

fn revision(annotation: impl Fn(&str) -> Option<String>) -> Revision {
    Revision {
        pod: annotation(REVISION),
        settings: annotation(SETTINGS),
        cluster_ca: annotation(Annotation::ClusterCaCertGeneration.name()),
        cluster_ca_key: annotation(Annotation::ClusterCaKeyGeneration.name()),
        clients_ca: annotation(Annotation::ClientsCaCertGeneration.name()),
        certificate: annotation(Annotation::ServerCertHash.name()),
    }
}

fn is_annotated<K: Resource>(object: &K, annotation: &str) -> bool {
    object
        .meta()
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotation))
        .is_some_and(|value| value == "true")
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
