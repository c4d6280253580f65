//! `gregor balance` on clusters from files, held against what Cruise Control reached on the same.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A cluster, and Cruise Control's best recorded run on it: balancedness and MB moved.
const BARS: [(&str, f64, f64); 4] = [
    ("small-skew", 95.099, 2_996_141.0),
    ("mid-skew", 97.432, 7_316_079.0),
    ("mid-add", 89.871, 3_803_270.0),
    ("mid-remove", 95.099, 3_219_622.2),
];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/balancer").join(name)
}

fn balance(from: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gregor"));
    command.arg("balance").arg("--from").arg(from).args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn plans_are_no_worse_and_move_no_more_than_cruise_control() {
    for (name, balancedness, mb) in BARS {
        let output = balance(&data(name), &["-o", "json"]);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
        let (after, moved) = (&plan["balancednessAfter"], &plan["movedMb"]);
        assert!(after.as_f64().unwrap() >= balancedness, "{name}: {after}");
        assert!(moved.as_f64().unwrap() <= mb, "{name}: {moved}");
        let hard = plan["goals"].as_array().unwrap().iter().filter(|goal| goal["hard"] == true);
        assert!(hard.clone().all(|goal| goal["violationsAfter"] == 0) && hard.count() == 7);
    }
}

#[test]
fn goals_are_met_where_the_moves_allow_it_and_else_their_price_is_shown() {
    for name in ["small-skew", "mid-skew", "mid-add"] {
        let output = balance(&data(name), &["-o", "json"]);
        let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(plan["balancednessAfter"], 100.0, "{name}");
    }
    let said = stderr(&balance(&data("mid-remove"), &["-o", "json"]));
    assert!(said.contains("a balancedness of 100.0 would take "), "{said}");
    assert!(said.contains(" MB more; only leaving brokers are drained"), "{said}");
}

#[test]
fn the_same_input_gives_the_same_plan_and_every_partition_once() {
    let first = balance(&data("small-skew"), &["-o", "csv"]);
    let second = balance(&data("small-skew"), &["-o", "csv"]);
    assert_eq!(first.stdout, second.stdout);
    let text = String::from_utf8(first.stdout).unwrap();
    assert_eq!(text.lines().next(), Some("topic,partition,replicas"));
    assert_eq!(text.lines().count(), 1 + 1010);
}

#[test]
fn brokers_can_be_removed_on_the_command_line() {
    let output = balance(&data("small-skew"), &["--remove", "3", "-o", "csv"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let replicas = text.lines().skip(1).map(|line| line.rsplit(',').next().unwrap());
    assert!(replicas.clone().all(|list| list.split(';').all(|broker| broker != "3")));
}

#[test]
fn the_mode_follows_from_the_brokers_unless_it_is_given() {
    for (name, mode) in [("mid-add", "add-brokers"), ("mid-remove", "remove-brokers")] {
        let followed = balance(&data(name), &["-o", "csv"]);
        let given = balance(&data(name), &["--mode", mode, "-o", "csv"]);
        assert!(given.status.success(), "{}", stderr(&given));
        assert!(given.stdout == followed.stdout, "{name}");
    }
    // All alike: the brokers that the file has as to be removed stay.
    let full = balance(&data("mid-remove"), &["--mode", "full", "-o", "json"]);
    let plan: Value = serde_json::from_slice(&full.stdout).unwrap();
    assert!(plan["movedMb"].as_f64().unwrap() < BARS[3].2, "{}", plan["movedMb"]);

    let nobody = balance(&data("small-skew"), &["--mode", "remove-brokers"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(stderr(&nobody).contains("to be removed: name some with --remove"), "{nobody:?}");
    for (wrong, words) in [
        (&["--mode", "full", "--add", "1"][..], "omit --add and --remove"),
        (&["--mode", "add-brokers", "--remove", "1"], "omit --remove"),
        (&["--mode", "remove-brokers", "--add", "1"], "omit --add"),
        (&["--mode", "remove-disks", "--volumes", "1:/d"], "needs --bootstrap"),
        (&["--volumes", "1:/d"], "go together"),
        (&["--mode", "remove-disks", "--volumes", "1"], "\"1\" is not BROKER:DIR"),
    ] {
        let output = balance(&data("small-skew"), wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(stderr(&output).contains(words), "{wrong:?}: {}", stderr(&output));
    }
}

#[test]
fn a_table_shows_goals_and_brokers() {
    let output = balance(&data("small-skew"), &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["Balancedness:  50.4 -> 100.0", "RackAwareGoal", "669 violations", "BROKER"] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
}

#[test]
fn a_cluster_runs_or_is_described_by_files() {
    let both = balance(&data("small-skew"), &["--bootstrap", "kafka:9092"]);
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
    let mut neither = Command::new(env!("CARGO_BIN_EXE_gregor"));
    let neither = neither.arg("balance").env_remove("GREGOR_BOOTSTRAP").output().unwrap();
    assert_eq!(neither.status.code(), Some(2));
    assert!(stderr(&neither).contains("no cluster given"), "{}", stderr(&neither));
}

#[test]
fn input_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = balance(dir.path(), &[]);
    assert!(!missing.status.success() && stderr(&missing).contains("brokers.csv"));

    let header =
        "id,rack,cpu_capacity_pct,nw_in_capacity_kbps,nw_out_capacity_kbps,disk_capacity_mb,state";
    let brokers = |lines: &str| {
        std::fs::write(dir.path().join("brokers.csv"), format!("{header}\n{lines}\n")).unwrap();
    };
    brokers("0,a,100,100,100,100,asleep");
    let state = stderr(&balance(dir.path(), &[]));
    assert!(state.contains("line 2") && state.contains("\"asleep\" is not alive"), "{state}");

    brokers("0,a,100,100,100,100,alive");
    let partitions =
        "topic,partition,replicas,cpu_pct,nw_in_kbps,nw_out_kbps,disk_mb\nt,0,7,1,1,1,1\n";
    std::fs::write(dir.path().join("partitions.csv"), partitions).unwrap();
    let unknown = stderr(&balance(dir.path(), &[]));
    assert!(unknown.contains("broker 7, which is not listed"), "{unknown}");

    let goals = balance(&data("small-skew"), &["--goals", "NoSuch"]);
    assert_eq!(goals.status.code(), Some(2));
    let soft = stderr(&balance(&data("small-skew"), &["--goals", "DiskUsageDistribution"]));
    assert!(soft.contains("hard goals are missing: RackAwareGoal"), "{soft}");
    let nobody = stderr(&balance(&data("small-skew"), &["--remove", "99"]));
    assert!(nobody.contains("broker 99 is not in"), "{nobody}");
}

#[test]
fn what_cannot_be_met_is_said_and_fails() {
    let everyone = "0,1,2,3,4,5,6,7,8,9";
    let output = balance(&data("small-skew"), &["--remove", everyone]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("do not fit on the remaining brokers"), "{}", stderr(&output));
}
