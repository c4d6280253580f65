//! How much one caller may ask: so many requests at once, and then at a steady rate.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use governor::clock::{Clock, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

/// After so many requests, callers that have not asked for a while are forgotten: they have lost nothing by it.
const REQUESTS_PER_CLEANING: u64 = 10_000;

type Callers<C> =
    RateLimiter<String, HashMapStateStore<String>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// What all callers have asked lately.
pub struct Limiter<C: Clock = MonotonicClock> {
    callers: Callers<C>,
    asked: AtomicU64,
}

impl Limiter {
    /// At most `burst` requests of a caller at once, and `per_second` in the long run.
    #[must_use]
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self::with_clock(per_second, burst, MonotonicClock)
    }
}

impl<C: Clock> Limiter<C> {
    fn with_clock(per_second: u32, burst: u32, clock: C) -> Self {
        let positive = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(positive(per_second)).allow_burst(positive(burst));
        Self {
            callers: RateLimiter::new(quota, HashMapStateStore::default(), clock),
            asked: AtomicU64::new(0),
        }
    }

    /// Whether the caller may ask once more, now.
    #[must_use]
    pub fn admits(&self, caller: &str) -> bool {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        if asked.is_multiple_of(REQUESTS_PER_CLEANING) {
            self.callers.retain_recent();
            self.callers.shrink_to_fit();
        }
        self.callers.check_key(&caller.to_owned()).is_ok()
    }
}

impl<C: Clock> fmt::Debug for Limiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use governor::clock::FakeRelativeClock;

    use super::*;

    #[test]
    fn a_caller_may_ask_at_once_and_then_at_the_rate() {
        let clock = FakeRelativeClock::default();
        let limiter = Limiter::with_clock(2, 3, clock.clone());
        let mut now = 0;
        let mut asked = Vec::new();
        for at in [0, 0, 0, 0, 400, 500, 900, 1000] {
            clock.advance(Duration::from_millis(at - now));
            now = at;
            asked.push(limiter.admits("a"));
        }
        assert_eq!(asked, [true, true, true, false, false, true, false, true]);
        assert!(limiter.admits("b"), "another caller has requests of its own");
    }

    #[test]
    fn callers_that_are_gone_are_forgotten() {
        let clock = FakeRelativeClock::default();
        let limiter = Limiter::with_clock(1, 5, clock.clone());
        for caller in 0..REQUESTS_PER_CLEANING {
            assert!(limiter.admits(&caller.to_string()));
        }
        assert_eq!(limiter.callers.len() as u64, REQUESTS_PER_CLEANING);
        clock.advance(Duration::from_secs(60));
        assert!(limiter.admits("last"));
        assert_eq!(limiter.callers.len(), 1);
    }
}
