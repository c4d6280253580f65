//! The world of the model: a cluster, its two requests, an engine, and what they do to each other.
//!
//! Everything that decides is the real code; everything here only obeys, in any order and at any time.

use std::collections::BTreeSet;

use control::rebalance::auto::{self, Act, Brokers, Mode, Partner, PerMode, Setting};
use control::rebalance::request::snapshot::{Kafka, Readiness, Resource};
use control::rebalance::request::spec::{self, Spec};
use control::rebalance::request::{
    self, Annotation, Command, Duty, Execution, Failure, Hindrance, Proposal,
};
use model::NodeId;

/// A request in the API.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Kr {
    pub(crate) uid: u8,
    pub(crate) round: u64,
    pub(crate) brokers: Brokers,
    pub(crate) generation: i64,
    pub(crate) annotation: Option<Command>,
    pub(crate) paused: bool,
    pub(crate) deleting: bool,
    pub(crate) recorded: Option<request::Recorded>,
    /// What its pass has recorded and not done yet: to ask the engine, for an attempt; to consume.
    pub(crate) pending: Option<(Duty, u64, Option<Command>)>,
    /// The plan: its attempt, its brokers, whether it is ready, or failed.
    pub(crate) plan: Option<(u64, Brokers, Option<bool>)>,
    /// How the moves of an attempt ended.
    pub(crate) outcome: Option<(u64, Execution)>,
}

/// Moves that run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Moves {
    pub(crate) uid: u8,
    pub(crate) mode: Mode,
    pub(crate) attempt: u64,
    pub(crate) brokers: Brokers,
    pub(crate) stopping: bool,
}

/// All there is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) brokers: Brokers,
    pub(crate) desired: Brokers,
    pub(crate) data: Brokers,
    /// Brokers whose machine is lost. They do not start, and keep the cluster from being ready.
    pub(crate) lost: Brokers,
    /// Those that the last pass over the cluster has recorded.
    pub(crate) stuck: Brokers,
    /// What the last pass that ended has written into the status of the cluster.
    pub(crate) readiness: Readiness,
    /// Whether the cluster is paused: its passes decide nothing.
    pub(crate) paused: bool,
    pub(crate) template: bool,
    pub(crate) enabled: bool,
    /// Whether brokers that leave need not be empty.
    pub(crate) waived: bool,
    /// Brokers that the last pass over the cluster lets go with their replicas.
    pub(crate) let_go: Brokers,
    pub(crate) record: Option<auto::Recorded>,
    /// What the cluster's pass has recorded and not done yet.
    pub(crate) acts: Vec<Act>,
    pub(crate) drainer: Option<Kr>,
    pub(crate) filler: Option<Kr>,
    pub(crate) engine: Vec<Moves>,
    pub(crate) clock_ms: u64,
    pub(crate) uid: u8,
    /// How often the user may still do something, and how often something may still go wrong.
    pub(crate) edits: u8,
    pub(crate) faults: u8,
    /// Brokers that came and have neither been filled nor spoken of.
    pub(crate) owed: Brokers,
    /// What must never happen and did.
    pub(crate) wrong: Option<&'static str>,
}

/// The broker of that number.
pub(crate) fn broker(id: i32) -> NodeId {
    NodeId::new(id).expect("not negative")
}

impl World {
    pub(crate) fn new(edits: u8, faults: u8) -> Self {
        let two: Brokers = [broker(0), broker(1)].into();
        let known = Some(auto::Recorded { known: two.clone(), ..Default::default() });
        Self {
            brokers: two.clone(),
            desired: two.clone(),
            data: two,
            lost: BTreeSet::new(),
            stuck: BTreeSet::new(),
            readiness: Readiness::Ready,
            paused: false,
            template: true,
            enabled: true,
            waived: false,
            let_go: BTreeSet::new(),
            record: known,
            acts: Vec::new(),
            drainer: None,
            filler: None,
            engine: Vec::new(),
            clock_ms: 0,
            uid: 0,
            edits,
            faults,
            owed: BTreeSet::new(),
            wrong: None,
        }
    }

    /// The machine of broker 1 is lost, and the user has scaled it away.
    pub(crate) fn losing(edits: u8, faults: u8) -> Self {
        let (lost, desired) = ([broker(1)].into(), [broker(0)].into());
        Self { lost, desired, ..Self::new(edits, faults) }
    }

    pub(crate) fn kr(&self, mode: Mode) -> Option<&Kr> {
        match mode {
            Mode::RemoveBrokers => self.drainer.as_ref(),
            Mode::AddBrokers => self.filler.as_ref(),
        }
    }

    pub(crate) fn slot(&mut self, mode: Mode) -> &mut Option<Kr> {
        match mode {
            Mode::RemoveBrokers => &mut self.drainer,
            Mode::AddBrokers => &mut self.filler,
        }
    }

    pub(crate) fn leaving(&self) -> Brokers {
        self.brokers.difference(&self.desired).copied().collect()
    }

    /// Brokers of moves that run, and of plans that are approved.
    fn moving(&self) -> Brokers {
        let approved = |mode| {
            let kr = self
                .kr(mode)
                .filter(|kr| kr.recorded.as_ref().is_some_and(request::Recorded::may_run));
            kr.and_then(|kr| kr.plan.clone()).map(|(_, brokers, _)| brokers).unwrap_or_default()
        };
        let plans = [approved(Mode::RemoveBrokers), approved(Mode::AddBrokers)];
        self.engine.iter().map(|moves| moves.brokers.clone()).chain(plans).flatten().collect()
    }

    /// The phase of the cluster.
    pub(crate) fn phase(&self) -> auto::Phase {
        self.record.as_ref().map_or(auto::Phase::Idle, |record| record.phase)
    }

    /// What the cluster's pass sees; a blind one could not read the requests and the topics.
    pub(crate) fn facts(&self, blind: bool) -> auto::Facts {
        let setting =
            if self.enabled { Setting::Template(Some(self.template)) } else { Setting::Off };
        let partner = |mode| {
            let Some(kr) = self.kr(mode) else { return Partner::Missing };
            let commands =
                |command| kr.recorded.as_ref().is_some_and(|r| r.command == Some(command));
            let asked = |command| commands(command) || kr.annotation == Some(command);
            let newer = kr.recorded.as_ref().is_some_and(|r| r.generation != kr.generation);
            Partner::Present(auto::Request {
                round: Some(kr.round),
                brokers: kr.brokers.clone(),
                deleting: kr.deleting,
                stopping: asked(Command::Stop),
                outdated: asked(Command::Refresh) || newer,
                recorded: kr.recorded.clone(),
            })
        };
        auto::Facts {
            brokers: Some(self.brokers.clone()),
            leaving: Some(self.leaving()),
            holding: (!blind).then(|| self.data.clone()),
            running: Some(self.brokers.difference(&self.lost).copied().collect()),
            moving: Some(self.moving()),
            waived: self.waived,
            settings: PerMode { remove: setting, add: setting },
            partners: PerMode {
                remove: (!blind).then(|| partner(Mode::RemoveBrokers)),
                add: (!blind).then(|| partner(Mode::AddBrokers)),
            },
            now_ms: self.clock_ms,
        }
    }

    /// The cluster's pass up to its record.
    pub(crate) fn pass(&mut self, blind: bool) {
        if self.paused {
            self.readiness = Readiness::NotReady;
            return;
        }
        let facts = self.facts(blind);
        let decision = auto::decide(self.record.as_ref(), &facts);
        let blocked = self.leaving().intersection(&self.data).next().is_some();
        for act in &decision.acts {
            let fills = matches!(act, Act::Create { mode: Mode::AddBrokers, .. });
            let spoken_of = decision.recorded.as_ref().is_some_and(|r| r.setbacks.remove.is_some());
            if fills && blocked && self.template && !self.waived && !spoken_of {
                self.wrong = Some("a fill was begun while a drain was wanted");
            }
            if self.waived && matches!(act, Act::Create { mode: Mode::RemoveBrokers, .. }) {
                self.wrong = Some("a drain was begun that nobody wants");
            }
        }
        let told = decision.recorded.as_ref().and_then(|record| record.setbacks.add.as_ref());
        let told = told.map(|setback| setback.brokers.clone()).unwrap_or_default();
        let enabled = self.enabled;
        self.owed.retain(|broker| enabled && !told.contains(broker));
        self.record = decision.recorded;
        self.acts = decision.acts;
        self.stuck.clone_from(&self.lost);
        let goes = |one: &NodeId| decision.held.as_ref().is_some_and(|held| !held.contains(one));
        let going = self.leaving().into_iter().filter(|one| goes(one) && self.data.contains(one));
        self.let_go = if self.waived { going.collect() } else { BTreeSet::new() };
        self.report();
    }

    /// The status is written when the pass has done everything. Its record is older.
    fn report(&mut self) {
        if self.acts.is_empty() {
            let is_stopped = !self.stuck.is_empty();
            self.readiness = if is_stopped { Readiness::RollStopped } else { Readiness::Ready };
        }
    }

    /// The next thing that the cluster's pass does.
    pub(crate) fn act(&mut self) {
        let act = self.acts.remove(0);
        self.carry_out(act);
        self.report();
    }

    fn carry_out(&mut self, act: Act) {
        match act {
            Act::Create { mode, brokers, round } => {
                if self.kr(mode).is_some() {
                    return;
                }
                if self.kr(mode.other()).is_some() {
                    self.wrong = Some("two requests were there at once");
                }
                let uid = self.uid;
                self.uid += 1;
                *self.slot(mode) = Some(Kr {
                    uid,
                    round,
                    brokers,
                    generation: 1,
                    annotation: None,
                    paused: false,
                    deleting: false,
                    recorded: None,
                    pending: None,
                    plan: None,
                    outcome: None,
                });
            }
            Act::Refresh { mode, brokers, round } => {
                if let Some(kr) = self.slot(mode).as_mut().filter(|kr| kr.round == round) {
                    kr.generation += i64::from(kr.brokers != brokers);
                    kr.brokers = brokers;
                    kr.annotation = Some(Command::Refresh);
                }
            }
            Act::Stop(mode) => {
                if let Some(kr) = self.slot(mode) {
                    kr.annotation = Some(Command::Stop);
                }
            }
            Act::Delete(mode) => {
                if let Some(kr) = self.slot(mode) {
                    kr.deleting = true;
                }
            }
            Act::Release(mode) => {
                let goes = self.slot(mode).take_if(|kr| kr.deleting);
                let runs = |kr: &Kr| self.engine.iter().any(|moves| moves.uid == kr.uid);
                if goes.as_ref().is_some_and(runs) {
                    self.wrong = Some("a request was let go while its moves ran");
                }
            }
        }
    }

    /// A request's pass up to its record.
    pub(crate) fn request_pass(&mut self, mode: Mode) {
        let Some(facts) = self.request_facts(mode) else { return };
        let Some(kr) = self.slot(mode) else { return };
        let before = kr.recorded.clone().unwrap_or_default();
        let decision = request::step(&before, &facts);
        let begins = |recorded: &request::Recorded| recorded.phase == request::Phase::Rebalancing;
        let is_begun = begins(&decision.recorded) && !begins(&before);
        let consumed = kr.annotation.filter(|_| decision.consume);
        kr.pending = Some((decision.duty, decision.recorded.attempt, consumed));
        kr.recorded = Some(decision.recorded);
        if is_begun && self.readiness == Readiness::NotReady {
            self.wrong = Some("moves were begun in a cluster that is paused");
        }
    }

    fn request_facts(&self, mode: Mode) -> Option<request::Facts> {
        let kr = self.kr(mode)?;
        let attempt = kr.recorded.as_ref().map_or(0, |recorded| recorded.attempt);
        let own = |moves: &&Moves| moves.uid == kr.uid && moves.attempt == attempt;
        let runs = self.engine.iter().any(|moves| own(&moves));
        let ended = kr.outcome.as_ref().filter(|(of, _)| *of == attempt);
        let failed = || Failure::Final("no".to_owned());
        Some(request::Facts {
            annotation: kr.annotation.map_or(Annotation::Absent, Annotation::Command),
            auto_approval: true,
            template: false,
            paused: kr.paused,
            deleting: kr.deleting,
            generation: kr.generation,
            hindrance: self.hindrance(mode),
            proposal: Some(match kr.plan.as_ref().filter(|(of, ..)| *of == attempt) {
                None => Proposal::Unasked,
                Some((.., None)) => Proposal::Computing,
                Some((.., Some(true))) => Proposal::Ready,
                Some((.., Some(false))) => Proposal::Failed(failed()),
            }),
            execution: Some(match ended {
                _ if runs => Execution::Running,
                Some((_, outcome)) => outcome.clone(),
                None => Execution::Unstarted,
            }),
            others_running: Some(self.engine.iter().any(|moves| !own(&moves))),
            now_ms: self.clock_ms,
        })
    }

    /// What is in the way of a request. The record of the cluster names the nodes that do not start, and its status says
    /// whether that is all.
    fn hindrance(&self, mode: Mode) -> Option<Option<Hindrance>> {
        let mode = match mode {
            Mode::RemoveBrokers => spec::Mode::RemoveBrokers,
            Mode::AddBrokers => spec::Mode::AddBrokers,
        };
        let kafka = Kafka {
            has_cruise_control: true,
            readiness: self.readiness,
            was_ready: true,
            stuck_nodes: self.stuck.clone(),
            leaving: self.leaving(),
            ..Kafka::default()
        };
        let resource = Resource {
            cluster: Some("c".to_owned()),
            spec: Spec { mode, has_brokers: true, ..Spec::default() },
            ..Resource::default()
        };
        let snapshot = request::Snapshot { resource, ..request::Snapshot::default() };
        spec::hindrance(&snapshot, Some(Some(&kafka)))
    }

    /// Who may be lost: one at a time, and another one stays. Who waits to be filled is waited for anyway.
    pub(crate) fn may_be_lost(&self) -> Brokers {
        if !self.lost.is_empty() {
            return Brokers::new();
        }
        let here = self.data.intersection(&self.brokers).copied();
        here.filter(|one| *one != broker(0) && !self.owed.contains(one)).collect()
    }

    pub(crate) fn lose(&mut self, broker: NodeId) {
        self.faults -= 1;
        self.lost.insert(broker);
    }

    /// What a request's pass does: it takes the annotation away and asks the engine.
    pub(crate) fn request_act(&mut self, mode: Mode) {
        let Some(kr) = self.slot(mode) else { return };
        let Some((duty, attempt, consumed)) = kr.pending.take() else { return };
        if consumed.is_some() && kr.annotation == consumed {
            kr.annotation = None;
        }
        let uid = kr.uid;
        match duty {
            Duty::Rest | Duty::Hold => {}
            Duty::Propose => {
                if kr.plan.as_ref().is_none_or(|(of, ..)| *of < attempt) {
                    kr.plan = Some((attempt, kr.brokers.clone(), None));
                }
            }
            Duty::Execute => {
                let plan = kr.plan.as_ref().filter(|(of, ..)| *of == attempt);
                let ended = kr.outcome.as_ref().is_some_and(|(of, _)| *of == attempt);
                let Some((_, brokers, _)) = plan.cloned().filter(|_| !ended) else { return };
                if !self.engine.iter().any(|moves| moves.uid == uid && moves.attempt == attempt) {
                    self.engine.push(Moves { uid, mode, attempt, brokers, stopping: false });
                }
            }
            Duty::Stop => {
                for moves in self.engine.iter_mut().filter(|moves| moves.uid == uid) {
                    moves.stopping = true;
                }
            }
        }
    }

    /// Ends moves that run, and tells the request how, if it is still there.
    pub(crate) fn end(&mut self, at: usize, outcome: Execution) {
        let moves = self.engine.remove(at);
        if outcome == Execution::Finished && moves.mode == Mode::AddBrokers {
            self.owed.retain(|broker| !moves.brokers.contains(broker));
        }
        if let Some(kr) = self.slot(moves.mode).as_mut().filter(|kr| kr.uid == moves.uid) {
            kr.outcome = Some((moves.attempt, outcome));
        }
    }

    /// What of the moves is left to do.
    pub(crate) fn left(&self, moves: &Moves) -> Brokers {
        match moves.mode {
            Mode::RemoveBrokers => moves.brokers.intersection(&self.data).copied().collect(),
            Mode::AddBrokers => {
                let here: Brokers = moves.brokers.intersection(&self.brokers).copied().collect();
                here.difference(&self.data).copied().collect()
            }
        }
    }

    /// A broker is stopped for good, as the guard of scale-downs allows it: it is to leave, it is
    /// empty unless the check is waived, and it is not held.
    pub(crate) fn may_go(&self, broker: NodeId) -> bool {
        let held = auto::decide(self.record.as_ref(), &self.facts(false)).held;
        let free = held.is_some_and(|held| !held.contains(&broker));
        let is_empty = !self.data.contains(&broker);
        // The decision that lets it go is recorded before it goes. One that goes with its replicas stays known.
        let is_known = self.record.as_ref().is_some_and(|record| record.known.contains(&broker));
        let may = if is_empty { !is_known } else { self.waived && self.let_go.contains(&broker) };
        self.leaving().contains(&broker) && may && free && !self.paused
    }

    pub(crate) fn go(&mut self, broker: NodeId) {
        if self.engine.iter().any(|moves| moves.brokers.contains(&broker)) {
            self.wrong = Some("a broker was stopped while replicas were moved to or from it");
        }
        // What is assigned to it stays so.
        self.brokers.remove(&broker);
        self.lost.remove(&broker);
        self.owed.remove(&broker);
    }

    /// Whether all is done that can be done without the user.
    pub(crate) fn is_settled(&self) -> bool {
        let at_rest = self.phase() == auto::Phase::Idle && self.acts.is_empty();
        let no_request = self.drainer.is_none() && self.filler.is_none() && self.engine.is_empty();
        // A drain that the user stopped, switched off or took the template of is not ours to do.
        let told = self.record.as_ref().is_some_and(|r| r.setbacks.remove.is_some());
        let scaled = self.brokers == self.desired || told || !self.template || !self.enabled;
        at_rest && no_request && scaled && self.owed.is_empty()
    }
}
