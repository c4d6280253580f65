//! What clusters carried a while ago. Rates are the difference to now.

use api::names::Names;
use control::rebalance::load::Mark;

use crate::per_cluster::PerCluster;

/// Two samples that are closer tell more about chance than about load.
const SPAN_MS_MIN: u64 = 3_000;

/// Load is that of the last minutes: of at least so many, once there are.
const WINDOW_MS: u64 = 5 * 60_000;

/// The last samples of clusters. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    kept: PerCluster<Kept>,
}

/// The sample that rates are counted from, and the one that is next in this.
#[derive(Debug)]
struct Kept {
    base: Mark,
    next: Mark,
}

impl Samples {
    /// Keeps a sample, and gives the one that it is to be compared with, if there is one that is old enough.
    #[must_use]
    pub fn turn(&self, of: &Names, now: Mark) -> Option<Mark> {
        let mut kept = self.kept.lock();
        let Some(known) = kept.get_mut(of) else {
            kept.insert(of.clone(), Kept { base: now.clone(), next: now });
            return None;
        };
        if now.at_ms.saturating_sub(known.next.at_ms) >= WINDOW_MS {
            known.base = std::mem::replace(&mut known.next, now.clone());
        }
        let base = known.base.clone();
        (now.at_ms.saturating_sub(base.at_ms) >= SPAN_MS_MIN).then_some(base)
    }

    /// Forgets a cluster that is gone.
    pub fn forget(&self, of: &Names) {
        self.kept.forget(of);
    }
}

#[cfg(test)]
mod tests {
    use control::rebalance::load::Sample;

    use super::*;

    #[test]
    fn rates_are_those_of_the_last_minutes() {
        let samples = Samples::default();
        let (one, other) = (Names::new("n", "a"), Names::new("n", "b"));
        let turn = |of: &Names, at_ms| {
            let sample = Sample { at_ms, ..Sample::default() };
            samples.turn(of, sample.mark()).map(|mark| mark.at_ms)
        };
        let minute = 60_000;
        assert_eq!(turn(&one, 0), None);
        assert_eq!(turn(&one, 1_000), None);
        assert_eq!(turn(&one, 4_000), Some(0));
        assert_eq!(turn(&other, 4_000), None);
        assert_eq!(turn(&one, 4 * minute), Some(0));
        assert_eq!(turn(&one, 6 * minute), Some(0));
        assert_eq!(turn(&one, 10 * minute), Some(0));
        assert_eq!(turn(&one, 12 * minute), Some(6 * minute));
        samples.forget(&one);
        assert_eq!(turn(&one, 13 * minute), None);
    }
}
