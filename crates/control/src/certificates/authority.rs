//! What is done with a certificate authority: its key, its certificate, and the ones before.
//!
//! Two Secrets hold one authority: the keys (`ca.key`, and `ca-next.key` while a key is being replaced)
//! and the certificates that others trust (`ca.crt`, `ca-next.crt`, and `ca-<end>.crt` for those of
//! former keys). Every write touches one Secret, keys before certificates, and each half-done state says by itself
//! what is missing, so that a crash between two writes is finished by the next pass.
//!
//! 1. No moment exists in which a node presents a certificate that another node does not trust: a key
//!    signs only once every pod has been started with its certificate in the trust bundle, and a
//!    former certificate leaves the bundle only once no pod presents what its key signed.
//! 2. What is not known holds the stage: a pod that was not read neither trusts nor has switched.
//! 3. A key that is stored is never overwritten, except by the one that was staged to follow it. A half
//!    that is missing is made to fit the other half; there is never a third authority.
//! 4. An authority that pods know is never begun anew: lost Secrets hold, and say what to put back.
//! 5. A renewed certificate has the key and the subject of the former one, so that chains verify with
//!    either of them in the trust store of a client.
//! 6. A certificate made now is not due now, whatever was set.
//! 7. The Secrets of an authority that the user supplies are never written.
//!
//! Replacing a key goes through these stages:
//!
//! ```text
//!   Steady ──Stage──▶ Distributing ──Promote──▶ Switching ──DropOld──▶ Steady
//!   signs: g          signs: g                  signs: g+1             signs: g+1
//!   trusted: g        trusted: g, g+1           trusted: g, g+1        trusted: g+1
//! ```

use serde::{Deserialize, Serialize};

use super::time::Due;
use super::{Entry, KeyId, Stored, Timing, Validity};

/// What an authority is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// It signs for nodes and for the operator.
    Cluster,
    /// It signs for users, whose certificates are unknown.
    Clients,
}

impl Kind {
    /// The name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Clients => "clients",
        }
    }
}

/// Who makes the authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// We do.
    Generated,
    /// The user puts it into the Secrets and looks after it.
    Supplied,
}

/// What is done when the certificate is near its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Expiry {
    /// A new certificate for the same key.
    RenewCertificate,
    /// A new key, in stages.
    ReplaceKey,
}

/// The settings of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// What the authority is for.
    pub kind: Kind,
    /// Who makes it.
    pub source: Source,
    /// What is done near its end.
    pub expiry: Expiry,
}

/// A certificate of the authority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// The key it is for.
    pub key: KeyId,
    /// When it holds.
    pub validity: Validity,
}

/// The Secret with the keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Keys {
    /// `ca.key`, which signs.
    pub current: Entry<KeyId>,
    /// `ca-next.key`, which will.
    pub next: Entry<KeyId>,
    /// How often the key has been replaced, as the annotation says.
    pub generation: u64,
    /// Whether a user asks for another key.
    pub force_replace: bool,
}

/// The Secret with the certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificates {
    /// `ca.crt`.
    pub current: Entry<Certificate>,
    /// `ca-next.crt`, which is trusted but has signed nothing yet.
    pub next: Entry<Certificate>,
    /// Those of former keys, by the names of their entries.
    pub old: Vec<(String, Entry<Certificate>)>,
    /// How often what is trusted has changed, as the annotation says.
    pub generation: u64,
    /// Whether a user asks for another certificate.
    pub force_renew: bool,
}

/// What the decision rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The Secret with the keys.
    pub keys: Stored<Keys>,
    /// The Secret with the certificates.
    pub certificates: Stored<Certificates>,
    /// Whether any pod of the cluster exists.
    pub in_use: Option<bool>,
    /// Whether every pod was started with a trust bundle of the present generation, and every pod that
    /// is started now will be: the bundle is written after the certificates.
    pub trusted_by_all: Option<bool>,
    /// Whether every pod, and the operator too, presents a certificate of the present `ca.key`.
    pub used_by_all: Option<bool>,
    /// The time, and the settings about it.
    pub timing: Timing,
}

/// What to do, and what it means for those who need certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What to do. Once; the next pass looks again.
    pub act: Act,
    /// Where a replacement of the key stands after that.
    pub stage: Stage,
    /// Whether `ca.key` may sign after that.
    pub signing: Signing,
    /// What a person should know besides.
    pub notes: Vec<Note>,
}

/// What to do with the Secrets of an authority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    /// Nothing.
    Keep,
    /// Make a key and store it, then a certificate for it.
    Create,
    /// Make the certificate that is missing for the key that is stored.
    Finish,
    /// Make a new certificate with the key and subject of the present one.
    Renew(Cause),
    /// Store a new key beside the present one, then its certificate beside the present one.
    Stage(Cause),
    /// Make the certificate for the key that is stored as the next one.
    Publish,
    /// Let the next key and certificate be the present ones, and keep the former certificate.
    Promote,
    /// The key has been promoted; let its certificate follow.
    FinishPromotion,
    /// Take away a next certificate whose key is lost. It has signed nothing.
    Abandon,
    /// Take these former certificates out of the Secret.
    DropOld(Vec<String>),
    /// Nothing may be done: a person must act.
    Hold(Reason),
}

/// Why a certificate or a key is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// It is near its end.
    Expiring,
    /// A user asked for it.
    Forced,
    /// The key is lost, so that there is nothing to renew with.
    KeyLost,
}

/// Where a replacement of the key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// No replacement is going on.
    Steady,
    /// The next certificate is published; it signs when every pod trusts it.
    Distributing,
    /// The new key signs; former certificates stay until nothing they signed is presented.
    Switching,
}

/// Whether certificates can be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signing {
    /// With `ca.key`.
    Allowed,
    /// Not now. What has been issued stays in use.
    Held(Reason),
}

/// Why nothing is done or signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// The user supplies the authority and there is none.
    NotSupplied,
    /// Both Secrets are gone and pods that know the authority are there.
    Lost,
    /// Both Secrets are gone, and it is unknown whether pods exist.
    UseUnknown,
    /// There is something under `ca.key` or in its place that is no key.
    KeyUnreadable,
    /// The Secret of the key is gone, or the key in it.
    KeyLost,
    /// There is something under `ca.crt` that is no certificate.
    CertificateUnreadable,
    /// The key and the certificate do not belong together.
    Mismatch,
    /// A new key must not sign before every pod trusts it.
    NotTrustedYet,
    /// A user has replaced the key that they supply without raising its generation.
    NotAnnounced,
}

/// Something a person should know that stops nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// A supplied authority is near its end, and only the user can renew it.
    SuppliedExpires {
        /// Its last second.
        not_after: i64,
    },
    /// The renewal is put off until a maintenance window.
    WaitsForWindow {
        /// Its last second.
        not_after: i64,
    },
    /// The renewal period is longer than half of the validity.
    RenewalCapped,
    /// A user asked for a renewal or replacement that is not ours to make.
    NotOurs,
    /// The certificate was not readable and has been made again for the same key.
    CertificateRestored,
}

/// Decides what to do with the Secrets of one authority.
#[must_use]
pub fn decide(settings: &Settings, facts: &Facts) -> Decision {
    match settings.source {
        Source::Supplied => supplied(facts),
        Source::Generated => generated(settings, facts),
    }
}

fn supplied(facts: &Facts) -> Decision {
    let (Stored::Present(keys), Stored::Present(certificates)) = (&facts.keys, &facts.certificates)
    else {
        return Decision::hold(Reason::NotSupplied);
    };
    let (key, certificate) = match (&keys.current, &certificates.current) {
        (Entry::Read(key), Entry::Read(certificate)) => (key, certificate),
        (Entry::Missing, _) | (_, Entry::Missing) => return Decision::hold(Reason::NotSupplied),
        (Entry::Unreadable, _) => return Decision::hold(Reason::KeyUnreadable),
        (_, Entry::Unreadable) => return Decision::hold(Reason::CertificateUnreadable),
    };
    if *key != certificate.key {
        return Decision::hold(Reason::Mismatch);
    }
    // The user has replaced the key at once; it signs when it is trusted, or when it has been before.
    let trusted = facts.used_by_all == Some(true) || facts.trusted_by_all == Some(true);
    let mut decision = Decision::keep(Stage::Steady);
    if !trusted {
        decision.signing = Signing::Held(Reason::NotTrustedYet);
        decision.stage = Stage::Distributing;
    }
    let not_after = certificate.validity.not_after;
    match facts.timing.due(&certificate.validity) {
        Due::Now | Due::Waits => decision.notes.push(Note::SuppliedExpires { not_after }),
        Due::No => {}
    }
    if keys.force_replace || certificates.force_renew {
        decision.notes.push(Note::NotOurs);
    }
    decision
}

fn generated(settings: &Settings, facts: &Facts) -> Decision {
    match (&facts.keys, &facts.certificates) {
        (Stored::Absent, Stored::Absent) => nothing_stored(facts),
        (Stored::Present(keys), Stored::Absent) => match (&keys.current, &keys.next) {
            (Entry::Read(_), _) => Decision::new(Act::Finish, Stage::Steady, Signing::Allowed),
            (Entry::Missing, Entry::Missing) => nothing_stored(facts),
            (Entry::Missing, Entry::Read(_) | Entry::Unreadable) => Decision::hold(Reason::KeyLost),
            (Entry::Unreadable, _) => Decision::hold(Reason::KeyUnreadable),
        },
        (Stored::Absent, Stored::Present(certificates)) => {
            let none = Keys {
                current: Entry::Missing,
                next: Entry::Missing,
                generation: 0,
                force_replace: false,
            };
            with_certificates(settings, facts, &none, certificates)
        }
        (Stored::Present(keys), Stored::Present(certificates)) => {
            with_certificates(settings, facts, keys, certificates)
        }
    }
}

fn nothing_stored(facts: &Facts) -> Decision {
    match facts.in_use {
        Some(false) => Decision::new(Act::Create, Stage::Steady, Signing::Allowed),
        Some(true) => Decision::hold(Reason::Lost),
        None => Decision::hold(Reason::UseUnknown),
    }
}

fn with_certificates(
    settings: &Settings,
    facts: &Facts,
    keys: &Keys,
    certificates: &Certificates,
) -> Decision {
    let next = certificates.next.read();
    match (&keys.current, &certificates.current) {
        (Entry::Unreadable, _) => Decision::hold(Reason::KeyUnreadable),
        (Entry::Read(key), Entry::Read(current)) if *key == current.key => {
            match staged(keys, certificates, facts, Signing::Allowed) {
                Some(decision) => decision,
                None => steady(settings, facts, keys, certificates, current),
            }
        }
        (Entry::Read(key), _) if next.is_some_and(|next| next.key == *key) => {
            Decision::new(Act::FinishPromotion, Stage::Switching, Signing::Allowed)
        }
        (Entry::Read(_), Entry::Read(_)) => Decision::hold(Reason::Mismatch),
        (Entry::Read(_), Entry::Missing) => {
            Decision::new(Act::Finish, Stage::Steady, Signing::Allowed)
        }
        (Entry::Read(_), Entry::Unreadable) => {
            let decision = Decision::new(Act::Finish, Stage::Steady, Signing::Allowed);
            decision.noting(Note::CertificateRestored)
        }
        (Entry::Missing, Entry::Read(current)) => {
            let held = Signing::Held(Reason::KeyLost);
            staged(keys, certificates, facts, held)
                .unwrap_or_else(|| key_lost(facts, certificates, current))
        }
        (Entry::Missing, Entry::Missing | Entry::Unreadable) => Decision::hold(Reason::KeyLost),
    }
}

/// What a replacement that has begun asks for next; nothing if none has.
fn staged(
    keys: &Keys,
    certificates: &Certificates,
    facts: &Facts,
    signing: Signing,
) -> Option<Decision> {
    let act = match (&keys.next, &certificates.next) {
        (Entry::Missing, Entry::Missing) => return None,
        // Nothing was signed by a key that is gone before its turn.
        (Entry::Missing, Entry::Read(_) | Entry::Unreadable) => {
            return Some(Decision::new(Act::Abandon, Stage::Steady, signing));
        }
        (Entry::Unreadable, _) => Act::Hold(Reason::KeyUnreadable),
        (Entry::Read(_), Entry::Missing | Entry::Unreadable) => Act::Publish,
        (Entry::Read(key), Entry::Read(certificate)) if *key != certificate.key => Act::Publish,
        (Entry::Read(_), Entry::Read(_)) => match facts.trusted_by_all {
            Some(true) => {
                return Some(Decision::new(Act::Promote, Stage::Switching, Signing::Allowed));
            }
            Some(false) | None => Act::Keep,
        },
    };
    Some(Decision::new(act, Stage::Distributing, signing))
}

/// Key and certificate are there and belong together, and no key is staged.
fn steady(
    settings: &Settings,
    facts: &Facts,
    keys: &Keys,
    certificates: &Certificates,
    current: &Certificate,
) -> Decision {
    let signing = Signing::Allowed;
    let stage = if certificates.old.is_empty() { Stage::Steady } else { Stage::Switching };
    let due = facts.timing.due(&current.validity);
    let replace = settings.expiry == Expiry::ReplaceKey;
    let act = if keys.force_replace {
        Act::Stage(Cause::Forced)
    } else if certificates.force_renew {
        Act::Renew(Cause::Forced)
    } else if due == Due::Now && replace {
        Act::Stage(Cause::Expiring)
    } else if due == Due::Now {
        Act::Renew(Cause::Expiring)
    } else {
        match droppable(settings.kind, facts, certificates) {
            dropped if dropped.is_empty() => Act::Keep,
            dropped => Act::DropOld(dropped),
        }
    };
    let stage = match &act {
        Act::Stage(_) => Stage::Distributing,
        Act::DropOld(dropped) if dropped.len() == certificates.old.len() => Stage::Steady,
        Act::DropOld(_) | Act::Keep | Act::Renew(_) => stage,
        // Not made above.
        Act::Create
        | Act::Finish
        | Act::Publish
        | Act::Promote
        | Act::FinishPromotion
        | Act::Abandon
        | Act::Hold(_) => stage,
    };
    let mut decision = Decision::new(act, stage, signing);
    if due == Due::Waits {
        let not_after = current.validity.not_after;
        decision.notes.push(Note::WaitsForWindow { not_after });
    }
    if current.validity.is_capped(facts.timing.renewal_days) {
        decision.notes.push(Note::RenewalCapped);
    }
    decision
}

/// Former certificates that are no longer needed.
fn droppable(kind: Kind, facts: &Facts, certificates: &Certificates) -> Vec<String> {
    let unneeded = |entry: &Entry<Certificate>| match (kind, entry) {
        (Kind::Cluster, _) => facts.used_by_all == Some(true),
        // Users show what they have, which is unknown, until it has expired anyway.
        (Kind::Clients, Entry::Read(old)) => old.validity.is_expired(facts.timing.now),
        (Kind::Clients, Entry::Missing | Entry::Unreadable) => false,
    };
    let old = certificates.old.iter().filter(|(_, entry)| unneeded(entry));
    old.map(|(name, _)| name.clone()).collect()
}

/// What the key signed is good until it ends, but nothing new can be signed. A new key takes its place,
/// in stages, when the certificate has to be renewed, when a user asks, or when there are no clients.
fn key_lost(facts: &Facts, certificates: &Certificates, current: &Certificate) -> Decision {
    let due = facts.timing.due(&current.validity) == Due::Now;
    let act = match facts.in_use {
        Some(false) => Act::Stage(Cause::KeyLost),
        Some(true) | None if due || certificates.force_renew => Act::Stage(Cause::KeyLost),
        Some(true) | None => return Decision::hold(Reason::KeyLost),
    };
    Decision::new(act, Stage::Distributing, Signing::Held(Reason::KeyLost))
}

impl Decision {
    const fn new(act: Act, stage: Stage, signing: Signing) -> Self {
        Self { act, stage, signing, notes: Vec::new() }
    }

    const fn keep(stage: Stage) -> Self {
        Self::new(Act::Keep, stage, Signing::Allowed)
    }

    const fn hold(reason: Reason) -> Self {
        Self::new(Act::Hold(reason), Stage::Steady, Signing::Held(reason))
    }

    fn noting(mut self, note: Note) -> Self {
        self.notes.push(note);
        self
    }
}

/// What the annotations of a pod say about the authority at the time it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodGenerations {
    /// The generation of the trust bundle.
    pub certificates: u64,
    /// The generation of the key that signed what the pod presents.
    pub key: u64,
}

/// Who knows the authority. What could not be read is `None`, also all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Users<'a> {
    /// The pods that exist.
    pub pods: Option<&'a [Option<PodGenerations>]>,
    /// The generations of the keys that signed what is stored for the nodes and the operator. A pod
    /// that is away comes back with what is stored, so pods alone do not say what is in use.
    pub stored: Option<&'a [Option<u64>]>,
}

impl Users<'_> {
    /// Whether any pod exists.
    #[must_use]
    pub const fn in_use(&self) -> Option<bool> {
        match self.pods {
            Some(pods) => Some(!pods.is_empty()),
            None => None,
        }
    }

    /// Whether every pod was started with a trust bundle of this generation or a later one.
    #[must_use]
    pub fn all_trust(&self, generation: u64) -> Option<bool> {
        all(self.pods?, |pod| pod.certificates >= generation)
    }

    /// Whether nothing is presented, now or after a restart, that a key of an earlier generation signed.
    #[must_use]
    pub fn all_use(&self, generation: u64) -> Option<bool> {
        let pods = self.pods.and_then(|pods| all(pods, |pod| pod.key >= generation));
        let stored = self.stored.and_then(|stored| all(stored, |key| *key >= generation));
        match (pods, stored) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            (None, _) | (_, None) => None,
        }
    }
}

fn all<T>(those: &[Option<T>], holds: impl Fn(&T) -> bool) -> Option<bool> {
    // One that does not is enough to know; one that was not read is not enough to be sure.
    if those.iter().flatten().any(|one| !holds(one)) {
        return Some(false);
    }
    those.iter().all(Option::is_some).then_some(true)
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "authority_model_tests.rs"]
mod model_tests;
