//! Lint settings of the pure crates, derived from the crate table.
//!
//! clippy reads only the nearest `clippy.toml`, so each pure crate has one that repeats the root's settings
//! and adds the bans.

use super::Finding;
use super::repository::Repository;
use super::table::{self, AS_PURE, Ban, CRATES, Crate, Kind};

/// Pure code must handle a new enum variant everywhere; a wildcard would hide it.
const NO_WILDCARDS: &str = "#![warn(clippy::wildcard_enum_match_arm)]";

const HEADER: &str = "\
# Written by `cargo xtask tidy --fix` from crates/xtask/src/tidy/table.rs.
# clippy reads only the nearest of these files, so the settings of the root are repeated.
";

/// The required `clippy.toml` of each pure crate, by path.
pub(super) fn expected(repository: &Repository) -> Vec<(String, String)> {
    let root = repository.text("clippy.toml").unwrap_or_default();
    let mut text = format!("{HEADER}{root}");
    list(&mut text, "disallowed-methods", table::BANNED_METHODS);
    list(&mut text, "disallowed-types", table::BANNED_TYPES);
    list(&mut text, "disallowed-macros", table::BANNED_MACROS);
    pure_crates(repository)
        .map(|name| (format!("crates/{name}/clippy.toml"), text.clone()))
        .collect()
}

fn list(text: &mut String, name: &str, bans: &[Ban]) {
    text.push_str(&format!("\n{name} = [\n"));
    for (path, reason) in bans {
        text.push_str(&format!("    {{ path = \"{path}\", reason = \"{reason}\" }},\n"));
    }
    text.push_str("]\n");
}

fn pure_crates(repository: &Repository) -> impl Iterator<Item = &'static str> {
    let is_pure = |row: &&Crate| row.kind == Kind::Pure || AS_PURE.contains(&row.name);
    let pure = CRATES.iter().filter(is_pure).map(|row| row.name);
    pure.filter(|name| repository.has(&format!("crates/{name}")))
}

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in expected(repository) {
        if repository.text(&path) != Some(&text) {
            let message = "differs from the crate table; write it with cargo xtask tidy --fix";
            findings.push(Finding::new(path, 0, message));
        }
    }
    for name in pure_crates(repository) {
        let path = format!("crates/{name}/src/lib.rs");
        let text = repository.text(&path).unwrap_or_default();
        if !text.lines().any(|line| line == NO_WILDCARDS) {
            findings.push(Finding::new(path, 0, format!("a pure crate has {NO_WILDCARDS}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: (&str, &str) = ("clippy.toml", "too-many-lines-threshold = 70\n");

    #[test]
    fn a_pure_crate_without_the_bans_is_found() {
        let library = ("crates/model/src/lib.rs", NO_WILDCARDS);
        let found = check(&Repository::of(&[ROOT, library]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "crates/model/clippy.toml");

        let edited = ("crates/model/clippy.toml", "too-many-lines-threshold = 70\n");
        assert_eq!(check(&Repository::of(&[ROOT, library, edited])), found);
    }

    #[test]
    fn what_fix_writes_passes() {
        let mut repository = Repository::of(&[ROOT, ("crates/model/src/lib.rs", NO_WILDCARDS)]);
        for (path, text) in expected(&repository) {
            assert!(text.contains("too-many-lines-threshold = 70\n"), "the root is repeated");
            toml::from_str::<toml::Table>(&text).unwrap();
            repository.insert(path, text);
        }
        assert_eq!(check(&repository), []);
    }

    #[test]
    fn a_pure_crate_that_allows_wildcards_is_found() {
        let mut repository = Repository::of(&[ROOT, ("crates/model/src/lib.rs", "//! Words.\n")]);
        for (path, text) in expected(&repository) {
            repository.insert(path, text);
        }
        assert_eq!(check(&repository)[0].path, "crates/model/src/lib.rs");
    }

    #[test]
    fn crates_that_do_io_are_free() {
        assert_eq!(check(&Repository::of(&[ROOT, ("crates/local/src/lib.rs", "")])), []);
    }
}
