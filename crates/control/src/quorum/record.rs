//! What is recorded of the quorum: its mode, the controllers it began with, and who of them was seen.
//!
//! 1. The record is written before anything rests on it.
//! 2. "Seen" is set once and for all. A controller that was seen never gets its generated directory id
//!    again, so a disk that it loses comes back as another one.
//! 3. To be listed as a voter is not to be seen: every initial controller is listed before it is started,
//!    and one that starts late must still get the identity that it is listed with.
//! 4. In a record that was made anew after a loss, who is not marked as seen is not known. As soon as the
//!    quorum has a leader, all count as seen: it lives without those that are missing, and they join as
//!    observers, which is always safe. In a static quorum they wait until a user says that their disk is lost.
//! 5. A static quorum has no list of initial controllers. Its voters are those of the description, and one
//!    that has fetched or led there is seen.
//! 6. Earlier operators did not record who was seen in a static quorum, so in their records that is
//!    unknown. In the first description after that all voters count as seen, also one that is down:
//!    its disk may have been lost since.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;
use serde::{Deserialize, Serialize};

use super::InitialControllers;
use super::format::QuorumMode;
use super::view::{QuorumView, Replica};

/// What is recorded of the quorum.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuorumRecord {
    /// How the controllers know each other.
    pub mode: QuorumMode,
    /// The controllers that the cluster began with; empty for a static quorum.
    pub initial: InitialControllers,
    /// Those that were seen, or were removed, or came back with another disk.
    pub seen: BTreeSet<NodeId>,
    /// Whether the record was made anew after the first one was lost.
    pub rebuilt: bool,
    /// Whether `seen` is kept for a static quorum. An operator that does not keep it drops this
    /// field when it writes the record, so it has to stay inside of this struct: unknown fields of
    /// the record itself are kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub static_seen: bool,
    /// The controllers of a static quorum whose empty disks may be formatted ([`super::replace`]),
    /// each with the uid of the pod that may do it. A pod that takes its place needs a permission
    /// of its own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub replaced: BTreeMap<NodeId, String>,
}

impl QuorumRecord {
    /// Whether the controller has been seen with the directory id it has in the list, as
    /// [`super::format::Facts::seen`] wants it.
    #[must_use]
    pub fn seen(&self, node: NodeId) -> Option<bool> {
        if self.seen.contains(&node) {
            return Some(true);
        }
        let is_kept = self.mode != QuorumMode::Static || self.static_seen;
        (is_kept && !self.rebuilt).then_some(false)
    }

    /// The record after the quorum was described. Record it before a voter is changed or a pod is
    /// stopped; it is equal to this one if there is nothing new.
    #[must_use]
    pub fn after(&self, quorum: Option<&QuorumView>) -> Self {
        let mut next = self.clone();
        let Some(quorum) = quorum else { return next };
        if next.rebuilt {
            next.seen.extend(next.initial.iter().map(|one| one.node));
            next.seen.extend(quorum.voters.iter().map(|voter| voter.id));
            (next.rebuilt, next.static_seen) = (false, true);
            return next;
        }
        if next.mode == QuorumMode::Static {
            let is_seen = |voter: &&Replica| !self.static_seen || quorum.has_shown_itself(voter);
            next.seen.extend(quorum.voters.iter().filter(is_seen).map(|voter| voter.id));
            next.static_seen = true;
            return next;
        }
        let unseen = next.initial.iter().map(|one| one.node).filter(|id| !next.seen.contains(id));
        let seen: Vec<NodeId> = unseen.filter(|id| self.shows(quorum, *id)).collect();
        next.seen.extend(seen);
        next
    }

    /// The record before a voter is removed: whatever becomes of the call, its identity is spent.
    #[must_use]
    pub fn before_removal(&self, node: NodeId) -> Self {
        let mut next = self.clone();
        next.seen.insert(node);
        next
    }

    /// Whether the quorum shows that the controller has used up its generated identity: it has shown
    /// itself with it or with another, or it is not a voter any more.
    fn shows(&self, quorum: &QuorumView, id: NodeId) -> bool {
        let replicas = || quorum.voters.iter().chain(&quorum.observers).filter(|r| r.id == id);
        let listed = self.initial.get(id).map(|one| one.directory);
        // With kraft.version 1 every directory is known, so a voter set without it is one that it
        // was taken out of.
        let votes = quorum.voters.iter().any(|voter| voter.id == id && voter.directory == listed);
        !votes || replicas().any(|replica| quorum.has_shown_itself(replica))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::DirectoryId;

    fn id(id: i32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    fn directory(n: u8) -> DirectoryId {
        DirectoryId::from_bytes([n; 16]).unwrap()
    }

    fn record(seen: &[i32]) -> QuorumRecord {
        let list: Vec<String> =
            (1..=3_u8).map(|n| format!("{n}@c{n}:9090:{}", directory(n))).collect();
        QuorumRecord {
            mode: QuorumMode::Dynamic,
            initial: list.join(",").parse().unwrap(),
            seen: seen.iter().map(|n| id(*n)).collect(),
            ..QuorumRecord::default()
        }
    }

    /// Voters and observers as (id, directory, has fetched). The first voter leads.
    fn view(voters: &[(i32, u8, bool)], observers: &[(i32, u8, bool)]) -> QuorumView {
        let list = |rows: &[(i32, u8, bool)]| {
            let replica = |(node, dir, fetched): &(i32, u8, bool)| Replica {
                id: id(*node),
                directory: Some(directory(*dir)),
                log_end: fetched.then_some(5),
                last_fetch_ms: fetched.then_some(5),
                last_caught_up_ms: None,
            };
            rows.iter().map(replica).collect::<Vec<_>>()
        };
        QuorumView {
            leader: id(voters[0].0),
            epoch: 1,
            high_watermark: None,
            voters: list(voters),
            observers: list(observers),
            fetch_timeout_ms: 2000,
        }
    }

    fn seen_after(before: &[i32], view: &QuorumView) -> Vec<i32> {
        record(before).after(Some(view)).seen.iter().map(|node| node.get()).collect()
    }

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        let rows: [(&str, &[i32], QuorumView, &[i32]); 7] = [
            ("a leader is seen, a voter that is only listed is not",
             &[], view(&[(1, 1, false), (2, 2, false), (3, 3, false)], &[]), &[1]),
            ("a voter that fetches is seen",
             &[1], view(&[(1, 1, true), (2, 2, true), (3, 3, false)], &[]), &[1, 2]),
            ("a new leader does not know yet who fetches; what was seen stays seen",
             &[1, 2], view(&[(3, 3, false), (1, 1, false), (2, 2, false)], &[]), &[1, 2, 3]),
            ("one that came back with another disk has used up its identity",
             &[1, 2], view(&[(1, 1, true), (2, 2, true), (3, 3, false)], &[(3, 9, true)]), &[1, 2, 3]),
            ("so has one that votes with another disk",
             &[1, 2], view(&[(1, 1, true), (2, 2, true), (3, 9, false)], &[]), &[1, 2, 3]),
            ("P2: and one that was removed",
             &[1, 2], view(&[(1, 1, true), (2, 2, true)], &[]), &[1, 2, 3]),
            ("brokers are not our concern",
             &[1], view(&[(1, 1, true), (2, 2, false), (3, 3, false)], &[(7, 7, true)]), &[1]),
        ];
        for (name, before, view, expected) in rows {
            assert_eq!(seen_after(before, &view), expected, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_described_changes_nothing() {
        assert_eq!(record(&[1]).after(None), record(&[1]));
        let rebuilt = QuorumRecord { rebuilt: true, ..record(&[1]) };
        assert_eq!(rebuilt.after(None), rebuilt);
    }

    #[test]
    fn who_is_not_marked_in_a_rebuilt_record_is_not_known_until_the_quorum_has_a_leader() {
        let rebuilt = QuorumRecord { rebuilt: true, ..record(&[1]) };
        assert_eq!(rebuilt.seen(id(1)), Some(true));
        assert_eq!(rebuilt.seen(id(2)), None);
        let view = view(&[(1, 1, true), (2, 2, false), (3, 3, false)], &[]);
        let after = rebuilt.after(Some(&view));
        assert_eq!([1, 2, 3].map(|n| after.seen(id(n))), [Some(true); 3]);
        assert_eq!(record(&[]).seen(id(2)), Some(false));
    }

    /// A static quorum: nobody knows the disks of its voters.
    fn static_view(voters: &[(i32, bool)]) -> QuorumView {
        let rows: Vec<_> = voters.iter().map(|(node, fetched)| (*node, 1, *fetched)).collect();
        let mut view = view(&rows, &[]);
        view.voters.iter_mut().for_each(|voter| voter.directory = None);
        view
    }

    #[test]
    #[rustfmt::skip]
    fn the_rows_of_a_static_quorum_hold() {
        let rows: [(&str, &[i32], QuorumView, &[i32]); 3] = [
            ("a leader is seen, a voter that is only configured is not",
             &[], static_view(&[(1, false), (2, false), (3, false)]), &[1]),
            ("a voter that fetches is seen",
             &[1], static_view(&[(1, true), (2, true), (3, false)]), &[1, 2]),
            ("what was seen stays seen",
             &[1, 2, 3], static_view(&[(1, true), (2, true), (3, false)]), &[1, 2, 3]),
        ];
        for (name, before, view, expected) in rows {
            let seen = before.iter().map(|n| id(*n)).collect();
            let (mode, static_seen) = (QuorumMode::Static, true);
            let record = QuorumRecord { mode, seen, static_seen, ..QuorumRecord::default() };
            let after = record.after(Some(&view));
            let seen: Vec<_> = after.seen.iter().map(|node| node.get()).collect();
            assert_eq!(seen, expected, "{name}");
        }
        // Adopted: whether it is static is found out in the same pass.
        let adopted = QuorumRecord { rebuilt: true, ..QuorumRecord::default() };
        assert_eq!(adopted.seen(id(3)), None);
        let after = adopted.after(Some(&static_view(&[(1, true), (2, true), (3, false)])));
        assert_eq!([1, 2, 3].map(|n| after.seen(id(n))), [Some(true); 3]);
        assert_eq!(QuorumRecord { mode: QuorumMode::Static, ..after }.seen(id(9)), Some(false));
    }

    /// The leader is elected a moment ago, and controllers 2 and 3 are down with new disks.
    #[test]
    fn all_voters_of_a_static_quorum_count_as_seen_after_an_operator_that_did_not_record_it() {
        let view = static_view(&[(1, false), (2, false), (3, false)]);
        for text in [r#"{"mode":"static"}"#, r#"{"mode":"static","seen":[1],"rebuilt":false}"#] {
            let earlier: QuorumRecord = serde_json::from_str(text).unwrap();
            assert_eq!([2, 3].map(|n| earlier.seen(id(n))), [None; 2], "{text}");
            let undescribed = earlier.after(None);
            assert_eq!([2, 3].map(|n| undescribed.seen(id(n))), [None; 2], "{text}");
            let after = earlier.after(Some(&view));
            assert_eq!([1, 2, 3].map(|n| after.seen(id(n))), [Some(true); 3], "{text}");
            // It is recorded from then on.
            let text = serde_json::to_string(&after).unwrap();
            let again: QuorumRecord = serde_json::from_str(&text).unwrap();
            assert_eq!((again.seen(id(9)), again.after(Some(&view))), (Some(false), after));
        }
    }

    #[test]
    fn a_removal_uses_up_the_identity_before_it_is_asked_for() {
        assert_eq!(record(&[]).before_removal(id(3)).seen(id(3)), Some(true));
    }

    #[test]
    fn the_record_is_read_as_it_was_written() {
        let record = record(&[1, 3]);
        let text = serde_json::to_string(&record).unwrap();
        assert!(text.contains("\"mode\":\"dynamic\""), "{text}");
        assert_eq!(serde_json::from_str::<QuorumRecord>(&text).unwrap(), record);
        let empty: QuorumRecord = serde_json::from_str("{}").unwrap();
        assert_eq!(empty, QuorumRecord::default());
        assert_eq!(empty.mode, QuorumMode::Unknown);
    }
}
