//! `check`: what every commit must pass, within three minutes and without Java or a network.
//!
//! The cheap steps come first, so that most mistakes are told within seconds.

use anyhow::Result;

use crate::run::{Line, Run};
use crate::tidy::table::{CRATES, Crate, Kind};
use crate::{root, tidy, tools};

/// Runs all checks.
pub(crate) fn run() -> Result<()> {
    let mut run = Run::new("check");
    steps(&mut run)?;
    run.finish();
    Ok(())
}

/// The steps, for `test` too, which begins with them.
pub(crate) fn steps(run: &mut Run) -> Result<()> {
    run.step("format", &Line::new("cargo fmt --all -- --check"))?;
    if root().join("fuzz/Cargo.toml").exists() {
        // The fuzz targets are a workspace of their own, which `--all` does not reach.
        run.step(
            "format-fuzz",
            &Line::new("cargo fmt --manifest-path fuzz/Cargo.toml -- --check"),
        )?;
    }
    run.inline("tidy", "cargo xtask tidy", || tidy::run(root(), false))?;
    run.step("clippy", &clippy())?;
    run.step("unit-tests", &Line::new("cargo test --quiet --workspace --lib --bins"))?;
    run.step("pure-tests", &pure_tests())?;
    if tools::has_deny() {
        run.step(
            "deny",
            &Line::new(
                "cargo deny --log-level error check --hide-inclusion-graph bans licenses sources",
            ),
        )?;
    } else {
        run.skip("deny", "cargo-deny is not installed; cargo install --locked cargo-deny");
    }
    Ok(())
}

/// Over all there is, also the long stories.
fn clippy() -> Line {
    Line::new("cargo clippy --workspace --all-targets --features gregor/soak -- -D warnings")
}

/// All tests of the pure crates, with documentation tests. Being built without the rest, each of
/// them must also ask for the features it needs itself.
fn pure_tests() -> Line {
    pure_crates().fold(Line::new("cargo test --quiet"), |line, name| line.arg("-p").arg(name))
}

/// The crates all of whose tests are pure.
pub(crate) fn pure_crates() -> impl Iterator<Item = &'static str> {
    let there =
        |row: &&Crate| row.kind == Kind::Pure && root().join("crates").join(row.name).exists();
    CRATES.iter().filter(there).map(|row| row.name)
}
