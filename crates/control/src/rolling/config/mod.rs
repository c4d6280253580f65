//! How the settings that a node runs with differ from those that it should have, and what is to be done.
//!
//! 1. Kafka itself says what can be changed while it runs; there is no table of that here.
//! 2. A key counts for a node only if its role reads it. A changed `controller.quorum.bootstrap.servers`
//!    counts for nobody: it is read when a node starts, and then it is read anew.
//! 3. What Kafka does not show (custom keys, keys of listeners, passwords, references to secrets) cannot
//!    be compared. It goes into [`restart_hash_input`], and a change of it makes a new revision of the pod.
//!    No key is in both.
//! 4. A key that is no longer desired goes back to its default. Where the node's own file says
//!    otherwise, the default is set for as long as the node runs, since deleting would not reach the file.
//! 5. A value that somebody set on a single node by hand, while it is one for the whole cluster, is taken
//!    back.

mod names;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::node::Roles;

/// A setting as Kafka describes it on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Described {
    /// The value in force.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: Source,
    /// Whether only a restart changes it.
    pub read_only: bool,
    /// Whether the value is hidden.
    pub sensitive: bool,
    /// All values that could be in force, the one that is first.
    pub synonyms: Vec<(Source, Option<String>)>,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// Set on the node while it ran.
    DynamicNode,
    /// Set for all nodes while they ran.
    DynamicCluster,
    /// In the node's file.
    File,
    /// Built in.
    Default,
    /// Something else.
    Other,
}

/// A change that can be made while the node runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// Gives a setting this value.
    Set(String, String),
    /// Takes back a value that was set while the node ran.
    Delete(String),
}

impl Change {
    /// The name of the setting.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Set(key, _) | Self::Delete(key) => key,
        }
    }
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its name.
    pub key: String,
    /// What the node runs with.
    pub running: Option<String>,
    /// What it should run with; none for the default.
    pub desired: Option<String>,
}

/// How a node's settings differ from those that it should have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diff {
    /// What can be changed on the node while it runs.
    pub on_node: Vec<Change>,
    /// What can be changed for the whole cluster while it runs.
    pub on_cluster: Vec<Change>,
    /// What only a restart changes.
    pub restart: Vec<Difference>,
    /// What should be set, but the node does not show: nothing is done about it.
    pub unseen: Vec<String>,
}

impl Diff {
    /// The names of the settings that only a restart changes.
    #[must_use]
    pub fn restart_keys(&self) -> Vec<String> {
        self.restart.iter().map(|difference| difference.key.clone()).collect()
    }

    /// The names of the settings that can be changed while the node runs.
    #[must_use]
    pub fn update_keys(&self) -> Vec<String> {
        let keys = self.on_node.iter().chain(&self.on_cluster).map(|c| c.key().to_owned());
        let mut keys: Vec<_> = keys.collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// A number for what the restart is to change, to see later whether it did.
    #[must_use]
    pub fn restart_digest(&self) -> u64 {
        let parts = self.restart.iter().flat_map(|difference| {
            [difference.key.as_str(), difference.desired.as_deref().unwrap_or("\0")]
        });
        digest(parts)
    }

    /// A number for what is to be changed while the node runs.
    #[must_use]
    pub fn update_digest(&self) -> u64 {
        let parts = self.on_node.iter().chain(&self.on_cluster).flat_map(|change| match change {
            Change::Set(key, value) => [key.as_str(), value.as_str()],
            Change::Delete(key) => [key.as_str(), "\0"],
        });
        digest(parts)
    }

    /// Whether something can be changed while the node runs.
    #[must_use]
    pub fn has_updates(&self) -> bool {
        !self.on_node.is_empty() || !self.on_cluster.is_empty()
    }
}

/// FNV-1a. It only tells one list of settings from another; nobody gains by making two alike.
fn digest<'a>(parts: impl Iterator<Item = &'a str>) -> u64 {
    let bytes = parts.flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The node whose settings are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// What it is for.
    pub roles: Roles,
    /// The Kafka that it runs, major and minor.
    pub version: (u32, u32),
}

/// How a node's settings differ from those that it should have.
#[must_use]
pub fn diff(
    node: Node,
    desired: &BTreeMap<String, String>,
    described: &BTreeMap<String, Described>,
) -> Diff {
    let mut diff = Diff::default();
    for (key, value) in desired.iter().filter(|(key, value)| is_compared(key, value, node)) {
        match described.get(key).filter(|entry| !entry.sensitive) {
            None => diff.unseen.push(key.clone()),
            Some(entry) if same(entry.value.as_deref().unwrap_or(""), value) => {}
            Some(entry) => diff.change(node, key, entry, value),
        }
    }
    let superfluous = described
        .iter()
        .filter(|(key, entry)| !desired.contains_key(*key) && !entry.sensitive)
        .filter(|(key, _)| is_compared(key, "", node));
    for (key, entry) in superfluous {
        diff.reset(node, key, entry);
    }
    diff
}

impl Diff {
    /// Has the value become another one.
    fn change(&mut self, node: Node, key: &str, entry: &Described, value: &str) {
        if !is_alterable(node, key, entry) {
            return self.needs_restart(key, entry, Some(value));
        }
        let set = Change::Set(key.to_owned(), value.to_owned());
        if is_per_node(key) {
            return self.on_node.push(set);
        }
        let mut in_line = entry.synonyms.iter();
        if entry.source == Source::DynamicNode {
            self.on_node.push(Change::Delete(key.to_owned()));
            // What holds without it may already be right.
            in_line.next();
        }
        let next = in_line.next().and_then(|(_, next)| next.as_deref());
        if entry.source != Source::DynamicNode || !next.is_some_and(|next| same(next, value)) {
            self.on_cluster.push(set);
        }
    }

    /// Has the value become the default.
    fn reset(&mut self, node: Node, key: &str, entry: &Described) {
        let Some(value) = entry.value.as_deref() else { return };
        let has = |source| entry.synonyms.iter().any(|(from, _)| *from == source);
        let defaults = || {
            let built_in = entry.synonyms.iter().filter(|(from, _)| *from == Source::Default);
            built_in.filter_map(|(_, value)| value.as_deref())
        };
        match entry.source {
            Source::Default | Source::Other => return,
            Source::DynamicNode | Source::DynamicCluster | Source::File => {}
        }
        // With it, Kafka would refuse: eligible leader replicas rest on a min-ISR of the cluster.
        if key == MIN_ISR {
            if !same(value, MIN_ISR_DEFAULT) {
                self.change(node, key, entry, MIN_ISR_DEFAULT);
            }
            return;
        }
        if defaults().any(|default| same(default, value)) {
            return;
        }
        if !is_alterable(node, key, entry) {
            return self.needs_restart(key, entry, None);
        }
        let in_file = entry.source == Source::File || has(Source::File);
        match (in_file, defaults().next()) {
            (true, Some(default)) => return self.change(node, key, entry, default),
            (true, None) => return self.needs_restart(key, entry, None),
            (false, _) => {}
        }
        if has(Source::DynamicNode) || entry.source == Source::DynamicNode {
            self.on_node.push(Change::Delete(key.to_owned()));
        }
        if has(Source::DynamicCluster) || entry.source == Source::DynamicCluster {
            self.on_cluster.push(Change::Delete(key.to_owned()));
        }
    }

    fn needs_restart(&mut self, key: &str, entry: &Described, desired: Option<&str>) {
        self.restart.push(Difference {
            key: key.to_owned(),
            running: entry.value.clone(),
            desired: desired.map(str::to_owned),
        });
    }
}

const MIN_ISR: &str = "min.insync.replicas";
const MIN_ISR_DEFAULT: &str = "1";

/// The settings of which a change must make a new revision of the pod, since Kafka does not show them.
/// Their values may be secret: they are for hashing, not for showing.
#[must_use]
pub fn restart_hash_input(
    node: Node,
    properties: &BTreeMap<String, String>,
) -> BTreeMap<&str, &str> {
    let all = properties.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    all.filter(|(key, value)| is_hashed(key, value, node)).collect()
}

/// The settings of a node with the values that Kafka does not show, and that may be secret, left out. A comparison with
/// what Kafka shows comes to the same.
#[must_use]
pub fn shown(node: Node, properties: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let shown = |(key, value): (String, String)| match is_hashed(&key, &value, node) {
        true => (key, HIDDEN.to_owned()),
        false => (key, value),
    };
    properties.into_iter().map(shown).collect()
}

/// What stands for a value that is left out: a reference, which is not compared.
const HIDDEN: &str = "${hidden}";

/// Whether a setting is compared with what Kafka shows.
fn is_compared(key: &str, value: &str, node: Node) -> bool {
    counts(key, node.roles)
        && key != ADVERTISED
        && names::is_shown(key, node.version)
        && !is_reference(value)
}

fn is_hashed(key: &str, value: &str, node: Node) -> bool {
    let shown = names::is_shown(key, node.version) && !is_reference(value) && key != ADVERTISED;
    // A custom key counts for every role: nobody knows who reads it.
    !shown && !NEVER.contains(&key) && (counts(key, node.roles) || !names::is_shown(key, (4, 3)))
}

/// Kafka replaces these when it starts, and shows what stood behind them.
fn is_reference(value: &str) -> bool {
    value.contains("${")
}

/// Kafka shows it, but only as it was registered; addresses of load balancers come later.
const ADVERTISED: &str = "advertised.listeners";

/// Keys that restart nobody. A node's id and rack come with its pod. Throttles belong to whoever moves
/// replicas.
const NEVER: [&str; 7] = [
    "node.id",
    "broker.id",
    "broker.rack",
    "controller.quorum.bootstrap.servers",
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
];

/// Whether a node of these roles reads a setting.
fn counts(key: &str, roles: Roles) -> bool {
    if NEVER.contains(&key) {
        return false;
    }
    match roles {
        Roles::Combined => true,
        Roles::Broker => {
            !key.starts_with("controller.quorum.") || key == "controller.quorum.voters"
        }
        Roles::Controller => is_read_by_controllers(key),
    }
}

/// Whether a node that is only a controller reads a setting.
fn is_read_by_controllers(key: &str) -> bool {
    const FAMILIES: [&str; 13] = [
        "controller.",
        "metadata.log.",
        "metadata.max.",
        "ssl.",
        "sasl.",
        "security.",
        "max.connection",
        "connection",
        "socket.",
        "queued.max.",
        "metric",
        "transaction.state.log.",
        "quota.",
    ];
    const SINGLE: [&str; 28] = [
        ADVERTISED,
        "alter.config.policy.class.name",
        "authorizer.class.name",
        "auto.create.topics.enable",
        "auto.leader.rebalance.enable",
        "background.threads",
        "broker.heartbeat.interval.ms",
        "broker.session.timeout.ms",
        "config.providers",
        "create.topic.policy.class.name",
        "default.replication.factor",
        "delete.topic.enable",
        "early.start.listeners",
        "leader.imbalance.check.interval.seconds",
        "leader.imbalance.per.broker.percentage",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "min.insync.replicas",
        "num.io.threads",
        "num.network.threads",
        "num.partitions",
        "offsets.topic.replication.factor",
        "principal.builder.class",
        "process.roles",
        "request.timeout.ms",
        "unclean.leader.election.enable",
    ];
    FAMILIES.iter().any(|family| key.starts_with(family)) || SINGLE.contains(&key)
}

/// Before 4.2, Kafka refuses to change settings of a single controller while it runs. What is set for the
/// whole cluster reaches controllers too.
const CONTROLLERS_ALTERABLE_SINCE: (u32, u32) = (4, 2);

fn is_alterable(node: Node, key: &str, entry: &Described) -> bool {
    let takes = node.roles.is_broker() || node.version >= CONTROLLERS_ALTERABLE_SINCE;
    !entry.read_only && (takes || !is_per_node(key))
}

/// Whether Kafka takes a changeable setting for single nodes only. It does not say so when it describes
/// one; all that concern listeners are of this kind.
fn is_per_node(key: &str) -> bool {
    const SINGLE: [&str; 4] = [
        "listeners",
        "listener.security.protocol.map",
        "principal.builder.class",
        "cordoned.log.dirs",
    ];
    key.starts_with("ssl.") || key.starts_with("sasl.") || SINGLE.contains(&key)
}

/// Whether two texts mean the same to Kafka, which trims lists and writes numbers its own way.
fn same(running: &str, desired: &str) -> bool {
    normal(running) == normal(desired) || same_number(running.trim(), desired.trim())
}

fn normal(value: &str) -> String {
    let value = value.trim();
    if value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false") {
        return value.to_ascii_lowercase();
    }
    value.split(',').map(str::trim).collect::<Vec<_>>().join(",")
}

fn same_number(a: &str, b: &str) -> bool {
    let number = |text: &str| {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        text.parse::<f64>().ok().filter(|_| plain)
    };
    // Whole numbers that only look alike as fractions are different.
    if let (Ok(a), Ok(b)) = (a.parse::<i128>(), b.parse::<i128>()) {
        return a == b;
    }
    matches!((number(a), number(b)), (Some(a), Some(b)) if a.total_cmp(&b).is_eq())
}

#[cfg(test)]
mod tests;
