//! Java libraries for programs that are run against Gregor, as its users have them.

use std::path::PathBuf;

use crate::cache::Slot;
use crate::manifest::Layout;
use crate::{Environment, FetchError, Progress, jars, java, maven, sums};

/// A directory with `libs`, and nothing else.
const LAYOUT: Layout = Layout { header: "gregor libraries, layout 1", ..jars::LAYOUT };

/// Libraries that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Libraries<'a> {
    /// A name for them, and for their directory in the cache.
    pub name: &'a str,
    /// Changed whenever the pom is.
    pub version: &'a str,
    /// The text of a `pom.xml` that names them.
    pub pom: &'a str,
    /// Pinned SHA-256 sums of all jars: the output of `sha256sum libs/*.jar`.
    pub sums: &'a str,
}

/// Gives the directory that has the jars in `libs`, which Maven fills if there is none. Needs no network
/// afterwards.
///
/// # Errors
/// If they cannot be had.
pub fn ensure(
    environment: &Environment,
    libraries: &Libraries<'_>,
    progress: &dyn Progress,
) -> Result<PathBuf, FetchError> {
    let what = &format!("{} {}", libraries.name, libraries.version);
    let sums = sums::read(what, libraries.sums)?;
    let slot = Slot {
        dir: environment.cache(libraries.name)?,
        what,
        version: libraries.version,
        layout: &LAYOUT,
        sums: Some(&sums),
        progress,
    };
    slot.ensure(|| {
        let java = java::find(environment)?;
        slot.fresh_staging(|staging| {
            maven::copy_libraries(environment, &java, libraries.pom, staging, progress)
        })
    })
}
