//! The alerts of `deploy/monitoring`, tested with the `promtool` of a real Prometheus.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod monitoring_support;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use monitoring_support::{repository, rules};

/// A program of Prometheus: from the folder that is named, or from the path.
fn prometheus(name: &str) -> PathBuf {
    if let Some(named) = env::var_os("GREGOR_PROMETHEUS_BIN") {
        return Path::new(&named).join(name);
    }
    let path = env::var_os("PATH").unwrap();
    let mut all = env::split_paths(&path).map(|dir| dir.join(name));
    all.find(|program| program.exists())
        .unwrap_or_else(|| panic!("{name} is missing: run tools/prepare test"))
}

#[test]
fn alerts_fire_when_they_should_and_not_when_all_is_well() {
    let temp = tempfile::tempdir().unwrap();
    let tests = "alerts-test.yaml";
    fs::write(temp.path().join("alerts.json"), rules().to_string()).unwrap();
    fs::copy(repository().join("deploy/monitoring").join(tests), temp.path().join(tests)).unwrap();
    for words in [["check", "rules", "alerts.json"], ["test", "rules", tests]] {
        let mut promtool = Command::new(prometheus("promtool"));
        let output = promtool.args(words).current_dir(temp.path()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success() && said.contains("SUCCESS"), "{words:?}: {said}");
    }
}
