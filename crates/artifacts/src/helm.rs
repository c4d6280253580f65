//! Helm, with which tests read the chart: built once by Go from a module that pins every source by its hash.
//!
//! It is no part of what Gregor runs; a user's own Helm installs the chart.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::cache::Slot;
use crate::go::{self, Build, Step};
use crate::kubernetes::{is_executable_file, minimum_go};
use crate::manifest::Layout;
use crate::{Environment, Event, FetchError, Progress};

/// The version that is built.
pub const VERSION: &str = "3.22.0";

const LAYOUT: Layout = Layout {
    header: "gregor helm, layout 1",
    noun: "program",
    names: |_| Ok(vec!["helm".to_owned()]),
    is_whole: is_executable_file,
};

const MODULE: [(&str, &str); 3] = [
    ("go.mod", include_str!("../helm/go.mod")),
    ("go.sum", include_str!("../helm/go.sum")),
    ("tools.go", include_str!("../helm/tools.go")),
];

/// The program, which is built if it is not in the cache. That takes a minute or two.
pub fn ensure(environment: &Environment, progress: &dyn Progress) -> Result<PathBuf, FetchError> {
    let slot = Slot {
        dir: environment.cache("helm")?,
        what: &format!("Helm {VERSION}"),
        version: VERSION,
        layout: &LAYOUT,
        progress,
    };
    let root = slot.ensure(|| {
        let go = go::find(environment, minimum_go())?;
        slot.fresh_staging(|staging| build(&go, staging, progress))
    })?;
    Ok(root.join("helm"))
}

fn build(go: &go::Go, staging: &Path, progress: &dyn Progress) -> Result<(), FetchError> {
    let source = staging.join("source");
    fs::create_dir(&source).map_err(FetchError::io("create", &source))?;
    for (name, text) in MODULE {
        let file = source.join(name);
        fs::write(&file, text).map_err(FetchError::io("write", &file))?;
    }
    let begun = Instant::now();
    let (mut downloads, mut packages) = (0, 0);
    let build = Build {
        module: &source,
        package: "helm.sh/helm/v3/cmd/helm",
        linker_flags: &format!("-s -w -X helm.sh/helm/v3/internal/version.version=v{VERSION}"),
        output: &staging.join("helm"),
    };
    go.build(&build, |step| match step {
        Step::Downloading(module) => {
            downloads += 1;
            progress.report(Event::Downloaded { count: downloads, file: module });
        }
        Step::Compiled => {
            packages += 1;
            let elapsed = begun.elapsed();
            let (program, number, of) = ("helm", 1, 1);
            progress.report(Event::Building { program, number, of, packages, elapsed });
        }
    })?;
    fs::remove_dir_all(&source).map_err(FetchError::io("remove", &source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_the_module_pins() {
        let (_, text) = MODULE[0];
        assert!(text.contains(&format!("helm.sh/helm/v3 v{VERSION}")));
    }
}
