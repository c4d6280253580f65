//! The areas of the test suite, and their time budgets in `make test`.
//!
//! A budget is the sum of the durations of all tests of an area; two tests with clusters run at a time.
//! Timings are noisy, so an area over budget is reported and does not fail the run. The table is also in
//! CONTRIBUTING.md.

use std::fmt::Write as _;
use std::time::Duration;

use crate::results::Case;

/// A group of test programs.
#[derive(Debug)]
pub(crate) struct Area {
    pub(crate) name: &'static str,
    /// Budget in minutes.
    pub(crate) minutes: u32,
    /// The programs: a crate, or `crate::program`. The longest match wins.
    programs: &'static [&'static str],
}

/// All areas. A test program without an area fails a test.
#[rustfmt::skip]
pub(crate) const AREAS: &[Area] = &[
    area("decisions",   4, &["model", "placement", "control", "sim", "fleet-control", "api", "objects", "host", "xtask"]),
    area("kafka",       7, &["kafka-admin", "testkit", "gregor::real_cli"]),
    area("node",        4, &["node", "gregor::node", "gregor::real_node"]),
    area("local",       7, &["local", "artifacts", "gregor::real_clients", "gregor::real_kubelet", "gregor::real_sweep",
                             "gregor::real_up"]),
    area("clusters",   20, &["operator", "console", "gregor", "gregor::install", "gregor::monitoring", "gregor::real_clusters", "gregor::real_console", "gregor::real_crds",
                             "gregor::real_edits", "gregor::real_install", "gregor::real_life", "gregor::real_monitoring", "gregor::real_operator", "gregor::real_plan",
                             "gregor::real_rights", "gregor::real_secure", "gregor::real_strimzi_client",
                             "gregor::real_topics", "gregor::real_users", "gregor::real_writes"]),
    area("elasticity", 14, &["gregor::real_cut_off", "gregor::real_elastic", "gregor::real_lives", "gregor::real_roles",
                             "gregor::real_stuck"]),
    area("rebalance",   7, &["operator::real_moves", "gregor::balance", "gregor::real_balance", "gregor::real_rebalance"]),
    area("fleet",       6, &["fleet", "gregor::real_fleet"]),
];

const fn area(name: &'static str, minutes: u32, programs: &'static [&'static str]) -> Area {
    Area { name, minutes, programs }
}

/// The area of a test program, such as `gregor::real_up` or `gregor::bin/gregor`.
pub(crate) fn of(binary: &str) -> Option<&'static Area> {
    let crate_name = binary.split("::").next().unwrap_or(binary);
    let with = |program: &str| AREAS.iter().find(|area| area.programs.contains(&program));
    with(binary).or_else(|| with(crate_name))
}

/// The rows of the table in CONTRIBUTING.md.
#[cfg(test)]
fn rows() -> String {
    let row = |area: &Area| {
        let programs: Vec<_> = area.programs.iter().map(|p| format!("`{p}`")).collect();
        format!("| {} | {} | {} |\n", area.name, area.minutes, programs.join(", "))
    };
    AREAS.iter().map(row).collect()
}

/// Minutes per area, and the ten slowest tests.
pub(crate) fn report(cases: &[Case]) -> String {
    const SLOWEST: usize = 10;
    let minutes = |took: Duration| took.as_secs_f64() / 60.0;
    let mut text =
        String::from("minutes of tests per area (two tests with clusters run at a time):\n");
    for area in AREAS {
        let own =
            cases.iter().filter(|case| of(&case.binary).is_some_and(|of| of.name == area.name));
        let (count, took) = own.fold((0, Duration::ZERO), |(n, sum), c| (n + 1, sum + c.took));
        let over = if minutes(took) > f64::from(area.minutes) { "  OVER BUDGET" } else { "" };
        let (name, budget, took) = (area.name, area.minutes, minutes(took));
        let _ = writeln!(text, "  {name:<11} {took:>5.1} of {budget:>2}  {count:>4} tests{over}");
    }
    let mut slowest: Vec<_> = cases.iter().collect();
    slowest.sort_by_key(|case| (std::cmp::Reverse(case.took), &case.binary, &case.name));
    text.push_str("the slowest tests:\n");
    for case in slowest.iter().take(SLOWEST) {
        let seconds = case.took.as_secs_f64();
        let _ = writeln!(text, "  {seconds:>6.1} s  {} {}", case.binary, case.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::root;

    #[test]
    fn every_test_program_has_an_area() {
        let mut programs = BTreeSet::new();
        for entry in fs::read_dir(root().join("crates")).unwrap() {
            let dir = entry.unwrap().path();
            let name = dir.file_name().unwrap().to_str().unwrap().to_owned();
            for file in fs::read_dir(dir.join("tests")).into_iter().flatten() {
                let path = file.unwrap().path();
                let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
                let is_long = stem.starts_with("soak_") || stem.starts_with("e2e_");
                if path.extension().is_some_and(|e| e == "rs") && !is_long {
                    programs.insert(format!("{name}::{stem}"));
                }
            }
            programs.insert(name);
        }
        let without: Vec<_> = programs.iter().filter(|program| of(program).is_none()).collect();
        assert!(without.is_empty(), "{without:?} are in no area of the test suite");
        // Programs of the crate `gregor` in its own directory are listed one by one.
        let gregor = programs.iter().filter(|program| program.starts_with("gregor::"));
        let without: Vec<_> =
            gregor.filter(|p| !AREAS.iter().any(|a| a.programs.contains(&p.as_str()))).collect();
        assert!(without.is_empty(), "{without:?} are in no area of the test suite");
        let listed = AREAS.iter().flat_map(|area| area.programs);
        let gone: Vec<_> = listed.filter(|program| !programs.contains(**program)).collect();
        assert!(gone.is_empty(), "{gone:?} do not exist");
    }

    #[test]
    fn the_budgets_are_in_the_documentation() {
        let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
        assert!(text.contains(&rows()), "CONTRIBUTING.md lacks these rows:\n{}", rows());
    }

    #[test]
    fn a_report_adds_up_areas_and_names_the_slowest() {
        let case = |binary: &str, name: &str, seconds| Case {
            binary: binary.to_owned(),
            name: name.to_owned(),
            took: Duration::from_secs(seconds),
            passed: true,
        };
        let text = report(&[
            case("control", "quick", 1),
            case("gregor::real_up", "up", 60),
            case("local::real_storage", "stores", 30),
            case("fleet::real_processes", "long", 3600),
        ]);
        assert!(text.contains("  local         1.5 of  7     2 tests\n"), "{text}");
        assert!(text.contains("  fleet        60.0 of  6     1 tests  OVER BUDGET\n"), "{text}");
        let slowest: Vec<_> =
            text.lines().skip_while(|line| !line.starts_with("the slow")).collect();
        assert_eq!(slowest[1], "  3600.0 s  fleet::real_processes long");
        assert_eq!(slowest.len(), 5);
    }
}
