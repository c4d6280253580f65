//! Nodes that leave: each only when nothing needs it any more, as [`crate::scaling`] decides.
//!
//! 1. A node is removed from the record only when none of its claims that go with it is left.
//! 2. Kafka keeps the settings of a broker that was unregistered, and changes those of registered brokers only. A
//!    broker that comes again under its id would be closed. So that it has to be opened stays in the journal until the
//!    id is registered again and Kafka has confirmed it.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;

use crate::cluster::act::{Rule, What};
use crate::cluster::draft::{Draft, Flow, LOOK_AGAIN_MS, Outputs};
use crate::cluster::journal::{Entered, Permit};
use crate::cluster::record::Record;
use crate::cluster::snapshot::{Needs, NodeView, Partitions, Snapshot};
use crate::conditions::{Note, Reason};
use crate::node::Roles;
use crate::quorum::plan::Hold;
use crate::scaling::controllers;
use crate::scaling::guard::{self, Cordon, Phase, Registration};
use crate::scaling::leaving::{self, Leaving, Member};

/// The facts that the area requires.
#[must_use]
pub fn needs(snapshot: &Snapshot, draft: &Draft) -> Needs {
    let record = &draft.record;
    let leaving = admitted(snapshot, record);
    if leaving.is_empty() {
        return Needs::default();
    }
    let is_asked = |id: &NodeId| {
        let pod = snapshot.nodes.get(id).and_then(|node| snapshot.pod(node));
        let is_out =
            matches!(registration(snapshot, *id), Some(Registration::Fenced | Registration::Gone));
        // One that is fenced and not ready may take the whole time of a call to say nothing.
        let answers = pod.is_some_and(|pod| pod.ready || !is_out);
        let is_unread = !snapshot.kafka.cordons.contains_key(id);
        answers && is_unread && cordon(snapshot, None).is_none()
    };
    Needs {
        partitions: snapshot.kafka.partitions.is_unread(),
        cordons: leaving.keys().filter(|id| is_asked(id)).copied().collect(),
        ..Needs::default()
    }
}

/// Decides which nodes leave, and how far each gets in this pass.
pub fn decide(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    let leaving = admitted(snapshot, &draft.record);
    let controllers = released(snapshot, draft);
    let released = controllers.released.clone();
    if leaving.is_empty() && controllers.holds.is_empty() && released.is_empty() {
        (draft.record.leaving, draft.record.released_controllers) = (leaving, released);
        open(snapshot, draft, &leaving::Pass::default());
        return Flow::Go;
    }
    let facts = facts(snapshot, &draft.outputs, &leaving, &controllers);
    let pass = leaving::pass(&leaving, &facts);
    draft.record.leaving.clone_from(&pass.leaving);
    draft.record.released_controllers.clone_from(&released);
    draft.warnings.extend(pass.warnings());
    for (id, duty) in &pass.duties {
        match (duty.cordoned, facts.get(id).and_then(|facts| facts.cordon)) {
            (true, Some(Cordon::Open)) => {
                draft.act(What::Cordon { id: *id }, Rule::LeavingIsCordoned);
            }
            (false, Some(Cordon::Closed)) => {
                draft.record.journal.begin(Entered::Uncordon(*id), "", snapshot.now_ms);
            }
            (true | false, _) => {}
        }
        // Whether a broker that does not run is closed cannot be read.
        let has_left = |all: &BTreeMap<NodeId, Leaving>| {
            all.get(id).is_some_and(|one| matches!(one.phase, Phase::Cleaning | Phase::Done))
        };
        let can_be_closed = cordon(snapshot, Some(true)) != Some(Cordon::Unsupported);
        if has_left(&pass.leaving) && !has_left(&leaving) && can_be_closed {
            draft.record.journal.begin(Entered::Uncordon(*id), "", snapshot.now_ms);
        }
        if duty.delete_claims
            && let Some(node) = snapshot.nodes.get(id)
        {
            delete_claims(snapshot, draft, node);
        }
    }
    open(snapshot, draft, &pass);
    forget(snapshot, draft, &pass.done);
    // A controller whose removal is refused stays, and a warning of the quorum says so.
    let held = controllers.holds.iter().filter(|(_, hold)| **hold != Hold::Refused);
    let mut awaited: Vec<_> = held.map(|(id, hold)| format!("controller {id}: {hold}")).collect();
    if !(awaited.is_empty() && leaving.is_empty() && released.is_empty()) {
        // No event announces that a user has moved partitions away, or that the voters have changed.
        draft.look_again(LOOK_AGAIN_MS);
    }
    // A node that waits as a broker is reported as such.
    let others = released.iter().filter(|id| !pass.holds.contains_key(id));
    awaited.extend(others.map(|id| format!("controller {id}: it is leaving")));
    let progress = pass.progress();
    draft.outputs.leaving = Some(pass);
    match progress {
        Some(note) => Flow::Wait(note),
        None if !awaited.is_empty() => {
            Flow::Wait(Note::new(Reason::ScalingDown, awaited.join("; ")))
        }
        // A person has to act, and a warning says what; everything else goes on.
        None => Flow::Go,
    }
}

fn is_broker(roles: Option<Roles>) -> bool {
    roles.is_some_and(Roles::is_broker)
}

/// The brokers that leave, those that have just been asked for included.
fn admitted(snapshot: &Snapshot, record: &Record) -> BTreeMap<NodeId, Leaving> {
    let members = snapshot.nodes.iter().filter_map(|(id, node)| {
        Some((*id, Member { pool: node.pool.clone(), roles: node.recorded? }))
    });
    let desired = snapshot.nodes.iter().filter_map(|(id, node)| Some((*id, node.desired?)));
    leaving::admit(&record.leaving, &members.collect(), &desired.collect())
}

/// The controllers that the quorum releases.
fn released(snapshot: &Snapshot, draft: &Draft) -> controllers::Decision {
    let leaves = |node: &NodeView| {
        node.recorded.is_some_and(Roles::is_controller)
            && !node.desired.is_some_and(Roles::is_controller)
    };
    let leaving = snapshot.nodes.iter().filter(|(_, node)| leaves(node)).map(|(id, _)| *id);
    let before = &draft.record.released_controllers;
    controllers::release(before, &leaving.collect(), draft.outputs.quorum.as_ref())
}

/// What Kafka says of a broker.
fn registration(snapshot: &Snapshot, id: NodeId) -> Option<Registration> {
    Some(match snapshot.kafka.brokers.known()?.get(&id) {
        None => Registration::Gone,
        Some(one) if one.fenced => Registration::Fenced,
        Some(_) => Registration::Live,
    })
}

/// Whether a broker takes new replicas.
fn cordon(snapshot: &Snapshot, closed: Option<bool>) -> Option<Cordon> {
    let level = snapshot.kafka.metadata_level();
    Cordon::of(snapshot.desired.kafka_version, level, closed)
}

/// What is known of each broker that leaves.
fn facts(
    snapshot: &Snapshot,
    outputs: &Outputs,
    leaving: &BTreeMap<NodeId, Leaving>,
    controllers: &controllers::Decision,
) -> BTreeMap<NodeId, guard::Facts> {
    let assigned = snapshot.partitions().map(Partitions::assigned);
    let of = |id: NodeId| {
        let node = snapshot.nodes.get(&id);
        let closed = snapshot.kafka.cordons.get(&id).and_then(|closed| closed.known().copied());
        let mut others = snapshot.nodes.iter().filter(|(other, _)| **other != id);
        guard::Facts {
            desired: is_broker(node.and_then(|node| node.desired)),
            partitions: assigned.as_ref().map(|all| all.get(&id).copied().unwrap_or_default()),
            skip_check: snapshot.desired.skip_partition_check,
            held: outputs.held.as_ref().map(|held| held.contains(&id)),
            cordon: cordon(snapshot, closed),
            quorum: controllers.lets_go(id),
            runs: Some(node.is_some_and(|node| snapshot.may_run_as_broker(node))),
            registration: registration(snapshot, id),
            claims_left: Some(node.is_some_and(|node| snapshot.claims_of(node).next().is_some())),
            others_stay: others.any(|(_, node)| is_broker(node.desired)),
        }
    };
    leaving.keys().map(|id| (*id, of(*id))).collect()
}

/// Opens brokers that are to be open, until Kafka has confirmed it.
fn open(snapshot: &Snapshot, draft: &mut Draft, pass: &leaving::Pass) {
    let journal = draft.record.journal.clone();
    let asked = journal.iter().filter_map(|entry| match entry.act {
        // An entry without an answer may not have been sent yet.
        Entered::Uncordon(id) => Some((id, entry.attempts == 0)),
        Entered::AddVoter(_) | Entered::RemoveVoter(_) | Entered::RaiseKraftVersion => None,
    });
    for (id, is_new) in asked {
        let act = Entered::Uncordon(id);
        let is_closed = pass.duties.get(&id).is_some_and(|duty| duty.cordoned);
        let broker = snapshot.kafka.brokers.known().and_then(|all| all.get(&id));
        let is_live = broker.is_some_and(|broker| !broker.fenced);
        if is_closed {
            draft.record.journal.clear(act);
        } else if is_live && (is_new || journal.permit(act, "", snapshot.now_ms) == Permit::Now) {
            draft.record.journal.begin(act, "", snapshot.now_ms);
            draft.act(What::Uncordon { id }, Rule::StayingIsOpen);
        }
    }
}

fn delete_claims(snapshot: &Snapshot, draft: &mut Draft, node: &NodeView) {
    for (name, claim) in snapshot.claims_of(node).filter(|(_, claim)| !claim.deleting) {
        let (name, uid) = (name.clone(), claim.uid.clone());
        draft.act(What::DeleteClaim { name, uid }, Rule::NodeIsGone);
    }
}

/// Removes nodes from the record of which there is no trace: brokers that are done, and controllers that were
/// released and whose pods and claims are gone.
fn forget(snapshot: &Snapshot, draft: &mut Draft, done: &BTreeSet<NodeId>) {
    let mut gone = done.clone();
    for (id, node) in &snapshot.nodes {
        // One that still leaves as a broker may get replicas until it is unregistered.
        let only_controller = draft.record.released_controllers.contains(id)
            && !draft.record.leaving.contains_key(id)
            && node.recorded.is_some_and(|roles| !roles.is_broker())
            && node.desired.is_none()
            && snapshot.pod(node).is_none();
        if only_controller {
            delete_claims(snapshot, draft, node);
            if snapshot.claims_of(node).next().is_none() {
                gone.insert(*id);
            }
        }
    }
    if gone.is_empty() {
        return;
    }
    let was_controller = |id: &NodeId| {
        let node = snapshot.nodes.get(id);
        node.and_then(|node| node.recorded).is_some_and(Roles::is_controller)
    };
    let record = &mut draft.record;
    record.former_controllers.extend(gone.iter().filter(|id| was_controller(id)));
    for nodes in record.pools.values_mut() {
        nodes.retain(|id, _| !gone.contains(id));
    }
    let pools = &snapshot.desired.pools;
    record.pools.retain(|pool, nodes| !nodes.is_empty() || pools.contains(pool));
    record.leaving.retain(|id, _| !gone.contains(id));
    record.released_controllers.retain(|id| !gone.contains(id));
}

#[cfg(test)]
pub(in crate::cluster) mod tests {
    use super::*;
    use crate::cluster::act::settle;
    use crate::cluster::areas::samples::{add_node, asked, brief, cordoned, empty, id, settled};
    use crate::cluster::fact::{Fact, Why};
    use crate::cluster::snapshot::BrokerView;
    use crate::quorum::answer::Answer;

    /// Broker 5 is to go, and is in this phase.
    fn leaving(phase: &str) -> (Snapshot, Record) {
        let (mut snapshot, mut record) = settled();
        let node = snapshot.nodes.get_mut(&id(5)).unwrap();
        node.desired = None;
        let one = format!(r#"{{"phase":"{phase}","kind":"node","pool":"broker"}}"#);
        record.leaving.insert(id(5), serde_json::from_str(&one).unwrap());
        empty(&mut snapshot);
        cordoned(&mut snapshot, 5, false);
        (snapshot, record)
    }

    fn gone(snapshot: &mut Snapshot) {
        snapshot.pods.remove("c-broker-5");
        if let Fact::Read { value, .. } = &mut snapshot.kafka.brokers {
            value.remove(&id(5));
        }
    }

    /// Its process hangs: it answers nothing, its pod is not ready, and Kafka has fenced it.
    fn frozen(snapshot: &mut Snapshot) {
        snapshot.pods.get_mut("c-broker-5").unwrap().ready = false;
        snapshot.kafka.cordons.clear();
        fence(snapshot);
    }

    /// Kafka has fenced it.
    fn fence(snapshot: &mut Snapshot) {
        if let Fact::Read { value, .. } = &mut snapshot.kafka.brokers {
            value.insert(id(5), BrokerView { fenced: true, rack: None });
        }
    }

    /// It has a pod that has never started.
    fn unborn(snapshot: &mut Snapshot) {
        snapshot.pods.get_mut("c-broker-5").unwrap().ready = false;
        snapshot.kafka.cordons.clear();
        if let Fact::Read { value, .. } = &mut snapshot.kafka.brokers {
            value.remove(&id(5));
        }
    }

    type Change = fn(&mut Snapshot);

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        const CLOSE: &str = "cordon broker 5";
        const OPEN: &str = "uncordon broker 5";
        const DELETE: &str = "delete PersistentVolumeClaim data-c-broker-5";
        // The phase, what differs, the acts, the next phase, how the pass goes on.
        let rows: [(&str, &str, Change, &str, Option<Phase>, &str); 13] = [
            ("it has no partitions",           "requested", |_| {}, CLOSE, Some(Phase::Cordoning), "wait ScalingDown"),
            ("its partitions are unknown", "requested", |s| s.kafka.partitions = Fact::Unknown(Why::NoAnswer), "", Some(Phase::Requested), "go"),
            ("it is closed",               "cordoning", |s| cordoned(s, 5, true), "", Some(Phase::Cordoned), "wait ScalingDown"),
            ("it is empty still",          "cordoned",  |s| cordoned(s, 5, true), "", Some(Phase::Stopping), "wait ScalingDown"),
            ("it hangs",                   "cordoning", frozen, "", Some(Phase::Cordoned), "wait ScalingDown"),
            ("it hangs, and is empty still", "cordoned", frozen, "", Some(Phase::Stopping), "wait ScalingDown"),
            ("it hangs, and is not fenced", "cordoning", |s| s.kafka.cordons.clear(), "", Some(Phase::Cordoning), "wait ScalingDown"),
            ("it is fenced, and answers",  "cordoning", fence, CLOSE, Some(Phase::Cordoning), "wait ScalingDown"),
            ("it has never started",       "cordoning", unborn, "", Some(Phase::Cordoned), "wait ScalingDown"),
            ("it is wanted again",         "cordoned",  |s| { cordoned(s, 5, true); s.nodes.get_mut(&id(5)).unwrap().desired = Some(Roles::Broker); }, OPEN, Some(Phase::Returning), "wait ScalingDown"),
            ("it is unregistered",         "unregistering", gone, DELETE, Some(Phase::Cleaning), "wait ScalingDown"),
            ("its claim is being deleted", "cleaning",  |s| { gone(s); s.claims.get_mut("data-c-broker-5").unwrap().deleting = true; }, "", Some(Phase::Cleaning), "wait ScalingDown"),
            ("its claim is gone",          "cleaning",  |s| { gone(s); s.claims.remove("data-c-broker-5"); }, "", None, "wait ScalingDown"),
        ];
        for (name, phase, change, acts, next, flow) in rows {
            let (mut snapshot, record) = leaving(phase);
            change(&mut snapshot);
            let (found, went, draft) = brief(decide, &snapshot, &record);
            let now = draft.record.leaving.get(&id(5)).map(|one| one.phase);
            assert_eq!((found.as_str(), now, went.as_str()), (acts, next, flow), "{name}");
            let recorded = draft.record.pools["broker"].contains_key(&id(5));
            assert_eq!(recorded, next.is_some(), "{name}");
        }
    }

    #[test]
    fn a_broker_that_moves_concern_or_may_concern_is_not_stopped() {
        let rows = [
            (Some(vec![]), Phase::Stopping),
            (Some(vec![id(4)]), Phase::Stopping),
            (Some(vec![id(5)]), Phase::Cordoned),
            (None, Phase::Cordoned),
        ];
        for (held, expected) in rows {
            let (mut snapshot, record) = leaving("cordoned");
            cordoned(&mut snapshot, 5, true);
            let mut draft = Draft::new(record);
            draft.outputs.held = held.clone().map(|held| held.into_iter().collect());
            assert!(matches!(decide(&snapshot, &mut draft), Flow::Wait(_)), "{held:?}");
            assert_eq!(draft.record.leaving[&id(5)].phase, expected, "{held:?}");
        }
    }

    #[test]
    fn a_cluster_that_nobody_leaves_needs_nothing_and_does_nothing() {
        let (snapshot, record) = settled();
        assert!(asked(needs, &snapshot, &record).is_empty());
        let (acts, flow, draft) = brief(decide, &snapshot, &record);
        assert_eq!((acts.as_str(), flow.as_str()), ("", "go"));
        assert_eq!(draft.record, record);
    }

    #[test]
    fn who_leaves_is_asked_for_its_partitions_and_its_cordon() {
        let (mut snapshot, record) = leaving("requested");
        assert!(asked(needs, &snapshot, &record).is_empty());
        snapshot.kafka.cordons.clear();
        snapshot.kafka.partitions = Fact::default();
        let needs = asked(needs, &snapshot, &record);
        assert!(needs.partitions);
        assert_eq!(needs.cordons, [id(5)].into());
    }

    #[test]
    fn a_broker_that_is_fenced_and_not_ready_is_not_asked_for_its_cordon() {
        for change in [frozen, unborn] {
            let (mut snapshot, record) = leaving("cordoning");
            change(&mut snapshot);
            assert!(asked(needs, &snapshot, &record).is_empty());
        }
        // Whether it is fenced is unknown, or it is ready.
        let unknown: Change = |snapshot| snapshot.kafka.brokers = Fact::Unknown(Why::NoAnswer);
        let ready: Change = |snapshot| snapshot.pods.get_mut("c-broker-5").unwrap().ready = true;
        for change in [unknown, ready] {
            let (mut snapshot, record) = leaving("cordoning");
            frozen(&mut snapshot);
            change(&mut snapshot);
            assert_eq!(asked(needs, &snapshot, &record).cordons, [id(5)].into());
        }
    }

    #[test]
    fn a_controller_that_still_leaves_as_a_broker_keeps_its_claims() {
        let (mut snapshot, mut record) = settled();
        let node = snapshot.nodes.get_mut(&id(2)).unwrap();
        node.desired = None;
        snapshot.pods.remove("c-controller-2");
        record.released_controllers.insert(id(2));
        let one = r#"{"phase":"unregistering","kind":"role","pool":"controller"}"#;
        record.leaving.insert(id(2), serde_json::from_str(one).unwrap());
        if let Fact::Read { value, .. } = &mut snapshot.kafka.brokers {
            value.insert(id(2), BrokerView { fenced: true, rack: None });
        }
        empty(&mut snapshot);
        let (acts, _, draft) = brief(decide, &snapshot, &record);
        assert_eq!(acts, "");
        assert!(draft.record.pools["controller"].contains_key(&id(2)));
    }

    #[test]
    fn a_broker_that_comes_again_is_opened_until_kafka_confirms_it() {
        let (mut snapshot, record) = leaving("unregistering");
        gone(&mut snapshot);
        let (acts, _, draft) = brief(decide, &snapshot, &record);
        assert_eq!(acts, "delete PersistentVolumeClaim data-c-broker-5");
        // It is gone. Kafka changes no settings of a broker that it does not know.
        let mut record = draft.record;
        snapshot.claims.remove("data-c-broker-5");
        let (acts, _, draft) = brief(decide, &snapshot, &record);
        assert_eq!(acts, "");
        record = draft.record;
        snapshot.nodes.remove(&id(5));
        snapshot.now_ms += 3_600_000;
        assert_eq!(brief(decide, &snapshot, &record).0, "");
        // It comes again.
        add_node(&mut snapshot, &mut record, 5, "broker");
        let broker = BrokerView { fenced: false, rack: None };
        if let Fact::Read { value, .. } = &mut snapshot.kafka.brokers {
            value.insert(id(5), broker);
        }
        let (acts, flow, draft) = brief(decide, &snapshot, &record);
        assert_eq!((acts.as_str(), flow.as_str()), ("uncordon broker 5", "go"));
        record = draft.record;
        settle(&mut record, &draft.acts[0], (Answer::Refused, None), snapshot.now_ms);
        assert_eq!(brief(decide, &snapshot, &record).0, "", "not at once");
        snapshot.now_ms += 5_000;
        let (acts, _, draft) = brief(decide, &snapshot, &record);
        assert_eq!(acts, "uncordon broker 5");
        record = draft.record;
        settle(&mut record, &draft.acts[0], (Answer::Done, None), snapshot.now_ms);
        assert_eq!(brief(decide, &snapshot, &record).0, "");
        assert!(record.journal.is_empty());
    }

    /// A controller that the quorum has released and that has no pod.
    #[test]
    fn a_controller_is_forgotten_when_its_claims_are_gone() {
        let (mut snapshot, mut record) = settled();
        snapshot.nodes.get_mut(&id(2)).unwrap().desired = None;
        snapshot.pods.remove("c-controller-2");
        record.released_controllers.insert(id(2));
        let (acts, _, draft) = brief(decide, &snapshot, &record);
        assert_eq!(acts, "delete PersistentVolumeClaim data-c-controller-2");
        assert!(draft.record.pools["controller"].contains_key(&id(2)));
        snapshot.claims.remove("data-c-controller-2");
        let (acts, _, draft) = brief(decide, &snapshot, &draft.record);
        assert_eq!(acts, "");
        assert!(!draft.record.pools["controller"].contains_key(&id(2)));
        assert_eq!(draft.record.former_controllers, [id(2)].into());
        assert!(draft.record.released_controllers.is_empty());
    }

    /// The rows with the acts and the reasons of the area.
    pub(in crate::cluster) fn rows() {
        the_rows_hold();
    }
}
