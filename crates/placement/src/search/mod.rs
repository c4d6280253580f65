//! The search for an assignment.
//!
//! Everything that goals say of a broker becomes a band for one of eight numbers ([`state::Load8`]); a
//! broker's cost is how far its numbers are outside of their bands, relative to the mean. The search
//! makes the sum of all costs zero with as few MB as it can:
//!
//! 1. what must move (its broker goes, or shares a rack) is placed, largest first, where it brings the
//!    brokers closest to the middle of their bands;
//! 2. leadership moves, which cost nothing;
//! 3. topics that pile up are spread;
//! 4. brokers with too much give, those replicas first that relieve them most for their MB;
//! 5. brokers with too little take what fits into the gap that they have, so that one number is not
//!    filled at the expense of another;
//! 6. where no single move helps, two replicas or two leaderships change places;
//! 7. replicas go back home where nobody needs them to be away.
//!
//! Steps 2 to 6 repeat, at first only with moves that are worth their MB, then with dearer ones. There
//! is no randomness and no clock: the same view gives the same plan everywhere.

mod exchanges;
mod forced;
mod leaders;
mod passes;
mod racks;
mod state;

use crate::goals::{Goal, Goals};
use crate::view::{Assignment, View};

/// What may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Only what has no place any more: its broker goes, or shares a rack.
    Displaced,
    /// Everything that is not pinned.
    All,
}

/// What a MB must at least be worth, in cost for the mean broker's whole disk: from picky to anything.
const PRICES: [f64; 6] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.0];

/// From this price on pairs are tried too, which takes long.
const EXCHANGE_PRICE: f64 = 0.01;

/// How often the passes repeat at one price; more brings nothing.
const ROUNDS: usize = 4;

/// The best assignment that was found.
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
            // What no single move is worth now may be worth it at a lower price.
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
