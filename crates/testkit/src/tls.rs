//! Certificates for the nodes of a cluster and for its clients.

use std::net::IpAddr;

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};
use time::{Duration, OffsetDateTime};

/// Enough for a demonstration that runs for a day. Always set: the default would be centuries, which some
/// clients reject.
const VALID: Duration = Duration::days(2);
/// Clocks of one machine agree, but a certificate of this very second has been "not yet valid".
const BACKDATE: Duration = Duration::hours(1);

/// A certificate authority. [`Authority::new`] creates one that no cluster trusts.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate, in PEM.
    pub certificate_pem: String,
    /// The key, PKCS#8 in PEM.
    pub key_pem: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the key.
        f.debug_tuple("Authority").field(&self.ca_pem()).finish()
    }
}

impl Authority {
    /// Creates an authority with its own key.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let now = OffsetDateTime::now_utc();
        let mut params = params(name, now - BACKDATE, now + VALID)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().context("cannot generate a key")?;
        let issuer = CertifiedIssuer::self_signed(params, key);
        Ok(Self(issuer.context("cannot make a certificate authority")?))
    }

    /// The authority's certificate, for clients to trust.
    #[must_use]
    pub fn ca_pem(&self) -> String {
        self.0.pem()
    }

    /// A client certificate; the principal is `User:CN=<name>`.
    pub fn client_certificate(&self, name: &str) -> anyhow::Result<Identity> {
        let now = OffsetDateTime::now_utc();
        let mut params = params(name, now - BACKDATE, now + VALID)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params)
    }

    /// An expired client certificate, which a cluster must reject.
    pub fn expired_client_certificate(&self) -> anyhow::Result<Identity> {
        let now = OffsetDateTime::now_utc();
        let mut params = params("expired", now - VALID, now - BACKDATE)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params)
    }

    /// A certificate for a node at this address, which is also a client of the other nodes.
    pub fn node_certificate(&self, name: &str, host: &str) -> anyhow::Result<Identity> {
        let now = OffsetDateTime::now_utc();
        let address: IpAddr = host.parse().with_context(|| format!("{host} is no address"))?;
        let mut params = params(name, now - BACKDATE, now + VALID)?;
        params.subject_alt_names = vec![SanType::IpAddress(address)];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params)
    }

    fn issue(&self, params: &CertificateParams) -> anyhow::Result<Identity> {
        let key = KeyPair::generate().context("cannot generate a key")?;
        let certificate = params.signed_by(&key, &self.0).context("cannot sign")?;
        Ok(Identity { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

fn params(
    name: &str,
    from: OffsetDateTime,
    until: OffsetDateTime,
) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new([]).context("cannot begin a certificate")?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (from, until);
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}
