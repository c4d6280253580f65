//! The clock, as decisions are told of it.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000;
    u64::try_from(now).unwrap_or_default()
}

/// The time as conditions have it. Seconds are enough, and what people see elsewhere.
pub(crate) fn now_text() -> String {
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    now.format(&Rfc3339).unwrap_or_default()
}
