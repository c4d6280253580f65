//! How far an execution is, in bytes, and when it will be done.

use super::job::{Facts, Job};
use super::wave::Standing;
use super::{Phase, Recorded};

/// How far an execution is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// What is to be copied in all.
    pub bytes_total: u64,
    /// What has been, as far as that is known.
    pub bytes_done: u64,
    /// Partitions to be changed.
    pub moves_total: usize,
    /// Those that have been.
    pub moves_done: usize,
    /// Those that are being moved.
    pub moves_in_flight: usize,
    /// Those that wait for a broker, for replicas to be in sync, or for somebody else's move.
    pub moves_waiting: usize,
    /// How long it may still take; `None` before anything has been copied.
    pub left_ms: Option<u64>,
}

impl Progress {
    /// The percentage of bytes that have been copied, rounded down.
    #[must_use]
    pub fn percent(&self) -> u64 {
        percent(self.bytes_total, self.bytes_done)
    }

    /// How many minutes it may still take.
    #[must_use]
    pub fn left_minutes(&self) -> Option<u64> {
        self.left_ms.map(|ms| (ms + 30_000) / 60_000)
    }
}

/// The percentage of `total` that `done` is, rounded down; nothing of nothing is nothing.
#[must_use]
pub(super) fn percent(total: u64, done: u64) -> u64 {
    if total == 0 { 0 } else { (u128::from(done.min(total)) * 100 / u128::from(total)) as u64 }
}

/// The time that the rest takes, if it goes on as it did.
#[must_use]
pub(super) fn left_ms(elapsed_ms: u64, total: u64, done: u64) -> Option<u64> {
    let left = u128::from(total.saturating_sub(done));
    (done > 0 && elapsed_ms > 0).then(|| (left * u128::from(elapsed_ms) / u128::from(done)) as u64)
}

/// Adds up what is done.
pub(super) fn measure(
    job: &Job,
    recorded: &Recorded,
    facts: &Facts,
    standings: Option<&[Standing]>,
) -> Progress {
    let moved: u64 = job.tasks.iter().map(|task| task.bytes).sum();
    let shifted: u64 = job.disks.iter().map(|task| task.bytes).sum();
    let mut progress = Progress {
        bytes_total: moved + shifted,
        moves_total: job.tasks.len(),
        ..Progress::default()
    };
    let (Some(standings), Some(all)) = (standings, &facts.partitions) else {
        progress.bytes_done = recorded.measured.map_or(0, |(_, bytes)| bytes);
        return progress;
    };
    for (task, standing) in job.tasks.iter().zip(standings) {
        match standing {
            Standing::Done | Standing::Gone => {
                progress.moves_done += 1;
                progress.bytes_done += task.bytes;
            }
            Standing::InFlight { .. } => {
                progress.moves_in_flight += 1;
                let arrived = all.get(&task.partition).map_or(0, |now| now.arrived_bytes);
                progress.bytes_done += arrived.min(task.bytes);
            }
            Standing::Foreign | Standing::Waits | Standing::Changed => {
                progress.moves_waiting += 1;
            }
            Standing::Open | Standing::Broken => {}
        }
    }
    for task in &job.disks {
        let now = facts.disks.as_ref().and_then(|all| all.get(&task.replica));
        if now.is_some_and(|now| now.path == task.path) {
            progress.bytes_done += task.bytes;
        }
    }
    if recorded.phase != Phase::Stopping {
        let elapsed_ms = facts.now_ms.saturating_sub(recorded.began_ms);
        progress.left_ms = left_ms(elapsed_ms, progress.bytes_total, progress.bytes_done);
    }
    progress
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_those_of_strimzi() {
        let (second, day) = (1_000, 86_400_000);
        #[rustfmt::skip]
        let rows = [
            (second,       1_000,     10,  Some(2)),
            (60 * second,  1_000,     10,  Some(99)),
            (60 * second,  1_000,     500, Some(1)),
            (60 * second,  1_000_000, 100, Some(9_999)),
            (60 * second,  1_000,     990, Some(0)),
            (1_000 * second, 1_000,   10,  Some(1_650)),
            (30 * day,     1_000,     500, Some(43_200)),
            (60 * second,  1_000,     0,   None),
        ];
        for (elapsed_ms, total, done, minutes) in rows {
            let left_ms = left_ms(elapsed_ms, total, done);
            let progress = Progress { left_ms, ..Progress::default() };
            assert_eq!(progress.left_minutes(), minutes, "{elapsed_ms} {total} {done}");
        }
    }

    #[test]
    fn percentages_are_rounded_down() {
        for (total, done, expected) in [(0, 0, 0), (3, 1, 33), (3, 2, 66), (3, 3, 100), (3, 9, 100)]
        {
            assert_eq!(percent(total, done), expected);
        }
    }
}
