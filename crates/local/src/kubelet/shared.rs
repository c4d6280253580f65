//! State that all pods of a node share.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Client;
use tokio::sync::watch;

use super::address::Pool;
use super::events::Recorder;
use super::host::Served;
use super::layout::Layout;
use super::options::{Options, full_capacity};
use super::volume::objects::Objects;

/// What all pods of a node share.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) options: Options,
    pub(crate) layout: Layout,
    pub(crate) capacity: BTreeMap<String, Quantity>,
    pub(crate) objects: Objects,
    pub(crate) events: Recorder,
    /// Port for logs and commands; 0 if they are not served.
    pub(crate) port: u16,
    /// The pods of the node by uid, as in the API server.
    pub(crate) pods: Arc<Mutex<BTreeMap<String, Arc<Pod>>>>,
    /// The hosts table.
    pub(crate) hosts: watch::Receiver<String>,
    addresses: Mutex<Pool>,
}

impl Shared {
    pub(crate) fn new(options: Options, hosts: watch::Receiver<String>, host: &Served) -> Self {
        let layout = Layout::new(options.dir.clone());
        let used = layout.records().into_iter().map(|record| record.ip);
        Self {
            client: options.client.clone(),
            capacity: full_capacity(&options.capacity),
            objects: Objects::new(options.client.clone()),
            events: Recorder::start(options.client.clone(), &options.name),
            addresses: Mutex::new(Pool::new(options.pod_range, used)),
            layout,
            port: host.port,
            pods: Arc::clone(&host.pods),
            hosts,
            options,
        }
    }

    pub(crate) fn take_address(&self) -> Option<Ipv4Addr> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn give_back(&self, address: Ipv4Addr) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).give_back(address);
    }
}
