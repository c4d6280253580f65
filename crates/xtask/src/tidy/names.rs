//! Annotations and labels are defined once, in `control::annotations` and `api::names`. A literal elsewhere
//! would be missing from the documentation, and could have a typo.

use super::Finding;
use super::repository::Repository;
use super::rust;

/// The definitions.
const LISTS: [&str; 2] = ["crates/control/src/annotations.rs", "crates/api/src/names.rs"];

/// The crates that use them. `local` knows nothing of Kafka.
const CRATES: [&str; 7] =
    ["api", "control", "fleet", "fleet-control", "gregor", "objects", "operator"];

/// Prefixes of the names.
const PREFIXES: [&str; 2] = ["\"strimzi.io/", "\"gregor.io/"];

/// Names that are neither annotations nor labels, and prefixes.
const OTHERS: [(&str, &str); 7] = [
    ("gregor.io/drain", "the finalizer of a pool"),
    ("gregor.io/scram-user", "the finalizer of the Secret of a user"),
    ("strimzi.io/auto-rebalancing", "the finalizer of a KafkaRebalance"),
    ("strimzi.io/topic-operator", "the finalizer of a KafkaTopic"),
    ("gregor.io/operator", "the reporter of Events"),
    ("strimzi.io/", "the prefix that templates may not use"),
    ("gregor.io/", "the prefix that templates may not use"),
];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repository.rust().filter(|(path, _)| is_checked(path)) {
        let text = &text[..text.find("#[cfg(test)]\nmod ").unwrap_or(text.len())];
        for (at, prefix) in PREFIXES.iter().flat_map(|prefix| text.match_indices(prefix)) {
            let rest = &text[at + 1..];
            let name = &rest[..rest.find('"').unwrap_or(prefix.len())];
            if OTHERS.iter().any(|(other, _)| *other == name) {
                continue;
            }
            let message = format!(
                "`{name}` is written out: list it in control::annotations, or in api::names if it is a label"
            );
            findings.push(Finding::new(path, rust::line_of(text, at), message));
        }
    }
    findings
}

fn is_checked(path: &str) -> bool {
    let is_source = |name: &&str| path.starts_with(&format!("crates/{name}/src/"));
    let is_test = path.ends_with("tests.rs") || path.contains("/tests/");
    CRATES.iter().any(is_source) && !is_test && !LISTS.contains(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_written_out_is_found() {
        let source = "const A: &str = \"strimzi.io/pause\";\nconst B: &str = \"gregor.io/drain\";\n\
                      #[cfg(test)]\nmod tests { const C: &str = \"gregor.io/c\"; }\n";
        let found = |path: &str| check(&Repository::of(&[(path, source)])).len();
        assert_eq!(found("crates/operator/src/a.rs"), 1);
        for path in [LISTS[0], "crates/local/src/a.rs", "crates/operator/src/a_tests.rs"] {
            assert_eq!(found(path), 0, "{path}");
        }
    }
}
