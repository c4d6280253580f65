//! How much one caller may ask: a bucket for each, filled at a steady rate.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

/// Callers that were seen lately; more than this many make room for others.
const CALLERS_MAX: usize = 100_000;

/// The buckets of all callers.
#[derive(Debug)]
pub struct Limiter {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Limiter {
    /// Buckets of that size, filled at that rate.
    #[must_use]
    pub fn new(per_second: u32, burst: u32) -> Self {
        let buckets = Mutex::new(HashMap::new());
        Self { per_second: f64::from(per_second), burst: f64::from(burst), buckets }
    }

    /// Whether the caller may ask once more, now.
    #[must_use]
    pub fn admits(&self, caller: &str, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if buckets.len() >= CALLERS_MAX && !buckets.contains_key(caller) {
            // Those that are full again have lost nothing by being forgotten.
            let (rate, burst) = (self.per_second, self.burst);
            buckets.retain(|_, one| one.filled(now, rate, burst) < burst);
            if buckets.len() >= CALLERS_MAX {
                return false;
            }
        }
        let full = Bucket { left: self.burst, at: now };
        let bucket = match buckets.get_mut(caller) {
            Some(bucket) => bucket,
            None => buckets.entry(caller.to_owned()).or_insert(full),
        };
        bucket.left = bucket.filled(now, self.per_second, self.burst);
        bucket.at = now;
        if bucket.left < 1.0 {
            return false;
        }
        bucket.left -= 1.0;
        true
    }
}

impl Bucket {
    fn filled(&self, now: Instant, per_second: f64, burst: f64) -> f64 {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        (self.left + since * per_second).min(burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_caller_may_ask_at_once_and_then_at_the_rate() {
        let limiter = Limiter::new(2, 3);
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let asked: Vec<_> =
            [0, 0, 0, 0, 400, 500, 900, 1000].map(|ms| limiter.admits("a", at(ms))).into();
        assert_eq!(asked, [true, true, true, false, false, true, false, true]);
        assert!(limiter.admits("b", at(0)), "another caller has a bucket of its own");
    }
}
