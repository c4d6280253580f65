//! The schemas of Strimzi 1.2.0, from the list of their field paths.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const TEXT: &str = include_str!("../../testdata/strimzi-1.2.0-schema.tsv");

/// The field paths of kinds that are not installed.
const ABSENT: &str = include_str!("../../testdata/strimzi-1.2.0-absent-kinds.tsv");

/// A field path with what its schema says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: String,
    pub(crate) path: String,
    /// `object*` is an object that keeps unknown fields.
    pub(crate) of_type: String,
    pub(crate) required: bool,
    pub(crate) values: Vec<String>,
    /// As in `minimum=1` or `pattern=^a$`.
    pub(crate) constraints: Vec<String>,
}

impl Row {
    /// The steps from the root: names, `[]` and `{}`.
    pub(crate) fn steps(&self) -> Vec<String> {
        steps(&self.path)
    }
}

/// The steps of a path.
pub(crate) fn steps(path: &str) -> Vec<String> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let name_ends = part.find(['[', '{']).unwrap_or(part.len());
        steps.push(part[..name_ends].to_owned());
        let marks = part[name_ends..].split_inclusive([']', '}']);
        steps.extend(marks.map(str::to_owned));
    }
    steps
}

/// All field paths.
pub(crate) fn rows() -> Vec<Row> {
    TEXT.lines().skip(1).map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.split('\t').collect();
    let [kind, path, of_type, required, values, constraints] = cells[..] else {
        panic!("six cells in {line:?}");
    };
    let split = |text: &str, by: &str| {
        text.split(by).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    // A cell with quotes in it is quoted itself.
    let constraints = match constraints.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => constraints.to_owned(),
    };
    Row {
        kind: kind.to_owned(),
        path: path.to_owned(),
        of_type: of_type.to_owned(),
        required: required == "required",
        values: split(values, "|"),
        constraints: split(&constraints, "; "),
    }
}

/// A kind of Strimzi that is not installed.
#[derive(Debug, Clone)]
pub(crate) struct AbsentKind {
    pub(crate) name: String,
    pub(crate) verdict: String,
    pub(crate) reason: String,
    /// How many field paths it has.
    pub(crate) fields: usize,
}

/// The kinds that are not installed, with the verdict on each.
pub(crate) fn absent_kinds() -> Vec<AbsentKind> {
    let kind = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let [name, verdict, reason] = cells[..] else { panic!("three cells in {line:?}") };
        let is_of = |path: &&str| path.split('\t').next() == Some(name);
        AbsentKind {
            name: name.to_owned(),
            verdict: verdict.to_owned(),
            reason: reason.to_owned(),
            fields: ABSENT.lines().skip(1).filter(is_of).count(),
        }
    };
    include_str!("../../compat/kinds.tsv").lines().skip(1).map(kind).collect()
}

/// The kinds of the field paths of kinds that are not installed.
pub(crate) fn kinds_of_absent_fields() -> BTreeSet<&'static str> {
    ABSENT.lines().skip(1).filter_map(|line| line.split('\t').next()).collect()
}

/// A place in a schema, with what is below it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub(crate) row: Option<Row>,
    pub(crate) below: BTreeMap<String, Node>,
}

/// The schema of a kind, as a tree.
pub(crate) fn tree(kind: &str) -> &'static Node {
    static TREES: LazyLock<BTreeMap<String, Node>> = LazyLock::new(|| {
        let mut trees = BTreeMap::<String, Node>::new();
        for row in rows() {
            let mut node = trees.entry(row.kind.clone()).or_default();
            for step in row.steps() {
                node = node.below.entry(step).or_default();
            }
            node.row = Some(row);
        }
        trees
    });
    &TREES[kind]
}
