//! Nodes that are to come.
//!
//! 1. New nodes of all pools start at once: none of them waits for another, and none of them is waited for
//!    by those that run.
//! 2. The brokers among them are recorded, so that replicas can be moved to them. In a cluster whose brokers
//!    are all new there is nothing to move.
//! 3. A node that gets the broker role is a new broker, whatever it was before.
//! 4. A controller more is not started in a quorum that is static, or of which that is not known: it could
//!    never vote, and with another list of voters the others would not be the quorum that they were.
//! 5. Which nodes there are must be known. If it is not, nothing is new.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;

use crate::node::Roles;
use crate::quorum::format::QuorumMode;

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The nodes that are desired, of all pools.
    pub desired: BTreeMap<NodeId, Roles>,
    /// The nodes that were there when this was last decided, with those that are leaving, from the record.
    /// `None` if the record could not be read.
    pub recorded: Option<BTreeMap<NodeId, Roles>>,
    /// Controllers that a static quorum cannot take ([`refused`]).
    pub refused: BTreeSet<NodeId>,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// The nodes to start, all at once.
    pub start: BTreeSet<NodeId>,
    /// The new brokers among them and among the others, to be recorded before they are started.
    pub added_brokers: BTreeSet<NodeId>,
    /// The part of the desired nodes that is possible: without the nodes, or the roles, that are refused.
    pub desired: BTreeMap<NodeId, Roles>,
}

/// The nodes that are desired as controllers and cannot become any (4). Where none was recorded they are
/// the first ones.
#[must_use]
pub fn refused(
    mode: QuorumMode,
    desired: &BTreeMap<NodeId, Roles>,
    recorded: &BTreeMap<NodeId, Roles>,
) -> BTreeSet<NodeId> {
    let votes = |id: &NodeId| recorded.get(id).is_some_and(|roles| roles.is_controller());
    let new = || desired.iter().filter(|(id, roles)| roles.is_controller() && !votes(id));
    match mode {
        QuorumMode::Dynamic => BTreeSet::new(),
        QuorumMode::Static | QuorumMode::Unknown if !recorded.keys().any(votes) => BTreeSet::new(),
        QuorumMode::Static | QuorumMode::Unknown => new().map(|(id, _)| *id).collect(),
    }
}

/// Decides which nodes come.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    let Some(recorded) = &facts.recorded else { return Decision::default() };
    // A broker that was to get a vote stays what it is.
    let had = |(id, roles): (&NodeId, &Roles)| match facts.refused.contains(id) {
        false => Some((*id, *roles)),
        true => recorded.get(id).map(|had| (*id, *had)),
    };
    let possible = facts.desired.iter().filter_map(had).collect();
    let desired = || facts.desired.iter().filter(|(id, _)| !facts.refused.contains(id));
    let start = desired().map(|(id, _)| *id).filter(|id| !recorded.contains_key(id)).collect();
    let was_broker = |id: &NodeId| recorded.get(id).is_some_and(|roles| roles.is_broker());
    let brokers = || desired().filter(|(_, roles)| roles.is_broker()).map(|(id, _)| *id);
    let added: BTreeSet<NodeId> = brokers().filter(|id| !was_broker(id)).collect();
    let all_new = !recorded.values().any(|roles| roles.is_broker());
    let added_brokers = if all_new { BTreeSet::new() } else { added };
    Decision { start, added_brokers, desired: possible }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `0-2b 3-5c 6x`: brokers, controllers and combined nodes.
    fn nodes(text: &str) -> BTreeMap<NodeId, Roles> {
        let mut nodes = BTreeMap::new();
        for token in text.split_whitespace() {
            let (range, role) = token.split_at(token.len() - 1);
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let role = match role {
                "b" => Roles::Broker,
                "c" => Roles::Controller,
                _ => Roles::Combined,
            };
            for id in first.parse().unwrap()..=last.parse().unwrap() {
                nodes.insert(NodeId::new(id).unwrap(), role);
            }
        }
        nodes
    }

    fn text(ids: &BTreeSet<NodeId>) -> String {
        ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        // recorded, desired, started, brokers to be filled
        let rows = [
            ("a new cluster: nothing to move",     "",           "0-2b 3-5c",       "0 1 2 3 4 5", ""),
            ("with combined nodes",                "",           "0-2x",            "0 1 2",       ""),
            ("nothing changes",                    "0-2b 3-5c",  "0-2b 3-5c",       "",            ""),
            ("two brokers more",                   "0-2b 3c",    "0-2b 3c 5-6b",    "5 6",         "5 6"),
            ("a broker and controllers, together", "0-2b 3c",    "0-2b 3-5c 6b",    "4 5 6",       "6"),
            ("a pool more of each kind",           "0-2x",       "0-2x 3-5c 6-8b",  "3 4 5 6 7 8", "6 7 8"),
            ("a controller becomes a broker too",  "0-2b 3c",    "0-2b 3x",         "",            "3"),
            ("a broker becomes a controller too",  "0-2b 3c",    "0-1b 2x 3c",      "",            ""),
            ("one comes while another goes",       "0-2b 3c",    "1-2b 3c 4b",      "4",           "4"),
            ("controllers first, then brokers",    "3-5c",       "3-5c 0-2b",       "0 1 2",       ""),
        ];
        for (name, recorded, desired, start, added) in rows {
            let facts = Facts {
                desired: nodes(desired),
                recorded: Some(nodes(recorded)),
                refused: BTreeSet::new(),
            };
            let decision = decide(&facts);
            assert_eq!(text(&decision.start), start, "{name}");
            assert_eq!(text(&decision.added_brokers), added, "{name}");
        }
    }

    #[test]
    fn without_a_record_nothing_is_new() {
        let facts = Facts { desired: nodes("0-2x"), ..Facts::default() };
        assert_eq!(decide(&facts), Decision::default());
    }

    #[test]
    fn a_static_quorum_gets_no_controller_more() {
        let facts = Facts {
            desired: nodes("0-2b 3-4c 5x 6b"),
            recorded: Some(nodes("0-2b 3c")),
            refused: nodes("4c 5x").into_keys().collect(),
        };
        let decision = decide(&facts);
        assert_eq!(
            (text(&decision.start), text(&decision.added_brokers)),
            ("6".into(), "6".into())
        );
        assert_eq!(decision.desired, nodes("0-2b 3c 6b"));
    }

    #[test]
    #[rustfmt::skip]
    fn what_a_quorum_that_is_not_dynamic_cannot_take_is_refused() {
        use QuorumMode::{Dynamic, Static, Unknown};
        let rows = [
            ("a dynamic one takes all",         Dynamic, "0-2b 3-5c",  "0-2b 3-7c",  "",      "0-2b 3-7c"),
            ("two controllers more",            Static,  "0-2b 3-5c",  "0-2b 3-7c",  "6 7",   "0-2b 3-5c"),
            ("not known what it is",            Unknown, "0-2b 3-5c",  "0-2b 3-7c",  "6 7",   "0-2b 3-5c"),
            ("a broker is to get a vote",       Static,  "0-2b 3-5c",  "0b 1-2x 3-5c", "1 2", "0-2b 3-5c"),
            ("a broker more is none of it",     Static,  "0-2b 3-5c",  "0-2b 3-5c 6b", "",    "0-2b 3-5c 6b"),
            ("a controller gets data",          Static,  "0-2b 3-5c",  "0-2b 3-4c 5x", "",    "0-2b 3-4c 5x"),
            ("its first controllers",           Unknown, "",           "0-2x",       "",      "0-2x"),
            ("one goes, which is not ours",     Static,  "0-2b 3-5c",  "0-2b 3-4c",  "",      "0-2b 3-4c"),
        ];
        for (name, mode, recorded, desired, expected, possible) in rows {
            let (recorded, desired) = (nodes(recorded), nodes(desired));
            let refused = refused(mode, &desired, &recorded);
            assert_eq!(text(&refused), expected, "{name}");
            let decision = decide(&Facts { desired, recorded: Some(recorded), refused });
            assert_eq!(decision.desired, nodes(possible), "{name}");
        }
    }
}
