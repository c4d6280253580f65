//! DNS names of services and pods, as a table instead of a DNS server.
//!
//! Every name that cluster DNS would resolve is listed in full, with `.svc`, and with the namespace only,
//! because there is no search list. Names outside the cluster are not resolved.
//!
//! The file is replaced atomically, so a reader sees the old table or the new one. A bind mount would keep
//! the old file: copy it instead.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use host::file::{self, Survives};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt as _;

use super::endpoints::{self, Member};
use super::error::ServicesError;
use super::table::cluster_addresses;

const DOMAIN: &str = "svc.cluster.local";

/// A line of the table: an address and its names, the full one first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The address.
    pub address: IpAddr,
    /// The names, in lower case.
    pub names: Vec<String>,
}

/// The table of all names. Pods precede services, so that a reverse lookup finds the pod. `extra` names come
/// first; `localhost` is always included.
pub fn entries<S, P>(services: &[S], pods: &[P], extra: &[Entry]) -> Vec<Entry>
where
    S: AsRef<Service>,
    P: AsRef<Pod>,
{
    let localhost =
        Entry { address: Ipv4Addr::LOCALHOST.into(), names: vec!["localhost".to_owned()] };
    let (mut of_pods, mut of_services) = (Vec::new(), Vec::new());
    for service in services {
        let service = service.as_ref();
        let stem = format!("{}.{}", service.name_any(), service.namespace().unwrap_or_default());
        let names = spellings(&stem);
        let with = |address| Entry { address, names: names.clone() };
        of_services.extend(cluster_addresses(service).into_iter().map(with));
        if is_headless(service) {
            let members = endpoints::named(service, pods.iter().map(AsRef::as_ref));
            of_services.extend(members.iter().map(|member| with(member.address)));
            of_pods.extend(members.iter().map(|member| Entry {
                address: member.address,
                names: spellings(&format!("{}.{stem}", label(member, &service.name_any()))),
            }));
        }
    }
    of_pods.sort();
    of_services.sort();
    let mut all = vec![localhost];
    all.extend(extra.iter().cloned());
    all.extend(of_pods);
    all.extend(of_services);
    let aliases = aliases(services, &all);
    all.extend(aliases);
    all
}

fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

/// The name of a pod in a headless service: its hostname if it is set for this service, as in cluster DNS,
/// else its own name, which cluster DNS would not resolve.
fn label(member: &Member<'_>, service: &str) -> String {
    let spec = member.pod.spec.as_ref();
    spec.filter(|spec| spec.subdomain.as_deref() == Some(service))
        .and_then(|spec| spec.hostname.clone())
        .unwrap_or_else(|| member.pod.name_any())
}

fn spellings(stem: &str) -> Vec<String> {
    let stem = stem.to_lowercase();
    vec![format!("{stem}.{DOMAIN}"), format!("{stem}.svc"), stem]
}

/// Services that are aliases (ExternalName) of a known service.
fn aliases<S: AsRef<Service>>(services: &[S], known: &[Entry]) -> Vec<Entry> {
    let mut found = Vec::new();
    for service in services {
        let service = service.as_ref();
        let spec =
            service.spec.as_ref().filter(|spec| spec.type_.as_deref() == Some("ExternalName"));
        let Some(target) = spec.and_then(|spec| spec.external_name.as_deref()).map(canonical)
        else {
            continue;
        };
        let stem = format!("{}.{}", service.name_any(), service.namespace().unwrap_or_default());
        let addresses = known.iter().filter(|entry| entry.names.contains(&target));
        found.extend(
            addresses.map(|entry| Entry { address: entry.address, names: spellings(&stem) }),
        );
    }
    found.sort();
    found
}

fn canonical(name: &str) -> String {
    name.trim_end_matches('.').to_lowercase()
}

/// The table in the format of `/etc/hosts`.
pub fn render(entries: &[Entry]) -> String {
    let mut text =
        String::from("# Names of services and pods; written by gregor, changes are lost.\n");
    for entry in entries {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {}", entry.address, entry.names.join(" "));
    }
    text
}

/// The current names. Clones share one table.
#[derive(Debug, Clone, Default)]
pub struct Names {
    table: Arc<RwLock<BTreeMap<String, Vec<IpAddr>>>>,
}

impl Names {
    /// An empty table, which a [`ServiceProxy`](super::ServiceProxy) fills.
    pub fn new() -> Self {
        Self::default()
    }

    /// The addresses of a name, in a stable order; none if it is unknown. Case and a trailing dot are
    /// ignored.
    pub fn lookup(&self, name: &str) -> Vec<IpAddr> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.get(&canonical(name)).cloned().unwrap_or_default()
    }

    /// Replaces the table.
    pub fn replace(&self, entries: &[Entry]) {
        let mut index: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        for entry in entries {
            for name in &entry.names {
                let addresses = index.entry(name.clone()).or_default();
                if !addresses.contains(&entry.address) {
                    addresses.push(entry.address);
                }
            }
        }
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = index;
    }
}

/// Writes the file.
///
/// # Errors
///
/// If the file cannot be written; it is unchanged then.
pub(crate) fn write(hosts_file: &Path, text: &str) -> Result<(), ServicesError> {
    file::write(hosts_file, text.as_bytes(), file::PUBLIC, Survives::Process)
        .map_err(|source| ServicesError::WriteHosts { path: hosts_file.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(name: &str, spec: &Value) -> Arc<Service> {
        let object = json!({"metadata": {"name": name, "namespace": "ns"}, "spec": spec});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn pod(name: &str, address: &str, spec: &Value) -> Arc<Pod> {
        let mut spec = spec.clone();
        spec["containers"] = json!([]);
        let ready = if name.ends_with("unready") { "False" } else { "True" };
        let object = json!({
            "metadata": {"name": name, "namespace": "ns", "labels": {"app": "kafka"}},
            "spec": spec,
            "status": {"phase": "Running", "podIP": address,
                       "conditions": [{"type": "Ready", "status": ready}]},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn headless(publish: bool) -> Value {
        json!({"clusterIP": "None", "selector": {"app": "kafka"}, "publishNotReadyAddresses": publish})
    }

    fn check(services: &[Arc<Service>], pods: &[Arc<Pod>], expected: &[&str]) {
        let text = render(&entries(services, pods, &[]));
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_service_has_three_spellings() {
        check(
            &[service("Kafka", &json!({"clusterIP": "127.96.0.2"}))],
            &[],
            &["127.96.0.2 kafka.ns.svc.cluster.local kafka.ns.svc kafka.ns"],
        );
    }

    #[test]
    fn a_headless_service_names_its_pods() {
        let pods = [
            pod("p-0", "127.1.0.1", &json!({"hostname": "host-0", "subdomain": "brokers"})),
            pod("p-1", "127.1.0.2", &json!({"hostname": "host-1", "subdomain": "other"})),
            pod("p-2", "127.1.0.3", &json!({})),
            pod("p-3-unready", "127.1.0.4", &json!({})),
        ];
        check(
            &[service("brokers", &headless(false))],
            &pods,
            &[
                "127.1.0.1 host-0.brokers.ns.svc.cluster.local host-0.brokers.ns.svc host-0.brokers.ns",
                "127.1.0.2 p-1.brokers.ns.svc.cluster.local p-1.brokers.ns.svc p-1.brokers.ns",
                "127.1.0.3 p-2.brokers.ns.svc.cluster.local p-2.brokers.ns.svc p-2.brokers.ns",
                "127.1.0.1 brokers.ns.svc.cluster.local brokers.ns.svc brokers.ns",
                "127.1.0.2 brokers.ns.svc.cluster.local brokers.ns.svc brokers.ns",
                "127.1.0.3 brokers.ns.svc.cluster.local brokers.ns.svc brokers.ns",
            ],
        );
        let names = Names::new();
        names.replace(&entries(&[service("brokers", &headless(true))], &pods, &[]));
        assert_eq!(names.lookup("brokers.ns").len(), 4);
        let found = names.lookup("P-3-unready.brokers.ns.svc.cluster.local.");
        assert_eq!(found, ["127.1.0.4".parse::<IpAddr>().unwrap()]);
        assert!(names.lookup("example.org").is_empty());
    }

    #[test]
    fn an_external_name_of_a_service_is_its_alias() {
        let services = [
            service(
                "a",
                &json!({"type": "ExternalName", "externalName": "b.ns.svc.cluster.local"}),
            ),
            service("b", &json!({"clusterIP": "127.96.0.9"})),
            service("c", &json!({"type": "ExternalName", "externalName": "example.org"})),
        ];
        check(
            &services,
            &[],
            &[
                "127.96.0.9 b.ns.svc.cluster.local b.ns.svc b.ns",
                "127.96.0.9 a.ns.svc.cluster.local a.ns.svc a.ns",
            ],
        );
    }
}
