//! What can go wrong with the endpoint, and what it refuses to do.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// Why the endpoint could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address could not be listened on.
    #[error("the node's endpoint cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A certificate or key could not be read.
    #[error("{} could not be read as PEM", path.display())]
    ReadPem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    /// The certificate of the authority for clients cannot be used.
    #[error("the authority in {} cannot be used to check clients", path.display())]
    ClientAuthority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: rustls::server::VerifierBuilderError,
    },
    /// The certificates and keys do not make a server.
    #[error("the certificate and key in {} cannot be served with", path.display())]
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
    /// The container does not run.
    #[error("container {container:?} of pod {pod:?} does not run")]
    NotRunning {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// The command could not be prepared.
    #[error("the command could not be prepared")]
    Prepare(#[source] io::Error),
}

/// Why a request is answered with an error: the sentence is what `kubectl` shows.
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
    #[error("the query parameter {0} cannot be understood")]
    BadParameter(&'static str),
    #[error("the log of container {container:?} could not be read")]
    ReadLog {
        container: String,
        #[source]
        source: io::Error,
    },
    #[error("a terminal cannot be had here; leave out --tty")]
    NoTerminal,
    #[error("no command was given")]
    NoCommand,
    #[error("commands are run over WebSockets only; use kubectl 1.31 or newer")]
    NoWebSocket,
    #[error("{}", chain(.0))]
    Exec(ExecError),
    #[error("the command could not be started: {0}")]
    Spawn(io::Error),
    #[error("only the API server is served here")]
    Stranger,
}

/// An error with its causes, for those who see nothing but the sentence.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
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
