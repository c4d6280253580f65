//! What is done about the credentials of a user: its certificate, or its password.

use std::collections::BTreeSet;

use super::report::Problem;
use super::resource::{Days, KeyKind, PasswordReference, Resource};
use super::settings::Settings;
use super::stored::Stored;
use crate::annotations::Annotation;

/// The longest common name that a certificate may have.
const COMMON_NAME_LETTERS_MAX: usize = 64;

/// Seconds of a day.
const DAY: i64 = 86_400;

const CERTIFICATE: [&str; 2] = ["user.crt", "user.key"];
const KEY_STORE: [&str; 2] = ["user.p12", "user.password"];
const CERTIFICATE_ENTRIES: [&str; 5] =
    ["ca.crt", "user.crt", "user.key", "user.p12", "user.password"];
const PASSWORD_ENTRIES: [&str; 2] = ["password", "sasl.jaas.config"];

/// What is known of the clients CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authority {
    /// Nothing: nobody asked.
    NotRead,
    /// A Secret or an entry is missing; which one.
    Missing(String),
    /// It is there.
    Found {
        /// A fingerprint of the entry `ca.crt`.
        print: String,
        /// Whether its key is that of its certificate.
        can_sign: bool,
    },
}

/// What was found where a password should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordFound {
    /// There is no such Secret.
    NoSecret,
    /// The Secret has no such entry.
    NoEntry,
    /// The entry is empty or no text.
    Empty,
    /// A password; its fingerprint.
    Print(String),
}

/// The entries of a Secret that are to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// As they are.
    Kept,
    /// The password that is in the Secret.
    Same,
    /// A password of the user.
    Given(PasswordEntry),
    /// A new password.
    Generated {
        /// Its letters.
        letters: usize,
    },
    /// A new key with a certificate.
    Issued {
        /// For how many days.
        days: i64,
        /// Whether it is an RSA key.
        is_rsa: bool,
    },
    /// A new key store with the key and the certificate that are in the Secret.
    KeyStore,
}

/// An entry of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PasswordEntry {
    /// The name of the Secret.
    pub secret: String,
    /// The entry.
    pub key: String,
}

impl PasswordEntry {
    /// The entry that a reference names.
    #[must_use]
    pub fn of(reference: &PasswordReference) -> Option<Self> {
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Some(Self { secret: filled(&reference.secret)?, key: filled(&reference.key)? })
    }
}

/// What is done about a password.
pub(super) struct PasswordPlan {
    pub(super) credential: Credential,
    /// Whether Kafka is given the password.
    pub(super) is_set: bool,
    /// The note of it on the Secret; `None` if it is known only when the password is made.
    pub(super) mark: Option<String>,
}

/// Decides about the password of a user. `cluster` is the id of the cluster, so that another cluster of the same name is
/// given the password too; `is_listed` says that Kafka has a credential of the user.
pub(super) fn password(
    resource: &Resource,
    given: Option<(&PasswordReference, &PasswordFound)>,
    (stored, is_listed): (Option<&Stored>, bool),
    (cluster, settings): (&str, &Settings),
) -> Result<PasswordPlan, Problem> {
    let there = stored.filter(|one| one.entries.contains(PASSWORD_ENTRIES[0]));
    let there = there.and_then(|one| Some((one, one.password.as_ref()?)));
    let (credential, print) = match given {
        Some((reference, found)) => {
            let (entry, print) = given_password(resource, reference, found)?;
            let is_same = there.is_some_and(|(_, has)| *has == print);
            (if is_same { Credential::Same } else { Credential::Given(entry) }, print)
        }
        None => match there.filter(|(one, _)| !one.asks_for_new()) {
            Some((_, print)) => (Credential::Same, print.clone()),
            None => {
                let credential = Credential::Generated { letters: settings.password_letters };
                return Ok(PasswordPlan { credential, is_set: true, mark: None });
            }
        },
    };
    let mark = format!("{cluster} {print}");
    let noted = stored.and_then(|one| one.annotation(Annotation::ScramCredential));
    let is_noted = noted == Some(mark.as_str());
    // The operator that this one replaces writes no note, but it has given Kafka what is in the Secret.
    let is_taken_over = noted.is_none()
        && stored.is_some_and(|one| one.is_of(resource))
        && credential == Credential::Same;
    let is_set = !is_listed || !(is_noted || is_taken_over);
    let fits = stored.is_some_and(|one| {
        one.login.as_deref() == Some(&resource.name) && has_only(one, &PASSWORD_ENTRIES)
    });
    let credential = match (credential, fits) {
        (Credential::Same, true) => Credential::Kept,
        (credential, _) => credential,
    };
    Ok(PasswordPlan { credential, is_set, mark: Some(mark) })
}

fn given_password(
    resource: &Resource,
    reference: &PasswordReference,
    found: &PasswordFound,
) -> Result<(PasswordEntry, String), Problem> {
    let Some(entry) = PasswordEntry::of(reference) else {
        return Err(Problem::incomplete_reference());
    };
    match found {
        PasswordFound::NoSecret => {
            Err(Problem::no_password_secret(&resource.namespace, &entry.secret))
        }
        PasswordFound::NoEntry => Err(Problem::no_password_entry(&entry.secret, &entry.key)),
        PasswordFound::Empty => Err(Problem::empty_password(&entry.secret, &entry.key)),
        PasswordFound::Print(print) => Ok((entry, print.clone())),
    }
}

/// Decides about the certificate of a user.
pub(super) fn certificate(
    resource: &Resource,
    days: Option<Days>,
    stored: Option<&Stored>,
    (authority, settings): (&Authority, &Settings),
    (now, window_is_open): (i64, bool),
) -> Result<Credential, Problem> {
    if resource.name.chars().count() > COMMON_NAME_LETTERS_MAX {
        return Err(Problem::long_name(COMMON_NAME_LETTERS_MAX));
    }
    let (print, can_sign) = match authority {
        Authority::Found { print, can_sign } => (print, *can_sign),
        Authority::Missing(what) => return Err(Problem::no_authority(what)),
        Authority::NotRead => return Err(Problem::no_authority("it was not read")),
    };
    let days =
        days.unwrap_or(Days { validity: settings.validity_days, renewal: settings.renewal_days });
    let days = days.bounded();
    let is_good = stored.is_some_and(|one| {
        let is_whole = CERTIFICATE.iter().all(|entry| one.entries.contains(*entry));
        let from = one.not_after.map(|end| end.saturating_sub(days.renewal * DAY));
        let is_due = from.is_none_or(|from| now > from && window_is_open);
        is_whole && one.authority.as_ref() == Some(print) && !one.asks_for_new() && !is_due
    });
    if !is_good {
        return match can_sign {
            true => {
                Ok(Credential::Issued { days: days.validity, is_rsa: resource.key == KeyKind::Rsa })
            }
            false => Err(Problem::authority_cannot_sign()),
        };
    }
    let has_store =
        stored.is_some_and(|one| KEY_STORE.iter().all(|entry| one.entries.contains(*entry)));
    let is_all = stored.is_some_and(|one| has_only(one, &CERTIFICATE_ENTRIES));
    Ok(match (has_store, is_all) {
        (true, true) => Credential::Kept,
        (true, false) => Credential::Same,
        (false, _) => Credential::KeyStore,
    })
}

/// Whether a Secret has these entries and no others.
fn has_only(stored: &Stored, entries: &[&str]) -> bool {
    let entries: BTreeSet<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
    stored.entries == entries
}
