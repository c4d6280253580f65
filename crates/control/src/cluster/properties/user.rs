//! Settings of the user's: which are ours to make, and how the others are added.

use super::Properties;
use crate::cluster::spec::{ClusterSpec, Listener};

/// Settings that begin so are ours to make. Strimzi's list, so that what it ignores is ignored here too.
#[rustfmt::skip]
const FORBIDDEN: &[&str] = &[
    "advertised.", "authorizer.", "broker.", "client.quota.callback.static.excluded.principal.name.list",
    "client.quota.callback.static.fetch", "client.quota.callback.static.kafka.admin.",
    "client.quota.callback.static.produce",
    "client.quota.callback.static.storage.per.volume.limit.min.available.", "controller.",
    "cordoned.log.dirs", "cruise.control.metrics.reporter.bootstrap.servers",
    "cruise.control.metrics.topic", "host.name", "inter.broker.listener.name", "listener.", "listeners",
    "log.dir", "metadata.log.dir", "node.id", "password.", "port", "process.roles",
    "prometheus.metrics.reporter.", "sasl.", "security.", "ssl.", "super.user",
    "zookeeper.clientcnxnsocket", "zookeeper.connect", "zookeeper.metadata.migration.enable",
    "zookeeper.set.acl", "zookeeper.ssl",
];

/// Settings that begin so and are the user's all the same.
#[rustfmt::skip]
const ALLOWED: &[&str] = &[
    "broker.heartbeat.interval.ms", "broker.session.timeout.ms",
    "controller.quorum.election.backoff.max.ms", "controller.quorum.election.timeout.ms",
    "controller.quorum.fetch.timeout.ms", "controller.socket.timeout.ms",
    "cruise.control.metrics.topic.auto.create.retries",
    "cruise.control.metrics.topic.auto.create.timeout.ms",
    "cruise.control.metrics.topic.min.insync.replicas", "cruise.control.metrics.topic.num.partitions",
    "cruise.control.metrics.topic.replication.factor", "cruise.control.metrics.topic.retention.ms",
    "sasl.server.max.receive.size", "ssl.cipher.suites", "ssl.enabled.protocols", "ssl.protocol",
    "ssl.secure.random.implementation", "zookeeper.connection.timeout.ms",
];

/// The same for settings of one listener, after `listener.name.<name>-<port>.`.
const ALLOWED_OF_LISTENER: &[&str] =
    &["connections.max.reauth.ms", "max.connection.creation.rate", "max.connections"];

/// The config providers of the operator, which read the certificates of a node.
pub const OWN_PROVIDERS: &[&str] = &[super::ENV, super::DIR, super::FILE];

/// Names of config providers that users cannot give to their own: ours and Strimzi's.
#[rustfmt::skip]
pub const RESERVED_PROVIDERS: &[&str] = &[
    super::ENV, super::DIR, super::FILE,
    "strimzienv", "strimzifile", "strimzidir", "strimzisecrets",
];

const PROVIDERS: &str = "config.providers";

/// Whether a setting is ours to make.
#[must_use]
pub fn forbidden(key: &str, listeners: &[Listener]) -> bool {
    let lower = key.to_lowercase();
    if is_reserved_provider(&lower) {
        return true;
    }
    if !FORBIDDEN.iter().any(|prefix| lower.starts_with(prefix)) {
        return false;
    }
    let of_listener = |listener: &Listener| {
        let rest = key.strip_prefix(&format!("listener.name.{}.", listener.key()));
        rest.is_some_and(|rest| ALLOWED_OF_LISTENER.contains(&rest))
    };
    !ALLOWED.contains(&key) && !listeners.iter().any(of_listener)
}

fn is_reserved_provider(key: &str) -> bool {
    let rest = key.strip_prefix(PROVIDERS).and_then(|rest| rest.strip_prefix('.'));
    let name = rest.map(|rest| rest.split_once('.').map_or(rest, |(name, _)| name));
    name.is_some_and(|name| RESERVED_PROVIDERS.contains(&name))
}

/// The config providers that the user names.
pub(super) fn providers(spec: &ClusterSpec) -> Vec<&str> {
    let names = spec.config.get(PROVIDERS).map(String::as_str).unwrap_or_default();
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.filter(|name| !RESERVED_PROVIDERS.contains(name)).collect()
}

/// Adds the settings of the user's, and those that are assumed without them.
pub(super) fn write(properties: &mut Properties, spec: &ClusterSpec, left_out: &mut Vec<String>) {
    let min_isr = "min.insync.replicas";
    if !spec.config.contains_key(min_isr) {
        properties.set(min_isr, "1");
    }
    for (key, value) in &spec.config {
        if forbidden(key, &spec.listeners) {
            left_out.push(key.clone());
        } else if key != PROVIDERS {
            properties.set(key, value);
        }
    }
}
