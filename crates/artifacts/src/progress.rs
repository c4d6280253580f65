//! What a person who waits for a download gets to know.

use std::path::Path;

use crate::version::KafkaVersion;

/// One thing that happened while something is fetched.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Another process fetches the same version; we wait for it to end.
    Waiting {
        /// The version that both want.
        version: &'a KafkaVersion,
    },
    /// The home in the cache is not whole and is fetched again.
    Damaged {
        /// The home.
        root: &'a Path,
        /// What is wrong with it.
        reason: &'a str,
    },
    /// Maven was started.
    Resolving {
        /// The version asked for.
        version: &'a KafkaVersion,
    },
    /// Maven has downloaded one more file (its own plug-ins are among them).
    Downloaded {
        /// How many so far.
        count: usize,
        /// The file's name.
        file: &'a str,
    },
    /// The jars are read and hashed.
    Verifying {
        /// How many there are.
        jars: usize,
    },
}

/// Somebody who wants to know how a download goes.
pub trait Progress {
    /// Called for every event, in order, from the thread that fetches.
    fn report(&self, event: Event<'_>);
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _event: Event<'_>) {}
}
