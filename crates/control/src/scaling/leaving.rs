//! All brokers that are leaving, pass by pass.
//!
//! 1. What leaves is what was a broker and is not desired as one: nodes, roles and whole pools alike.
//! 2. The phases are recorded before a duty is done. At most one transition a pass.
//! 3. A node that has been stopped as a broker finishes as it began, even if the spec changes its kind.
//! 4. A node that only loses its broker role keeps its claims.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;
use serde::{Deserialize, Serialize};

use super::guard::{self, Duty, Facts, Hold, Phase};
use crate::conditions::{Note, Reason};
use crate::node::Roles;
use crate::words::list;

/// A broker on its way out, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Leaving {
    /// How far it is.
    pub phase: Phase,
    /// What goes.
    pub kind: Kind,
    /// The pool that it is of.
    pub pool: String,
}

/// What goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// The whole node.
    Node,
    /// The broker role; the node stays as a controller.
    Role,
}

impl Kind {
    /// The facts as this kind sees them: the claims of a node that stays are not left over.
    const fn judged(self, facts: Facts) -> Facts {
        match self {
            Self::Node => facts,
            Self::Role => Facts { claims_left: Some(false), ..facts },
        }
    }
}

impl Leaving {
    /// Whether the whole node is stopped, or about to be: it has no role until its last trace is gone or
    /// the guard brings it back, and it is not to be made a voter even if its pod still runs.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        match self.kind {
            Kind::Node => !guard::duty(self.phase).runs,
            Kind::Role => false,
        }
    }

    /// Whether the broker is to get no new replicas: it is leaving, and does not come back.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        !matches!(self.phase, Phase::Returning | Phase::Kept)
    }

    /// Whether it, or its broker role, is gone for good. It stays until the record of nodes says so too.
    fn is_gone(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Whether it has lost its broker role for good, and stays otherwise.
    fn is_role_gone(&self) -> bool {
        self.is_gone() && self.kind == Kind::Role
    }

    /// What to keep doing for it.
    #[must_use]
    pub const fn duty(&self) -> Duty {
        let duty = guard::duty(self.phase);
        match self.kind {
            Kind::Node => duty,
            Kind::Role => Duty { delete_claims: false, ..duty },
        }
    }
}

/// A node as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its pool.
    pub pool: String,
    /// What it is for.
    pub roles: Roles,
}

/// Adds the brokers that are to go from now on. `members` are the nodes as they are recorded, with the roles
/// that they have; `desired` is every node that is desired, with its roles.
#[must_use]
pub fn admit(
    recorded: &BTreeMap<NodeId, Leaving>,
    members: &BTreeMap<NodeId, Member>,
    desired: &BTreeMap<NodeId, Roles>,
) -> BTreeMap<NodeId, Leaving> {
    let mut all = recorded.clone();
    // What is gone is forgotten when the record of nodes says so, or when it is desired again. Before that
    // the node would count as a broker that nobody has taken up, and be made anew to be sent away again.
    all.retain(|id, one| !one.is_gone() || awaits_record(*id, members, desired));
    for (id, member) in members.iter().filter(|(_, member)| member.roles.is_broker()) {
        let kind = match desired.get(id) {
            Some(roles) if roles.is_broker() => continue,
            Some(_) => Kind::Role,
            None => Kind::Node,
        };
        let new = || Leaving { phase: Phase::Requested, kind, pool: member.pool.clone() };
        let entry = all.entry(*id).or_insert_with(new);
        if guard::duty(entry.phase).runs {
            entry.kind = kind;
        }
    }
    all
}

fn awaits_record(
    id: NodeId,
    members: &BTreeMap<NodeId, Member>,
    desired: &BTreeMap<NodeId, Roles>,
) -> bool {
    let is_broker = |roles: Option<Roles>| roles.is_some_and(Roles::is_broker);
    is_broker(members.get(&id).map(|one| one.roles)) && !is_broker(desired.get(&id).copied())
}

/// One pass over all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pass {
    /// Record these first. Those that stay after all are there once more, and those that are gone until the
    /// record of nodes has followed.
    pub leaving: BTreeMap<NodeId, Leaving>,
    /// Then see to this, for each.
    pub duties: BTreeMap<NodeId, Duty>,
    /// What each waits for.
    pub holds: BTreeMap<NodeId, Hold>,
    /// The nodes of which there is no trace: take them out of the record of nodes. One that only lost its
    /// broker role is not among them.
    pub done: BTreeSet<NodeId>,
}

/// Takes each broker one phase on, if its facts allow. A broker without facts stays where it is.
#[must_use]
pub fn pass(leaving: &BTreeMap<NodeId, Leaving>, facts: &BTreeMap<NodeId, Facts>) -> Pass {
    let mut pass = Pass::default();
    let ongoing = leaving.iter().filter(|(_, one)| one.phase != Phase::Kept);
    for (id, one) in ongoing {
        let mut one = one.clone();
        if let Some(facts) = facts.get(id) {
            let facts = one.kind.judged(*facts);
            let event = guard::read(one.phase, &facts);
            if let Some(hold) = guard::hold(one.phase, &facts) {
                pass.holds.insert(*id, hold);
            }
            one.phase = event.and_then(|event| guard::next(one.phase, event)).unwrap_or(one.phase);
        }
        pass.duties.insert(*id, one.duty());
        if one.phase == Phase::Done && one.kind == Kind::Node {
            pass.done.insert(*id);
        }
        pass.leaving.insert(*id, one);
    }
    pass
}

impl Pass {
    /// What people should know: for each pool, the brokers that somebody has to do something about.
    #[must_use]
    pub fn warnings(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        for (pool, ids) in self.pools(Hold::is_warning) {
            let said = |id: &NodeId| self.holds.get(id).map(|hold| format!("broker {id}: {hold}"));
            let all: Vec<String> = ids.iter().filter_map(said).collect();
            let message = format!(
                "the scale-down of KafkaNodePool {pool} waits for {}. {}",
                list(&ids),
                all.join("; ")
            );
            notes.push(Note::new(Reason::ScaleDownPreventionCheck, message));
        }
        notes
    }

    /// What is being done, if nobody has to do anything about it: there is more to do in the next pass,
    /// whoever else is waited for.
    #[must_use]
    pub fn progress(&self) -> Option<Note> {
        let said = |id: &NodeId| match self.holds.get(id) {
            Some(hold) if hold.is_warning() => None,
            Some(hold) => Some(format!("broker {id}: {hold}")),
            None => Some(format!("broker {id}: it is leaving")),
        };
        let ongoing = self.leaving.iter().filter(|(_, one)| !one.is_role_gone());
        let all: Vec<String> = ongoing.filter_map(|(id, _)| said(id)).collect();
        (!all.is_empty()).then(|| Note::new(Reason::ScalingDown, all.join("; ")))
    }

    fn pools(&self, which: fn(&Hold) -> bool) -> BTreeMap<&str, BTreeSet<NodeId>> {
        let mut pools: BTreeMap<&str, BTreeSet<NodeId>> = BTreeMap::new();
        for (id, _) in self.holds.iter().filter(|(_, hold)| which(hold)) {
            if let Some(one) = self.leaving.get(id) {
                pools.entry(&one.pool).or_default().insert(*id);
            }
        }
        pools
    }
}

/// The brokers that Kafka must not forget yet, although they are not desired: to be counted among the
/// desired ones in [`crate::registration::unregister::Facts`].
#[must_use]
pub fn stay_registered(leaving: &BTreeMap<NodeId, Leaving>) -> BTreeSet<NodeId> {
    let stays = |phase: Phase| {
        let duty = guard::duty(phase);
        !duty.unregister && !duty.delete_claims
    };
    leaving.iter().filter(|(_, one)| stays(one.phase)).map(|(id, _)| *id).collect()
}

#[cfg(test)]
mod tests {
    use super::super::guard::{Cordon, Registration};
    use super::*;

    fn id(id: i32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    fn members(rows: &[(i32, &str, Roles)]) -> BTreeMap<NodeId, Member> {
        let row = |(n, pool, roles): &(i32, &str, Roles)| {
            (id(*n), Member { pool: (*pool).to_owned(), roles: *roles })
        };
        rows.iter().map(row).collect()
    }

    fn leaving(rows: &[(i32, Phase, Kind)]) -> BTreeMap<NodeId, Leaving> {
        let row = |(n, phase, kind): &(i32, Phase, Kind)| {
            (id(*n), Leaving { phase: *phase, kind: *kind, pool: "a".to_owned() })
        };
        rows.iter().map(row).collect()
    }

    fn facts(partitions: Option<usize>) -> Facts {
        Facts {
            desired: false,
            partitions,
            skip_check: false,
            held: Some(false),
            cordon: Some(Cordon::Closed),
            quorum: Ok(()),
            runs: Some(true),
            registration: Some(Registration::Live),
            claims_left: Some(false),
            others_stay: true,
        }
    }

    const THREE: [(i32, &str, Roles); 4] = [
        (0, "a", Roles::Broker),
        (1, "a", Roles::Broker),
        (2, "b", Roles::Combined),
        (3, "c", Roles::Controller),
    ];

    #[test]
    fn a_node_that_is_not_desired_as_a_broker_leaves() {
        let desired = |rows: &[(i32, Roles)]| rows.iter().map(|(n, r)| (id(*n), *r)).collect();
        let kinds = |desired: &BTreeMap<NodeId, Roles>| {
            let all = admit(&BTreeMap::new(), &members(&THREE), desired);
            all.iter().map(|(id, one)| (id.get(), one.kind)).collect::<Vec<_>>()
        };
        let all =
            [(0, Roles::Broker), (1, Roles::Broker), (2, Roles::Combined), (3, Roles::Controller)];
        assert_eq!(kinds(&desired(&all)), []);
        assert_eq!(kinds(&desired(&all[..1])), [(1, Kind::Node), (2, Kind::Node)]);
        let role = [(0, Roles::Broker), (1, Roles::Broker), (2, Roles::Controller)];
        assert_eq!(kinds(&desired(&role)), [(2, Kind::Role)]);
        // A controller that goes is the quorum's affair.
        assert_eq!(kinds(&desired(&all[..3])), []);
    }

    #[test]
    fn a_kind_changes_only_while_the_broker_runs() {
        let none = BTreeMap::new();
        for (phase, expected) in [
            (Phase::Requested, Kind::Node),
            (Phase::Cordoned, Kind::Node),
            (Phase::Returning, Kind::Node),
            (Phase::Stopping, Kind::Role),
            (Phase::Unregistering, Kind::Role),
        ] {
            let all = admit(&leaving(&[(2, phase, Kind::Role)]), &members(&THREE), &none);
            assert_eq!(all[&id(2)].kind, expected, "{phase:?}");
        }
    }

    #[test]
    fn each_broker_goes_its_own_way() {
        let all = leaving(&[
            (0, Phase::Requested, Kind::Node),
            (1, Phase::Requested, Kind::Node),
            (2, Phase::Cordoned, Kind::Node),
            (3, Phase::Requested, Kind::Node),
            (4, Phase::Done, Kind::Node),
            (5, Phase::Kept, Kind::Node),
        ]);
        let facts =
            [(id(0), facts(Some(3))), (id(1), facts(Some(0))), (id(2), facts(Some(0)))].into();
        let pass = pass(&all, &facts);
        let phases: Vec<_> = pass.leaving.iter().map(|(id, one)| (id.get(), one.phase)).collect();
        assert_eq!(
            phases,
            [
                (0, Phase::Draining),
                (1, Phase::Cordoning),
                (2, Phase::Stopping),
                (3, Phase::Requested),
                (4, Phase::Done),
            ]
        );
        assert!(!pass.duties[&id(2)].runs && pass.duties[&id(3)].runs);
        assert_eq!(pass.done, [id(4)].into());
    }

    #[test]
    fn warnings_name_pools_partitions_and_brokers() {
        let all = leaving(&[(0, Phase::Draining, Kind::Node), (1, Phase::Draining, Kind::Node)]);
        let facts = [(id(0), facts(Some(3))), (id(1), facts(None))].into();
        let pass = pass(&all, &facts);
        let notes = pass.warnings();
        assert_eq!(notes.len(), 1);
        assert_eq!(notes[0].reason, Reason::ScaleDownPreventionCheck);
        assert_eq!(
            notes[0].message,
            "the scale-down of KafkaNodePool a waits for 0 and 1. broker 0: it still has 3 \
             partitions: move them to other brokers, or cancel the scale-down; broker 1: it is \
             unknown whether it still has partitions"
        );
        assert_eq!(pass.progress(), None);
    }

    #[test]
    fn who_goes_on_does_not_wait_for_who_waits_for_people() {
        let all = leaving(&[(0, Phase::Draining, Kind::Node), (1, Phase::Requested, Kind::Node)]);
        let held = facts(Some(3));
        let next = pass(&all, &[(id(0), held), (id(1), facts(Some(0)))].into());
        assert_eq!(next.warnings().len(), 1);
        let said = |pass: &Pass| pass.progress().map(|note| note.message);
        assert_eq!(said(&next).unwrap(), "broker 1: it is leaving");
        let gone = Facts { runs: Some(false), registration: Some(Registration::Live), ..held };
        let stopped = leaving(&[(0, Phase::Draining, Kind::Node), (1, Phase::Stopped, Kind::Node)]);
        let gone = Facts { partitions: Some(0), ..gone };
        let next = pass(&stopped, &[(id(0), held), (id(1), gone)].into());
        assert_eq!(said(&next).unwrap(), "broker 1: Kafka has not noticed yet that it is gone");
    }

    #[test]
    fn a_node_that_stays_keeps_its_claims() {
        for (kind, deletes) in [(Kind::Node, true), (Kind::Role, false)] {
            let all = leaving(&[(2, Phase::Unregistering, kind)]);
            let gone = Facts {
                registration: Some(Registration::Gone),
                runs: Some(false),
                claims_left: Some(true),
                ..facts(Some(0))
            };
            let first = pass(&all, &[(id(2), gone)].into());
            assert_eq!(first.leaving[&id(2)].phase, Phase::Cleaning);
            assert_eq!(first.duties[&id(2)].delete_claims, deletes, "{kind:?}");
            let second = pass(&first.leaving, &[(id(2), gone)].into());
            assert_eq!(second.leaving[&id(2)].phase == Phase::Done, !deletes, "{kind:?}");
            assert!(second.done.is_empty(), "a node that stays is not taken out of the record");
        }
    }

    #[test]
    fn a_node_that_is_gone_is_not_made_anew_before_it_is_forgotten() {
        let done = leaving(&[(2, Phase::Done, Kind::Node)]);
        let (broker, nobody) = (members(&[(2, "b", Roles::Broker)]), BTreeMap::new());
        // Somebody died after this was recorded, and before the node was taken out of the record.
        let stays = admit(&done, &broker, &nobody);
        assert_eq!(stays, done);
        let again = pass(&stays, &[(id(2), facts(Some(0)))].into());
        assert_eq!((&again.leaving, &again.done), (&done, &[id(2)].into()));
        assert!(!again.duties[&id(2)].runs);
        // The record has followed.
        assert!(admit(&done, &BTreeMap::new(), &nobody).is_empty());
        // It is desired again, and comes as a new one.
        assert!(admit(&done, &broker, &[(id(2), Roles::Broker)].into()).is_empty());
    }

    #[test]
    fn a_role_that_is_gone_is_not_taken_up_again() {
        let done = leaving(&[(2, Phase::Done, Kind::Role)]);
        let controller: BTreeMap<NodeId, Roles> = [(id(2), Roles::Controller)].into();
        // The record of nodes still calls it a broker.
        let stays = admit(&done, &members(&[(2, "b", Roles::Combined)]), &controller);
        assert_eq!(stays, done);
        assert_eq!(pass(&stays, &BTreeMap::new()).leaving, done);
        // It has followed.
        assert!(admit(&done, &members(&[(2, "b", Roles::Controller)]), &controller).is_empty());
        // It is to be a broker again, as a new one.
        let combined = [(id(2), Roles::Combined)].into();
        assert!(admit(&done, &members(&[(2, "b", Roles::Combined)]), &combined).is_empty());
    }

    #[test]
    fn only_what_is_being_unregistered_may_be_forgotten() {
        let all = leaving(&[
            (0, Phase::Requested, Kind::Node),
            (1, Phase::Stopped, Kind::Node),
            (2, Phase::Unregistering, Kind::Node),
            (3, Phase::Cleaning, Kind::Node),
            (4, Phase::Returning, Kind::Node),
        ]);
        assert_eq!(stay_registered(&all), [id(0), id(1), id(4)].into());
    }

    #[test]
    fn the_record_is_read_as_it_was_written() {
        let all = leaving(&[(2, Phase::Unregistering, Kind::Role)]);
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(text, r#"{"2":{"phase":"unregistering","kind":"role","pool":"a"}}"#);
        assert_eq!(serde_json::from_str::<BTreeMap<NodeId, Leaving>>(&text).unwrap(), all);
    }

    #[test]
    fn a_broker_that_comes_back_gets_new_replicas() {
        let open = |phase: &Phase| matches!(phase, Phase::Returning | Phase::Kept);
        for phase in [
            Phase::Requested,
            Phase::Draining,
            Phase::Cordoning,
            Phase::Cordoned,
            Phase::Stopping,
            Phase::Stopped,
            Phase::Unregistering,
            Phase::Cleaning,
            Phase::Done,
            Phase::Returning,
            Phase::Kept,
        ] {
            for kind in [Kind::Node, Kind::Role] {
                let one = Leaving { phase, kind, pool: "b".to_owned() };
                assert_eq!(one.is_closed(), !open(&phase), "{one:?}");
            }
        }
    }
}
