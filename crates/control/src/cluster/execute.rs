//! The pure half of the executor: the order of the acts, whether their facts are fresh, and what answers mean.
//!
//! The operator asks for the next act, sends it, and reports the answer; the simulation does the same.
//!
//! 1. An act whose facts are old is sent only if a decision on new facts asks for it too. The same holds for every act
//!    after it. Otherwise the pass ends.
//! 2. All other areas depend on what authorities and certificates store: an act of these two that fails ends the pass.
//!    A failed act of another area that cannot be left to a later decision skips the rest of its area.
//! 3. Restarts that the roller counted and that were not sent are not counted.
//! 4. A cluster was ready once a pass has found nothing to do, and has read and written everything that it had to.

use std::collections::{BTreeMap, BTreeSet};

use super::act::{Act, settle};
use super::area::Area;
use super::decide::{Decision, Scope, decide};
use super::draft::LOOK_AGAIN_MS;
use super::record::Record;
use super::snapshot::Snapshot;
use crate::conditions::{Note, Outcome, Reason};
use crate::quorum::answer::Answer;

/// A decision that is being carried out.
#[derive(Debug, Clone)]
pub struct Execution {
    decision: Decision,
    /// The record that it was decided on.
    before: Record,
    scope: Scope,
    /// The number of acts that were answered or skipped.
    next: usize,
    /// The areas of the acts that were sent.
    sent: BTreeSet<Area>,
    /// Why areas wait that have an act that failed.
    failed: BTreeMap<Area, Note>,
    /// The decision on newer facts.
    again: Option<Decision>,
    /// The act whose facts were read again last.
    reread: Option<usize>,
    /// The act that the newer facts do not ask for.
    dropped: Option<Act>,
    ended: Option<Outcome>,
}

/// Why a pass could not read or write something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The words for it.
    pub note: Note,
    /// Whether another writer came first. The next pass sees what that has written.
    pub is_conflict: bool,
}

impl Failure {
    /// How the cluster is because of it.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        match self.is_conflict {
            true => Outcome::Progressing(self.note),
            false => Outcome::Held(self.note),
        }
    }
}

/// The end of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How the cluster is.
    pub outcome: Outcome,
    /// After how long the next pass should begin, at the latest.
    pub look_again_ms: Option<u64>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Read everything again, and report it with [`Execution::reread`].
    ReadAgain,
    /// Send this act, and report the answer with [`Execution::answered`].
    Send(Act),
    /// Nothing: the pass is over.
    End,
}

impl Execution {
    /// Begins to carry out a decision that is recorded. `before` is the record that it was decided on.
    #[must_use]
    pub const fn new(decision: Decision, before: Record, scope: Scope) -> Self {
        Self {
            decision,
            before,
            scope,
            next: 0,
            sent: BTreeSet::new(),
            failed: BTreeMap::new(),
            again: None,
            reread: None,
            dropped: None,
            ended: None,
        }
    }

    /// The record that facts have to be read for when they are read again.
    #[must_use]
    pub const fn before(&self) -> &Record {
        &self.before
    }

    /// What to do next, given the facts that were read last. An act that is returned counts as sent.
    pub fn next(&mut self, record: &mut Record, snapshot: &Snapshot, now_ms: u64) -> Next {
        while self.ended.is_none() {
            let Some((area, act)) = self.decision.acts.get(self.next) else { break };
            if self.failed.contains_key(area) {
                self.next += 1;
                continue;
            }
            if self.reread != Some(self.next) && act.fresh.is_stale(snapshot, now_ms) {
                return Next::ReadAgain;
            }
            let holds =
                |again: &Decision| again.acts.iter().any(|one| *one == (*area, act.clone()));
            if let Some(again) = self.again.take_if(|again| !holds(again)) {
                self.dropped = Some(act.clone());
                self.outdate(record, again);
                break;
            }
            self.sent.insert(*area);
            return Next::Send(act.clone());
        }
        Next::End
    }

    /// Everything was read again.
    pub fn reread(&mut self, snapshot: &Snapshot) {
        self.reread = Some(self.next);
        self.again = Some(decide(snapshot, &self.before, &self.scope));
    }

    /// Enters the answer to the act that was sent. The record is saved after that.
    pub fn answered(
        &mut self,
        record: &mut Record,
        answered: (Answer, Option<String>),
        now_ms: u64,
    ) {
        let Some((area, act)) = self.decision.acts.get(self.next) else { return };
        let unfinished = act.unfinished(*area, &answered);
        let ends = settle(record, act, answered, now_ms);
        self.next += 1;
        match (unfinished, area) {
            // Pods are started with what these store, and trust it.
            (Some(note), Area::Authorities | Area::Certificates) => {
                self.ended = Some(Outcome::Progressing(note));
            }
            (Some(note), _) => {
                self.failed.insert(*area, note);
            }
            (None, _) if ends => self.ended = Some(self.decision.outcome()),
            (None, _) => {}
        }
    }

    /// Ends the pass because its facts were old. If nothing was done because of them, what the new facts say replaces
    /// what was recorded because of them.
    fn outdate(&mut self, record: &mut Record, again: Decision) {
        self.ended = Some(match again.outcome() {
            Outcome::Done => {
                let message = "the facts of this pass were too old; the next pass reads them again";
                Outcome::Progressing(Note::new(Reason::FactsOutdated, message))
            }
            outcome @ (Outcome::Progressing(_) | Outcome::Held(_) | Outcome::Paused) => outcome,
        });
        if self.sent.is_empty() {
            *record = again.record;
        }
    }

    /// The act that was dropped because its facts have changed.
    #[must_use]
    pub const fn dropped(&self) -> Option<&Act> {
        self.dropped.as_ref()
    }

    /// Ends the pass, also one that an error broke off. `failure` is the first read or write that failed. The record is
    /// saved after that.
    pub fn finish(self, record: &mut Record, failure: Option<Failure>) -> Ended {
        let asks_roll = self.decision.acts.iter().any(|(area, _)| *area == Area::Roll);
        if asks_roll && !self.sent.contains(&Area::Roll) {
            record.roll.clone_from(&self.before.roll);
            record.roll_account.clone_from(&self.before.roll_account);
        }
        let soon = self.dropped.as_ref().map(|_| LOOK_AGAIN_MS);
        let look_again_ms = self.decision.look_again_ms.into_iter().chain(soon).min();
        let outcome = match (failure, self.ended) {
            (Some(failure), _) => failure.outcome(),
            (None, ended) => {
                let failed = self.failed.into_values().next();
                match (ended.unwrap_or_else(|| self.decision.outcome()), failed) {
                    (Outcome::Done, Some(note)) => Outcome::Progressing(note),
                    (outcome, _) => outcome,
                }
            }
        };
        record.was_ready |= outcome == Outcome::Done;
        Ended { outcome, look_again_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::act::{Rule, What};
    use crate::cluster::areas::samples::{self, id};
    use crate::cluster::draft::Flow;
    use crate::cluster::snapshot::{BuiltView, ObjectKey, ObjectKind};

    const NOW: u64 = samples::NOW;
    /// Longer than facts stay fresh.
    const LATER: u64 = NOW + 60_000;

    fn scope() -> Scope {
        let keys = |area: &Area| matches!(area, Area::Authorities | Area::Certificates);
        Scope::of(Area::ALL.into_iter().filter(|area| !keys(area)))
    }

    /// A cluster with a Service to apply and a controller to restart, in this order, and its record.
    fn restarting() -> (Snapshot, Record) {
        let (mut snapshot, mut record) = samples::settled();
        snapshot.desired.configured_dynamic = true;
        for _ in 0..4 {
            record = decide(&snapshot, &record, &scope()).record;
        }
        let service = ObjectKey { kind: ObjectKind::Service, name: "c".to_owned() };
        let built = BuiltView { changes: vec![service], ..BuiltView::default() };
        snapshot.built.insert(Area::Services, built);
        snapshot.pods.get_mut("c-controller-1").unwrap().restart = true;
        (snapshot, record)
    }

    fn begin(snapshot: &Snapshot, before: &Record) -> (Execution, Record) {
        let decision = decide(snapshot, before, &scope());
        let record = decision.record.clone();
        (Execution::new(decision, before.clone(), scope()), record)
    }

    fn of_areas(areas: &[Area]) -> Execution {
        let act = || Act::new(What::PublishTrust, Rule::TrustComesFirst);
        let acts = areas.iter().map(|area| (*area, act())).collect();
        Execution::new(Decision { acts, ..Decision::default() }, Record::default(), scope())
    }

    fn sent(next: &Next) -> String {
        match next {
            Next::Send(act) => act.what.to_string(),
            Next::ReadAgain | Next::End => format!("{next:?}"),
        }
    }

    const DONE: (Answer, Option<String>) = (Answer::Done, None);
    const APPLY: &str = "apply Service c";
    const RESTART: &str = "restart pod c-controller-1: a restart was asked for";

    #[test]
    fn fresh_acts_are_sent_in_their_order() {
        let (snapshot, before) = restarting();
        let (mut execution, mut record) = begin(&snapshot, &before);
        assert_eq!(sent(&execution.next(&mut record, &snapshot, NOW)), APPLY);
        execution.answered(&mut record, DONE, NOW);
        assert_eq!(sent(&execution.next(&mut record, &snapshot, NOW)), RESTART);
        execution.answered(&mut record, DONE, NOW);
        assert_eq!(execution.next(&mut record, &snapshot, NOW), Next::End);
        assert_eq!(execution.dropped(), None);
        execution.finish(&mut record, None);
        assert!(record.roll.nodes.contains_key(&id(1)), "the restart is counted");
    }

    #[test]
    fn an_act_that_old_and_new_facts_ask_for_is_sent() {
        let (snapshot, before) = restarting();
        let (mut execution, mut record) = begin(&snapshot, &before);
        // What cannot hurt is sent at any age.
        assert_eq!(sent(&execution.next(&mut record, &snapshot, LATER)), APPLY);
        execution.answered(&mut record, DONE, LATER);
        assert_eq!(execution.next(&mut record, &snapshot, LATER), Next::ReadAgain);
        assert_eq!(execution.before(), &before);
        execution.reread(&snapshot);
        // Facts are read again once for an act, however long that takes.
        assert_eq!(sent(&execution.next(&mut record, &snapshot, LATER + LATER)), RESTART);
    }

    #[test]
    fn an_act_that_new_facts_do_not_ask_for_ends_the_pass() {
        let (snapshot, before) = restarting();
        let (mut execution, mut record) = begin(&snapshot, &before);
        execution.next(&mut record, &snapshot, LATER);
        execution.answered(&mut record, DONE, LATER);
        assert_eq!(execution.next(&mut record, &snapshot, LATER), Next::ReadAgain);
        let mut newer = snapshot.clone();
        newer.pods.get_mut("c-controller-1").unwrap().restart = false;
        execution.reread(&newer);
        let recorded = record.clone();
        assert_eq!(execution.next(&mut record, &newer, LATER), Next::End);
        assert_eq!(execution.dropped().map(|act| act.what.to_string()).as_deref(), Some(RESTART));
        assert_eq!(record, recorded, "an act was sent because of what is recorded");
        let Ended { outcome, look_again_ms } = execution.finish(&mut record, None);
        assert!(look_again_ms.is_some_and(|after_ms| after_ms <= LOOK_AGAIN_MS));
        let Outcome::Progressing(note) = outcome else { panic!("{outcome:?}") };
        assert_eq!(note.reason, Reason::FactsOutdated);
        assert_eq!(record.roll, before.roll, "no restart is counted");
        assert_eq!(record.roll_account, before.roll_account);
    }

    #[test]
    fn new_facts_replace_what_was_recorded_if_nothing_was_sent() {
        let (mut snapshot, before) = restarting();
        snapshot.built.clear();
        let (mut execution, mut record) = begin(&snapshot, &before);
        assert_eq!(execution.next(&mut record, &snapshot, LATER), Next::ReadAgain);
        let mut newer = snapshot.clone();
        newer.pods.get_mut("c-controller-1").unwrap().restart = false;
        execution.reread(&newer);
        record.was_ready = !before.was_ready;
        assert_eq!(execution.next(&mut record, &newer, LATER), Next::End);
        assert_eq!(record, decide(&newer, &before, &scope()).record);
    }

    #[test]
    fn an_error_before_the_restart_is_sent_does_not_count_it() {
        let (snapshot, before) = restarting();
        let (mut execution, mut record) = begin(&snapshot, &before);
        assert!(record.roll.nodes.contains_key(&id(1)));
        assert_eq!(sent(&execution.next(&mut record, &snapshot, NOW)), APPLY);
        execution.finish(&mut record, Some(failure(false)));
        assert_eq!(record.roll, before.roll);
        // After it was sent, its outcome is unknown.
        let (mut execution, mut record) = begin(&snapshot, &before);
        execution.next(&mut record, &snapshot, NOW);
        execution.answered(&mut record, DONE, NOW);
        assert_eq!(sent(&execution.next(&mut record, &snapshot, NOW)), RESTART);
        execution.finish(&mut record, None);
        assert!(record.roll.nodes.contains_key(&id(1)));
    }

    fn failure(is_conflict: bool) -> Failure {
        Failure { note: Note::new(Reason::KubernetesWriteFailed, "no"), is_conflict }
    }

    #[test]
    fn a_cluster_was_ready_once_a_pass_found_nothing_to_do_and_nothing_failed() {
        let waits = |area| (area, Flow::Wait(Note::new(Reason::KafkaUnreachable, "silent")));
        let note = || failure(false).note;
        let rows = [
            // the areas that wait, the failure, whether it was ready, the outcome, whether it was ready after that
            (vec![], None, false, Outcome::Done, true),
            (vec![], Some(failure(false)), false, Outcome::Held(note()), false),
            (vec![], Some(failure(true)), false, Outcome::Progressing(note()), false),
            (vec![], Some(failure(false)), true, Outcome::Held(note()), true),
            (
                vec![waits(Area::Kafka)],
                None,
                false,
                Outcome::Progressing(Note::new(Reason::KafkaUnreachable, "silent")),
                false,
            ),
            (vec![waits(Area::Kafka)], Some(failure(false)), false, Outcome::Held(note()), false),
        ];
        for (flows, failure, was_ready, outcome, is_ready) in rows {
            let decision = Decision { flows, look_again_ms: Some(7), ..Decision::default() };
            let mut record = Record { was_ready, ..Record::default() };
            let execution = Execution::new(decision, record.clone(), Scope::pass());
            let ended = execution.finish(&mut record, failure);
            assert_eq!(ended, Ended { outcome, look_again_ms: Some(7) });
            assert_eq!(record.was_ready, is_ready, "{ended:?}");
        }
    }

    #[test]
    fn what_is_skipped_after_a_failed_act_depends_on_its_area() {
        use Area::{Authorities, Certificates, Registration, ScaleIn, Users};
        let refused = || (Answer::Refused, Some("no".to_owned()));
        #[rustfmt::skip]
        let rows: [(&[Area], usize, Option<Reason>); 4] = [
            // area of the first act fails,            acts sent, why the cluster waits
            (&[Authorities, Authorities, Registration], 1, Some(Reason::CertificateProblem)),
            (&[Certificates, Users],                    1, Some(Reason::CertificateProblem)),
            (&[Users, Users, Registration],             2, Some(Reason::UsersNotGiven)),
            (&[ScaleIn, ScaleIn, Registration],         3, None),
        ];
        for (areas, expected, reason) in rows {
            let (mut execution, mut record) = (of_areas(areas), Record::default());
            let mut count = 0;
            while let Next::Send(_) = execution.next(&mut record, &Snapshot::default(), NOW) {
                let answered = if count == 0 { refused() } else { DONE };
                execution.answered(&mut record, answered, NOW);
                count += 1;
            }
            let outcome = match execution.finish(&mut record, None).outcome {
                Outcome::Progressing(note) => Some(note.reason),
                Outcome::Done => None,
                outcome @ (Outcome::Held(_) | Outcome::Paused) => panic!("{areas:?}: {outcome:?}"),
            };
            assert_eq!((count, outcome), (expected, reason), "{areas:?}");
        }
    }

    #[test]
    fn an_unknown_answer_to_a_voter_change_ends_the_pass() {
        let directory = samples::directory(4);
        let remove = What::RemoveVoter { id: id(4), directory };
        let acts = vec![
            (Area::Quorum, Act::new(remove, Rule::VoterLeaves)),
            (
                Area::Registration,
                Act::new(What::Unregister { id: id(4) }, Rule::RegistrationIsStale),
            ),
        ];
        let decision = Decision { acts, ..Decision::default() };
        for (answer, goes_on) in [(Answer::Done, true), (Answer::Unknown, false)] {
            let mut execution = Execution::new(decision.clone(), Record::default(), Scope::pass());
            let (mut record, snapshot) = (Record::default(), samples::settled().0);
            execution.next(&mut record, &snapshot, NOW);
            execution.answered(&mut record, (answer, None), NOW);
            let next = execution.next(&mut record, &snapshot, NOW);
            assert_eq!(matches!(next, Next::Send(_)), goes_on, "{answer:?}: {next:?}");
        }
    }
}
