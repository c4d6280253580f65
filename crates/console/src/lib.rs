//! The server of `gregor console`: pages in the binary, live by server-sent events.
//!
//! 1. A console of one user listens on loopback only, and answers only who has the token that is printed at the start.
//!    One that serves users of a cluster answers only who has logged in with a bearer token ([`gate`], [`sessions`]).
//! 2. It does not know how to observe or change a cluster: a [`source::Source`] does, with the rights of the user.
//! 3. One observation per cluster and interval is shared by all open pages of a user ([`feed`]).
//! 4. A part of a page is sent only when it has changed.
//!
//! It must not call any other host, decide anything, or build sentences: pages show what the commands print.

mod assets;
mod feed;
mod gate;
mod history;
mod http;
pub mod page;
mod requests;
mod sessions;
pub mod source;

pub use http::Console;
