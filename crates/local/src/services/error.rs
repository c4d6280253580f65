//! Errors of the service proxy, one variant per attempted operation.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a service is not fully served.
#[derive(Debug, thiserror::Error)]
pub enum ServicesError {
    #[error("cannot listen on {address}: {source}; will retry")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Part of the message because that is all an Event shows.
        source: io::Error,
    },
    #[error("cannot write the hosts file {}", path.display())]
    WriteHosts {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    #[error("cannot write the address of the load balancer {service} to its status")]
    WriteIngress {
        /// Namespace and name.
        service: String,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
}
