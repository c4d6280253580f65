//! The clock, as decisions are told of it.

pub(crate) use host::clock::now_ms;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The time as conditions have it. Seconds are enough, and what people see elsewhere.
pub(crate) fn now_text() -> String {
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    now.format(&Rfc3339).unwrap_or_default()
}
