//! TLS from PEM texts.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

/// Whom to trust and who we are.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    server_name: Option<String>,
}

/// What is wrong with the certificates or keys given.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A text that is not PEM, or has nothing of the kind in it.
    #[error("cannot read {what} from the PEM text")]
    Pem {
        /// What was looked for.
        what: &'static str,
        /// Why not.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// A certificate authority that rustls does not take.
    #[error("a certificate authority is not usable")]
    Authority(#[source] rustls::Error),
    /// No certificate authority in the text.
    #[error("the PEM text has no certificate authority in it")]
    NoAuthority,
    /// A certificate and key that rustls does not take, for instance because they do not belong
    /// together.
    #[error("the client certificate and key are not usable")]
    Identity(#[source] rustls::Error),
    /// No protocol version left.
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
    /// A name that no certificate could be for.
    #[error("\"{name}\" cannot be the name of a server")]
    ServerName {
        /// The name.
        name: String,
        /// Why not.
        #[source]
        source: InvalidDnsNameError,
    },
}

impl Tls {
    /// Trusts the authorities in `authorities_pem`; shows the certificate chain in `identity` (chain
    /// and key, both PEM) to servers that ask for one.
    pub fn new(authorities_pem: &[u8], identity: Option<(&[u8], &[u8])>) -> Result<Self, TlsError> {
        let pem = |what| move |source| TlsError::Pem { what, source };
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities_pem) {
            let authority = authority.map_err(pem("a certificate authority"))?;
            roots.add(authority).map_err(TlsError::Authority)?;
        }
        if roots.is_empty() {
            return Err(TlsError::NoAuthority);
        }
        // Named explicitly: a process-wide default could be set by anyone.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
                let chain = chain.map_err(pem("a client certificate"))?;
                let key = PrivateKeyDer::from_pem_slice(key).map_err(pem("a private key"))?;
                builder.with_client_auth_cert(chain, key).map_err(TlsError::Identity)?
            }
        };
        Ok(Self { config: Arc::new(config), server_name: None })
    }

    /// Expects this name in the servers' certificates instead of the host connected to.
    pub fn with_server_name(mut self, name: &str) -> Result<Self, TlsError> {
        parse_name(name)?;
        self.server_name = Some(name.to_owned());
        Ok(self)
    }

    pub(super) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// The name that the certificate of `host` must carry.
    pub(super) fn expected_name(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        parse_name(self.server_name.as_deref().unwrap_or(host))
    }
}

fn parse_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned())
        .map_err(|source| TlsError::ServerName { name: name.to_owned(), source })
}
