//! What is in a certificate or a key, whoever made it. Only reads.

use std::collections::BTreeSet;
use std::net::IpAddr;

use aws_lc_rs::digest;
use control::certificates::leaf::Subject;
use control::certificates::{KeyId, Validity};
use objects::hash;
use rcgen::{KeyPair, PublicKeyData as _};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

/// A certificate, with what we look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) der: CertificateDer<'static>,
    pub(super) key: KeyId,
    pub(super) validity: Validity,
    pub(super) subject: Subject,
    /// The subject as it is encoded, by which issuers are found.
    pub(super) raw_subject: Vec<u8>,
    pub(super) raw_issuer: Vec<u8>,
    pub(super) names: BTreeSet<String>,
}

impl Certificate {
    /// All certificates of a PEM text; `None` if there is none or one of them cannot be read.
    pub(super) fn all(pem: &[u8]) -> Option<Vec<Self>> {
        let ders: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let all: Option<Vec<_>> = ders.ok()?.into_iter().map(Self::new).collect();
        all.filter(|all| !all.is_empty())
    }

    /// The first certificate of a PEM text.
    pub(super) fn first(pem: &[u8]) -> Option<Self> {
        Self::all(pem)?.into_iter().next()
    }

    pub(super) fn new(der: CertificateDer<'static>) -> Option<Self> {
        let x509 = parse(&der)?;
        let subject = x509.subject();
        let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            value.as_str().ok().map(str::to_owned)
        };
        let (raw_subject, raw_issuer) =
            (subject.as_raw().to_vec(), x509.issuer().as_raw().to_vec());
        let validity = Validity {
            not_before: x509.validity().not_before.timestamp(),
            not_after: x509.validity().not_after.timestamp(),
        };
        let subject = Subject {
            common_name: subject.iter_common_name().find_map(text).unwrap_or_default(),
            organization: subject.iter_organization().find_map(text),
        };
        let (key, names) = (key_id(x509.public_key().raw), names(&x509)?);
        Some(Self { key, validity, subject, raw_subject, raw_issuer, names, der })
    }

    /// Whether that authority has signed this certificate.
    pub(super) fn is_signed_by(&self, authority: &Self) -> bool {
        let (Some(own), Some(signer)) = (parse(&self.der), parse(&authority.der)) else {
            return false;
        };
        self.raw_issuer == authority.raw_subject
            && own.verify_signature(Some(signer.public_key())).is_ok()
    }

    /// The SHA-1 of the whole, by which a certificate is known in annotations. Guards nothing.
    pub(super) fn thumbprint(&self) -> String {
        let sha1 = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &self.der);
        sha1.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn pem(&self) -> String {
        pem(&self.der)
    }
}

pub(super) fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der).ok().map(|(_, x509)| x509)
}

/// A certificate as text.
pub(super) fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, left) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = left;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

/// The key in a PEM text.
pub(super) fn key_pair(pem: &[u8]) -> Option<KeyPair> {
    KeyPair::from_pem(std::str::from_utf8(pem).ok()?).ok()
}

/// How a key is known.
pub(super) fn key_pair_id(key: &KeyPair) -> KeyId {
    key_id(&key.subject_public_key_info())
}

fn key_id(public_key_info: &[u8]) -> KeyId {
    KeyId(hash::long(public_key_info))
}

/// The names and addresses as texts; `None` if they cannot be read.
fn names(x509: &X509Certificate<'_>) -> Option<BTreeSet<String>> {
    let Some(names) = x509.subject_alternative_name().ok()? else {
        return Some(BTreeSet::new());
    };
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        // Others are not ours, so that what has them is issued again.
        other => Some(other.to_string()),
    };
    names.value.general_names.iter().map(text).collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(four.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(Into::into)
}
