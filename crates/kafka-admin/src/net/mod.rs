//! Sockets, TLS, names, connections that are kept, and where each request goes.
//!
//! - [`transport`](self): a byte stream to an endpoint, plain or TLS.
//! - `link`: a task that drives one [`proto::Connection`](crate::proto::Connection).
//! - [`client`](self): which node a request goes to, what is tried again, and when to give up.

mod client;
mod endpoint;
mod error;
mod link;
mod resolve;
mod tls;
mod transport;

pub use client::{Bootstrap, ClientOptions};
pub(crate) use client::{Client, Effect, Route};
pub use endpoint::{Endpoint, InvalidEndpoint};
pub use error::{CallError, ConnectError, LinkError, Outcome};
pub use resolve::{HostTable, Resolve, Resolving, SystemNames};
pub use tls::{Tls, TlsError};
