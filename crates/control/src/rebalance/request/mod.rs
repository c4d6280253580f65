//! One `KafkaRebalance`: from a request to a plan, from a plan to moves, and to an end.
//!
//! 1. What is executed is what was shown and approved: a request whose spec changed, or that is to be
//!    refreshed, is not executed, whoever approved it.
//! 2. One rebalance at a time executes on a cluster: an approval waits until nothing else runs there.
//! 3. `Stopped` means that nothing runs any more, not that somebody was asked to stop.
//! 4. A command (an annotation) is recorded, then its annotation is taken away, and then it is acted on.
//!    A crash between any two of these neither loses nor doubles it.
//! 5. A request that goes, because it is deleted or made a template, starts nothing and stops what it
//!    runs.
//! 6. What could not be read raises no event.
//!
//! A pass reads the resource and its record, reads what [`needs`] asks for until that is nothing, and calls [`decide`].
//! It saves the record before it acts, and reports what the decision says after it has heard the answer to the act.
//!
//! The states and annotations are those of Strimzi. Where we differ, for safety:
//! - a refresh comes before auto-approval, else an outdated plan would be executed (1);
//! - a cluster that is not ready does not end a rebalance that runs: the moves go on in Kafka whatever
//!   we say, and a restart of one broker is no reason to forget them. One that was stopped stays so;
//! - a pause holds a running rebalance and is taken up where it was; what was `Ready` or `Stopped` is not
//!   begun again, which with auto-approval would move everything a second time;
//! - every hindrance that goes away by itself is recovered from without a refresh;
//! - a cluster that is not ready only because of nodes that leave hinders nothing: else a broker that is gone for good
//!   would hinder its own drain. Nor does one that is not ready only because nodes could not be restarted: a roll that
//!   waits for replicas must not keep them from being moved.
//!
//! Engines differ; the facts do not. `attempt` counts the plans that were asked for: by it an engine
//! tells what it knows of this request from what it knew of an older form of it.
//!
//! - [`snapshot`]: the facts;
//! - [`record`]: what is kept from pass to pass;
//! - [`spec`]: whether a request can be begun;
//! - [`engine`]: what the engines say, and what is asked of them;
//! - [`answers`]: what the answer to an act changes;
//! - [`claims`]: whose moves are;
//! - [`planning`]: what a plan of the native engine is about, and why there is none;
//! - [`machine`]: phases and transitions;
//! - [`report`]: what users see.

pub mod answers;
pub mod claims;
mod cruise_control;
pub mod engine;
pub mod machine;
pub mod planning;
pub mod record;
pub mod report;
pub mod snapshot;
pub mod spec;
mod words;

pub use cruise_control::Task;
pub use engine::{Act, Needs, Orders, Questions};
pub use machine::{
    Duty, Event, Execution, Facts, Phase, Proposal, Recorded, Step, TRANSITIONS, next, step,
};
pub use record::Record;
pub use report::{Answer, Report};
pub use snapshot::Snapshot;
pub use words::{Annotation, Command, Failure, Hindrance, Reason, Warning};

use engine::View;
use report::Basis;
use snapshot::Kafka;

/// What to record, to do and to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What happened, if anything.
    pub event: Option<Event>,
    /// What to record before anything is done; `None` if there is nothing to remember.
    pub record: Option<Record>,
    /// Whether to take the annotation away, if the resource is still the one that was read.
    pub consume: bool,
    /// What to do after that.
    pub act: Option<Act>,
    /// What users see; `None` leaves it as it is.
    pub report: Option<Report>,
    /// When to look again.
    pub look_again_ms: u64,
    /// What the report rests on, for the answer to the act.
    basis: Option<Basis>,
}

impl Decision {
    /// Takes the answer to the act into the report. `record` is as it is after the act.
    pub fn hear(&mut self, record: &Record, answer: &Answer) {
        if let Some(basis) = &self.basis {
            self.report = basis.report(record, answer);
            self.look_again_ms = basis.look_again_ms(record, answer);
        }
    }
}

/// The facts that a decision lacks. After at most two rounds it lacks none that could be read.
#[must_use]
pub fn needs(snapshot: &Snapshot, record: Option<&Record>) -> Needs {
    if is_idle(snapshot, record) {
        return Needs::default();
    }
    let cluster = cluster(snapshot, record);
    if snapshot.kafka.is_unread() && cluster.is_some() {
        return Needs { kafka: cluster.map(str::to_owned), ..Needs::default() };
    }
    let kafka = kafka(snapshot, record).flatten();
    View { snapshot, record: &begin(snapshot, record), kafka }.needs()
}

/// Decides about one request. `record` is what is stored, if anything is.
#[must_use]
pub fn decide(snapshot: &Snapshot, record: Option<&Record>) -> Decision {
    if is_idle(snapshot, record) {
        return Decision {
            event: None,
            record: None,
            consume: false,
            act: None,
            report: None,
            look_again_ms: snapshot.interval_ms,
            basis: None,
        };
    }
    let kafka = kafka(snapshot, record);
    let mut record = begin(snapshot, record);
    let heard = View { snapshot, record: &record, kafka: kafka.flatten() }.heard();
    let facts = facts(snapshot, hindrance(snapshot, &record, kafka), &heard);
    let step = step(&record.request, &facts);
    record.request = step.recorded;
    if heard.forgotten {
        // The plan is asked for anew; that moves were asked for is not forgotten with it.
        record.session = record.session.filter(|session| session.asked);
        if let Some(session) = &mut record.session {
            session.proposal = None;
        }
    }
    let view = View { snapshot, record: &record, kafka: kafka.flatten() };
    let act = view.act(step.duty).filter(|_| !step.consume);
    let basis = Basis {
        resource: snapshot.resource.clone(),
        interval_ms: snapshot.interval_ms,
        moved_on: step.event.is_some(),
        duty: step.duty,
        ignored: step.ignored,
        warnings: step.warnings,
        others_running: heard.others_running,
        runs: view.running().is_some(),
        session: view.session_id(act),
        shows_unknown: view.shows_unknown(act),
    };
    let mut decision = Decision {
        event: step.event,
        record: Some(record.clone()),
        consume: step.consume,
        act,
        report: None,
        look_again_ms: report::after_consuming_ms(),
        // A command is acted on, and reported, when its annotation is gone (4).
        basis: (!step.consume).then_some(basis),
    };
    decision.hear(&record, &Answer::default());
    decision
}

/// Whether there is nothing to do: a template, or a request that is deleted before anything was begun.
fn is_idle(snapshot: &Snapshot, record: Option<&Record>) -> bool {
    let resource = &snapshot.resource;
    record.is_none() && (resource.deleting || resource.annotations.is_template())
}

/// The cluster of the label. Without one, moves on the cluster that the record names still have to be stopped.
fn cluster<'a>(snapshot: &'a Snapshot, record: Option<&'a Record>) -> Option<&'a str> {
    let remembered = record.and_then(|record| record.cluster.as_deref());
    snapshot.resource.cluster.as_deref().or(remembered)
}

/// The `Kafka`; `None` is unknown.
fn kafka<'a>(snapshot: &'a Snapshot, record: Option<&Record>) -> Option<Option<&'a Kafka>> {
    if cluster(snapshot, record).is_none() {
        return Some(None);
    }
    snapshot.kafka.known().map(Option::as_ref)
}

/// What is in the way. A request that runs and has lost its label stops on the cluster of its record; without that
/// there is nobody to ask.
fn hindrance(
    snapshot: &Snapshot,
    record: &Record,
    kafka: Option<Option<&Kafka>>,
) -> Option<Option<Hindrance>> {
    let is_gone = kafka.is_some_and(|kafka| kafka.is_none_or(|kafka| kafka.deleting));
    if is_gone && record.request.may_run() {
        return Some(Some(Hindrance::NoKafka));
    }
    spec::hindrance(snapshot, kafka)
}

fn begin(snapshot: &Snapshot, record: Option<&Record>) -> Record {
    let moves = snapshot.moves.known().and_then(Option::as_ref);
    record::begin(&snapshot.resource, moves, record)
}

fn facts(
    snapshot: &Snapshot,
    hindrance: Option<Option<Hindrance>>,
    heard: &engine::Heard,
) -> Facts {
    let resource = &snapshot.resource;
    Facts {
        annotation: Annotation::read(resource.annotations.rebalance.as_deref()),
        auto_approval: resource.annotations.is_auto_approval(),
        template: resource.annotations.is_template(),
        paused: resource.annotations.is_paused(),
        deleting: resource.deleting,
        generation: resource.generation,
        hindrance,
        proposal: heard.proposal.clone(),
        execution: heard.execution.clone(),
        others_running: heard.others_running,
        now_ms: snapshot.now_ms,
    }
}

#[cfg(test)]
mod tests;
