//! Why an edit makes other pods: the operator only knows that their revision is another one.
//!
//! Compared are the pods that the operator makes of the resources as they are and as they would be.

use std::collections::{BTreeMap, BTreeSet};

use control::annotations::Annotation;
use control::node::Roles;
use control::registration::KafkaVersion;
use control::rolling::config;
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
/// As many parts of a pod are named; a user who changes more knows what is changed.
const PARTS_MAX: usize = 3;

/// Why the pods of nodes would be others.
pub(super) fn reasons(present: &View, edited: &View) -> BTreeMap<NodeId, Vec<String>> {
    let of = |(id, then): (&NodeId, &Value)| {
        let roles = edited.desired.get(id)?.roles;
        let reasons = Compared { present, edited, id: *id, roles };
        let reasons = reasons.of_pods(present.pods.get(id)?, then);
        (!reasons.is_empty()).then_some((*id, reasons))
    };
    edited.pods.iter().filter_map(of).collect()
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
    fn of_pods(&self, now: &Value, then: &Value) -> Vec<String> {
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
