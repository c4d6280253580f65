//! Progress events of a download or build.

use std::path::Path;
use std::time::Duration;

use crate::version::KafkaVersion;

/// A progress event.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Another process gets the same version; waiting for it.
    Waiting {
        /// Program and version.
        what: &'a str,
    },
    /// The cached directory is damaged and is replaced.
    Damaged {
        /// The directory.
        root: &'a Path,
        /// What is wrong with it.
        reason: &'a str,
    },
    /// Maven was started.
    Resolving {
        /// The requested version.
        version: &'a KafkaVersion,
    },
    /// Maven or Go downloaded another file (including Maven's own plug-ins).
    Downloaded {
        /// Files so far.
        count: usize,
        /// Its name.
        file: &'a str,
    },
    /// Go builds a program; reported at the start and after every package.
    Building {
        /// The program.
        program: &'a str,
        /// Its position among the programs, from 1.
        number: usize,
        /// Number of programs.
        of: usize,
        /// Packages compiled for this program so far. Go compiles only what is not in its own cache.
        packages: usize,
        /// Time since the first program was started.
        elapsed: Duration,
    },
    /// Files are read and hashed.
    Verifying {
        /// Number of files.
        files: usize,
    },
}

/// Receives progress events.
pub trait Progress {
    /// Called for every event, in order, on the thread that does the work.
    fn report(&self, event: Event<'_>);
}

/// Discards all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _event: Event<'_>) {}
}
