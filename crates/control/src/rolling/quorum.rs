//! Whether a controller may be restarted without the quorum losing its majority.
//!
//! 1. Without a known leader nothing is restarted.
//! 2. A voter has caught up if it is the leader, or was level with the leader less than the fetch
//!    time-out before the leader itself was. A time that is not known is not caught up.
//! 3. Those that have caught up, without the one to be restarted, must be a majority of all voters. For
//!    one and two voters that could never be, so one may always be restarted, and of two each when the
//!    other has caught up.
//! 4. One that is no voter takes no vote along, and may always be restarted. (The rule that this
//!    follows counts it among two voters and then never restarts it.)
//! 5. A voter whose disk is deleted with its pod does not come back as a voter. Of one or two voters it takes the majority
//!    along for ever, so only a person may accept that ([`needs_every_voter`]).
//! 6. The leader need not be a voter: one that is being removed leads until it is out. It then counts
//!    only as the clock that the others are compared with.
//! 7. A voter that follows another, is known to be behind and has not fetched for longer than the
//!    leader counts it ([`is_behind`]) keeps nobody's majority. If its node is not ready, it is
//!    restarted whatever the others are.

use std::collections::BTreeMap;

use model::NodeId;
use serde::{Deserialize, Serialize};

/// How long a follower may be without the leader before it looks for another, where nothing else is
/// configured.
pub const FETCH_TIMEOUT_DEFAULT_MS: u64 = 2000;

/// What is known of the quorum. By the leader's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Who leads.
    pub leader: Option<NodeId>,
    /// When the leader was level with itself: its own time, whether it is a voter or not.
    pub leader_caught_up_ms: Option<u64>,
    /// Each voter, and when it last had everything.
    pub voters: Vec<(NodeId, Option<u64>)>,
    /// When each voter last fetched. One of which that is unknown is missing.
    pub fetched_ms: BTreeMap<NodeId, u64>,
    /// `controller.quorum.fetch.timeout.ms`.
    pub fetch_timeout_ms: u64,
}

/// Why a controller is not restarted now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Hold {
    /// Nobody leads, so nothing is known of the others.
    NoLeader,
    /// Without it too few voters would have everything.
    Majority {
        /// How many would.
        caught_up: usize,
        /// How many must.
        needed: usize,
        /// The other voters that have not.
        behind: Vec<NodeId>,
    },
}

/// Whether `node` may be restarted.
pub fn may_restart(facts: &Facts, node: NodeId) -> Result<(), Hold> {
    let Some(leader) = facts.leader else { return Err(Hold::NoLeader) };
    if !facts.voters.iter().any(|(voter, _)| *voter == node) {
        return Ok(());
    }
    let others = || facts.voters.iter().filter(|(voter, _)| *voter != node);
    let has_all = |(voter, at): &&(NodeId, Option<u64>)| is_level(facts, leader, *voter, *at);
    let caught_up = others().filter(has_all).count();
    let needed = match facts.voters.len() {
        1 => 0,
        2 => 1,
        voters => voters / 2 + 1,
    };
    if caught_up >= needed {
        return Ok(());
    }
    let behind = others().filter(|voter| !has_all(voter)).map(|(voter, _)| *voter).collect();
    Err(Hold::Majority { caught_up, needed, behind })
}

/// Whether a quorum of so many voters has no majority without one of them.
#[must_use]
pub const fn needs_every_voter(voters: usize) -> bool {
    matches!(voters, 1 | 2)
}

/// Whether a voter is known to keep nobody's majority: another leads, and it has neither caught up
/// nor fetched lately. What is unknown of it does not make it so.
///
/// A leader resigns when it has had no fetches from a majority for 1.5 times the fetch time-out.
/// Until then a voter that is behind counts for that majority, and may be the one that it depends
/// on.
#[must_use]
pub fn is_behind(facts: &Facts, node: NodeId) -> bool {
    let Some(leader) = facts.leader.filter(|leader| *leader != node) else { return false };
    let fetched_ms = facts.fetched_ms.get(&node);
    let Some((now_ms, fetched_ms)) = facts.leader_caught_up_ms.zip(fetched_ms) else {
        return false;
    };
    let is_silent =
        now_ms.saturating_sub(*fetched_ms) > facts.fetch_timeout_ms.saturating_mul(3) / 2;
    let mut of_node = facts.voters.iter().filter(|(voter, _)| *voter == node);
    is_silent && of_node.any(|(voter, at)| at.is_some() && !is_level(facts, leader, *voter, *at))
}

/// Whether a voter has caught up. True for one that is no voter: nobody waits for its vote. None if
/// nobody leads.
#[must_use]
pub fn has_caught_up(facts: &Facts, node: NodeId) -> Option<bool> {
    let leader = facts.leader?;
    let mut of_node = facts.voters.iter().filter(|(voter, _)| *voter == node);
    Some(of_node.all(|(voter, at)| is_level(facts, leader, *voter, *at)))
}

fn is_level(facts: &Facts, leader: NodeId, voter: NodeId, at_ms: Option<u64>) -> bool {
    let Some(at_ms) = at_ms else { return false };
    let level = |leader_at: u64| leader_at.saturating_sub(at_ms) < facts.fetch_timeout_ms;
    voter == leader || facts.leader_caught_up_ms.is_some_and(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: i32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    /// Leader (-1 is none), time-out, voters with their time (-1 is not known), and whether the node
    /// may be restarted.
    type Row = (&'static str, i32, u64, &'static [(i32, i64)], i32, bool);

    #[rustfmt::skip]
    const ROWS: &[Row] = &[
        ("Q1  the leader of three",             1, 2000, &[(1, 10000), (2, 9500), (3, 9700)],            1, true),
        ("Q2  the leader of four",              1, 2000, &[(1, 10000), (2, 9500), (3, 9700), (4, 9600)], 1, true),
        ("Q3  one of two followers is behind",  1, 2000, &[(1, 10000), (2, 7000), (3, 8200)],            1, false),
        ("Q4  one of three followers is behind", 1, 2000, &[(1, 10000), (2, 7000), (3, 8200), (4, 9000)], 1, false),
        ("Q5  the one that is behind itself",   1, 2000, &[(1, 10000), (2, 7000), (3, 10000)],           2, true),
        ("Q6  another one is behind",           1, 2000, &[(1, 10000), (2, 7000), (3, 10000)],           3, false),
        ("Q7  no follower's time is known",     1, 2000, &[(1, 10000), (2, -1), (3, -1)],                3, false),
        ("Q9  the only voter",                  1, 2000, &[(1, 10000)],                                  1, true),
        ("Q10 one of two, the other level",     1, 2000, &[(1, 10000), (2, 9500)],                       1, true),
        ("Q11 one of two, the other behind",    1, 2000, &[(1, 10000), (2, 7000)],                       1, false),
        ("Q12 one follower's time is not known", 1, 2000, &[(1, 10000), (2, -1), (3, 9500)],             1, false),
        ("Q13 nobody leads",                   -1, 2000, &[(1, 10000), (2, 9500), (3, 9700)],            1, false),
        ("Q14 another time-out",                1,  100, &[(1, 10000), (2, 9950)],                       1, true),
        ("at the time-out exactly is behind",   1, 2000, &[(1, 10000), (2, 8000), (3, 10000)],           3, false),
        ("five bear one that is behind",        1, 2000, &[(1, 10000), (2, 9999), (3, 9999), (4, 9999), (5, 1)], 2, true),
        ("five do not bear two",                1, 2000, &[(1, 10000), (2, 9999), (3, 9999), (4, 1), (5, 1)],    2, false),
        ("seven bear two",                      1, 2000, &[(1, 10000), (2, 9999), (3, 9999), (4, 9999), (5, 9999), (6, 1), (7, 1)], 2, true),
        ("the leader counts for a follower",    1, 2000, &[(1, 10000), (2, 9999), (3, 9999)],            2, true),
        ("an observer takes no vote along",     1, 2000, &[(1, 10000), (2, 9999)],                       9, true),
        ("an observer while voters are behind", 1, 2000, &[(1, 10000), (2, 1), (3, 1)],                  9, true),
        ("an observer while nobody leads",     -1, 2000, &[(1, 10000), (2, 9999), (3, 9999)],            9, false),
    ];

    #[test]
    fn the_rows_hold() {
        for (name, leader, timeout, voters, node, expected) in ROWS {
            let known = |ms: i64| u64::try_from(ms).ok();
            let leader = NodeId::new(*leader);
            let leaders_own = voters.iter().find(|(voter, _)| Some(id(*voter)) == leader);
            let facts = Facts {
                leader,
                leader_caught_up_ms: leaders_own.and_then(|(_, ms)| known(*ms)),
                voters: voters.iter().map(|(voter, ms)| (id(*voter), known(*ms))).collect(),
                fetched_ms: BTreeMap::new(),
                fetch_timeout_ms: *timeout,
            };
            assert_eq!(may_restart(&facts, id(*node)).is_ok(), *expected, "{name}");
        }
    }

    #[test]
    fn one_and_two_voters_are_all_needed() {
        let needed: Vec<usize> = (0..8).filter(|voters| needs_every_voter(*voters)).collect();
        assert_eq!(needed, [1, 2]);
        // It follows from what a majority is.
        let majority = |voters: usize| voters / 2 + 1;
        assert!((1..8).all(|voters| needs_every_voter(voters) == (voters - 1 < majority(voters))));
    }

    #[test]
    fn only_a_voter_that_is_known_to_be_behind_keeps_no_majority() {
        let facts = |leader: i32, leader_ms: Option<u64>, own_ms: Option<u64>| Facts {
            leader: NodeId::new(leader),
            leader_caught_up_ms: leader_ms,
            voters: vec![(id(1), leader_ms), (id(2), own_ms), (id(3), Some(1))],
            fetched_ms: [(id(2), 6_999)].into(),
            fetch_timeout_ms: FETCH_TIMEOUT_DEFAULT_MS,
        };
        let fetched = |at_ms: Option<u64>| Facts {
            fetched_ms: at_ms.map(|at_ms| (id(2), at_ms)).into_iter().collect(),
            ..facts(1, Some(10_000), Some(1))
        };
        let rows = [
            ("behind", facts(1, Some(10_000), Some(8_000)), true),
            ("level", facts(1, Some(10_000), Some(8_001)), false),
            ("it leads", facts(2, Some(10_000), Some(1)), false),
            ("nobody leads", facts(-1, Some(10_000), Some(1)), false),
            ("its time is unknown", facts(1, Some(10_000), None), false),
            ("the leader's time is unknown", facts(1, None, Some(1)), false),
            ("behind, and the leader still counts its fetches", fetched(Some(7_000)), false),
            ("behind, and it fetches", fetched(Some(10_000)), false),
            ("behind, and when it fetched is unknown", fetched(None), false),
        ];
        for (name, facts, expected) in rows {
            assert_eq!(is_behind(&facts, id(2)), expected, "{name}");
        }
        assert!(!is_behind(&facts(1, Some(10_000), Some(1)), id(9)), "no voter");
    }

    #[test]
    fn a_leader_that_is_no_voter_is_only_the_clock() {
        let mut facts = Facts {
            leader: Some(id(9)),
            leader_caught_up_ms: Some(10_000),
            voters: vec![(id(1), Some(9_900)), (id(2), Some(9_900)), (id(3), Some(9_900))],
            fetched_ms: BTreeMap::new(),
            fetch_timeout_ms: FETCH_TIMEOUT_DEFAULT_MS,
        };
        assert_eq!(may_restart(&facts, id(1)), Ok(()));
        facts.voters[2].1 = Some(1);
        let hold = Hold::Majority { caught_up: 1, needed: 2, behind: vec![id(3)] };
        assert_eq!(may_restart(&facts, id(1)), Err(hold));
    }
}
