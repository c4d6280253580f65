//! Rejects the phrases that `docs/style.md` lists: each has an established term instead.
//!
//! Files that have used them since before the rule are listed in `.config/old-words.txt`, which only shrinks:
//! `cargo xtask tidy --fix` removes the rows that are not needed any more. A phrase is found only within one line.

use std::collections::BTreeSet;

use super::Finding;
use super::repository::Repository;
use super::rust;

/// The document with the table of phrases.
const STYLE: &str = "docs/style.md";

/// The heading of the table.
const HEADING: &str = "\n## Rejected phrases\n";

/// The files that may still have such phrases.
const ALLOWED: &str = ".config/old-words.txt";

/// Files that are not edited: recorded ones, generated ones, decisions, the changelog of the past; and the table itself.
const NOT_CHECKED: [&str; 6] = [
    STYLE,
    "CHANGELOG.md",
    "docs/decisions/",
    "docs/generated/",
    "crates/xtask/src/tidy/phrases.rs",
    "testdata/",
];

/// A phrase and what to write instead, in lower case.
#[derive(Debug, PartialEq, Eq)]
struct Phrase {
    phrase: String,
    instead: String,
}

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let phrases = phrases(repository.text(STYLE).unwrap_or_default());
    let allowed = allowed(repository);
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for (path, text) in repository.texts().filter(|(path, _)| is_checked(path)) {
        for found in check_file(path, text, &phrases) {
            match allowed.contains(path) {
                true => _ = used.insert(path.to_owned()),
                false => findings.push(found),
            }
        }
    }
    for path in allowed.difference(&used) {
        let message =
            "has no rejected phrase any more; remove it from the list with cargo xtask tidy --fix";
        findings.push(Finding::new(ALLOWED, 0, format!("{path} {message}")));
    }
    findings
}

/// The list of allowed files without those that need not be on it; nothing is ever added.
pub(super) fn expected(repository: &Repository) -> Option<(String, String)> {
    repository.text(ALLOWED)?;
    let phrases = phrases(repository.text(STYLE).unwrap_or_default());
    let needs = |path: &&String| {
        let text = repository.text(path).unwrap_or_default();
        is_checked(path) && !check_file(path, text, &phrases).is_empty()
    };
    let list: String =
        allowed(repository).iter().filter(needs).map(|path| format!("{path}\n")).collect();
    Some((ALLOWED.to_owned(), list))
}

fn allowed(repository: &Repository) -> BTreeSet<String> {
    repository.text(ALLOWED).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn is_checked(path: &str) -> bool {
    let is_recorded = path.split('/').any(|name| matches!(name, "fixtures" | "testdata"));
    !is_recorded && path != ALLOWED && !NOT_CHECKED.iter().any(|start| path.starts_with(start))
}

/// The rows of the table.
fn phrases(style: &str) -> Vec<Phrase> {
    let table = style.split_once(HEADING).map_or("", |(_, table)| table);
    let rows = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let row = |line: &str| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        Some(Phrase { phrase: cells.next()?.to_lowercase(), instead: cells.next()?.to_owned() })
    };
    rows.take_while(|line| line.starts_with('|')).filter_map(row).collect()
}

fn check_file(path: &str, text: &str, phrases: &[Phrase]) -> Vec<Finding> {
    let text = text.to_lowercase();
    let mut findings = Vec::new();
    for Phrase { phrase, instead } in phrases {
        for at in rust::words(&text, phrase) {
            let message = format!("`{phrase}`: write {instead} ({STYLE})");
            findings.push(Finding::new(path, rust::line_of(&text, at), message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Style\n\n## Rejected phrases\n\nText.\n\n| phrase | write instead |\n|---|---|\n\
         | look after | manage |\n| wished for | desired |\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files = [&[(STYLE, TABLE)], files].concat();
        check(&Repository::of(&files)).into_iter().map(|found| found.to_string()).collect()
    }

    #[test]
    fn a_rejected_phrase_is_found_as_whole_words_in_any_case() {
        let expected = ["crates/a.rs:2: `look after`: write manage (docs/style.md)"];
        assert_eq!(found(&[("crates/a.rs", "//! Doc.\n// Look after it.\n")]), expected);
        assert_eq!(found(&[("crates/a.rs", "// outlook after all; unwished for\n")]), [""; 0]);
        for path in ["CHANGELOG.md", "docs/decisions/2026-11-15-a.md", "crates/a/fixtures/b.txt"] {
            assert_eq!(found(&[(path, "look after\n")]), [""; 0], "{path}");
        }
    }

    #[test]
    fn a_listed_file_is_allowed_until_it_has_none() {
        let list = (ALLOWED, "crates/a.rs\n");
        assert_eq!(found(&[list, ("crates/a.rs", "look after\n")]), [""; 0]);
        let stale = found(&[list, ("crates/a.rs", "manage\n")]);
        assert!(stale.len() == 1 && stale[0].contains("cargo xtask tidy --fix"), "{stale:?}");
    }

    #[test]
    fn a_fix_removes_rows_and_adds_none() {
        let repository = Repository::of(&[
            (STYLE, TABLE),
            (ALLOWED, "crates/a.rs\ncrates/b.rs\ncrates/gone.rs\n"),
            ("crates/a.rs", "wished for\n"),
            ("crates/b.rs", "desired\n"),
            ("crates/c.rs", "wished for\n"),
        ]);
        let expected = Some((ALLOWED.to_owned(), "crates/a.rs\n".to_owned()));
        assert_eq!(super::expected(&repository), expected);
    }

    #[test]
    fn the_table_of_the_repository_is_parsed() {
        let repository = Repository::read(crate::root()).unwrap();
        let phrases = phrases(repository.text(STYLE).unwrap());
        assert!(phrases.len() > 30, "{} phrases", phrases.len());
        assert!(phrases.iter().all(|one| !one.phrase.is_empty() && !one.instead.is_empty()));
    }
}
