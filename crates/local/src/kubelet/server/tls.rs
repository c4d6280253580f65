//! TLS of the node endpoint: clients need a certificate of the configured authority with the API server's
//! common name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::error::ServerError;

/// Certificates of the endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTls {
    /// Serving certificate for the address of the node, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// CA of client certificates, in PEM.
    pub client_authority: PathBuf,
    /// The common name of the only accepted client.
    pub client_name: String,
}

impl ServerTls {
    /// Reads the files.
    pub(super) fn load(&self) -> Result<Arc<ServerConfig>, ServerError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.client_authority)? {
            roots.add(certificate).map_err(|source| ServerError::Serve {
                path: self.client_authority.clone(),
                source,
            })?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .build()
            .map_err(|source| ServerError::ClientAuthority {
                path: self.client_authority.clone(),
                source,
            })?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|source| ServerError::ReadPem { path: self.key.clone(), source })?;
        let serve = |source| ServerError::Serve { path: self.certificate.clone(), source };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(serve)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates(&self.certificate)?, key)
            .map_err(serve)?;
        // Commands need a connection upgrade, which HTTP/2 does not have.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|source| ServerError::ReadPem { path: path.to_owned(), source })
}

/// The common name of a certificate; `None` unless it has exactly one.
pub(super) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    let names = common_names(certificate.subject())?;
    <[String; 1]>::try_from(names).ok().map(|[name]| name)
}

const SET: u8 = 0x31;
const SEQUENCE: u8 = 0x30;
const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// All common names of a subject: a list of sets of type-value pairs.
fn common_names(mut subject: &[u8]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    while !subject.is_empty() {
        let (mut set, rest) = element(subject, SET)?;
        subject = rest;
        while !set.is_empty() {
            let (pair, rest) = element(set, SEQUENCE)?;
            set = rest;
            let (kind, value) = element(pair, OBJECT_ID)?;
            if kind == COMMON_NAME {
                let text = element(value, UTF8_STRING).or_else(|| element(value, PRINTABLE_STRING));
                names.push(String::from_utf8(text?.0.to_vec()).ok()?);
            }
        }
    }
    Some(names)
}

/// The content of the first element if it has this tag, and the rest.
fn element(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, input) = input.split_first()?;
    let (first, input) = input.split_first()?;
    let (length, input) = match first {
        0..=0x7f => (usize::from(*first), input),
        0x81 => (usize::from(*input.first()?), &input[1..]),
        0x82 => {
            let (bytes, rest) = input.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*bytes)), rest)
        }
        // No name is longer.
        _ => return None,
    };
    (*found == tag).then(|| input.split_at_checked(length)).flatten()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    /// A subject, and its only common name.
    type Row<'a> = (&'a [(DnType, &'a str)], Option<&'a str>);

    #[test]
    fn the_common_name_is_found_among_others() {
        let long = "x".repeat(200);
        let rows: &[Row<'_>] = &[
            (
                &[(DnType::CommonName, "kube-apiserver-kubelet-client")],
                Some("kube-apiserver-kubelet-client"),
            ),
            (
                &[(DnType::OrganizationName, "system:masters"), (DnType::CommonName, "admin")],
                Some("admin"),
            ),
            (&[(DnType::OrganizationName, &long), (DnType::CommonName, "n")], Some("n")),
            (&[(DnType::OrganizationName, "kube-apiserver-kubelet-client")], None),
            (&[], None),
        ];
        for (names, expected) in rows {
            assert_eq!(common_name(&certificate(names)).as_deref(), *expected, "{names:?}");
        }
    }

    #[test]
    fn damaged_names_are_no_names() {
        let good: &[u8] = b"\x31\x0c\x30\x0a\x06\x03\x55\x04\x03\x0c\x03abc";
        assert_eq!(common_names(good).unwrap(), ["abc"]);
        for length in 1..good.len() {
            assert_eq!(common_names(&good[..length]), None, "{length}");
        }
        assert_eq!(common_names(&[SET, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        let twice = [good, good].concat();
        assert_eq!(common_names(&twice).unwrap().len(), 2);
    }
}
