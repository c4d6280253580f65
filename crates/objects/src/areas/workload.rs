//! Pod sets of all nodes. Existing pods are not changed: the roller restarts them.

use std::collections::{BTreeMap, BTreeSet};

use api::names::POOL_LABEL;
use api::{StrimziPodSet, Verbatim};
use control::annotations::Annotation;
use control::cluster::draft::Flow;
use control::cluster::spec::{Disk, PoolSpec};
use control::cluster::storage::{MountedVolume, layout};
use control::conditions::{Note, Reason};
use kube::ResourceExt as _;
use model::NodeId;
use serde_json::{Value, json};

use super::Built;
use super::configuration::{Configuration, KAFKA_VERSION};
use crate::Blueprint;
use crate::found::Found;
use crate::pods::{self, Marks, PodParts, Source, Volume, is_ready};

/// The pod set of a pool that was removed past its finalizer. It is not extended any more, and its nodes are
/// removed one by one as usual.
#[derive(Debug, Clone, PartialEq)]
pub struct Orphan {
    /// The set as it exists.
    pub set: StrimziPodSet,
    /// The merge patch with the remaining pods.
    pub patch: Value,
}

/// Facts about pod sets for later areas.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sets {
    /// Pod sets of removed pools to shrink after the others were applied.
    pub orphans: Vec<Orphan>,
    /// Nodes whose pods must be removed, by pod set.
    pub stops: BTreeMap<String, BTreeSet<NodeId>>,
}

/// Builds the pod sets, and finds pods to remove. `certificates` are annotations for each node's
/// certificates.
pub fn build(
    blueprint: &Blueprint,
    found: &Found,
    (configuration, certificates): (&Configuration, &Marks),
) -> Result<Built<Sets>, serde_json::Error> {
    let sets = Sets { orphans: orphans(blueprint, found), stops: stops(blueprint, found) };
    let mut built = Built::new(sets);
    for pool in &blueprint.spec.pools {
        let has_nodes = blueprint.nodes.iter().any(|node| node.pool == pool.name);
        // A pod set must be applied to remove its last pod.
        if !has_nodes && !found.pod_sets.contains_key(&blueprint.names.pod_set(&pool.name)) {
            continue;
        }
        let parts = parts(blueprint, pool, (configuration, certificates));
        built.objects.push(pods::pod_set(blueprint, &pool.name, &parts)?.into());
    }
    built.flow = awaited(blueprint, found);
    Ok(built)
}

fn orphans(blueprint: &Blueprint, found: &Found) -> Vec<Orphan> {
    // An applied pod set gets the label of its pool, whatever it had before.
    let is_known = |set: &StrimziPodSet, pool: &str| {
        let (pools, names) = (&blueprint.spec.pools, &blueprint.names);
        pools.iter().any(|one| one.name == pool || names.pod_set(&one.name) == set.name_any())
    };
    let sets = found
        .pod_sets
        .values()
        .filter(|set| set.labels().get(POOL_LABEL).is_some_and(|pool| !is_known(set, pool)));
    let stay: BTreeSet<_> = blueprint.nodes.iter().map(|node| blueprint.pod(node)).collect();
    let stays = |pod: &&Verbatim| pod_name(pod).is_some_and(|name| stay.contains(name));
    let orphan = |set: &StrimziPodSet| {
        let pods: Vec<_> = set.spec.pods.iter().filter(stays).collect();
        let patch = json!({
            "metadata": { "resourceVersion": set.resource_version() },
            "spec": { "pods": pods },
        });
        (pods.len() < set.spec.pods.len()).then(|| Orphan { set: set.clone(), patch })
    };
    sets.filter_map(orphan).collect()
}

fn pod_name(pod: &Verbatim) -> Option<&str> {
    pod.0.get("metadata").and_then(|metadata| metadata["name"].as_str())
}

/// Nodes with a pod in a pod set that must not run.
fn stops(blueprint: &Blueprint, found: &Found) -> BTreeMap<String, BTreeSet<NodeId>> {
    let stay: BTreeSet<_> = blueprint.nodes.iter().map(|node| blueprint.pod(node)).collect();
    let goes = |pod: &Verbatim| {
        let name = pod_name(pod).filter(|name| !stay.contains(*name))?;
        api::names::node_of_pod(name)
    };
    let of_set = |(name, set): (&String, &StrimziPodSet)| {
        let nodes: BTreeSet<NodeId> = set.spec.pods.iter().filter_map(goes).collect();
        (!nodes.is_empty()).then(|| (name.clone(), nodes))
    };
    found.pod_sets.iter().filter_map(of_set).collect()
}

fn parts(
    blueprint: &Blueprint,
    pool: &PoolSpec,
    (configuration, certificates): (&Configuration, &Marks),
) -> PodParts {
    let nodes = blueprint.nodes.iter().filter(|node| node.pool == pool.name);
    let marks = |node: NodeId| -> BTreeMap<String, String> {
        let all = [certificates.get(&node), configuration.marks.get(&node)];
        all.into_iter().flatten().flatten().map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    let marks: Marks = nodes.map(|node| (node.id, marks(node.id))).collect();
    let first = marks.keys().next().copied();
    let hash = |node: &NodeId| Some((*node, configuration.fingerprint(*node)?));
    PodParts {
        image: configuration.image.clone(),
        settings: marks.keys().filter_map(hash).collect(),
        marks,
        // Names and mount paths of volumes are identical for all nodes of a pool.
        volumes: first.map(|node| volumes(pool, node)).unwrap_or_default(),
        memory_bytes: pool.memory_bytes,
        annotations: [
            (KAFKA_VERSION, configuration.kafka_version.clone()),
            (Annotation::Storage.name(), api::read::storage_text(&pool.storage)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
    }
}

/// The volumes of a node with their names in the pod.
fn volumes(pool: &PoolSpec, node: NodeId) -> Vec<Volume> {
    let source = |disk: &Disk| match disk {
        Disk::Claim(_) => Source::Claim,
        Disk::Ephemeral { size_limit } => {
            Source::Scratch { size_limit: size_limit.as_ref().map(ToString::to_string) }
        }
    };
    let volumes = layout(&pool.storage, node).volumes.into_iter();
    let volume = |mounted: MountedVolume| Volume {
        source: source(&mounted.volume.disk),
        name: mounted.name,
        mount: mounted.mount,
    };
    volumes.map(volume).collect()
}

/// Pods that are not ready yet.
#[must_use]
pub fn awaited(blueprint: &Blueprint, found: &Found) -> Flow {
    let missing: Vec<_> = blueprint
        .nodes
        .iter()
        .map(|node| blueprint.pod(node))
        .filter(|pod| !found.pods.get(pod).is_some_and(is_ready))
        .collect();
    if missing.is_empty() {
        return Flow::Go;
    }
    let (all, ready) = (blueprint.nodes.len(), blueprint.nodes.len() - missing.len());
    Flow::Wait(Note::new(
        Reason::Creating,
        format!("{ready} of {all} nodes are ready; waiting for {}", missing.join(", ")),
    ))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::pods::{REVISION, SETTINGS};
    use crate::samples::{blueprint, id, seen};
    use crate::{Object, object};

    fn pod(name: &str, ready: bool) -> Value {
        let status = if ready { "True" } else { "False" };
        json!({
            "metadata": { "name": name },
            "status": { "conditions": [{ "type": "Ready", "status": status }] },
        })
    }

    /// All nodes of the sample, ready.
    fn ready() -> BTreeMap<String, Value> {
        let names = ["my-broker-0", "my-broker-1", "my-controller-2"];
        names.map(|name| (name.to_owned(), pod(name, true))).into()
    }

    fn built(blueprint: &Blueprint, found: &Found) -> Built<Sets> {
        let built = build(blueprint, found, (&Configuration::default(), &Marks::new())).unwrap();
        seen(&built.warnings, &built.flow);
        built
    }

    #[test]
    #[rustfmt::skip]
    pub(in crate::areas) fn pods_that_are_not_ready_are_awaited() {
        // How the pods differ, what the pass is waiting for.
        let rows: [(&str, fn(&mut BTreeMap<String, Value>), &str); 6] = [
            ("all are ready", |_| {}, ""),
            ("one is missing", |p| { p.remove("my-broker-1"); },
             "2 of 3 nodes are ready; waiting for my-broker-1"),
            ("one is not ready", |p| { p.insert("my-controller-2".to_owned(), pod("my-controller-2", false)); },
             "2 of 3 nodes are ready; waiting for my-controller-2"),
            ("one is being deleted", |p| p.get_mut("my-broker-0").unwrap()["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
             "2 of 3 nodes are ready; waiting for my-broker-0"),
            ("none exists", BTreeMap::clear,
             "0 of 3 nodes are ready; waiting for my-broker-0, my-broker-1, my-controller-2"),
            ("a pod that belongs to no node is not ready", |p| { p.insert("my-broker-9".to_owned(), pod("my-broker-9", false)); }, ""),
        ];
        for (what, change, expected) in rows {
            let mut pods = ready();
            change(&mut pods);
            let pods = pods.into_iter().map(|(name, pod)| (name, object(pod).unwrap()));
            let found = Found { pods: pods.collect(), ..Found::default() };
            let flow = match expected {
                "" => Flow::Go,
                message => Flow::Wait(Note::new(Reason::Creating, message)),
            };
            assert_eq!(built(&blueprint(json!({}), json!({})), &found).flow, flow, "{what}");
        }
    }

    /// A set of a pool with these pods.
    fn set(pool: &str, pods: &[&str]) -> Found {
        let pods: Vec<_> =
            pods.iter().map(|name| json!({ "metadata": { "name": name } })).collect();
        let name = format!("my-{pool}");
        let set = object(json!({
            "apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet",
            "metadata": { "name": name, "resourceVersion": "7", "labels": { POOL_LABEL: pool } },
            "spec": { "selector": { "matchLabels": {} }, "pods": pods },
        }));
        Found { pod_sets: [(name, set.unwrap())].into(), ..Found::default() }
    }

    #[test]
    #[rustfmt::skip]
    fn sets_of_removed_pools_keep_only_pods_of_nodes_that_stay() {
        // The pool of the set, its pods, the pods that stay if it shrinks.
        let rows: [(&str, &[&str], Option<&[&str]>); 5] = [
            ("broker", &["my-broker-0", "my-broker-9"], None),
            ("old",    &[],                             None),
            ("old",    &["my-old-5"],                   None),
            ("old",    &["my-old-5", "my-old-6"],       Some(&["my-old-5"])),
            ("old",    &["my-old-6"],                   Some(&[])),
        ];
        let mut blueprint = blueprint(json!({}), json!({}));
        let mut leaving = blueprint.nodes[0].clone();
        (leaving.id, leaving.pool) = (id(5), "old".to_owned());
        blueprint.nodes.push(leaving);
        for (pool, pods, expected) in rows {
            let Sets { orphans, stops } = built(&blueprint, &set(pool, pods)).outputs;
            // All ids below 9 except 6 belong to remaining nodes.
            let gone: BTreeSet<_> = pods.iter().filter_map(|pod| api::names::node_of_pod(pod)).filter(|id| matches!(id.get(), 6 | 9)).collect();
            assert_eq!(stops.get(&format!("my-{pool}")).cloned().unwrap_or_default(), gone, "{pool} {pods:?}");
            let expected = expected.map(|stay| {
                let pods: Vec<_> = stay.iter().map(|name| json!({ "metadata": { "name": name } })).collect();
                json!({ "metadata": { "resourceVersion": "7" }, "spec": { "pods": pods } })
            });
            let patches: Vec<_> = orphans.iter().map(|orphan| &orphan.patch).collect();
            assert_eq!(patches, expected.iter().collect::<Vec<_>>(), "{pool} {pods:?}");
        }
    }

    #[test]
    fn a_pool_without_nodes_has_a_set_only_if_there_is_one() {
        let mut blueprint = blueprint(json!({}), json!({}));
        blueprint.nodes.retain(|node| node.pool == "broker");
        let names = |found: &Found| -> Vec<String> {
            built(&blueprint, found).objects.iter().map(|set| set.name().to_owned()).collect()
        };
        assert_eq!(names(&Found::default()), ["my-broker"]);
        let found = set("controller", &["my-controller-2"]);
        assert_eq!(names(&found), ["my-broker", "my-controller"]);
    }

    /// The annotations of the pod of broker 0.
    fn annotations(configuration: &Configuration, certificates: &Marks) -> Value {
        let blueprint = blueprint(json!({}), json!({}));
        let known = (configuration, certificates);
        let built = build(&blueprint, &Found::default(), known).unwrap();
        let Object::PodSet(set) = &built.objects[0] else { panic!("not a pod set") };
        json!(set.spec.pods[0])["metadata"]["annotations"].clone()
    }

    #[test]
    fn a_pod_has_a_new_revision_with_its_marks_and_not_with_its_settings() {
        let marks = |name: &str, value: &str| -> Marks {
            [(id(0), [(name.to_owned(), value.to_owned())].into())].into()
        };
        let configured = |value: &str, setting: &str| Configuration {
            marks: marks("a", value),
            properties: [(id(0), vec![("s".to_owned(), setting.to_owned())])].into(),
            ..Configuration::default()
        };
        let before = annotations(&configured("1", "1"), &marks("b", "1"));
        assert_eq!((&before["a"], &before["b"]), (&json!("1"), &json!("1")));
        let settings = annotations(&configured("1", "2"), &marks("b", "1"));
        assert_eq!(settings[REVISION], before[REVISION]);
        assert_ne!(settings[SETTINGS], before[SETTINGS]);
        let marked = annotations(&configured("2", "1"), &marks("b", "1"));
        assert_ne!(marked[REVISION], before[REVISION]);
        let renewed = annotations(&configured("1", "1"), &marks("b", "2"));
        assert_ne!(renewed[REVISION], before[REVISION]);
    }
}
