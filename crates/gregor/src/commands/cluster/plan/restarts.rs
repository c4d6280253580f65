//! What an edit means for nodes that run: which are restarted, and why; which settings change without that.
//!
//! Compared are the pods and the settings that the operator makes of the resources as they are and as they would
//! be. What it is about to do anyway is not the doing of the edit.

use std::collections::{BTreeMap, BTreeSet};

use control::annotations::Annotation;
use control::node::Roles;
use control::registration::KafkaVersion;
use control::rolling::config::{self, Change, Diff};
use control::rolling::facts::NodeFacts;
use control::rolling::order;
use control::scaling::explain::{Restart, Setting};
use model::NodeId;
use operator::cluster::foresee::View;
use serde_json::Value;

const REVISION: &str = Annotation::Revision.name();
const CONFIG_HASH: &str = Annotation::ConfigurationHash.name();
const KAFKA_VERSION: &str = Annotation::KafkaVersion.name();
const CERTIFICATES: &[&str] = &[
    Annotation::ServerCertHash.name(),
    Annotation::ClusterCaCertGeneration.name(),
    Annotation::ClusterCaKeyGeneration.name(),
    Annotation::ClientsCaCertGeneration.name(),
    Annotation::ListenerCertThumbprints.name(),
];
/// As many parts of a pod are named; whoever changes more knows what he changes.
const PARTS_MAX: usize = 3;

/// What becomes of nodes that stay.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Upkeep {
    pub(super) restarts: Vec<Restart>,
    pub(super) changes: Vec<Setting>,
    /// Settings of which only Kafka knows whether they need a restart, which did not tell.
    pub(super) unclear: Vec<String>,
}

/// Compares a cluster as it is with what an edit makes of it.
pub(super) fn compare(present: &View, edited: &View) -> Upkeep {
    let mut upkeep = Upkeep::default();
    let mut why: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
    let (mut changes, mut unclear) = (BTreeSet::new(), BTreeSet::new());
    let before = diffs(present);
    for (id, node) in nodes(edited) {
        let same_roles = edited.recorded.get(&id).map(|one| one.roles)
            == edited.desired.get(&id).map(|one| one.roles);
        let (Some(now), Some(then)) = (present.pods.get(&id), edited.pods.get(&id)) else {
            continue;
        };
        let of = Compared { present, edited, id, roles: node.roles };
        let reasons = why.entry(id).or_default();
        if same_roles {
            reasons.extend(of.pod_reasons(now, then));
        }
        match &node.config {
            Some(diff) => {
                let pending = before.get(&id).copied();
                reasons.extend(restart_keys(diff, pending).filter(|_| same_roles));
                changes.extend(setting_changes(id, diff, pending));
            }
            None => unclear.extend(of.compared_keys()),
        }
    }
    let facts = edited.roll.as_ref().map(|roll| &roll.0);
    let leader = present.quorum.as_ref().map(|quorum| quorum.leader);
    for (_, node) in facts.map(|facts| order::order(&facts.nodes, leader)).into_iter().flatten() {
        if let Some(why) = why.remove(&node.node).filter(|why| !why.is_empty()) {
            upkeep.restarts.push(Restart { node: node.node, why });
        }
    }
    upkeep.changes = changes.into_iter().collect();
    upkeep.unclear = unclear.into_iter().collect();
    upkeep
}

fn nodes(view: &View) -> impl Iterator<Item = (NodeId, &NodeFacts)> {
    let facts = view.roll.as_ref().map(|roll| &roll.0);
    let nodes = facts.into_iter().flat_map(|facts| &facts.nodes);
    nodes.filter(|node| node.pod.there().is_some()).map(|node| (node.node, node))
}

fn diffs(view: &View) -> BTreeMap<NodeId, &Diff> {
    nodes(view).filter_map(|(id, node)| Some((id, node.config.as_ref()?))).collect()
}

/// The settings that only a restart changes, of those that the edit changes.
fn restart_keys(diff: &Diff, pending: Option<&Diff>) -> impl Iterator<Item = String> {
    let known = pending.map(Diff::restart_keys).unwrap_or_default();
    let keys: Vec<_> = diff.restart_keys().into_iter().filter(|key| !known.contains(key)).collect();
    let text = format!("settings that need a restart: {}", keys.join(", "));
    (!keys.is_empty()).then_some(text).into_iter()
}

fn setting_changes(id: NodeId, diff: &Diff, pending: Option<&Diff>) -> Vec<Setting> {
    let setting = |change: &Change, node: Option<NodeId>| match change {
        Change::Set(key, value) => Setting { key: key.clone(), value: Some(value.clone()), node },
        Change::Delete(key) => Setting { key: key.clone(), value: None, node },
    };
    let is_new = |change: &&Change| {
        !pending
            .is_some_and(|diff| diff.on_node.contains(change) || diff.on_cluster.contains(change))
    };
    let on_node = diff.on_node.iter().filter(is_new).map(|change| setting(change, Some(id)));
    let on_all = diff.on_cluster.iter().filter(is_new).map(|change| setting(change, None));
    on_node.chain(on_all).collect()
}

/// One node in both views.
struct Compared<'a> {
    present: &'a View,
    edited: &'a View,
    id: NodeId,
    roles: Roles,
}

impl Compared<'_> {
    /// Why the pod would be another one.
    fn pod_reasons(&self, now: &Value, then: &Value) -> Vec<String> {
        let mark = |pod: &Value, name: &str| pod["metadata"]["annotations"][name].clone();
        if mark(now, REVISION) == mark(then, REVISION) {
            return Vec::new();
        }
        let differs = |name: &str| mark(now, name) != mark(then, name);
        let mut reasons = Vec::new();
        if differs(KAFKA_VERSION) {
            let text = |pod| mark(pod, KAFKA_VERSION).as_str().unwrap_or("?").to_owned();
            reasons.push(format!("Kafka {} instead of {}", text(then), text(now)));
        }
        if differs(CONFIG_HASH) {
            let keys = self.hashed_keys();
            reasons.push(match keys.is_empty() {
                true => "other options of Java, or rules for metrics".to_owned(),
                false => format!("settings that are read at the start: {}", keys.join(", ")),
            });
        }
        if CERTIFICATES.iter().any(|name| differs(name)) {
            reasons.push("another certificate".to_owned());
        }
        reasons.extend(parts(now, then));
        if reasons.is_empty() {
            reasons.push("its pod has other labels or annotations".to_owned());
        }
        reasons
    }

    /// The settings that Kafka does not show and that differ, by name: values may be secret.
    fn hashed_keys(&self) -> Vec<String> {
        let of = |view: &View| {
            let node = config::Node { roles: self.roles, version: version(view) };
            let all = view.properties.get(&self.id).cloned().unwrap_or_default();
            let hashed = config::restart_hash_input(node, &all);
            let hashed = hashed.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
            hashed.collect::<BTreeMap<_, _>>()
        };
        differing(&of(self.present), &of(self.edited))
    }

    /// The settings that differ and that Kafka is asked about.
    fn compared_keys(&self) -> Vec<String> {
        let of = |view: &View| view.properties.get(&self.id).cloned().unwrap_or_default();
        let hashed = self.hashed_keys();
        let all = differing(&of(self.present), &of(self.edited));
        all.into_iter().filter(|key| !hashed.contains(key) && !is_followed(key)).collect()
    }
}

/// Whether a setting follows from the nodes, and restarts no node.
fn is_followed(key: &str) -> bool {
    key == "controller.quorum.bootstrap.servers" || key == "advertised.listeners"
}

fn differing(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> Vec<String> {
    let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    keys.into_iter().filter(|key| one.get(*key) != other.get(*key)).cloned().collect()
}

/// Major and minor of the Kafka of a view.
fn version(view: &View) -> (u32, u32) {
    let parsed = view.kafka_version.as_ref().and_then(|text| text.parse::<KafkaVersion>().ok());
    parsed.map_or((4, 0), |version| (version.major.into(), version.minor.into()))
}

/// The parts of the specification in which two pods differ.
fn parts(now: &Value, then: &Value) -> Option<String> {
    let mut found = Vec::new();
    differences(&now["spec"], &then["spec"], &mut vec!["spec".to_owned()], &mut found);
    let more = found.len().saturating_sub(PARTS_MAX);
    let shown = found.iter().take(PARTS_MAX).cloned().collect::<Vec<_>>().join(", ");
    match (found.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("its pod differs in {shown}")),
        (false, more) => Some(format!("its pod differs in {shown} and {more} more")),
    }
}

fn differences(one: &Value, other: &Value, path: &mut Vec<String>, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for key in keys {
                path.push(key.clone());
                let (one, other) = (one.get(key), other.get(key));
                differences(
                    one.unwrap_or(&Value::Null),
                    other.unwrap_or(&Value::Null),
                    path,
                    found,
                );
                path.pop();
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                path.push(one["name"].as_str().map_or(index.to_string(), str::to_owned));
                differences(one, other, path, found);
                path.pop();
            }
        }
        (one, other) if one == other => {}
        (_, _) => found.push(path.join(".")),
    }
}

#[cfg(test)]
#[path = "restarts_tests.rs"]
mod tests;
