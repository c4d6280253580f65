//! A simulated operator process: it observes, builds, decides, records and acts with the code that ships, one step at a
//! time, so that it can die or be paused between any two of them.
//!
//! Only what reads and sends is replaced: [`super::observe`] and [`super::send`].

use std::collections::BTreeSet;
use std::rc::Rc;

use control::cluster::area::Area;
use control::cluster::decide::{Pauses, Scope, decide, needs, next_pass_ms};
use control::cluster::execute::{Ended, Execution, Failure, Next};
use control::cluster::record::Record;
use control::cluster::snapshot::Snapshot;
use control::conditions::{Note, Outcome, Reason};
use control::quorum::Mark;
use control::quorum::answer::Answer;
use objects::areas::configuration::Configuration;
use objects::desired::{self, Desired, Input};
use objects::found::Found;
use objects::pods::Marks;
use objects::{Blueprint, Objects};
use serde_json::Value;

use super::build::{BuildKey, Surroundings};
use super::forward::Trace;
use super::invariants::Invariant;
use super::kubernetes::Denied;
use super::observe::Observer;
use super::sabotage::Sabotage;
use super::world::{OperatorId, World};

/// A pass, from the moment that the spec was accepted.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// The resource.
    pub(crate) kafka: Rc<Value>,
    /// The objects as they were read.
    pub(crate) found: Rc<Found>,
    /// The number of writes to them, but for pods, until then.
    pub(crate) objects_version: u64,
    /// When they were read, by the clock of the operator.
    pub(crate) read_ms: u64,
    /// What objects are built from.
    pub(crate) blueprint: Rc<Blueprint>,
    /// What was built.
    pub(crate) objects: Rc<Objects>,
    /// What nodes are configured with.
    pub(crate) configuration: Rc<Configuration>,
    /// What the operator was set up with.
    pub(crate) surroundings: Rc<Surroundings>,
    /// The marks of pods because of their certificates.
    pub(crate) marks: Rc<Marks>,
    /// The record.
    pub(crate) record: Record,
    /// The version of the stored record.
    stored: Option<String>,
    /// The record that is stored.
    saved: Option<Record>,
    /// A place in the leader's log from an earlier pass.
    pub(crate) mark: Option<Mark>,
}

/// A pass that is under way.
#[derive(Debug, Clone)]
struct Flight {
    work: Work,
    snapshot: Snapshot,
    execution: Execution,
    is_saved: bool,
    answer: Option<(Answer, Option<String>)>,
    waits_ms: Option<u64>,
}

/// What happens to a process at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upset {
    /// It dies, and is started again after this time.
    Crash(u64),
    /// It makes no step for this time, and does not notice.
    Pause(u64),
}

/// An operator process.
#[derive(Debug, Clone)]
pub(crate) struct Operator {
    id: OperatorId,
    sabotage: Sabotage,
    down_until_ms: u64,
    paused_until_ms: u64,
    /// Until when it knows that it leads.
    pub(crate) fence_ms: u64,
    /// How far its clock is off.
    pub(crate) clock_ms: i64,
    next_ms: u64,
    seen_version: u64,
    pub(crate) mark: Option<Mark>,
    flight: Option<Box<Flight>>,
    pub(crate) built: Option<Box<(BuildKey, Rc<Objects>, Rc<Configuration>)>>,
    pub(crate) reused: u64,
    /// The `Kafka` that was read last.
    parsed: Option<(Rc<Value>, Box<api::Kafka>)>,
    /// After how many steps something happens to it.
    pub(crate) upset: Option<(u64, Upset)>,
    /// Until when it sees an old `Kafka`.
    pub(crate) stale: Option<(Rc<Value>, u64)>,
    /// The number of passes that it began.
    pub(crate) passes: u64,
}

/// How long a Lease lasts without a renewal.
pub(crate) const LEASE_MS: u64 = 15_000;
/// The least time that a Lease has to last for a change to be sent.
pub(crate) const CALL_MS: u64 = 5_000;
/// The pause of a cluster that is as it should be.
pub(crate) const INTERVAL_MS: u64 = 120_000;
/// How soon a pass that failed is tried again.
const RETRY_MS: u64 = 2_000;

/// The areas that the world has facts for.
#[must_use]
pub(crate) fn scope(world: &World) -> Scope {
    let has_keys = world.keys.as_ref().is_some_and(|keys| keys.views.is_some());
    let is_known = |area: &Area| {
        let needs_keys = matches!(area, Area::Authorities | Area::Certificates);
        *area != Area::Users && (has_keys || !needs_keys)
    };
    let scope = Scope::of(Area::ALL.into_iter().filter(is_known));
    match world.trace.is_some() {
        // Nothing here gives a Service its address or replaces an authority: a plan goes on without.
        true => scope.passing([Area::Authorities, Area::Services]),
        false => scope,
    }
}

impl Operator {
    /// A process that was just started.
    #[must_use]
    pub(crate) const fn new(id: OperatorId, sabotage: Sabotage) -> Self {
        Self {
            id,
            sabotage,
            down_until_ms: 0,
            paused_until_ms: 0,
            fence_ms: 0,
            clock_ms: 0,
            next_ms: 0,
            seen_version: 0,
            mark: None,
            flight: None,
            built: None,
            reused: 0,
            parsed: None,
            upset: None,
            stale: None,
            passes: 0,
        }
    }

    fn now(&self, world: &World) -> u64 {
        world.now_ms.saturating_add_signed(self.clock_ms)
    }

    pub(crate) fn observer(&self, world: &World) -> Observer {
        Observer { now_ms: self.now(world), sabotage: self.sabotage }
    }

    /// When it does something by itself.
    #[must_use]
    pub(crate) const fn due_ms(&self) -> u64 {
        self.next_ms
    }

    /// It does nothing by itself until then.
    pub(crate) fn sleep_until(&mut self, at_ms: u64) {
        self.next_ms = self.next_ms.max(at_ms);
    }

    /// Whether a pass is under way.
    #[must_use]
    pub(crate) const fn is_acting(&self) -> bool {
        self.flight.is_some()
    }

    /// Runs until there is nothing to do now. Returns whether it does anything at all.
    pub(crate) fn run(&mut self, world: &mut World) {
        if world.now_ms < self.down_until_ms || world.now_ms < self.paused_until_ms {
            return;
        }
        self.elect(world);
        // A process that was paused goes on where it was, whoever leads by now.
        loop {
            let leads = world.lease.holder == Some(self.id);
            if self.flight.is_none() && (!leads || !self.is_due(world)) {
                break;
            }
            if self.is_upset(world) {
                return;
            }
            match self.flight.take() {
                None => self.begin(world),
                Some(flight) => self.step(world, flight),
            }
            // What a pass has written begins the next one a moment later.
            if self.flight.is_none() {
                break;
            }
        }
        // What it knows of the Lease it learns after the pause only.
        if world.lease.holder != Some(self.id) {
            self.forget();
        }
    }

    /// What a process that ends does not keep.
    fn forget(&mut self) {
        (self.mark, self.flight, self.built, self.stale) = (None, None, None, None);
        (self.fence_ms, self.next_ms, self.seen_version) = (0, 0, 0);
    }

    fn elect(&mut self, world: &mut World) {
        let now = world.now_ms;
        let lease = &mut world.lease;
        let is_free = lease.holder.is_none() || now >= lease.until_ms;
        if lease.holder == Some(self.id) || is_free {
            if lease.holder != Some(self.id) {
                self.forget();
                world.coverage.count("leader elected");
            }
            world.lease.holder = Some(self.id);
            world.lease.until_ms = now + LEASE_MS;
            self.fence_ms = now + LEASE_MS;
        }
    }

    fn is_due(&self, world: &World) -> bool {
        world.now_ms >= self.next_ms || world.kubernetes.version != self.seen_version
    }

    /// Whether it leads, and something was written since its last pass began.
    pub(crate) fn is_told(&self, world: &World) -> bool {
        world.lease.holder == Some(self.id) && world.kubernetes.version != self.seen_version
    }

    fn is_upset(&mut self, world: &mut World) -> bool {
        let Some((steps, upset)) = self.upset else { return false };
        if steps > 0 {
            self.upset = Some((steps - 1, upset));
            return false;
        }
        self.upset = None;
        let id = self.id;
        match upset {
            Upset::Crash(ms) => {
                world.note(|| format!("operator {id} dies"));
                world.coverage.count("fault operator dies");
                self.forget();
                self.down_until_ms = world.now_ms + ms;
            }
            Upset::Pause(ms) => {
                world.note(|| format!("operator {id} is paused for {ms} ms"));
                let what = if self.flight.is_some() { "in a pass" } else { "between passes" };
                world.coverage.count(format!("fault operator paused {what}"));
                self.paused_until_ms = world.now_ms + ms;
            }
        }
        true
    }

    /// A pass ends.
    fn end(&mut self, world: &mut World, outcome: Outcome, pause_ms: u64) {
        if let Outcome::Progressing(note) | Outcome::Held(note) = &outcome {
            world.coverage.count(format!("reason {}", note.reason.name()));
        }
        let id = self.id;
        if world.outcome.as_ref() != Some(&outcome) {
            world.note(|| format!("operator {id}: {outcome:?}"));
        }
        world.trace(|| Trace::Outcome(outcome.clone()));
        world.outcome = Some(outcome);
        self.next_ms = world.now_ms + pause_ms;
    }

    fn begin(&mut self, world: &mut World) {
        self.passes += 1;
        world.coverage.count("pass");
        self.seen_version = world.kubernetes.version;
        let now = world.now_ms;
        let stale = self.stale.as_ref().filter(|(_, until)| now < *until);
        let kafka =
            stale.map_or_else(|| world.kubernetes.kafka.clone(), |(kafka, _)| kafka.clone());
        if now < world.unreadable_until_ms {
            let note = Note::new(Reason::KubernetesUnreadable, "the API server does not answer");
            return self.end(world, Outcome::Held(note), RETRY_MS);
        }
        if kafka["metadata"]["annotations"][super::user::PAUSE] == "true" {
            return self.end(world, Outcome::Paused, INTERVAL_MS);
        }
        let mut work = match self.accept(world, kafka) {
            Ok(work) => work,
            Err(note) => {
                world.trace(|| Trace::Refused(note.clone()));
                return self.end(world, Outcome::Held(note), 10_000);
            }
        };
        if self.save(world, &mut work).is_err() || self.tell_pools(world, &work).is_err() {
            let note = Note::new(Reason::KubernetesWriteFailed, "conflict");
            return self.end(world, Outcome::Progressing(note), RETRY_MS);
        }
        self.build(&mut work);
        let snapshot = self.observe(world, &work, &work.record);
        let before = work.record.clone();
        let decision = decide(&snapshot, &before, &scope(world));
        world.warnings = decision.warnings.iter().map(|note| note.reason).collect();
        for note in &decision.warnings {
            world.coverage.count(format!("reason {}", note.reason.name()));
        }
        let quorum = decision.outputs.quorum.as_ref().and_then(|facts| facts.quorum.as_ref());
        if let Some(view) = quorum {
            self.mark = view.mark();
        }
        if let Some(event) =
            decision.outputs.auto_rebalance.as_ref().and_then(|auto| auto.event.as_ref())
        {
            world.coverage.count(format!("auto-rebalance event {event:?}"));
        }
        count_phases(world, &before, &decision.record);
        world.trace_decision(&decision, &work.blueprint);
        work.record = decision.record.clone();
        let flight = Flight {
            waits_ms: decision.waits_ms(),
            execution: Execution::new(decision, before, scope(world)),
            work,
            snapshot,
            is_saved: false,
            answer: None,
        };
        self.flight = Some(Box::new(flight));
    }

    /// Reads everything of the cluster, and accepts what its user asks for.
    pub(crate) fn accept(&mut self, world: &mut World, kafka: Rc<Value>) -> Result<Work, Note> {
        let found = world.kubernetes.found.clone();
        let read_ms = self.now(world);
        let stored = world.kubernetes.record(&found);
        let (mut record, stored) = match stored {
            Some((record, version)) => (Some(record), Some(version)),
            None => (None, None),
        };
        let saved = record.clone();
        if self.sabotage == Sabotage::BeginsAnew && record.is_none() {
            record = Some(Record::default());
        }
        let resource = match self.parsed.as_ref().filter(|(known, _)| Rc::ptr_eq(known, &kafka)) {
            Some((_, resource)) => (**resource).clone(),
            None => {
                let resource: api::Kafka = serde_json::from_value((*kafka).clone())
                    .map_err(|error| Note::new(Reason::InvalidResource, error.to_string()))?;
                self.parsed = Some((kafka.clone(), Box::new(resource.clone())));
                resource
            }
        };
        let accepted = desired::accept(Input {
            kafka: resource,
            written: &kafka,
            found: &found,
            record,
            images: &world.surroundings.clone().images,
            domain: &world.surroundings.clone().domain,
            watches_other_namespaces: false,
            fresh: &mut || world.generate(),
        });
        let Desired { blueprint, record, warnings } = accepted.map_err(|refused| refused.note)?;
        for note in &warnings {
            world.coverage.count(format!("reason {}", note.reason.name()));
        }
        let marks = world.keys.as_ref().map(|keys| keys.marks_of(&blueprint)).unwrap_or_default();
        Ok(Work {
            surroundings: world.surroundings.clone(),
            marks: Rc::new(marks),
            kafka,
            objects_version: world.kubernetes.objects_version,
            found,
            read_ms,
            blueprint: Rc::new(blueprint),
            objects: Rc::default(),
            configuration: Rc::default(),
            record,
            stored,
            saved,
            mark: self.mark.clone(),
        })
    }

    pub(crate) fn observe(&self, world: &World, work: &Work, record: &Record) -> Snapshot {
        let observer = self.observer(world);
        let mut snapshot = world.snapshot(work, observer);
        for _ in 0..3 {
            let needs = needs(&snapshot, record, &scope(world));
            if needs.is_empty() {
                break;
            }
            world.read(work, &mut snapshot, &needs, observer);
        }
        snapshot
    }

    /// Stores the record, if it has changed.
    fn save(&self, world: &mut World, work: &mut Work) -> Result<(), Denied> {
        if self.sabotage == Sabotage::ForgetsSeen {
            work.record.quorum.seen.clear();
        }
        let is_same = work.saved.as_ref() == Some(&work.record);
        if is_same && self.sabotage != Sabotage::SavesAlways {
            return Ok(());
        }
        let tied = self.sabotage != Sabotage::NoVersions;
        let (version, differs) =
            world.kubernetes.save(&work.record, work.stored.as_deref(), tied)?;
        if differs {
            let text = format!("operator {} replaces a record that it has not read", self.id);
            world.violate(Invariant::SuccessorIsNotOverwritten, text);
        }
        self.check_id(world, &work.record);
        work.stored = Some(version);
        work.saved = Some(work.record.clone());
        Ok(())
    }

    fn check_id(&self, world: &mut World, record: &Record) {
        let known = world.cluster_id.clone();
        if known.is_some() && record.cluster_id != known {
            let text = format!("{known:?} becomes {:?}", record.cluster_id);
            world.violate(Invariant::IdsAreMadeOnce, text);
        }
    }

    /// One step of a pass.
    fn step(&mut self, world: &mut World, mut flight: Box<Flight>) {
        if !flight.is_saved && self.sabotage != Sabotage::ActsFirst {
            if self.save(world, &mut flight.work).is_err() {
                return self.fail(world, *flight, Denied::Conflict);
            }
            flight.is_saved = true;
            self.flight = Some(flight);
            return;
        }
        if let Some(answer) = flight.answer.take() {
            let now = self.now(world);
            flight.execution.answered(&mut flight.work.record, answer, now);
            if self.save(world, &mut flight.work).is_err() {
                return self.fail(world, *flight, Denied::Conflict);
            }
            self.flight = Some(flight);
            return;
        }
        let now = self.now(world);
        match flight.execution.next(&mut flight.work.record, &flight.snapshot, now) {
            Next::End => self.finish(world, *flight),
            Next::ReadAgain => {
                world.coverage.count("facts read again");
                flight.work.found = world.kubernetes.found.clone();
                flight.work.read_ms = now;
                flight.snapshot =
                    self.observe(world, &flight.work, &flight.execution.before().clone());
                flight.execution.reread(&flight.snapshot);
                self.flight = Some(flight);
            }
            Next::Send(act) => match self.send(world, &flight.work, &act) {
                Ok(answer) => {
                    flight.answer = Some(answer);
                    self.flight = Some(flight);
                }
                Err(denied) => self.fail(world, *flight, denied),
            },
        }
    }

    fn send(
        &self,
        world: &mut World,
        work: &Work,
        act: &control::cluster::act::Act,
    ) -> Result<(Answer, Option<String>), Denied> {
        let sender = super::send::Sender {
            operator: self.id,
            fence_ms: self.fence_ms,
            sabotage: self.sabotage,
        };
        world.send(sender, work, act)
    }

    /// A pass ends because of an error.
    fn fail(&mut self, world: &mut World, flight: Flight, denied: Denied) {
        let Flight { mut work, execution, .. } = flight;
        let note = Note::new(Reason::KubernetesWriteFailed, "the API server did not take a write");
        let failure = Failure { note, is_conflict: denied == Denied::Conflict };
        let outcome = execution.finish(&mut work.record, Some(failure)).outcome;
        // What is not saved now is decided again.
        let _ = self.save(world, &mut work);
        world.coverage.count(format!("pass failed {denied:?}"));
        self.end(world, outcome, RETRY_MS);
    }

    fn finish(&mut self, world: &mut World, flight: Flight) {
        let Flight { mut work, execution, waits_ms, .. } = flight;
        if execution.dropped().is_some() {
            world.coverage.count("act dropped");
        }
        let Ended { outcome, look_again_ms } = execution.finish(&mut work.record, None);
        if self.save(world, &mut work).is_err() {
            let note = Note::new(Reason::KubernetesWriteFailed, "conflict");
            return self.end(world, Outcome::Progressing(note), RETRY_MS);
        }
        let pauses = Pauses { waits_ms, asked_ms: look_again_ms, quiet_ms: 0 };
        let pause_ms = next_pass_ms(&outcome, pauses, INTERVAL_MS);
        self.end(world, outcome, pause_ms);
    }
}

/// Counts what phases became of which.
fn count_phases(world: &mut World, before: &Record, after: &Record) {
    let ids: BTreeSet<_> = before.leaving.keys().chain(after.leaving.keys()).copied().collect();
    for id in ids {
        let phase = |record: &Record| record.leaving.get(&id).map(|one| format!("{:?}", one.phase));
        let (from, to) = (phase(before), phase(after));
        if from != to {
            let word = |phase: Option<String>| phase.unwrap_or_else(|| "-".to_owned());
            world.coverage.count(format!("leaving {} -> {}", word(from), word(to)));
        }
    }
    let phase =
        |record: &Record| record.auto_rebalance.as_ref().map(|one| one.phase.name()).unwrap_or("-");
    if phase(before) != phase(after) {
        world.coverage.count(format!("auto-rebalance {} -> {}", phase(before), phase(after)));
    }
}
