//! The search for an assignment.
//!
//! Goals become target ranges for eight quantities of a broker ([`state::Load8`]). A broker's cost is the
//! distance of its quantities from their ranges, relative to the mean. The search reduces the sum of all
//! costs to zero and moves as few MB as possible:
//!
//! 1. place replicas that must move (removed broker, shared rack), largest first, where brokers get closest
//!    to the middle of their ranges;
//! 2. transfer leadership, which is free;
//! 3. spread concentrated topics;
//! 4. overloaded brokers give replicas, those with the best ratio of relief to MB first;
//! 5. underutilized brokers take replicas that match all their gaps, so that one quantity is not filled at
//!    the expense of another;
//! 6. if no single move helps, swap two replicas or two leaderships;
//! 7. bring brokers within hard limits, with any replica, if that has not happened yet;
//! 8. move replicas back to their original brokers where that is harmless;
//! 9. in a small cluster, try changes in a random order from a fixed seed, and keep the best plan.
//!
//! Steps 2 to 6 repeat, first only with moves that are worth their MB, then with more expensive ones, until all
//! goals hold or a number of evaluated moves is reached. The search is deterministic: no seed from outside, no
//! clock.

mod exchanges;
mod forced;
mod leaders;
mod passes;
mod polish;
mod racks;
mod state;
mod topics;

use crate::bound::least_mb;
use crate::check::check;
use crate::goals::{Goal, Goals};
use crate::view::{Assignment, View};

use self::polish::Heat;
use self::state::State;

/// Replicas that may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Only replicas that must move.
    Displaced,
    /// All replicas that are not pinned.
    All,
    /// The same, but only to know about how much better the plan of a drain could be.
    Rest,
}

/// Minimum gain per MB, in cost for the mean broker's whole disk: from strict to none.
const PRICES: [f64; 6] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.0];

/// At this price and below swaps are tried too, which takes long.
const EXCHANGE_PRICE: f64 = 0.01;

/// Repetitions at one price; more have no effect.
const ROUNDS: usize = 4;

/// Evaluated moves for each replica, in all and if only displaced replicas move. Enough for every shape that
/// has been drawn whose goals can be met; where they contradict each other, the search ends here.
const WORK: u64 = 30;
const WORK_OF_DRAIN: u64 = 10;

/// Replicas of a cluster whose plan is polished, which takes time for each of them.
const POLISHED_MAX: usize = 60_000;

/// Replicas of a cluster whose plan is polished again if it violates goals.
const REPEATED_MAX: usize = 20_000;

/// Replicas of a cluster for which that is also done for fewer MB.
const SMALL: usize = 1_000;

/// Replicas of a cluster for which the search is also begun with random changes.
const RESTARTED_MAX: usize = 5_000;

/// A plan with so many times the MB of its lower bound is good enough.
const GOOD: f64 = 1.01;

/// The best assignment found.
pub(crate) fn search(view: &View, goals: &Goals, scope: Scope) -> Assignment {
    let mut state = begin(view, goals, scope);
    pass(&mut state);
    state.keep_hard_limits();
    state.send_home();
    if goals.has(Goal::PreferredLeaderElection) {
        state.prefer_leaders(true);
        return state.into_assignment();
    }
    // In large clusters each replica is small, and ordered passes find what there is.
    if view.replicas() > POLISHED_MAX || scope == Scope::Rest {
        return state.into_assignment();
    }
    let mut best = Candidate::of(view, goals, state.broker_of.clone());
    let is_large = view.replicas() > REPEATED_MAX;
    state.polish(if is_large || !best.is_short() { Heat::Brief } else { Heat::Cool });
    state.send_home();
    best = best.or(Candidate::of(view, goals, state.into_assignment()));
    let is_small = view.replicas() <= SMALL && !best.is_good();
    if is_large || !best.is_short() && !is_small {
        return best.assignment;
    }
    for seed in 2..4 {
        let mut state = State::new(view, goals, best.assignment.clone());
        state.only_displaced = scope == Scope::Displaced;
        // Where goals contradict each other, those that almost hold count more.
        state.weigh();
        state.polish(Heat::Again(seed));
        state.send_home();
        best = best.or(Candidate::of(view, goals, state.into_assignment()));
    }
    if view.replicas() <= RESTARTED_MAX {
        let mut state = begin(view, goals, scope);
        state.polish(Heat::Warm);
        state.keep_hard_limits();
        state.send_home();
        best = best.or(Candidate::of(view, goals, state.into_assignment()));
    }
    best.assignment
}

/// The state with all replicas placed that must move.
fn begin<'a>(view: &'a View, goals: &Goals, scope: Scope) -> State<'a> {
    let mut state = State::new(view, goals, view.replicas.clone());
    state.place_forced();
    state.spread_leaders();
    if goals.has(Goal::PreferredLeaderElection) {
        state.prefer_leaders(false);
    }
    state.only_displaced = scope == Scope::Displaced;
    state.work_max = if scope == Scope::All { WORK } else { WORK_OF_DRAIN };
    state
}

/// The ordered passes.
fn pass(state: &mut State<'_>) {
    for (stage, price) in (1..).zip(PRICES) {
        // What takes long at one price leaves something for the next.
        state.allow(stage, PRICES.len() as u64);
        for _ in 0..ROUNDS {
            let mut changed = state.move_leaders();
            changed |= state.spread_topics(price);
            changed |= state.relieve(price);
            changed |= state.fill(price);
            changed |= state.move_leaders();
            if state.is_done() {
                return;
            }
            // A move that is not worth its MB now may be at a lower price.
            let last_resort = !changed && price <= EXCHANGE_PRICE;
            if state.is_spent() || !(changed || last_resort && state.exchange(price)) {
                break;
            }
        }
    }
}

/// An assignment and how good it is.
struct Candidate {
    assignment: Assignment,
    /// Violations of hard goals, then goals, violations of soft ones and MB: less is better.
    rank: (usize, f64, usize, f64),
    least_mb: f64,
}

impl Candidate {
    fn of(view: &View, goals: &Goals, assignment: Assignment) -> Self {
        let judged = check(view, goals, &assignment);
        let findings = |hard: bool| -> usize {
            let of = judged.goals.iter().filter(|state| state.goal.is_hard() == hard);
            of.map(|state| state.findings).sum()
        };
        let hard = judged.structure.len() + findings(true);
        let rank = (hard, -judged.balancedness, findings(false), view.moved_mb(&assignment));
        Self { assignment, rank, least_mb: least_mb(view, &judged) }
    }

    /// The better of two; this one if they are alike.
    fn or(self, other: Self) -> Self {
        if other.rank < self.rank { other } else { self }
    }

    /// Whether a goal is violated.
    fn is_short(&self) -> bool {
        self.rank.0 + self.rank.2 > 0
    }

    /// Whether all goals hold, for hardly more MB than any plan moves.
    fn is_good(&self) -> bool {
        !self.is_short() && self.rank.3 <= self.least_mb * GOOD
    }
}
