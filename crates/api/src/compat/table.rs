//! The tables, read once.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::LazyLock;

use super::{Kind, Verdict};

/// A field path and what is said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The resource.
    pub kind: Kind,
    /// The path.
    pub path: &'static str,
    /// What happens to it.
    pub verdict: Verdict,
    /// Why, or what it is for.
    pub reason: &'static str,
}

/// A single value of a field, and what is said of it.
struct ValueOf {
    field: Field,
    value: &'static str,
}

type ByPath = BTreeMap<Kind, BTreeMap<&'static str, Field>>;

static FIELDS: LazyLock<ByPath> =
    LazyLock::new(|| by_path(include_str!("../../compat/fields.tsv")));
static REMOVED: LazyLock<ByPath> =
    LazyLock::new(|| by_path(include_str!("../../compat/removed.tsv")));
static VALUES: LazyLock<Vec<ValueOf>> =
    LazyLock::new(|| rows(include_str!("../../compat/values.tsv")).filter_map(value_of).collect());

/// Every field of Strimzi 1.2.0, by kind and path.
pub fn fields() -> impl Iterator<Item = &'static Field> {
    FIELDS.values().flat_map(BTreeMap::values)
}

/// What is said of a field, be it of the newest version or of one that is gone.
pub(super) fn find(kind: Kind, path: &str) -> Option<&'static Field> {
    let of = |table: &'static ByPath| table.get(&kind)?.get(path);
    of(&FIELDS).or_else(|| of(&REMOVED))
}

/// What is said of a value of an honoured field, if anything.
pub(super) fn find_value(kind: Kind, path: &str, value: &str) -> Option<&'static Field> {
    let matches =
        |row: &&ValueOf| (row.field.kind, row.field.path, row.value) == (kind, path, value);
    VALUES.iter().find(matches).map(|row| &row.field)
}

/// Whether anything is said of paths that begin so.
pub(super) fn has_below(kind: Kind, prefix: &str) -> bool {
    let from = (Bound::Included(prefix), Bound::Unbounded);
    let first = FIELDS.get(&kind).and_then(|paths| paths.range::<str, _>(from).next());
    first.is_some_and(|(path, _)| path.starts_with(prefix))
}

fn by_path(text: &'static str) -> ByPath {
    let mut table = ByPath::new();
    for cells in rows(text) {
        if let Some(field) = field(cells[0], cells[1], cells[2], cells[3]) {
            table.entry(field.kind).or_default().insert(field.path, field);
        }
    }
    table
}

fn value_of(cells: Vec<&'static str>) -> Option<ValueOf> {
    let [kind, path, value, verdict, reason] = cells[..] else { return None };
    Some(ValueOf { field: field(kind, path, verdict, reason)?, value })
}

fn field(kind: &str, path: &'static str, verdict: &str, reason: &'static str) -> Option<Field> {
    Some(Field { kind: Kind::of(kind)?, path, verdict: Verdict::of(verdict)?, reason })
}

/// The rows below the heading. A row that is cut short is left out; a test says that there is none.
fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let split = |line: &'static str| line.split('\t').collect::<Vec<_>>();
    text.lines().skip(1).map(split).filter(|cells| cells.len() >= 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removed() -> impl Iterator<Item = &'static Field> {
        REMOVED.values().flat_map(BTreeMap::values)
    }

    #[test]
    fn every_row_of_every_table_is_read() {
        let lines = |text: &str| text.lines().count() - 1;
        assert_eq!(fields().count(), lines(include_str!("../../compat/fields.tsv")));
        assert_eq!(removed().count(), lines(include_str!("../../compat/removed.tsv")));
        assert_eq!(VALUES.len(), lines(include_str!("../../compat/values.tsv")));
    }

    #[test]
    fn values_are_of_honoured_fields_and_are_not_honoured() {
        for row in VALUES.iter() {
            let field = find(row.field.kind, row.field.path).unwrap();
            assert_eq!(field.verdict, Verdict::Honoured, "{}", field.path);
            assert_ne!(row.field.verdict, Verdict::Honoured, "{}", field.path);
        }
    }

    #[test]
    fn what_is_removed_is_not_in_the_newest_version() {
        for field in removed() {
            assert!(fields().all(|other| (other.kind, other.path) != (field.kind, field.path)));
        }
    }

    #[test]
    fn what_is_above_an_honoured_field_is_honoured() {
        // The walk stops at what is not; a field below it would never be looked at.
        for field in fields().filter(|field| field.verdict == Verdict::Honoured) {
            for end in field.path.match_indices(['.', '[', '{']).map(|(end, _)| end) {
                let above = find(field.kind, &field.path[..end]).unwrap();
                assert_eq!(above.verdict, Verdict::Honoured, "{} is below it", field.path);
            }
        }
    }

    #[test]
    fn what_is_below_a_field_that_is_not_honoured_has_the_same_verdict() {
        for field in fields().filter(|field| field.verdict != Verdict::Honoured) {
            let below = fields().filter(|other| {
                let rest = other.path.strip_prefix(field.path);
                other.kind == field.kind
                    && rest.is_some_and(|rest| rest.starts_with(['.', '[', '{']))
            });
            below.for_each(|other| assert_eq!(other.verdict, field.verdict, "{}", other.path));
        }
    }
}
