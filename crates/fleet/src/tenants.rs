//! Organisations and owners of Kafkas, as a data plane knows them.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;

/// The longest value of a label.
const LABEL_MAX: usize = 63;

/// The beginning of names that are made from a hash.
const HASHED: &str = "org-";

/// The value of the label of an organisation: its name, or a hash of it where the name is no value of a label. Two
/// organisations never have the same value: names that look like hashes are hashed, too.
#[must_use]
pub fn organisation_label(organisation: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let is_value = organisation.len() <= LABEL_MAX
        && organisation.chars().all(fits)
        && ends(organisation.chars().next())
        && ends(organisation.chars().next_back());
    if is_value && !organisation.starts_with(HASHED) {
        return organisation.to_owned();
    }
    format!("{HASHED}{}", hex(&digest(&SHA256, organisation.as_bytes()).as_ref()[..16]))
}

/// The user of Kafka that an owner is. It is also the name of a KafkaUser, which an owner's own name seldom can be.
#[must_use]
pub fn username(owner: &str) -> String {
    format!("owner-{}", hex(&digest(&SHA256, owner.as_bytes()).as_ref()[..16]))
}

/// A random text of 256 bits; nothing if the system has no randomness.
#[must_use]
pub fn secret() -> Option<String> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).ok()?;
    Some(hex(&bytes))
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_organisation_has_a_label_of_its_own() {
        assert_eq!(organisation_label("13640203"), "13640203");
        let long = "a".repeat(64);
        let hashed = organisation_label("a b");
        let odd = ["a b", "a/b", "", "-a", "a-", "ä", long.as_str(), "org-1", hashed.as_str()];
        let plain = ["a", "a.b", "A", "or"];
        let all: BTreeSet<_> =
            odd.iter().chain(&plain).map(|name| organisation_label(name)).collect();
        assert_eq!(all.len(), odd.len() + plain.len());
        for label in all {
            let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            assert!((1..=LABEL_MAX).contains(&label.len()) && label.chars().all(fits), "{label}");
        }
    }

    #[test]
    fn users_and_secrets_differ() {
        assert_ne!(username("ann"), username("Ann"));
        assert_eq!(username("ann@x.org"), username("ann@x.org"));
        let (one, other) = (secret().unwrap(), secret().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), 64);
    }
}
