//! Controllers that are to go, or to lose that role.
//!
//! 1. A controller runs as one until the voters without it stand. Then it is released: it may be stopped, or
//!    restarted without the role.
//! 2. That it was released is recorded before it is stopped, and stands while nothing is known: a quorum
//!    that cannot be described for a moment brings nobody back.
//! 3. One that is seen to vote or to lead again, because a change of voters was lost with its leader or
//!    somebody made another, is released no more, and runs.
//! 4. Who is desired again is released no more.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;

use crate::quorum::plan::{self, Hold};

/// What to record, and who waits for what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// Those that need not run as controllers any more. Record them first.
    pub released: BTreeSet<NodeId>,
    /// Why the others still do.
    pub holds: BTreeMap<NodeId, Hold>,
}

impl Decision {
    /// Whether the quorum lets a node go, as [`super::guard::Facts::quorum`] wants it.
    pub fn lets_go(&self, node: NodeId) -> Result<(), Hold> {
        self.holds.get(&node).map_or(Ok(()), |hold| Err(*hold))
    }
}

/// Decides who is released. `leaving` are the nodes that were controllers and are not desired as such;
/// `recorded` are those that were released before. Without facts nobody is released who was not before.
#[must_use]
pub fn release(
    recorded: &BTreeSet<NodeId>,
    leaving: &BTreeSet<NodeId>,
    quorum: Option<&plan::Facts>,
) -> Decision {
    let mut decision = Decision::default();
    for node in leaving {
        let before = recorded.contains(node);
        let free = quorum.map_or(Err(Hold::Unknown), |facts| plan::may_stop(facts, *node));
        match free {
            Ok(()) => {
                decision.released.insert(*node);
            }
            Err(Hold::Unknown | Hold::NotCommitted) if before => {
                decision.released.insert(*node);
            }
            Err(hold) => {
                decision.holds.insert(*node, hold);
            }
        }
    }
    decision
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quorum::format::QuorumMode;
    use crate::quorum::plan::Controller;
    use crate::quorum::{QuorumView, Replica};
    use model::DirectoryId;

    fn ids(ids: &[i32]) -> BTreeSet<NodeId> {
        ids.iter().map(|id| NodeId::new(*id).unwrap()).collect()
    }

    /// Voters, leader, and how much of its log a majority has; no voters are no description.
    fn quorum(voters: &[i32], leader: i32, high_watermark: u64) -> plan::Facts {
        let replica = |id: NodeId| Replica {
            id,
            directory: DirectoryId::from_bytes([9; 16]),
            log_end: Some(100),
            last_fetch_ms: Some(1),
            last_caught_up_ms: Some(1),
        };
        let leader = NodeId::new(leader).unwrap();
        let observers = ids(&[leader.get()]);
        plan::Facts {
            mode: QuorumMode::Dynamic,
            desired: ids(&[1, 2, 3]).into_iter().map(|id| (id, Controller::default())).collect(),
            disks: BTreeMap::new(),
            quorum: (!voters.is_empty()).then(|| QuorumView {
                leader,
                epoch: 1,
                high_watermark: Some(high_watermark),
                voters: ids(voters).into_iter().map(replica).collect(),
                observers: observers.into_iter().map(replica).collect(),
                fetch_timeout_ms: 2000,
            }),
            earlier: None,
            recorded_voters: BTreeMap::new(),
            failed_adds: BTreeMap::new(),
        }
    }

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        // Released before, leaving, the quorum, released now.
        let rows: [(&str, &[i32], &[i32], plan::Facts, &[i32]); 8] = [
            ("it votes",                      &[],  &[4], quorum(&[1, 2, 3, 4], 1, 100), &[]),
            ("it votes no more",              &[],  &[4], quorum(&[1, 2, 3], 1, 100),    &[4]),
            ("a majority has not heard yet",  &[],  &[4], quorum(&[1, 2, 3], 1, 99),     &[]),
            ("it leads on its way out",       &[],  &[4], quorum(&[1, 2, 3], 4, 100),    &[]),
            ("nothing is known",              &[],  &[4], quorum(&[], 1, 0),             &[]),
            ("what was released stays so",    &[4], &[4], quorum(&[], 1, 0),             &[4]),
            ("unless it votes again",         &[4], &[4], quorum(&[1, 2, 3, 4], 1, 100), &[]),
            ("or is desired again",        &[4], &[],  quorum(&[], 1, 0),             &[]),
        ];
        for (name, before, leaving, facts, expected) in rows {
            let decision = release(&ids(before), &ids(leaving), Some(&facts));
            assert_eq!(decision.released, ids(expected), "{name}");
            let held = &ids(leaving) - &ids(expected);
            assert_eq!(decision.holds.keys().copied().collect::<BTreeSet<_>>(), held, "{name}");
        }
    }

    #[test]
    fn a_node_that_is_no_leaving_controller_is_free() {
        let decision = release(&ids(&[]), &ids(&[4]), Some(&quorum(&[1, 4], 1, 100)));
        let node = |id| NodeId::new(id).unwrap();
        assert_eq!(decision.lets_go(node(4)), Err(Hold::Votes));
        assert_eq!(decision.lets_go(node(7)), Ok(()));
    }

    #[test]
    fn without_facts_nobody_is_let_go_who_was_not_before() {
        let decision = release(&ids(&[4]), &ids(&[4, 5]), None);
        assert_eq!(decision.released, ids(&[4]));
        let node = |id| NodeId::new(id).unwrap();
        assert_eq!(decision.lets_go(node(4)), Ok(()));
        assert_eq!(decision.lets_go(node(5)), Err(Hold::Unknown));
    }
}
