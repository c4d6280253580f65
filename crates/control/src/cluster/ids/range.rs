//! Lists of ids as users write them: `[0, 5-9, 30-20]`.
//!
//! A range may run downwards. Nothing is written out, so that `[0-2147483647]` costs nothing.

use std::collections::BTreeSet;
use std::str::FromStr;

use model::NodeId;

/// Ids in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdRange(Vec<(NodeId, NodeId)>);

/// A text that is no list of ids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a list of ids and ranges such as [0, 5-9, 30-20]")]
pub struct InvalidRange(String);

impl IdRange {
    /// Whether there are no ids in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first id that is not in the set.
    #[must_use]
    pub fn first_not_in(&self, set: &BTreeSet<NodeId>) -> Option<NodeId> {
        self.0.iter().find_map(|(from, to)| match from <= to {
            true => (from.get()..=to.get()).filter_map(NodeId::new).find(|id| !set.contains(id)),
            false => {
                (to.get()..=from.get()).rev().filter_map(NodeId::new).find(|id| !set.contains(id))
            }
        })
    }

    /// The first id that is in the set.
    #[must_use]
    pub fn first_of(&self, set: &BTreeSet<NodeId>) -> Option<NodeId> {
        self.0.iter().find_map(|(from, to)| match from <= to {
            true => set.range(from..=to).next().copied(),
            false => set.range(to..=from).next_back().copied(),
        })
    }
}

impl FromStr for IdRange {
    type Err = InvalidRange;
    fn from_str(text: &str) -> Result<Self, InvalidRange> {
        let invalid = || InvalidRange(text.to_owned());
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Ok(Self::default());
        }
        let inner = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let inner = inner.ok_or_else(invalid)?.trim();
        if inner.is_empty() {
            return Ok(Self::default());
        }
        let ranges = inner.split(',').map(range).collect::<Option<_>>();
        ranges.map(Self).ok_or_else(invalid)
    }
}

fn range(text: &str) -> Option<(NodeId, NodeId)> {
    match text.split_once('-') {
        Some((from, to)) => Some((id(from)?, id(to)?)),
        None => id(text).map(|id| (id, id)),
    }
}

/// Digits only: a sign is not one.
fn id(text: &str) -> Option<NodeId> {
    let text = text.trim();
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: &[i32]) -> BTreeSet<NodeId> {
        numbers.iter().map(|id| NodeId::new(*id).unwrap()).collect()
    }

    /// The ids of a range one after the other, by taking the first that was not taken.
    fn all(text: &str, up_to: usize) -> Vec<i32> {
        let range: IdRange = text.parse().unwrap();
        let (mut set, mut found) = (BTreeSet::new(), Vec::new());
        while let Some(id) = range.first_not_in(&set).filter(|_| found.len() < up_to) {
            set.insert(id);
            found.push(id.get());
        }
        found
    }

    #[test]
    fn ids_come_in_the_order_in_which_they_were_written() {
        let rows: &[(&str, &[i32])] = &[
            ("", &[]),
            ("  ", &[]),
            ("[]", &[]),
            (" [ ] ", &[]),
            ("[7]", &[7]),
            ("[1, 3-5 ,9 - 7,4]", &[1, 3, 4, 5, 9, 8, 7]),
            ("[5-5]", &[5]),
            ("[30-20]", &[30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20]),
            ("[000010]", &[10]),
        ];
        for (text, expected) in rows {
            assert_eq!(all(text, 100), *expected, "{text}");
        }
        assert_eq!(all("[2147483647-0]", 2), [2_147_483_647, 2_147_483_646]);
    }

    #[test]
    fn the_first_that_is_there() {
        let set = ids(&[2, 4, 6, 8]);
        let rows = [
            ("[5-9]", Some(6)),
            ("[9-5]", Some(8)),
            ("[0, 4, 2]", Some(4)),
            ("[0-2147483647]", Some(2)),
            ("[2147483647-0]", Some(8)),
            ("[9-20]", None),
            ("[]", None),
        ];
        for (text, expected) in rows {
            let range: IdRange = text.parse().unwrap();
            assert_eq!(range.first_of(&set).map(NodeId::get), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_list_is_said() {
        let texts = [
            "1",
            "[1",
            "1]",
            "[1,]",
            "[,1]",
            "[a]",
            "[1-]",
            "[-1]",
            "[1-2-3]",
            "[1 2]",
            "[+1]",
            "[2147483648]",
            "[1.5]",
            "[[1]]",
            "[1];[2]",
        ];
        for text in texts {
            let error = text.parse::<IdRange>().unwrap_err();
            assert_eq!(error, InvalidRange(text.to_owned()));
        }
    }
}
