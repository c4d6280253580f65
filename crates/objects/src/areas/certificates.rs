//! Inputs of node certificates: host names of a node, and the users' certificates for listeners. The operator
//! generates keys and signs certificates.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use control::cluster::properties::broker_text;
use control::cluster::spec::{Certificate, Listener};
use control::conditions::{Note, Reason};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::services::Addresses;
use crate::{Blueprint, Node, hash};

/// Secrets by name; `None` if it does not exist.
pub type Secrets = BTreeMap<String, Option<Secret>>;

/// Entries of Secrets, by name.
pub type Entries = BTreeMap<String, Vec<u8>>;

/// Host names and addresses of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    /// DNS names.
    pub dns: BTreeSet<String>,
    /// IP addresses.
    pub addresses: BTreeSet<IpAddr>,
}

/// Secrets with users' certificates, which [`brought`] needs.
#[must_use]
pub fn needs(blueprint: &Blueprint) -> BTreeSet<String> {
    let certificates = blueprint.spec.listeners.iter().filter_map(|one| one.certificate.as_ref());
    certificates.map(|certificate| certificate.secret.clone()).collect()
}

/// Names of entries in node Secrets for users' certificates.
#[must_use]
pub fn entries(blueprint: &Blueprint) -> BTreeSet<String> {
    let listeners = blueprint.spec.listeners.iter().filter(|one| one.certificate.is_some());
    let names = |one: &Listener| ["crt", "key"].map(|suffix| format!("{}.{suffix}", one.key()));
    listeners.flat_map(names).collect()
}

/// Entries in node Secrets for users' certificates.
///
/// # Errors
/// If one of them does not exist: the warning for the user.
pub fn brought(blueprint: &Blueprint, secrets: &Secrets) -> Result<Entries, Note> {
    let mut entries = Entries::new();
    for listener in &blueprint.spec.listeners {
        let Some(Certificate { secret, certificate, key }) = &listener.certificate else {
            continue;
        };
        let found = secrets.get(secret).and_then(Option::as_ref);
        let data = found.and_then(|secret| secret.data.as_ref());
        for (name, suffix) in [(certificate, "crt"), (key, "key")] {
            let Some(ByteString(bytes)) = data.and_then(|data| data.get(name)) else {
                return Err(Note::new(
                    Reason::ListenerCertificateMissing,
                    format!(
                        "listener {} uses the certificate in Secret {secret}, which has \
                         no entry {name}",
                        listener.name
                    ),
                ));
            };
            entries.insert(format!("{}.{suffix}", listener.key()), bytes.clone());
        }
    }
    Ok(entries)
}

/// Fingerprints of users' certificates.
#[must_use]
pub fn fingerprints(brought: &Entries) -> String {
    let prints = brought.iter().map(|(name, bytes)| format!("{name}={}", hash::short(bytes)));
    prints.collect::<Vec<_>>().join(",")
}

/// All host names and addresses of a node.
#[must_use]
pub fn hosts(blueprint: &Blueprint, addresses: Option<&Addresses>, node: &Node) -> Hosts {
    let (names, domain) = (&blueprint.names, &blueprint.domain);
    let mut all: BTreeSet<String> = BTreeSet::new();
    all.extend(names.service_hosts(&names.bootstrap_service(), domain));
    all.extend(names.service_hosts(&names.brokers_service(), domain));
    let host = names.host(&blueprint.pod(node));
    all.insert(format!("{host}.{domain}"));
    all.insert(host);
    if node.roles.is_broker() {
        for listener in &blueprint.spec.listeners {
            all.extend(listener_hosts(blueprint, addresses, (node, listener)));
        }
    }
    let mut hosts = Hosts::default();
    for name in all {
        match name.parse::<IpAddr>() {
            Ok(address) => {
                hosts.addresses.insert(address);
            }
            Err(_) => {
                hosts.dns.insert(name);
            }
        }
    }
    hosts
}

/// Host names under which clients of an external listener reach a broker.
fn listener_hosts(
    blueprint: &Blueprint,
    addresses: Option<&Addresses>,
    (node, listener): (&Node, &Listener),
) -> Vec<String> {
    let mut all = listener.alternative_names.clone();
    let Some(known) = addresses else { return all };
    let begin = known.bootstrap.get(&listener.name).into_iter().flatten();
    all.extend(begin.map(|(host, _)| host.clone()));
    if let Some((Some(host), _)) = known.brokers.get(&(node.id, listener.name.clone())) {
        all.push(host.clone());
    }
    let host = listener.brokers.get(&node.id).and_then(|broker| broker.advertised_host.clone());
    let template = listener.advertised_host.as_ref();
    let template = template.map(|template| broker_text(template, node.id, &blueprint.pod(node)));
    all.extend(host.or(template));
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object;
    use crate::samples::{blueprint, id};

    /// A listener `out` of brokers with this configuration.
    fn listening(configuration: Value) -> Blueprint {
        let listener = json!([{ "name": "out", "port": 9095, "type": "loadbalancer", "tls": true,
                                "configuration": configuration }]);
        blueprint(json!({ "listeners": listener }), json!({}))
    }

    #[test]
    fn certificates_of_users_are_read_and_go_to_the_nodes() {
        let chain = json!({ "secretName": "s", "certificate": "c", "key": "k" });
        let blueprint = listening(json!({ "brokerCertChainAndKey": chain }));
        assert_eq!(needs(&blueprint), ["s".to_owned()].into());
        let secret = |data: Value| -> Option<Secret> {
            Some(object(json!({ "metadata": { "name": "s" }, "data": data })).unwrap())
        };
        // The Secret, the entry that is missing.
        let rows = [
            (None, "c"),
            (secret(Value::Null), "c"),
            (secret(json!({ "k": "eHk=" })), "c"),
            (secret(json!({ "c": "eHk=" })), "k"),
        ];
        for (secret, missing) in rows {
            let note = brought(&blueprint, &[("s".to_owned(), secret)].into()).unwrap_err();
            let message = "listener out uses the certificate in Secret s, which has no entry";
            let message = format!("{message} {missing}");
            assert_eq!(note, Note::new(Reason::ListenerCertificateMissing, message));
        }
        let secret = secret(json!({ "c": "eHk=", "k": "eA==", "more": "" }));
        let entries = brought(&blueprint, &[("s".to_owned(), secret)].into()).unwrap();
        let expected = [("out-9095.crt", &b"xy"[..]), ("out-9095.key", &b"x"[..])];
        let found: Vec<_> = entries.iter().map(|(k, v)| (k.as_str(), v.as_slice())).collect();
        assert_eq!(found, expected);
        let prints = fingerprints(&entries);
        let expected = [("out-9095.crt", hash::short(b"xy")), ("out-9095.key", hash::short(b"x"))];
        assert_eq!(prints, expected.map(|(name, print)| format!("{name}={print}")).join(","));
    }

    #[test]
    fn without_certificates_of_users_nothing_is_read() {
        let blueprint = listening(json!({}));
        assert_eq!(needs(&blueprint), BTreeSet::new());
        assert_eq!(brought(&blueprint, &Secrets::new()), Ok(Entries::new()));
    }

    #[test]
    #[rustfmt::skip]
    fn a_certificate_covers_every_way_to_reach_a_node() {
        let (template, one) = (json!("b-{nodeId}.example"), json!([{ "broker": 0, "advertisedHost": "zero.example" }]));
        // The configuration of the listener, the node, what its certificate covers besides the names inside.
        let rows = [
            (json!({}),                                                          0, "192.0.2.7 begin.example"),
            (json!({}),                                                          1, "begin.example one.example"),
            (json!({}),                                                          2, ""),
            (json!({ "bootstrap": { "alternativeNames": ["a.example", "::1"] } }), 1, "::1 a.example begin.example one.example"),
            (json!({ "advertisedHostTemplate": template }),                      1, "b-1.example begin.example one.example"),
            (json!({ "advertisedHostTemplate": template, "brokers": one }),      0, "192.0.2.7 begin.example zero.example"),
        ];
        let mut addresses = Addresses::default();
        addresses.bootstrap.insert("out".to_owned(), vec![("begin.example".to_owned(), 9095)]);
        for (node, host) in [(0, "192.0.2.7"), (1, "one.example")] {
            addresses.brokers.insert((id(node), "out".to_owned()), (Some(host.to_owned()), 9095));
        }
        for (configuration, number, expected) in rows {
            let blueprint = listening(configuration.clone());
            let node = blueprint.nodes.iter().find(|node| node.id == id(number)).unwrap();
            let hosts = hosts(&blueprint, Some(&addresses), node);
            let outside = hosts.dns.iter().filter(|name| name.ends_with(".example")).cloned();
            let outside: Vec<_> = hosts.addresses.iter().map(ToString::to_string).chain(outside).collect();
            assert_eq!(outside.join(" "), expected, "{configuration} {number}");
            let pod = format!("{}.my-kafka-brokers.here.svc", blueprint.pod(node));
            for name in ["my-kafka-bootstrap", "my-kafka-brokers.here", &pod, &format!("{pod}.cluster.local")] {
                assert!(hosts.dns.contains(name), "{name}");
            }
        }
    }
}
