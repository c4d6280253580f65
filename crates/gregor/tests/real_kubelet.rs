//! Pods as processes, on a real control plane: a table of scenarios side by side, each in a namespace
//! of its own, with real processes and no images.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kubelet;

use std::pin::Pin;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kubelet::{Cluster, World, crash, life, machine, probes, volumes};

type Scenario = fn(World) -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

macro_rules! scenarios {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$((stringify!($name), |world| Box::pin($module::$name(world)))),*]
    };
}

const SCENARIOS: &[(&str, Scenario)] = scenarios![
    life::status_at_each_moment,
    life::exit_codes_and_messages,
    life::crash_loop,
    life::init_failure,
    life::sidecar,
    life::unknown_image,
    life::grace_period_overrun,
    life::graceful_end,
    life::delete_while_starting,
    life::thirty_pods_at_once,
    life::token_has_only_its_own_rights,
    machine::machine_is_described,
    volumes::environment_and_volumes,
    volumes::missing_config_map,
    volumes::bad_volumes,
    volumes::secret_rotated,
    volumes::claim_kept_over_pods,
    probes::readiness,
    probes::readiness_changes,
    probes::liveness,
    probes::startup,
];

#[tokio::test(flavor = "multi_thread")]
async fn pods_live_and_end_as_on_any_node() {
    let cluster = Cluster::start(1).await;
    wait_for_node(&cluster, "node-1").await;
    // While one is worked on, the others need not run.
    let only = std::env::var("SCENARIO").ok();
    let wanted = SCENARIOS.iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == name));
    let runs = wanted.map(async |(name, scenario)| {
        let world = cluster.world(&name.replace('_', "-"), 1).await;
        let begun = std::time::Instant::now();
        let result = tokio::time::timeout(Duration::from_secs(180), scenario(world)).await;
        let result = result.unwrap_or_else(|_| Err(anyhow::anyhow!("took too long")));
        eprintln!("{name}: {:?} {}", begun.elapsed(), if result.is_ok() { "ok" } else { "FAILED" });
        result.err().map(|error| format!("{name}: {error:#}"))
    });
    let failures: Vec<_> = futures::future::join_all(runs).await.into_iter().flatten().collect();
    let log = cluster.nodes[0].log();
    assert!(failures.is_empty(), "{}\n{log}", failures.join("\n"));
    assert!(!log.contains(" WARN ") && !log.contains(" ERROR "), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_is_killed_loses_nothing() {
    let mut cluster = Cluster::start(1).await;
    wait_for_node(&cluster, "node-1").await;
    let worlds = [
        cluster.world("killed", 1).await,
        cluster.world("starting", 1).await,
        cluster.world("shim", 1).await,
        cluster.world("stopped", 1).await,
    ];
    let node = &mut cluster.nodes[0];
    let [killed, starting, shim, stopped] = &worlds;
    crash::killed_in_the_middle(killed, node).await.unwrap();
    crash::killed_while_starting(starting, node).await.unwrap();
    crash::shim_killed(shim).await.unwrap();
    crash::stopped_and_continued(stopped, node).await.unwrap();
    crash::leftovers_ended(stopped, node).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_say_what_they_are_and_stay_alive() {
    let cluster = Cluster::start(2).await;
    for number in 1..=2 {
        let name = format!("node-{number}");
        let node = wait_for_node(&cluster, &name).await;
        let labels = node.metadata.labels.unwrap();
        assert_eq!(labels["kubernetes.io/hostname"], name);
        assert_eq!(labels["topology.kubernetes.io/zone"], format!("zone-{number}"));
        let status = node.status.unwrap();
        assert_eq!(status.allocatable.unwrap()["cpu"].0, "16");
        let addresses = status.addresses.unwrap();
        assert!(addresses.iter().any(|a| a.type_ == "InternalIP" && a.address == "127.0.0.1"));
        let leases = Api::<Lease>::namespaced(cluster.plane.client(), "kube-node-lease");
        let lease = loop {
            if let Some(lease) = leases.get_opt(&name).await.unwrap() {
                break lease.spec.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        assert_eq!(lease.holder_identity.as_deref(), Some(name.as_str()));
        assert_eq!(lease.lease_duration_seconds, Some(40));
    }
}

/// In this process, as `gregor up` has its nodes: with logs and commands served, drained, and gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_serves_logs_is_drained_and_leaves() {
    let mut cluster = Cluster::start(0).await;
    let node = cluster.inner_node(1).await;
    wait_for_node(&cluster, "node-1").await;
    let world = cluster.world("inner", 1).await;
    world.script("p", "echo hello; exec sleep 1000", serde_json::json!({})).await.unwrap();
    world.wait_ready("p").await.unwrap();
    assert_eq!(cluster.kubectl(&["-n", "inner", "logs", "p"]), "hello\n");
    let said = cluster.kubectl(&["-n", "inner", "exec", "p", "--", "sh", "-c", "echo $HOSTNAME"]);
    assert_eq!(said, "p\n");
    assert_eq!((node.name(), node.pods()), ("node-1", 1));
    node.leave(&cluster.plane.client(), Duration::from_secs(60)).await.unwrap();
    assert!(world.pods().get_opt("p").await.unwrap().is_none(), "the pod was evicted");
    let nodes = Api::<Node>::all(cluster.plane.client());
    assert!(nodes.get_opt("node-1").await.unwrap().is_none(), "the node is gone");
    cluster.nodes.clear();
}

async fn wait_for_node(cluster: &Cluster, name: &str) -> Node {
    let api = Api::<Node>::all(cluster.plane.client());
    for _ in 0..600 {
        if let Some(node) = api.get_opt(name).await.unwrap() {
            let status = node.status.clone().unwrap_or_default();
            let mut conditions = status.conditions.into_iter().flatten();
            // Taints of a new node go when the controller has seen that it is ready.
            let tainted = node.spec.as_ref().is_some_and(|spec| spec.taints.is_some());
            if conditions.any(|c| c.type_ == "Ready" && c.status == "True") && !tainted {
                return node;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let logs: Vec<_> = cluster.nodes.iter().map(kubelet::Node::log).collect();
    panic!("{name} is not ready: {}", logs.join("\n"));
}
