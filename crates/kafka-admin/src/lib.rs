//! A Kafka admin client over the wire protocol, for what an operator of KRaft clusters needs.
//!
//! - [`proto`]: the protocol without a socket and without a clock.
//! - `net`: sockets, TLS, names, connections that are kept, and where each request goes.
//! - `admin`: the typed calls of [`Admin`]. No struct of the wire leaves this crate.
//!
//! What it must not do: decide. It says what Kafka said, and it says when it does not know.

mod admin;
mod code;
mod net;
pub mod proto;

pub use admin::*;
pub use code::{Code, Refusal};
pub use net::{
    Bootstrap, CallError, ClientOptions, ConnectError, Endpoint, HostTable, InvalidEndpoint,
    LinkError, Outcome, Resolve, Resolving, SystemNames, Tls, TlsError,
};
pub use proto::{Credentials, Secret};
