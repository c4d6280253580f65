//! Services without a network: a userspace proxy, and a table of names.
//!
//! The proxy listens on the cluster IP of every service, and on every node's address for node ports, and
//! forwards TCP connections to ready pods in round-robin order. `default/kubernetes` leads to the API server.
//! Addresses in 127.0.0.0/8 need no configuration to listen on, so the service range and the pod addresses
//! are taken from there.
//!
//! Not supported: UDP and SCTP ports, `externalIPs`, traffic policies and topology (all nodes are on one
//! machine), network policies. Only one proxy can run per control plane and machine; a second one finds the
//! addresses in use, reports it, and takes over when the first one exits.

mod endpoints;
mod error;
pub mod names;
mod pick;
mod proxy;
mod table;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use host::error::chain;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::reflector::Store;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::rights::rule;
use crate::watch;
use proxy::{Failure, Proxy};
use table::World;

pub use error::ServicesError;
pub use names::{Entry, Names};

/// A load balancer of this class, or without a class, gets an address.
pub const LOAD_BALANCER_CLASS: &str = "gregor.io/local";

/// Changes come in bursts; wait this long for the rest of one.
const BURST: Duration = Duration::from_millis(10);

/// Connections must not wait for an API server that hangs; failed writes are retried.
const API_TIME_MAX: Duration = Duration::from_secs(5);

/// Failed writes are retried after this time.
const RETRY: Duration = Duration::from_secs(2);

/// Required permissions, cluster-wide.
#[must_use]
pub fn policy_rules() -> Vec<PolicyRule> {
    vec![
        rule("", &["services", "pods", "nodes"], &["list", "watch"]),
        rule("", &["services/status"], &["patch"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ]
}

/// Options of the proxy.
#[derive(Debug, Clone)]
pub struct ProxyOptions {
    /// The listen address of the API server; `default/kubernetes` leads there.
    pub api_server: SocketAddr,
    /// The hosts file to maintain, in an existing directory.
    pub hosts_file: PathBuf,
    /// Additional names, such as that of the machine.
    pub extra_names: Vec<Entry>,
    /// The table to maintain, shared with its readers.
    pub names: Names,
}

/// The service proxy and name table of a machine.
pub struct ServiceProxy {
    client: Client,
    options: ProxyOptions,
}

impl ServiceProxy {
    /// For the control plane of this client.
    pub fn new(client: Client, options: ProxyOptions) -> Self {
        Self { client, options }
    }

    /// Runs until it is dropped, which closes all listeners and connections. Failures are logged, published
    /// as Events and retried, so it never returns.
    pub async fn run(self) -> Infallible {
        let mut tasks = JoinSet::new();
        let bell = Arc::new(Notify::new());
        let copies = Copies::keep(&self.client, &bell, &mut tasks);
        copies.wait_until_ready().await;
        let reporter = Reporter { controller: "gregor-proxy".to_owned(), instance: None };
        let recorder = Recorder::new(self.client.clone(), reporter);
        let (mut proxy, mut written) = (Proxy::new(), None);
        loop {
            let (services, pods, nodes) = copies.state();
            let entries = names::entries(&services, &pods, &self.options.extra_names);
            self.options.names.replace(&entries);
            let named = self.write_names(&entries, &mut written);
            let world = World { services: &services, pods: &pods, nodes: &nodes };
            for failure in proxy.apply(&table::table(world, self.options.api_server)) {
                report(&recorder, failure).await;
            }
            let balanced = self.write_ingresses(&services).await;
            let retry = if named && balanced { proxy.retry() } else { Some(RETRY) };
            tokio::select! {
                () = bell.notified() => sleep(BURST).await,
                () = async {
                    match retry {
                        Some(pause) => sleep(pause).await,
                        None => std::future::pending().await,
                    }
                } => {}
            }
        }
    }

    /// Writes the hosts file if it is not up to date. Returns whether it is now.
    fn write_names(&self, entries: &[Entry], written: &mut Option<String>) -> bool {
        let text = names::render(entries);
        if written.as_ref() == Some(&text) {
            return true;
        }
        match names::write(&self.options.hosts_file, &text) {
            Ok(()) => {
                *written = Some(text);
                true
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "names may be out of date");
                false
            }
        }
    }

    /// Assigns addresses to load balancers. Returns whether all have them.
    async fn write_ingresses(&self, services: &[Arc<Service>]) -> bool {
        let mut all = true;
        for service in services {
            let Some(addresses) = table::missing_ingress(service) else { continue };
            match timeout(API_TIME_MAX, self.write_ingress(service, &addresses)).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => {
                    tracing::warn!(error = %chain(&error), "cannot assign an address to a load balancer");
                }
                Err(_) => {
                    tracing::info!("timed out assigning an address to a load balancer")
                }
            }
            all = false;
        }
        all
    }

    async fn write_ingress(
        &self,
        service: &Service,
        addresses: &[IpAddr],
    ) -> Result<(), ServicesError> {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let ingress: Vec<_> =
            addresses.iter().map(|ip| json!({"ip": ip, "ipMode": "VIP"})).collect();
        let patch = Patch::Merge(json!({"status": {"loadBalancer": {"ingress": ingress}}}));
        let services: Api<Service> = Api::namespaced(self.client.clone(), &namespace);
        match services.patch_status(&name, &PatchParams::default(), &patch).await {
            // Deleted meanwhile.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(|_| ()).map_err(|source| ServicesError::WriteIngress {
                service: format!("{namespace}/{name}"),
                source: Box::new(source),
            }),
        }
    }
}

async fn report(recorder: &Recorder, failure: Failure) {
    let note = failure.error.to_string();
    tracing::warn!(service = ?failure.service.name, error = %note, "a service port is not served");
    let event = Event {
        type_: EventType::Warning,
        reason: "FailedToListen".to_owned(),
        note: Some(note),
        action: "Listen".to_owned(),
        secondary: None,
    };
    // Events are informational: if one cannot be published, work continues.
    match timeout(API_TIME_MAX, recorder.publish(&event, &failure.service)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "cannot publish an Event"),
        Err(_) => tracing::debug!("cannot publish an Event in time"),
    }
}

/// Caches of the relevant objects.
struct Copies {
    services: Store<Service>,
    pods: Store<Pod>,
    nodes: Store<Node>,
}

type State = (Vec<Arc<Service>>, Vec<Arc<Pod>>, Vec<Arc<Node>>);

impl Copies {
    fn keep(client: &Client, bell: &Arc<Notify>, tasks: &mut JoinSet<()>) -> Self {
        let config = watcher::Config::default;
        Self {
            services: watch::keep(Api::all(client.clone()), config(), bell.clone(), tasks),
            pods: watch::keep(Api::all(client.clone()), config(), bell.clone(), tasks),
            nodes: watch::keep(Api::all(client.clone()), config(), bell.clone(), tasks),
        }
    }

    async fn wait_until_ready(&self) {
        // The writers live as long as the tasks, so none of these can fail while we are polled.
        let _ready = futures::join!(
            self.services.wait_until_ready(),
            self.pods.wait_until_ready(),
            self.nodes.wait_until_ready()
        );
    }

    /// A snapshot with pods in a stable order: round robin must not depend on hash order.
    fn state(&self) -> State {
        let mut pods = self.pods.state();
        pods.sort_by_key(|pod| (pod.namespace(), pod.name_any()));
        (self.services.state(), pods, self.nodes.state())
    }
}
