//! `test`: everything of `check`, then all tests against real Kafka and Kubernetes, then a short fuzz run.

use std::env;
use std::fs;

use anyhow::{Context, Result};

use crate::run::{Line, Run};
use crate::{check, root, tools};

/// The newest Kafka, and the oldest that is supported: an API that both have is in all between.
const KAFKA_VERSIONS: [&str; 2] = ["4.3.1", "4.1.2"];

/// Enough to meet a crash near the surface; long campaigns are run by hand.
const FUZZ_SECONDS_PER_TARGET: u32 = 20;

/// A cluster is some JVMs of half a gigabyte each; more at once than this starve each other on a
/// small machine. The same number is in `.config/nextest.toml`.
const CLUSTER_TESTS_AT_ONCE: u32 = 2;

/// Runs all tests.
pub(crate) fn run() -> Result<()> {
    let mut run = Run::new("test");
    check::steps(&mut run)?;
    fetch(&mut run)?;
    tests(&mut run)?;
    fuzz(&mut run)?;
    run.finish();
    Ok(())
}

/// Gets Kafka and Kubernetes before any test asks for them: what takes long is seen, and no test's time
/// limit counts it.
fn fetch(run: &mut Run) -> Result<()> {
    // All programs and not `-p gregor`, which would build shared dependencies with other features.
    run.step("build", &Line::new("cargo build --workspace --bins"))?;
    let own = env::current_exe().context("the path of this program")?;
    let gregor = own.with_file_name("gregor").display().to_string();
    for version in KAFKA_VERSIONS {
        let line = ["fetch", "kafka", "--version", version]
            .into_iter()
            .fold(Line::program(&gregor), Line::arg);
        run.step(&format!("kafka-{version}"), &line)?;
    }
    let line = ["fetch", "kubernetes"].into_iter().fold(Line::program(&gregor), Line::arg);
    run.step("kubernetes", &line)
}

fn tests(run: &mut Run) -> Result<()> {
    // The tests inside of crates, and all of the pure ones, have been run by the check.
    if tools::has_nextest() {
        let pure: Vec<_> = check::pure_crates().map(|name| format!("package({name})")).collect();
        let others = format!("kind(test) - ({})", pure.join(" | "));
        run.step("tests", &Line::new("cargo nextest run --workspace -E").arg(others))?;
    } else {
        run.skip(
            "nextest",
            "not installed, cargo test is slower; cargo install --locked cargo-nextest",
        );
        // cargo test knows no groups, so the limit for clusters holds for all tests.
        let line = Line::new("cargo test --workspace --test *")
            .env("RUST_TEST_THREADS", CLUSTER_TESTS_AT_ONCE.to_string());
        run.step("tests", &line)?;
    }
    run.step("doc-tests", &Line::new("cargo test --quiet --workspace --doc"))
}

fn fuzz(run: &mut Run) -> Result<()> {
    let Ok(manifest) = fs::read_to_string(root().join("fuzz/Cargo.toml")) else {
        run.skip("fuzz", "there is no fuzz/Cargo.toml");
        return Ok(());
    };
    if !tools::has_nightly() {
        run.skip("fuzz", "no nightly toolchain; rustup toolchain install nightly");
        return Ok(());
    }
    if !tools::has_fuzz() {
        run.skip("fuzz", "cargo-fuzz is not installed; cargo install --locked cargo-fuzz");
        return Ok(());
    }
    for target in fuzz_targets(&manifest).context("fuzz/Cargo.toml")? {
        // What a run finds is kept in the first folder; it begins from what is in both.
        let corpus = format!("fuzz/corpus/{target}");
        fs::create_dir_all(root().join(&corpus)).with_context(|| format!("creating {corpus}"))?;
        let line = Line::new("cargo +nightly fuzz run")
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
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_targets_are_the_programs_of_the_manifest() {
        let manifest = "[package]\nname = 'fuzz'\n[[bin]]\nname = 'a'\n[[bin]]\nname = 'b'\n";
        assert_eq!(fuzz_targets(manifest).unwrap(), ["a", "b"]);
    }

    #[test]
    fn as_many_cluster_tests_at_once_with_nextest_as_without() {
        let config = fs::read_to_string(root().join(".config/nextest.toml")).unwrap();
        let config: toml::Table = toml::from_str(&config).unwrap();
        let threads = config["test-groups"]["clusters"]["max-threads"].as_integer();
        assert_eq!(threads, Some(i64::from(CLUSTER_TESTS_AT_ONCE)));
    }
}
