//! Whether the operator makes progress, or must be restarted.
//!
//! Each loop of the operator, and each reconciliation pass in flight, records when it last made progress. One that
//! made none for longer than its [limit](Loop::limit) is stalled.
//!
//! 1. Every call has a deadline, so work that does not progress for longer than all its calls together hangs: it waits
//!    for something that never comes, or computes without end. Restarting is safe, since every act is recorded first.
//! 2. A slow peer does not make the operator restart: limits are above the worst bounded time between two beats.
//! 3. A standby is alive while it looks at the Lease. Not leading is not a stall.
//! 4. A hung leader must not keep the Lease: it is renewed by a loop of its own, so nobody else takes over before this
//!    process is stopped.

use std::fmt;
use std::time::Duration;

/// What makes progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loop {
    /// The election: looks at the Lease, or renews it.
    Lease,
    /// The task that polls all controllers and their passes. It beats every second while it is polled.
    Controllers,
    /// One pass over a `Kafka`. It beats at each step and each write.
    Kafka,
    /// One pass over a `KafkaRebalance`. It beats at each write.
    KafkaRebalance,
    /// One pass over `KafkaTopic` resources of a cluster. It beats at each write and each page that it reads.
    KafkaTopic,
    /// One collection of metrics of topics and groups. It beats at each kind of request.
    Lag,
    /// One pass over `KafkaUser` resources of a cluster. It beats at each write and each read of Kafka.
    KafkaUser,
    /// One pass over a `StrimziPodSet`. It beats at each write.
    StrimziPodSet,
}

impl Loop {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Lease,
        Self::Controllers,
        Self::Kafka,
        Self::KafkaRebalance,
        Self::KafkaTopic,
        Self::Lag,
        Self::KafkaUser,
        Self::StrimziPodSet,
    ];

    /// The longest time without progress.
    #[must_use]
    pub const fn limit(self) -> Duration {
        Duration::from_secs(match self {
            // A turn pauses for 2 s and makes at most two requests of 3 s each; a busy node may triple that.
            Self::Lease => 30,
            // Nothing computes in this task for longer than a second: plans are made on threads of their own. The rest
            // is for a CPU limit that throttles the process.
            Self::Controllers => 60,
            // Between two beats a pass only reads. Nodes are asked in parallel, so a read of a whole cluster takes
            // as long as its slowest calls: at most ten in a row, of at most 30 s (API server), 8 s (Kafka), 11 s
            // (Cruise Control) or 5 s (node). Twice that.
            Self::Kafka
            | Self::KafkaRebalance
            | Self::KafkaTopic
            | Self::Lag
            | Self::KafkaUser
            | Self::StrimziPodSet => 600,
        })
    }

    /// The name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lease => "Lease",
            Self::Controllers => "controllers",
            Self::Kafka => "Kafka",
            Self::KafkaRebalance => "KafkaRebalance",
            Self::KafkaTopic => "KafkaTopic",
            Self::Lag => "lag",
            Self::KafkaUser => "KafkaUser",
            Self::StrimziPodSet => "StrimziPodSet",
        }
    }
}

/// The last progress of something that runs. What has ended has no beat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// What it is.
    pub of: Loop,
    /// The object that a pass is over; empty for loops.
    pub object: String,
    /// When it last made progress, on any clock that does not jump.
    pub last: Duration,
}

/// Something that makes no progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stalled {
    /// What.
    pub of: Loop,
    /// The object that a pass is over; empty for loops.
    pub object: String,
    /// For how long.
    pub since: Duration,
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.of.name())?;
        if !self.object.is_empty() {
            write!(f, " {}", self.object)?;
        }
        let (since, limit) = (self.since.as_secs(), self.of.limit().as_secs());
        write!(f, ": no progress for {since} s, limit {limit} s")
    }
}

/// Decides whether everything that runs makes progress. Of several stalls the longest is reported.
///
/// # Errors
/// Something is stalled.
pub fn alive<'a>(now: Duration, beats: impl IntoIterator<Item = &'a Beat>) -> Result<(), Stalled> {
    let stalled = beats.into_iter().filter_map(|beat| {
        let since = now.saturating_sub(beat.last);
        (since > beat.of.limit()).then_some((since, beat))
    });
    match stalled.max_by_key(|(since, _)| *since) {
        None => Ok(()),
        Some((since, beat)) => Err(Stalled { of: beat.of, object: beat.object.clone(), since }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(of: Loop, last: u64) -> Beat {
        let object = if of == Loop::Kafka { "ns/c".to_owned() } else { String::new() };
        Beat { of, object, last: Duration::from_secs(last) }
    }

    #[test]
    #[rustfmt::skip]
    fn what_makes_no_progress_for_longer_than_its_limit_is_stalled() {
        use Loop::{Controllers, Kafka, KafkaRebalance, Lease, StrimziPodSet};
        let rows: &[(u64, &[(Loop, u64)], Option<&str>)] = &[
            // Before the election, and a standby that looks at the Lease.
            (0,    &[],                                               None),
            (9999, &[],                                               None),
            (9999, &[(Lease, 9970)],                                  None),
            // A standby whose election hangs.
            (9999, &[(Lease, 9968)],                                  Some("Lease: no progress for 31 s, limit 30 s")),
            // A leader.
            (1000, &[(Lease, 999), (Controllers, 998)],               None),
            (1000, &[(Lease, 999), (Controllers, 940)],               None),
            // Its Lease is renewed and its controllers hang.
            (1000, &[(Lease, 999), (Controllers, 939)],               Some("controllers: no progress for 61 s, limit 60 s")),
            // A slow pass is not a hung one.
            (1000, &[(Lease, 999), (Controllers, 999), (Kafka, 400)], None),
            (1000, &[(Lease, 999), (Controllers, 999), (Kafka, 399)], Some("Kafka ns/c: no progress for 601 s, limit 600 s")),
            (1000, &[(KafkaRebalance, 399)],                          Some("KafkaRebalance: no progress for 601 s, limit 600 s")),
            (1000, &[(StrimziPodSet, 399)],                           Some("StrimziPodSet: no progress for 601 s, limit 600 s")),
            // The longest of several.
            (1000, &[(Lease, 900), (Kafka, 10), (Controllers, 500)],  Some("Kafka ns/c: no progress for 990 s, limit 600 s")),
            // A beat that is newer than the reading of the clock.
            (5,    &[(Controllers, 6)],                               None),
        ];
        for (now, beats, expected) in rows {
            let beats: Vec<_> = beats.iter().map(|(of, last)| beat(*of, *last)).collect();
            let said = alive(Duration::from_secs(*now), &beats).err().map(|one| one.to_string());
            assert_eq!(said.as_deref(), *expected, "{now} {beats:?}");
        }
    }
}
