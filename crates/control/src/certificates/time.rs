//! When a certificate is due.

use serde::{Deserialize, Serialize};

/// A day in seconds.
const DAY: i64 = 86_400;

/// With less time left than this, maintenance windows are no longer waited for: a roll out of hours is
/// better than a cluster whose nodes refuse each other.
const WINDOWS_IGNORED_BELOW: i64 = DAY;

/// From when to when a certificate holds, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validity {
    /// The first second.
    pub not_before: i64,
    /// The last second.
    pub not_after: i64,
}

/// The time, and the settings about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timing {
    /// Seconds since 1970.
    pub now: i64,
    /// How many days before its end a certificate is renewed.
    pub renewal_days: i64,
    /// Whether now is a time at which pods may be restarted for a renewal. True where no maintenance
    /// windows are set.
    pub window_open: bool,
}

/// Whether a certificate has to be made again for its age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Not yet.
    No,
    /// Yes, but only in a maintenance window.
    Waits,
    /// Yes.
    Now,
}

impl Validity {
    /// Whether it is over.
    #[must_use]
    pub const fn is_expired(&self, now: i64) -> bool {
        self.not_after < now
    }

    /// Renewed so many seconds before its end. Never more than half of its life: a renewal period that
    /// is longer than the validity would make every new certificate due at once.
    fn lead(&self, renewal_days: i64) -> i64 {
        let life = self.not_after.saturating_sub(self.not_before);
        renewal_days.max(0).saturating_mul(DAY).min(life / 2)
    }

    /// Whether the renewal period is longer than can be honoured.
    #[must_use]
    pub fn is_capped(&self, renewal_days: i64) -> bool {
        self.lead(renewal_days) < renewal_days.saturating_mul(DAY)
    }
}

impl Timing {
    pub(super) fn due(&self, validity: &Validity) -> Due {
        let left = validity.not_after.saturating_sub(self.now);
        if left > validity.lead(self.renewal_days) {
            Due::No
        } else if self.window_open || left < WINDOWS_IGNORED_BELOW {
            Due::Now
        } else {
            Due::Waits
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_due_a_while_before_its_end_but_never_when_it_is_new() {
        let year = Validity { not_before: 0, not_after: 365 * DAY };
        let timing = |now, window_open| Timing { now, renewal_days: 30, window_open };
        let rows = [
            (timing(0, true), Due::No),
            (timing(335 * DAY - 1, true), Due::No),
            (timing(335 * DAY, true), Due::Now),
            (timing(335 * DAY, false), Due::Waits),
            (timing(364 * DAY, false), Due::Waits),
            (timing(364 * DAY + 1, false), Due::Now),
            (timing(400 * DAY, false), Due::Now),
            // A clock that was set back.
            (timing(-DAY, true), Due::No),
            (timing(i64::MIN, true), Due::No),
            (timing(i64::MAX, false), Due::Now),
        ];
        for (timing, expected) in rows {
            assert_eq!(timing.due(&year), expected, "{timing:?}");
        }
        assert!(!year.is_capped(30));
        let short = Validity { not_before: 0, not_after: 10 * DAY };
        assert!(short.is_capped(30));
        for now in [0, DAY, 5 * DAY - 1] {
            assert_eq!(timing(now, true).due(&short), Due::No, "{now}");
        }
        assert_eq!(timing(5 * DAY, true).due(&short), Due::Now);
        let endless = Validity { not_before: i64::MIN, not_after: i64::MAX };
        assert_eq!(timing(0, true).due(&endless), Due::No);
    }
}
