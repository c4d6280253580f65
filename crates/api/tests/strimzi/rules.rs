//! The rules that the table of verdicts is generated from.

use std::sync::LazyLock;

use crate::strimzi;

/// A verdict on a path and all below it that no longer rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) kind: String,
    pub(crate) path: String,
    pub(crate) verdict: String,
    pub(crate) reason: String,
}

impl Rule {
    /// Whether it is about a path.
    pub(crate) fn covers(&self, kind: &str, path: &str) -> bool {
        let rest = path.strip_prefix(self.path.as_str());
        kind == self.kind
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '{']))
    }
}

/// All rules, as they are in the file.
pub(crate) fn rules() -> &'static [Rule] {
    static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
        let text = include_str!("../../compat/rules.tsv");
        text.lines().skip(1).map(rule).collect()
    });
    &RULES
}

fn rule(line: &str) -> Rule {
    let cells: Vec<&str> = line.split('\t').collect();
    let [kind, path, verdict, reason] = cells[..] else { panic!("four cells in {line:?}") };
    Rule { kind: kind.into(), path: path.into(), verdict: verdict.into(), reason: reason.into() }
}

/// The rule that decides about a path: the longest.
pub(crate) fn deciding(kind: &str, path: &str) -> Option<&'static Rule> {
    let covering = rules().iter().filter(|rule| rule.covers(kind, path));
    covering.max_by_key(|rule| rule.path.len())
}

/// The rule that would decide if this one were not there.
pub(crate) fn above(of: &Rule) -> Option<&'static Rule> {
    let covering = rules().iter().filter(|rule| rule.covers(&of.kind, &of.path) && *rule != of);
    covering.max_by_key(|rule| rule.path.len())
}

/// The table of verdicts.
pub(crate) fn table() -> String {
    let mut text = String::from("kind\tpath\tverdict\treason\n");
    for row in strimzi::rows() {
        let rule = deciding(&row.kind, &row.path)
            .unwrap_or_else(|| panic!("no rule for {} {}", row.kind, row.path));
        text += &format!("{}\t{}\t{}\t{}\n", row.kind, row.path, rule.verdict, rule.reason);
    }
    text
}
