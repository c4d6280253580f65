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
//! 7. move replicas back to their original brokers where that is harmless.
//!
//! Steps 2 to 6 repeat, first only with moves that are worth their MB, then with more expensive ones. The
//! search is deterministic: no randomness, no clock.

mod exchanges;
mod forced;
mod leaders;
mod passes;
mod racks;
mod state;

use crate::goals::{Goal, Goals};
use crate::view::{Assignment, View};

/// Replicas that may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Only replicas that must move.
    Displaced,
    /// All replicas that are not pinned.
    All,
}

/// Minimum gain per MB, in cost for the mean broker's whole disk: from strict to none.
const PRICES: [f64; 6] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.0];

/// At this price and below swaps are tried too, which takes long.
const EXCHANGE_PRICE: f64 = 0.01;

/// Repetitions at one price; more have no effect.
const ROUNDS: usize = 4;

/// The best assignment found.
pub(crate) fn search(view: &View, goals: &Goals, scope: Scope) -> Assignment {
    let mut state = state::State::new(view, goals);
    state.place_forced();
    state.spread_leaders();
    let prefers = goals.has(Goal::PreferredLeaderElection);
    if prefers {
        state.prefer_leaders(false);
    }
    state.only_displaced = scope == Scope::Displaced;
    'prices: for price in PRICES {
        for _ in 0..ROUNDS {
            let mut changed = state.move_leaders();
            changed |= state.spread_topics(price);
            changed |= state.relieve(price);
            changed |= state.fill(price);
            changed |= state.move_leaders();
            if state.is_done() {
                break 'prices;
            }
            // A move that is not worth its MB now may be at a lower price.
            let last_resort = !changed && price <= EXCHANGE_PRICE;
            if !(changed || last_resort && state.exchange(price)) {
                break;
            }
        }
    }
    state.send_home();
    if prefers {
        state.prefer_leaders(true);
    }
    state.into_assignment()
}
