//! When certificate authorities and certificates are made, renewed and replaced.
//!
//! Time is passed in as seconds since 1970. Keys are known here by the fingerprints of their public
//! halves only; nothing secret ever comes near a decision.

pub mod authority;
mod authority_words;
pub mod leaf;
mod time;
pub mod windows;

pub use time::{Timing, Validity};

use serde::{Deserialize, Serialize};

/// What was found under a name of a Secret's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Entry<T> {
    /// No such name.
    Missing,
    /// Something that we cannot read.
    Unreadable,
    /// What it says.
    Read(T),
}

impl<T> Entry<T> {
    /// What it says, if it could be read.
    #[must_use]
    pub const fn read(&self) -> Option<&T> {
        match self {
            Self::Read(value) => Some(value),
            Self::Missing | Self::Unreadable => None,
        }
    }
}

/// A Secret that was read. One that could not be read is neither of these: then nothing is decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stored<T> {
    /// The server says that there is none.
    Absent,
    /// What is in it.
    Present(T),
}

/// The fingerprint of a public key. Equal ones are the same key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyId(pub String);
