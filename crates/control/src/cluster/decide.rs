//! The decision of a pass: what each area decides, in the order of [`Area::ALL`].
//!
//! 1. All areas decide on the same snapshot. What one of them asks for has not happened when the next one decides.
//! 2. The record is saved before the first act. A pass that ends after some of its acts is finished by the next one.
//! 3. The earliest time that an area asks for begins the next pass.

use std::collections::BTreeSet;

use model::NodeId;

use super::act::Act;
use super::area::Area;
use super::areas;
use super::draft::{Draft, Flow, Outputs};
use super::origin::{Origin, unlisted};
use super::record::Record;
use super::snapshot::{Needs, Snapshot};
use crate::conditions::{Note, Outcome, Reason};
use crate::rolling::facts::{Contact, NodeFacts};

/// The areas that are decided on, and those that do not end the decision when they stop.
///
/// `gregor plan` does not wait for what an operator would wait for.
#[derive(Debug, Clone)]
pub struct Scope {
    areas: Vec<Area>,
    passes: Vec<Area>,
}

impl Scope {
    /// Everything, as the operator does.
    #[must_use]
    pub fn pass() -> Self {
        Self { areas: Area::ALL.to_vec(), passes: Vec::new() }
    }

    /// These areas.
    #[must_use]
    pub fn of(areas: impl IntoIterator<Item = Area>) -> Self {
        Self { areas: areas.into_iter().collect(), passes: Vec::new() }
    }

    /// The same, and the decision goes on after these areas though they stop.
    #[must_use]
    pub fn passing(self, passes: impl IntoIterator<Item = Area>) -> Self {
        Self { passes: passes.into_iter().collect(), ..self }
    }

    fn ends_with(&self, area: Area, flow: &Flow) -> bool {
        match flow {
            Flow::Go | Flow::Wait(_) | Flow::Fault(_) => false,
            Flow::Stop(_) => !self.passes.contains(&area),
            Flow::Hold(_) => true,
        }
    }
}

/// What a pass does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// The record; it is saved before any act.
    pub record: Record,
    /// The acts, in order, each with the area that asks for it.
    pub acts: Vec<(Area, Act)>,
    /// The areas that wait for something.
    pub flows: Vec<(Area, Flow)>,
    /// What people should know.
    pub warnings: Vec<Note>,
    /// Those of them that get an Event, once.
    pub notices: Vec<Note>,
    /// After how long the next pass should begin, at the latest.
    pub look_again_ms: Option<u64>,
    /// What the areas found out, for the report.
    pub outputs: Outputs,
}

/// The pause of a cluster that waits for something that no event announces.
const SOON_MS: u64 = 2_000;

/// The pause of a cluster that needs a person, or waits for something that begins a pass by itself.
const LATER_MS: u64 = 10_000;
/// The longest pause of a cluster that does not match its spec: passes at an interval are for what no event announces.
const QUIET_MS: u64 = 30_000;

/// What the pause before the next pass depends on, besides the outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pauses {
    /// The pause of what areas wait for ([`Decision::waits_ms`]).
    pub waits_ms: Option<u64>,
    /// The earliest time that an area asks for.
    pub asked_ms: Option<u64>,
    /// For how long passes have found nothing to write.
    pub quiet_ms: u64,
}

/// After how long the next pass begins. `interval_ms` is the pause of a cluster that matches its spec.
///
/// Passes back off while they find nothing to write: what begins then is noticed after an eighth of the time that it took,
/// at most. Whatever changes in Kubernetes begins a pass at once.
#[must_use]
pub fn next_pass_ms(outcome: &Outcome, pauses: Pauses, interval_ms: u64) -> u64 {
    let Pauses { waits_ms, asked_ms, quiet_ms } = pauses;
    let pause = match outcome {
        Outcome::Paused => return interval_ms,
        Outcome::Done => interval_ms,
        // Whatever an area wants to look at again, Kafka would not show it.
        Outcome::Progressing(note) if note.reason == Reason::KafkaUnreachable => {
            return backed_off_ms(LATER_MS, quiet_ms);
        }
        // It may be an act that failed, for which no area waits.
        Outcome::Progressing(note) => {
            let pause = pause_ms(note.reason);
            backed_off_ms(waits_ms.map_or(pause, |waits_ms| waits_ms.min(pause)), quiet_ms)
        }
        // What needs a person does not slow down the areas that do not.
        Outcome::Held(_) => backed_off_ms(waits_ms.unwrap_or(LATER_MS), quiet_ms),
    };
    asked_ms.map_or(pause, |asked_ms| asked_ms.min(pause))
}

/// The pause after passes have found nothing to write for this long.
fn backed_off_ms(pause_ms: u64, quiet_ms: u64) -> u64 {
    pause_ms.max((quiet_ms / 8).min(QUIET_MS))
}

/// The pause of an area that waits for this.
const fn pause_ms(awaited: Reason) -> u64 {
    let is_slow = matches!(
        awaited,
        // A KafkaRebalance that moves on begins a pass.
        Reason::AutoRebalancing
        // Kafka does not answer sooner for being asked more often.
        | Reason::KafkaUnreachable
    );
    if is_slow { LATER_MS } else { SOON_MS }
}

/// The facts that the decision requires and that have not been read.
#[must_use]
pub fn needs(snapshot: &Snapshot, record: &Record, scope: &Scope) -> Needs {
    let mut draft = Draft::new(record.clone());
    let mut needs = Needs::default();
    for area in &scope.areas {
        let decider = areas::of(*area);
        let missing = (decider.needs)(snapshot, &draft);
        let flow = (decider.decide)(snapshot, &mut draft);
        // How an area goes on is not known before it has its facts.
        if missing.is_empty() && scope.ends_with(*area, &flow) {
            break;
        }
        needs.extend(missing);
    }
    needs
}

/// Decides what to do.
#[must_use]
pub fn decide(snapshot: &Snapshot, record: &Record, scope: &Scope) -> Decision {
    let mut draft = Draft::new(record.clone());
    let mut decision = Decision::default();
    let mut decided = BTreeSet::new();
    for area in &scope.areas {
        decided.insert(*area);
        let told = draft.warnings.len();
        let flow = (areas::of(*area).decide)(snapshot, &mut draft);
        let warnings = draft.warnings.get(told..).unwrap_or_default();
        debug_assert_eq!(unlisted(*area, &draft.acts, warnings, &flow), None, "see `origin`");
        decision.acts.extend(draft.acts.drain(..).map(|act| (*area, act)));
        let ends = scope.ends_with(*area, &flow);
        if flow != Flow::Go {
            decision.flows.push((*area, flow));
        }
        if ends {
            break;
        }
    }
    let Draft { record, warnings, look_again_ms, outputs, acts: _ } = draft;
    let mut decision = Decision { record, warnings, look_again_ms, outputs, ..decision };
    decision.record.stuck_nodes = decision.stuck_nodes();
    decision.notices = notices(&decision.warnings, &decided, &mut decision.record.noticed);
    decision
}

/// Warnings that get an Event and a line in the log too: an annotation that has no effect, a change that Kafka did not
/// make, and a drain or a fill that failed or has no template.
const NOTICED: [Reason; 5] = [
    Reason::QuorumMigrationIgnored,
    Reason::UnregistrationFailed,
    Reason::AutoRebalanceFailed,
    Reason::AutoRebalanceTemplateMissing,
    Reason::AutoRebalanceTemplateUnmarked,
];

/// The warnings that an Event is published for: the first of each of [`NOTICED`], once as long as it lasts. An area that
/// was not decided on says neither that its warning lasts nor that it is over.
fn notices(
    warnings: &[Note],
    decided: &BTreeSet<Area>,
    noticed: &mut BTreeSet<Reason>,
) -> Vec<Note> {
    let is_silent =
        |origin: &Origin| matches!(origin, Origin::Area(area) if !decided.contains(area));
    let mut notices = Vec::new();
    for reason in NOTICED {
        match warnings.iter().find(|note| note.reason == reason) {
            Some(note) if noticed.insert(reason) => notices.push(note.clone()),
            Some(_) => {}
            None if reason.origins().iter().any(is_silent) => {}
            None => {
                noticed.remove(&reason);
            }
        }
    }
    notices
}

impl Decision {
    /// The nodes that do not start, if that is all that a person has to do something about, and no other node is in
    /// trouble. One that was given up and serves only waits for a restart.
    fn stuck_nodes(&self) -> BTreeSet<NodeId> {
        let is_other = |(area, flow): &(Area, Flow)| match flow {
            Flow::Fault(_) | Flow::Hold(_) => *area != Area::Roll,
            Flow::Go | Flow::Wait(_) | Flow::Stop(_) => false,
        };
        let Some((facts, roll)) = self.outputs.roll.as_deref() else { return BTreeSet::new() };
        let stopping: BTreeSet<NodeId> = roll.progress.stopping.iter().copied().collect();
        let is_in_trouble = |node: &NodeFacts| {
            let serves = node.pod.is_ready() && node.contact == Contact::Answers;
            let given_up = roll.progress.given_up.contains(&node.node);
            given_up && !serves && !stopping.contains(&node.node)
        };
        if self.flows.iter().any(is_other) || facts.nodes.iter().any(is_in_trouble) {
            return BTreeSet::new();
        }
        stopping
    }

    /// The shortest pause of what areas wait for; `None` if none waits.
    #[must_use]
    pub fn waits_ms(&self) -> Option<u64> {
        let pause = |(_, flow): &(Area, Flow)| match flow {
            Flow::Wait(note) | Flow::Stop(note) => Some(pause_ms(note.reason)),
            Flow::Go | Flow::Fault(_) | Flow::Hold(_) => None,
        };
        self.flows.iter().filter_map(pause).min()
    }

    /// What is awaited first, whether or not a person has to do something too.
    #[must_use]
    pub fn awaited(&self) -> Option<&Note> {
        let mut awaited: Option<&Note> = None;
        for (area, flow) in &self.flows {
            match flow {
                Flow::Go | Flow::Fault(_) | Flow::Hold(_) => {}
                Flow::Wait(note) => match awaited {
                    Some(first) if !area.explains(first.reason) => {}
                    Some(_) | None => awaited = Some(note),
                },
                Flow::Stop(note) => {
                    awaited.get_or_insert(note);
                }
            }
        }
        awaited
    }

    /// What a person has to do first. A roll that failed comes last: it is the only such thing that hinders no
    /// `KafkaRebalance`, and those read the condition.
    fn fault(&self) -> Option<&Note> {
        let faults = self.flows.iter().filter_map(|(_, flow)| match flow {
            Flow::Fault(note) | Flow::Hold(note) => Some(note),
            Flow::Go | Flow::Wait(_) | Flow::Stop(_) => None,
        });
        // The first of those that are equal.
        faults.min_by_key(|note| note.reason == Reason::RollFailed)
    }

    /// How the cluster is, in one word and a sentence: what a person has to do, or else what is awaited first.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match (self.fault(), self.awaited()) {
            (Some(note), _) => Outcome::Held(note.clone()),
            (None, Some(note)) => Outcome::Progressing(note.clone()),
            (None, None) => Outcome::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::areas::samples::{self, empty, id};
    use crate::cluster::fact::Fact;
    use crate::cluster::snapshot::{BuiltView, ObjectKey, ObjectKind};
    use crate::rolling::facts::Pod;

    /// The areas that the samples have facts for.
    fn scope() -> Scope {
        Scope::of(
            Area::ALL
                .into_iter()
                .filter(|area| !matches!(area, Area::Authorities | Area::Certificates)),
        )
    }

    /// A cluster whose nodes are configured for its dynamic quorum, and its record.
    fn settled() -> (Snapshot, Record) {
        let (mut snapshot, mut record) = samples::settled();
        snapshot.desired.configured_dynamic = true;
        // A few passes record what they see.
        for _ in 0..4 {
            record = decide(&snapshot, &record, &scope()).record;
        }
        (snapshot, record)
    }

    fn note(reason: Reason) -> Note {
        Note::new(reason, "because")
    }

    #[test]
    fn a_settled_cluster_needs_nothing_and_asks_for_nothing() {
        let (snapshot, record) = settled();
        assert!(needs(&snapshot, &record, &scope()).is_empty());
        let decision = decide(&snapshot, &record, &scope());
        assert_eq!((decision.acts.as_slice(), decision.outcome()), (&[][..], Outcome::Done));
        assert_eq!((decision.look_again_ms, decision.record), (None, record));
    }

    #[test]
    fn an_area_that_stops_skips_those_after_it() {
        let (mut snapshot, record) = settled();
        empty(&mut snapshot);
        snapshot.pods.values_mut().for_each(|pod| pod.restart = true);
        let object = ObjectKey { kind: ObjectKind::Service, name: "c-kafka-bootstrap".to_owned() };
        let flow = Flow::Stop(note(Reason::AwaitingAddresses));
        let built = BuiltView { changes: vec![object], flow, ..BuiltView::default() };
        snapshot.built.insert(Area::Services, built);
        let decision = decide(&snapshot, &record, &scope());
        let acts: Vec<_> = decision.acts.iter().map(|(area, _)| *area).collect();
        assert_eq!(acts, [Area::Services]);
        assert_eq!(decision.outcome(), Outcome::Progressing(note(Reason::AwaitingAddresses)));
        // One who only looks goes on.
        let decision = decide(&snapshot, &record, &scope().passing([Area::Services]));
        assert!(decision.acts.iter().any(|(area, _)| *area == Area::Roll), "{decision:?}");
    }

    #[test]
    fn objects_are_applied_before_anything_is_restarted() {
        let (mut snapshot, record) = settled();
        snapshot.kafka.partitions = Fact::default();
        snapshot.pods.get_mut("c-controller-1").unwrap().restart = true;
        let object = ObjectKey { kind: ObjectKind::PodSet, name: "c-controller".to_owned() };
        let built = BuiltView { changes: vec![object], ..BuiltView::default() };
        snapshot.built.insert(Area::Workload, built);
        let decision = decide(&snapshot, &record, &scope());
        let acts: Vec<_> = decision.acts.iter().map(|(_, act)| act.what.to_string()).collect();
        let restart = "restart pod c-controller-1: a restart was asked for";
        assert_eq!(acts, ["apply PodSet c-controller", restart]);
        assert!(decision.record.roll.nodes.contains_key(&id(1)));
    }

    /// The desired controllers, the ones that lag, and whether the removal of the others is refused.
    #[test]
    fn a_refused_change_of_controllers_settles_with_a_warning() {
        let rows: [(&str, &[i32], &[i32], bool); 3] = [
            ("no controller would be left", &[], &[], true),
            ("the one that would be left lags", &[2], &[2], true),
            ("controller 2 leaves", &[0, 1], &[], false),
        ];
        for (name, desired, lagging, is_refused) in rows {
            let (mut snapshot, record) = settled();
            for node in (0..3).filter(|node| !desired.contains(node)) {
                snapshot.nodes.get_mut(&id(node)).unwrap().desired = None;
            }
            let Fact::Read { value, .. } = &mut snapshot.kafka.quorum else { panic!("unknown") };
            for voter in value.voters.iter_mut().filter(|v| lagging.contains(&v.id.get())) {
                voter.last_caught_up_ms = Some(0);
            }
            let decision = decide(&snapshot, &record, &scope());
            let is_warned =
                decision.warnings.iter().any(|n| n.reason == Reason::ControllerScaleDownRefused);
            assert_eq!(is_warned, is_refused, "{name}: {decision:?}");
            let is_done = decision.outcome() == Outcome::Done;
            assert_eq!(
                (is_done, decision.look_again_ms.is_none()),
                (is_refused, is_refused),
                "{name}"
            );
        }
    }

    #[test]
    #[rustfmt::skip]
    fn the_next_pass_begins_when_there_may_be_something_to_see() {
        use Outcome::{Done, Held, Paused, Progressing};
        const HOUR: u64 = 3_600_000;
        let progressing = |reason| Progressing(note(reason));
        let held = || Held(note(Reason::RollStopped));
        let (soon, later) = (Some(SOON_MS), Some(LATER_MS));
        let rows = [
            // outcome,                            the pause of what areas wait for, asked by an area, the pause
            (Done,                                 None,  None,         HOUR),
            (Done,                                 None,  Some(5_000),  5_000),
            (Paused,                               None,  Some(5_000),  HOUR),
            (progressing(Reason::Rolling),         soon,  None,         2_000),
            (progressing(Reason::Rolling),         soon,  Some(500),    500),
            (progressing(Reason::Rolling),         soon,  Some(60_000), 2_000),
            (progressing(Reason::AutoRebalancing), later, None,         10_000),
            (progressing(Reason::AutoRebalancing), later, Some(5_000),  5_000),
            // Pods are not ready, and the quorum changes besides.
            (progressing(Reason::Creating),        later, None,         2_000),
            (progressing(Reason::Creating),        soon,  None,         2_000),
            // An act failed that no area waits for.
            (progressing(Reason::UsersNotGiven),   None,  None,         2_000),
            (progressing(Reason::UsersNotGiven),   later, None,         2_000),
            (progressing(Reason::KafkaUnreachable), soon, Some(500),    10_000),
            (held(),                               None,  None,         10_000),
            (held(),                               None,  Some(5_000),  5_000),
            // An area that needs nobody goes on as fast as ever.
            (held(),                               soon,  None,         2_000),
            (held(),                               soon,  Some(500),    500),
            (held(),                               later, None,         10_000),
        ];
        for (outcome, waits_ms, asked_ms, expected) in rows {
            // Nothing backs off at first.
            for quiet_ms in [0, 16_000] {
                let pauses = Pauses { waits_ms, asked_ms, quiet_ms };
                let pause_ms = next_pass_ms(&outcome, pauses, HOUR);
                assert_eq!(pause_ms, expected, "{outcome:?} {pauses:?}");
            }
        }
    }

    #[test]
    #[rustfmt::skip]
    fn passes_back_off_while_they_find_nothing_to_write() {
        use Outcome::{Done, Held, Progressing};
        const HOUR: u64 = 3_600_000;
        let (creating, silent) = (Progressing(note(Reason::Creating)), Progressing(note(Reason::KafkaUnreachable)));
        let held = Held(note(Reason::RollStopped));
        let rows = [
            // outcome, asked by an area, for how long nothing was written, the pause
            (&creating, None,        16_000,  2_000),
            (&creating, None,        40_000,  5_000),
            (&creating, None,        HOUR,    30_000),
            (&creating, Some(5_000), HOUR,    5_000),
            (&silent,   None,        80_000,  10_000),
            (&silent,   None,        160_000, 20_000),
            (&held,     None,        HOUR,    30_000),
            (&Done,     None,        HOUR,    HOUR),
        ];
        for (outcome, asked_ms, quiet_ms, expected) in rows {
            let pauses = Pauses { waits_ms: None, asked_ms, quiet_ms };
            assert_eq!(next_pass_ms(outcome, pauses, HOUR), expected, "{outcome:?} {pauses:?}");
        }
    }

    #[test]
    fn what_begins_a_pass_by_itself_is_not_polled() {
        use Flow::{Fault, Hold, Stop, Wait};
        use Reason::{
            AutoRebalancing, Creating, KafkaUnreachable, QuorumWaiting, Rolling, ScalingDown,
        };
        let of = |flows: Vec<Flow>| {
            let flows = flows.into_iter().map(|flow| (Area::Workload, flow)).collect();
            Decision { flows, ..Decision::default() }.waits_ms()
        };
        let (wait, stop) = (|reason| Wait(note(reason)), |reason| Stop(note(reason)));
        for reason in [AutoRebalancing, KafkaUnreachable] {
            assert_eq!(of(vec![wait(reason)]), Some(LATER_MS), "{reason}");
            assert_eq!(of(vec![stop(reason)]), Some(LATER_MS), "{reason}");
            // Whatever else is awaited is not slowed down by it.
            for other in [Creating, QuorumWaiting, Rolling, ScalingDown] {
                assert_eq!(of(vec![wait(reason), wait(other)]), Some(SOON_MS), "{reason} {other}");
            }
        }
        assert_eq!(of(vec![]), None);
        assert_eq!(of(vec![Fault(note(Rolling)), Hold(note(Rolling)), Flow::Go]), None);
    }

    #[test]
    fn an_event_is_published_once_for_a_warning_that_people_should_notice() {
        use Reason::{
            AutoRebalanceFailed, AutoRebalanceTemplateMissing, AutoRebalanceTemplateUnmarked,
            InvalidAnnotation, UnregistrationFailed,
        };
        let all = BTreeSet::from(Area::ALL);
        let until_roll: BTreeSet<Area> = [Area::Kafka, Area::Roll].into();
        let mut noticed = BTreeSet::new();
        let failed = |text: &str| Note::new(UnregistrationFailed, text);
        // The warnings, the areas that were decided on, the Events.
        let rows = [
            (vec![note(InvalidAnnotation)], &all, vec![]),
            (
                vec![note(InvalidAnnotation), failed("one"), failed("two")],
                &all,
                vec![failed("one")],
            ),
            // It lasts, in other words.
            (vec![failed("two")], &all, vec![]),
            // Whether it lasts is unknown.
            (vec![], &until_roll, vec![]),
            (vec![failed("two")], &all, vec![]),
            (vec![failed("two"), note(AutoRebalanceFailed)], &all, vec![note(AutoRebalanceFailed)]),
            // It is over, and happens again.
            (vec![note(AutoRebalanceFailed)], &all, vec![]),
            (vec![failed("three")], &all, vec![failed("three")]),
        ];
        for (step, (warnings, decided, expected)) in rows.into_iter().enumerate() {
            assert_eq!(notices(&warnings, decided, &mut noticed), expected, "{step}");
        }
        assert_eq!(noticed, [UnregistrationFailed].into());
        for reason in [AutoRebalanceTemplateMissing, AutoRebalanceTemplateUnmarked] {
            let told = notices(&[note(reason)], &all, &mut BTreeSet::new());
            assert_eq!(told, [note(reason)], "{reason}");
        }
        // Another operator goes on from the record.
        let record = Record { noticed, ..Record::default() };
        let mut record: Record =
            serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert!(notices(&[failed("three")], &all, &mut record.noticed).is_empty());
    }

    #[test]
    fn nodes_that_do_not_start_are_recorded_if_they_are_all_that_is_wrong() {
        let (mut snapshot, record) = settled();
        let pod = snapshot.pods.get_mut("c-broker-5").unwrap();
        (pod.ready, pod.unschedulable) = (false, true);
        // What is wrong with a pod is seen in one pass, and judged in the next.
        let decided = |snapshot: &Snapshot| {
            let mut record = record.clone();
            for _ in 0..3 {
                record = decide(snapshot, &record, &scope()).record;
            }
            decide(snapshot, &record, &scope())
        };
        let decision = decided(&snapshot);
        let Outcome::Held(held) = decision.outcome() else { panic!("{decision:?}") };
        assert_eq!(held.reason, Reason::RollStopped);
        assert_eq!(decision.record.stuck_nodes, [id(5)].into());
        // Something else is wrong too.
        let users = (Area::Users, Flow::Fault(note(Reason::UsersNotGiven)));
        let mut other = decision.clone();
        other.flows.push(users);
        assert!(other.stuck_nodes().is_empty());
        // Another node was given up: one that serves only waits for its restart, one that does not is in trouble too.
        for (contact, is_ready, expected) in [
            (Contact::Answers, true, Some(id(5))),
            (Contact::Answers, false, None),
            (Contact::Fails, true, None),
            (Contact::Unknown, true, None),
        ] {
            let mut other = decision.clone();
            let (facts, roll) = Arc::make_mut(other.outputs.roll.as_mut().unwrap());
            roll.progress.given_up = vec![id(4), id(5)];
            let node = facts.nodes.iter_mut().find(|node| node.node == id(4)).unwrap();
            node.contact = contact;
            let Pod::There(pod) = &mut node.pod else { panic!("{node:?}") };
            pod.ready = is_ready;
            let expected: BTreeSet<NodeId> = expected.into_iter().collect();
            assert_eq!(other.stuck_nodes(), expected, "{contact:?} {is_ready}");
        }
        // It starts after all.
        let pod = snapshot.pods.get_mut("c-broker-5").unwrap();
        (pod.ready, pod.unschedulable) = (true, false);
        empty(&mut snapshot);
        let again = decide(&snapshot, &decision.record, &scope());
        assert!(again.record.stuck_nodes.is_empty());
    }

    #[test]
    fn a_lost_quorum_is_reported_though_no_node_is_ready() {
        let (mut snapshot, record) = settled();
        snapshot.kafka.quorum = Fact::default();
        snapshot.pods.values_mut().for_each(|pod| pod.ready = false);
        let flow = Flow::Wait(note(Reason::Creating));
        snapshot.built.insert(Area::Workload, BuiltView { flow, ..BuiltView::default() });
        let agents = needs(&snapshot, &record, &scope()).directories;
        assert_eq!(agents.into_iter().collect::<Vec<_>>(), [0, 1, 2].map(id));
        let outcome = decide(&snapshot, &record, &scope()).outcome();
        assert_eq!(outcome, Outcome::Progressing(note(Reason::Creating)));
        for node in 0..2 {
            let disk = Fact::read(samples::directory(node + 10), samples::NOW);
            snapshot.kafka.directories.insert(id(node), disk);
        }
        let outcome = decide(&snapshot, &record, &scope()).outcome();
        assert!(
            matches!(&outcome, Outcome::Held(note) if note.reason == Reason::QuorumLost),
            "{outcome:?}"
        );
    }

    #[test]
    fn what_a_person_has_to_do_comes_first_and_then_what_is_awaited_first() {
        use Flow::{Fault, Hold, Stop, Wait};
        let of = |flows: Vec<(Area, Flow)>| Decision { flows, ..Decision::default() }.outcome();
        let (creating, rolling) = (note(Reason::Creating), note(Reason::Rolling));
        let stopped = note(Reason::RollStopped);
        assert_eq!(of(vec![]), Outcome::Done);
        assert_eq!(
            of(vec![
                (Area::Workload, Wait(creating.clone())),
                (Area::Users, Wait(rolling.clone()))
            ]),
            Outcome::Progressing(creating.clone())
        );
        // Why a node is restarted says more than that it is not ready.
        assert_eq!(
            of(vec![(Area::Workload, Wait(creating.clone())), (Area::Roll, Wait(rolling.clone()))]),
            Outcome::Progressing(rolling.clone())
        );
        assert_eq!(
            of(vec![
                (Area::Workload, Wait(creating.clone())),
                (Area::Quorum, Stop(rolling.clone()))
            ]),
            Outcome::Progressing(creating.clone())
        );
        assert_eq!(
            of(vec![(Area::Workload, Wait(creating)), (Area::Roll, Fault(stopped.clone()))]),
            Outcome::Held(stopped.clone())
        );
        assert_eq!(of(vec![(Area::Quorum, Hold(rolling))]), Outcome::Held(note(Reason::Rolling)));
        // A failed roll hinders no KafkaRebalance, and must not hide what does.
        let (failed, users) = (note(Reason::RollFailed), note(Reason::UsersNotGiven));
        let roll = || (Area::Roll, Fault(failed.clone()));
        assert_eq!(of(vec![roll()]), Outcome::Held(failed.clone()));
        assert_eq!(
            of(vec![roll(), (Area::Users, Fault(users.clone()))]),
            Outcome::Held(users.clone())
        );
        assert_eq!(of(vec![roll(), (Area::Users, Hold(users.clone()))]), Outcome::Held(users));
        let stop = (Area::Services, Fault(stopped.clone()));
        let later = (Area::Users, Fault(note(Reason::UsersNotGiven)));
        assert_eq!(of(vec![stop, later]), Outcome::Held(stopped));
    }

    #[test]
    fn what_is_awaited_is_known_though_a_person_has_to_do_something() {
        use Flow::{Fault, Stop, Wait};
        let (creating, stopped) = (note(Reason::Creating), note(Reason::RollStopped));
        let of = |flows: Vec<(Area, Flow)>| {
            Decision { flows, ..Decision::default() }.awaited().map(|note| note.reason)
        };
        let fault = || (Area::Roll, Fault(stopped.clone()));
        assert_eq!(of(vec![fault()]), None);
        assert_eq!(
            of(vec![fault(), (Area::ScaleIn, Wait(creating.clone()))]),
            Some(Reason::Creating)
        );
        assert_eq!(of(vec![(Area::Services, Stop(creating)), fault()]), Some(Reason::Creating));
    }
}
