//! Implements the host behind the endpoint for logs and commands.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::layout::Layout;
use super::options::Options;
use super::probe::ask::Entrance;
use super::server::{ExecError, Host, Server, ServerError, ServerOptions};
use super::shim::{self, AttemptDir};

/// The endpoint and its state.
#[derive(Debug, Default)]
pub(crate) struct Served {
    pub(crate) pods: Arc<Mutex<BTreeMap<String, Arc<Pod>>>>,
    pub(crate) port: u16,
}

/// Starts the endpoint, if the options contain certificates.
pub(crate) async fn serve(
    options: &Options,
    tasks: &mut JoinSet<()>,
) -> Result<Served, ServerError> {
    let mut served = Served::default();
    let Some(tls) = options.serving.clone() else {
        return Ok(served);
    };
    let layout = Layout::new(options.dir.clone());
    let logs = layout.all_logs();
    let host = PodHost { pods: Arc::clone(&served.pods), layout, shim: options.shim.clone() };
    let address = SocketAddr::from((options.node_ip, options.kubelet_port));
    let server = Server::bind(ServerOptions { address, tls, logs }, Arc::new(host)).await?;
    served.port = server.address().port();
    tasks.spawn(async move { match server.run().await {} });
    Ok(served)
}

struct PodHost {
    pods: Arc<Mutex<BTreeMap<String, Arc<Pod>>>>,
    layout: Layout,
    shim: Vec<OsString>,
}

impl PodHost {
    /// The running attempt of a container.
    fn running(&self, pod: &Pod, container: &str) -> Option<AttemptDir> {
        let dir = self.layout.pod(pod.metadata.uid.as_deref()?);
        let newest = dir.attempts(container).pop()?;
        Some(dir.attempt(container, newest)).filter(shim::is_held)
    }
}

impl Host for PodHost {
    fn pods(&self) -> Vec<Pod> {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        pods.values().map(|pod| (**pod).clone()).collect()
    }

    fn exec(&self, pod: &Pod, container: &str, command: &[String]) -> Result<Command, ExecError> {
        let dir = self.running(pod, container).ok_or_else(|| ExecError::NotRunning {
            pod: pod.metadata.name.clone().unwrap_or_default(),
            container: container.to_owned(),
        })?;
        Ok(Entrance { shim: self.shim.clone(), dir }.command(command))
    }
}
