//! Every small quorum, walked through to its end.
//!
//! Voters that are alike are interchangeable, so a state is how many there are of each kind. With that, all
//! sets of up to seven voters and up to seven desired controllers, with every subset of them behind or
//! replaced, are some ten thousand states. From each, the planner's steps are followed to the end.
//!
//! The judge shares no code with the planner: it knows how many voters there are and how many of them have
//! caught up, and it finds out by trying all orders whether the desired state can be reached at all.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeMap;

use control::quorum::format::QuorumMode;
use control::quorum::plan::{Controller, Facts, Hold, Listener, Step, decide, may_stop};
use control::quorum::{QuorumView, Replica};
use model::{DirectoryId, NodeId};

/// How many there are of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct State {
    /// Voters that stay and have caught up.
    stay_up: usize,
    /// Voters that stay and are behind.
    stay_behind: usize,
    /// Voters that are not desired and have caught up.
    leave_up: usize,
    /// Voters that are not desired and are behind.
    leave_behind: usize,
    /// Former selves of desired controllers whose new selves are level.
    former_ready: usize,
    /// Former selves of desired controllers whose new selves are not.
    former_unready: usize,
    /// Desired controllers that do not vote and are level.
    join_ready: usize,
    /// Desired controllers that do not vote and are not level.
    join_unready: usize,
    /// Whether the leader is one of those that leave.
    leader_leaves: bool,
}

impl State {
    fn voters(&self) -> usize {
        let stay = self.stay_up + self.stay_behind;
        stay + self.leave_up + self.leave_behind + self.former_ready + self.former_unready
    }

    fn caught_up(&self) -> usize {
        self.stay_up + self.leave_up
    }

    fn is_safe(&self) -> bool {
        self.voters() > 0 && 2 * self.caught_up() > self.voters()
    }

    fn is_done(&self) -> bool {
        let left = self.leave_up + self.leave_behind + self.former_ready + self.former_unready;
        left + self.join_ready + self.join_unready == 0
    }

    /// A number that every step must lower.
    fn work_left(&self) -> usize {
        let leave = self.leave_up + self.leave_behind;
        2 * (self.former_ready + self.former_unready) + leave + self.join_ready + self.join_unready
    }

    /// Where the leader may be after a change: somewhere among those that have caught up.
    fn with_leader(mut self) -> Self {
        self.leader_leaves = match (self.stay_up, self.leave_up) {
            (0, _) => true,
            (_, 0) => false,
            (_, _) => self.leader_leaves,
        };
        self
    }

    /// All states that one change can lead to, safe or not.
    fn moves(&self) -> Vec<Self> {
        let mut moves = Vec::new();
        let mut push = |possible: bool, change: &dyn Fn(&mut Self)| {
            if possible {
                let mut next = *self;
                change(&mut next);
                next.leader_leaves = false;
                moves.push(next);
            }
        };
        push(self.leave_up > 0, &|s| s.leave_up -= 1);
        push(self.leave_behind > 0, &|s| s.leave_behind -= 1);
        push(self.former_ready > 0, &|s| {
            s.former_ready -= 1;
            s.join_ready += 1;
        });
        push(self.former_unready > 0, &|s| {
            s.former_unready -= 1;
            s.join_unready += 1;
        });
        push(self.join_ready > 0, &|s| {
            s.join_ready -= 1;
            s.stay_up += 1;
        });
        moves
    }
}

/// Whether some order of safe changes leads to what is desired.
fn can_finish(state: State, known: &mut BTreeMap<State, bool>) -> bool {
    let state = State { leader_leaves: false, ..state };
    if let Some(answer) = known.get(&state) {
        return *answer;
    }
    let moves = state.moves();
    let answer =
        state.is_done() || moves.iter().any(|next| next.is_safe() && can_finish(*next, known));
    known.insert(state, answer);
    answer
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    StayUp,
    StayBehind,
    LeaveUp,
    LeaveBehind,
    FormerReady,
    FormerUnready,
    JoinReady,
    JoinUnready,
}

/// The facts that a state stands for, and what each node is. `fetched` is when those that are behind were
/// last heard of: the lagging once, the dead never.
fn world(state: &State, fetched: Option<u64>) -> (Facts, Vec<Kind>) {
    let kinds = [
        (Kind::StayUp, state.stay_up),
        (Kind::StayBehind, state.stay_behind),
        (Kind::LeaveUp, state.leave_up),
        (Kind::LeaveBehind, state.leave_behind),
        (Kind::FormerReady, state.former_ready),
        (Kind::FormerUnready, state.former_unready),
        (Kind::JoinReady, state.join_ready),
        (Kind::JoinUnready, state.join_unready),
    ];
    let nodes: Vec<Kind> =
        kinds.iter().flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count)).collect();
    let leads = if state.leader_leaves { Kind::LeaveUp } else { Kind::StayUp };
    let mut facts = blank();
    let mut view = empty_view();
    for (index, kind) in nodes.iter().enumerate() {
        let id = node(index);
        let (first, second) = (directory(index, 1), directory(index, 2));
        let level =
            |directory, up: bool| replica(id, directory, if up { Some(9_000) } else { fetched });
        let desire = |facts: &mut Facts, disk| {
            facts.desired.insert(id, controller());
            facts.disks.insert(id, disk);
        };
        match kind {
            Kind::StayUp | Kind::StayBehind => {
                desire(&mut facts, first);
                view.voters.push(level(first, *kind == Kind::StayUp));
            }
            Kind::LeaveUp | Kind::LeaveBehind => {
                view.voters.push(level(first, *kind == Kind::LeaveUp));
            }
            Kind::FormerReady | Kind::FormerUnready => {
                desire(&mut facts, second);
                view.voters.push(level(first, false));
                view.observers.push(level(second, *kind == Kind::FormerReady));
            }
            Kind::JoinReady | Kind::JoinUnready => {
                desire(&mut facts, first);
                view.observers.push(level(first, *kind == Kind::JoinReady));
            }
        }
        if *kind == leads {
            view.leader = id;
        }
    }
    facts.quorum = Some(view);
    (facts, nodes)
}

fn node(index: usize) -> NodeId {
    NodeId::new(i32::try_from(index).unwrap()).unwrap()
}

fn directory(index: usize, life: u8) -> DirectoryId {
    let mut bytes = [life; 16];
    bytes[0] = u8::try_from(index).unwrap();
    DirectoryId::from_bytes(bytes).unwrap()
}

fn replica(id: NodeId, directory: DirectoryId, at: Option<u64>) -> Replica {
    Replica {
        id,
        directory: Some(directory),
        log_end: at,
        last_fetch_ms: at,
        last_caught_up_ms: at,
    }
}

fn controller() -> Controller {
    let listener = Listener { name: "C".to_owned(), host: "h".to_owned(), port: 1 };
    Controller { runs: Some(true), listeners: vec![listener] }
}

fn blank() -> Facts {
    Facts {
        mode: QuorumMode::Dynamic,
        desired: BTreeMap::new(),
        disks: BTreeMap::new(),
        quorum: None,
        earlier: None,
        recorded_voters: BTreeMap::new(),
        failed_adds: BTreeMap::new(),
    }
}

fn empty_view() -> QuorumView {
    QuorumView {
        leader: node(0),
        epoch: 1,
        high_watermark: Some(9_000),
        voters: vec![],
        observers: vec![],
        fetch_timeout_ms: 2000,
    }
}

/// The state after the planner's step, with what the rules say of the step itself; `None` at an end.
fn follow(state: &State, fetched: Option<u64>) -> Option<State> {
    let (facts, kinds) = world(state, fetched);
    let kind = |id: NodeId| kinds[usize::try_from(id.get()).unwrap()];
    let mut next = *state;
    match decide(&facts).step {
        Step::Add { id, directory, .. } => {
            assert_eq!(kind(id), Kind::JoinReady, "{state:?}");
            assert_eq!(facts.disks.get(&id), Some(&directory), "{state:?}");
            next.join_ready -= 1;
            next.stay_up += 1;
        }
        Step::Remove { id, .. } => {
            assert_eq!(may_stop(&facts, id), Err(Hold::Votes), "{state:?}");
            match kind(id) {
                Kind::LeaveUp => {
                    let joining = state.join_ready + state.join_unready;
                    let again = state.former_ready + state.former_unready;
                    assert_eq!(joining + again, 0, "new ones first: {state:?}");
                    assert_eq!(state.leave_behind, 0, "dead ones first: {state:?}");
                    let leads = facts.quorum.as_ref().is_some_and(|view| view.leader == id);
                    assert!(!leads || state.leave_up == 1, "the leader last: {state:?}");
                    next.leave_up -= 1;
                    next.leader_leaves = false;
                }
                Kind::LeaveBehind => next.leave_behind -= 1,
                Kind::FormerReady => {
                    next.former_ready -= 1;
                    next.join_ready += 1;
                }
                Kind::FormerUnready => {
                    next.former_unready -= 1;
                    next.join_unready += 1;
                }
                other @ (Kind::StayUp | Kind::StayBehind | Kind::JoinReady | Kind::JoinUnready) => {
                    panic!("{other:?} was removed: {state:?}")
                }
            }
        }
        Step::Settled => {
            assert!(state.is_done(), "{state:?}");
            return None;
        }
        Step::Wait(waiting) => {
            assert!(!waiting.is_empty() && !state.is_done(), "{state:?}");
            return None;
        }
        Step::Refuse(_) => {
            assert!(state.leave_up > 0, "nothing to refuse: {state:?}");
            return None;
        }
        step @ (Step::QuorumLost(_) | Step::StaticRefused { .. }) => panic!("{step:?}: {state:?}"),
    }
    Some(next.with_leader())
}

/// All ways to write at most `total` as a sum of `N` numbers.
fn sums<const N: usize>(total: usize) -> Vec<[usize; N]> {
    let mut all = vec![[0; N]];
    for place in 0..N {
        let mut longer = Vec::new();
        for sum in &all {
            let used: usize = sum.iter().sum();
            for count in 0..=total - used {
                let mut next = *sum;
                next[place] = count;
                longer.push(next);
            }
        }
        all = longer;
    }
    all
}

/// All states of up to so many voters and desired controllers in which somebody can lead.
fn states(size: usize) -> Vec<State> {
    let mut states = Vec::new();
    for [stay_up, stay_behind, former_ready, former_unready] in sums::<4>(size) {
        let core = stay_up + stay_behind + former_ready + former_unready;
        for [leave_up, leave_behind] in sums::<2>(size - core) {
            for [join_ready, join_unready] in sums::<2>(size - core) {
                let state = State {
                    stay_up,
                    stay_behind,
                    leave_up,
                    leave_behind,
                    former_ready,
                    former_unready,
                    join_ready,
                    join_unready,
                    leader_leaves: false,
                };
                if core + join_ready + join_unready == 0 {
                    continue; // no controller is desired; refused as a whole
                }
                let leaders = [(stay_up > 0, false), (leave_up > 0, true)];
                for (_, leader_leaves) in leaders.into_iter().filter(|(possible, _)| *possible) {
                    states.push(State { leader_leaves, ..state });
                }
            }
        }
    }
    states
}

#[test]
fn every_step_keeps_a_majority_and_every_plan_that_can_finish_does() {
    let mut ends: BTreeMap<State, bool> = BTreeMap::new();
    let mut known = BTreeMap::new();
    let (mut finished, mut stuck) = (0, 0);
    for start in states(7) {
        let mut path = vec![start];
        let done = loop {
            let state = path[path.len() - 1];
            if let Some(done) = ends.get(&state) {
                break *done;
            }
            let Some(next) = follow(&state, Some(1)) else { break state.is_done() };
            assert!(next.is_safe(), "{state:?} became {next:?}");
            assert!(next.work_left() < state.work_left(), "{state:?} became {next:?}");
            path.push(next);
        };
        assert_eq!(done, can_finish(start, &mut known), "{start:?}");
        ends.extend(path.into_iter().map(|state| (state, done)));
        if done { finished += 1 } else { stuck += 1 }
    }
    // Both ends were really met, many times.
    assert!(finished > 2_000 && stuck > 2_000, "{finished} {stuck}");
}

#[test]
fn the_dead_are_treated_as_the_lagging() {
    for state in states(5) {
        assert_eq!(follow(&state, Some(1)), follow(&state, None), "{state:?}");
    }
}

/// The judge must be able to say no: a planner that drops rule 1 is caught by it.
#[test]
fn the_judge_knows_an_unsafe_step() {
    let three_with_one_down = State { stay_up: 1, stay_behind: 1, leave_up: 1, ..State::default() };
    assert!(three_with_one_down.is_safe());
    assert!(three_with_one_down.moves().iter().all(|next| !next.is_safe()));
    assert!(!can_finish(three_with_one_down, &mut BTreeMap::new()));
    assert_eq!(follow(&three_with_one_down, Some(1)), None);
}
