//! How long this process may still act as the leader.
//!
//! A process that was paused, or cut off from the API server, does not know that another one leads by now.
//! But it knows when it last renewed its Lease, and that no process takes a Lease over before it has expired. So
//! an act that would harm if two did it begins only if it also ends before that time.
//!
//! That is as much as a process can know of itself. One that is paused after it was asked here, and before its request
//! has left, sends it when it wakes up. Only the server can refuse such a request, and only one that is tied to a
//! version ([`crate::write`]).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time until which this process leads. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Fence {
    term: Arc<Mutex<Term>>,
}

#[derive(Debug, Clone, Copy, Default)]
enum Term {
    /// Not the leader.
    #[default]
    None,
    Until(Instant),
    /// There is no election.
    Forever,
}

impl Fence {
    /// The fence of one that does not lead, until it is told otherwise.
    #[must_use]
    pub fn closed() -> Self {
        Self::default()
    }

    /// The fence of one that need not be elected: a program that is alone by construction.
    #[must_use]
    pub fn open() -> Self {
        Self { term: Arc::new(Mutex::new(Term::Forever)) }
    }

    /// How much longer this process certainly leads.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.time_left_at(Instant::now())
    }

    /// Extends the term. `sent` is when the renewal was sent, not when the answer came: the others may count
    /// from any moment after that.
    pub fn renew(&self, sent: Instant, lease: Duration) {
        self.set(Term::Until(sent + lease));
    }

    /// Ends the term at once.
    pub fn close(&self) {
        self.set(Term::None);
    }

    fn set(&self, term: Term) {
        // The value is copied in whole, so a panic elsewhere cannot have left half of one.
        *self.term.lock().unwrap_or_else(PoisonError::into_inner) = term;
    }

    fn time_left_at(&self, now: Instant) -> Duration {
        match *self.term.lock().unwrap_or_else(PoisonError::into_inner) {
            Term::None => Duration::ZERO,
            Term::Until(end) => end.saturating_duration_since(now),
            Term::Forever => Duration::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_counts_from_when_the_renewal_was_sent_and_runs_out() {
        let fence = Fence::closed();
        let sent = Instant::now();
        assert_eq!(fence.time_left_at(sent), Duration::ZERO);
        let other = fence.clone();
        fence.renew(sent, Duration::from_secs(15));
        assert_eq!(other.time_left_at(sent + Duration::from_secs(4)), Duration::from_secs(11));
        assert_eq!(other.time_left_at(sent + Duration::from_secs(16)), Duration::ZERO);
        fence.close();
        assert_eq!(other.time_left_at(sent), Duration::ZERO);
        assert_eq!(Fence::open().time_left_at(sent), Duration::MAX);
    }
}
