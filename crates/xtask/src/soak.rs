//! `soak`: tests that are too long for `test`, as a list of independent parts.
//!
//! A part that passes on a clean checkout is recorded with the commit in `.config/soak.tsv`, which is
//! committed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::root;
use crate::run::{Line, Run};

/// When each part last passed: name, commit, minutes, separated by tabs.
const RECORD: &str = ".config/soak.tsv";

/// A long test.
struct Part {
    name: &'static str,
    /// Time limit.
    minutes: u32,
    what: &'static str,
    how: How,
}

enum How {
    /// A test program of the crate `gregor`.
    Program(&'static str),
    /// The same, with an operator that is killed after each write.
    Lives(&'static str),
    /// The crash tests of local mode, with many more rounds than in `test`.
    Sweep,
    /// The simulation of the whole system, with this many seeds, in release mode.
    Simulation(u32),
    /// A test program of the crate `gregor`, on nodes with a kubelet and containerd.
    Containers,
    /// `make test` as on a fresh machine.
    FirstMile,
}

/// Limit of all parts except those that build everything first.
const MINUTES: u32 = 40;

#[rustfmt::skip]
const PARTS: &[Part] = &[
    part("admin",           MINUTES, "every admin call on the oldest Kafka",                       How::Program("soak_admin")),
    part("changes",         MINUTES, "settings, versions and failures are rolled out",             How::Program("soak_changes")),
    part("drain",           MINUTES, "a broker is drained, the operator killed after each act",    How::Program("soak_drain")),
    part("e2e",             60,      "images and chart in containers: creation, rolls, scaling, a drained machine", How::Containers),
    part("elastic",         MINUTES, "brokers come and go, a pool takes another's place",          How::Program("real_elastic")),
    part("examples",        MINUTES, "every example becomes a cluster and is deleted",             How::Program("real_clusters")),
    part("fills",           MINUTES, "brokers come and go in one edit, requests by hand",          How::Program("real_rebalance")),
    part("fleet",           MINUTES, "manager, agent and API server of a fleet are killed at random", How::Program("soak_fleet")),
    part("gone",            MINUTES, "brokers that do not answer are drained and leave",           How::Program("soak_gone")),
    part("lives",           MINUTES, "creation, voters and a roll, the operator killed after each act", How::Program("real_lives")),
    part("migration",       MINUTES, "a Strimzi cluster is adopted, its quorum made dynamic",      How::Program("soak_migration")),
    part("monitoring",      MINUTES, "stuck rolls, drains, throttles and quorums fire alerts, which are resolved", How::Program("real_monitoring")),
    part("node",            MINUTES, "nodes on the oldest and newest Kafka, damaged class archives", How::Program("real_node")),
    part("quorum",          MINUTES, "controllers 3 to 5 to 3 to 1 to 3, disks lost",              How::Program("soak_quorum")),
    part("rebalance",       MINUTES, "rebalances interrupted by others, brokers killed",           How::Program("soak_rebalance")),
    part("recovery",        MINUTES, "a lost quorum, a lost key, and everything but the disks lost", How::Program("soak_recovery")),
    part("roles",           MINUTES, "combined to dedicated controllers",                          How::Program("soak_roles")),
    part("roll",            MINUTES, "rolls of nine nodes in racks, one by one and in batches",    How::Program("soak_roll")),
    part("simulation",      MINUTES, "10,000 simulated clusters under edits and faults",           How::Simulation(10_000)),
    part("stuck",           MINUTES, "JVMs of each role are stopped for good and replaced",         How::Program("real_stuck")),
    part("sweep",           MINUTES, "the local environment is killed a hundred times",            How::Sweep),
    part("unready",         MINUTES, "a broker that recovers its logs is waited for", How::Program("soak_unready")),
    part("upgrade",         60,      "an older operator is upgraded, downgraded and stopped by a newer record", How::Program("soak_upgrade")),
    part("users",           MINUTES, "a user is created and deleted, the operator killed after each act", How::Program("real_users")),
    part("lives-elastic",   MINUTES, "brokers come and go, the operator killed after each act",    How::Lives("real_elastic")),
    part("lives-migration", MINUTES, "migration, the operator killed after each act",              How::Lives("soak_migration")),
    part("lives-quorum",    MINUTES, "quorum changes, the operator killed after each act",         How::Lives("soak_quorum")),
    part("lives-roles",     MINUTES, "role changes, the operator killed after each act",           How::Lives("soak_roles")),
    part("first-mile",      75,      "make test on a fresh clone with empty home and caches",      How::FirstMile),
];

const fn part(name: &'static str, minutes: u32, what: &'static str, how: How) -> Part {
    Part { name, minutes, what, how }
}

/// Runs a part, or lists all.
pub(crate) fn run(name: Option<&str>) -> Result<()> {
    let record = fs::read_to_string(root().join(RECORD)).unwrap_or_default();
    let Some(name) = name else {
        print!("{}", list(&parse(&record)));
        return Ok(());
    };
    let Some(part) = PARTS.iter().find(|part| part.name == name) else {
        bail!("there is no part `{name}`:\n{}", list(&parse(&record)));
    };
    let before = head()?;
    let begun = Instant::now();
    let mut run = Run::new("soak");
    run.step(part.name, &part.line())?;
    run.finish();
    let minutes = begun.elapsed().as_secs() / 60;
    match (before, head()?) {
        (Some(before), Some(after)) if before == after => {
            let mut passed = parse(&record);
            passed.insert(part.name.to_owned(), (after, minutes));
            fs::write(root().join(RECORD), render(&passed)).with_context(|| RECORD.to_owned())?;
            println!("soak: recorded in {RECORD}");
        }
        _ => println!("soak: not recorded: the checkout has uncommitted changes"),
    }
    Ok(())
}

impl Part {
    fn line(&self) -> Line {
        // SIGTERM first, so that the test can clean up.
        let line = Line::new("timeout --kill-after=60").arg((self.minutes * 60).to_string());
        // The whole workspace, as in other tasks, to share build results.
        let test = |line: Line, program: &str| {
            let line = line.words("cargo test --workspace --features gregor/soak --test");
            line.arg(program).words("-- --nocapture")
        };
        match self.how {
            How::Program(program) => test(line, program),
            How::Lives(program) => test(line, program).env("GREGOR_TEST_LIVES", "true"),
            How::Sweep => test(line, "real_sweep").env("GREGOR_SWEEP_ROUNDS", "100"),
            How::Simulation(seeds) => line
                .words("cargo test --release --package sim --test whole -- --nocapture")
                .env("GREGOR_SIM_SEEDS", format!("0..{seeds}")),
            How::Containers => line.words("cargo xtask e2e"),
            How::FirstMile => line.arg("tools/first-mile"),
        }
    }
}

type Passed = BTreeMap<String, (String, u64)>;

fn parse(record: &str) -> Passed {
    let row = |line: &str| {
        let mut fields = line.split('\t');
        let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with('#'))?;
        let (commit, minutes) = (fields.next()?, fields.next()?.parse().ok()?);
        Some((name.to_owned(), (commit.to_owned(), minutes)))
    };
    record.lines().filter_map(row).collect()
}

fn render(passed: &Passed) -> String {
    let header = "# The commit at which each part of `make soak` last passed, and its minutes.\n";
    let rows = passed.iter().map(|(name, (commit, m))| format!("{name}\t{commit}\t{m}\n"));
    header.to_owned() + &rows.collect::<String>()
}

fn list(passed: &Passed) -> String {
    let mut text = String::from("parts of make soak (make soak PART=name):\n");
    for part in PARTS {
        let last = match passed.get(part.name) {
            Some((commit, minutes)) => format!("passed at {commit} in {minutes} min"),
            None => "not yet passed".to_owned(),
        };
        let _ = writeln!(text, "  {:<15} {last:<28} {}", part.name, part.what);
    }
    text
}

/// The checked out commit; `None` if anything but the record differs from it.
fn head() -> Result<Option<String>> {
    let git = |words: &str| {
        let output = Line::new("git").words(words).command().output().context("cannot run git")?;
        ensure!(output.status.success(), "git {words} ended with {}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git("status --porcelain")?;
    let clean = changed.lines().all(|line| line.ends_with(RECORD));
    Ok(if clean { Some(git("rev-parse --short=10 HEAD")?) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_long_test_program_is_a_part() {
        let manifest = fs::read_to_string(root().join("crates/gregor/Cargo.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&manifest).unwrap();
        let needs_soak = |test: &&toml::Value| test.get("required-features").is_some();
        let tests = manifest["test"].as_array().unwrap().iter().filter(needs_soak);
        for name in tests.map(|test| test["name"].as_str().unwrap()) {
            let is_it = |part: &&Part| match part.how {
                How::Program(program) => program == name,
                How::Containers => crate::e2e::TESTS == name,
                _ => false,
            };
            assert_eq!(PARTS.iter().filter(is_it).count(), 1, "{name}");
        }
    }

    #[test]
    fn the_record_is_read_as_it_was_written() {
        let mut passed = Passed::new();
        passed.insert("roll".to_owned(), ("0123456789".to_owned(), 12));
        assert_eq!(parse(&render(&passed)), passed);
        let text = list(&passed);
        assert!(text.contains("  roll            passed at 0123456789 in 12 min"), "{text}");
        assert!(text.contains("  drain           not yet passed"), "{text}");
    }
}
