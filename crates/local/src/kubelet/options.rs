//! Options of a kubelet.

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

/// Identity, resources and files of a node.
#[derive(Clone)]
pub struct Options {
    /// A client with the permissions of the group `system:nodes`.
    pub client: kube::Client,
    /// Address of the API server for programs in pods.
    pub api_server: SocketAddr,
    /// The name of the node.
    pub name: String,
    /// Its zone label.
    pub zone: Option<String>,
    /// Additional labels.
    pub labels: BTreeMap<String, String>,
    /// Taints at registration.
    pub taints: Vec<Taint>,
    /// Capacity. Defaults for CPU, memory, pods and ephemeral storage are those of the machine.
    pub capacity: BTreeMap<String, Quantity>,
    /// Directory for everything that must survive the kubelet. See [`super::layout`].
    pub dir: PathBuf,
    /// Address of the node.
    pub node_ip: Ipv4Addr,
    /// Pod addresses: a loopback range that no other node uses.
    pub pod_range: Range,
    /// Port for logs and commands; 0 chooses a free one.
    pub kubelet_port: u16,
    /// Certificates for logs and commands; without them they are not served.
    pub serving: Option<ServerTls>,
    /// Programs by image name.
    pub images: Images,
    /// Hosts file for all pods; reloaded when it changes.
    pub hosts_file: Option<PathBuf>,
    /// Initial environment of every container.
    pub env: Vec<(String, String)>,
    /// Command line of the shim, to which a file is appended: `gregor shim`.
    pub shim: Vec<OsString>,
    /// Intervals and delays.
    pub timing: Timing,
    /// Size at which a container's log is rotated.
    pub log_bytes_max: u64,
}

/// Intervals and delays. Defaults are the kubelet's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Interval of Lease renewals.
    pub lease_renewal: Duration,
    /// Interval of full status updates if nothing changes.
    pub node_status: Duration,
    /// Back-off for restarts of a container.
    pub restart: Backoff,
    /// Back-off for lookups of an image.
    pub image: Backoff,
    /// Delay before a missing volume or reference is looked up again.
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
    /// A node with the resources of this machine, on 127.0.0.1.
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
    // More addresses than a node has pods, away from 127.0.0.0/16 where other programs listen.
    Range::of(Ipv4Addr::new(127, 100, 0, 0), 24)
}

/// Options that every `java` launcher reads. With `-XX:TieredStopAtLevel=1` an idle Kafka node costs 2 CPU seconds in its
/// first half minute instead of 3, which pays on a small machine and for nodes that live for minutes.
const JAVA_OPTIONS: &str = "JDK_JAVA_OPTIONS";

/// `PATH`, the home directory and options for Java; nothing else of our own environment.
fn default_env() -> Vec<(String, String)> {
    let standard = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let path = std::env::var("PATH").unwrap_or_else(|_| standard.to_owned());
    let home = std::env::var("HOME").unwrap_or_else(|_| "/".to_owned());
    let java = std::env::var(JAVA_OPTIONS).ok().map(|options| (JAVA_OPTIONS.to_owned(), options));
    [("PATH".to_owned(), path), ("HOME".to_owned(), home)].into_iter().chain(java).collect()
}

/// Capacity by resource name.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity(pub BTreeMap<String, Quantity>);

/// Parses `cpu=4,memory=8Gi`, as on the command line.
///
/// # Errors
/// A message for the user.
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

/// Adds the machine's resources for those that are not given.
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
