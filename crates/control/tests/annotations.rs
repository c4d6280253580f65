//! The list of annotations for users. `GREGOR_UPDATE=1 cargo test -p control --test annotations` writes it anew.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::disallowed_methods, reason = "the list is a file of the repository")]

use std::fmt::Write as _;
use std::path::Path;

use control::annotations::{Annotation, Writer};

const UPDATE: &str = "GREGOR_UPDATE";
const FILE: &str = "docs/generated/annotations.md";

fn table(text: &mut String, title: &str, writers: &[Writer]) {
    let _ = write!(text, "\n## {title}\n\n| annotation | on | meaning |\n|---|---|---|\n");
    let rows = Annotation::ALL.into_iter().map(Annotation::row);
    for one in rows.filter(|one| writers.contains(&one.writer)) {
        let _ = writeln!(text, "| `{}` | {} | {} |", one.name, one.objects, one.meaning);
    }
}

#[test]
fn the_list_is_fresh() {
    let mut expected = format!(
        "# Annotations\n\nWritten from [the list in the code](../../crates/control/src/annotations.rs) by \
         `{UPDATE}=1 cargo test -p control --test annotations`.\n"
    );
    table(&mut expected, "For users", &[Writer::User]);
    table(&mut expected, "Written by Gregor", &[Writer::Operator, Writer::Agent]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(FILE);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&file, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == expected,
        "{FILE} is stale: {UPDATE}=1 cargo test -p control --test annotations"
    );
}
