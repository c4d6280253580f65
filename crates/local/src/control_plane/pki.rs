//! The certificates of a control plane.
//!
//! Three certificate authorities: one for the API and its clients, one for etcd, one for the API server's
//! requests to extension servers on behalf of users. A certificate of etcd's authority grants nothing in the
//! API, and vice versa. A certificate is reissued if less than a month of its year is left, or if its names
//! change.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use super::error::Error;
use super::state::write_private;

/// As other installers do. Always set: the default would be centuries, which some clients reject.
const AUTHORITY_VALID: Duration = Duration::days(10 * 365);
const IDENTITY_VALID: Duration = Duration::days(365);
/// Checked only when a control plane starts, so it must be longer than one runs.
const RENEW_BEFORE: Duration = Duration::days(30);
/// A certificate of this very second has been "not yet valid".
const BACKDATE: Duration = Duration::hours(1);

/// The record of issued certificates.
const RECORD: &str = "certificates.json";

/// A certificate authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Authority {
    Api,
    Etcd,
    FrontProxy,
}

impl Authority {
    const ALL: [Self; 3] = [Self::Api, Self::Etcd, Self::FrontProxy];

    /// Base name of its files.
    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::Api => "ca",
            Self::Etcd => "etcd-ca",
            Self::FrontProxy => "front-proxy-ca",
        }
    }
}

/// Extended key usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    Client,
    Server,
    Both,
}

/// A kind of key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// Small and quick to generate.
    Elliptic,
    /// For the user's own programs: fabric8's client, on which most Java programs for Kubernetes are based,
    /// reads no other key from a kubeconfig.
    Rsa,
}

impl KeyKind {
    fn generate(self) -> Result<KeyPair, rcgen::Error> {
        match self {
            Self::Elliptic => KeyPair::generate(),
            Self::Rsa => {
                KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048)
            }
        }
    }
}

/// A certificate to ensure.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Base name of its files.
    pub(super) file: String,
    pub(super) authority: Authority,
    /// The user name, for a client.
    pub(super) common_name: String,
    /// The group, for a client.
    pub(super) organization: Option<&'static str>,
    pub(super) usage: Usage,
    pub(super) key: KeyKind,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) names: Vec<String>,
}

impl Wanted {
    fn client(
        file: &str,
        authority: Authority,
        common_name: &str,
        organization: Option<&'static str>,
    ) -> Self {
        Self {
            file: file.to_owned(),
            authority,
            common_name: common_name.to_owned(),
            organization,
            usage: Usage::Client,
            key: KeyKind::Elliptic,
            addresses: Vec::new(),
            names: Vec::new(),
        }
    }

    fn server(file: &str, authority: Authority, usage: Usage) -> Self {
        Self {
            file: file.to_owned(),
            authority,
            common_name: file.to_owned(),
            organization: None,
            usage,
            key: KeyKind::Elliptic,
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            names: vec!["localhost".to_owned()],
        }
    }
}

/// The group with all permissions.
const MASTERS: &str = "system:masters";

/// All certificates of the control plane. `api_service` is the address of the API inside of pods.
fn wanted(api_service: Ipv4Addr) -> Vec<Wanted> {
    use Authority::{Api, Etcd, FrontProxy};
    let mut api_server = Wanted::server("apiserver", Api, Usage::Server);
    api_server.addresses.push(IpAddr::V4(api_service));
    let service = ["", ".default", ".default.svc", ".default.svc.cluster.local"];
    api_server.names.extend(service.map(|end| format!("kubernetes{end}")));
    let admin = Wanted::client("admin", Api, "gregor-admin", Some(MASTERS));
    vec![
        // etcd's gateway is a client of etcd, with the server's certificate.
        Wanted::server("etcd-server", Etcd, Usage::Both),
        Wanted::server("etcd-peer", Etcd, Usage::Both),
        Wanted::client("etcd-client", Etcd, "kube-apiserver", None),
        api_server,
        Wanted::client("apiserver-kubelet-client", Api, "kube-apiserver-kubelet-client", None),
        Wanted::client("front-proxy-client", FrontProxy, "front-proxy-client", None),
        Wanted::server("controller-manager-server", Api, Usage::Server),
        Wanted::client("controller-manager", Api, "system:kube-controller-manager", None),
        Wanted::server("scheduler-server", Api, Usage::Server),
        Wanted::client("scheduler", Api, "system:kube-scheduler", None),
        Wanted { key: KeyKind::Rsa, ..admin },
    ]
}

/// The certificates of a node: as a client of the API, and as a server.
fn wanted_for_node(name: &str, addresses: &[IpAddr]) -> [Wanted; 2] {
    let user = format!("system:node:{name}");
    let file = format!("node-{name}");
    let client = Wanted::client(&file, Authority::Api, &user, Some("system:nodes"));
    let mut server = Wanted::server(&format!("{file}-server"), Authority::Api, Usage::Server);
    server.common_name = user;
    server.names.push(name.to_owned());
    let others = addresses.iter().filter(|address| !server.addresses.contains(address));
    let others: Vec<_> = others.copied().collect();
    server.addresses.extend(others);
    [client, server]
}

/// Paths of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFiles {
    /// The certificate, in PEM.
    pub certificate: PathBuf,
    /// The key, PKCS#8 in PEM.
    pub key: PathBuf,
}

/// What was issued, to know when to reissue it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record(BTreeMap<String, Issued>);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Issued {
    /// Seconds since 1970.
    not_after: i64,
    /// The certified content, as text.
    content: String,
}

/// The certificates and keys of one control plane.
#[derive(Debug, Clone)]
pub(super) struct Pki {
    dir: PathBuf,
}

impl Pki {
    /// Loads the certificates from a directory; creates missing ones and reissues expiring ones.
    pub(super) fn ensure(dir: &Path, api_service: Ipv4Addr) -> Result<Self, Error> {
        let pki = Self { dir: dir.to_owned() };
        let mut record = pki.read_record()?;
        for authority in Authority::ALL {
            pki.ensure_authority(authority, &mut record)?;
        }
        pki.ensure_identities(&wanted(api_service), &mut record)?;
        pki.ensure_service_account_key()?;
        Ok(pki)
    }

    /// The client and the serving certificate of a node.
    pub(super) fn ensure_node(
        &self,
        name: &str,
        addresses: &[IpAddr],
    ) -> Result<[KeyFiles; 2], Error> {
        let wanted = wanted_for_node(name, addresses);
        let mut record = self.read_record()?;
        self.ensure_identities(&wanted, &mut record)?;
        Ok(wanted.map(|one| self.files(&one.file)))
    }

    /// The files of an identity or authority.
    pub(super) fn files(&self, name: &str) -> KeyFiles {
        KeyFiles {
            certificate: self.dir.join(format!("{name}.crt")),
            key: self.dir.join(format!("{name}.key")),
        }
    }

    /// Keys of service account tokens: private, public.
    pub(super) fn service_account_keys(&self) -> [PathBuf; 2] {
        [self.dir.join("service-account.key"), self.dir.join("service-account.pub")]
    }

    fn read_record(&self) -> Result<Record, Error> {
        // If the record is lost or damaged, all certificates are reissued.
        let text = fs::read(self.dir.join(RECORD)).unwrap_or_default();
        Ok(serde_json::from_slice(&text).unwrap_or_default())
    }

    fn write_record(&self, record: &Record) -> Result<(), Error> {
        let path = self.dir.join(RECORD);
        let text = serde_json::to_vec_pretty(record)
            .map_err(|source| Error::Damaged { path: path.clone(), source })?;
        write_private(&path, &text)
    }

    fn ensure_authority(&self, authority: Authority, record: &mut Record) -> Result<(), Error> {
        let name = authority.file();
        let files = self.files(name);
        let content = format!("authority {name}");
        if is_current(record, name, &content, &files) {
            return Ok(());
        }
        // A renewed authority keeps its key, so that issued certificates stay valid.
        let key = match fs::read_to_string(&files.key) {
            Ok(pem) => KeyPair::from_pem(&pem).map_err(certificate_error(name))?,
            Err(_) => KeyPair::generate().map_err(certificate_error(name))?,
        };
        let params = authority_params(authority)?;
        let certificate = params.self_signed(&key).map_err(certificate_error(name))?;
        write_private(&files.key, key.serialize_pem().as_bytes())?;
        write_private(&files.certificate, certificate.pem().as_bytes())?;
        let not_after = params.not_after.unix_timestamp();
        record.0.insert(name.to_owned(), Issued { not_after, content });
        self.write_record(record)
    }

    fn ensure_identities(&self, wanted: &[Wanted], record: &mut Record) -> Result<(), Error> {
        let mut issued = false;
        for one in wanted {
            let files = self.files(&one.file);
            let content = format!("{one:?}");
            if is_current(record, &one.file, &content, &files) {
                continue;
            }
            let not_after = self.issue(one, &files)?;
            record.0.insert(one.file.clone(), Issued { not_after, content });
            issued = true;
        }
        if issued { self.write_record(record) } else { Ok(()) }
    }

    fn issue(&self, wanted: &Wanted, files: &KeyFiles) -> Result<i64, Error> {
        let authority_files = self.files(wanted.authority.file());
        let pem = fs::read_to_string(&authority_files.key)
            .map_err(Error::io("read", &authority_files.key))?;
        let authority_key = KeyPair::from_pem(&pem).map_err(certificate_error(&wanted.file))?;
        let authority = authority_params(wanted.authority)?;
        let issuer = Issuer::from_params(&authority, authority_key);
        let params = identity_params(wanted)?;
        let key = wanted.key.generate().map_err(certificate_error(&wanted.file))?;
        let certificate =
            params.signed_by(&key, &issuer).map_err(certificate_error(&wanted.file))?;
        write_private(&files.key, key.serialize_pem().as_bytes())?;
        write_private(&files.certificate, certificate.pem().as_bytes())?;
        Ok(params.not_after.unix_timestamp())
    }

    /// Never renewed: all tokens would become invalid.
    fn ensure_service_account_key(&self) -> Result<(), Error> {
        let [private, public] = self.service_account_keys();
        if private.exists() && public.exists() {
            return Ok(());
        }
        let key = KeyPair::generate().map_err(certificate_error("service-account"))?;
        write_private(&private, key.serialize_pem().as_bytes())?;
        write_private(&public, key.public_key_pem().as_bytes())
    }
}

fn is_current(record: &Record, name: &str, content: &str, files: &KeyFiles) -> bool {
    let enough = OffsetDateTime::now_utc() + RENEW_BEFORE;
    let issued = record.0.get(name).is_some_and(|issued| {
        issued.content == content && issued.not_after > enough.unix_timestamp()
    });
    issued && files.certificate.exists() && files.key.exists()
}

/// Only names and usage matter to what the authority signs, so its certificate can be recreated for a stored
/// key.
fn authority_params(authority: Authority) -> Result<CertificateParams, Error> {
    let name = format!("gregor-{}", authority.file());
    let mut params = params(&name, AUTHORITY_VALID)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn identity_params(wanted: &Wanted) -> Result<CertificateParams, Error> {
    let mut params = params(&wanted.common_name, IDENTITY_VALID)?;
    if let Some(organization) = wanted.organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    for name in &wanted.names {
        let name = name.as_str().try_into().map_err(certificate_error(&wanted.file))?;
        params.subject_alt_names.push(SanType::DnsName(name));
    }
    let addresses = wanted.addresses.iter().copied().map(SanType::IpAddress);
    params.subject_alt_names.extend(addresses);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    params.extended_key_usages = match wanted.usage {
        Usage::Client => vec![ClientAuth],
        Usage::Server => vec![ServerAuth],
        Usage::Both => vec![ServerAuth, ClientAuth],
    };
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn params(name: &str, valid: Duration) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new([]).map_err(certificate_error(name))?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let now = OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = (now - BACKDATE, now + valid);
    Ok(params)
}

fn certificate_error(name: &str) -> impl FnOnce(rcgen::Error) -> Error {
    let name = name.to_owned();
    move |source| Error::Certificate { name, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(pki: &Pki, name: &str, change: impl FnOnce()) -> [bool; 2] {
        let read = || {
            [&pki.files(name).certificate, &pki.files(name).key].map(|path| fs::read(path).unwrap())
        };
        let before = read();
        change();
        let after = read();
        [before[0] != after[0], before[1] != after[1]]
    }

    /// Pretends that this many days are left.
    fn age(pki: &Pki, name: &str, days_left: i64) {
        let mut record = pki.read_record().unwrap();
        let end = OffsetDateTime::now_utc() + Duration::days(days_left);
        record.0.get_mut(name).unwrap().not_after = end.unix_timestamp();
        pki.write_record(&record).unwrap();
    }

    #[test]
    fn certificates_are_kept_until_a_month_before_their_end() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::ensure(dir.path(), Ipv4Addr::LOCALHOST).unwrap();
        let again = || drop(Pki::ensure(dir.path(), Ipv4Addr::LOCALHOST).unwrap());
        assert_eq!(changed(&pki, "apiserver", again), [false, false]);
        age(&pki, "apiserver", 31);
        assert_eq!(changed(&pki, "apiserver", again), [false, false]);
        age(&pki, "apiserver", 29);
        assert_eq!(changed(&pki, "apiserver", again), [true, true]);
        assert_eq!(changed(&pki, "apiserver", again), [false, false]);
        // Certificates that the authority signed stay valid, because it keeps its key.
        age(&pki, "ca", 29);
        assert_eq!(changed(&pki, "ca", again), [true, false]);
        let remove = || {
            fs::remove_file(pki.files("etcd-client").key).unwrap();
            again();
        };
        assert_eq!(changed(&pki, "etcd-client", remove), [true, true]);
    }

    #[test]
    fn a_node_with_another_address_gets_another_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::ensure(dir.path(), Ipv4Addr::LOCALHOST).unwrap();
        let at = |last: u8| [IpAddr::V4(Ipv4Addr::new(127, 1, 0, last))];
        let [client, server] = pki.ensure_node("a", &at(1)).unwrap();
        assert_eq!(client, pki.files("node-a"));
        assert_eq!(server, pki.files("node-a-server"));
        let again = |last| drop(pki.ensure_node("a", &at(last)).unwrap());
        assert_eq!(changed(&pki, "node-a-server", || again(1)), [false, false]);
        assert_eq!(changed(&pki, "node-a-server", || again(2)), [true, true]);
        assert_eq!(changed(&pki, "node-a", || again(3)), [false, false]);
    }
}
