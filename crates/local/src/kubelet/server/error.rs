//! Errors of the node endpoint, and rejected requests.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use host::error::chain;

/// Why the endpoint did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("the node endpoint cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    #[error("cannot parse {} as PEM", path.display())]
    ReadPem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    #[error("the client certificate authority in {} is not valid", path.display())]
    ClientAuthority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: rustls::server::VerifierBuilderError,
    },
    #[error("the certificate and key in {} do not match or are not valid", path.display())]
    Serve {
        /// The certificate.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: rustls::Error,
    },
}

/// Why a command was not run in a container.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("container {container:?} of pod {pod:?} is not running")]
    NotRunning {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
    },
    #[error("cannot prepare the command")]
    Prepare(#[source] io::Error),
}

/// Why a request is rejected; `kubectl` prints the message.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("pod {0:?} does not exist on this node")]
    NoPod(String),
    #[error("container {container:?} not found in pod {pod:?}")]
    NoContainer { pod: String, container: String },
    #[error("previous terminated container {container:?} in pod {pod:?} not found")]
    NoPrevious { pod: String, container: String },
    #[error("container {container:?} in pod {pod:?} is waiting to start: {reason}")]
    Waiting { pod: String, container: String, reason: String },
    #[error("invalid query parameter {0}")]
    BadParameter(&'static str),
    #[error("cannot read the log of container {container:?}")]
    ReadLog {
        container: String,
        #[source]
        source: io::Error,
    },
    #[error("no TTY available; omit --tty")]
    NoTerminal,
    #[error("no command specified")]
    NoCommand,
    #[error("commands require WebSockets; use kubectl 1.31 or newer")]
    NoWebSocket,
    #[error("{}", chain(.0))]
    Exec(ExecError),
    #[error("cannot start the command: {0}")]
    Spawn(io::Error),
    #[error("only the API server may use this endpoint")]
    Stranger,
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::NoPod(_) | Self::NoContainer { .. } => StatusCode::NOT_FOUND,
            Self::Stranger => StatusCode::FORBIDDEN,
            Self::ReadLog { .. } | Self::Exec(_) | Self::Spawn(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            Self::NoPrevious { .. }
            | Self::Waiting { .. }
            | Self::BadParameter(_)
            | Self::NoTerminal
            | Self::NoCommand
            | Self::NoWebSocket => StatusCode::BAD_REQUEST,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status(), self.to_string()).into_response()
    }
}
