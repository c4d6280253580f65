//! The pods of all nodes, through their pod sets. Pods that are there are not touched: restarting is for the
//! roller.

use std::collections::{BTreeMap, BTreeSet};

use api::names::POOL_LABEL;
use control::cluster::spec::{Disk, PoolSpec};
use control::cluster::storage::{Place, layout};
use control::conditions::{Note, Reason};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};
use crate::cluster::resources::pods::{self, PodParts, Source, Volume};

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let api: Api<api::StrimziPodSet> = work.api();
    for pool in &work.blueprint.spec.pools {
        let has_nodes = work.blueprint.nodes.iter().any(|node| node.pool == pool.name);
        // A set whose last pod is to go must hear of it.
        let set = work.blueprint.names.pod_set(&pool.name);
        if !has_nodes && !work.found.pod_sets.contains_key(&set) {
            continue;
        }
        let set = pods::pod_set(&work.blueprint, &pool.name, &parts(work, pool))?;
        let name = set.name_any();
        let before = work.found.pod_sets.get(&name);
        let after = work.ctx.writer.apply(&api, &name, &set, before).await?;
        work.found.pod_sets.insert(name, after);
    }
    shrink_orphans(work, &api).await?;
    Ok(awaited(work))
}

/// Sets of pools that somebody took away past the finalizer: nothing is made there any more, but nodes that
/// are to go do, one by one as elsewhere.
async fn shrink_orphans(work: &mut Work, api: &Api<api::StrimziPodSet>) -> Result<(), PassError> {
    let known: Vec<_> = work.blueprint.spec.pools.iter().map(|pool| pool.name.as_str()).collect();
    let orphans = work.found.pod_sets.values().filter(|set| {
        set.labels().get(POOL_LABEL).is_some_and(|pool| !known.contains(&pool.as_str()))
    });
    let stay: BTreeSet<_> =
        work.blueprint.nodes.iter().map(|node| work.blueprint.pod(node)).collect();
    for set in orphans.cloned().collect::<Vec<_>>() {
        let is_there = |pod: &&api::Verbatim| {
            let name = pod.0.get("metadata").and_then(|metadata| metadata["name"].as_str());
            name.is_some_and(|name| stay.contains(name))
        };
        let pods: Vec<_> = set.spec.pods.iter().filter(is_there).collect();
        let patch = json!({
            "metadata": { "resourceVersion": set.resource_version() },
            "spec": { "pods": pods },
        });
        if pods.len() < set.spec.pods.len() {
            work.ctx.writer.patch(api, &set.name_any(), &patch, Some(&set)).await?;
        }
    }
    Ok(())
}

fn parts(work: &Work, pool: &PoolSpec) -> PodParts {
    let nodes = work.blueprint.nodes.iter().filter(|node| node.pool == pool.name);
    let marks: BTreeMap<_, _> = nodes.map(|node| (node.id, marks(work, node.id))).collect();
    let first = marks.keys().next().copied();
    let hash = |node: &model::NodeId| Some((*node, work.known.configuration.fingerprint(*node)?));
    PodParts {
        image: work.known.configuration.image.clone(),
        settings: marks.keys().filter_map(hash).collect(),
        marks,
        // Names and places of volumes are the same for all nodes of a pool.
        volumes: first.map(|node| volumes(pool, node)).unwrap_or_default(),
        memory_bytes: pool.memory_bytes,
        annotations: [
            ("strimzi.io/kafka-version", work.known.configuration.kafka_version.clone()),
            ("strimzi.io/storage", api::read::storage_text(&pool.storage)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
    }
}

/// What a node is started with and keeps until it is restarted.
fn marks(work: &Work, node: model::NodeId) -> BTreeMap<String, String> {
    let mut marks = BTreeMap::new();
    marks.extend(work.known.certificate_marks.get(&node).cloned().unwrap_or_default());
    marks.extend(work.known.configuration.marks.get(&node).cloned().unwrap_or_default());
    marks
}

/// The volumes of the nodes by the names they have in their pods.
fn volumes(pool: &PoolSpec, node: model::NodeId) -> Vec<Volume> {
    let source = |disk: &Disk| match disk {
        Disk::Claim(_) => Source::Claim,
        Disk::Ephemeral { size_limit } => {
            Source::Scratch { size_limit: size_limit.as_ref().map(ToString::to_string) }
        }
    };
    let places = layout(&pool.storage, node).places.into_iter();
    let volume = |place: Place| Volume {
        source: source(&place.volume.disk),
        name: place.name,
        mount: place.mount,
    };
    places.map(volume).collect()
}

/// Whether the kubelet finds a pod ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// Who is not ready yet.
fn awaited(work: &Work) -> Step {
    let missing: Vec<_> = work
        .blueprint
        .nodes
        .iter()
        .map(|node| work.blueprint.pod(node))
        .filter(|pod| !work.found.pods.get(pod).is_some_and(is_ready))
        .collect();
    if missing.is_empty() {
        return Step::Done;
    }
    let (all, ready) = (work.blueprint.nodes.len(), work.blueprint.nodes.len() - missing.len());
    Step::Waiting(Note::new(
        Reason::Creating,
        format!("{ready} of {all} nodes are ready; waiting for {}", missing.join(", ")),
    ))
}
