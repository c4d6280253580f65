//! Test results, as `cargo nextest` writes them in JUnit format.

use std::time::Duration;

use anyhow::{Context, Result};

/// One test that was run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    /// The test program, such as `gregor::real_clusters` or `control`.
    pub(crate) binary: String,
    /// The name of the test.
    pub(crate) name: String,
    pub(crate) took: Duration,
    pub(crate) passed: bool,
}

/// Parses a report.
pub(crate) fn parse(junit: &str) -> Result<Vec<Case>> {
    let document = roxmltree::Document::parse(junit).context("the JUnit report is not XML")?;
    let suites = document.descendants().filter(|node| node.has_tag_name("testsuite"));
    let mut cases = Vec::new();
    for suite in suites {
        let binary = suite.attribute("name").context("a test suite without a name")?;
        for case in suite.children().filter(|node| node.has_tag_name("testcase")) {
            let seconds = case.attribute("time").unwrap_or("0").parse::<f64>();
            let failed = ["failure", "error"];
            cases.push(Case {
                binary: binary.to_owned(),
                name: case.attribute("name").context("a test case without a name")?.to_owned(),
                took: Duration::from_secs_f64(seconds.context("the duration of a test case")?),
                passed: !case.children().any(|node| failed.iter().any(|f| node.has_tag_name(*f))),
            });
        }
    }
    Ok(cases)
}

/// Parses the summary lines of `cargo test`, for doc tests, which nextest does not run: passed, failed,
/// ignored.
pub(crate) fn summary(output: &str) -> (usize, usize, usize) {
    let mut total = (0, 0, 0);
    for line in output.lines().filter(|line| line.starts_with("test result:")) {
        let number = |what: &str| {
            let part = line.split([';', '.']).find(|part| part.trim().ends_with(what));
            let number =
                part.and_then(|part| part.split_whitespace().next()?.parse::<usize>().ok());
            number.unwrap_or_default()
        };
        total.0 += number("passed");
        total.1 += number("failed");
        total.2 += number("ignored");
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_lists_passed_and_failed_tests() {
        let junit = r#"<?xml version="1.0" encoding="UTF-8"?>
            <testsuites name="nextest-run" tests="2" failures="1" errors="0" time="4.5">
                <testsuite name="gregor::real_up" tests="2" disabled="0" errors="0" failures="1">
                    <testcase name="a::starts" classname="gregor::real_up" time="4.250"></testcase>
                    <testcase name="stops" classname="gregor::real_up" time="0.250">
                        <failure type="test failure">it did not</failure>
                    </testcase>
                </testsuite>
            </testsuites>"#;
        let case = |name: &str, millis, passed| Case {
            binary: "gregor::real_up".to_owned(),
            name: name.to_owned(),
            took: Duration::from_millis(millis),
            passed,
        };
        assert_eq!(
            parse(junit).unwrap(),
            [case("a::starts", 4250, true), case("stops", 250, false)]
        );
        assert!(parse("not XML").is_err());
    }

    #[test]
    fn summaries_of_cargo_test_are_added_up() {
        let output = "running 2 tests\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
            test result: FAILED. 3 passed; 1 failed; 4 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(summary(output), (5, 1, 4));
    }
}
