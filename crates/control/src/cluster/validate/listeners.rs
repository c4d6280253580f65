//! Listeners.

use std::collections::BTreeMap;

use super::{Findings, Reason};
use crate::cluster::spec::{Authentication, Listener};

/// The lowest port of a listener. Below it are those on which nodes talk to each other.
const PORT_MIN: u16 = 9092;
/// Ports above it that nodes use themselves, and for what.
const RESERVED: &[(u16, &str)] = &[
    (8080, "health"),
    (8443, "the state of a node"),
    (9090, "controllers"),
    (9091, "replication"),
    (9404, "metrics"),
    (9405, "metrics"),
    (9999, "JMX"),
];
const NAME_MAX: usize = 11;

pub(super) fn check(listeners: &[Listener], findings: &mut Findings) {
    if listeners.is_empty() {
        let message = "spec.kafka.listeners is empty, so no client can connect: add a listener";
        findings.add(Reason::NoListener, message);
    }
    for listener in listeners {
        one(listener, findings);
    }
    let names = listeners.iter().map(|listener| &listener.name);
    for name in repeated(names) {
        let message = format!("several listeners have the name {name}: give each its own");
        findings.add(Reason::DuplicateListenerName, message);
    }
    for port in repeated(listeners.iter().map(|listener| &listener.port)) {
        let message = format!("several listeners have the port {port}: give each its own");
        findings.add(Reason::DuplicateListenerPort, message);
    }
}

fn one(listener: &Listener, findings: &mut Findings) {
    let (name, port) = (&listener.name, listener.port);
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(plain) {
        let message = format!(
            "\"{name}\" is not valid as the name of a listener: use 1 to {NAME_MAX} lower-case letters and digits"
        );
        findings.add(Reason::InvalidListenerName, message);
    }
    if let Some((_, purpose)) = RESERVED.iter().find(|(reserved, _)| *reserved == port) {
        let message =
            format!("listener {name} has port {port}, which is for {purpose}: use another");
        findings.add(Reason::InvalidListenerPort, message);
    } else if port < PORT_MIN {
        let message = format!("listener {name} has port {port}: use {PORT_MIN} or above");
        findings.add(Reason::InvalidListenerPort, message);
    }
    if listener.authentication == Authentication::Tls && !listener.tls {
        let message = format!(
            "listener {name} asks for client certificates without TLS: set tls to true, or use \
             scram-sha-512"
        );
        findings.add(Reason::TlsAuthenticationWithoutTls, message);
    }
    if listener.certificate.is_some() && !listener.tls {
        let message = format!(
            "listener {name} has its own certificate and no TLS: set tls to true, or remove \
             brokerCertChainAndKey"
        );
        findings.add(Reason::CertificateWithoutTls, message);
    }
}

/// What is there more than once.
fn repeated<'a, T: Ord + 'a>(items: impl Iterator<Item = &'a T>) -> Vec<&'a T> {
    let mut counts: BTreeMap<&T, usize> = BTreeMap::new();
    items.for_each(|item| *counts.entry(item).or_default() += 1);
    counts.into_iter().filter(|(_, count)| *count > 1).map(|(item, _)| item).collect()
}
