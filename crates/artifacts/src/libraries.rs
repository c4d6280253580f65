//! Java libraries of client programs that are tested against Gregor.

use std::path::PathBuf;

use crate::cache::Slot;
use crate::manifest::Layout;
use crate::{Environment, FetchError, Progress, jars, java, maven, sums};

/// A directory with only `libs`.
const LAYOUT: Layout = Layout { header: "gregor libraries, layout 1", ..jars::LAYOUT };

/// A set of libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Libraries<'a> {
    /// Name of the set, and of its cache directory.
    pub name: &'a str,
    /// Changes whenever the pom does.
    pub version: &'a str,
    /// The text of a `pom.xml` with the dependencies.
    pub pom: &'a str,
    /// Pinned SHA-256 checksums of all jars: the output of `sha256sum libs/*.jar`.
    pub sums: &'a str,
}

/// Returns the directory with the jars in `libs`; Maven fills it on first use. No network is needed
/// afterwards.
///
/// # Errors
/// If they cannot be downloaded.
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
