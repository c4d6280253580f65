//! The tasks that are one command: `bench`, `soak`, `doc`, `clean`.

use std::fs;
use std::io::ErrorKind;

use anyhow::{Context, Result};

use crate::root;
use crate::run::{Line, Run};

/// Runs all benchmarks, which are the programs in `crates/*/benches/`.
pub(crate) fn bench() -> Result<()> {
    let mut run = Run::new("bench");
    let crates = fs::read_dir(root().join("crates")).context("crates/")?;
    let any = crates.flatten().any(|entry| entry.path().join("benches").is_dir());
    if any {
        // Only the benchmarks: without the pattern the unit tests would be built for them too.
        run.step("bench", &Line::new("cargo bench --workspace --bench").arg("*"))?;
    } else {
        run.skip("bench", "no crate has benchmarks");
    }
    run.finish();
    Ok(())
}

/// Long stories on real clusters, and crash tests with many more rounds, that `test` has no time for.
pub(crate) fn soak() -> Result<()> {
    const ROUNDS: u32 = 100;
    const STORIES: [&str; 7] = [
        "soak_changes",
        "soak_drain",
        "soak_migration",
        "soak_quorum",
        "soak_rebalance",
        "soak_roles",
        "soak_roll",
    ];
    let mut run = Run::new("soak");
    // Not with nextest, whose time limits are made for short runs.
    let line = scenario("real_sweep").env("GREGOR_SWEEP_ROUNDS", ROUNDS.to_string());
    run.step("sweep", &line)?;
    for story in STORIES {
        run.step(story, &scenario(story))?;
    }
    // The same with an operator that dies after everything it does.
    for story in ["real_elastic", "soak_roles", "soak_quorum", "soak_migration"] {
        let line = scenario(story).env("GREGOR_TEST_LIVES", "true");
        run.step(&format!("lives-{story}"), &line)?;
    }
    run.finish();
    Ok(())
}

/// One program of tests, with all that it says.
fn scenario(test: &str) -> Line {
    // All of the workspace, as for other tasks: what they have built is not built again.
    let line = Line::new("cargo test --workspace --features gregor/soak --test");
    line.arg(test).arg("--").arg("--nocapture")
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
