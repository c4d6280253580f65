//! Why a call got no answer.

use std::io;
use std::time::Duration;

use model::NodeId;

use super::endpoint::Endpoint;
use super::tls::TlsError;
use crate::proto::{ApiId, ConnectionError, Malformed, Unsupported};

/// What is known of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was not carried out.
    NotDone,
    /// It may have been carried out: look before doing anything else.
    Unknown,
}

/// No answer came. What Kafka itself said no to is an error of the call in question.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No node could be reached before the time was over.
    #[error("{api}: cannot connect to {endpoint}")]
    Connect {
        /// The request.
        api: ApiId,
        /// The node tried last.
        endpoint: Endpoint,
        /// Why not.
        #[source]
        source: ConnectError,
    },
    /// The request was sent, and no answer came in time.
    #[error("{api}: no answer from {endpoint} within {} s", waited.as_secs_f32())]
    Expired {
        /// The request.
        api: ApiId,
        /// The node asked.
        endpoint: Endpoint,
        /// How long was waited.
        waited: Duration,
    },
    /// The connection ended between request and answer.
    #[error("{api}: the connection to {endpoint} was lost")]
    Lost {
        /// The request.
        api: ApiId,
        /// The node asked.
        endpoint: Endpoint,
        /// How it ended.
        #[source]
        source: LinkError,
    },
    /// The node does not serve the request.
    #[error("{api}: {endpoint} does not serve it")]
    Unsupported {
        /// The request.
        api: ApiId,
        /// The node asked.
        endpoint: Endpoint,
        /// What it serves.
        #[source]
        source: Unsupported,
    },
    /// The request could not be written, or the answer could not be read.
    #[error("{api}: the message to or from {endpoint} is not readable")]
    Malformed {
        /// The request.
        api: ApiId,
        /// The node asked.
        endpoint: Endpoint,
        /// Whether it was the answer.
        answered: bool,
        /// What is wrong.
        #[source]
        source: Malformed,
    },
    /// The answer could be read, but says what cannot be.
    #[error("{api}: the answer makes no sense")]
    Answer {
        /// The request.
        api: ApiId,
        /// What is wrong.
        #[source]
        source: Malformed,
    },
    /// The cluster does not know the node that the request is for.
    #[error("{api}: the cluster has no node {node} among its {kind}")]
    NoSuchNode {
        /// The request.
        api: ApiId,
        /// The node.
        node: NodeId,
        /// Brokers or controllers.
        kind: &'static str,
    },
    /// Which node the request is for could not be found out, so it was not sent.
    #[error("{api}: cannot find the node to ask")]
    Locate {
        /// The request.
        api: ApiId,
        /// Why not.
        #[source]
        source: Box<CallError>,
    },
    /// The cluster has no active controller, or a partition no leader, for as long as we waited.
    #[error("{api}: there is no {what} to ask")]
    NoLeader {
        /// The request.
        api: ApiId,
        /// What is missing.
        what: &'static str,
    },
}

impl CallError {
    /// Whether one side does not trust the other's certificate. No repetition changes that.
    #[must_use]
    pub fn is_distrust(&self) -> bool {
        match self {
            CallError::Connect { source, .. } => source.is_distrust(),
            CallError::Lost { source, .. } => source.is_distrust(),
            CallError::Locate { source, .. } => source.is_distrust(),
            CallError::Expired { .. }
            | CallError::Unsupported { .. }
            | CallError::Malformed { .. }
            | CallError::Answer { .. }
            | CallError::NoSuchNode { .. }
            | CallError::NoLeader { .. } => false,
        }
    }

    /// Whether the call may have been carried out.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            CallError::Expired { .. } | CallError::Lost { .. } => Outcome::Unknown,
            CallError::Malformed { answered: true, .. } | CallError::Answer { .. } => {
                Outcome::Unknown
            }
            CallError::Malformed { answered: false, .. }
            | CallError::Connect { .. }
            | CallError::Unsupported { .. }
            | CallError::NoSuchNode { .. }
            | CallError::Locate { .. }
            | CallError::NoLeader { .. } => Outcome::NotDone,
        }
    }
}

/// How an open connection ended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LinkError {
    /// The peer closed it.
    #[error("the node closed it")]
    Closed,
    /// The network failed.
    #[error("{message}")]
    Io {
        /// As the operating system says.
        message: String,
    },
    /// TLS failed after its handshake: a node that does not trust our certificate says so then.
    #[error("TLS failed: {message}")]
    Tls {
        /// As the TLS library says.
        message: String,
        /// Whether it is about who is trusted, and not about what was sent.
        distrust: bool,
    },
    /// The peer broke the protocol.
    #[error(transparent)]
    Protocol(#[from] ConnectionError),
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            _ if closed(&error) => LinkError::Closed,
            // What rustls says comes as this kind; the operating system has no use for it.
            io::ErrorKind::InvalidData => {
                LinkError::Tls { message: error.to_string(), distrust: is_distrust(&error) }
            }
            _ => LinkError::Io { message: error.to_string() },
        }
    }
}

impl LinkError {
    fn is_distrust(&self) -> bool {
        match self {
            LinkError::Tls { distrust, .. } => *distrust,
            LinkError::Closed | LinkError::Io { .. } | LinkError::Protocol(_) => false,
        }
    }
}

/// Why a connection was not made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The host's name has no address.
    #[error("its name cannot be resolved")]
    Resolve(#[source] io::Error),
    /// The host has no address at all.
    #[error("its name has no address")]
    NoAddress,
    /// Nothing listens there, or there is no route.
    #[error("{address} does not accept connections")]
    Tcp {
        /// The address tried last.
        address: std::net::SocketAddr,
        /// As the operating system says.
        #[source]
        source: io::Error,
    },
    /// TLS cannot be spoken with that host.
    #[error("TLS is not possible")]
    TlsSetup(#[source] Box<TlsError>),
    /// The TLS handshake failed: usually one side does not trust the other's certificate.
    #[error("the TLS handshake failed")]
    Tls(#[source] io::Error),
    /// The peer closed or failed during the handshake of the Kafka protocol.
    #[error("the handshake failed")]
    Handshake(#[source] LinkError),
    /// The operating system has no randomness to give, without which nothing here is safe.
    #[error("the operating system provides no random numbers")]
    NoRandomness,
    /// It took too long.
    #[error("it took longer than {} s", waited.as_secs_f32())]
    Expired {
        /// How long was waited.
        waited: Duration,
    },
}

impl ConnectError {
    fn is_distrust(&self) -> bool {
        match self {
            ConnectError::Tls(error) => is_distrust(error),
            ConnectError::Handshake(error) => error.is_distrust(),
            ConnectError::Resolve(_)
            | ConnectError::NoAddress
            | ConnectError::Tcp { .. }
            | ConnectError::TlsSetup(_)
            | ConnectError::NoRandomness
            | ConnectError::Expired { .. } => false,
        }
    }

    /// Whether trying again can help. Who is not trusted or not known now is not trusted or known in
    /// a second either.
    pub(super) fn passing(&self) -> bool {
        match self {
            ConnectError::Resolve(_)
            | ConnectError::NoAddress
            | ConnectError::Tcp { .. }
            | ConnectError::Expired { .. } => true,
            ConnectError::TlsSetup(_) | ConnectError::NoRandomness => false,
            // A node that is going down or coming up closes connections at any point.
            ConnectError::Tls(error) => error.kind() != io::ErrorKind::InvalidData,
            ConnectError::Handshake(LinkError::Closed | LinkError::Io { .. }) => true,
            ConnectError::Handshake(LinkError::Tls { .. } | LinkError::Protocol(_)) => false,
        }
    }
}

/// Whether we do not trust the peer's certificate, or it said that it does not trust ours.
fn is_distrust(error: &io::Error) -> bool {
    use rustls::AlertDescription as Alert;
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(_)) => true,
        Some(rustls::Error::AlertReceived(alert)) => matches!(
            alert,
            Alert::NoCertificate
                | Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::AccessDenied
                | Alert::CertificateRequired
        ),
        // Of all else that TLS can fail of, none says that a peer is not trusted.
        _ => false,
    }
}

/// Whether the peer closed the connection. Which of these it is depends on who wrote last.
fn closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotConnected
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_wrote_last_a_closed_connection_is_closed() {
        for kind in [
            io::ErrorKind::UnexpectedEof,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::NotConnected,
        ] {
            assert!(matches!(LinkError::from(io::Error::from(kind)), LinkError::Closed), "{kind}");
        }
    }

    #[test]
    fn who_is_not_trusted_is_told_from_who_speaks_no_tls() {
        let tls = |error: rustls::Error| io::Error::new(io::ErrorKind::InvalidData, error);
        let alert = |alert| tls(rustls::Error::AlertReceived(alert));
        let unknown = rustls::CertificateError::UnknownIssuer;
        let rows = [
            (tls(rustls::Error::InvalidCertificate(unknown)), true),
            (alert(rustls::AlertDescription::CertificateUnknown), true),
            (alert(rustls::AlertDescription::BadCertificate), true),
            (alert(rustls::AlertDescription::InternalError), false),
            (tls(rustls::Error::HandshakeNotComplete), false),
            (io::Error::from(io::ErrorKind::InvalidData), false),
            (io::Error::from(io::ErrorKind::ConnectionReset), false),
        ];
        for (error, expected) in rows {
            let (text, link) = (error.to_string(), LinkError::from(error));
            assert_eq!(ConnectError::Handshake(link).is_distrust(), expected, "{text}");
        }
    }

    #[test]
    fn a_network_that_fails_may_work_again_and_a_peer_that_is_not_trusted_does_not() {
        let handshake = |kind| ConnectError::Handshake(io::Error::from(kind).into()).passing();
        let tls = |kind| ConnectError::Tls(io::Error::from(kind)).passing();
        for kind in [io::ErrorKind::BrokenPipe, io::ErrorKind::HostUnreachable] {
            assert!(handshake(kind) && tls(kind), "{kind}");
        }
        assert!(!handshake(io::ErrorKind::InvalidData) && !tls(io::ErrorKind::InvalidData));
    }
}
