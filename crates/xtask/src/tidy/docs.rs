//! Markdown: links to files of the repository resolve, and decisions have a date in their name.

use super::Finding;
use super::repository::Repository;

/// Every relative link must name a file or directory of the repository.
pub(super) fn check_links(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repository.texts().filter(|(path, _)| path.ends_with(".md")) {
        for (line, target) in links(text) {
            if !leads_somewhere(repository, path, &target) {
                findings.push(Finding::new(path, line, format!("broken link: {target}")));
            }
        }
    }
    findings
}

/// All link targets with their line numbers. Code blocks are ignored.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            links.extend(links_of_line(line).into_iter().map(|target| (index + 1, target)));
        }
    }
    links
}

/// `[text](target)`, `![text](target "title")` and `[name]: target`.
fn links_of_line(line: &str) -> Vec<String> {
    // Every second piece between backticks is code.
    let prose: String = line.split('`').step_by(2).collect();
    let inline = prose.match_indices("](").filter_map(|(at, _)| prose[at + 2..].split(')').next());
    let reference = prose.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let targets = inline.chain(reference.map(|(_, target)| target));
    targets.filter_map(|target| target.split_whitespace().next()).map(str::to_owned).collect()
}

fn leads_somewhere(repository: &Repository, from: &str, target: &str) -> bool {
    let file = target.split('#').next().unwrap_or_default();
    // Another site, or a heading; neither is checked here.
    if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
        return true;
    }
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    for name in file.split('/') {
        match name {
            "" | "." => {}
            // Above the root there is nothing of ours.
            ".." if names.pop().is_none() => return false,
            ".." => {}
            name => names.push(name),
        }
    }
    repository.has(&names.join("/"))
}

/// Every file in `docs/decisions/` is named `YYYY-MM-DD-name.md`.
pub(super) fn check_decisions(repository: &Repository) -> Vec<Finding> {
    let decisions = repository.paths().filter_map(|path| {
        path.strip_prefix("docs/decisions/").filter(|name| !is_decision(name)).map(|_| path)
    });
    let message = "a decision is named YYYY-MM-DD-name.md";
    decisions.map(|path| Finding::new(path, 0, message)).collect()
}

fn is_decision(file: &str) -> bool {
    let Some((date, name)) = file.strip_suffix(".md").and_then(|stem| stem.split_at_checked(10))
    else {
        return false;
    };
    let digits = |part: &str, count: usize, max: u32| {
        part.len() == count && part.parse().is_ok_and(|number: u32| (1..=max).contains(&number))
    };
    let parts: Vec<_> = date.split('-').collect();
    let dated = matches!(parts[..], [year, month, day]
        if digits(year, 4, 9999) && digits(month, 2, 12) && digits(day, 2, 31));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    dated && name.len() > 1 && name.starts_with('-') && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> Vec<usize> {
        let files = [("README.md", ""), ("docs/a.md", text), ("docs/sub/b.md", "")];
        check_links(&Repository::of(&files)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn links_to_files_and_folders_resolve() {
        assert!(broken("[a](sub/b.md) [b](sub/) [c](../README.md#top) [d](#here)").is_empty());
        assert!(broken("[a](https://example.org/x) <mailto:a@b>\n[x]: sub/b.md").is_empty());
    }

    #[test]
    fn links_to_nowhere_are_found() {
        assert_eq!(broken("fine\n[a](b.md) ![c](sub/d.png \"title\")"), [2, 2]);
        assert_eq!(broken("[x]: gone.md"), [1]);
        assert_eq!(broken("[a](../../outside.md)"), [1]);
    }

    #[test]
    fn code_has_no_links() {
        assert!(broken("```\n[a](b.md)\n```\nand `[a](b.md)` too").is_empty());
    }

    #[test]
    fn decisions_are_named_by_date_and_subject() {
        let named = |name: &str| {
            check_decisions(&Repository::of(&[(&format!("docs/decisions/{name}"), "")])).is_empty()
        };
        assert!(named("2026-11-15-one-crypto-provider.md"));
        let bad = ["one.md", "2026-13-01-a.md", "2026-1-01-a.md", "2026-11-15.md", "README.md"];
        bad.iter().for_each(|name| assert!(!named(name), "{name}"));
        assert!(!named("2026-11-15-Name.md") && !named("2026-11-15-name.txt"));
    }
}
