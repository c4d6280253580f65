//! A real control plane: from nothing to ready, used, killed in parts, stopped, and started again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use local::control_plane::{ControlPlane, Options};

#[tokio::test(flavor = "multi_thread")]
async fn starts() {
    let temp = tempfile::tempdir().unwrap();
    let binaries = support::binaries().unwrap();
    let begun = std::time::Instant::now();
    let options = Options::for_test(temp.path().join("state"), binaries);
    let plane = ControlPlane::start(options, move |event| {
        eprintln!("{:?} {event:?}", begun.elapsed());
    })
    .await
    .unwrap();
    let namespaces: Api<Namespace> = Api::all(plane.client());
    let list = namespaces.list(&Default::default()).await.unwrap();
    eprintln!("{:?}", list.items.iter().map(|n| n.metadata.name.clone()).collect::<Vec<_>>());
    plane.stop().await.unwrap();
    eprintln!("{:?}", begun.elapsed());
}
