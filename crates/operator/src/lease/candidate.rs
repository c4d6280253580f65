//! The rules of the election, without a clock and without an API server.
//!
//! 1. Every write of the Lease carries the version that was read: of two who write at once, one is refused.
//! 2. A Lease of another owner is taken only if it was seen unchanged, on the own clock, for as long as
//!    its holder may rely on it. The times that are written in it are for people: clocks differ.
//! 3. A holder relies on it from before its renewal was sent. So its term ends, on any clock, before
//!    another's can begin.
//! 4. A Lease with the own name in it is taken at once: the name is that of a pod, whose container runs
//!    once, so the process that wrote it is dead or is this one.
//!
//! Times are counted from any fixed moment of a clock that does not jump.

use std::time::Duration;

/// How long things take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long a Lease holds after it was renewed.
    pub lease: Duration,
    /// After how long without a renewal a leader gives up.
    pub give_up: Duration,
    /// How often a leader renews and others look.
    pub retry: Duration,
}

impl Default for Timing {
    /// Those of Strimzi and of Kubernetes' own components.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            give_up: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// A Lease as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The version that a write must name.
    pub version: String,
    /// Who has it; `None` if it was released.
    pub holder: Option<String>,
    /// How long its holder may rely on it.
    pub duration: Duration,
    /// How often it has changed hands.
    pub transitions: i32,
}

/// What a candidate does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// Read the Lease, and consider it.
    Read,
    /// Write a Lease where there is none.
    Create,
    /// Write it over this version.
    Replace {
        /// The version that is expected.
        version: String,
        /// How often it will have changed hands.
        transitions: i32,
    },
    /// Look again after the usual pause.
    Wait,
    /// Another process holds the Lease, or it was not renewed for too long: stop leading, for good.
    Resign,
}

/// One that wants to lead, or does.
#[derive(Debug, Clone)]
pub struct Candidate {
    identity: String,
    timing: Timing,
    seen: Option<Seen>,
    term: Option<Term>,
}

/// The Lease of another owner.
#[derive(Debug, Clone)]
struct Seen {
    found: Found,
    since: Duration,
}

/// Our own.
#[derive(Debug, Clone)]
struct Term {
    version: String,
    transitions: i32,
    renewed: Duration,
    /// A write was refused or not answered, so that the version is no longer known.
    in_doubt: bool,
}

impl Candidate {
    /// One that has not looked yet.
    #[must_use]
    pub fn new(identity: &str, timing: Timing) -> Self {
        Self { identity: identity.to_owned(), timing, seen: None, term: None }
    }

    /// Its name.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// How long things take.
    #[must_use]
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Whether it leads, as far as it knows. Whether it may act is a question of the fence.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.term.is_some()
    }

    /// What to do when it is time to do something.
    #[must_use]
    pub fn next(&self, now: Duration) -> Move {
        match &self.term {
            None => Move::Read,
            Some(term) if now.saturating_sub(term.renewed) >= self.timing.give_up => Move::Resign,
            Some(term) if term.in_doubt => Move::Read,
            Some(term) => {
                Move::Replace { version: term.version.clone(), transitions: term.transitions }
            }
        }
    }

    /// What to do about what was read; `None` if there is no Lease.
    pub fn consider(&mut self, now: Duration, found: Option<Found>) -> Move {
        match (&mut self.term, found) {
            (Some(term), Some(found)) if found.holder.as_deref() == Some(&*self.identity) => {
                (term.version, term.in_doubt) = (found.version, false);
                self.next(now)
            }
            (Some(_), Some(_)) => Move::Resign,
            (Some(_), None) => Move::Create,
            (None, found) => self.consider_taking(now, found),
        }
    }

    fn consider_taking(&mut self, now: Duration, found: Option<Found>) -> Move {
        let Some(found) = found else {
            // It was deleted. Its holder may not know yet.
            return if self.is_relied_on(now) { Move::Wait } else { Move::Create };
        };
        let taken = Move::Replace {
            version: found.version.clone(),
            transitions: found.transitions.saturating_add(1),
        };
        match &found.holder {
            None => taken,
            Some(holder) if *holder == self.identity => {
                Move::Replace { version: found.version, transitions: found.transitions }
            }
            Some(_) => {
                let unchanged =
                    self.seen.as_ref().is_some_and(|seen| seen.found.version == found.version);
                if !unchanged {
                    self.seen = Some(Seen { found, since: now });
                }
                if self.is_relied_on(now) { Move::Wait } else { taken }
            }
        }
    }

    /// Whether a holder that was seen may still rely on its Lease.
    fn is_relied_on(&self, now: Duration) -> bool {
        self.seen.as_ref().is_some_and(|seen| {
            // A holder with another timing than ours says so in the Lease.
            let holds = seen.found.duration.max(self.timing.lease);
            now.saturating_sub(seen.since) < holds
        })
    }

    /// A write was acknowledged that had been sent at this time. The term counts from then.
    pub fn wrote(&mut self, sent: Duration, version: String, transitions: i32) {
        self.seen = None;
        self.term = Some(Term { version, transitions, renewed: sent, in_doubt: false });
    }

    /// A write was refused, or no answer came.
    pub fn failed(&mut self) {
        if let Some(term) = &mut self.term {
            term.in_doubt = true;
        }
    }
}

#[cfg(test)]
#[path = "candidate_tests.rs"]
mod tests;
