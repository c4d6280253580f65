//! The certificate of a user, signed by the clients' authority.

use std::collections::BTreeMap;

use control::certificates::leaf::Subject;
use rcgen::ExtendedKeyUsagePurpose;

use super::certificate::Certificate;
use super::issue::{self, IssueError, Issued, Names, Period, Signer};
use super::{Pkcs12Error, SecretContent, certificate, names, pkcs12};

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

/// Letters of the password of a key store.
const KEY_STORE_PASSWORD_LETTERS: usize = 32;

/// Why a user got no certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificate was not made.
    #[error("cannot issue the certificate of a user")]
    Issue(#[source] IssueError),
    /// The key store for Java was not made.
    #[error("cannot create the key store of a user")]
    KeyStore(#[source] Pkcs12Error),
}

/// The certificate that a user gets.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The name of the user.
    pub user: &'a str,
    /// For how many days it is valid.
    pub days: i64,
    /// The time, in seconds since 1970.
    pub now: i64,
    /// Whether its key is an RSA key.
    pub is_rsa: bool,
}

/// The content of the Secret of a user who shows a certificate. Kafka knows them as `User:CN=<name>`.
///
/// # Errors
/// If the key, the certificate or the key store could not be made.
pub fn issue(signer: &Signer, order: &Order<'_>) -> Result<SecretContent, Error> {
    let subject = Subject { common_name: order.user.to_owned(), organization: None };
    let usages = [ExtendedKeyUsagePurpose::ClientAuth];
    let key = if order.is_rsa { issue::new_rsa_key() } else { issue::new_key() };
    let key = key.map_err(Error::Issue)?;
    let period = Period { now: order.now, days: order.days };
    let issued = signer.issue_for(key, &subject, &Names::default(), (&usages[..], period));
    let Issued { certificate, key } = issued.map_err(Error::Issue)?;
    let ders = std::iter::once(&certificate).chain(signer.chain());
    let ders: Vec<_> = ders.map(|one| one.der.to_vec()).collect();
    let above: String = signer.chain().iter().map(Certificate::pem).collect();
    let mut content = SecretContent { data: BTreeMap::new(), annotations: BTreeMap::new() };
    put_store(&mut content, order.user, key.serialized_der(), &ders)?;
    content.put(CA_CRT, above);
    content.put(USER_CRT, certificate.pem());
    content.put(USER_KEY, key.serialize_pem());
    let (cert_generation, key_generation) = names::generations(signer.kind());
    content.annotate(cert_generation, signer.cert_generation());
    content.annotate(key_generation, signer.key_generation());
    Ok(content)
}

/// A key store with the key and the certificates that a Secret holds already, and its password. `None` if they cannot be
/// read.
///
/// # Errors
/// If the key store could not be made.
pub fn key_store(
    user: &str,
    entries: &BTreeMap<String, Vec<u8>>,
) -> Result<Option<SecretContent>, Error> {
    let entry = |name: &str| entries.get(name).map(Vec::as_slice).unwrap_or_default();
    let key = certificate::key_pair(entry(USER_KEY));
    let (Some(key), Some(own)) = (key, Certificate::first(entry(USER_CRT))) else {
        return Ok(None);
    };
    let above = Certificate::all(entry(CA_CRT)).unwrap_or_default();
    let ders: Vec<_> = std::iter::once(&own).chain(&above).map(|one| one.der.to_vec()).collect();
    let mut content = SecretContent { data: BTreeMap::new(), annotations: BTreeMap::new() };
    put_store(&mut content, user, key.serialized_der(), &ders)?;
    Ok(Some(content))
}

fn put_store(
    content: &mut SecretContent,
    user: &str,
    key: &[u8],
    chain: &[Vec<u8>],
) -> Result<(), Error> {
    let password = pkcs12::password(KEY_STORE_PASSWORD_LETTERS).map_err(Error::KeyStore)?;
    let store = pkcs12::key_store(user, key, chain, &password).map_err(Error::KeyStore)?;
    content.put(USER_P12, store);
    content.put(USER_PASSWORD, password);
    Ok(())
}

/// When the certificate of a user ends, in seconds since 1970; `None` if it cannot be read.
#[must_use]
pub fn not_after(user_crt: &[u8]) -> Option<i64> {
    Certificate::first(user_crt).map(|one| one.validity.not_after)
}

/// A random password of so many letters and digits, for a user who logs in with one. It begins with a letter, as parsers of
/// Java's login configuration want it.
///
/// # Errors
/// If the operating system has no randomness to give.
pub fn password(letters: usize) -> Result<String, Error> {
    loop {
        let password = pkcs12::password(letters).map_err(Error::KeyStore)?;
        if password.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Ok(password);
        }
    }
}
