//! Fleets on this machine: data planes that are Kubernetes control planes, nodes that join and leave, agents
//! and Kafkas that run. And Cluster API, as far as an API server can tell.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod fleet_support;
mod up;

use std::time::{Duration, Instant};

use fleet::identity::Credentials;
use fleet::provider::capi::{Capi, CapiOptions};
use fleet::provider::{AgentAccess, NodeCounts, PlaneRef, Progress, Provider};
use fleet_support::FleetWorld;
use serde_json::{Value, json};
use up::{Run, World};

/// All of it: `gregor fleet demo`, from the first data plane to the last turn.
#[test]
fn nodes_and_data_planes_come_and_go_with_the_kafkas() {
    let world = FleetWorld::new();
    let (code, out) = world.run_demo();
    assert_eq!(code, 0, "{out}");
    let turns: Vec<_> = out.lines().filter(|line| line.starts_with("  seen ")).collect();
    assert_eq!(turns.len(), 7, "{out}");
    assert!(!out.contains("MISSED"), "{out}");
    // Each turn was decided, with its reason, by the rules.
    for decided in [
        "plane-1 is created: the region has no data plane",
        "plane-1 goes from 3 to 4 nodes: room for no more than 0 connections and 0 partitions",
        "north creates a topic in kafka-2",
        "south creates a topic in kafka-1",
        "north is refused by kafka-1 at every listener",
        "south is refused by kafka-2 at every listener",
        "no step: 4 >= ceiling 4",
        "plane-2 is created: all data planes are full or failed",
        "plane-2 goes from ready to deprovisioning: empty, and plane-1 is ready",
        "plane-1 goes from 4 to 3 nodes",
        "plane-2 goes from cleanup to deleted",
    ] {
        assert!(out.contains(decided), "\"{decided}\" is not in:\n{out}");
    }
    assert!(out.contains("plane-1 full, 4 nodes, kafka-1 ready, kafka-2 ready"), "{out}");
    world.assert_nothing_is_left();
}

/// A manager that is killed in the middle of whatever it does finds everything again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_that_is_killed_goes_on_with_its_local_data_planes() {
    let world = FleetWorld::new();
    let mut manager = world.serve().await;
    let body = json!({ "cloud_provider": "local", "region": "here" });
    let made = world.admin("POST", "/data_planes", Some(body)).await;
    let id = made["id"].as_str().unwrap().to_owned();
    // Killed while the data plane is made: what was begun is found and finished.
    world.until("it is begun", async || world.kubernetes(&id).join("ports.json").exists()).await;
    manager.kill();
    manager = world.serve().await;
    world.until("the agent reports", async || world.plane(&id).await["status"] == "ready").await;
    let uid =
        world.kubectl(&id, &["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"]);
    assert_eq!(world.nodes(&id), ["node-1", "node-2"]);

    commands_show_and_explain(&world, &id);

    // More nodes are asked for, and the manager is killed before they can have come.
    let scale = |nodes: u32| Some(json!({ "nodes": nodes }));
    let path = format!("/data_planes/{id}/scale");
    world.admin("PUT", &path, scale(3)).await;
    manager.kill();
    manager = world.serve().await;
    world.until("the third node joins", async || world.nodes(&id).len() == 3).await;
    world
        .until("the manager counts it", async || world.plane(&id).await["nodes_actual"] == 3)
        .await;

    // One goes: it is drained of the pods that are on it, which come back elsewhere.
    world.admin("PUT", &path, scale(2)).await;
    world.until("a node is chosen", async || world.record(&id).contains("Leaving")).await;
    manager.kill();
    manager = world.serve().await;
    world.until("it leaves", async || world.nodes(&id).len() == 2).await;
    world.until("the manager knows", async || world.plane(&id).await["nodes_actual"] == 2).await;
    let again =
        world.kubectl(&id, &["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"]);
    assert_eq!(uid, again, "the control plane is still the same");
    let seen = world.plane(&id).await["last_seen"].clone();
    world.until("the agent goes on", async || world.plane(&id).await["last_seen"] != seen).await;

    // Killed while it is deleted: it is deleted completely in the end.
    world.admin("DELETE", &format!("/data_planes/{id}"), None).await;
    world
        .until("it is being deleted", async || world.desired(&id).contains("\"deleting\": true"))
        .await;
    manager.kill();
    manager = world.serve().await;
    world.until("the manager has forgotten it", async || world.plane(&id).await.is_null()).await;
    manager.stop();
    world.assert_nothing_is_left();
}

/// `gregor fleet status`, `why` and `plan` on a manager with one data plane.
fn commands_show_and_explain(world: &FleetWorld, id: &str) {
    let config = world.config_file();
    let config = config.to_str().unwrap();
    for (words, expected) in [
        (vec!["status"], vec!["local/here", id, "ready"]),
        (vec!["why", id], vec!["is installed", "2 wanted, 2 desired and 2 ready at the provider"]),
        (vec!["why", "local/here"], vec!["1 of at most 0 data planes: 1 ready"]),
        (vec!["plan", "-f", config], vec!["1 data planes, 2 nodes; nothing changes"]),
    ] {
        let (code, text) = world.fleet(&words);
        assert_eq!(code, Some(0), "{words:?}: {text}");
        for part in expected {
            assert!(text.contains(part), "{words:?}: \"{part}\" is not in {text}");
        }
    }
    let (_, text) = world.fleet(&["status", "-o", "json"]);
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(shown["data_planes"][0]["id"], id);
    let (code, text) = world.fleet(&["why", "nothing"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("there is no data plane, region or Kafka called nothing"), "{text}");
}

fn crd(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.cluster.x-k8s.io") },
        "spec": {
            "group": "cluster.x-k8s.io", "scope": "Namespaced",
            "names": { "plural": plural, "kind": kind },
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    })
}

fn plane(provider_id: Option<&str>) -> PlaneRef {
    PlaneRef {
        id: "0192aB_x".to_owned(),
        provider_id: provider_id.map(str::to_owned),
        cloud_provider: "metal".to_owned(),
        region: "here".to_owned(),
        multi_az: true,
        nodes: 3,
    }
}

/// A management cluster of Cluster API. What its controllers would write, the test does.
struct Management {
    world: World,
    up: Run,
}

impl Management {
    fn start() -> Self {
        let world = World::new();
        let up = world.gregor(&["up", "--detach", "--nodes", "0"]).ok();
        let management = Self { world, up };
        for (plural, kind) in [("clusters", "Cluster"), ("machinedeployments", "MachineDeployment")]
        {
            management.apply(&crd(plural, kind));
            let name = format!("crd/{plural}.cluster.x-k8s.io");
            management.kubectl(&["wait", "--for=condition=Established", &name]);
        }
        management
    }

    fn kubectl(&self, words: &[&str]) -> String {
        self.world.kubectl(&self.up, words)
    }

    fn apply(&self, object: &Value) {
        let file = self.world.file("object.json", &object.to_string());
        self.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file]);
    }

    fn set_status(&self, kind: &str, name: &str, status: &Value) {
        let body = json!({ "status": status }).to_string();
        self.kubectl(&["patch", kind, name, "--subresource=status", "--type=merge", "-p", &body]);
    }

    /// What the controller of the workers says of so many of them.
    fn count(&self, generation: u64, replicas: u64) {
        self.count_ready(generation, replicas, replicas);
    }

    fn count_ready(&self, generation: u64, replicas: u64, ready: u64) {
        let status = json!({
            "observedGeneration": generation, "replicas": replicas, "readyReplicas": ready,
        });
        self.set_status("machinedeployment", "workers", &status);
    }

    /// Whether the agent may do that.
    fn may(&self, verb: &str, what: &str) -> bool {
        let who = "--as=system:serviceaccount:gregor:gregor-agent";
        let words = ["auth", "can-i", verb, what, who, "-A"];
        self.world.kubectl_command(&self.up, &words).output().unwrap().status.success()
    }

    async fn provider(&self) -> Capi {
        let options = CapiOptions {
            namespace: "default".to_owned(),
            class: "metal".to_owned(),
            worker_class: "large".to_owned(),
            version: "v1.34.0".to_owned(),
            agent_image: Some("gregor-agent:test".to_owned()),
            agent_manifests: vec![json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": "more", "namespace": "gregor" },
                "data": { "id": "{cluster-id}" },
            })],
        };
        Capi::new(options, self.world.client().await)
    }
}

/// The provider `capi` on a real API server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_planes_of_cluster_api_are_objects_that_an_api_server_takes() {
    let management = Management::start();
    let capi = management.provider().await;
    // Asked twice, as after a crash: it is one.
    let name = capi.create(&plane(None)).await.unwrap();
    assert_eq!(capi.create(&plane(None)).await.unwrap(), name);
    assert_eq!(name, fleet::provider::cluster_name("0192aB_x"));
    // The cluster of another id is not adopted under this name, and not deleted either.
    let other = PlaneRef { id: "0192aB.x".to_owned(), ..plane(None) };
    let taken = fleet::provider::cluster_name(&other.id);
    management.apply(&json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
        "metadata": { "name": taken, "namespace": "default" },
    }));
    assert!(capi.create(&other).await.is_err());
    assert!(capi.delete(&other).await.unwrap(), "there is nothing of it");
    management.kubectl(&["get", "cluster", &taken]);
    let made = plane(Some(&name));
    let cluster = management.kubectl(&["get", "cluster", &name, "-o", "json"]);
    let topology = serde_json::from_str::<Value>(&cluster).unwrap()["spec"]["topology"].clone();
    assert_eq!(topology["class"], "metal");
    assert_eq!(topology["controlPlane"]["replicas"], 3);
    assert_eq!(capi.progress(&made).await.unwrap(), Progress::Coming);
    management.set_status("cluster", &name, &json!({ "phase": "Provisioned" }));
    assert_eq!(capi.progress(&made).await.unwrap(), Progress::There);

    // Nodes: what is not known is no number.
    assert!(capi.nodes(&made).await.is_err(), "no workers yet");
    management.apply(&json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeployment",
        "metadata": {
            "name": "workers", "namespace": "default",
            "labels": { "cluster.x-k8s.io/cluster-name": name },
        },
        "spec": { "replicas": 1 },
    }));
    assert!(capi.nodes(&made).await.is_err(), "nobody has counted");
    management.count(1, 1);
    assert_eq!(capi.nodes(&made).await.unwrap(), NodeCounts::new(1, 1));
    capi.set_nodes(&made, 3).await.unwrap();
    assert!(capi.nodes(&made).await.is_err(), "what was counted before the change says nothing");
    management.count(2, 2);
    assert_eq!(capi.nodes(&made).await.unwrap(), NodeCounts::new(3, 2));
    // All machines exist, and two of them are ready.
    management.count_ready(2, 3, 2);
    assert_eq!(capi.nodes(&made).await.unwrap(), NodeCounts::new(3, 2));
    // Fewer: those that are still there count.
    capi.set_nodes(&made, 1).await.unwrap();
    management.count_ready(3, 3, 3);
    assert_eq!(capi.nodes(&made).await.unwrap(), NodeCounts::new(1, 3));
    management.count(3, 1);
    assert_eq!(capi.nodes(&made).await.unwrap(), NodeCounts::new(1, 1));

    install_agent(&management, &capi, &made).await;

    // Gone is gone when the API server says that there is no such thing.
    assert!(!capi.delete(&made).await.unwrap());
    let begun = Instant::now();
    while !capi.delete(&made).await.unwrap() {
        assert!(begun.elapsed() < Duration::from_secs(120), "the cluster does not go");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(capi.delete(&plane(None)).await.unwrap());
}

/// The agent comes, with its rights, to the cluster that the kubeconfig names; here it is the same one.
async fn install_agent(management: &Management, capi: &Capi, made: &PlaneRef) {
    let access = AgentAccess {
        manager: "https://fleet.test".to_owned(),
        credentials: Credentials::Token("a-token".to_owned()),
    };
    assert!(capi.install_agent(made, &access).await.is_err(), "there is no kubeconfig yet");
    let kubeconfig = management.world.state().join("kubeconfig");
    management.apply(&json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": format!("{}-kubeconfig", made.known_as()), "namespace": "default" },
        "stringData": { "value": std::fs::read_to_string(kubeconfig).unwrap() },
    }));
    for _ in 0..2 {
        capi.install_agent(made, &access).await.unwrap();
    }
    let words = ["-n", "gregor", "get", "configmap", "more", "-o", "jsonpath={.data.id}"];
    assert_eq!(management.kubectl(&words), made.id);
    assert!(management.may("list", "nodes") && management.may("delete", "namespaces"));
    assert!(management.may("create", "secrets"));
    let not = ["get", "list", "patch", "delete"].map(|verb| (verb, "secrets"));
    for (verb, what) in not.into_iter().chain([("delete", "pods"), ("patch", "nodes")]) {
        assert!(!management.may(verb, what), "{verb} {what}");
    }
}
