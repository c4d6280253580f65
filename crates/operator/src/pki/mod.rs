//! Certificate authorities and the certificates that they sign: keys, PEM texts and what is in them.
//!
//! Nothing here reads or writes Kubernetes. What is stored comes in as the content of Secrets, what
//! `control::certificates` decides is made, and what is to be stored goes out the same way. The shell
//! writes it in this order, and starts pods last:
//!
//! 1. the keys of an authority, 2. its certificates, 3. the trust bundle, 4. the certificates of nodes.
//!
//! A write replaces the whole Secret (an annotation of a user is taken away by leaving it out), with
//! the resource version that was read. No key is ever in a message or in what `Debug` shows.

pub mod authority;
mod certificate;
mod issue;
pub mod leaf;
pub mod names;
mod pkcs12;
pub mod user;

pub use issue::{IssueError, Signer};
pub use objects::SecretContent;
pub use pkcs12::Pkcs12Error;

/// The time, and whether it is one at which pods may be restarted for a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// Seconds since 1970.
    pub now: i64,
    /// True where no maintenance windows are set.
    pub window_open: bool,
}
