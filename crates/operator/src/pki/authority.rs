//! One authority: reads its two Secrets, asks what to do, and makes what is to be written.

use std::collections::BTreeSet;
use std::fmt;

use control::certificates::authority::{
    self as decisions, Act, Certificates, Decision, Expiry, Facts, Keys, Kind, Settings, Signing,
    Source, Users,
};
use control::certificates::{Entry, KeyId, Stored, Timing};
use rcgen::KeyPair;
use time::OffsetDateTime;
use time::macros::format_description;

use super::certificate::{self, Certificate};
use super::issue::{self, IssueError, Period, Signer};
use super::{Clock, Pkcs12Error, SecretContent, names, pkcs12};

/// The settings of a certificate authority, from the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// What it is for.
    pub kind: Kind,
    /// Whether we make it.
    pub source: Source,
    /// What is done near its end.
    pub expiry: Expiry,
    /// For how many days its certificate holds.
    pub validity_days: i64,
    /// How many days before its end it is renewed.
    pub renewal_days: i64,
}

impl Spec {
    /// The part that the decision uses.
    #[must_use]
    pub const fn settings(&self) -> Settings {
        Settings { kind: self.kind, source: self.source, expiry: self.expiry }
    }
}

/// What is stored. A Secret that is not there is `None`; one that could not be read ends the pass
/// before it comes here.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// The Secret with the keys.
    pub keys: Option<&'a SecretContent>,
    /// The Secret with the certificates.
    pub certificates: Option<&'a SecretContent>,
    /// What the trust bundle has of this authority, if there is one.
    pub published: Option<&'a [u8]>,
}

/// What is to be written, and what can be signed after that.
pub struct Outcome {
    /// What was decided.
    pub decision: Decision,
    /// To be written first.
    pub key_secret: Option<SecretContent>,
    /// To be written second.
    pub cert_secret: Option<SecretContent>,
    /// What is trusted after that, in PEM. `None`: it is unknown, so what is published stays.
    pub trust_bundle: Option<String>,
    /// The generation of what is trusted, for the annotations of pods.
    pub cert_generation: u64,
    /// The generation of the key that signs, for the annotations of what it signs.
    pub key_generation: u64,
    /// Signs, if anything may be signed now.
    pub signer: Option<Signer>,
    /// When its certificate ends, in seconds since 1970.
    pub not_after: Option<i64>,
    /// What a person should know, in sentences.
    pub warnings: Vec<String>,
    /// The certificate that signs and those above it, also where nothing may be signed.
    pub(super) chain: Vec<Certificate>,
    /// Whether a new key must come with a new generation: where the user supplies the authority, pods that
    /// run are known to trust a key by nothing else.
    pub(super) key_is_announced: bool,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("decision", &self.decision)
            .field("key_secret", &self.key_secret)
            .field("cert_secret", &self.cert_secret)
            .field("signer", &self.signer)
            .field("warnings", &self.warnings)
            .finish_non_exhaustive()
    }
}

/// Why what was decided could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key or a certificate was not made.
    #[error("cannot create the {what} of the authority")]
    Issue {
        /// What was being made.
        what: &'static str,
        /// Why not.
        #[source]
        source: IssueError,
    },
    /// The trust store for Java was not made.
    #[error("cannot create the trust store of the authority")]
    TrustStore(#[source] Pkcs12Error),
    /// What the decision rests on is not there: a mistake of ours.
    #[error("{entry}, on which the decision is based, is missing")]
    Gone {
        /// The entry.
        entry: &'static str,
    },
}

/// The authority as it is stored. It signs nothing while a change is due.
#[must_use]
pub fn current(observed: &Observed<'_>, spec: &Spec, users: &Users<'_>, clock: &Clock) -> Outcome {
    let facts = facts(observed, spec, users, clock);
    let decision = decisions::decide(&spec.settings(), &facts);
    let is_settled = matches!(decision.act, Act::Keep | Act::Hold(_));
    let mut outcome = outcome(observed, spec.kind, decision, Written::default());
    outcome.key_is_announced = is_announced(spec, &facts);
    outcome.signer = outcome.signer.filter(|_| is_settled);
    outcome
}

/// Whether a new key must come with a new generation.
fn is_announced(spec: &Spec, facts: &Facts) -> bool {
    match spec.source {
        Source::Generated => false,
        Source::Supplied => facts.in_use != Some(false),
    }
}

/// Decides about one authority and makes what is to be written.
///
/// # Errors
/// If a key, a certificate or a store could not be made. Nothing is to be written then.
pub fn next(
    observed: &Observed<'_>,
    spec: &Spec,
    users: &Users<'_>,
    clock: &Clock,
) -> Result<Outcome, Error> {
    let facts = facts(observed, spec, users, clock);
    let decision = decisions::decide(&spec.settings(), &facts);
    let work = Work {
        spec,
        period: Period { now: clock.now, days: spec.validity_days },
        keys: observed.keys.cloned().unwrap_or_default(),
        certificates: observed.certificates.cloned().unwrap_or_default(),
        key_generation: key_generation(observed),
        // A generation that was lost goes on from the clock, later than any that a pod may have seen.
        cert_generation: match (observed.certificates, facts.in_use) {
            (Some(content), _) => content.number(names::CERT_GENERATION).unwrap_or(0),
            (None, Some(false)) => 0,
            (None, Some(true) | None) => u64::try_from(clock.now / 60).unwrap_or(0),
        },
        is_new: observed.certificates.is_none(),
    };
    let written = work.apply(&decision.act)?;
    let mut outcome = outcome(observed, spec.kind, decision, written);
    outcome.key_is_announced = is_announced(spec, &facts);
    Ok(outcome)
}

/// What an act wants written.
#[derive(Default)]
struct Written {
    keys: Option<SecretContent>,
    certificates: Option<SecretContent>,
}

fn outcome(observed: &Observed<'_>, kind: Kind, decision: Decision, written: Written) -> Outcome {
    let keys = written.keys.as_ref().or(observed.keys);
    let certificates = written.certificates.as_ref().or(observed.certificates);
    let chain = certificates.and_then(|content| Certificate::all(content.text(names::CA_CRT)?));
    let signer = match (&decision.signing, keys, certificates) {
        (Signing::Allowed, Some(keys), Some(certificates)) => {
            Signer::load(kind, keys, certificates)
        }
        (Signing::Allowed | Signing::Held(_), _, _) => None,
    };
    let number = |content: Option<&SecretContent>, name| content?.number(name);
    let mut warnings: Vec<_> = decision.notes.iter().map(ToString::to_string).collect();
    if let Signing::Held(reason) = &decision.signing {
        warnings.push(reason.to_string());
    }
    Outcome {
        trust_bundle: certificates.and_then(trust_bundle),
        cert_generation: number(certificates, names::CERT_GENERATION).unwrap_or(0),
        key_generation: number(keys, names::KEY_GENERATION).unwrap_or(0),
        not_after: chain.as_ref().and_then(|all| all.first()).map(|one| one.validity.not_after),
        chain: chain.unwrap_or_default(),
        signer,
        warnings,
        key_secret: written.keys,
        cert_secret: written.certificates,
        key_is_announced: false,
        decision,
    }
}

/// What is stored of an authority, and who uses it, for the decision.
#[must_use]
pub fn facts(observed: &Observed<'_>, spec: &Spec, users: &Users<'_>, clock: &Clock) -> Facts {
    let keys = observed.keys.map_or(Stored::Absent, |content| {
        Stored::Present(Keys {
            current: key_entry(content, names::CA_KEY),
            next: key_entry(content, names::NEXT_KEY),
            generation: content.number(names::KEY_GENERATION).unwrap_or(0),
            force_replace: content.is_asked(names::FORCE_REPLACE),
        })
    });
    let certificates = observed.certificates.map_or(Stored::Absent, |content| {
        let old = former(content).map(|name| (name.clone(), certificate_entry(content, name)));
        Stored::Present(Certificates {
            current: certificate_entry(content, names::CA_CRT),
            next: certificate_entry(content, names::NEXT_CRT),
            old: old.collect(),
            generation: content.number(names::CERT_GENERATION).unwrap_or(0),
            force_renew: content.is_asked(names::FORCE_RENEW),
        })
    });
    let published = observed.certificates.is_some_and(|content| is_published(observed, content));
    let cert_generation = observed.certificates.and_then(|one| one.number(names::CERT_GENERATION));
    let trusted = match published {
        true => users.all_trust(cert_generation.unwrap_or(0)),
        // A pod that is started now would not get to see it.
        false => Some(false),
    };
    Facts {
        keys,
        certificates,
        in_use: users.in_use(),
        trusted_by_all: trusted,
        used_by_all: users.all_use(key_generation(observed)),
        timing: Timing {
            now: clock.now,
            renewal_days: spec.renewal_days,
            window_open: clock.window_open,
        },
    }
}

/// The generation of the present key. Where its Secret is lost, what else knows it: a number that begins
/// anew would make old certificates look new.
fn key_generation(observed: &Observed<'_>) -> u64 {
    let stored = observed.keys.and_then(|content| content.number(names::KEY_GENERATION));
    let copied = || observed.certificates.and_then(|content| content.number(names::KEY_GENERATION));
    let named = || {
        let certificate = Certificate::first(observed.certificates?.text(names::CA_CRT)?)?;
        certificate.subject.common_name.rsplit_once(" v")?.1.parse().ok()
    };
    stored.or_else(copied).or_else(named).unwrap_or(0)
}

fn key_entry(content: &SecretContent, name: &str) -> Entry<KeyId> {
    match content.text(name) {
        None => Entry::Missing,
        Some(pem) => certificate::key_pair(pem)
            .map_or(Entry::Unreadable, |key| Entry::Read(certificate::key_pair_id(&key))),
    }
}

fn certificate_entry(content: &SecretContent, name: &str) -> Entry<decisions::Certificate> {
    match content.text(name) {
        None => Entry::Missing,
        Some(pem) => Certificate::first(pem).map_or(Entry::Unreadable, |one| {
            Entry::Read(decisions::Certificate { key: one.key, validity: one.validity })
        }),
    }
}

/// The entries with certificates of former keys.
fn former(content: &SecretContent) -> impl Iterator<Item = &String> {
    content.data.keys().filter(|name| {
        name.starts_with("ca-") && name.ends_with(".crt") && *name != names::NEXT_CRT
    })
}

/// All certificates of the Secret: the present ones, the next one, the former ones, and what users have
/// put beside them.
fn trusted(content: &SecretContent) -> Vec<(String, Certificate)> {
    let first = [names::CA_CRT, names::NEXT_CRT];
    let others = content.data.keys().map(String::as_str);
    let others = others.filter(|name| name.ends_with(".crt") && !first.contains(name));
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for name in first.into_iter().chain(others) {
        let certificates = content.text(name).and_then(Certificate::all).unwrap_or_default();
        for (index, certificate) in certificates.into_iter().enumerate() {
            if seen.insert(certificate.der.to_vec()) {
                let name = if index == 0 { name.to_owned() } else { format!("{name}-{index}") };
                all.push((name, certificate));
            }
        }
    }
    all
}

/// All certificates in the Secret of an authority's certificates, in PEM: what has to be trusted. `None`
/// if there is none.
#[must_use]
pub fn trust_bundle(content: &SecretContent) -> Option<String> {
    Some(bundle(content)).filter(|bundle| !bundle.is_empty())
}

fn bundle(content: &SecretContent) -> String {
    trusted(content).iter().map(|(_, certificate)| certificate.pem()).collect()
}

/// Whether the trust bundle has all that the Secret has.
fn is_published(observed: &Observed<'_>, content: &SecretContent) -> bool {
    let published = observed.published.and_then(Certificate::all).unwrap_or_default();
    let published: BTreeSet<_> = published.iter().map(|one| one.der.as_ref()).collect();
    trusted(content).iter().all(|(_, one)| published.contains(one.der.as_ref()))
}

/// What an act is done with.
struct Work<'a> {
    spec: &'a Spec,
    period: Period,
    keys: SecretContent,
    certificates: SecretContent,
    key_generation: u64,
    cert_generation: u64,
    /// Whether the Secret with the certificates is written for the first time.
    is_new: bool,
}

impl Work<'_> {
    fn apply(mut self, act: &Act) -> Result<Written, Error> {
        match act {
            Act::Keep | Act::Hold(_) => return Ok(Written::default()),
            Act::Create => {
                let key = new_key()?;
                self.keys.put(names::CA_KEY, key.serialize_pem());
                self.keys.annotate(names::KEY_GENERATION, self.key_generation);
                self.put_new(names::CA_CRT, self.key_generation, &key)?;
                return self.written(true);
            }
            Act::Finish => {
                let key = self.key(names::CA_KEY)?;
                self.put_new(names::CA_CRT, self.key_generation, &key)?;
            }
            Act::Renew(_) => self.renew()?,
            Act::Stage(_) => {
                let key = new_key()?;
                self.keys.put(names::NEXT_KEY, key.serialize_pem());
                self.keys.annotate(names::KEY_GENERATION, self.key_generation);
                self.keys.annotations.remove(names::FORCE_REPLACE);
                self.certificates.annotations.remove(names::FORCE_RENEW);
                self.put_new(names::NEXT_CRT, self.key_generation + 1, &key)?;
                return self.written(true);
            }
            Act::Publish => {
                let key = self.key(names::NEXT_KEY)?;
                self.put_new(names::NEXT_CRT, self.key_generation + 1, &key)?;
            }
            Act::Promote => {
                let key = self.keys.data.remove(names::NEXT_KEY);
                let key = key.ok_or(Error::Gone { entry: names::NEXT_KEY })?;
                self.keys.put(names::CA_KEY, key);
                self.key_generation += 1;
                self.keys.annotate(names::KEY_GENERATION, self.key_generation);
                self.promote_certificate()?;
                return self.written(true);
            }
            Act::FinishPromotion => self.promote_certificate()?,
            Act::Abandon => drop(self.certificates.data.remove(names::NEXT_CRT)),
            Act::DropOld(old) => self.certificates.data.retain(|name, _| !old.contains(name)),
        }
        self.written(false)
    }

    fn key(&self, entry: &'static str) -> Result<KeyPair, Error> {
        let key = self.keys.text(entry).and_then(certificate::key_pair);
        key.ok_or(Error::Gone { entry })
    }

    fn put_new(
        &mut self,
        entry: &'static str,
        generation: u64,
        key: &KeyPair,
    ) -> Result<(), Error> {
        let made = issue::new_authority(self.spec.kind, generation, key, self.period);
        let made = made.map_err(|source| Error::Issue { what: "certificate", source })?;
        self.certificates.put(entry, made.pem());
        Ok(())
    }

    fn renew(&mut self) -> Result<(), Error> {
        let former = self.certificates.text(names::CA_CRT).and_then(Certificate::first);
        let former = former.ok_or(Error::Gone { entry: names::CA_CRT })?;
        let renewed = issue::renewed_authority(&former, &self.key(names::CA_KEY)?, self.period);
        let renewed = renewed.map_err(|source| Error::Issue { what: "certificate", source })?;
        self.certificates.put(names::CA_CRT, renewed.pem());
        self.certificates.annotations.remove(names::FORCE_RENEW);
        Ok(())
    }

    /// The next certificate takes the place of the present one, which is kept under the time of its end.
    fn promote_certificate(&mut self) -> Result<(), Error> {
        let data = &mut self.certificates.data;
        let next = data.remove(names::NEXT_CRT).ok_or(Error::Gone { entry: names::NEXT_CRT })?;
        if let Some(former) = data.insert(names::CA_CRT.to_owned(), next) {
            let name = former_name(&former);
            let free = (0..).map(|n: u32| match n {
                0 => format!("{name}.crt"),
                n => format!("{name}-{n}.crt"),
            });
            let free = free.into_iter().find(|name| data.get(name).is_none_or(|it| *it == former));
            data.insert(free.unwrap_or(name), former);
        }
        Ok(())
    }

    /// The Secrets as they are to be written.
    fn written(mut self, with_keys: bool) -> Result<Written, Error> {
        let generation = if self.is_new { self.cert_generation } else { self.cert_generation + 1 };
        self.certificates.annotate(names::CERT_GENERATION, generation);
        self.certificates.annotate(names::KEY_GENERATION, self.key_generation);
        let stored = self.certificates.text(names::CA_PASSWORD);
        let stored = stored.and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned);
        let password = match stored.filter(|password| !password.is_empty()) {
            Some(password) => password,
            None => pkcs12::password(pkcs12::PASSWORD_LETTERS).map_err(Error::TrustStore)?,
        };
        let all: Vec<_> = trusted(&self.certificates)
            .into_iter()
            .map(|(name, certificate)| (name, certificate.der.to_vec()))
            .collect();
        let store = pkcs12::trust_store(&all, &password).map_err(Error::TrustStore)?;
        self.certificates.put(names::CA_P12, store);
        self.certificates.put(names::CA_PASSWORD, password);
        let keys = with_keys.then_some(self.keys);
        Ok(Written { keys, certificates: Some(self.certificates) })
    }
}

fn new_key() -> Result<KeyPair, Error> {
    issue::new_key().map_err(|source| Error::Issue { what: "key", source })
}

/// `ca-2027-11-15T08-00-00Z` for a certificate that ends then.
fn former_name(pem: &[u8]) -> String {
    let format = format_description!("ca-[year]-[month]-[day]T[hour]-[minute]-[second]Z");
    let end = Certificate::first(pem).map_or(0, |one| one.validity.not_after);
    let end = OffsetDateTime::from_unix_timestamp(end).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    end.format(format).unwrap_or_else(|_| "ca-former".to_owned())
}

#[cfg(test)]
#[path = "authority_tests.rs"]
pub(super) mod tests;
