//! The nodes of a local Kubernetes, and what belongs to them: volumes, services, names.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use local::control_plane::ControlPlane;
use local::kubelet::image::{Images, parse_image};
use local::kubelet::server::ServerTls;
use local::kubelet::{Kubelet, Options};
use local::services::{Names, ProxyOptions, ServiceProxy};
use local::storage::{self, NodeVolumes, Provisioner};
use tokio::task::JoinHandle;

use super::Plan;
use crate::failure::Usage;

/// As many as the addresses of one local Kubernetes are meant for.
const NODES_MAX: u32 = 200;

/// The common name with which the API server calls its nodes.
const API_SERVER_AS_CLIENT: &str = "kube-apiserver-kubelet-client";

/// A program that stands for an image, as on the command line.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    name: String,
    program: Vec<String>,
}

/// The nodes that run in this process.
#[derive(Debug)]
pub(super) struct Nodes {
    kubelets: Vec<Kubelet>,
    /// The provisioner and the proxy. They may be dropped at any moment.
    helpers: Vec<JoinHandle<()>>,
}

/// Refuses a number of nodes that cannot be had, before anything is started.
pub(super) fn check(count: u32) -> anyhow::Result<()> {
    if count > NODES_MAX {
        return Err(Usage::error(format!("at most {NODES_MAX} nodes fit on one machine")));
    }
    Ok(())
}

/// Starts the nodes, after the control plane is ready and before anything is applied.
pub(super) async fn start(plane: &ControlPlane, plan: &Plan) -> anyhow::Result<Nodes> {
    let count = plan.nodes;
    let mut nodes = Nodes { kubelets: Vec::new(), helpers: Vec::new() };
    if count == 0 {
        return Ok(nodes);
    }
    let client = plane.client();
    let root = plane.state_dir().root();
    storage::ensure_classes(&client).await.context("cannot create the storage classes")?;
    nodes.helpers.push(start_proxy(plane));
    let own = std::env::current_exe().context("cannot find this program")?;
    let operator = plan.operator.as_ref().map(|operator| operator.images(&own)).unwrap_or_default();
    // What the user says comes last and counts.
    let table = image_table(&own, operator.iter().chain(&plan.images));
    let mut volumes = Vec::new();
    for number in 1..=u8::try_from(count).unwrap_or(u8::MAX) {
        let name = format!("node-{number}");
        let dir = root.join("nodes").join(&name);
        volumes.push(NodeVolumes::new(&name, &dir));
        let zone = format!("zone-{number}");
        let capacity = BTreeMap::new();
        let one = One { number, name: &name, dir: &dir, zone, capacity, images: &table };
        let kubelet = one.start(plane, &own).await;
        nodes.kubelets.push(kubelet.with_context(|| format!("cannot start {name}"))?);
    }
    let provisioner = Provisioner::new(client, volumes);
    nodes.helpers.push(tokio::spawn(async move {
        let Err(error) = provisioner.run().await;
        tracing::error!(%error, "volumes are no longer provisioned");
    }));
    Ok(nodes)
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

/// The programs that stand for images; the last of a name counts.
pub(crate) fn image_table<'a>(own: &Path, images: impl Iterator<Item = &'a Image>) -> Images {
    images.fold(Images::with_own_program(own), |all, image| {
        all.with(&image.name, image.program.clone())
    })
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

impl Image {
    /// A program with its first arguments for an image.
    pub(crate) fn new(name: &str, program: Vec<String>) -> Self {
        Self { name: name.to_owned(), program }
    }
}

impl FromStr for Image {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_image(text).map(|(name, program)| Self { name, program })
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.program.join(" "))
    }
}

impl Nodes {
    /// Ends the nodes in order, while the control plane still runs.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        // Together: each may take as long as the slowest of its pods.
        futures::future::join_all(self.kubelets.into_iter().map(Kubelet::stop)).await;
        self.helpers.iter().for_each(JoinHandle::abort);
        Ok(())
    }
}
