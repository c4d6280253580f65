//! Names and labels.
//!
//! Everything of a cluster is named after the cluster and its pools. A name that Kubernetes does not take
//! would be found out one object at a time, after others were made.

use super::{Findings, Reason};
use crate::cluster::spec::{ClusterSpec, ListenerKind};

/// The longest name of a host in DNS, which pods and Services are.
const LABEL_MAX: usize = 63;
/// What begins so is set by the operator.
const RESERVED: &[&str] = &["strimzi.io/", "gregor.io/"];

pub(super) fn check(spec: &ClusterSpec, findings: &mut Findings) {
    let cluster = &spec.name;
    let letter = cluster.starts_with(|c: char| c.is_ascii_lowercase());
    if !is_label(cluster) || !letter {
        let message = format!(
            "the name \"{cluster}\" is not valid in names of Services: use lower-case letters, \
             digits and -, and begin with a letter"
        );
        findings.add(Reason::InvalidName, message);
        return;
    }
    for listener in spec.listeners.iter().filter(|one| one.kind != ListenerKind::Internal) {
        fits(&format!("{cluster}-kafka-{}-bootstrap", listener.name), "Service", findings);
    }
    fits(&format!("{cluster}-kafka-bootstrap"), "Service", findings);
    for pool in &spec.pools {
        if !is_label(&pool.name) {
            let message = format!(
                "the name of pool \"{}\" is not valid in names of pods: use lower-case letters, \
                 digits and -",
                pool.name
            );
            findings.add(Reason::InvalidName, message);
            continue;
        }
        // At least as long as the ids of the cluster will be.
        let total: u64 = spec.pools.iter().map(|pool| u64::from(pool.replicas)).sum();
        let id = total.saturating_sub(1);
        fits(&format!("{cluster}-{}-{id}", pool.name), "pod", findings);
        for listener in spec.listeners.iter().filter(|one| one.kind != ListenerKind::Internal) {
            fits(&format!("{cluster}-{}-{}-{id}", pool.name, listener.name), "Service", findings);
        }
    }
    for key in &spec.template_keys {
        let Some(prefix) = RESERVED.iter().find(|prefix| key.key.starts_with(**prefix)) else {
            continue;
        };
        let message =
            format!("{} has {}: the prefix {prefix} is reserved, remove it", key.place, key.key);
        findings.add(Reason::ReservedLabel, message);
    }
}

fn fits(name: &str, kind: &str, findings: &mut Findings) {
    if name.len() > LABEL_MAX {
        let message = format!(
            "the name of the {kind} {name} would have {} characters, and {LABEL_MAX} are \
             allowed: choose shorter names",
            name.len()
        );
        findings.add(Reason::InvalidName, message);
    }
}

/// Whether a text can be part of a host's name.
fn is_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(plain) && text.ends_with(plain) && text.chars().all(|c| plain(c) || c == '-')
}
