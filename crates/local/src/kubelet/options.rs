//! What a kubelet has to be told.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::address::Range;
use super::image::Images;
use super::pod::decide::Backoff;
use super::quantity;
use super::server::ServerTls;

/// How a node joins, and how it runs pods.
#[derive(Clone)]
pub struct Options {
    /// The API server, as the node: it needs what the group `system:nodes` may do.
    pub client: kube::Client,
    /// Where programs in pods find the API server.
    pub api_server: SocketAddr,
    /// The name of the node.
    pub name: String,
    /// The zone it says it is in.
    pub zone: Option<String>,
    /// More labels.
    pub labels: BTreeMap<String, String>,
    /// Taints that it registers with.
    pub taints: Vec<Taint>,
    /// What it offers. CPU, memory, pods and ephemeral storage that are not given are what the machine
    /// has.
    pub capacity: BTreeMap<String, Quantity>,
    /// Where everything is kept that must survive the kubelet. See [`super::layout`].
    pub dir: PathBuf,
    /// Its own address.
    pub node_ip: Ipv4Addr,
    /// The addresses of its pods: a range of loopback addresses that no other node has.
    pub pod_range: Range,
    /// The port at which the node serves logs and commands; 0 takes a free one.
    pub kubelet_port: u16,
    /// What it serves them with; without it, it does not.
    pub serving: Option<ServerTls>,
    /// The programs that stand for images.
    pub images: Images,
    /// A table of host names that all pods get; read again when it changes.
    pub hosts_file: Option<PathBuf>,
    /// The environment that every container begins with.
    pub env: Vec<(String, String)>,
    /// The command line of the shim, to which a file is added: `gregor shim`.
    pub shim: Vec<OsString>,
    /// How long things take.
    pub timing: Timing,
    /// When a container's log is put aside.
    pub log_bytes_max: u64,
}

/// How long things take. The default is what a kubelet does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often the node says that it is there.
    pub lease_renewal: Duration,
    /// How often the whole status of the node is written, if it does not change.
    pub node_status: Duration,
    /// Between the starts of a container that does not stay up.
    pub restart: Backoff,
    /// Between attempts to find an image.
    pub image: Backoff,
    /// Before a volume or a reference that is missing is looked for again.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease_renewal: Duration::from_secs(10),
            node_status: Duration::from_secs(300),
            restart: Backoff::default(),
            image: Backoff::default(),
            retry: Duration::from_secs(2),
        }
    }
}

impl Options {
    /// A node that offers what this machine has, on 127.0.0.1.
    #[must_use]
    pub fn new(client: kube::Client, api_server: SocketAddr, name: &str, dir: PathBuf) -> Self {
        Self {
            client,
            api_server,
            name: name.to_owned(),
            zone: None,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            capacity: BTreeMap::new(),
            dir,
            node_ip: Ipv4Addr::LOCALHOST,
            pod_range: default_range(),
            kubelet_port: 0,
            serving: None,
            images: Images::default(),
            hosts_file: None,
            env: default_env(),
            shim: Vec::new(),
            timing: Timing::default(),
            log_bytes_max: 10 * 1024 * 1024,
        }
    }
}

fn default_range() -> Range {
    // A range of more than a node has pods, away from 127.0.0.0/16 where everybody listens.
    Range::of(Ipv4Addr::new(127, 100, 0, 0), 24)
}

/// Where programs are and where a home is; nothing else of our own environment.
fn default_env() -> Vec<(String, String)> {
    let standard = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let path = std::env::var("PATH").unwrap_or_else(|_| standard.to_owned());
    let home = std::env::var("HOME").unwrap_or_else(|_| "/".to_owned());
    vec![("PATH".to_owned(), path), ("HOME".to_owned(), home)]
}

/// What a node offers, by the name of the resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity(pub BTreeMap<String, Quantity>);

/// `cpu=4,memory=8Gi`, as on the command line.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse_capacity(text: &str) -> Result<Capacity, String> {
    let one = |part: &str| {
        let sensible = |value: &str| quantity::parse_milli(value).is_some_and(|milli| milli >= 0);
        let (name, value) = part
            .split_once('=')
            .filter(|(name, value)| !name.trim().is_empty() && sensible(value))
            .ok_or_else(|| {
                format!("{part:?} is not NAME=QUANTITY, for example cpu=4 or memory=8Gi")
            })?;
        Ok((name.trim().to_owned(), Quantity(value.trim().to_owned())))
    };
    text.split(',').map(one).collect::<Result<_, _>>().map(Capacity)
}

/// What the node offers in the end: what was said, and for the rest what the machine has.
pub(crate) fn full_capacity(given: &BTreeMap<String, Quantity>) -> BTreeMap<String, Quantity> {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut all = BTreeMap::from([
        ("cpu".to_owned(), Quantity(cpus.to_string())),
        ("memory".to_owned(), Quantity(format!("{}Ki", memory_kib()))),
        ("pods".to_owned(), Quantity("110".to_owned())),
        ("ephemeral-storage".to_owned(), Quantity("100Gi".to_owned())),
    ]);
    all.extend(given.clone());
    all
}

fn memory_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(1024 * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_on_the_command_line() {
        let parsed = parse_capacity("cpu=4, memory=8Gi").unwrap().0;
        assert_eq!(parsed["cpu"].0, "4");
        assert_eq!(parsed["memory"].0, "8Gi");
        for bad in ["", "cpu", "cpu=", "=4", "cpu=x", "cpu=4,,", "cpu=-1"] {
            assert!(parse_capacity(bad).unwrap_err().contains("NAME=QUANTITY"), "{bad}");
        }
    }

    #[test]
    fn what_is_not_given_is_what_the_machine_has() {
        let all = full_capacity(&parse_capacity("cpu=64").unwrap().0);
        assert_eq!(all["cpu"].0, "64");
        assert!(quantity::parse_milli(&all["memory"].0).unwrap() > 0);
        assert_eq!(all.len(), 4);
    }
}
