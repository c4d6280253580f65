//! The quorum as its leader describes it.
//!
//! 1. A voter is a node *and* a directory: a disk that was replaced is another voter.
//! 2. A replica has caught up if it is the leader, or was level with the leader less than the fetch
//!    time-out before the leader itself was. A time that is not known is not caught up.
//! 3. The leader need not be a voter: one that is being removed leads until it is out. It then counts
//!    only as the clock that the others are compared with.
//! 4. To be listed is no sign of life. A voter of the first list is a voter before it has ever been
//!    started, and an observer that is gone stays listed for five minutes.

use std::collections::BTreeSet;

use model::{DirectoryId, NodeId};
use serde::{Deserialize, Serialize};

/// How long ago a node may have had all metadata for its word on partitions to count.
///
/// A broker that keeps up fetches at least every 500 ms, as the active controller writes a record that often; six such
/// rounds allow for a pause of its JVM. One that is cut off is fenced only after its session, 9 s by default, and has
/// long missed what became of the partitions by then.
pub const METADATA_LAG_MS_MAX: u64 = 3_000;

/// The quorum, as its leader sees it. All times are by the leader's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuorumView {
    /// Who leads.
    pub leader: NodeId,
    /// How many leaders there were before.
    pub epoch: i32,
    /// What a majority has; unknown for a moment after an election.
    pub high_watermark: Option<u64>,
    /// Those that vote.
    pub voters: Vec<Replica>,
    /// Those that only follow: every broker, and controllers that are no voters.
    pub observers: Vec<Replica>,
    /// `controller.quorum.fetch.timeout.ms`.
    pub fetch_timeout_ms: u64,
}

/// One replica of the metadata log. With a replaced disk, one id can be there twice: as the voter that
/// it was and the observer that it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replica {
    /// The node.
    pub id: NodeId,
    /// The disk that its metadata is on. Not known for the voters of a static quorum.
    pub directory: Option<DirectoryId>,
    /// Where its log ends.
    pub log_end: Option<u64>,
    /// When it last fetched. Not known to a leader that has just been elected.
    pub last_fetch_ms: Option<u64>,
    /// When it last had everything, likewise.
    pub last_caught_up_ms: Option<u64>,
}

/// A place in the log of one leader, with the voters that it had when it was there.
///
/// A change of voters is in force when it is written, but it stands only when a majority has it: a
/// leader that dies before takes it along. Once the same leader's high watermark is past the mark, with
/// the same voters, they stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    epoch: i32,
    log_end: u64,
    voters: BTreeSet<(NodeId, Option<DirectoryId>)>,
}

impl QuorumView {
    /// The leader's own replica, looked for among the voters first.
    #[must_use]
    pub fn leader_replica(&self) -> Option<&Replica> {
        self.voters.iter().chain(&self.observers).find(|replica| replica.id == self.leader)
    }

    /// The voter with that id. There is at most one: Kafka refuses a second.
    #[must_use]
    pub fn voter(&self, id: NodeId) -> Option<&Replica> {
        self.voters.iter().find(|voter| voter.id == id)
    }

    /// The observer with that id and that disk.
    #[must_use]
    pub fn observer(&self, id: NodeId, directory: DirectoryId) -> Option<&Replica> {
        self.observers
            .iter()
            .find(|observer| observer.id == id && observer.directory == Some(directory))
    }

    /// Whether a replica has what the leader has, or had so a moment ago.
    #[must_use]
    pub fn has_caught_up(&self, replica: &Replica) -> bool {
        let Some(leader) = self.leader_replica() else { return false };
        if std::ptr::eq(leader, replica) || leader == replica {
            return true;
        }
        let (Some(leader_at), Some(at)) = (leader.last_caught_up_ms, replica.last_caught_up_ms)
        else {
            return false;
        };
        leader_at.saturating_sub(at) < self.fetch_timeout_ms
    }

    /// Whether a node, as a voter or as an observer, has had all metadata until a moment ago
    /// ([`METADATA_LAG_MS_MAX`]).
    #[must_use]
    pub fn knows_metadata(&self, id: NodeId) -> bool {
        if id == self.leader {
            return true;
        }
        let leader_at = self.leader_replica().and_then(|leader| leader.last_caught_up_ms);
        let Some(leader_at) = leader_at else { return false };
        let lag = |replica: &Replica| Some(leader_at.saturating_sub(replica.last_caught_up_ms?));
        let mut replicas = self.voters.iter().chain(&self.observers).filter(|r| r.id == id);
        replicas.any(|replica| lag(replica).is_some_and(|lag_ms| lag_ms < METADATA_LAG_MS_MAX))
    }

    /// Whether the leader has heard of this replica at all. One that was only ever listed has not
    /// fetched and has no end of its log.
    #[must_use]
    pub fn has_shown_itself(&self, replica: &Replica) -> bool {
        let leads = self.leader_replica().is_some_and(|leader| leader == replica);
        leads || replica.last_fetch_ms.is_some() || replica.log_end.is_some()
    }

    /// How many records a replica is behind the leader, if both ends are known.
    #[must_use]
    pub fn lag(&self, replica: &Replica) -> Option<u64> {
        let leader_end = self.leader_replica()?.log_end?;
        Some(leader_end.saturating_sub(replica.log_end?))
    }

    /// Where the leader is now; `None` if it does not say.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        let log_end = self.leader_replica()?.log_end?;
        Some(Mark { epoch: self.epoch, log_end, voters: self.voter_keys() })
    }

    /// Whether the voters of this view are known to stand: a majority has all that the leader has, or
    /// all that it had at an earlier mark with the same voters.
    #[must_use]
    pub fn voters_stand(&self, earlier: Option<&Mark>) -> bool {
        let Some(high_watermark) = self.high_watermark else { return false };
        let now = self.leader_replica().and_then(|leader| leader.log_end);
        let passed = |mark: &Mark| {
            mark.epoch == self.epoch
                && mark.voters == self.voter_keys()
                && high_watermark >= mark.log_end
        };
        now.is_some_and(|end| high_watermark >= end) || earlier.is_some_and(passed)
    }

    fn voter_keys(&self) -> BTreeSet<(NodeId, Option<DirectoryId>)> {
        self.voters.iter().map(|voter| (voter.id, voter.directory)).collect()
    }
}

/// How many of so many voters are a majority.
#[must_use]
pub const fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(id: i32, caught_up_ms: Option<u64>) -> Replica {
        Replica {
            id: NodeId::new(id).unwrap(),
            directory: DirectoryId::from_bytes([u8::try_from(id).unwrap(); 16]),
            log_end: caught_up_ms,
            last_fetch_ms: caught_up_ms,
            last_caught_up_ms: caught_up_ms,
        }
    }

    fn view(
        leader: i32,
        voters: &[(i32, Option<u64>)],
        observers: &[(i32, Option<u64>)],
    ) -> QuorumView {
        let list = |rows: &[(i32, Option<u64>)]| {
            rows.iter().map(|(id, at)| replica(*id, *at)).collect::<Vec<_>>()
        };
        QuorumView {
            leader: NodeId::new(leader).unwrap(),
            epoch: 7,
            high_watermark: Some(10_000),
            voters: list(voters),
            observers: list(observers),
            fetch_timeout_ms: 2000,
        }
    }

    #[test]
    fn who_is_less_than_the_time_out_behind_has_caught_up() {
        let view =
            view(1, &[(1, Some(10_000)), (2, Some(8_001)), (3, Some(8_000)), (4, None)], &[]);
        let caught_up: Vec<bool> = view.voters.iter().map(|v| view.has_caught_up(v)).collect();
        assert_eq!(caught_up, [true, true, false, false]);
    }

    #[test]
    fn the_leader_has_what_it_has_also_if_it_tells_no_time() {
        let view = view(1, &[(1, None), (2, Some(10_000))], &[]);
        let leader = view.voters[0].clone();
        assert!(view.has_caught_up(&leader), "a copy is the same replica");
        assert!(!view.has_caught_up(&view.voters[1]));
    }

    #[test]
    fn a_replica_is_as_many_records_behind_as_it_lacks() {
        let mut view = view(1, &[(1, Some(10_000)), (2, Some(9_990)), (3, None)], &[]);
        let lags: Vec<_> = view.voters.iter().map(|voter| view.lag(voter)).collect();
        let ends: Vec<_> = view.voters.iter().map(|voter| voter.log_end).collect();
        let expected = ends.iter().map(|end| Some(ends[0]?.saturating_sub((*end)?)));
        assert_eq!(lags, expected.collect::<Vec<_>>());
        assert_eq!(lags[1], Some(10));
        view.voters[0].log_end = None;
        assert_eq!(view.lag(&view.voters[1]), None);
    }

    /// P5: Kafka's own tools fail on this.
    #[test]
    fn a_leader_that_votes_no_more_is_the_clock() {
        let view = view(9, &[(1, Some(9_000)), (2, Some(7_000))], &[(9, Some(10_000))]);
        let caught_up: Vec<bool> = view.voters.iter().map(|v| view.has_caught_up(v)).collect();
        assert_eq!(caught_up, [true, false]);
    }

    #[test]
    fn without_a_word_of_the_leader_nobody_has_caught_up() {
        let view = view(9, &[(1, Some(9_000))], &[]);
        assert!(!view.has_caught_up(&view.voters[0]));
    }

    #[test]
    fn a_voter_that_is_only_listed_has_not_shown_itself() {
        let view = view(1, &[(1, None), (2, Some(1)), (3, None)], &[]);
        let shown: Vec<bool> = view.voters.iter().map(|v| view.has_shown_itself(v)).collect();
        assert_eq!(shown, [true, true, false]);
    }

    #[test]
    #[rustfmt::skip]
    fn a_node_that_fetched_a_moment_ago_knows_the_metadata() {
        let rows = [
            ("the leader",                 1, true),
            ("a voter that keeps up",      2, true),
            ("a voter that is behind",     3, false),
            ("a broker that keeps up",     7, true),
            ("a broker that is cut off",   8, false),
            ("one that has not fetched",   9, false),
            ("one that nobody knows",      5, false),
            ("a replaced disk",            4, true),
        ];
        let voters = [(1, Some(10_000)), (2, Some(9_500)), (3, Some(5_000)), (4, Some(1_000))];
        let observers = [(7, Some(7_001)), (8, Some(7_000)), (9, None), (4, Some(9_900))];
        let view = view(1, &voters, &observers);
        for (name, node, expected) in rows {
            assert_eq!(view.knows_metadata(NodeId::new(node).unwrap()), expected, "{name}");
        }
        // A leader that does not tell its own time is no clock.
        let mut mute = view.clone();
        mute.voters[0].last_caught_up_ms = None;
        assert!(!mute.knows_metadata(NodeId::new(7).unwrap()));
    }

    #[test]
    fn voters_stand_when_a_majority_has_what_the_leader_had() {
        let mut now = view(1, &[(1, Some(10_000)), (2, Some(9_990))], &[]);
        assert!(now.voters_stand(None));
        now.high_watermark = Some(9_999);
        assert!(!now.voters_stand(None));
        let mark = now.mark();
        assert!(!now.voters_stand(mark.as_ref()));
        // The log grows all the time; what counts is that it has passed the mark.
        now.voters[0].log_end = Some(20_000);
        now.high_watermark = Some(10_000);
        assert!(now.voters_stand(mark.as_ref()));
        let mut other_leader = now.clone();
        other_leader.epoch += 1;
        assert!(!other_leader.voters_stand(mark.as_ref()));
        let mut other_voters = now.clone();
        other_voters.voters.pop();
        assert!(!other_voters.voters_stand(mark.as_ref()));
        now.high_watermark = None;
        assert!(!now.voters_stand(mark.as_ref()));
    }
}
