//! The certificate of a user, signed by the clients' authority.

use std::collections::BTreeMap;

use control::certificates::leaf::Subject;
use rcgen::ExtendedKeyUsagePurpose;

use super::certificate::Certificate;
use super::issue::{IssueError, Issued, Names, Period, Signer};
use super::{Pkcs12Error, SecretContent, names, pkcs12};

/// The certificate of the authority that signed.
pub const CA_CRT: &str = "ca.crt";
/// The user's certificate.
pub const USER_CRT: &str = "user.crt";
/// The user's key.
pub const USER_KEY: &str = "user.key";
/// Both in a key store for Java.
pub const USER_P12: &str = "user.p12";
/// The password of the key store.
pub const USER_PASSWORD: &str = "user.password";

/// Why a user got no certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificate was not made.
    #[error("cannot issue the certificate of a user")]
    Issue(#[source] IssueError),
    /// The key store for Java was not made.
    #[error("cannot make the key store of a user")]
    KeyStore(#[source] Pkcs12Error),
}

/// The content of the Secret of a user who shows a certificate. Kafka knows them as `User:CN=<name>`.
///
/// # Errors
/// If the key, the certificate or the key store could not be made.
pub fn issue(signer: &Signer, user: &str, days: i64, now: i64) -> Result<SecretContent, Error> {
    let subject = Subject { common_name: user.to_owned(), organization: None };
    let usages = [ExtendedKeyUsagePurpose::ClientAuth];
    let issued = signer.issue(&subject, &Names::default(), &usages, Period { now, days });
    let Issued { certificate, key } = issued.map_err(Error::Issue)?;
    let password = pkcs12::password().map_err(Error::KeyStore)?;
    let ders = std::iter::once(&certificate).chain(signer.chain());
    let ders: Vec<_> = ders.map(|one| one.der.to_vec()).collect();
    let store = pkcs12::key_store(user, key.serialized_der(), &ders, &password);
    let store = store.map_err(Error::KeyStore)?;
    let above: String = signer.chain().iter().map(Certificate::pem).collect();
    let mut content = SecretContent { data: BTreeMap::new(), annotations: BTreeMap::new() };
    content.put(CA_CRT, above);
    content.put(USER_CRT, certificate.pem());
    content.put(USER_KEY, key.serialize_pem());
    content.put(USER_P12, store);
    content.put(USER_PASSWORD, password);
    let (cert_generation, key_generation) = names::generations(signer.kind());
    content.annotate(cert_generation, signer.cert_generation());
    content.annotate(key_generation, signer.key_generation());
    Ok(content)
}

/// When the certificate of a user ends, in seconds since 1970; `None` if it cannot be read.
#[must_use]
pub fn not_after(user_crt: &[u8]) -> Option<i64> {
    Certificate::first(user_crt).map(|one| one.validity.not_after)
}

/// A random password, for a user who logs in with one.
///
/// # Errors
/// If the operating system has no randomness to give.
pub fn password() -> Result<String, Error> {
    pkcs12::password().map_err(Error::KeyStore)
}
