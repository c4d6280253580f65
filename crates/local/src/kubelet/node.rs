//! The Node object and its Lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus,
    NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::options::Options;
use super::server::DECLARED_FEATURE;
use super::shared::Shared;

/// Namespace of node leases.
pub(crate) const LEASES: &str = "kube-node-lease";

/// A node counts as lost after four missed renewals, as with the real kubelet.
const RENEWALS_PER_LEASE: u32 = 4;

/// Delay before a failed request is retried.
const RETRY: Duration = Duration::from_secs(1);

/// The Node for registration.
pub(crate) fn node(options: &Options, shared: &Shared, now: Timestamp) -> Node {
    Node {
        metadata: ObjectMeta {
            name: Some(options.name.clone()),
            labels: Some(labels(options)),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            taints: (!options.taints.is_empty()).then(|| options.taints.clone()),
            pod_cidr: Some(options.pod_range.to_string()),
            pod_cidrs: Some(vec![options.pod_range.to_string()]),
            ..NodeSpec::default()
        }),
        status: Some(status(options, shared, &[], now)),
    }
}

fn labels(options: &Options) -> BTreeMap<String, String> {
    let own = [
        ("kubernetes.io/hostname", options.name.clone()),
        ("kubernetes.io/os", "linux".to_owned()),
        ("kubernetes.io/arch", architecture().to_owned()),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    let zone =
        options.zone.iter().map(|zone| ("topology.kubernetes.io/zone".to_owned(), zone.clone()));
    own.chain(zone).chain(options.labels.clone()).collect()
}

/// Go's name of the architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn status(options: &Options, shared: &Shared, old: &[NodeCondition], now: Timestamp) -> NodeStatus {
    let address = |kind: &str, address: String| NodeAddress { type_: kind.to_owned(), address };
    let port = i32::from(shared.port);
    NodeStatus {
        addresses: Some(vec![
            address("InternalIP", options.node_ip.to_string()),
            address("Hostname", options.name.clone()),
        ]),
        capacity: Some(shared.capacity.clone()),
        allocatable: Some(shared.capacity.clone()),
        conditions: Some(conditions(old, now)),
        daemon_endpoints: (port != 0)
            .then_some(NodeDaemonEndpoints { kubelet_endpoint: Some(DaemonEndpoint { port }) }),
        node_info: Some(info()),
        ..NodeStatus::default()
    }
}

#[rustfmt::skip]
const CONDITIONS: &[(&str, &str, &str, &str)] = &[
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure",   "False", "KubeletHasNoDiskPressure",   "kubelet has no disk pressure"),
    ("PIDPressure",    "False", "KubeletHasSufficientPID",    "kubelet has sufficient PID available"),
    ("Ready",          "True",  "KubeletReady",               "kubelet is posting ready status"),
];

fn conditions(old: &[NodeCondition], now: Timestamp) -> Vec<NodeCondition> {
    let condition = |(kind, status, reason, message): &(&str, &str, &str, &str)| {
        let same = old.iter().find(|c| c.type_ == *kind && c.status == *status);
        let since = same.and_then(|condition| condition.last_transition_time.clone());
        NodeCondition {
            type_: (*kind).to_owned(),
            status: (*status).to_owned(),
            reason: Some((*reason).to_owned()),
            message: Some((*message).to_owned()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(since.unwrap_or(Time(now))),
        }
    };
    CONDITIONS.iter().map(condition).collect()
}

fn info() -> NodeSystemInfo {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    NodeSystemInfo {
        architecture: architecture().to_owned(),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        container_runtime_version: format!("gregor://{}", env!("CARGO_PKG_VERSION")),
        kernel_version: read("/proc/sys/kernel/osrelease"),
        kube_proxy_version: String::new(),
        kubelet_version: format!("v1.33.0-gregor.{}", env!("CARGO_PKG_VERSION")),
        machine_id: read("/etc/machine-id"),
        operating_system: "linux".to_owned(),
        os_image: "processes of this machine".to_owned(),
        system_uuid: String::new(),
        ..NodeSystemInfo::default()
    }
}

/// Registers the node, or updates an existing object; returns its uid.
pub(crate) async fn register(shared: &Shared) -> kube::Result<String> {
    let options = &shared.options;
    let api = Api::<Node>::all(shared.client.clone());
    let now = Timestamp::now();
    let wanted = node(options, shared, now);
    match api.create(&PostParams::default(), &wanted).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => return Err(error),
    }
    let patch = json!({ "metadata": { "labels": labels(options) } });
    let params = PatchParams::default();
    let node = api.patch(&options.name, &params, &Patch::Merge(patch)).await?;
    let old = node.status.and_then(|status| status.conditions).unwrap_or_default();
    let mut patch = json!({ "status": status(options, shared, &old, now) });
    if shared.port != 0 {
        // A field that is newer than the API version that we are built with.
        patch["status"]["declaredFeatures"] = json!([DECLARED_FEATURE]);
    }
    let node = api.patch_status(&options.name, &params, &Patch::Strategic(patch)).await?;
    Ok(node.metadata.uid.unwrap_or_default())
}

/// Renews the Lease and the status of the node.
pub(crate) async fn keep_alive(shared: Arc<Shared>, mut uid: String) {
    let timing = shared.options.timing;
    let mut status_due = Instant::now() + timing.node_status;
    loop {
        let mut renewed = renew(&shared, &uid).await;
        if renewed.is_ok() && Instant::now() >= status_due {
            // Also recreates the Node if it was removed.
            match register(&shared).await {
                Ok(new) => {
                    uid = new;
                    status_due = Instant::now() + timing.node_status;
                }
                Err(error) => renewed = Err(error),
            }
        }
        match renewed {
            Ok(()) => sleep(timing.lease_renewal).await,
            Err(error) => {
                tracing::info!(node = shared.options.name, %error, "cannot renew the node's Lease");
                sleep(RETRY).await;
            }
        }
    }
}

async fn renew(shared: &Shared, uid: &str) -> kube::Result<()> {
    let options = &shared.options;
    let api = Api::<Lease>::namespaced(shared.client.clone(), LEASES);
    let now = MicroTime(Timestamp::now());
    let patch = json!({ "spec": { "renewTime": now, "holderIdentity": options.name } });
    match api.patch(&options.name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => return Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(error),
    }
    let seconds = options.timing.lease_renewal.as_secs().max(1);
    let seconds = i32::try_from(seconds * u64::from(RENEWALS_PER_LEASE)).unwrap_or(i32::MAX);
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: options.name.clone(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    };
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(options.name.clone()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(options.name.clone()),
            lease_duration_seconds: Some(seconds),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }),
    };
    api.create(&PostParams::default(), &lease).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_keep_the_time_of_their_change_and_beat() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = conditions(&[], at(10));
        let second = conditions(&first, at(20));
        for condition in &second {
            assert_eq!(condition.last_transition_time, Some(Time(at(10))));
            assert_eq!(condition.last_heartbeat_time, Some(Time(at(20))));
        }
        let unknown: Vec<_> =
            first.into_iter().map(|c| NodeCondition { status: "Unknown".into(), ..c }).collect();
        assert_eq!(conditions(&unknown, at(30))[3].last_transition_time, Some(Time(at(30))));
    }
}
