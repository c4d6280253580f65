//! Text files: clean line ends, no path of one particular machine.

use super::Finding;
use super::repository::Repository;

/// Paths of one machine, split so that this file is not a finding itself.
const FOREIGN_PATHS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("../sha", "red"),
];

/// Whether a file may have tabs: make and Go require them, and some tables use them.
fn may_have_tabs(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(name, "Makefile" | "go.mod" | "go.sum")
        || name.ends_with(".go")
        || name.ends_with(".tsv")
}

/// Whether a file is recorded output of another program, which is kept unchanged.
fn is_recorded(path: &str) -> bool {
    path.split('/').any(|name| matches!(name, "fixtures" | "testdata"))
}

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let texts = repository.texts().filter(|(path, _)| !is_recorded(path));
    texts.flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        let mut found = |message: String| findings.push(Finding::new(path, index + 1, message));
        if line.contains('\t') && !may_have_tabs(path) {
            found("tab; use spaces".into());
        }
        if line.ends_with([' ', '\t', '\r']) {
            found("trailing white space".into());
        }
        for foreign in FOREIGN_PATHS.iter().filter(|foreign| names(line, foreign)) {
            found(format!("path of one particular machine: {foreign}"));
        }
    }
    if path.ends_with(".xml")
        && let Err(error) = roxmltree::Document::parse(text)
    {
        let line = usize::try_from(error.pos().row).unwrap_or(1);
        findings.push(Finding::new(path, line, format!("not XML: {error}")));
    }
    if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
        let lines = text.split('\n').count();
        findings.push(Finding::new(path, lines, "a file ends with exactly one newline"));
    }
    findings
}

/// Whether a line contains an absolute path: it must not be part of a longer path or a URL.
fn names(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "-_./}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check_file(path, text).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn white_space_is_clean() {
        assert!(lines("a.md", "a\n\nb\n").is_empty());
        assert_eq!(lines("a.md", "a \nb\t\n"), [1, 2, 2]);
        assert_eq!(lines("a.md", "a\r\nb\n"), [1]);
        assert_eq!(lines("a.md", "a"), [1]);
        assert_eq!(lines("a.md", "a\n\n"), [3]);
    }

    #[test]
    fn tabs_are_for_those_who_need_them() {
        assert_eq!(lines("a.rs", "\ta\n"), [1]);
        assert!(lines("Makefile", "a:\n\tb\n").is_empty());
        assert!(lines("local/build/go.mod", "\tb\n").is_empty());
        assert!(lines("a/table.tsv", "b\tc\n").is_empty());
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for path in FOREIGN_PATHS {
            assert_eq!(lines("a.md", &format!("see {path}me\n")), [1], "{path}");
        }
        for path in FOREIGN_PATHS {
            assert!(lines("a.md", &format!("https://example.org{path}me\n")).is_empty(), "{path}");
        }
    }

    #[test]
    fn xml_is_parsed() {
        assert!(lines("a/pom.xml", "<!-- fine -->\n<project/>\n").is_empty());
        assert_eq!(lines("a/pom.xml", "<project>\n  <!-- two -- dashes -->\n</project>\n"), [2]);
    }

    #[test]
    fn recorded_files_are_kept_as_they_were() {
        let repository = Repository::of(&[("crates/a/tests/fixtures/b.txt", "a \t\r\n\n")]);
        assert_eq!(check(&repository), []);
    }
}
