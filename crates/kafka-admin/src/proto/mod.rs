//! The Kafka wire protocol without a socket and without a clock.
//!
//! A [`Connection`] is fed the bytes that arrived and the time that has passed, and gives back the
//! bytes to send and what happened. Everything that a peer can do wrong is an error of its own here:
//! nothing in this module panics on input, and no length that a peer claims is believed before
//! the bytes for it are there ([`bounded`]).
//!
//! The structs of the messages are those of the `kafka-protocol` crate; they stay inside this crate.

mod api;
mod assignment;
mod bounded;
mod connection;
mod frame;
mod handshake;
mod sasl;
mod versions;

pub(crate) use api::Api;
pub use api::{ApiId, probe, table};
pub(crate) use assignment::assigned;
pub use connection::{CallId, Connection, ConnectionError, Event, Outgoing};
pub use frame::FrameError;
pub use handshake::Handshake;
pub use sasl::{Credentials, SaslError, Secret};
pub(crate) use sasl::{SHA512_BYTES, salted_password};
pub use versions::{Unsupported, Versions};

/// Time as the driver counts it: since an instant of its choice. It never goes back.
pub type Time = std::time::Duration;

/// Bytes that are not what the protocol says they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}: {reason}")]
pub struct Malformed {
    /// Which message it was.
    pub what: &'static str,
    /// What was wrong with it.
    pub reason: String,
}

impl Malformed {
    pub(crate) fn new(what: &'static str, reason: impl std::fmt::Display) -> Self {
        Self { what, reason: reason.to_string() }
    }
}
