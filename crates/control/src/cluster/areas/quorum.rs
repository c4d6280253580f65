//! Voters: at most one change in a pass, after which the quorum is described again.
//!
//! 1. The plan is [`plan::decide`]. What an answer to an earlier change means is in the journal, and decided here.
//! 2. After an answer that says that the quorum is static, nothing changes until Kafka has said again what it is.
//! 3. Where no node is ready, Kafka is not asked, and the agents of the controllers tell whether the quorum is lost.
//! 4. No voter is removed while a running node knows none of the controllers that stay ([`bootstrap`]).
//! 5. Whose empty disk may be formatted in a static quorum is decided anew in every pass ([`replace`]).

use std::collections::{BTreeMap, BTreeSet};

use model::{DirectoryId, NodeId};

use crate::cluster::act::{Act, Rule, What};
use crate::cluster::draft::{Draft, Flow, LOOK_AGAIN_MS};
use crate::cluster::journal::{Entered, Permit};
use crate::cluster::properties::{CONTROLLER_PORT, CONTROLLER_TITLE};
use crate::cluster::record::Record;
use crate::cluster::snapshot::{Needs, NodeView, PodView, Snapshot};
use crate::conditions::{Note, Reason};
use crate::node::Roles;
use crate::quorum::answer::{Then, then};
use crate::quorum::bootstrap::{self, OutdatedBootstrap};
use crate::quorum::format::{QuorumMode, WAIT_EXIT_CODE};
use crate::quorum::plan::{self, Controller, Decision, Listener, Removal, Step};
use crate::quorum::{QuorumView, replace};
use crate::scaling::leaving::Leaving;

/// The facts that the area requires.
#[must_use]
pub fn needs(snapshot: &Snapshot, draft: &Draft) -> Needs {
    let record = &draft.record;
    let mut needs = Needs::default();
    let is_reachable = is_reachable(snapshot);
    let quorum = snapshot.kafka.quorum.known();
    for (id, node) in snapshot.controllers() {
        // Without Kafka, disks only tell whether the voters that were recorded are lost.
        if !is_reachable && !record.voters.contains_key(&id) {
            continue;
        }
        // The leader sees the directory id of a voter that keeps up; the agents of others are asked.
        let is_seen = quorum.is_some_and(|view| fetched_directory(view, id).is_some());
        let is_read = snapshot.kafka.directories.contains_key(&id);
        if !is_seen && !is_read && snapshot.pod(node).is_some() {
            needs.directories.insert(id);
        }
    }
    if !is_reachable || !needs.is_empty() {
        return needs;
    }
    let decision = plan::decide(&facts(snapshot, record));
    if matches!(decision.step, Step::Remove { why: Removal::NotDesired, .. }) {
        let unread = |id: &NodeId| !snapshot.kafka.servers.contains_key(id);
        needs.servers = running(snapshot).map(|(id, _)| id).filter(unread).collect();
    }
    needs
}

/// Decides the next change of voters.
pub fn decide(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    replace_disks(snapshot, draft);
    if !is_reachable(snapshot) {
        return unreachable(snapshot, draft);
    }
    let facts = facts(snapshot, &draft.record);
    draft.outputs.quorum_settled = plan::unsettled(&facts).map(|unsettled| unsettled.is_empty());
    let Decision { step, warnings } = plan::decide(&facts);
    draft.warnings.extend(warnings.iter().map(plan::Warning::note));
    remember(&facts, &step, &mut draft.record);
    let note = step.note();
    draft.outputs.quorum = Some(facts);
    let Some(note) = note else { return Flow::Go };
    if matches!(step, Step::Remove { why: Removal::NotDesired, .. }) {
        let outdated_bootstrap = outdated_bootstrap(snapshot, draft.outputs.quorum.as_ref());
        if let Some(note) = outdated_bootstrap.note() {
            draft.outputs.outdated_bootstrap = outdated_bootstrap.restart;
            return Flow::Wait(note);
        }
    }
    match step {
        Step::Settled => Flow::Go,
        Step::Wait(_) => Flow::Wait(note),
        Step::Add { id, directory, listeners } => {
            let what = What::AddVoter { id, directory, listeners };
            change(snapshot, draft, Act::new(what, Rule::VoterJoins), note)
        }
        Step::Remove { id, directory, .. } => {
            let what = What::RemoveVoter { id, directory };
            change(snapshot, draft, Act::new(what, Rule::VoterLeaves), note)
        }
        // The controllers stay as they are, and everything else goes on.
        Step::Refuse(_) | Step::StaticRefused { .. } => {
            draft.warnings.push(note);
            Flow::Go
        }
        Step::QuorumLost(_) => Flow::Hold(note),
    }
}

/// Decides whose empty disk may be formatted in a static quorum. The configuration of the node follows in the next pass.
fn replace_disks(snapshot: &Snapshot, draft: &mut Draft) {
    let pods = snapshot.controllers().filter_map(|(id, node)| Some((id, snapshot.pod(node)?)));
    let pods: BTreeMap<NodeId, &PodView> = pods.filter(|(_, pod)| !pod.deleting).collect();
    let which = |is: &dyn Fn(NodeId, &PodView) -> bool| -> BTreeSet<NodeId> {
        pods.iter().filter(|(id, pod)| is(**id, pod)).map(|(id, _)| *id).collect()
    };
    let is_ephemeral = |node: &NodeView| snapshot.desired.ephemeral_pools.contains(&node.pool);
    let ephemeral = snapshot.controllers().filter(|(_, node)| is_ephemeral(node));
    let replaced = &draft.record.quorum.replaced;
    let facts = replace::Facts {
        mode: draft.record.quorum.mode,
        controllers: snapshot.controllers().map(|(id, _)| id).collect(),
        waiting: which(&|_, pod| pod.exit_code == Some(i32::from(WAIT_EXIT_CODE))),
        marked: which(&|_, pod| pod.disk_replaced),
        ephemeral: ephemeral.map(|(id, _)| id).collect(),
        permitted: which(&|id, pod| replaced.get(&id) == Some(&pod.uid)),
        accepts_loss: snapshot.desired.accept_metadata_loss,
        quorum: snapshot.kafka.quorum.known(),
    };
    let replace::Decision { format, warnings } = replace::decide(&facts);
    draft.warnings.extend(warnings.iter().map(replace::Warning::note));
    let uid = |id: &NodeId| Some((*id, pods.get(id)?.uid.clone()));
    draft.record.quorum.replaced = format.iter().filter_map(uid).collect();
    let is_lost = !format.is_empty() || !warnings.is_empty() || !facts.waiting.is_empty();
    if is_lost && facts.mode == QuorumMode::Static {
        // That another controller has caught up is no event of Kubernetes.
        draft.look_again(LOOK_AGAIN_MS);
    }
}

/// Whether any node of Kafka can be asked.
const fn is_reachable(snapshot: &Snapshot) -> bool {
    !snapshot.kafka.quorum.is_unread()
}

/// Reports a quorum that cannot come back by itself. That no node is ready is what the pods already tell.
fn unreachable(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    let facts = facts(snapshot, &draft.record);
    let step = plan::decide(&facts).step;
    match (&step, step.note()) {
        (Step::QuorumLost(_), Some(note)) => {
            draft.outputs.quorum = Some(facts);
            Flow::Hold(note)
        }
        (_, _) => Flow::Go,
    }
}

/// Asks for a change of voters, if the answers to earlier ones allow it.
fn change(snapshot: &Snapshot, draft: &mut Draft, act: Act, note: Note) -> Flow {
    // The voters that are known now are old once one has changed: nobody is restarted because of them.
    draft.outputs.quorum_settled = Some(false);
    let Some((entered, subject)) = act.entered() else { return Flow::Go };
    let removes = matches!(entered, Entered::RemoveVoter(_));
    let failed =
        draft.record.journal.get(entered).and_then(|entry| entry.message.as_ref()).map(|said| {
            let message = format!("{}: Kafka answered: {said}", act.what);
            Note::new(Reason::QuorumChangeFailed, message)
        });
    match draft.record.journal.permit(entered, &subject, snapshot.now_ms) {
        // Nobody is stopped who may still vote.
        Permit::Later if removes => return Flow::Stop(note),
        Permit::Later => return Flow::Wait(note),
        Permit::Held(_) if removes => return Flow::Hold(failed.unwrap_or(note)),
        // An addition that failed fails nothing else: a restart of the node may be what it takes.
        Permit::Held(_) => {
            draft.warnings.extend(failed);
            return Flow::Wait(note);
        }
        Permit::Now if removes => draft.warnings.extend(failed),
        Permit::Now => {}
    }
    let is_static =
        draft.record.journal.get(entered).is_some_and(|e| then(e.answer) == Then::AskMode);
    let kraft_version = snapshot.kafka.kraft_version();
    if is_static && kraft_version.is_none() {
        return Flow::Wait(Note::new(Reason::QuorumWaiting, plan::Waiting::Mode.to_string()));
    }
    if let Entered::RemoveVoter(id) = entered {
        // Whatever becomes of the call, its identity is used up.
        draft.record.quorum = draft.record.quorum.before_removal(id);
    }
    draft.record.journal.begin(entered, &subject, snapshot.now_ms);
    draft.acts.push(act);
    Flow::Wait(note)
}

/// Records the voters, and drops entries of the journal whose effect is seen or not wanted any more.
fn remember(facts: &plan::Facts, step: &Step, record: &mut Record) {
    let Some(view) = &facts.quorum else { return };
    let voters = view.voters.iter().filter_map(|voter| Some((voter.id, voter.directory?)));
    record.voters = voters.collect();
    let is_over = |act: Entered| match act {
        Entered::AddVoter(id) => view.voter(id).is_some() || !facts.desired.contains_key(&id),
        Entered::RemoveVoter(id) => {
            let is_planned = matches!(step, Step::Remove { id: planned, .. } if *planned == id);
            view.voter(id).is_none() || (facts.desired.contains_key(&id) && !is_planned)
        }
        Entered::RaiseKraftVersion | Entered::Uncordon(_) => false,
    };
    let over: Vec<_> =
        record.journal.iter().map(|entry| entry.act).filter(|a| is_over(*a)).collect();
    over.into_iter().for_each(|act| record.journal.clear(act));
}

/// What the plan is based on.
fn facts(snapshot: &Snapshot, record: &Record) -> plan::Facts {
    let quorum = snapshot.kafka.quorum.known();
    let is_desired = |id: NodeId, node: &NodeView| {
        node.desired.is_some_and(Roles::is_controller)
            && !record.leaving.get(&id).is_some_and(Leaving::is_stopped)
    };
    let desired = snapshot.controllers().filter(|(id, node)| is_desired(*id, node));
    let desired = desired.map(|(id, node)| {
        let listener = Listener {
            name: CONTROLLER_TITLE.to_owned(),
            host: node.host.clone(),
            port: CONTROLLER_PORT,
        };
        let runs = Some(snapshot.runs_as_controller(node));
        (id, Controller { runs, listeners: vec![listener] })
    });
    // Those that are not started are reported with the others.
    let refused = snapshot.refused.iter().map(|id| (*id, Controller::default()));
    let attempts = |id: &NodeId| record.journal.get(Entered::AddVoter(*id)).map(|e| e.attempts);
    plan::Facts {
        mode: record.quorum.mode,
        desired: desired.chain(refused).collect(),
        disks: directories(snapshot),
        earlier: snapshot.kafka.earlier.clone(),
        recorded_voters: record.voters.clone(),
        failed_adds: snapshot.nodes.keys().filter_map(|id| Some((*id, attempts(id)?))).collect(),
        quorum: quorum.map(|view| without_stopping(snapshot, view)),
    }
}

/// The quorum without trust in voters whose pods are being deleted: they have caught up until a moment ago, and are about to
/// be gone.
fn without_stopping(snapshot: &Snapshot, view: &QuorumView) -> QuorumView {
    let is_stopping = |id: NodeId| {
        let pod = snapshot.nodes.get(&id).and_then(|node| snapshot.pod(node));
        pod.is_some_and(|pod| pod.deleting)
    };
    let mut view = view.clone();
    for voter in view.voters.iter_mut().filter(|voter| is_stopping(voter.id)) {
        voter.last_caught_up_ms = None;
    }
    view
}

/// The directory id that each controller has now. A voter that keeps up fetches with it; agents tell the others'.
fn directories(snapshot: &Snapshot) -> BTreeMap<NodeId, DirectoryId> {
    let quorum = snapshot.kafka.quorum.known();
    let known = |id: NodeId| {
        let fetched = quorum.and_then(|view| fetched_directory(view, id));
        fetched.or_else(|| snapshot.kafka.directories.get(&id)?.known().copied())
    };
    snapshot.controllers().filter_map(|(id, _)| Some((id, known(id)?))).collect()
}

fn fetched_directory(view: &QuorumView, id: NodeId) -> Option<DirectoryId> {
    view.voter(id).filter(|voter| view.has_caught_up(voter))?.directory
}

/// The nodes that run.
fn running(snapshot: &Snapshot) -> impl Iterator<Item = (NodeId, &NodeView)> {
    let nodes = snapshot.nodes.iter().filter(|(_, node)| node.current.is_some());
    let runs = |node: &NodeView| snapshot.pod(node).is_some_and(|pod| pod.ready);
    nodes.filter(move |(_, node)| runs(node)).map(|(id, node)| (*id, node))
}

/// The nodes that would not find the quorum without the voters that go.
fn outdated_bootstrap(snapshot: &Snapshot, facts: Option<&plan::Facts>) -> OutdatedBootstrap {
    let voters = facts.and_then(|facts| facts.quorum.as_ref()).map(|view| &view.voters);
    let voters: BTreeSet<NodeId> = voters.into_iter().flatten().map(|voter| voter.id).collect();
    let stays = |id: &NodeId| facts.is_some_and(|facts| facts.desired.contains_key(id));
    let stay = snapshot.controllers().filter(|(id, _)| voters.contains(id) && stays(id));
    let stay = stay.map(|(_, node)| format!("{}:{CONTROLLER_PORT}", node.host)).collect();
    let servers = |id: NodeId| snapshot.kafka.servers.get(&id)?.known().cloned().flatten();
    let running = running(snapshot).map(|(id, _)| (id, servers(id)));
    bootstrap::outdated_bootstrap(&stay, &running.collect())
}

#[cfg(test)]
pub(in crate::cluster) mod tests {
    use super::*;
    use crate::cluster::act::settle;
    use crate::cluster::areas::samples::{NOW, add_node, asked, brief, directory, id, settled};
    use crate::cluster::fact::{Fact, Why};
    use crate::quorum::Replica;
    use crate::quorum::answer::Answer;

    fn view(snapshot: &mut Snapshot) -> &mut QuorumView {
        let Fact::Read { value, .. } = &mut snapshot.kafka.quorum else { panic!("not described") };
        value
    }

    fn replica(node: i32) -> Replica {
        Replica {
            id: id(node),
            directory: Some(directory(node)),
            log_end: Some(100),
            last_fetch_ms: Some(NOW),
            last_caught_up_ms: Some(NOW),
        }
    }

    /// A fourth controller runs and fetches, and does not vote yet.
    fn joining() -> (Snapshot, Record) {
        let (mut snapshot, mut record) = settled();
        add_node(&mut snapshot, &mut record, 6, "controller");
        view(&mut snapshot).observers.push(replica(6));
        snapshot.kafka.directories.insert(id(6), Fact::read(directory(6), NOW));
        (snapshot, record)
    }

    /// A fourth controller votes and is to go.
    fn leaving() -> (Snapshot, Record) {
        let (mut snapshot, mut record) = settled();
        add_node(&mut snapshot, &mut record, 6, "controller");
        view(&mut snapshot).voters.push(replica(6));
        snapshot.nodes.get_mut(&id(6)).unwrap().desired = None;
        let servers = Some("c-controller-0.c:9090".to_owned());
        let nodes: Vec<_> = snapshot.nodes.keys().copied().collect();
        let servers = nodes.into_iter().map(|node| (node, Fact::read(servers.clone(), NOW)));
        snapshot.kafka.servers = servers.collect();
        (snapshot, record)
    }

    /// No pod is ready, and so many of the controllers have other disks than those that they voted with.
    fn lose(snapshot: &mut Snapshot, record: &mut Record, count: i32) {
        snapshot.kafka.quorum = Fact::default();
        snapshot.pods.values_mut().for_each(|pod| pod.ready = false);
        record.voters = (0..3).map(|node| (id(node), directory(node))).collect();
        let disk = |node: i32| directory(if node < count { node + 10 } else { node });
        let disks = (0..3).map(|node| (id(node), Fact::read(disk(node), NOW)));
        snapshot.kafka.directories = disks.collect();
    }

    /// Of voters 0, 1, 2 and 6, the last one is to go. Without 2 it would leave the majority of three to 0 and 1.
    #[test]
    fn a_voter_whose_pod_is_being_deleted_does_not_count_as_caught_up() {
        let (mut snapshot, record) = leaving();
        let removed = |snapshot: &Snapshot| brief(decide, snapshot, &record).0;
        let name = |node: i32| {
            format!("remove controller {node} with directory {} from the voters", directory(node))
        };
        assert_eq!(removed(&snapshot), name(6));
        snapshot.pods.get_mut("c-controller-2").unwrap().deleting = true;
        assert_eq!(removed(&snapshot), name(6), "0 and 1 are a majority of three");
        snapshot.pods.get_mut("c-controller-1").unwrap().deleting = true;
        assert_eq!(removed(&snapshot), "", "0 alone is none");
    }

    type Sample = fn() -> (Snapshot, Record);
    type Change = fn(&mut Snapshot, &mut Record);

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        const ADD: &str = "add controller 6 with directory BwcHBwcHBwcHBwcHBwcHBw to the voters";
        const REMOVE: &str = "remove controller 6 with directory BwcHBwcHBwcHBwcHBwcHBw from the voters";
        // What is known, what differs, the acts, how the pass goes on.
        let rows: [(&str, Sample, Change, &str, &str); 22] = [
            ("settled",                         settled, |_, _| {}, "", "go"),
            ("no node answers",            joining, |s, _| s.kafka.quorum = Fact::default(), "", "go"),
            ("no node is ready",                settled, |s, r| lose(s, r, 0), "", "go"),
            ("and one has another disk",        settled, |s, r| lose(s, r, 1), "", "go"),
            ("and a majority has new disks",  settled, |s, r| lose(s, r, 2), "", "hold QuorumLost"),
            ("and no disk is known",            settled, |s, r| { lose(s, r, 3); s.kafka.directories.clear(); }, "", "go"),
            ("and the quorum is static",        settled, |s, r| { lose(s, r, 3); r.quorum.mode = crate::quorum::format::QuorumMode::Static; }, "", "go"),
            ("no answer",                  joining, |s, _| s.kafka.quorum = Fact::Unknown(Why::NoAnswer), "", "wait QuorumWaiting"),
            ("a controller joins",              joining, |_, _| {}, ADD, "wait AddingController"),
            ("its directory is unknown",        joining, |s, _| s.kafka.directories.clear(), "", "wait QuorumWaiting"),
            ("its pod is not ready",            joining, |s, _| s.pods.get_mut("c-controller-6").unwrap().ready = false, "", "wait QuorumWaiting"),
            ("it is being stopped",             joining, |_, r| { r.leaving.insert(id(6), stopped()); }, "", "go"),
            ("it was tried a second ago",       joining, |_, r| answered(r, ADDED, Answer::Unknown, 1_000), "", "wait AddingController"),
            ("it was tried three seconds ago",  joining, |_, r| answered(r, ADDED, Answer::Unknown, 3_000), ADD, "wait AddingController"),
            ("Kafka called it invalid",         joining, |_, r| answered(r, ADDED, Answer::Invalid, 10_000), "", "wait AddingController"),
            ("Kafka said that it is static",    joining, |s, r| { answered(r, ADDED, Answer::StaticQuorum, 10_000); s.kafka.features = Fact::Unknown(Why::NoAnswer); }, "", "wait QuorumWaiting"),
            ("and has said since that it is not", joining, |_, r| answered(r, ADDED, Answer::StaticQuorum, 10_000), ADD, "wait AddingController"),
            ("the quorum is static",            joining, |_, r| r.quorum.mode = QuorumMode::Static, "", "go"),
            ("no controller would be left",     settled, |s, _| s.nodes.values_mut().for_each(|node| node.desired = node.desired.filter(|roles| roles.is_broker())), "", "go"),
            ("a controller leaves",             leaving, |_, _| {}, REMOVE, "wait RemovingController"),
            ("a node has only that one in its list of controllers",      leaving, |s, _| { s.kafka.servers.insert(id(3), Fact::read(Some("c-controller-6.c:9090".to_owned()), NOW)); }, "", "wait QuorumWaiting"),
            ("a node does not report its list of controllers", leaving, |s, _| { s.kafka.servers.insert(id(3), Fact::Unknown(Why::NoAnswer)); }, "", "wait QuorumWaiting"),
        ];
        for (name, sample, change, acts, flow) in rows {
            let (mut snapshot, mut record) = sample();
            change(&mut snapshot, &mut record);
            let (found, went, draft) = brief(decide, &snapshot, &record);
            assert_eq!((found.as_str(), went.as_str()), (acts, flow), "{name}");
            // Nobody is restarted because of voters that are about to change.
            if !draft.acts.is_empty() {
                assert_eq!(draft.outputs.quorum_settled, Some(false), "{name}");
            }
        }
    }

    const ADDED: Entered = Entered::AddVoter(match NodeId::new(6) {
        Some(id) => id,
        None => panic!(),
    });

    fn stopped() -> Leaving {
        serde_json::from_str(r#"{"phase":"stopping","kind":"node","pool":"controller"}"#).unwrap()
    }

    fn answered(record: &mut Record, act: Entered, answer: Answer, ms_ago: u64) {
        let subject = format!("{} at c-controller-6.c:9090", directory(6));
        record.journal.begin(act, &subject, NOW - ms_ago);
        record.journal.end(act, answer, Some("no".to_owned()), NOW - ms_ago);
    }

    #[test]
    fn an_act_is_in_the_journal_before_it_is_sent_and_a_removal_uses_up_the_identity() {
        let (snapshot, record) = leaving();
        let (_, _, draft) = brief(decide, &snapshot, &record);
        let entry = draft.record.journal.get(Entered::RemoveVoter(id(6))).unwrap();
        assert_eq!((entry.answer, entry.attempts), (Answer::Unknown, 0));
        assert!(draft.record.quorum.seen.contains(&id(6)));
        assert_eq!(draft.record.voters.len(), 4);
    }

    #[test]
    fn every_answer_to_a_change_leads_somewhere() {
        use Answer::{
            Done, Duplicate, Invalid, NotFound, NotLeader, NotSent, Refused, StaticQuorum, Unknown,
            WrongCluster,
        };
        let all = [
            Done,
            Duplicate,
            Invalid,
            NotFound,
            NotLeader,
            NotSent,
            Refused,
            StaticQuorum,
            Unknown,
            WrongCluster,
        ];
        for (sample, adds) in [(joining as Sample, true), (leaving as Sample, false)] {
            for answer in all {
                let (mut snapshot, record) = sample();
                let (_, _, draft) = brief(decide, &snapshot, &record);
                let mut record = draft.record;
                let ends =
                    settle(&mut record, &draft.acts[0], (answer, Some("no".to_owned())), NOW);
                assert_eq!(ends, !adds && answer != Done, "{answer:?}");
                // The next pass, five seconds later, with a quorum that has not changed.
                snapshot.now_ms += 5_000;
                let (acts, flow, draft) = brief(decide, &snapshot, &record);
                let held = matches!(answer, Invalid | WrongCluster);
                assert_eq!(acts.is_empty(), held, "{answer:?}: {acts}, {flow}");
                // A removal that is invalid stops the pass, an addition stops nothing.
                assert_eq!(flow.starts_with("hold"), held && !adds, "{answer:?}: {flow}");
                let told = draft.warnings.iter().any(|n| n.reason == Reason::QuorumChangeFailed);
                let quiet = matches!(answer, Done | NotSent) || (adds && answer == Duplicate);
                assert_eq!(told, !quiet && (adds == held), "{answer:?}");
                // Once the description shows it, nothing is left of it.
                match adds {
                    true => view(&mut snapshot).voters.push(replica(6)),
                    false => view(&mut snapshot).voters.retain(|one| one.id != id(6)),
                }
                let (acts, _, draft) = brief(decide, &snapshot, &record);
                assert_eq!(acts, "");
                assert!(draft.record.journal.is_empty(), "{answer:?}");
            }
        }
    }

    #[test]
    fn people_are_told_of_a_controller_that_cannot_be_added_also_after_a_restart() {
        let (mut snapshot, mut record) = joining();
        for attempt in 1..=5 {
            let (_, _, draft) = brief(decide, &snapshot, &record);
            record = draft.record;
            settle(&mut record, &draft.acts[0], (Answer::Unknown, None), NOW);
            // The operator is restarted: only the record is left.
            record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
            snapshot.now_ms += 5_000;
            let (_, _, draft) = brief(decide, &snapshot, &record);
            let told = draft.warnings.iter().any(|note| note.reason == Reason::ControllerNotAdded);
            assert_eq!(told, attempt >= 5, "{attempt}");
        }
    }

    /// A static quorum of which controller 2 waits with an empty disk.
    fn lost() -> (Snapshot, Record) {
        let (mut snapshot, mut record) = settled();
        record.quorum.mode = QuorumMode::Static;
        let view = view(&mut snapshot);
        view.voters.iter_mut().for_each(|voter| voter.directory = None);
        view.voters[2].last_caught_up_ms = Some(NOW - 60_000);
        let pod = snapshot.pods.get_mut("c-controller-2").unwrap();
        (pod.ready, pod.exit_code) = (false, Some(75));
        (snapshot, record)
    }

    #[test]
    #[rustfmt::skip]
    fn an_empty_disk_of_a_static_quorum_is_formatted_on_a_users_word() {
        fn mark(s: &mut Snapshot) { s.pods.get_mut("c-controller-2").unwrap().disk_replaced = true; }
        fn permit(r: &mut Record, uid: &str) { r.quorum.replaced.insert(id(2), uid.to_owned()); }
        fn ephemeral(s: &mut Snapshot) { s.desired.ephemeral_pools.insert("controller".to_owned()); }
        // What differs, the controller that may be formatted, whether people are told.
        let rows: [(&str, Change, Option<i32>, bool); 13] = [
            ("no facts",     |_, _| {}, None, true),
            ("a user says that it is lost",  |s, _| mark(s), Some(2), false),
            ("another one lags",             |s, _| { mark(s); view(s).voters[1].last_caught_up_ms = None; }, None, true),
            ("there is no leader",           |s, r| { mark(s); permit(r, "pod-2"); s.kafka.quorum = Fact::Unknown(Why::NoAnswer); }, None, true),
            ("no node answers",         |s, r| { mark(s); permit(r, "pod-2"); s.kafka.quorum = Fact::default(); }, None, true),
            ("it has caught up",             |s, r| { mark(s); permit(r, "pod-2"); view(s).voters[2].last_caught_up_ms = Some(NOW); s.pods.get_mut("c-controller-2").unwrap().exit_code = None; }, None, false),
            ("the quorum is dynamic",        |s, r| { mark(s); r.quorum.mode = QuorumMode::Dynamic; }, None, false),
            ("its disk goes with its pod",   |s, _| ephemeral(s), Some(2), false),
            ("and it formats its disk",      |s, r| { ephemeral(s); permit(r, "pod-2"); s.pods.get_mut("c-controller-2").unwrap().exit_code = None; }, Some(2), false),
            ("another pod formatted its own", |s, r| { ephemeral(s); permit(r, "pod-x"); s.pods.get_mut("c-controller-2").unwrap().exit_code = None; }, None, false),
            ("it is being deleted",          |s, r| { mark(s); permit(r, "pod-2"); s.pods.get_mut("c-controller-2").unwrap().deleting = true; }, None, false),
            ("one of three, no leader, and the loss is accepted", |s, _| { mark(s); s.desired.accept_metadata_loss = true; s.kafka.quorum = Fact::default(); }, None, true),
            ("the only one, and the loss is accepted", |s, _| { mark(s); s.desired.accept_metadata_loss = true; s.kafka.quorum = Fact::default(); s.nodes.retain(|node, _| *node == id(2)); }, Some(2), true),
        ];
        for (name, change, formatted, told) in rows {
            let (mut snapshot, mut record) = lost();
            change(&mut snapshot, &mut record);
            let (_, _, draft) = brief(decide, &snapshot, &record);
            let permitted = formatted.map(|node| (id(node), format!("pod-{node}")));
            assert_eq!(draft.record.quorum.replaced, permitted.into_iter().collect(), "{name}");
            let warned = draft.warnings.iter().any(|n| n.reason == Reason::ControllerDiskLost);
            assert_eq!(warned, told, "{name}");
        }
    }

    #[test]
    fn facts_are_asked_for_only_where_the_decision_needs_them() {
        let (snapshot, record) = settled();
        assert!(asked(needs, &snapshot, &record).is_empty());
        let (mut snapshot, record) = joining();
        assert!(asked(needs, &snapshot, &record).is_empty());
        snapshot.kafka.directories.clear();
        assert_eq!(asked(needs, &snapshot, &record).directories, [id(6)].into());
        let (mut snapshot, record) = leaving();
        snapshot.kafka.servers.clear();
        let all: BTreeSet<NodeId> = snapshot.nodes.keys().copied().collect();
        assert_eq!(asked(needs, &snapshot, &record).servers, all);
        // Where no node is ready, the agents of recorded voters are asked, and of a new cluster none.
        let (mut snapshot, mut record) = settled();
        lose(&mut snapshot, &mut record, 0);
        snapshot.kafka.directories.clear();
        let voters = Needs { directories: (0..3).map(id).collect(), ..Needs::default() };
        assert_eq!(asked(needs, &snapshot, &record), voters);
        record.voters.clear();
        assert!(asked(needs, &snapshot, &record).is_empty());
    }

    /// The rows with the acts and the reasons of the area.
    pub(in crate::cluster) fn rows() {
        the_rows_hold();
        every_answer_to_a_change_leads_somewhere();
        people_are_told_of_a_controller_that_cannot_be_added_also_after_a_restart();
        an_empty_disk_of_a_static_quorum_is_formatted_on_a_users_word();
    }
}
