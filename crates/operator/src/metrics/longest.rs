//! The largest observation of the last minutes, as Strimzi's `_max` metrics have it.

use std::collections::BTreeMap;
use std::time::Duration;

/// The time that an observation counts, in slots.
const SLOTS: u64 = 6;
/// The length of a slot.
const SLOT: Duration = Duration::from_secs(20);

/// The largest observation of each of the last slots.
#[derive(Debug, Clone, Default)]
pub(super) struct Longest(BTreeMap<u64, f64>);

impl Longest {
    /// Takes an observation at this time, counted from any fixed point.
    pub(super) fn observe(&mut self, now: Duration, value: f64) {
        let slot = slot(now);
        let largest = self.0.entry(slot).or_insert(value);
        *largest = largest.max(value);
        self.0.retain(|one, _| is_recent(*one, slot));
    }

    /// The largest of the last two minutes; 0 if there is none.
    pub(super) fn max(&self, now: Duration) -> f64 {
        let recent = self.0.iter().filter(|(one, _)| is_recent(**one, slot(now)));
        recent.map(|(_, value)| *value).fold(0.0, f64::max)
    }
}

fn slot(now: Duration) -> u64 {
    now.as_secs() / SLOT.as_secs()
}

const fn is_recent(one: u64, now: u64) -> bool {
    now.saturating_sub(one) < SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_counts_for_two_minutes() {
        let at = Duration::from_secs;
        let mut longest = Longest::default();
        assert_eq!(longest.max(at(0)), 0.0);
        longest.observe(at(0), 9.0);
        longest.observe(at(1), 3.0);
        longest.observe(at(60), 5.0);
        // The time of the question, the answer.
        for (now, expected) in [(60, 9.0), (119, 9.0), (120, 5.0), (179, 5.0), (180, 0.0)] {
            assert_eq!(longest.max(at(now)), expected, "{now}");
        }
        for second in 0..10_000 {
            longest.observe(at(second), 1.0);
        }
        assert!(longest.0.len() <= 6, "{longest:?}");
    }
}
