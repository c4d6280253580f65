//! `test`: the steps of `check`, then all tests with real Kafka and Kubernetes, then a short fuzz run.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::run::{Estimates, Line, Run, remove_file, target};
use crate::{areas, check, rbac, root, skips, tools};

/// The newest and the oldest supported Kafka: an API that both have is in all versions in between.
const KAFKA_VERSIONS: [&str; 2] = ["4.3.1", "4.1.2"];

/// Measured on two cores.
const STEPS: Estimates = &[
    ("format", 2),
    ("tidy", 3),
    ("clippy", 160),
    ("unit-tests", 250),
    ("pure-tests", 70),
    ("pure-doc-tests", 2),
    ("deny", 2),
    ("build", 45),
    ("kafka-4.3.1", 25),
    ("kafka-4.1.2", 20),
    ("compile", 650),
    ("tests", 1830),
    ("doc-tests", 11),
    ("fuzz-answers", 142),
    ("fuzz-connection", 22),
];

/// Long enough to find a shallow crash; long campaigns are run by hand.
const FUZZ_SECONDS_PER_TARGET: u32 = 20;

/// The file in which tests report that this machine cannot run them (`testkit::skip`).
const SKIPS: &str = "GREGOR_TEST_SKIPS";

/// Runs all tests.
pub(crate) fn run() -> Result<()> {
    let mut run = Run::with_estimates("test", STEPS);
    let outcome = steps(&mut run);
    print!("{}", areas::report(run.cases()));
    outcome?;
    run.finish();
    Ok(())
}

fn steps(run: &mut Run) -> Result<()> {
    check::steps(run)?;
    fetch(run)?;
    tests(run)?;
    fuzz(run)
}

/// Downloads Kafka and builds Kubernetes before the tests need them: with progress, and outside of the tests' time
/// limits.
fn fetch(run: &mut Run) -> Result<()> {
    // The whole workspace: `-p gregor` would build shared dependencies with other features.
    run.step("build", &Line::new("cargo build --workspace --bins"))?;
    let gregor = target()?.join("debug/gregor").display().to_string();
    for version in KAFKA_VERSIONS {
        let line = Line::program(&gregor).words("fetch kafka --version").arg(version);
        run.step(&format!("kafka-{version}"), &line)?;
    }
    // Concurrently: Go uses all cores, rustc often only one.
    let kubernetes = Line::program(&gregor).words("fetch kubernetes");
    let compile = tools::nextest()?.words("run --no-run --workspace -E").arg(others());
    run.both(("kubernetes", &kubernetes), ("compile", &compile))
}

/// The tests of the crates that are not pure.
fn others() -> String {
    let pure: Vec<_> = check::pure_crates().map(|name| format!("package({name})")).collect();
    format!("kind(test) - ({})", pure.join(" | "))
}

/// The tests of the crates that are not pure; `check` has run their unit tests.
fn tests(run: &mut Run) -> Result<()> {
    let skips = target()?.join("test-skips.tsv");
    remove_file(&skips)?;
    let line = tools::nextest()?.words("run --workspace -E").arg(others());
    rbac::clear().context("cannot remove the audit logs of earlier runs")?;
    run.tests("tests", &line.env(SKIPS, skips.display().to_string()))?;
    let skipped = fs::read_to_string(&skips).unwrap_or_default();
    skips::parse(&skipped).iter().try_for_each(|(name, why)| run.skip(name, why))?;
    run.inline("rbac", "cargo xtask rbac", rbac::run)?;
    let line = Line::new("cargo test --workspace --doc");
    let line = check::pure_crates().fold(line, |line, name| line.arg("--exclude").arg(name));
    run.doc_tests("doc-tests", &line)
}

fn fuzz(run: &mut Run) -> Result<()> {
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).context("fuzz/Cargo.toml")?;
    for target in fuzz_targets(&manifest).context("fuzz/Cargo.toml")? {
        // New inputs go into the first folder; the run begins with those of both.
        let corpus = format!("fuzz/corpus/{target}");
        fs::create_dir_all(root().join(&corpus)).with_context(|| format!("creating {corpus}"))?;
        let line = tools::fuzz()?
            .words("run --dev")
            .arg(&target)
            .arg(&corpus)
            .arg(format!("fuzz/seeds/{target}"))
            .arg("--")
            .arg(format!("-max_total_time={FUZZ_SECONDS_PER_TARGET}"));
        run.step(&format!("fuzz-{target}"), &line)?;
    }
    Ok(())
}

/// The names of the programs in the manifest of the fuzz targets.
fn fuzz_targets(manifest: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = toml::from_str(manifest)?;
    let bins = manifest.get("bin").and_then(toml::Value::as_array);
    let names = bins.into_iter().flatten().filter_map(|bin| bin.get("name")?.as_str());
    let names: Vec<_> = names.map(str::to_owned).collect();
    ensure!(!names.is_empty(), "there are no fuzz targets");
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_targets_are_the_programs_of_the_manifest() {
        let manifest = "[package]\nname = 'fuzz'\n[[bin]]\nname = 'a'\n[[bin]]\nname = 'b'\n";
        assert_eq!(fuzz_targets(manifest).unwrap(), ["a", "b"]);
        assert!(fuzz_targets("[package]\nname = 'fuzz'\n").is_err());
    }
}
