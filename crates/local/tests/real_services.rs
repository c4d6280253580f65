//! Services on a real control plane. The pods are objects, with small servers of the test at their
//! addresses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "support/cluster.rs"]
mod cluster;
mod support;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{DeleteParams, Patch, PatchParams};
use local::services::{Names, ProxyOptions, ServiceProxy, policy_rules};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use cluster::{Cluster, eventually};

const NAMESPACE: &str = "shop";
const NODE: &str = "127.0.77.1";

/// A control plane, a node, and the proxy.
struct Stage {
    cluster: Cluster,
    names: Names,
    proxy: JoinHandle<std::convert::Infallible>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.proxy.abort();
    }
}

impl Stage {
    /// Where pods find the API server: the first address of the range for services.
    fn api_service(&self) -> Ipv4Addr {
        self.cluster.plane.network().api_server()
    }

    /// An address of that range that somebody else listens on.
    fn taken(&self) -> Ipv4Addr {
        let [first, second, ..] = self.api_service().octets();
        Ipv4Addr::new(first, second, 77, 77)
    }

    async fn new() -> Self {
        let cluster = Cluster::start().await;
        cluster.namespace(NAMESPACE).await;
        cluster.node("n", NODE.parse().unwrap(), json!({})).await;
        let names = Names::new();
        let options = ProxyOptions {
            api_server: SocketAddr::new("127.0.0.1".parse().unwrap(), cluster.plane.api_port()),
            hosts_file: cluster.dir().join("hosts"),
            extra_names: Vec::new(),
            names: names.clone(),
        };
        let client = cluster.limited("proxy", policy_rules()).await;
        let proxy = tokio::spawn(ServiceProxy::new(client, options).run());
        Self { cluster, names, proxy }
    }

    /// A pod with a server that says the pod's name and then echoes.
    async fn pod(&self, name: &'static str, address: &str, changes: Value) {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(serve(listener, name));
        let mut spec = json!({
            "nodeName": "n",
            "containers": [{"name": "c", "image": "x",
                            "ports": [{"name": "main", "containerPort": port}]}],
        });
        spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let object = json!({"metadata": {"name": name, "labels": {"app": "a", "pod": name}},
                            "spec": spec});
        self.cluster.create::<Pod>(NAMESPACE, object).await;
        let status = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]});
        self.cluster.patch_pod(NAMESPACE, name, status).await;
    }

    async fn ready(&self, name: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let status = json!({"conditions": [{"type": "Ready", "status": status}]});
        self.cluster.patch_pod(NAMESPACE, name, status).await;
    }

    /// A service, and its address with the first port.
    async fn service(&self, name: &str, spec: Value) -> (Service, SocketAddr) {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        let service: Service = self.cluster.create(NAMESPACE, object).await;
        let spec = service.spec.as_ref().unwrap();
        let ip: IpAddr = spec.cluster_ip.as_deref().unwrap().parse().unwrap();
        let port = u16::try_from(spec.ports.as_ref().unwrap()[0].port).unwrap();
        (service, SocketAddr::new(ip, port))
    }

    async fn patch(&self, name: &str, patch: Value) {
        let services = self.cluster.api::<Service>(NAMESPACE);
        services.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

async fn serve(listener: TcpListener, name: &'static str) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            stream.write_all(format!("{name}\n").as_bytes()).await?;
            let (mut read, mut write) = stream.split();
            tokio::io::copy(&mut read, &mut write).await
        });
    }
}

/// Connects, and reads which pod it is.
async fn open(address: SocketAddr) -> io::Result<(TcpStream, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let mut name = String::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => return Ok((stream, name)),
            byte => name.push(char::from(byte)),
        }
    }
}

async fn echo(stream: &mut TcpStream) -> io::Result<()> {
    let mut answer = [0; 5];
    stream.write_all(b"hello").await?;
    stream.read_exact(&mut answer).await.map(|_| ())
}

/// Waits until connections lead to exactly these pods.
async fn leads_to(address: SocketAddr, pods: &[&str]) {
    let expected: BTreeSet<String> = pods.iter().map(|name| (*name).to_owned()).collect();
    eventually(&format!("{pods:?} behind {address}"), || async {
        let mut found = BTreeSet::new();
        for _ in 0..4 {
            if let Ok((_, name)) = open(address).await {
                found.insert(name);
            }
        }
        (found == expected).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_lead_to_ready_pods() {
    let stage = Stage::new().await;
    stage.pod("one", "127.77.0.1", json!({"hostname": "host-one", "subdomain": "all"})).await;
    stage.pod("two", "127.77.0.2", json!({})).await;
    only_ready_pods_get_connections(&stage).await;
    two_services_have_the_same_port(&stage).await;
    node_ports_and_load_balancers_are_reachable(&stage).await;
    a_port_in_use_is_told_and_taken_later(&stage).await;
    names_lead_to_services_and_pods(&stage).await;
    the_api_server_is_a_service(&stage).await;
}

async fn only_ready_pods_get_connections(stage: &Stage) {
    let spec = json!({"selector": {"app": "a"}, "ports": [{"port": 9077, "targetPort": "main"}]});
    let (_, address) = stage.service("web", spec).await;
    eventually("a listener without pods", || async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let error = stream.read_u8().await.unwrap_err();
        (error.kind() == io::ErrorKind::ConnectionReset).then_some(())
    })
    .await;
    stage.ready("one", true).await;
    leads_to(address, &["one"]).await;
    stage.ready("two", true).await;
    leads_to(address, &["one", "two"]).await;
    stage.ready("one", false).await;
    leads_to(address, &["two"]).await;
    stage.patch("web", json!({"spec": {"publishNotReadyAddresses": true}})).await;
    leads_to(address, &["one", "two"]).await;
    stage.patch("web", json!({"spec": {"publishNotReadyAddresses": false}})).await;
    stage.ready("one", true).await;

    stage.patch("web", json!({"spec": {"ports": [{"port": 9078, "targetPort": "main"}]}})).await;
    leads_to(SocketAddr::new(address.ip(), 9078), &["one", "two"]).await;
    eventually("an old port that is gone", || async {
        TcpStream::connect(address).await.is_err().then_some(())
    })
    .await;
    let services = stage.cluster.api::<Service>(NAMESPACE);
    services.delete("web", &DeleteParams::default()).await.unwrap();
    eventually("a listener that is gone", || async {
        TcpStream::connect((address.ip(), 9078)).await.is_err().then_some(())
    })
    .await;
}

async fn two_services_have_the_same_port(stage: &Stage) {
    let spec = |pod: &str| {
        json!({"selector": {"pod": pod},
                                  "ports": [{"port": 9077, "targetPort": "main"}]})
    };
    let (_, first) = stage.service("first", spec("one")).await;
    let (_, second) = stage.service("second", spec("two")).await;
    leads_to(first, &["one"]).await;
    leads_to(second, &["two"]).await;
}

async fn node_ports_and_load_balancers_are_reachable(stage: &Stage) {
    let spec = json!({"type": "LoadBalancer", "selector": {"pod": "one"},
                      "ports": [{"port": 9077, "targetPort": "main"}]});
    let (service, address) = stage.service("balancer", spec).await;
    leads_to(address, &["one"]).await;
    let port = service.spec.unwrap().ports.unwrap()[0].node_port.unwrap();
    let on_node = SocketAddr::new(NODE.parse().unwrap(), u16::try_from(port).unwrap());
    leads_to(on_node, &["one"]).await;
    let services = stage.cluster.api::<Service>(NAMESPACE);
    let ingress = eventually("an address", || async {
        services.get("balancer").await.unwrap().status?.load_balancer?.ingress?.pop()?.ip
    })
    .await;
    leads_to(SocketAddr::new(ingress.parse().unwrap(), 9077), &["one"]).await;
}

async fn a_port_in_use_is_told_and_taken_later(stage: &Stage) {
    let address = stage.taken();
    let other = TcpListener::bind((address, 9077)).await.unwrap();
    let spec = json!({"clusterIP": address, "selector": {"pod": "one"},
                      "ports": [{"port": 9077, "targetPort": "main"}]});
    let (_, service) = stage.service("taken", spec).await;
    let words = stage.cluster.event(NAMESPACE, "taken", "FailedToListen").await;
    assert!(words.contains(&format!("{address}:9077")), "{words}");
    drop(other);
    leads_to(service, &["one"]).await;
}

async fn names_lead_to_services_and_pods(stage: &Stage) {
    let spec = json!({"clusterIP": "None", "selector": {"app": "a"}, "ports": [{"port": 9077}]});
    let object = json!({"metadata": {"name": "all"}, "spec": spec});
    stage.cluster.create::<Service>(NAMESPACE, object).await;
    let (taken, api) = (stage.taken().to_string(), stage.api_service().to_string());
    let rows = [
        ("all.shop.svc", vec!["127.77.0.1", "127.77.0.2"]),
        ("host-one.all.shop.svc.cluster.local", vec!["127.77.0.1"]),
        ("two.all.shop.svc", vec!["127.77.0.2"]),
        ("taken.shop", vec![taken.as_str()]),
        ("kubernetes.default.svc.cluster.local", vec![api.as_str()]),
        ("web.shop", vec![]),
    ];
    let hosts = stage.cluster.dir().join("hosts");
    for (name, expected) in rows {
        let expected: Vec<IpAddr> = expected.iter().map(|text| text.parse().unwrap()).collect();
        eventually(name, || async { (stage.names.lookup(name) == expected).then_some(()) }).await;
        let text = std::fs::read_to_string(&hosts).unwrap();
        let found: Vec<IpAddr> = text
            .lines()
            .filter(|line| line.split(' ').skip(1).any(|word| word == name))
            .map(|line| line.split(' ').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(found, expected, "{name} in {text}");
    }
}

async fn the_api_server_is_a_service(stage: &Stage) {
    let mut config = stage.cluster.config().await;
    config.cluster_url = format!("https://{}:443", stage.api_service()).parse().unwrap();
    let client = kube::Client::try_from(config).unwrap();
    eventually("the API server behind its service", || async {
        client.apiserver_version().await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_changes_under_load_drops_no_connection() {
    let stage = Arc::new(Stage::new().await);
    stage.pod("one", "127.77.0.3", json!({})).await;
    stage.pod("two", "127.77.0.4", json!({})).await;
    stage.pod("three", "127.77.0.5", json!({})).await;
    for name in ["one", "two", "three"] {
        stage.ready(name, true).await;
    }
    let spec = json!({"selector": {"app": "a"}, "ports": [{"port": 9079, "targetPort": "main"}]});
    let (_, address) = stage.service("web", spec).await;
    leads_to(address, &["one", "two", "three"]).await;

    let (stop, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> =
        (0..8).map(|_| tokio::spawn(load(address, stop.clone(), opened.clone()))).collect();
    for round in 0..10 {
        let name = ["one", "two", "three"][round % 3];
        stage.ready(name, false).await;
        let ports = if round % 2 == 0 {
            json!([{"name": "a", "port": 9079, "targetPort": "main"},
                   {"name": "b", "port": 9080, "targetPort": "main"}])
        } else {
            json!([{"name": "a", "port": 9079, "targetPort": "main"}])
        };
        stage
            .patch("web", json!({"spec": {"ports": ports}, "metadata": {"labels": {"r": "x"}}}))
            .await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        stage.ready(name, true).await;
    }
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap().unwrap();
    }
    assert!(opened.load(Ordering::SeqCst) > 100, "{opened:?} connections");
}

/// One connection that stays, and others that come and go.
async fn load(
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
) -> io::Result<()> {
    let (mut stays, _) = open(address).await?;
    while !stop.load(Ordering::SeqCst) {
        let (mut goes, _) = open(address).await?;
        echo(&mut goes).await?;
        echo(&mut stays).await?;
        opened.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    echo(&mut stays).await
}
