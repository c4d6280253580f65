//! When a roll will have ended, from the batches seen so far.

use super::memory::{BatchMemory, RollMemory};

/// How many batches are remembered. The last ones tell more than the first: caches are warm, or disks full.
pub(super) const BATCHES_KEPT: usize = 8;

/// What is left of a roll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// When it will have ended.
    pub end_ms: u64,
    /// How many batches are left, without the one under way.
    pub batches_left: u64,
}

/// When a roll with so many nodes left to begin with will have ended. None as long as no batch has ended:
/// nobody knows yet how long one takes.
#[must_use]
pub fn estimate(roll: &RollMemory, nodes_left: usize, now_ms: u64) -> Option<Estimate> {
    let count = u64::try_from(roll.batches.len()).ok().filter(|count| *count > 0)?;
    let took_ms: u64 = roll.batches.iter().map(|batch| batch.took_ms).sum::<u64>() / count;
    let nodes: u64 = roll.batches.iter().map(|batch| u64::from(batch.nodes)).sum();
    // Batches of the mean size, rounded up.
    let batches_left = (nodes_left as u64 * count).div_ceil(nodes.max(1));
    let under_way_ms = roll
        .batch_started_ms
        .map_or(0, |started_ms| took_ms.saturating_sub(now_ms.saturating_sub(started_ms)));
    let end_ms = now_ms + under_way_ms + batches_left * took_ms;
    Some(Estimate { end_ms, batches_left })
}

impl RollMemory {
    /// A batch begins.
    pub(super) fn begin_batch(&mut self, nodes: usize, now_ms: u64) {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        self.restarts = self.restarts.saturating_add(nodes);
        self.batch_nodes = self.batch_nodes.saturating_add(nodes);
        self.batch_started_ms = self.batch_started_ms.or(Some(now_ms));
    }

    /// All is well again.
    pub(super) fn end_batch(&mut self, now_ms: u64) {
        let Some(started_ms) = self.batch_started_ms.take() else { return };
        let took_ms = now_ms.saturating_sub(started_ms);
        self.batches.push(BatchMemory { nodes: self.batch_nodes, took_ms });
        self.batch_nodes = 0;
        let surplus = self.batches.len().saturating_sub(BATCHES_KEPT);
        self.batches.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_foretold_before_a_batch_has_ended() {
        let mut roll = RollMemory::default();
        assert_eq!(estimate(&roll, 10, 0), None);
        roll.begin_batch(2, 1_000);
        assert_eq!(estimate(&roll, 10, 2_000), None);
        roll.end_batch(61_000);
        let expected = Estimate { end_ms: 361_000, batches_left: 5 };
        assert_eq!(estimate(&roll, 10, 61_000), Some(expected));
    }

    #[test]
    fn the_batch_under_way_counts_for_what_is_left_of_it() {
        let batches = vec![BatchMemory { nodes: 3, took_ms: 100 }];
        let roll = RollMemory { batches, batch_started_ms: Some(1_000), ..RollMemory::default() };
        assert_eq!(estimate(&roll, 4, 1_040).unwrap().end_ms, 1_040 + 60 + 200);
        // It takes longer than usual: it may end at any moment.
        assert_eq!(estimate(&roll, 4, 9_000).unwrap().end_ms, 9_200);
    }

    #[test]
    fn only_the_last_batches_count() {
        let mut roll = RollMemory::default();
        for batch in 0..20 {
            roll.begin_batch(1, batch * 1_000);
            roll.end_batch(batch * 1_000 + batch);
        }
        assert_eq!(roll.batches.len(), BATCHES_KEPT);
        assert_eq!(roll.batches[0].took_ms, 12);
        assert_eq!(roll.restarts, 20);
    }
}
