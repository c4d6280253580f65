//! Client quotas of a user.

use std::collections::BTreeMap;

/// Kafka's names of the quotas that a `KafkaUser` can have, and whether fractions count.
pub const QUOTAS: [(&str, bool); 4] = [
    ("producer_byte_rate", false),
    ("consumer_byte_rate", false),
    ("request_percentage", false),
    ("controller_mutation_rate", true),
];

/// By name, the new value, or nothing to remove the quota.
pub type QuotaChanges = BTreeMap<&'static str, Option<f64>>;

/// What brings the quotas that Kafka has to the desired ones. Quotas of other names are left unchanged.
#[must_use]
pub(super) fn changes(
    desired: &BTreeMap<&'static str, f64>,
    found: Option<&BTreeMap<String, f64>>,
) -> QuotaChanges {
    let mut changes = QuotaChanges::new();
    for (name, has_fractions) in QUOTAS {
        let (wanted, found) = (desired.get(name), found.and_then(|found| found.get(name)));
        let is_same = match (wanted, found) {
            (None, None) => true,
            // Somebody may have set a fraction, which a spec cannot say.
            (Some(wanted), Some(found)) if has_fractions => wanted == found,
            (Some(wanted), Some(found)) => wanted.trunc() == found.trunc(),
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_same {
            changes.insert(name, wanted.copied());
        }
    }
    changes
}
