//! Pinned tools that tests run, which `tools/prepare` installs; and skips.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of a pinned tool; its programs are in `bin`.
///
/// # Panics
/// If `tools/prepare test` has not installed it.
#[must_use]
pub fn tool(name: &str) -> PathBuf {
    let prepare = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/prepare");
    let output = Command::new(&prepare).args(["path", name]).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {}: {error}", prepare.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end());
    assert!(folder.exists(), "{} does not exist; run tools/prepare test", folder.display());
    folder
}

/// Reports that this machine cannot run a test. `make test` counts it, and fails unless the repository lists
/// the skip.
///
/// # Panics
/// If the report cannot be written: a skip must not go unnoticed.
pub fn skip(name: &str, why: &str) {
    eprintln!("skipped: {name}: {why}");
    if let Some(file) = std::env::var_os("GREGOR_TEST_SKIPS") {
        let opened = OpenOptions::new().create(true).append(true).open(file);
        let written =
            opened.and_then(|mut file| file.write_all(format!("{name}\t{why}\n").as_bytes()));
        written.expect("cannot write to the file named by GREGOR_TEST_SKIPS");
    }
}
