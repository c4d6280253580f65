//! A node of a local Kubernetes, the service proxy, and what nodes leave behind.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use local::control_plane::ControlPlane;
use local::kubelet::image::Images;
use local::kubelet::server::ServerTls;
use local::kubelet::{Kubelet, Options};
use local::services::{Names, ProxyOptions, ServiceProxy};
use tokio::task::JoinHandle;

/// The common name with which the API server calls its nodes.
const API_SERVER_AS_CLIENT: &str = "kube-apiserver-kubelet-client";

/// Audit log of the local API server, only in a directory that a test specifies, to compare the operator's
/// permissions with its requests.
pub(crate) fn audit_log(state_dir: &Path) -> Option<PathBuf> {
    let dir = std::env::var_os("GREGOR_API_AUDIT").filter(|value| !value.is_empty())?;
    // One directory serves several control planes.
    let name = state_dir.display().to_string().replace('/', "_");
    Some(PathBuf::from(dir).join(format!("{name}.log")))
}

/// Ends the pods' processes that nodes have left which were killed, or were dropped before they were
/// stopped. The next start continues them.
pub(crate) async fn end_leftovers(state_dir: &Path) -> anyhow::Result<()> {
    let dir = state_dir.join("nodes");
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {dir:?}")),
    };
    let dirs: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    let ends = dirs.iter().map(|dir| local::kubelet::end_leftovers(dir));
    futures::future::try_join_all(ends).await?;
    Ok(())
}

/// Starts what brings clients of services to pods, and keeps the table of names. It may be dropped at any
/// moment.
pub(crate) fn start_proxy(plane: &ControlPlane) -> JoinHandle<()> {
    let options = ProxyOptions {
        api_server: SocketAddr::from((Ipv4Addr::LOCALHOST, plane.api_port())),
        hosts_file: hosts_file(plane),
        extra_names: Vec::new(),
        names: Names::new(),
    };
    let proxy = ServiceProxy::new(plane.client(), options);
    tokio::spawn(async move {
        proxy.run().await;
    })
}

fn hosts_file(plane: &ControlPlane) -> PathBuf {
    plane.state_dir().root().join("hosts")
}

/// One node that is to be started.
pub(crate) struct One<'a> {
    pub(crate) number: u8,
    pub(crate) name: &'a str,
    pub(crate) dir: &'a Path,
    pub(crate) zone: String,
    /// What it offers; what is not said is what the machine has.
    pub(crate) capacity: BTreeMap<String, Quantity>,
    pub(crate) images: &'a Images,
}

impl One<'_> {
    pub(crate) async fn start(self, plane: &ControlPlane, own: &Path) -> anyhow::Result<Kubelet> {
        let address = plane.network().node(self.number);
        let identity = plane.node_identity(self.name, &[IpAddr::V4(address)])?;
        let kubeconfig = Kubeconfig::read_from(&identity.kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let client = kube::Client::try_from(config)?;
        // Programs in pods reach the API server as they would anywhere: at the first service address.
        let api_server = SocketAddr::from((plane.network().api_server(), 443));
        let mut options = Options::new(client, api_server, self.name, self.dir.to_owned());
        options.zone = Some(self.zone);
        options.capacity = self.capacity;
        options.node_ip = address;
        options.pod_range = plane.network().pods(self.number);
        options.serving = Some(ServerTls {
            certificate: identity.serving.certificate,
            key: identity.serving.key,
            client_authority: identity.client_ca,
            client_name: API_SERVER_AS_CLIENT.to_owned(),
        });
        options.images = self.images.clone();
        options.hosts_file = Some(hosts_file(plane));
        options.shim = vec![own.into(), "shim".into()];
        Ok(Kubelet::start(options).await?)
    }
}
