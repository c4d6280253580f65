//! Texts of the user's that become part of a larger value of a Kafka setting or of a command line.
//!
//! `properties::render` escapes whole values, so a setting cannot become two. What it cannot know is the
//! syntax inside a value: lists with `,` or `;`, and references `${provider:…}` that Kafka resolves. A text
//! that would change that syntax is refused.

use super::templates::{is_key_secret, key_secret};
use super::{Findings, Reason};
use crate::cluster::jvm;
use crate::cluster::properties::is_host;
use crate::cluster::spec::{ClusterSpec, Listener, Rack};

pub(super) fn check(spec: &ClusterSpec, findings: &mut Findings) {
    for listener in &spec.listeners {
        advertised(listener, findings);
        let secret = listener.certificate.as_ref().map(|certificate| certificate.secret.as_str());
        if let Some(name) = secret.filter(|name| is_key_secret(name)) {
            let at = format!("listener {}: brokerCertChainAndKey.secretName", listener.name);
            findings.add(Reason::InvalidValue, key_secret(&at, name));
        }
    }
    let users = spec.authorization.iter().flat_map(|authorization| &authorization.super_users);
    for user in users.filter(|user| !is_super_user(user)) {
        let message = format!(
            "superUsers has {user:?}: a super user cannot contain ;, ${{ or control characters"
        );
        findings.add(Reason::InvalidValue, message);
    }
    if let Some(Rack::Environment(name)) = &spec.rack
        && !is_variable(name)
    {
        let message = format!("rack.envVarName is {name:?}: use letters, digits, _, - and .");
        findings.add(Reason::InvalidValue, message);
    }
    for pool in &spec.pools {
        for name in jvm::options(&pool.jvm, None).left_out {
            let message = format!(
                "jvmOptions of pool {}: {name:?} is not a single option: remove white space, line breaks \
                 and = from its name and control characters from its value",
                pool.name
            );
            findings.add(Reason::InvalidValue, message);
        }
    }
}

fn advertised(listener: &Listener, findings: &mut Findings) {
    let brokers = listener.brokers.values().filter_map(|one| one.advertised_host.as_ref());
    let template = listener.advertised_host.as_ref();
    for host in brokers.chain(template).filter(|host| !is_host_template(host)) {
        let message = format!(
            "listener {}: the advertised host {host:?} is neither a name nor an address",
            listener.name
        );
        findings.add(Reason::InvalidValue, message);
    }
}

/// Whether a text is a host name, an address, or a template for one.
fn is_host_template(text: &str) -> bool {
    is_host(&text.replace("{nodeId}", "0").replace("{nodePodName}", "a"))
}

/// Whether Kafka reads a text as one principal.
fn is_super_user(text: &str) -> bool {
    !text.trim().is_empty()
        && !text.contains(';')
        && !text.contains("${")
        && !text.chars().any(char::is_control)
}

/// Whether a text can be the name of an environment variable.
fn is_variable(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}
