//! Rust files: no unfinished code, no disabled tests, no disabled lints without a reason; and a module doc.

use super::Finding;
use super::repository::Repository;
use super::rust;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository.rust().flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let code = rust::code(text);
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        let message = "a file starts with a module doc (//!): its purpose and invariants";
        findings.push(Finding::new(path, 1, message));
    }
    for name in ["todo", "unimplemented"] {
        for at in rust::words(&code, name).filter(|at| code[at + name.len()..].starts_with('!')) {
            let message = format!("{name}! panics; return an error that says what to do");
            findings.push(Finding::new(path, rust::line_of(&code, at), message));
        }
    }
    for (at, attribute) in attributes(&code) {
        if let Some(message) = complaint(attribute) {
            findings.push(Finding::new(path, rust::line_of(&code, at), message));
        }
    }
    for (index, line) in text.lines().enumerate().filter(|(_, line)| is_ignored_example(line)) {
        let message = format!("an ignored example is an ignored test: {}", line.trim());
        findings.push(Finding::new(path, index + 1, message));
    }
    findings
}

/// All attributes with their position: the text between `#[` or `#![` and the closing bracket.
fn attributes(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.match_indices('#').filter_map(|(at, _)| {
        let rest = &code[at + 1..];
        let open = at + 1 + usize::from(rest.starts_with('!'));
        if !code[open..].starts_with('[') {
            return None;
        }
        Some((at, code[open + 1..rust::closing(code, open)?].trim()))
    })
}

fn complaint(attribute: &str) -> Option<&'static str> {
    let has = |word| rust::words(attribute, word).next().is_some();
    let is = |word| rust::words(attribute, word).next() == Some(0);
    if is("ignore") || (is("cfg_attr") && has("ignore")) {
        return Some("no test is ignored: make it pass, or remove it");
    }
    let escapes =
        is("allow") || is("expect") || (is("cfg_attr") && (has("allow") || has("expect")));
    (escapes && !has("reason")).then_some("a lint is disabled without a reason: add reason = \"…\"")
}

/// A code block in documentation that is neither compiled nor run.
fn is_ignored_example(line: &str) -> bool {
    let line = line.trim_start();
    let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
    let info = doc.and_then(|doc| doc.trim_start().strip_prefix("```"));
    info.is_some_and(|info| info.split(',').any(|word| word.trim() == "ignore"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines with findings in a file that opens with a module doc.
    fn lines(body: &str) -> Vec<usize> {
        let findings = check_file("a.rs", &format!("//! Doc.\n{body}"));
        findings.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_file_without_module_doc_is_found() {
        assert_eq!(check_file("a.rs", "use std::fs;\n").len(), 1);
        assert!(lines("use std::fs;\n").is_empty());
    }

    #[test]
    fn work_put_off_is_found() {
        assert_eq!(lines("fn f() {\n    todo!()\n}"), [3]);
        assert_eq!(lines("fn f() { unimplemented!(\"later\") }"), [2]);
        assert!(lines("// todo!()\nfn f() -> &str { \"todo!()\" }").is_empty());
    }

    #[test]
    fn ignored_tests_are_found() {
        assert_eq!(lines("#[ignore]\n#[ignore = \"slow\"]"), [2, 3]);
        assert_eq!(lines("#[cfg_attr(windows, ignore)]"), [2]);
        assert_eq!(lines("/// ```ignore\n/// ```rust,ignore\n/// ```no_run"), [2, 3]);
        assert!(lines("#[arg(ignore_case = true)]\nfn ignore() {}").is_empty());
    }

    #[test]
    fn lints_switched_off_need_a_reason() {
        assert_eq!(lines("#[allow(clippy::unwrap_used)]"), [2]);
        assert_eq!(lines("#![expect(\n    clippy::unwrap_used,\n)]"), [2]);
        assert_eq!(lines("#[cfg_attr(test, allow(dead_code))]"), [2]);
        assert!(lines("#[expect(clippy::unwrap_used, reason = \"checked above\")]").is_empty());
        assert!(lines("fn f() { x.expect(\"there\"); }").is_empty());
    }
}
