//! Auto-rebalancing with its requests, an engine and a user who does anything at any time, walked
//! through state by state.
//!
//! The decisions are those that ship. A pass is cut where a crash can cut it: after its record, and
//! between its acts. Two walks over the same model: stateright looks for a state in which something is
//! wrong; then a search from the end shows that from every state, without any help of the user, all
//! comes to rest with nothing left to do.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::disallowed_macros, reason = "how many states were walked is printed")]
#![allow(clippy::expect_used, reason = "likewise")]

mod world;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use control::rebalance::auto::{Mode, Phase, Why};
use control::rebalance::request::{Command, Execution, Phase as Said};
use model::NodeId;
use stateright::{Checker as _, Model, Property};
use world::{World, broker};

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Step {
    /// The cluster's pass, up to its record; blind if requests and topics could not be read.
    Pass {
        blind: bool,
    },
    /// Its next act.
    Act,
    /// A request's pass, up to its record.
    RequestPass(Mode),
    /// Its act.
    RequestAct(Mode),
    /// The operator dies: what was recorded and not done is not done.
    Crash,
    /// A broker comes, or goes.
    Join(NodeId),
    Leave(NodeId),
    /// The engine's plan is ready, or cannot be made.
    Plan(Mode),
    PlanFails(Mode),
    /// Moves of one broker are done; all are done; they fail; they are stopped, with what was in
    /// flight given back; the engine forgets them.
    Move(NodeId),
    Finish,
    Fail,
    StopMoves {
        gives_back: bool,
    },
    Forget,
    /// Moves that belong to no request any more are stopped.
    StopUnclaimed,
    /// The machine of a broker is lost, and the broker with it; it comes back if the broker stays.
    Lose(NodeId),
    Return(NodeId),
    /// Time passes until a failed drain is due again.
    Wait,
    /// The user: sets the brokers, lets a topic land on a broker, takes the template away or brings
    /// it, switches all off or on, waives the check of brokers that leave or not, pauses the cluster, and annotates,
    /// pauses, deletes or tears away a request.
    Scale(Vec<i32>),
    Topic(NodeId),
    Template,
    Switch,
    Waive,
    PauseCluster,
    UnpauseCluster,
    Annotate(Mode, Command),
    Pause(Mode),
    Unpause(Mode),
    Delete(Mode),
    TearAway(Mode),
}

/// The model: how much the user may do, and how much may go wrong.
#[derive(Debug, Clone, Copy)]
struct Auto {
    edits: u8,
    faults: u8,
    /// Whether a broker is lost and scaled away at the beginning, which takes an edit and a fault otherwise.
    losing: bool,
}

/// As much as is walked through in some seconds. Two edits with one fault (393 281 states) and three
/// edits (1 432 989) were walked through as well when no broker could be lost, without a finding.
const WALKS: [Auto; 3] = [
    Auto { edits: 2, faults: 0, losing: false },
    Auto { edits: 1, faults: 2, losing: false },
    Auto { edits: 1, faults: 0, losing: true },
];

const MODES: [Mode; 2] = [Mode::RemoveBrokers, Mode::AddBrokers];

impl Auto {
    /// What happens by itself.
    fn system(world: &World, steps: &mut Vec<Step>) {
        if world.acts.is_empty() {
            steps.extend([Step::Pass { blind: false }, Step::Pass { blind: true }]);
        } else {
            steps.push(Step::Act);
        }
        for mode in MODES {
            let Some(kr) = world.kr(mode) else { continue };
            let pass = if kr.pending.is_some() { Step::RequestAct } else { Step::RequestPass };
            steps.push(pass(mode));
            if kr.plan.as_ref().is_some_and(|(.., ready)| ready.is_none()) {
                steps.push(Step::Plan(mode));
            }
            if kr.paused {
                steps.push(Step::Unpause(mode));
            }
        }
        if world.paused {
            steps.push(Step::UnpauseCluster);
        } else {
            steps.extend(world.desired.difference(&world.brokers).map(|one| Step::Join(*one)));
        }
        let leaving = world.leaving().into_iter().filter(|broker| world.may_go(*broker));
        steps.extend(leaving.map(Step::Leave));
        // Somebody repairs what is to stay. What leaves is gone for good.
        steps.extend(world.lost.intersection(&world.desired).map(|broker| Step::Return(*broker)));
        if let Some(moves) = world.engine.first() {
            let left = world.left(moves);
            if moves.stopping {
                steps.push(Step::StopMoves { gives_back: false });
                steps.push(Step::StopMoves { gives_back: true });
            } else if left.is_empty() {
                steps.push(Step::Finish);
            } else {
                steps.extend(left.into_iter().map(Step::Move));
            }
            let claimed = |mode| world.kr(mode).is_some_and(|kr| kr.uid == moves.uid);
            if !moves.stopping && !MODES.into_iter().any(claimed) {
                steps.push(Step::StopUnclaimed);
            }
        }
        let waits = world.record.as_ref().and_then(|record| record.setbacks.remove.as_ref());
        if waits
            .is_some_and(|setback| setback.why != Why::Stopped && setback.at_ms == world.clock_ms)
        {
            steps.push(Step::Wait);
        }
    }

    fn faults(world: &World, steps: &mut Vec<Step>) {
        let pending = MODES.into_iter().any(|m| world.kr(m).is_some_and(|kr| kr.pending.is_some()));
        if pending || !world.acts.is_empty() {
            steps.push(Step::Crash);
        }
        if world.faults == 0 {
            return;
        }
        for mode in MODES {
            let plan = world.kr(mode).and_then(|kr| kr.plan.as_ref());
            if plan.is_some_and(|(.., ready)| ready.is_none()) {
                steps.push(Step::PlanFails(mode));
            }
        }
        if world.engine.first().is_some_and(|moves| !moves.stopping) {
            steps.extend([Step::Fail, Step::Forget]);
        }
        steps.extend(world.may_be_lost().into_iter().map(Step::Lose));
    }

    fn user(world: &World, steps: &mut Vec<Step>) {
        if world.edits == 0 {
            return;
        }
        for wanted in [vec![0], vec![0, 1], vec![0, 2], vec![0, 1, 2]] {
            if world.desired != wanted.iter().map(|id| broker(*id)).collect() {
                steps.push(Step::Scale(wanted));
            }
        }
        let leaving = world.leaving();
        steps.extend(leaving.difference(&world.data).map(|broker| Step::Topic(*broker)));
        steps.extend([Step::Template, Step::Switch, Step::Waive]);
        if !world.paused {
            steps.push(Step::PauseCluster);
        }
        for mode in MODES {
            let Some(kr) = world.kr(mode) else { continue };
            steps.extend([
                Step::Annotate(mode, Command::Stop),
                Step::Annotate(mode, Command::Refresh),
            ]);
            if !kr.paused {
                steps.push(Step::Pause(mode));
            }
            if !kr.deleting {
                steps.push(Step::Delete(mode));
            }
            // A pass that is under way is over before a next request is made.
            if kr.pending.is_none() {
                steps.push(Step::TearAway(mode));
            }
        }
    }

    fn happen(world: &mut World, step: &Step) {
        match step {
            Step::Pass { blind } => world.pass(*blind),
            Step::Act => world.act(),
            Step::RequestPass(mode) => world.request_pass(*mode),
            Step::RequestAct(mode) => world.request_act(*mode),
            Step::Crash => {
                world.acts.clear();
                MODES.into_iter().for_each(|mode| {
                    if let Some(kr) = world.slot(mode) {
                        kr.pending = None;
                    }
                });
            }
            Step::Join(broker) => {
                world.brokers.insert(*broker);
                // One that left with its replicas comes back to them.
                if world.enabled && !world.data.contains(broker) {
                    world.owed.insert(*broker);
                }
            }
            Step::Leave(broker) => world.go(*broker),
            Step::Plan(mode) | Step::PlanFails(mode) => {
                let works = matches!(step, Step::Plan(_));
                world.faults -= u8::from(!works);
                if let Some((.., ready)) =
                    world.slot(*mode).as_mut().and_then(|kr| kr.plan.as_mut())
                {
                    *ready = Some(works);
                }
            }
            Step::Move(broker) => match world.engine[0].mode {
                Mode::RemoveBrokers => {
                    world.data.remove(broker);
                }
                Mode::AddBrokers => {
                    world.data.insert(*broker);
                }
            },
            Step::Finish => world.end(0, Execution::Finished),
            Step::Fail | Step::Forget => {
                world.faults -= 1;
                let failure = control::rebalance::request::Failure::Final("no".to_owned());
                let forgets = *step == Step::Forget;
                world.end(0, if forgets { Execution::Lost } else { Execution::Failed(failure) });
            }
            Step::StopMoves { gives_back } => {
                let back = world.engine[0].brokers.clone();
                if *gives_back && world.engine[0].mode == Mode::RemoveBrokers {
                    world.data.extend(back);
                }
                world.end(0, Execution::Stopped);
            }
            Step::StopUnclaimed => world.engine[0].stopping = true,
            Step::Lose(broker) => world.lose(*broker),
            Step::Return(broker) => drop(world.lost.remove(broker)),
            // Longer than the longest wait.
            Step::Wait => world.clock_ms += 10_000_000,
            Step::Scale(_)
            | Step::Topic(_)
            | Step::Template
            | Step::Switch
            | Step::Waive
            | Step::PauseCluster
            | Step::UnpauseCluster
            | Step::Annotate(..)
            | Step::Pause(_)
            | Step::Unpause(_)
            | Step::Delete(_)
            | Step::TearAway(_) => Self::edit(world, step),
        }
    }

    fn edit(world: &mut World, step: &Step) {
        if !matches!(step, Step::Unpause(_) | Step::UnpauseCluster) {
            world.edits -= 1;
        }
        match step {
            Step::Scale(wanted) => {
                world.desired = wanted.iter().map(|id| broker(*id)).collect();
            }
            Step::Topic(broker) => {
                world.data.insert(*broker);
            }
            Step::Template => world.template = !world.template,
            Step::Waive => world.waived = !world.waived,
            Step::PauseCluster => world.paused = true,
            Step::UnpauseCluster => world.paused = false,
            Step::Switch => {
                world.enabled = !world.enabled;
                // Those that came while it was off, or go with it, are not ours to see to.
                world.owed.clear();
            }
            Step::Annotate(mode, command) => {
                if let Some(kr) = world.slot(*mode) {
                    kr.annotation = Some(*command);
                }
            }
            Step::Pause(mode) | Step::Unpause(mode) => {
                if let Some(kr) = world.slot(*mode) {
                    kr.paused = matches!(step, Step::Pause(_));
                }
            }
            Step::Delete(mode) => {
                if let Some(kr) = world.slot(*mode) {
                    kr.deleting = true;
                }
            }
            Step::TearAway(mode) => *world.slot(*mode) = None,
            other => unreachable!("{other:?} is not the user's"),
        }
    }
}

impl Model for Auto {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let begin = if self.losing { World::losing } else { World::new };
        vec![begin(self.edits, self.faults)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        Self::system(world, steps);
        Self::faults(world, steps);
        Self::user(world, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        Self::happen(&mut next, &step);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn filled_or_queued(world: &World) -> bool {
            let Some(record) = &world.record else { return true };
            let queued = |broker| record.add.contains(broker) || !record.known.contains(broker);
            world.owed.iter().all(queued)
        }
        let mut all = vec![
            Property::always("nothing is done that must not be", |_, world: &World| {
                world.wrong.is_none()
            }),
            Property::always("one rebalance at a time", |_, world: &World| {
                let running = |mode: &Mode| {
                    let recorded = world.kr(*mode).and_then(|kr| kr.recorded.as_ref());
                    recorded.is_some_and(|recorded| recorded.phase == Said::Rebalancing)
                };
                world.engine.len() <= 1 && MODES.iter().filter(|mode| running(mode)).count() <= 1
            }),
            Property::always("nothing that is queued is lost", |_, world| filled_or_queued(world)),
            Property::always("what is moved to or from is there", |_, world: &World| {
                world.engine.iter().all(|moves| moves.brokers.is_subset(&world.brokers))
            }),
        ];
        if self.faults > 0 || self.losing {
            all.push(Property::sometimes("a lost broker is drained", |_, world: &World| {
                let gone = |moves: &world::Moves| !moves.brokers.is_disjoint(&world.lost);
                let drains = |moves: &world::Moves| moves.mode == Mode::RemoveBrokers;
                world.engine.iter().any(|moves| drains(moves) && gone(moves))
            }));
        }
        // What it takes two edits to see.
        let seen = [
            Property::sometimes("a drain is followed by a fill", |_, world: &World| {
                let queued = world.record.as_ref().is_some_and(|r| !r.add.is_empty());
                world.phase() == Phase::RebalanceOnScaleDown && queued && !world.engine.is_empty()
            }),
            Property::sometimes("a fill is stopped for a drain", |_, world: &World| {
                let stops = world.engine.iter().any(|m| m.mode == Mode::AddBrokers && m.stopping);
                world.phase() == Phase::RebalanceOnScaleDown && stops
            }),
            Property::sometimes("a drain is cancelled", |_, world: &World| {
                let stops =
                    world.engine.iter().any(|m| m.mode == Mode::RemoveBrokers && m.stopping);
                world.phase() == Phase::Idle && stops && world.brokers == world.desired
            }),
        ];
        all.extend(seen.into_iter().filter(|_| self.edits >= 2));
        all
    }
}

#[test]
fn nothing_goes_wrong_in_any_order() {
    for walk in WALKS {
        let checker = walk.checker().threads(2).spawn_bfs().join();
        println!(
            "stateright: {walk:?}: {} states, {} of them different, depth {}",
            checker.state_count(),
            checker.unique_state_count(),
            checker.max_depth()
        );
        checker.assert_properties();
    }
}

/// The state space as a graph: for each state the states that follow by themselves, and whether it is
/// settled.
fn explore(model: Auto) -> (Vec<World>, Vec<Vec<u32>>) {
    let number = |world: &World| {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        hasher.finish()
    };
    let mut worlds = model.init_states();
    let mut index: BTreeMap<u64, u32> = BTreeMap::from([(number(&worlds[0]), 0)]);
    let mut follow: Vec<Vec<u32>> = Vec::new();
    let mut at = 0;
    while at < worlds.len() {
        let mut steps = Vec::new();
        Auto::system(&worlds[at], &mut steps);
        let own = steps.len();
        Auto::faults(&worlds[at], &mut steps);
        Auto::user(&worlds[at], &mut steps);
        let mut after = Vec::new();
        for (count, step) in steps.into_iter().enumerate() {
            let Some(next) = model.next_state(&worlds[at], step) else { continue };
            let fresh = u32::try_from(worlds.len()).unwrap();
            let to = *index.entry(number(&next)).or_insert(fresh);
            if to == fresh {
                worlds.push(next);
            }
            if count < own {
                after.push(to);
            }
        }
        follow.push(after);
        at += 1;
    }
    (worlds, follow)
}

#[test]
fn from_every_state_all_comes_to_rest_without_help() {
    for walk in WALKS {
        let (worlds, follow) = explore(walk);
        let good = reach_rest(&worlds, &follow);
        let edges: usize = follow.iter().map(Vec::len).sum();
        let settled = worlds.iter().filter(|world| world.is_settled()).count();
        println!(
            "reverse: {walk:?}: {} states, {edges} own steps, {settled} at rest",
            worlds.len()
        );
        assert!(settled > 0 && worlds.iter().any(|world| world.phase() != Phase::Idle));
        let stuck: Vec<&World> =
            worlds.iter().zip(&good).filter(|(_, good)| !**good).map(|(world, _)| world).collect();
        assert!(stuck.is_empty(), "{} never come to rest, as {:#?}", stuck.len(), stuck[0]);
    }
}

/// The states from which all can come to rest, by a search backwards from those that are at rest.
fn reach_rest(worlds: &[World], follow: &[Vec<u32>]) -> Vec<bool> {
    let mut before: Vec<Vec<u32>> = vec![Vec::new(); worlds.len()];
    for (from, after) in follow.iter().enumerate() {
        for to in after {
            before[*to as usize].push(u32::try_from(from).unwrap());
        }
    }
    let mut good: Vec<bool> = worlds.iter().map(World::is_settled).collect();
    let mut queue: Vec<usize> = (0..worlds.len()).filter(|at| good[*at]).collect();
    while let Some(at) = queue.pop() {
        for from in &before[at] {
            let from = *from as usize;
            if !good[from] {
                good[from] = true;
                queue.push(from);
            }
        }
    }
    good
}
