//! The server of `gregor console`: pages in the binary, live by server-sent events.
//!
//! 1. It listens on loopback only. Without the token that is printed at the start nobody gets anything ([`gate`]).
//! 2. It only reads, and it does not know how: what is observed comes from a [`source::Source`].
//! 3. One observation per cluster and interval is shared by all open pages; none is made while no page is open
//!    ([`feed`]).
//! 4. A part of a page is sent only when it has changed.
//!
//! It must not call any other host, decide anything, or build sentences: pages show what the commands print.

mod assets;
mod feed;
mod gate;
mod http;
pub mod page;
pub mod source;

pub use http::Console;
