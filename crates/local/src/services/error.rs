//! What can go wrong with services, one variant for each thing that was attempted.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why something about a service could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ServicesError {
    /// An address could not be listened on.
    #[error("{address} cannot be listened on: {source}; it is tried again")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said. It is part of the sentence because that is all an event shows.
        source: io::Error,
    },
    /// The hosts file could not be written.
    #[error("the hosts file {} could not be written", path.display())]
    WriteHosts {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The status of a load balancer could not be written.
    #[error("the address of the load balancer {service} could not be written to its status")]
    WriteIngress {
        /// Namespace and name.
        service: String,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
}
