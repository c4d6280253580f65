//! A decision that only tests call is none: every public function of `control` is called by production code.
//!
//! The compiler does not see this, because tests and other crates may call what is public. Names are compared, not
//! paths, so a dead function with a common name is not found; a live one is never reported.

use std::collections::BTreeMap;

use super::Finding;
use super::repository::Repository;
use super::rust;

/// Where decisions are made.
const DECISIONS: &str = "crates/control/src/";
/// Crates that are for development only.
const DEVELOPMENT: [&str; 2] = ["crates/testkit/", "crates/xtask/"];
/// Modules of `control` that only its tests compile.
const TEST_FILES: [&str; 4] = ["tests.rs", "samples.rs", "laws.rs", "sim.rs"];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let sources = repository.rust().filter(|(path, _)| is_production(path));
    let sources: Vec<(&str, String)> =
        sources.map(|(path, text)| (path, production(&rust::code(text)))).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, code) in &sources {
        for word in code.split(|c| !rust::is_word(c)).filter(|word| !word.is_empty()) {
            *counts.entry(word).or_default() += 1;
        }
    }
    let mut findings = Vec::new();
    for (path, code) in sources.iter().filter(|(path, _)| path.starts_with(DECISIONS)) {
        for at in rust::words(code, "fn") {
            let is_public =
                code[..at].trim_end().trim_end_matches("const").trim_end().ends_with("pub");
            let name = code[at + 2..].trim_start();
            let name = &name[..name.find(|c| !rust::is_word(c)).unwrap_or(name.len())];
            if is_public && counts.get(name).copied().unwrap_or_default() < 2 {
                let message = format!("no production code calls `{name}`");
                findings.push(Finding::new(*path, rust::line_of(code, at), message));
            }
        }
    }
    findings
}

fn is_production(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    path.starts_with("crates/")
        && path.contains("/src/")
        && !DEVELOPMENT.iter().any(|dev| path.starts_with(dev))
        && !file.ends_with("_tests.rs")
        && !TEST_FILES.contains(&file)
}

/// The code before the unit tests of a file.
fn production(code: &str) -> String {
    let tests = code.find("#[cfg(test)]\nmod tests {");
    code[..tests.unwrap_or(code.len())].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_only_tests_call_is_found() {
        let decisions = "pub fn used() {}\npub const fn unused() {}\nfn private() {}\n\
                         #[cfg(test)]\nmod tests {\n    fn t() { unused(); unused(); }\n}\n";
        let repository = Repository::of(&[
            ("crates/control/src/a.rs", decisions),
            ("crates/operator/src/b.rs", "fn run() { used(); }\n"),
            ("crates/control/tests/c.rs", "fn t() { unused(); }\n"),
        ]);
        let found: Vec<_> = check(&repository).into_iter().map(|found| found.to_string()).collect();
        assert_eq!(found, ["crates/control/src/a.rs:2: no production code calls `unused`"]);
    }
}
