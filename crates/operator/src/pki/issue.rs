//! Makes keys and certificates.
//!
//! Every certificate has its validity set, backdated a little, and a random serial number. What we make
//! has ECDSA keys on P-256; an authority with any other key that can sign is used as it is.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use aws_lc_rs::{digest, rand};
use control::certificates::authority::Kind;
use control::certificates::leaf::Subject;
use rcgen::string::{Ia5String, PrintableString};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256,
    PublicKeyData as _, RsaKeySize, SanType, SerialNumber,
};
use time::{Duration, OffsetDateTime};
use x509_parser::asn1_rs::Tag;

use super::SecretContent;
use super::certificate::{self, Certificate};
use super::names;

/// A certificate of this very second is "not yet valid" where a clock is behind.
const BACKDATE: Duration = Duration::hours(1);

/// No more than Kubernetes' own clock can tell, and far from where dates end.
const VALIDITY_DAYS_MAX: i64 = 365_000;

/// Bytes of a serial number; 127 bits of chance, and positive.
const SERIAL_BYTES: usize = 16;

/// Why something was not issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The operating system has no randomness to give.
    #[error("the operating system provides no random numbers")]
    NoRandomness,
    /// A moment that no certificate can name.
    #[error("a certificate cannot be made for this time")]
    Time(#[source] time::error::ComponentRange),
    /// No key was made.
    #[error("cannot generate a key")]
    Key(#[source] rcgen::Error),
    /// Not a name that a certificate could be for.
    #[error("\"{name}\" cannot be in a certificate")]
    Name {
        /// The name.
        name: String,
        /// Why not.
        #[source]
        source: rcgen::Error,
    },
    /// The certificate was not made.
    #[error("cannot sign a certificate for {subject}")]
    Sign {
        /// Who it was for.
        subject: String,
        /// Why not.
        #[source]
        source: rcgen::Error,
    },
    /// The authority cannot be used to sign.
    #[error("the certificate of the authority cannot be used to sign")]
    Authority(#[source] rcgen::Error),
    /// An authority whose name cannot be written again as it is, so that no chain would lead to it.
    #[error(
        "the name of the authority has parts that cannot be written again: use one with single parts \
         such as O and CN"
    )]
    AuthorityName,
    /// What was made cannot be read.
    #[error("the certificate that was made cannot be read")]
    Unreadable,
}

/// For how long something is issued.
#[derive(Debug, Clone, Copy)]
pub(super) struct Period {
    pub(super) now: i64,
    pub(super) days: i64,
}

/// An authority that may sign now.
pub struct Signer {
    kind: Kind,
    key: KeyPair,
    key_generation: u64,
    cert_generation: u64,
    /// Its certificate, and those above it.
    chain: Vec<Certificate>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, key_generation, cert_generation, .. } = self;
        write!(f, "Signer({kind:?}, key v{key_generation}, certificates v{cert_generation})")
    }
}

/// A certificate and its key, in PEM.
pub(super) struct Issued {
    pub(super) certificate: Certificate,
    pub(super) key: KeyPair,
}

impl Signer {
    /// The authority in these Secrets; `None` if key and certificate are not there or do not fit.
    #[must_use]
    pub fn load(kind: Kind, keys: &SecretContent, certificates: &SecretContent) -> Option<Self> {
        let key = certificate::key_pair(keys.text(names::CA_KEY)?)?;
        let chain = Certificate::all(certificates.text(names::CA_CRT)?)?;
        if chain.first()?.key != certificate::key_pair_id(&key) {
            return None;
        }
        Some(Self {
            kind,
            key,
            key_generation: keys.number(names::KEY_GENERATION).unwrap_or(0),
            cert_generation: certificates.number(names::CERT_GENERATION).unwrap_or(0),
            chain,
        })
    }

    /// How often its key has been replaced.
    #[must_use]
    pub const fn key_generation(&self) -> u64 {
        self.key_generation
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) const fn cert_generation(&self) -> u64 {
        self.cert_generation
    }

    pub(super) fn chain(&self) -> &[Certificate] {
        &self.chain
    }

    /// A new key with a certificate for these names.
    pub(super) fn issue(
        &self,
        subject: &Subject,
        names: &Names,
        usages: &[ExtendedKeyUsagePurpose],
        period: Period,
    ) -> Result<Issued, IssueError> {
        self.issue_for(new_key()?, subject, names, (usages, period))
    }

    /// A certificate of this key for these names.
    pub(super) fn issue_for(
        &self,
        key: KeyPair,
        subject: &Subject,
        names: &Names,
        (usages, period): (&[ExtendedKeyUsagePurpose], Period),
    ) -> Result<Issued, IssueError> {
        let mut params = params(distinguished_name(subject), period)?;
        params.subject_alt_names = names.alternative_names()?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages.to_vec();
        params.use_authority_key_identifier_extension = true;
        let authority = self.chain.first().ok_or(IssueError::Unreadable)?;
        let issuer =
            Issuer::from_ca_cert_der(&authority.der, &self.key).map_err(IssueError::Authority)?;
        params.key_identifier_method = key_identifier(&key);
        let signed = params.signed_by(&key, &issuer);
        let signed = signed.map_err(|source| {
            let subject = subject.common_name.clone();
            IssueError::Sign { subject, source }
        })?;
        let der = signed.der().clone();
        let certificate = Certificate::new(der).ok_or(IssueError::Unreadable)?;
        // The name of a foreign authority may have been written otherwise than it is.
        if !certificate.is_signed_by(authority) {
            return Err(IssueError::AuthorityName);
        }
        Ok(Issued { certificate, key })
    }
}

/// Whom a server is reached by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// DNS names.
    pub dns: BTreeSet<String>,
    /// Addresses.
    pub addresses: BTreeSet<IpAddr>,
}

impl Names {
    pub(super) fn texts(&self) -> BTreeSet<String> {
        let addresses = self.addresses.iter().map(IpAddr::to_string);
        self.dns.iter().cloned().chain(addresses).collect()
    }

    fn alternative_names(&self) -> Result<Vec<SanType>, IssueError> {
        let dns = |name: &String| {
            let text = Ia5String::try_from(name.as_str());
            let wrong = |source| IssueError::Name { name: name.clone(), source };
            text.map(SanType::DnsName).map_err(wrong)
        };
        let mut names: Vec<_> = self.dns.iter().map(dns).collect::<Result<_, _>>()?;
        names.extend(self.addresses.iter().copied().map(SanType::IpAddress));
        Ok(names)
    }
}

/// A new key.
pub(super) fn new_key() -> Result<KeyPair, IssueError> {
    KeyPair::generate().map_err(IssueError::Key)
}

/// A new RSA key, for clients that can use no other.
pub(super) fn new_rsa_key() -> Result<KeyPair, IssueError> {
    KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).map_err(IssueError::Key)
}

/// The certificate of a new authority, signed by itself.
pub(super) fn new_authority(
    kind: Kind,
    generation: u64,
    key: &KeyPair,
    period: Period,
) -> Result<Certificate, IssueError> {
    let common_name = format!("{} v{generation}", names::authority(kind));
    let organization = Some(names::ORGANIZATION.to_owned());
    let subject = distinguished_name(&Subject { common_name, organization });
    self_signed(subject, key_identifier(key), key, period)
}

/// A later certificate for the key and the subject of this one.
pub(super) fn renewed_authority(
    former: &Certificate,
    key: &KeyPair,
    period: Period,
) -> Result<Certificate, IssueError> {
    let x509 = certificate::parse(&former.der).ok_or(IssueError::Unreadable)?;
    let subject = same_name(x509.subject()).ok_or(IssueError::AuthorityName)?;
    let identifier = x509.iter_extensions().find_map(|one| match one.parsed_extension() {
        x509_parser::extensions::ParsedExtension::SubjectKeyIdentifier(id) => {
            Some(KeyIdMethod::PreSpecified(id.0.to_vec()))
        }
        _ => None,
    });
    let identifier = identifier.unwrap_or_else(|| key_identifier(key));
    let renewed = self_signed(subject, identifier, key, period)?;
    match renewed.raw_subject == former.raw_subject && renewed.key == former.key {
        true => Ok(renewed),
        false => Err(IssueError::AuthorityName),
    }
}

fn self_signed(
    subject: DistinguishedName,
    identifier: KeyIdMethod,
    key: &KeyPair,
    period: Period,
) -> Result<Certificate, IssueError> {
    let mut params = params(subject, period)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.key_identifier_method = identifier;
    let signed = params.self_signed(key);
    let subject = "the authority".to_owned();
    let signed = signed.map_err(|source| IssueError::Sign { subject, source })?;
    Certificate::new(signed.der().clone()).ok_or(IssueError::Unreadable)
}

fn params(subject: DistinguishedName, period: Period) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject;
    let now = OffsetDateTime::from_unix_timestamp(period.now).map_err(IssueError::Time)?;
    params.not_before = now - BACKDATE;
    params.not_after = now + Duration::days(period.days.clamp(1, VALIDITY_DAYS_MAX));
    params.serial_number = Some(serial_number()?);
    Ok(params)
}

fn serial_number() -> Result<SerialNumber, IssueError> {
    let mut bytes = [0; SERIAL_BYTES];
    rand::fill(&mut bytes).map_err(|_| IssueError::NoRandomness)?;
    // Positive, and never zero.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

/// As OpenSSL writes it, so that a certificate which is made again for the key of an authority that was
/// not ours is found by what that authority has signed before.
fn key_identifier(key: &KeyPair) -> KeyIdMethod {
    let sha1 = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, key.der_bytes());
    KeyIdMethod::PreSpecified(sha1.as_ref().to_vec())
}

/// The organization comes first: Kafka shows names from their end, and `CN=…,O=…` is what its super
/// users are called.
fn distinguished_name(subject: &Subject) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(organization) = &subject.organization {
        name.push(DnType::OrganizationName, organization.as_str());
    }
    name.push(DnType::CommonName, subject.common_name.as_str());
    name
}

/// The same name; `None` if it has parts that we cannot write.
fn same_name(name: &x509_parser::x509::X509Name<'_>) -> Option<DistinguishedName> {
    let mut same = DistinguishedName::new();
    for part in name.iter_attributes() {
        let oid: Vec<u64> = part.attr_type().iter()?.collect();
        let text = part.as_str().ok()?;
        let value = match part.attr_value().header.tag() {
            Tag::Utf8String => DnValue::Utf8String(text.to_owned()),
            Tag::PrintableString => DnValue::PrintableString(PrintableString::try_from(text).ok()?),
            Tag::Ia5String => DnValue::Ia5String(Ia5String::try_from(text).ok()?),
            _ => return None,
        };
        same.push(DnType::from_oid(&oid), value);
    }
    Some(same)
}
