//! What the tests with a real control plane share.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use artifacts::Environment;
use artifacts::kubernetes::{self, Binaries, Program};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use local::control_plane::{ControlPlane, Options};

/// The programs, which are built by the first test on a machine.
pub(crate) fn binaries() -> Binaries {
    kubernetes::ensure(&Environment::from_process(), None, &artifacts::Silent).unwrap()
}

/// A control plane for a test.
pub(crate) async fn start(state: &Path) -> ControlPlane {
    let options = Options::for_test(state, binaries());
    ControlPlane::start(options, |event| eprintln!("{event:?}")).await.unwrap()
}

/// Tells one cluster from another, whatever its address.
pub(crate) async fn cluster_uid(client: &kube::Client) -> String {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.get("kube-system").await.unwrap().metadata.uid.unwrap()
}

pub(crate) fn config_maps(client: &kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

/// A small object.
pub(crate) fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object
}

/// Waits until something holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not after a minute");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The real kubectl.
pub(crate) fn kubectl(kubeconfig: &Path, arguments: &[&str]) -> Output {
    Command::new(binaries().program(Program::Kubectl))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(arguments)
        // Its discovery cache must not be shared between clusters at the same address.
        .arg("--cache-dir")
        .arg(kubeconfig.with_file_name("kubectl-cache"))
        .output()
        .unwrap()
}

/// What kubectl prints, if it succeeds.
pub(crate) fn kubectl_ok(kubeconfig: &Path, arguments: &[&str]) -> String {
    let output = kubectl(kubeconfig, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "kubectl {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}
