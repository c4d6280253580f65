//! A real control plane: from nothing to ready, used, stopped, and started again; who is let in; and
//! what is refused before anything is started.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use k8s_openapi::api::core::v1::{Node, Secret, ServiceAccount};
use kube::api::PostParams;
use kube::config::Kubeconfig;
use kube::{Api, Client, Config};
use local::control_plane::{Component, ControlPlane, Error, Event, Options, StateDir};
use serde_json::{Value, json};
use support::{cluster_uid, config_map, config_maps, kubectl, kubectl_ok};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_survives_a_stop_and_a_start() {
    let temp = tempfile::tempdir().unwrap();
    let state = temp.path().join("state");
    let plane = support::start(&state).await;
    let (uid, port) = (cluster_uid(&plane.client()).await, plane.api_port());
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.client(), "default");
    assert!(accounts.get_opt("default").await.unwrap().is_some(), "a pod could not be made yet");

    let kubeconfig = plane.kubeconfig_path();
    let file = temp.path().join("objects.yaml");
    fs::write(&file, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v1}}")
        .unwrap();
    kubectl_ok(&kubeconfig, &["apply", "-f", file.to_str().unwrap()]);
    let value = ["get", "configmap", "a", "-o", "jsonpath={.data.k}"];
    assert_eq!(kubectl_ok(&kubeconfig, &value), "v1");
    fs::write(&file, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v2}}")
        .unwrap();
    kubectl_ok(&kubeconfig, &["apply", "-f", file.to_str().unwrap()]);
    kubectl_ok(&kubeconfig, &["create", "configmap", "b"]);
    kubectl_ok(&kubeconfig, &["delete", "configmap", "b"]);
    let version = kubectl_ok(&kubeconfig, &["version", "-o", "json"]);
    let version: Value = serde_json::from_str(&version).unwrap();
    assert_eq!(version["serverVersion"]["gitVersion"], "v1.36.3");

    let pids: Vec<_> = Component::ALL.iter().map(|one| plane.pid(*one).unwrap()).collect();
    plane.stop().await.unwrap();
    for pid in pids {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} still runs");
    }
    let plane = support::start(&state).await;
    assert_eq!((cluster_uid(&plane.client()).await, plane.api_port()), (uid, port));
    assert_eq!(kubectl_ok(&kubeconfig, &value), "v2");
    assert!(!kubectl(&kubeconfig, &["get", "configmap", "b"]).status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_kubeconfig_nothing_answers_but_health() {
    let temp = tempfile::tempdir().unwrap();
    let plane = support::start(&temp.path().join("state")).await;
    let anonymous = anonymous(&plane, plane.api_port()).await;
    for path in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(status(&anonymous, path).await, 200, "{path}");
    }
    for path in ["/api", "/api/v1/namespaces", "/version", "/metrics", "/openapi/v2", "/"] {
        let code = status(&anonymous, path).await;
        assert!([401, 403].contains(&code), "{path}: {code}");
    }
    let ports: Value =
        serde_json::from_slice(&fs::read(plane.state_dir().root().join("ports.json")).unwrap())
            .unwrap();
    for name in ["controller_manager", "scheduler"] {
        let port = u16::try_from(ports[name].as_u64().unwrap()).unwrap();
        let client = self::anonymous(&plane, port).await;
        assert_eq!(status(&client, "/healthz").await, 200, "{name}");
        let code = status(&client, "/metrics").await;
        assert!([401, 403].contains(&code), "{name}: {code}");
    }
    // etcd lets nobody in at all: not without a certificate, and not with one of the API's.
    for name in ["etcd_client", "etcd_peer"] {
        let port = u16::try_from(ports[name].as_u64().unwrap()).unwrap();
        let state = plane.state_dir().root();
        for user in [json!({}), user_of(&plane.kubeconfig_path())] {
            let authority = fs::read(state.join("pki/etcd-ca.crt")).unwrap();
            let client = client(port, &authority, user).await;
            assert_eq!(status(&client, "/health").await, 0, "{name}");
        }
    }
    every_file_is_private(plane.state_dir().root());
    a_node_has_only_its_own_rights(&plane).await;
}

fn every_file_is_private(dir: &Path) {
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(dir), 0o700, "{dir:?}");
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        // etcd makes and removes files while we look.
        if path.is_dir() && path.file_name().unwrap() != "etcd" {
            every_file_is_private(&path);
        } else if path.is_file() {
            assert_eq!(mode(&path), 0o600, "{path:?}");
        }
    }
}

async fn a_node_has_only_its_own_rights(plane: &ControlPlane) {
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));
    let identity = plane.node_identity("node-a", &[address]).unwrap();
    assert!(identity.serving.certificate.exists() && identity.serving.key.exists());
    assert_eq!(plane.node_identity("node-a", &[address]).unwrap(), identity);
    for name in ["", "../x", "Node", "a/b", "-a"] {
        assert!(matches!(plane.node_identity(name, &[]), Err(Error::NodeName(_))), "{name}");
    }
    let config = Kubeconfig::read_from(&identity.kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let node = |name: &str| -> Node {
        serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
    };
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &node("node-a")).await.unwrap();
    let refused = nodes.create(&PostParams::default(), &node("node-b")).await.unwrap_err();
    assert!(refused.to_string().contains("not allowed"), "{refused}");
    let secrets: Api<Secret> = Api::all(client);
    let refused = secrets.list(&Default::default()).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_run_side_by_side_and_one_directory_has_one_master() {
    let temp = tempfile::tempdir().unwrap();
    let (first_dir, second_dir) = (temp.path().join("first"), temp.path().join("second"));
    let (first, second) = tokio::join!(support::start(&first_dir), support::start(&second_dir));
    assert_ne!(cluster_uid(&first.client()).await, cluster_uid(&second.client()).await);
    config_maps(&first.client()).create(&Default::default(), &config_map("a")).await.unwrap();
    assert!(config_maps(&second.client()).get_opt("a").await.unwrap().is_none());
    // The certificates of the one mean nothing to the other.
    let stranger = client(
        second.api_port(),
        second.ca_pem().unwrap().as_bytes(),
        user_of(&first.kubeconfig_path()),
    )
    .await;
    assert!([0, 401].contains(&status(&stranger, "/api").await));

    let options = Options::for_test(&first_dir, support::binaries());
    let error = ControlPlane::start(options, |_| {}).await.unwrap_err();
    assert!(matches!(&error, Error::InUse { .. }), "{error}");
    let sentence = error.to_string();
    assert!(sentence.contains(&format!("process {}", std::process::id())), "{sentence}");
    let uid = cluster_uid(&first.client()).await;

    // Dropped, everything is gone when the drop is over, and a port that was taken meanwhile is left
    // to whoever has it.
    let pid = first.pid(Component::ApiServer).unwrap();
    let port = first.api_port();
    drop(first);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let (sender, events) = std::sync::mpsc::channel();
    let options = Options::for_test(&first_dir, support::binaries());
    let first = ControlPlane::start(options, move |event| drop(sender.send(event))).await.unwrap();
    assert_ne!(first.api_port(), port);
    let moved =
        Event::PortMoved { component: Component::ApiServer, from: port, to: first.api_port() };
    assert!(events.try_iter().any(|event| event == moved));
    assert_eq!(cluster_uid(&first.client()).await, uid);
}

#[tokio::test]
async fn real_starts_that_cannot_work_change_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let refused = async |dir: &Path, binaries| {
        let options = Options::for_test(dir, binaries);
        ControlPlane::start(options, |_| {}).await.unwrap_err()
    };
    let binaries = support::binaries();

    let foreign = temp.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.tex"), "x").unwrap();
    let error = refused(&foreign, binaries.clone()).await;
    assert!(matches!(error, Error::NotAStateDir(_)), "{error}");
    assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1);
    assert!(matches!(StateDir::open(&foreign), Err(Error::NotAStateDir(_))));

    let newer = temp.path().join("newer");
    fs::create_dir(&newer).unwrap();
    fs::write(newer.join("version"), "gregor state directory, version 7\n").unwrap();
    let error = refused(&newer, binaries.clone()).await.to_string();
    assert!(error.contains("has version 7") && error.contains("up to 1"), "{error}");

    let mut missing = binaries.clone();
    missing.dir = temp.path().join("nothing");
    let new = temp.path().join("new");
    let error = refused(&new, missing).await;
    assert!(matches!(error, Error::ProgramMissing(_)), "{error}");
    assert!(!new.exists());

    let unwritable = Path::new("/proc/state");
    let error = refused(unwritable, binaries.clone()).await;
    assert!(error.to_string().starts_with("cannot create"), "{error}");

    // A component that ends at once is told with its last words.
    let broken = temp.path().join("broken");
    fs::create_dir(&broken).unwrap();
    for component in Component::ALL {
        let name = component.name();
        std::os::unix::fs::symlink(binaries.dir.join(name), broken.join(name)).unwrap();
    }
    fs::remove_file(broken.join("etcd")).unwrap();
    fs::copy("/bin/false", broken.join("etcd")).unwrap();
    let mut binaries = binaries;
    binaries.dir = broken;
    let error = refused(&new, binaries).await;
    assert!(matches!(error, Error::Dies { component: Component::Etcd, .. }), "{error}");
}

/// A client that trusts the server and says nothing of itself.
async fn anonymous(plane: &ControlPlane, port: u16) -> Client {
    client(port, plane.ca_pem().unwrap().as_bytes(), json!({})).await
}

async fn client(port: u16, authority: &[u8], user: Value) -> Client {
    use base64::Engine as _;
    let authority = base64::prelude::BASE64_STANDARD.encode(authority);
    let cluster = json!({
        "server": format!("https://127.0.0.1:{port}"),
        "certificate-authority-data": authority,
    });
    let text = json!({
        "clusters": [{ "name": "a", "cluster": cluster }],
        "users": [{ "name": "a", "user": user }],
        "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
        "current-context": "a",
    });
    let config = Kubeconfig::from_yaml(&text.to_string()).unwrap();
    let config = Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// The identity in a kubeconfig of ours.
fn user_of(kubeconfig: &Path) -> Value {
    let config: Value = serde_json::from_slice(&fs::read(kubeconfig).unwrap()).unwrap();
    config["users"][0]["user"].clone()
}

/// The status of the answer; 0 if there is none, as the connection was refused.
async fn status(client: &Client, path: &str) -> u16 {
    let request = hyper::Request::get(path).body(Vec::new()).unwrap();
    match client.request_text(request).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    }
}
