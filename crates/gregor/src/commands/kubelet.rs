//! `gregor kubelet`: a node that runs pods as processes of this machine.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use local::kubelet::address::Range;
use local::kubelet::image::{Images, parse_image};
use local::kubelet::{Backoff, Capacity, Kubelet as Node, Options, parse_capacity};
use tokio::signal::unix::{SignalKind, signal};

use crate::output;

pub(crate) const EXAMPLES: &str = "\
Examples:
  gregor kubelet --kubeconfig node.kubeconfig --name rack-1 --zone a
  gregor kubelet --kubeconfig F --name n1 --capacity cpu=4,memory=8Gi --image app=/opt/app/bin/run

If the API server restricts nodes to their own objects, the name must match the identity in the kubeconfig.
A container sees the files of the host, with its volumes at their paths. CPU and memory limits, security
contexts and network policies are not enforced.";

const LOG: &str = "warn,local=info,kube_client=off,kube_runtime=error";

/// Run pods as processes of this machine
#[derive(Debug, Args)]
pub(crate) struct Kubelet {
    /// Kubeconfig with the identity of the node
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// Name of the node
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Zone of the node
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Capacity, for example cpu=4,memory=8Gi,pods=50 [default: that of the machine]
    #[arg(long, value_name = "NAME=QUANTITY,…", value_parser = parse_capacity)]
    capacity: Option<Capacity>,
    /// Directory for pods, volumes and logs [default: gregor/nodes/NAME in the user's state directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Local program for an image; may be repeated. A container with its own command runs that instead
    #[arg(long = "image", value_name = "NAME=PROGRAM", value_parser = parse_image)]
    images: Vec<(String, Vec<String>)>,
    /// Address of the node
    #[arg(long, value_name = "ADDRESS", default_value_t = Ipv4Addr::LOCALHOST)]
    node_ip: Ipv4Addr,
    /// Address range of its pods, which no other node may use
    #[arg(long, value_name = "RANGE", default_value = "127.100.0.0/24")]
    pod_range: Range,
    /// Hosts file for all pods
    #[arg(long, value_name = "FILE")]
    hosts_file: Option<PathBuf>,
    /// Leave all containers running on exit; the next start adopts them
    #[arg(long)]
    keep_pods: bool,
    /// Initial delay of container restarts, for tests
    #[arg(long, value_name = "MILLISECONDS", hide = true)]
    backoff: Option<u64>,
}

impl Kubelet {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        init_log();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        runtime.block_on(self.live())
    }

    async fn live(self) -> anyhow::Result<()> {
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
        let keep_pods = self.keep_pods;
        let node = Node::start(self.options().await?).await?;
        output::note(&format!("node {} is registered", node.name()));
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if keep_pods {
            return Ok(());
        }
        output::note("stopping the containers; the next start resumes them");
        node.stop().await;
        Ok(())
    }

    async fn options(self) -> anyhow::Result<Options> {
        let (client, api_server) = connect(&self.kubeconfig).await?;
        let dir = self.dir.map_or_else(|| default_dir(&self.name), Ok)?;
        let own = std::env::current_exe().context("cannot find this program")?;
        let mut options = Options::new(client, api_server, &self.name, dir);
        options.zone = self.zone;
        options.capacity = self.capacity.map_or_else(BTreeMap::new, |capacity| capacity.0);
        let images = Images::with_own_program(&own);
        options.images =
            self.images.into_iter().fold(images, |all, (name, program)| all.with(&name, program));
        options.node_ip = self.node_ip;
        options.pod_range = self.pod_range;
        options.hosts_file = self.hosts_file;
        options.shim = vec![own.into(), "shim".into()];
        if let Some(initial) = self.backoff.map(Duration::from_millis) {
            options.timing.restart = Backoff { initial, max: initial * 8, ..Backoff::default() };
            options.timing.image = options.timing.restart;
        }
        Ok(options)
    }
}

/// A client for a kubeconfig, and the address of its API server.
async fn connect(path: &Path) -> anyhow::Result<(kube::Client, SocketAddr)> {
    let file = Kubeconfig::read_from(path)
        .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("the kubeconfig {} names no cluster", path.display()))?;
    let host = config.cluster_url.host().unwrap_or("localhost").to_owned();
    let port = config.cluster_url.port_u16().unwrap_or(443);
    let address = match host.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::from((ip, port)),
        Err(_) => (host.as_str(), port)
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.next())
            .with_context(|| format!("the API server's name {host} has no address"))?,
    };
    let client = kube::Client::try_from(config).context("cannot create a client")?;
    Ok((client, address))
}

fn default_dir(name: &str) -> anyhow::Result<PathBuf> {
    let user = directories::ProjectDirs::from("", "", "gregor")
        .context("this user has no home directory: name a directory with --dir")?;
    let base = user.state_dir().unwrap_or_else(|| user.data_local_dir());
    Ok(base.join("nodes").join(name))
}

/// Logs to stderr; `RUST_LOG` sets another filter. The Kubernetes client logs every failed request, including
/// expected and retried ones, which we log ourselves where it matters.
fn init_log() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG));
    crate::log::to_stderr(filter);
}
