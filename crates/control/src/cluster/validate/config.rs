//! Settings of the user's.

use super::{Findings, Reason};
use crate::cluster::properties::{OWN_PROVIDERS, RESERVED_PROVIDERS, forbidden};
use crate::cluster::spec::ClusterSpec;
use crate::words::list;

const DEFAULT_FACTOR: &str = "default.replication.factor";
const MIN_ISR: &str = "min.insync.replicas";

/// Settings that need as many brokers.
const REPLICAS: &[&str] = &[
    DEFAULT_FACTOR,
    "offsets.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
];

pub(super) fn check(spec: &ClusterSpec, findings: &mut Findings) {
    replicas(spec, findings);
    providers(spec, findings);
    let ours: Vec<_> = spec.config.keys().filter(|key| forbidden(key, &spec.listeners)).collect();
    if !ours.is_empty() {
        let message =
            format!("spec.kafka.config: ignored, set by the operator: {}. Remove it", list(&ours));
        findings.add(Reason::ForbiddenConfiguration, message);
    }
    let gone = [
        ("inter.broker.protocol.version", Reason::KafkaInterBrokerProtocolVersionInKRaft),
        ("log.message.format.version", Reason::KafkaLogMessageFormatVersionInKRaft),
    ];
    for (key, reason) in gone {
        if spec.config.contains_key(key) {
            let message = format!("{key} is not used in KRaft-based Kafka clusters: remove it");
            findings.add(reason, message);
        }
    }
}

fn replicas(spec: &ClusterSpec, findings: &mut Findings) {
    let brokers = spec.brokers();
    for key in REPLICAS.iter().chain([&MIN_ISR]) {
        let Some(value) = spec.config.get(*key) else { continue };
        let Some(number) = value.trim().parse::<i64>().ok().filter(|number| accepts(key, *number))
        else {
            let message = format!("{key} is \"{value}\", with which Kafka would not start");
            findings.add(Reason::InvalidConfiguration, message);
            continue;
        };
        let too_many = u64::try_from(number).is_ok_and(|number| number > brokers);
        if brokers > 0 && *key != MIN_ISR && too_many {
            let message = format!(
                "{key} is {number}, and there are {brokers} brokers: lower it, or add brokers"
            );
            findings.add(Reason::ReplicationFactorTooHigh, message);
        }
    }
    if brokers < 2 {
        return;
    }
    let unset = [
        (DEFAULT_FACTOR, Reason::KafkaDefaultReplicationFactor),
        (MIN_ISR, Reason::KafkaMinInsyncReplicas),
    ];
    for (key, reason) in unset {
        if !spec.config.contains_key(key) {
            let message = format!(
                "{key} option is not configured. It defaults to 1 which does not guarantee \
                 reliability and availability. You should configure this option in \
                 .spec.kafka.config."
            );
            findings.add(reason, message);
        }
    }
}

/// Whether Kafka takes a number: at least 1, but for the default factor any, as -1 is "by default".
fn accepts(key: &str, number: i64) -> bool {
    number >= 1 || (key == DEFAULT_FACTOR && number >= i64::from(i32::MIN))
}

/// Providers with names of ours would replace them, and nodes would not find their certificates. Our
/// providers read the private key of the node, so a setting of the user's must not refer to them.
fn providers(spec: &ClusterSpec, findings: &mut Findings) {
    for (key, value) in &spec.config {
        let name = OWN_PROVIDERS.iter().find(|name| value.contains(&format!("${{{name}:")));
        if let Some(name) = name {
            let message = format!(
                "{key} refers to the config provider {name} of the operator: use a provider of your own"
            );
            findings.add(Reason::ReservedConfigProvider, message);
        }
    }
    let named = spec.config.get("config.providers").map(String::as_str).unwrap_or_default();
    for name in named.split(',').map(str::trim) {
        if RESERVED_PROVIDERS.contains(&name) {
            let message =
                format!("config.providers names {name}, which exists already: choose another name");
            findings.add(Reason::ReservedConfigProvider, message);
        }
    }
}
