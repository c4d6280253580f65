//! What a person who waits for a download gets to know.

use std::path::Path;
use std::time::Duration;

use crate::version::KafkaVersion;

/// One thing that happened while something is fetched.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Another process fetches the same version; we wait for it to end.
    Waiting {
        /// What both want: a program and its version.
        what: &'a str,
    },
    /// What is in the cache is not whole and is fetched again.
    Damaged {
        /// Its directory.
        root: &'a Path,
        /// What is wrong with it.
        reason: &'a str,
    },
    /// Maven was started.
    Resolving {
        /// The version asked for.
        version: &'a KafkaVersion,
    },
    /// Maven or Go has downloaded one more file (Maven's own plug-ins are among them).
    Downloaded {
        /// How many so far.
        count: usize,
        /// The file's name.
        file: &'a str,
    },
    /// Go builds a program; told at its beginning and after every package.
    Building {
        /// The program.
        program: &'a str,
        /// Which of the programs it is, from 1.
        number: usize,
        /// How many programs are built in all.
        of: usize,
        /// How many packages were compiled for this program so far. Go compiles only what its own
        /// cache does not have.
        packages: usize,
        /// Since the first program was begun.
        elapsed: Duration,
    },
    /// The files are read and hashed.
    Verifying {
        /// How many there are.
        files: usize,
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
