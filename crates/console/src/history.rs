//! What the pages of a cluster have shown, for a slider that goes back in time. Pure: times and parts go in.
//!
//! 1. A point holds all parts as they were, and shares those that did not change with the points beside it.
//! 2. Points are kept for 24 hours. When they take more memory than a cluster may have, every other point of the older
//!    half is dropped: the past gets coarser before it gets shorter.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// For how long points are kept.
const KEPT_MS: u64 = 24 * 60 * 60 * 1_000;

/// Changes that are closer to each other make one point: two observations of a cluster that changes all the time.
const POINT_MS: u64 = 5_000;

/// The memory that the points of a cluster may take.
const BYTES_MAX: usize = 16 << 20;

/// Parts of pages, as JSON.
pub(crate) type Parts = BTreeMap<&'static str, Arc<str>>;

/// What was shown from one time on.
#[derive(Debug)]
struct Point {
    at_ms: u64,
    parts: Parts,
}

/// The points of a cluster, the oldest first. A copy shares them.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    points: VecDeque<Arc<Point>>,
    /// At least the memory that they take.
    bytes_max: usize,
}

impl History {
    /// Adds what is shown now, if it is not what was shown before.
    pub(crate) fn add(&mut self, at_ms: u64, parts: &Parts) {
        let last = self.points.back();
        if last.is_some_and(|last| is_same(&last.parts, parts)) {
            return;
        }
        self.bytes_max += new_bytes(last.map(|last| &last.parts), parts);
        let at_ms = match last.map(|last| last.at_ms) {
            Some(begun) if at_ms.saturating_sub(begun) < POINT_MS => {
                self.points.pop_back();
                begun
            }
            Some(_) | None => at_ms,
        };
        self.points.push_back(Arc::new(Point { at_ms, parts: parts.clone() }));
        while self.points.front().is_some_and(|one| at_ms.saturating_sub(one.at_ms) > KEPT_MS) {
            self.points.pop_front();
        }
        if self.bytes_max > BYTES_MAX {
            self.bytes_max = self.bytes();
        }
        while self.bytes_max > BYTES_MAX && self.points.len() > 2 {
            self.thin();
            self.bytes_max = self.bytes();
        }
    }

    /// The times of all points.
    pub(crate) fn times(&self) -> Vec<u64> {
        self.points.iter().map(|point| point.at_ms).collect()
    }

    /// What was shown at a time, and since when; `None` if that is too long ago.
    pub(crate) fn at(&self, ms: u64) -> Option<(u64, &Parts)> {
        let point = self.points.iter().rev().find(|point| point.at_ms <= ms)?;
        Some((point.at_ms, &point.parts))
    }

    /// The memory of all parts, each counted once.
    fn bytes(&self) -> usize {
        let before = self.points.iter().map(|point| Some(&point.parts));
        let pairs = std::iter::once(None).chain(before).zip(&self.points);
        pairs.map(|(before, point)| new_bytes(before, &point.parts)).sum()
    }

    /// Drops every other point of the older half.
    fn thin(&mut self) {
        let half = self.points.len().div_ceil(2);
        let mut index = 0;
        self.points.retain(|_| {
            index += 1;
            index > half || index % 2 == 0
        });
    }
}

/// The memory of the parts that another point does not share.
fn new_bytes(before: Option<&Parts>, parts: &Parts) -> usize {
    let is_new = |(name, part): &(&&'static str, &Arc<str>)| {
        before.and_then(|parts| parts.get(*name)).is_none_or(|old| !Arc::ptr_eq(old, part))
    };
    parts.iter().filter(is_new).map(|(_, part)| part.len()).sum()
}

fn is_same(a: &Parts, b: &Parts) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && Arc::ptr_eq(a.1, b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Parts {
        [("nodes", Arc::from(text)), ("why", Arc::from("same"))].into()
    }

    #[test]
    fn a_point_holds_until_the_next_one() {
        let mut history = History::default();
        let (one, two) = (parts("one"), parts("two"));
        history.add(10_000, &one);
        history.add(20_000, &one);
        history.add(30_000, &two);
        assert_eq!(history.times(), [10_000, 30_000]);
        assert_eq!(history.at(9_999).map(|at| at.0), None);
        for (ms, since, text) in
            [(10_000, 10_000, "one"), (29_999, 10_000, "one"), (99_000, 30_000, "two")]
        {
            let (at, parts) = history.at(ms).unwrap();
            assert_eq!((at, &*parts["nodes"]), (since, text));
        }
    }

    #[test]
    fn changes_that_follow_each_other_closely_make_one_point() {
        let mut history = History::default();
        for step in 0..10 {
            history.add(10_000 + step * 1_000, &parts(&step.to_string()));
        }
        assert_eq!(history.times(), [10_000, 15_000]);
        assert_eq!(&*history.at(14_000).unwrap().1["nodes"], "4");
    }

    #[test]
    fn points_older_than_a_day_go() {
        let mut history = History::default();
        history.add(0, &parts("old"));
        history.add(KEPT_MS, &parts("edge"));
        assert_eq!(history.times().len(), 2);
        history.add(KEPT_MS + 10_000, &parts("new"));
        assert_eq!(history.times(), [KEPT_MS, KEPT_MS + 10_000]);
    }

    #[test]
    fn with_too_little_memory_the_past_gets_coarser_and_not_shorter() {
        let mut history = History::default();
        let large = "x".repeat(1 << 20);
        for step in 0..200_u64 {
            history.add(step * 10_000, &parts(&format!("{step}{large}")));
        }
        let times = history.times();
        assert!(history.bytes() <= BYTES_MAX, "{}", history.bytes());
        assert!(times.len() >= 6, "{times:?}");
        assert_eq!(*times.last().unwrap(), 199 * 10_000);
        let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps[0] >= *gaps.last().unwrap(), "{gaps:?}");
    }
}
