//! `check`: the steps that every commit must pass, within three minutes and without Java or a network.
//!
//! Cheap steps come first, so that most mistakes are reported within seconds.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result};

use crate::run::{Line, Run, remove_file};
use crate::tidy::table::{CRATES, Crate, Kind};
use crate::{console, root, tidy, tools};

/// A checkout of the RustSec advisory database.
const ADVISORY_DB: &str = "GREGOR_ADVISORY_DB";

/// Runs all checks.
pub(crate) fn run() -> Result<()> {
    let mut run = Run::new("check");
    steps(&mut run)?;
    run.finish();
    Ok(())
}

/// The steps, also of `test`, which starts with them.
pub(crate) fn steps(run: &mut Run) -> Result<()> {
    run.step("format", &Line::new("cargo fmt --all -- --check"))?;
    // The fuzz targets are a separate workspace, which `--all` does not include.
    run.step("format-fuzz", &Line::new("cargo fmt --manifest-path fuzz/Cargo.toml -- --check"))?;
    run.inline("tidy", "cargo xtask tidy", || tidy::run(root(), false))?;
    // Before anything is compiled: the program embeds what is built here.
    console::check_steps(run)?;
    run.step("clippy", &clippy())?;
    run.tests("unit-tests", &unit_tests()?)?;
    run.tests("pure-tests", &pure(tools::nextest()?.words("run --status-level fail")))?;
    run.doc_tests("pure-doc-tests", &pure(Line::new("cargo test --doc")))?;
    let deny = tools::deny()?.words("--log-level error");
    let rules = "check --hide-inclusion-graph bans licenses sources";
    run.step("deny", &deny.clone().words(rules))?;
    let Some(database) = env::var_os(ADVISORY_DB).filter(|dir| !dir.is_empty()) else {
        return run.skip("advisories", &format!("{ADVISORY_DB} is not set"));
    };
    link_advisories(Path::new(&database))?;
    run.step("advisories", &deny.words("--offline check advisories"))
}

/// Links a checkout of the advisory database to the path in `deny.toml`.
fn link_advisories(database: &Path) -> Result<()> {
    // The name that cargo-deny derives from the address of the database.
    let link = root().join("target/advisory-dbs/advisory-db-3157b0e258782691");
    let database = database.canonicalize().with_context(|| {
        format!("{ADVISORY_DB} is {}, which does not exist", database.display())
    })?;
    fs::create_dir_all(link.parent().unwrap_or(&link)).context("target/advisory-dbs")?;
    remove_file(&link)?;
    symlink(&database, &link).with_context(|| format!("cannot create {}", link.display()))
}

/// All targets, including the tests of `make soak`.
fn clippy() -> Line {
    Line::new("cargo clippy --workspace --all-targets --features gregor/soak -- -D warnings")
}

/// The unit tests of crates that are not pure; those of the pure crates follow with [`pure`].
fn unit_tests() -> Result<Line> {
    let line = tools::nextest()?.words("run --status-level fail --workspace --lib --bins");
    Ok(pure_crates().fold(line, |line, name| line.arg("--exclude").arg(name)))
}

/// Restricts a command to the pure crates. Built without the rest, each of them must declare the features
/// that it needs.
fn pure(line: Line) -> Line {
    pure_crates().fold(line, |line, name| line.arg("-p").arg(name))
}

/// The crates all of whose tests are pure.
pub(crate) fn pure_crates() -> impl Iterator<Item = &'static str> {
    let there =
        |row: &&Crate| row.kind == Kind::Pure && root().join("crates").join(row.name).exists();
    CRATES.iter().filter(there).map(|row| row.name)
}
