//! Which Cruise Control the operator may send a password to.
//!
//! The annotation `gregor.io/cruise-control-url` is written by the user of one namespace, and the operator has more
//! rights than that user. So the annotation chooses among the Services of the cluster's own namespace and nothing else:
//!
//! 1. The scheme is `https`. The shell verifies the certificate against the cluster CA and the host name.
//! 2. The host names a Service of the cluster's own namespace, with its namespace: `name.namespace`,
//!    `name.namespace.svc` or `name.namespace.svc.DOMAIN`. A bare name is refused: DNS would look it up in the
//!    namespace of the operator, and `localhost` is one.
//! 3. The Service is not an `ExternalName`, which is an alias for any host.
//! 4. Nothing else is in the URL: no user info, path, query, fragment or percent-encoding.
//!
//! The host that is connected to is rebuilt from the parsed names, so no spelling of the user reaches the resolver.

use std::fmt;

use crate::annotations::Annotation;
use serde::{Deserialize, Serialize};

/// The annotation of a `Kafka` with the URL of its Cruise Control.
pub const URL_ANNOTATION: &str = Annotation::CruiseControlUrl.name();

/// The port of Strimzi's Cruise Control.
const PORT: u16 = 9090;

/// The longest label of a DNS name.
const LABEL_MAX: usize = 63;

/// The cluster that a Cruise Control serves.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    /// The name of the `Kafka`.
    pub cluster: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// The DNS domain of the Kubernetes cluster.
    pub domain: &'a str,
}

/// A port of a Service in the namespace of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The name of the Service.
    pub service: String,
    /// Its namespace.
    pub namespace: String,
    /// The port.
    pub port: u16,
}

impl Address {
    /// The name to connect to, which the certificate must carry.
    #[must_use]
    pub fn host(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }
}

/// Why Cruise Control is not contacted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// Rule 1.
    Scheme,
    /// Rule 4, or a port that is not one.
    Form,
    /// Rule 2: the host is not a Service with its namespace.
    Host,
    /// Rule 2: the Service is in another namespace.
    Namespace(String),
    /// Rule 3.
    ExternalName(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{URL_ANNOTATION}: ")?;
        match self {
            Self::Scheme => f.write_str("the scheme must be https"),
            Self::Form => f.write_str(
                "the URL must be https://HOST[:PORT], without user info, path, query or encoding",
            ),
            Self::Host => f.write_str(
                "the host must be a Service with its namespace: NAME.NAMESPACE, \
                 NAME.NAMESPACE.svc or NAME.NAMESPACE.svc.CLUSTER-DOMAIN",
            ),
            Self::Namespace(namespace) => write!(
                f,
                "the Service must be in the namespace of the Kafka resource, not in {namespace}"
            ),
            Self::ExternalName(service) => write!(
                f,
                "Service {service} has type ExternalName; Cruise Control must be a Service with \
                 pods in this namespace"
            ),
        }
    }
}

/// The address of a cluster's Cruise Control: that of the annotation, or by default where Strimzi deploys it.
///
/// # Errors
/// The annotation breaks a rule.
pub fn address(url: Option<&str>, owner: &Owner<'_>) -> Result<Address, Refusal> {
    let namespace = owner.namespace.to_owned();
    let Some(url) = url else {
        let service = format!("{}-cruise-control", owner.cluster);
        return Ok(Address { service, namespace, port: PORT });
    };
    let rest = url.strip_prefix("https://").ok_or(Refusal::Scheme)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.split_once(':') {
        Some((host, port)) => (host, parse_port(port).ok_or(Refusal::Form)?),
        None => (rest, PORT),
    };
    if !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.') {
        return Err(Refusal::Form);
    }
    let mut labels = host.split('.');
    let (Some(service), Some(found)) = (labels.next(), labels.next()) else {
        return Err(Refusal::Host);
    };
    let rest: Vec<_> = labels.collect();
    let is_service = match rest.split_first() {
        None => true,
        Some((&"svc", domain)) => domain.is_empty() || domain.join(".") == owner.domain,
        Some(_) => false,
    };
    let starts_with_letter = service.starts_with(|first: char| first.is_ascii_lowercase());
    if !is_service || !starts_with_letter || !is_label(service) || !is_label(found) {
        return Err(Refusal::Host);
    }
    if found != owner.namespace {
        return Err(Refusal::Namespace(found.to_owned()));
    }
    Ok(Address { service: service.to_owned(), namespace, port })
}

/// Checks the Service at an address. `kind` is its `spec.type`.
///
/// # Errors
/// It leads out of the namespace.
pub fn check_service(address: &Address, kind: Option<&str>) -> Result<(), Refusal> {
    match kind {
        Some("ExternalName") => Err(Refusal::ExternalName(address.service.clone())),
        Some(_) | None => Ok(()),
    }
}

/// Digits only: `u16::from_str` would take a sign.
fn parse_port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| *port != 0)?;
    (digits && !text.starts_with('0')).then_some(port)
}

/// Whether it is a label as Kubernetes writes them: lower case, no hyphen at either end.
fn is_label(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LABEL_MAX).contains(&text.len())
        && text.bytes().all(allowed)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use Refusal::{Form, Host, Namespace, Scheme};

    use super::*;

    const OWNER: Owner<'static> = Owner { cluster: "c", namespace: "ns", domain: "cluster.local" };

    fn at(service: &str, port: u16) -> Result<Address, Refusal> {
        Ok(Address { service: service.to_owned(), namespace: "ns".to_owned(), port })
    }

    fn check(rows: &[(&str, Result<Address, Refusal>)]) {
        for (url, expected) in rows {
            assert_eq!(address(Some(url), &OWNER), *expected, "{url:?}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn only_services_of_the_own_namespace_over_https_are_admitted() {
        let other = |namespace: &str| Err(Namespace(namespace.to_owned()));
        check(&[
            ("https://cc.ns",                              at("cc", 9090)),
            ("https://cc.ns:443",                          at("cc", 443)),
            ("https://cc.ns.svc:9090/",                    at("cc", 9090)),
            ("https://cc.ns.svc.cluster.local:65535",      at("cc", 65535)),
            ("https://c-2.ns.svc",                         at("c-2", 9090)),
            // Plain HTTP and other schemes.
            ("http://cc.ns.svc",                           Err(Scheme)),
            ("HTTPS://cc.ns.svc",                          Err(Scheme)),
            ("cc.ns.svc:9090",                             Err(Scheme)),
            ("//cc.ns.svc",                                Err(Scheme)),
            ("ftp://cc.ns.svc",                            Err(Scheme)),
            (" https://cc.ns.svc",                         Err(Scheme)),
            ("",                                           Err(Scheme)),
            // Other namespaces.
            ("https://cc.other",                           other("other")),
            ("https://cc.other.svc",                       other("other")),
            ("https://cc.other.svc.cluster.local",         other("other")),
            ("https://kubernetes.default.svc",             other("default")),
            ("https://cc.svc",                             other("svc")),
            // Other hosts.
            ("https://cc",                                 Err(Host)),
            ("https://localhost:9090",                     Err(Host)),
            ("https://cc.ns.example.com",                  Err(Host)),
            ("https://cc.ns.svc.example.com",              Err(Host)),
            ("https://cc.ns.svc.cluster.local.evil",       Err(Host)),
            ("https://cc.ns.pod.cluster.local",            Err(Host)),
            ("https://169.254.169.254",                    Err(Host)),
            ("https://127.ns",                             Err(Host)),
            ("https://0x7f000001.ns",                      Err(Host)),
            ("https://2130706433",                         Err(Host)),
        ]);
        assert_eq!(address(None, &OWNER), at("c-cruise-control", 9090));
    }

    #[test]
    #[rustfmt::skip]
    fn odd_spellings_are_refused() {
        check(&[
            ("https://CC.ns.svc",                          Err(Host)),
            ("https://cc.NS.svc",                          Err(Host)),
            ("https://cc.ns.SVC",                          Err(Host)),
            ("https://cc.ns.",                             Err(Host)),
            ("https://cc.ns.svc.cluster.local.",           Err(Host)),
            ("https://cc..ns.svc",                         Err(Host)),
            ("https://.ns.svc",                            Err(Host)),
            ("https://-cc.ns.svc",                         Err(Host)),
            ("https://cc-.ns.svc",                         Err(Host)),
            ("https://",                                   Err(Host)),
            ("https:///",                                  Err(Host)),
            // Everything besides host and port.
            ("https://user:pw@cc.ns.svc",                  Err(Form)),
            ("https://user@cc.ns.svc",                     Err(Form)),
            ("https://cc.ns.svc@evil.example",             Err(Form)),
            ("https://evil.example#cc.ns.svc",             Err(Form)),
            ("https://evil.example?cc.ns.svc",             Err(Form)),
            ("https://cc.ns.svc/kafkacruisecontrol",       Err(Form)),
            ("https://cc.ns.svc//",                        Err(Form)),
            ("https://evil.example\\.ns.svc",              Err(Form)),
            ("https://cc%2ens.svc",                        Err(Form)),
            ("https://evil%00.ns.svc",                     Err(Form)),
            ("https://cc.ns.svc\r\nHost: x",               Err(Form)),
            ("https://cc.ns.svc ",                         Err(Form)),
            ("https://cc。ns.svc",                         Err(Form)),
            ("https://cc_1.ns.svc",                        Err(Form)),
            ("https://[::1]",                              Err(Form)),
            ("https://[::ffff:10.0.0.1]:9090",             Err(Form)),
            // Ports.
            ("https://cc.ns.svc:",                         Err(Form)),
            ("https://cc.ns.svc:0",                        Err(Form)),
            ("https://cc.ns.svc:65536",                    Err(Form)),
            ("https://cc.ns.svc:+9090",                    Err(Form)),
            ("https://cc.ns.svc:09090",                    Err(Form)),
            ("https://cc.ns.svc:9090:1",                   Err(Form)),
            ("https://cc.ns.svc:http",                     Err(Form)),
        ]);
        let long = format!("https://{}.ns.svc", "a".repeat(64));
        assert_eq!(address(Some(&long), &OWNER), Err(Host));
    }

    #[test]
    fn the_host_is_rebuilt_from_names() {
        for url in ["https://cc.ns", "https://cc.ns.svc/", "https://cc.ns.svc.cluster.local:9090"] {
            assert_eq!(address(Some(url), &OWNER).unwrap().host(), "cc.ns.svc");
        }
    }

    #[test]
    fn an_external_name_is_no_service_of_the_namespace() {
        let address = address(None, &OWNER).unwrap();
        for kind in [None, Some("ClusterIP"), Some("NodePort"), Some("LoadBalancer")] {
            assert_eq!(check_service(&address, kind), Ok(()));
        }
        let refused = check_service(&address, Some("ExternalName")).unwrap_err();
        assert!(
            refused.to_string().contains("c-cruise-control has type ExternalName"),
            "{refused}"
        );
    }

    #[test]
    fn every_refusal_names_the_annotation() {
        let namespace = Refusal::Namespace("other".to_owned());
        let external = Refusal::ExternalName("cc".to_owned());
        for refusal in [Refusal::Scheme, Refusal::Form, Refusal::Host, namespace, external] {
            assert!(refusal.to_string().starts_with(URL_ANNOTATION), "{refusal}");
        }
    }
}
