//! Checks whether components are ready.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;

use super::components::Component;
use super::error::Error;
use super::pki::Authority;
use super::process::last_words;
use super::supervisor::Seat;
use super::{ControlPlane, kubeconfig};

/// Time limit for a component to become ready, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A component that has exited this often without becoming ready will not do so. More than one, because a
/// start may race with the exit of an earlier process.
const DEATHS_MAX: u32 = 3;

/// Poll interval: starts take seconds.
const PAUSE: Duration = Duration::from_millis(50);

/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How to check one component.
pub(super) struct Probe {
    component: Component,
    client: kube::Client,
}

/// The probe for a component. etcd requires the API server's certificate, the others ours.
pub(super) async fn probe(component: Component, plane: &ControlPlane) -> Result<Probe, Error> {
    let client = match component {
        Component::ApiServer => plane.client.clone(),
        Component::Etcd | Component::ControllerManager | Component::Scheduler => {
            let (authority, name) = match component {
                Component::Etcd => (Authority::Etcd, "etcd-client"),
                _ => (Authority::Api, "admin"),
            };
            let authority = plane.pki.files(authority.file()).certificate;
            let port = plane.ports.of(component);
            let text = kubeconfig::text(port, &authority, &plane.pki.files(name))?;
            kubeconfig::client(&text).await?
        }
    };
    Ok(Probe { component, client })
}

impl Probe {
    /// Whether the component reports that it is healthy.
    pub(super) async fn ask(&self) -> bool {
        let request = hyper::Request::get(self.component.health_path()).body(Vec::new());
        let Ok(request) = request else { return false };
        let answer = tokio::time::timeout(TIMEOUT, self.client.request_text(request)).await;
        match answer {
            // etcd responds with JSON that says false if it has no leader.
            Ok(Ok(text)) => !text.contains("\"health\":\"false\""),
            Ok(Err(_)) | Err(_) => false,
        }
    }
}

/// Waits for the default service account, without which the API server rejects pods. It also shows that the
/// controllers work.
pub(super) async fn wait_for_service_account(
    client: &kube::Client,
    seat: &Seat,
) -> Result<(), Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let begun = Instant::now();
    // The API server may be restarting.
    while !matches!(accounts.get_opt("default").await, Ok(Some(_))) {
        check_patience(seat, begun)?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Polls until the component is ready.
pub(super) async fn wait(probe: &Probe, seat: &Seat) -> Result<(), Error> {
    let begun = Instant::now();
    while !probe.ask().await {
        check_patience(seat, begun)?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Fails if waiting is hopeless.
fn check_patience(seat: &Seat, begun: Instant) -> Result<(), Error> {
    let component = seat.component;
    let log = seat.state.log(component);
    if seat.deaths() >= DEATHS_MAX {
        let last = last_words(&log);
        if last.contains("no space left on device") {
            return Err(Error::DiskFull(seat.state.root().to_owned()));
        }
        return Err(Error::Dies { component, log, last });
    }
    if begun.elapsed() > PATIENCE {
        let (seconds, last) = (PATIENCE.as_secs(), last_words(&log));
        return Err(Error::NotReady { component, seconds, log, last });
    }
    Ok(())
}
