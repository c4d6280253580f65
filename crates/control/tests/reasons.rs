//! Every reason of a condition is explained in docs/reasons.md, and nothing else is.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::disallowed_methods, reason = "the page is a file of the repository")]

use std::collections::BTreeSet;
use std::path::Path;

use control::cluster::validate::{self, Severity};
use control::conditions::Reason;
use control::{topics, users};

/// The words in the first column of the tables below a title, up to the next one.
fn explained(page: &str, title: &str) -> BTreeSet<String> {
    let after = page.split_once(&format!("\n{title}\n")).unwrap_or_else(|| panic!("no {title}")).1;
    let lines = after.lines().take_while(|line| !line.starts_with("## ") && *line != "Warnings:");
    let word = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    lines.filter_map(word).collect()
}

fn names<R: Copy>(reasons: &[R], name: impl Fn(R) -> &'static str) -> BTreeSet<String> {
    reasons.iter().map(|reason| name(*reason).to_owned()).collect()
}

#[test]
fn docs_explain_every_reason() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reasons.md");
    let page = std::fs::read_to_string(file).unwrap();
    let of_spec = |severity| {
        let some = validate::Reason::ALL.iter().filter(|reason| reason.severity() == severity);
        some.map(|reason| reason.name().to_owned()).collect::<BTreeSet<_>>()
    };
    let rows = [
        ("## Kafka: state of the cluster", names(Reason::OWN, Reason::name)),
        ("## Kafka: findings in the spec", of_spec(Severity::Refused)),
        ("Warnings:", of_spec(Severity::Warning)),
        ("## KafkaTopic", names(topics::Reason::ALL, topics::Reason::name)),
        ("## KafkaUser", names(users::Reason::ALL, users::Reason::name)),
    ];
    for (title, expected) in rows {
        let found = explained(&page, title);
        let missing: Vec<_> = expected.difference(&found).collect();
        let gone: Vec<_> = found.difference(&expected).collect();
        assert!(
            missing.is_empty() && gone.is_empty(),
            "{title}: {missing:?} are missing, {gone:?} are gone"
        );
    }
}
