//! One certificate of a node or of the operator: reads its Secret, asks whether it is to be issued, and
//! makes what is to be written.

use control::certificates::authority::{Reason, Signing};
use control::certificates::leaf::{self as decisions, Decision, Found, Subject};
use control::certificates::{Entry, Timing};
use rcgen::ExtendedKeyUsagePurpose;

use super::authority;
use super::certificate::{self, Certificate};
pub use super::issue::Names;
use super::issue::{IssueError, Issued, Period, Signer};
use super::{Clock, SecretContent, names};

/// What is wanted of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The names of its entries before `.crt` and `.key`: the pod, or `cluster-operator`.
    pub entry: String,
    /// Who it is for.
    pub subject: Subject,
    /// Whom it is reached by.
    pub names: Names,
    /// For how many days it holds.
    pub validity_days: i64,
    /// How many days before its end it is issued again.
    pub renewal_days: i64,
}

impl Wanted {
    /// The certificate of a node, which is a server and a client of the others.
    #[must_use]
    pub fn node(cluster: &str, pod: &str, names: Names, spec: &authority::Spec) -> Self {
        Self::new(pod, format!("{cluster}-kafka"), names, spec)
    }

    /// The operator's own certificate.
    #[must_use]
    pub fn operator(spec: &authority::Spec) -> Self {
        Self::new(names::OPERATOR, names::OPERATOR.to_owned(), Names::default(), spec)
    }

    fn new(entry: &str, common_name: String, names: Names, spec: &authority::Spec) -> Self {
        let organization = Some(names::ORGANIZATION.to_owned());
        Self {
            entry: entry.to_owned(),
            subject: Subject { common_name, organization },
            names,
            validity_days: spec.validity_days,
            renewal_days: spec.renewal_days,
        }
    }

    /// The part that the decision uses.
    pub(crate) fn decided(&self) -> decisions::Wanted {
        decisions::Wanted { subject: self.subject.clone(), names: self.names.texts() }
    }

    /// The time, and when it is renewed.
    pub(crate) const fn timing(&self, clock: &Clock) -> Timing {
        Timing { now: clock.now, renewal_days: self.renewal_days, window_open: clock.window_open }
    }

    fn certificate_entry(&self) -> String {
        format!("{}.crt", self.entry)
    }

    fn key_entry(&self) -> String {
        format!("{}.key", self.entry)
    }
}

/// What is to be written, and what is in use after that.
#[derive(Debug)]
pub struct Outcome {
    /// What was decided.
    pub decision: Decision,
    /// To be written. Entries of others in the Secret are kept.
    pub secret: Option<SecretContent>,
    /// The generation of the key that signed it, for the annotation of the pod. `None`: there is no
    /// certificate, or it says nothing about it.
    pub key_generation: Option<u64>,
    /// The SHA-1 of the certificate, for the annotation of the pod.
    pub thumbprint: Option<String>,
    /// When it ends, in seconds since 1970.
    pub not_after: Option<i64>,
    /// What a person should know, in a sentence.
    pub warning: Option<String>,
}

/// Decides about one certificate and makes what is to be written.
///
/// # Errors
/// If the certificate could not be made. What is stored stays in use.
pub fn next(
    observed: Option<&SecretContent>,
    wanted: &Wanted,
    authority: &authority::Outcome,
    clock: &Clock,
) -> Result<Outcome, IssueError> {
    let Stored { found, unannounced, .. } = stored(observed, wanted, authority);
    let signing = match unannounced {
        true => &Signing::Held(Reason::NotAnnounced),
        false => &authority.decision.signing,
    };
    let timing = wanted.timing(clock);
    let decision = decisions::decide(&found, &wanted.decided(), signing, &timing);
    let secret = match (&decision, &authority.signer, observed) {
        (Decision::Issue(_), Some(signer), _) => Some(issue(observed, wanted, signer, clock)?),
        (Decision::Keep, Some(signer), Some(content)) => adopted(content, signer),
        (Decision::Issue(_) | Decision::Keep, _, _)
        | (Decision::Waits | Decision::Hold { .. }, _, _) => None,
    };
    let warning = match &decision {
        Decision::Hold { reason, .. } => {
            Some(format!("the certificate of {} is not issued: {reason}", wanted.entry))
        }
        Decision::Keep | Decision::Waits | Decision::Issue(_) => None,
    };
    let after = secret.as_ref().or(observed);
    let entry = wanted.certificate_entry();
    let certificate = after.and_then(|content| Certificate::first(content.text(&entry)?));
    Ok(Outcome {
        key_generation: after.and_then(|one| one.number(names::CLUSTER_KEY_GENERATION)),
        thumbprint: certificate.as_ref().map(Certificate::thumbprint),
        not_after: certificate.map(|one| one.validity.not_after),
        decision,
        secret,
        warning,
    })
}

/// The SHA-1 of the certificate in an entry of a Secret.
pub(crate) fn thumbprint(content: &SecretContent, entry: &str) -> Option<String> {
    let certificate = Certificate::first(content.text(&format!("{entry}.crt"))?)?;
    Some(certificate.thumbprint())
}

/// What is stored of a certificate, for the decision.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The certificate.
    pub(crate) found: Entry<Found>,
    /// Whether another key has taken the place of the one that signed it, under the same generation.
    pub(crate) unannounced: bool,
    /// Whether the generations of an authority that may sign are to be added.
    pub(crate) unmarked: bool,
}

/// What is stored of a certificate.
pub(crate) fn stored(
    observed: Option<&SecretContent>,
    wanted: &Wanted,
    authority: &authority::Outcome,
) -> Stored {
    let found = found(observed, wanted, &authority.chain);
    let unannounced = is_unannounced(observed, &found, authority);
    let content = observed.filter(|_| found.read().is_some());
    let unmarked = content.zip(authority.signer.as_ref());
    let unmarked = unmarked.and_then(|(content, signer)| adopted(content, signer)).is_some();
    Stored { found, unannounced, unmarked }
}

fn found(
    observed: Option<&SecretContent>,
    wanted: &Wanted,
    authority: &[Certificate],
) -> Entry<Found> {
    let Some(content) = observed else { return Entry::Missing };
    let texts = (content.text(&wanted.certificate_entry()), content.text(&wanted.key_entry()));
    let (Some(certificates), Some(key)) = texts else { return Entry::Missing };
    let (Some(certificates), Some(key)) =
        (Certificate::all(certificates), certificate::key_pair(key))
    else {
        return Entry::Unreadable;
    };
    let Some((own, chain)) = certificates.split_first() else { return Entry::Unreadable };
    // Where the authority is not known, nothing speaks against what it has signed.
    let signed = authority.first().is_none_or(|authority| own.is_signed_by(authority));
    Entry::Read(Found {
        subject: own.subject.clone(),
        names: own.names.clone(),
        validity: own.validity,
        has_its_key: own.key == certificate::key_pair_id(&key),
        signed_by_current: signed,
        chain_is_current: authority.is_empty() || chain == authority,
    })
}

/// Whether another key has taken the place of the one that signed what is stored, under its generation.
fn is_unannounced(
    observed: Option<&SecretContent>,
    found: &Entry<Found>,
    authority: &authority::Outcome,
) -> bool {
    let stored = observed.and_then(|content| content.number(names::CLUSTER_KEY_GENERATION));
    let replaced = found.read().is_some_and(|found| !found.signed_by_current);
    authority.key_is_announced && replaced && stored == Some(authority.key_generation)
}

/// What is stored, marked with the key that signed it: others than us do not say so.
fn adopted(content: &SecretContent, signer: &Signer) -> Option<SecretContent> {
    let (_, key_generation) = names::generations(signer.kind());
    if content.number(key_generation).is_some() {
        return None;
    }
    let mut content = content.clone();
    mark(&mut content, signer);
    Some(content)
}

fn mark(content: &mut SecretContent, signer: &Signer) {
    let (cert_generation, key_generation) = names::generations(signer.kind());
    content.annotate(cert_generation, signer.cert_generation());
    content.annotate(key_generation, signer.key_generation());
}

fn issue(
    observed: Option<&SecretContent>,
    wanted: &Wanted,
    signer: &Signer,
    clock: &Clock,
) -> Result<SecretContent, IssueError> {
    let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let period = Period { now: clock.now, days: wanted.validity_days };
    let Issued { certificate, key } =
        signer.issue(&wanted.subject, &wanted.names, &both, period)?;
    let mut content = observed.cloned().unwrap_or_default();
    let above = signer.chain().iter().map(Certificate::pem);
    let chain: String = std::iter::once(certificate.pem()).chain(above).collect();
    content.put(wanted.certificate_entry(), chain);
    content.put(wanted.key_entry(), key.serialize_pem());
    mark(&mut content, signer);
    Ok(content)
}

#[cfg(test)]
#[path = "leaf_tests.rs"]
mod tests;
