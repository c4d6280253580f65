//! The tasks that are one command: `bench`, `doc`, `clean`.

use std::fs;
use std::io::ErrorKind;

use anyhow::Result;

use crate::root;
use crate::run::{Line, Run};

/// Runs all benchmarks, which are the programs in `crates/*/benches/`.
pub(crate) fn bench() -> Result<()> {
    let mut run = Run::new("bench");
    // Only the benchmarks: without the pattern the unit tests would be built for them too.
    run.step("bench", &Line::new("cargo bench --workspace --bench").arg("*"))?;
    run.finish();
    Ok(())
}

/// Builds the documentation of our own crates; a broken link fails.
pub(crate) fn doc() -> Result<()> {
    let mut run = Run::new("doc");
    let line = Line::new("cargo doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings");
    run.step("doc", &line)?;
    run.finish();
    Ok(())
}

/// Removes what was built here. The cache of downloaded programs is shared with installations of
/// Gregor and is left alone.
pub(crate) fn clean() -> Result<()> {
    let mut run = Run::new("clean");
    run.step("clean", &Line::new("cargo clean"))?;
    run.inline("clean-fuzz", "rm -rf fuzz/target", || {
        match fs::remove_dir_all(root().join("fuzz/target")) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    })?;
    run.finish();
    Ok(())
}
