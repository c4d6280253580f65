//! How far one `KafkaRebalance` is: its phases, its events, and what is asked of the engine in each phase.
//!
//! The numbers of rules are those of the [module](super). What it must not do: read a resource or know which engine
//! there is.

use serde::{Deserialize, Serialize};

use super::words::{Annotation, Command, Failure, Hindrance, Warning};

/// After a failure that may pass, the next attempt comes after this time, doubled with each failure.
/// An engine that restarts needs about as long.
const RETRY_MS: u64 = 30_000;
/// And after this time at the latest: half an hour, so that nobody has to help.
const RETRY_MS_MAX: u64 = 30 * 60_000;

/// How far a request is: the type of its one condition that is a state.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub enum Phase {
    /// Nothing was done yet.
    #[default]
    New,
    /// A plan is asked for.
    PendingProposal,
    /// There is a plan; somebody has to approve it.
    ProposalReady,
    /// The plan is carried out.
    Rebalancing,
    /// It was stopped, and nothing runs.
    Stopped,
    /// It failed, or cannot be begun.
    NotReady,
    /// It is done.
    Ready,
    /// Somebody wants us to keep off.
    ReconciliationPaused,
}

use Phase::{
    New, NotReady, PendingProposal, ProposalReady, Ready, Rebalancing, ReconciliationPaused,
    Stopped,
};

impl Phase {
    /// All of them.
    pub const ALL: [Self; 8] = [
        New,
        PendingProposal,
        ProposalReady,
        Rebalancing,
        Stopped,
        NotReady,
        Ready,
        ReconciliationPaused,
    ];

    /// The type of the condition.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            New => "New",
            PendingProposal => "PendingProposal",
            ProposalReady => "ProposalReady",
            Rebalancing => "Rebalancing",
            Stopped => "Stopped",
            NotReady => "NotReady",
            Ready => "Ready",
            ReconciliationPaused => "ReconciliationPaused",
        }
    }

    /// The phase of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }

    /// What may be asked for in it.
    #[must_use]
    pub const fn commands(self) -> &'static [Command] {
        match self {
            New | ReconciliationPaused => &[],
            PendingProposal | Rebalancing => &[Command::Stop, Command::Refresh],
            ProposalReady => &[Command::Approve, Command::Refresh],
            Stopped | NotReady | Ready => &[Command::Refresh],
        }
    }
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// It is looked at for the first time.
    Begun,
    /// Something is in the way that is not the engine's.
    Hindered,
    /// What was in the way is gone, or it is time to try again.
    Recovered,
    /// The engine has a plan.
    Proposed,
    /// The plan is approved, and nothing else runs.
    Approved,
    /// A new plan is wanted, and nothing of this request runs.
    Refreshed,
    /// A plan that was not there yet is not wanted any more.
    Cancelled,
    /// The engine has forgotten the plan or the moves.
    Lost,
    /// All moves are done.
    Finished,
    /// The moves were stopped.
    Halted,
    /// The engine could not do it.
    Failed,
    /// Somebody wants us to keep off.
    Paused,
    /// Not any more; it begins anew.
    Resumed,
    /// Not any more; it was running.
    ResumedRun,
    /// Not any more; it was done.
    ResumedReady,
    /// Not any more; it was stopped.
    ResumedStopped,
}

use Event::{
    Approved, Begun, Cancelled, Failed, Finished, Halted, Hindered, Lost, Paused, Proposed,
    Recovered, Refreshed, Resumed, ResumedReady, ResumedRun, ResumedStopped,
};

/// The whole machine. A pair that is not listed is a bug in [`read`], not a no-op.
#[rustfmt::skip]
pub const TRANSITIONS: &[(Phase, Event, Phase)] = &[
    (New,                  Begun,          PendingProposal),
    (New,                  Hindered,       NotReady),
    (New,                  Paused,         ReconciliationPaused),
    (PendingProposal,      Proposed,       ProposalReady),
    (PendingProposal,      Refreshed,      PendingProposal),      // another attempt
    (PendingProposal,      Cancelled,      Stopped),
    (PendingProposal,      Failed,         NotReady),
    (PendingProposal,      Hindered,       NotReady),
    (PendingProposal,      Paused,         ReconciliationPaused),
    (ProposalReady,        Approved,       Rebalancing),
    (ProposalReady,        Refreshed,      PendingProposal),
    (ProposalReady,        Lost,           PendingProposal),      // nobody could carry it out
    (ProposalReady,        Hindered,       NotReady),
    (ProposalReady,        Paused,         ReconciliationPaused),
    (Rebalancing,          Finished,       Ready),
    (Rebalancing,          Halted,         Stopped),
    (Rebalancing,          Refreshed,      PendingProposal),      // after what ran has stopped
    (Rebalancing,          Lost,           PendingProposal),      // a manual one is to be approved again
    (Rebalancing,          Failed,         NotReady),
    (Rebalancing,          Hindered,       NotReady),
    (Rebalancing,          Paused,         ReconciliationPaused),
    (Stopped,              Refreshed,      PendingProposal),
    (Stopped,              Paused,         ReconciliationPaused),
    (NotReady,             Refreshed,      PendingProposal),
    (NotReady,             Recovered,      PendingProposal),
    (NotReady,             Paused,         ReconciliationPaused),
    (Ready,                Refreshed,      PendingProposal),
    (Ready,                Paused,         ReconciliationPaused),
    (ReconciliationPaused, Resumed,        New),
    (ReconciliationPaused, ResumedRun,     Rebalancing),
    (ReconciliationPaused, ResumedReady,   Ready),
    (ReconciliationPaused, ResumedStopped, Stopped),
];

/// The phase that an event leads to; `None` for a pair that is not in the table.
#[must_use]
pub fn next(phase: Phase, event: Event) -> Option<Phase> {
    TRANSITIONS.iter().find(|(from, on, _)| (*from, *on) == (phase, event)).map(|(.., to)| *to)
}

/// What the shell keeps asking of the engine until the phase is left. Each is safe to repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Duty {
    /// Nothing.
    Rest,
    /// A plan for this attempt, if it has none.
    Propose,
    /// To carry out the plan of this attempt, if it does not already.
    Execute,
    /// To begin nothing new of this request; what is in flight may end.
    Hold,
    /// To take back what it moves for this request, and to begin nothing.
    Stop,
}

/// What the engine says of the plan of this attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Proposal {
    /// It does not know of it.
    Unasked,
    /// It thinks.
    Computing,
    /// It has not seen enough of the cluster yet, and says what it lacks.
    TooLittleKnown(String),
    /// There is one.
    Ready,
    /// It cannot make one.
    Failed(Failure),
}

/// What the engine says of the moves of this attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Execution {
    /// They have not been begun.
    Unstarted,
    /// They go on; also while they are being taken back.
    Running,
    /// They are done.
    Finished,
    /// They were stopped, and nothing is in flight.
    Stopped,
    /// They failed, and nothing is in flight.
    Failed(Failure),
    /// It has forgotten them, and nothing is in flight.
    Lost,
}

/// What the decision rests on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The annotation with a command.
    pub annotation: Annotation,
    /// Whether a plan is approved without asking.
    pub auto_approval: bool,
    /// Whether it is a template, which others read and which is no request itself.
    pub template: bool,
    /// Whether somebody wants us to keep off.
    pub paused: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The generation of its spec.
    pub generation: i64,
    /// What is in the way; `Some(None)` is nothing.
    pub hindrance: Option<Option<Hindrance>>,
    /// The plan.
    pub proposal: Option<Proposal>,
    /// The moves.
    pub execution: Option<Execution>,
    /// Whether other moves run on the cluster than those of this attempt.
    pub others_running: Option<bool>,
    /// The time.
    pub now_ms: u64,
}

/// What is kept from pass to pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Recorded {
    /// How far it is.
    pub phase: Phase,
    /// How many plans were asked for.
    pub attempt: u64,
    /// The generation of the spec that the attempt is for.
    pub generation: i64,
    /// What was asked for and has not been done yet.
    #[serde(rename = "wish")]
    pub command: Option<Command>,
    /// Why it is not ready.
    pub failure: Option<Failure>,
    /// Failures in a row that may pass.
    pub failures: u32,
    /// Where it was when it was paused.
    pub paused_in: Option<Phase>,
    /// Since when it is in its phase.
    pub since_ms: u64,
}

impl Recorded {
    /// Whether moves of this request may be under way, so that it must not be taken away.
    #[must_use]
    pub fn may_run(&self) -> bool {
        self.phase == Rebalancing || self.paused_in == Some(Rebalancing)
    }

    /// Whether a request that is not ready will be tried again without anybody doing anything to it.
    #[must_use]
    pub fn recovers(&self) -> bool {
        let passing = match &self.failure {
            Some(Failure::Hindered(Hindrance::InvalidSpec(_)) | Failure::Final(_)) | None => false,
            Some(Failure::Hindered(_) | Failure::Passing(_)) => true,
        };
        self.phase == NotReady && passing
    }
}

/// One step of a request: what happened, and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What happened, if anything.
    pub event: Option<Event>,
    /// What to record before anything is done.
    pub recorded: Recorded,
    /// What to ask of the engine.
    pub duty: Duty,
    /// Whether to take the annotation away, if it still has the value that was read.
    pub consume: bool,
    /// Whether it is a template, which has no status.
    pub ignored: bool,
    /// What to tell the user.
    pub warnings: Vec<Warning>,
}

/// Takes one step. At most one transition, so that each phase is visible.
#[must_use]
pub fn step(recorded: &Recorded, facts: &Facts) -> Step {
    let mut new = recorded.clone();
    let consume = take_command(&mut new, facts);
    // A command is acted on when its annotation is gone (4); until then nothing else happens either.
    let event = if consume { None } else { read(&new, facts) };
    if let Some(event) = event {
        enter(&mut new, event, facts);
    } else if let (NotReady, Some(Some(hindrance))) = (new.phase, &facts.hindrance)
        && matches!(new.failure, Some(Failure::Hindered(_)))
    {
        new.failure = Some(Failure::Hindered(hindrance.clone()));
    }
    let ignored = facts.template && new.phase != Rebalancing;
    let duty = duty(&new, facts);
    let warnings = warnings(&new, facts, consume);
    Step { event, recorded: new, duty, consume, ignored, warnings }
}

/// What is to be asked of the engine. One that goes, or that is wanted in another form, runs no more.
#[must_use]
pub fn duty(recorded: &Recorded, facts: &Facts) -> Duty {
    match recorded.phase {
        New | ProposalReady | Ready => Duty::Rest,
        PendingProposal if is_going(facts) || facts.hindrance != Some(None) => Duty::Rest,
        PendingProposal => Duty::Propose,
        Rebalancing if must_halt(recorded, facts) => Duty::Stop,
        Rebalancing => Duty::Execute,
        // Also what was given up for a hindrance must not go on behind our back.
        Stopped | NotReady => Duty::Stop,
        ReconciliationPaused => Duty::Hold,
    }
}

/// Reads the facts in the light of what is recorded. First rule that holds wins.
#[must_use]
pub fn read(recorded: &Recorded, facts: &Facts) -> Option<Event> {
    let phase = recorded.phase;
    if is_going(facts) {
        return match (phase, recorded.paused_in) {
            (Rebalancing, _) => read_running(recorded, facts),
            // What was paused while it ran has to be stopped before it may go.
            (ReconciliationPaused, Some(Rebalancing)) => Some(ResumedRun),
            _ => None,
        };
    }
    if facts.paused {
        return (phase != ReconciliationPaused).then_some(Paused);
    }
    match phase {
        New => match facts.hindrance.as_ref()? {
            Some(_) => Some(Hindered),
            None => Some(Begun),
        },
        PendingProposal => read_pending(recorded, facts),
        ProposalReady => read_proposed(recorded, facts),
        Rebalancing => read_running(recorded, facts),
        Stopped | Ready => wants_refresh(recorded, facts).then_some(Refreshed),
        NotReady => read_failed(recorded, facts),
        ReconciliationPaused => Some(match recorded.paused_in {
            Some(Rebalancing) => ResumedRun,
            Some(Ready) => ResumedReady,
            Some(Stopped) => ResumedStopped,
            Some(New | PendingProposal | ProposalReady | NotReady | ReconciliationPaused)
            | None => Resumed,
        }),
    }
}

fn read_pending(recorded: &Recorded, facts: &Facts) -> Option<Event> {
    if recorded.command == Some(Command::Stop) {
        return Some(Cancelled);
    }
    if wants_refresh(recorded, facts) {
        return Some(Refreshed);
    }
    if facts.hindrance.as_ref()?.is_some() {
        return Some(Hindered);
    }
    match facts.proposal.as_ref()? {
        Proposal::Unasked | Proposal::Computing | Proposal::TooLittleKnown(_) => None,
        Proposal::Ready => Some(Proposed),
        Proposal::Failed(_) => Some(Failed),
    }
}

fn read_proposed(recorded: &Recorded, facts: &Facts) -> Option<Event> {
    if wants_refresh(recorded, facts) {
        return Some(Refreshed);
    }
    if facts.hindrance.as_ref()?.is_some() {
        return Some(Hindered);
    }
    match facts.proposal.as_ref()? {
        Proposal::Ready => {}
        Proposal::Unasked
        | Proposal::Computing
        | Proposal::TooLittleKnown(_)
        | Proposal::Failed(_) => return Some(Lost),
    }
    let approved = is_approved(recorded, facts);
    (approved && facts.others_running == Some(false)).then_some(Approved)
}

fn read_running(recorded: &Recorded, facts: &Facts) -> Option<Event> {
    if facts.hindrance == Some(Some(Hindrance::NoKafka)) {
        // There is no engine that could be asked.
        return Some(Hindered);
    }
    let execution = facts.execution.as_ref()?;
    if *execution == Execution::Running {
        return None;
    }
    if let Some(Some(Hindrance::NoCruiseControl | Hindrance::NoClusterLabel)) = facts.hindrance {
        return Some(Hindered);
    }
    if wants_refresh(recorded, facts) && !is_going(facts) {
        return Some(Refreshed);
    }
    let halting = must_halt(recorded, facts);
    match execution {
        Execution::Unstarted if !halting => None,
        Execution::Lost if !halting => Some(Lost),
        Execution::Unstarted | Execution::Lost | Execution::Stopped => Some(Halted),
        Execution::Finished => Some(Finished),
        Execution::Failed(_) => Some(Failed),
        Execution::Running => None,
    }
}

fn read_failed(recorded: &Recorded, facts: &Facts) -> Option<Event> {
    // Else it would swing between not ready and pending while something is in the way.
    if facts.hindrance.as_ref()?.is_some() {
        return None;
    }
    if wants_refresh(recorded, facts) {
        return Some(Refreshed);
    }
    let recovered = match &recorded.failure {
        Some(Failure::Hindered(_)) => true,
        Some(Failure::Passing(_)) => facts.now_ms >= retry_at_ms(recorded),
        Some(Failure::Final(_)) | None => false,
    };
    recovered.then_some(Recovered)
}

fn retry_at_ms(recorded: &Recorded) -> u64 {
    let doublings = recorded.failures.saturating_sub(1).min(16);
    recorded.since_ms.saturating_add((RETRY_MS << doublings).min(RETRY_MS_MAX))
}

fn is_going(facts: &Facts) -> bool {
    facts.deleting || facts.template
}

fn is_approved(recorded: &Recorded, facts: &Facts) -> bool {
    facts.auto_approval || recorded.command == Some(Command::Approve)
}

fn wants_refresh(recorded: &Recorded, facts: &Facts) -> bool {
    recorded.command == Some(Command::Refresh) || facts.generation != recorded.generation
}

fn must_halt(recorded: &Recorded, facts: &Facts) -> bool {
    // Nobody can be asked to stop at an address that must not be contacted.
    let hindered = matches!(
        facts.hindrance,
        Some(Some(Hindrance::NoClusterLabel | Hindrance::NoKafka | Hindrance::NoCruiseControl))
    );
    let unwanted = is_going(facts) || recorded.command == Some(Command::Stop);
    unwanted || hindered || wants_refresh(recorded, facts)
}

/// Records what the annotation asks for. Whether the annotation is to be taken away.
fn take_command(recorded: &mut Recorded, facts: &Facts) -> bool {
    let Annotation::Command(command) = facts.annotation else { return false };
    let fits = recorded.phase.commands().contains(&command) && !is_going(facts) && !facts.paused;
    if fits {
        recorded.command = Some(command);
    }
    fits
}

/// Goes to the next phase, and records what that phase needs to know.
fn enter(recorded: &mut Recorded, event: Event, facts: &Facts) {
    let from = recorded.phase;
    let Some(to) = next(from, event) else {
        debug_assert!(false, "{from:?} does not know {event:?}");
        return;
    };
    recorded.phase = to;
    recorded.since_ms = facts.now_ms;
    recorded.paused_in = (to == ReconciliationPaused).then_some(from);
    // Who paused has not taken back what was asked before.
    if !matches!(event, Paused | ResumedRun) {
        recorded.command = None;
    }
    match to {
        PendingProposal => {
            recorded.attempt += 1;
            recorded.generation = facts.generation;
            recorded.failure = None;
        }
        NotReady => {
            recorded.failure = Some(failure(from, event, facts));
            let passing = matches!(recorded.failure, Some(Failure::Passing(_)));
            recorded.failures = if passing { recorded.failures.saturating_add(1) } else { 0 };
            // So that the same spec is not taken for a changed one.
            if event == Hindered {
                recorded.generation = facts.generation;
            }
        }
        Rebalancing => recorded.failures = 0,
        New | ProposalReady | Stopped | Ready | ReconciliationPaused => {}
    }
}

fn failure(from: Phase, event: Event, facts: &Facts) -> Failure {
    if let (Hindered, Some(Some(hindrance))) = (event, &facts.hindrance) {
        return Failure::Hindered(hindrance.clone());
    }
    let said = match (from, &facts.proposal, &facts.execution) {
        (PendingProposal, Some(Proposal::Failed(failure)), _)
        | (Rebalancing, _, Some(Execution::Failed(failure))) => Some(failure.clone()),
        _ => None,
    };
    said.unwrap_or_else(|| Failure::Final("the engine gave no reason".to_owned()))
}

fn warnings(recorded: &Recorded, facts: &Facts, consume: bool) -> Vec<Warning> {
    let phase = recorded.phase;
    let mut all = Vec::new();
    let value = match &facts.annotation {
        Annotation::Command(command) if !consume => Some(command.name().to_owned()),
        Annotation::Unknown(value) => Some(value.clone()),
        Annotation::Absent | Annotation::Command(_) | Annotation::Template => None,
    };
    // Of a pass that leaves a phase the next one knows better.
    if let Some(value) = value.filter(|_| !facts.template && !fits_now(recorded, facts)) {
        all.push(Warning::InvalidAnnotation { value, phase });
    }
    match phase {
        ProposalReady if is_approved(recorded, facts) && facts.others_running == Some(true) => {
            all.push(Warning::AwaitsOther);
        }
        Rebalancing if facts.hindrance == Some(Some(Hindrance::KafkaNotReady)) => {
            all.push(Warning::KafkaNotReady);
        }
        Rebalancing => {
            if let Some(Some(Hindrance::CruiseControlUrl(refusal))) = &facts.hindrance {
                all.push(Warning::CruiseControlUrl(refusal.clone()));
            }
        }
        PendingProposal => {
            if let Some(Proposal::TooLittleKnown(what)) = &facts.proposal {
                all.push(Warning::TooLittleKnown(what.clone()));
            }
        }
        New | ProposalReady | Stopped | NotReady | Ready | ReconciliationPaused => {}
    }
    all
}

/// Whether the annotation fits the phase that was just entered.
fn fits_now(recorded: &Recorded, facts: &Facts) -> bool {
    let Annotation::Command(command) = facts.annotation else { return false };
    recorded.phase.commands().contains(&command)
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
