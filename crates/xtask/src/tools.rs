//! Finds the pinned tools that `tools/prepare` installed. Tools of the same name elsewhere are never used, so
//! that a task behaves the same on every machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::run::Line;

/// The program of a pinned tool. `tools/prepare` knows its version and directory, and installs it for `task`.
pub(crate) fn program(tool: &str, task: &str) -> Result<String> {
    Ok(program_of(tool, tool, task)?.display().to_string())
}

/// One of several programs of a pinned tool.
pub(crate) fn program_of(tool: &str, program: &str, task: &str) -> Result<PathBuf> {
    let line = Line::new("tools/prepare path").arg(tool);
    let output = line.command().output().with_context(|| format!("cannot run {line}"))?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let folder = String::from_utf8(output.stdout).context("the path of a tool is not UTF-8")?;
    let program = Path::new(folder.trim_end()).join("bin").join(program);
    if !program.exists() {
        bail!("{} does not exist; run tools/prepare {task}", program.display());
    }
    Ok(program)
}

/// `cargo nextest`, which runs tests in parallel with a limit for those that start clusters.
pub(crate) fn nextest() -> Result<Line> {
    Ok(Line::program(program("cargo-nextest", "check")?).arg("nextest"))
}

/// `cargo deny`, which checks licences, sources and advisories of dependencies.
pub(crate) fn deny() -> Result<Line> {
    Ok(Line::program(program("cargo-deny", "check")?))
}

/// `cargo fuzz`, on the pinned toolchain. The sanitizer flags are unstable options of the compiler, which
/// accepts them with this variable; the toolchain ships the sanitizer's runtime.
pub(crate) fn fuzz() -> Result<Line> {
    Ok(Line::program(program("cargo-fuzz", "test")?).arg("fuzz").env("RUSTC_BOOTSTRAP", "1"))
}

/// `cargo mutants`, which changes code to see whether tests notice.
pub(crate) fn mutants() -> Result<Line> {
    Ok(Line::program(program("cargo-mutants", "mutants")?).arg("mutants"))
}
