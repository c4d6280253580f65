//! When the certificate of a node, of the operator or of a user is issued again.
//!
//! 1. A certificate that is good is kept: whoever loses it has to restart.
//! 2. What could not be issued is not taken away: while the authority may not sign, what is stored
//!    stays as it is.
//! 3. A certificate made now is not due now, whatever was set.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::authority::{self, Signing};
use super::time::Due;
use super::{Entry, Timing, Validity};

/// What a certificate says of whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// The common name.
    pub common_name: String,
    /// The organization, if any.
    pub organization: Option<String>,
}

/// What was found in the Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// Who it is for.
    pub subject: Subject,
    /// The names and addresses it is for, as texts.
    pub names: BTreeSet<String>,
    /// When it holds.
    pub validity: Validity,
    /// Whether the key beside it is its own.
    pub has_its_key: bool,
    /// Whether the key that signs now has signed it.
    pub signed_by_current: bool,
    /// Whether the certificates behind it are those of the authority now.
    pub chain_is_current: bool,
}

/// What is wanted of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wanted {
    /// Who it is for.
    pub subject: Subject,
    /// The names and addresses it is for, as texts.
    pub names: BTreeSet<String>,
}

/// What to do about a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is good.
    Keep,
    /// It is due, but a maintenance window is waited for.
    Waits,
    /// Issue it.
    Issue(BTreeSet<Cause>),
    /// It would have to be issued, and cannot be now. What there is stays in use.
    Hold {
        /// Why it should be issued.
        causes: BTreeSet<Cause>,
        /// Why it cannot be.
        reason: authority::Reason,
    },
}

/// Why a certificate is issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// There is none.
    Missing,
    /// What there is cannot be read.
    Unreadable,
    /// The key beside it belongs to another certificate.
    OtherKey,
    /// Another key than the one that signs now has signed it.
    AuthorityReplaced,
    /// The certificate of the authority has been renewed since.
    AuthorityRenewed,
    /// It was issued for another subject.
    Subject,
    /// It is for other names or addresses.
    Names,
    /// It is near its end.
    Expiring,
}

/// Decides whether a certificate is issued.
#[must_use]
pub fn decide(
    found: &Entry<Found>,
    wanted: &Wanted,
    signing: &Signing,
    timing: &Timing,
) -> Decision {
    let (causes, waits) = match found {
        Entry::Missing => (BTreeSet::from([Cause::Missing]), false),
        Entry::Unreadable => (BTreeSet::from([Cause::Unreadable]), false),
        Entry::Read(found) => causes(found, wanted, timing),
    };
    match signing {
        _ if causes.is_empty() && waits => Decision::Waits,
        _ if causes.is_empty() => Decision::Keep,
        Signing::Allowed => Decision::Issue(causes),
        Signing::Held(reason) => Decision::Hold { causes, reason: *reason },
    }
}

/// Why it is to be issued now, and whether it will be for its age.
fn causes(found: &Found, wanted: &Wanted, timing: &Timing) -> (BTreeSet<Cause>, bool) {
    let due = timing.due(&found.validity);
    let rows = [
        (!found.has_its_key, Cause::OtherKey),
        (!found.signed_by_current, Cause::AuthorityReplaced),
        (!found.chain_is_current, Cause::AuthorityRenewed),
        (found.subject != wanted.subject, Cause::Subject),
        (found.names != wanted.names, Cause::Names),
        (due == Due::Now, Cause::Expiring),
    ];
    let causes = rows.into_iter().filter(|(holds, _)| *holds).map(|(_, cause)| cause);
    (causes.collect(), due == Due::Waits)
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "there is none",
            Self::Unreadable => "the existing object cannot be read",
            Self::OtherKey => "the key beside it was another one",
            Self::AuthorityReplaced => "the key of the authority was replaced",
            Self::AuthorityRenewed => "the certificate of the authority was renewed",
            Self::Subject => "it was for somebody else",
            Self::Names => "its names changed",
            Self::Expiring => "it was about to expire",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    fn names(list: &[&str]) -> BTreeSet<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    fn subject(common_name: &str) -> Subject {
        let organization = Some("io.strimzi".to_owned());
        Subject { common_name: common_name.to_owned(), organization }
    }

    fn wanted() -> Wanted {
        Wanted { subject: subject("c-kafka"), names: names(&["a", "127.0.0.1"]) }
    }

    fn good() -> Found {
        Found {
            subject: subject("c-kafka"),
            names: names(&["127.0.0.1", "a"]),
            validity: Validity { not_before: 0, not_after: 100 * DAY },
            has_its_key: true,
            signed_by_current: true,
            chain_is_current: true,
        }
    }

    fn decided(change: impl FnOnce(&mut Found), timing: Timing) -> Decision {
        let mut found = good();
        change(&mut found);
        decide(&Entry::Read(found), &wanted(), &Signing::Allowed, &timing)
    }

    const EARLY: Timing = Timing { now: DAY, renewal_days: 30, window_open: true };

    #[test]
    fn a_certificate_is_issued_for_each_reason_and_else_kept() {
        assert_eq!(decided(|_| {}, EARLY), Decision::Keep);
        type Change = fn(&mut Found);
        let rows: [(Change, &[Cause]); 6] = [
            (|found| found.has_its_key = false, &[Cause::OtherKey]),
            (|found| found.signed_by_current = false, &[Cause::AuthorityReplaced]),
            (|found| found.chain_is_current = false, &[Cause::AuthorityRenewed]),
            (|found| found.subject = subject("other"), &[Cause::Subject]),
            (|found| found.names = names(&["a"]), &[Cause::Names]),
            (
                |found| {
                    found.names = names(&["a", "127.0.0.1", "b"]);
                    found.subject.organization = None;
                },
                &[Cause::Subject, Cause::Names],
            ),
        ];
        for (change, expected) in rows {
            let expected = expected.iter().copied().collect();
            assert_eq!(decided(change, EARLY), Decision::Issue(expected));
        }
        let late = Timing { now: 71 * DAY, ..EARLY };
        assert_eq!(decided(|_| {}, late), Decision::Issue(BTreeSet::from([Cause::Expiring])));
        let closed = Timing { window_open: false, ..late };
        assert_eq!(decided(|_| {}, closed), Decision::Waits);
        // What cannot wait for a window takes what is due along.
        let renamed = decided(|found| found.names = names(&["a"]), closed);
        assert_eq!(renamed, Decision::Issue(BTreeSet::from([Cause::Names])));
    }

    #[test]
    fn what_cannot_be_issued_is_left_as_it_is() {
        let held = Signing::Held(authority::Reason::KeyLost);
        let hold = |cause| Decision::Hold {
            causes: BTreeSet::from([cause]),
            reason: authority::Reason::KeyLost,
        };
        assert_eq!(decide(&Entry::Missing, &wanted(), &held, &EARLY), hold(Cause::Missing));
        assert_eq!(decide(&Entry::Unreadable, &wanted(), &held, &EARLY), hold(Cause::Unreadable));
        assert_eq!(decide(&Entry::Read(good()), &wanted(), &held, &EARLY), Decision::Keep);
        let missing = decide(&Entry::Missing, &wanted(), &Signing::Allowed, &EARLY);
        assert_eq!(missing, Decision::Issue(BTreeSet::from([Cause::Missing])));
    }
}
