//! Tasks with one command: `bench`, `doc`, `clean`.

use std::fs;
use std::io::ErrorKind;

use anyhow::Result;

use crate::run::{Line, Run};
use crate::{book, root};

/// Runs all benchmarks, which are the programs in `crates/*/benches/`.
pub(crate) fn bench() -> Result<()> {
    let mut run = Run::new("bench");
    // Without the pattern, unit tests would be built as benchmarks too.
    run.step("bench", &Line::new("cargo bench --workspace --bench").arg("*"))?;
    run.finish();
    Ok(())
}

/// Builds the guide and the documentation of our crates; a broken link fails.
pub(crate) fn doc() -> Result<()> {
    let mut run = Run::new("doc");
    book::build(&mut run)?;
    // Documentation of our own modules may link to private items: its readers have the source.
    let flags = "-D warnings -A rustdoc::private-intra-doc-links";
    let line = Line::new("cargo doc --workspace --no-deps").env("RUSTDOCFLAGS", flags);
    run.step("doc", &line)?;
    run.finish();
    Ok(())
}

/// Removes build results, but not the cache of downloaded programs, which installations of Gregor share.
pub(crate) fn clean() -> Result<()> {
    let mut run = Run::new("clean");
    run.step("clean", &Line::new("cargo clean"))?;
    for folder in ["fuzz/target", "crates/console/web/node_modules", "crates/console/web/build"] {
        run.inline("clean-rest", &format!("rm -rf {folder}"), || {
            match fs::remove_dir_all(root().join(folder)) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
                _ => Ok(()),
            }
        })?;
    }
    run.finish();
    Ok(())
}
