//! The clock, as decisions are told of it.

use time::OffsetDateTime;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000;
    u64::try_from(now).unwrap_or_default()
}
