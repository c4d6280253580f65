//! Writes PKCS#12 stores for Java clients: trust stores, and key stores with one key.
//!
//! Certificates are no secret and are not encrypted. Keys are, with AES-256 and PBKDF2, and the whole is
//! sealed with HMAC-SHA-256: what Java has understood since 8u301 and writes itself since 17.

use std::num::NonZeroU32;

use aws_lc_rs::cipher::{AES_256, PaddedBlockEncryptingKey, UnboundCipherKey};
use aws_lc_rs::{digest, hmac, pbkdf2, rand};
use yasna::models::ObjectIdentifier;
use yasna::{DERWriter, DERWriterSeq, Tag};

/// As many as Java takes for a key; the passwords are random, so that more would guard nothing.
const ROUNDS: NonZeroU32 = NonZeroU32::new(10_000).expect("it is not zero");

/// Bytes of a salt.
const SALT_BYTES: usize = 20;

/// Length of the password of a trust store; 62 letters each, so more than 140 bits.
pub(super) const PASSWORD_LETTERS: usize = 24;

const DATA: &[u64] = &[1, 2, 840, 113_549, 1, 7, 1];
const CERT_BAG: &[u64] = &[1, 2, 840, 113_549, 1, 12, 10, 1, 3];
const SHROUDED_KEY_BAG: &[u64] = &[1, 2, 840, 113_549, 1, 12, 10, 1, 2];
const X509_CERTIFICATE: &[u64] = &[1, 2, 840, 113_549, 1, 9, 22, 1];
const FRIENDLY_NAME: &[u64] = &[1, 2, 840, 113_549, 1, 9, 20];
const LOCAL_KEY_ID: &[u64] = &[1, 2, 840, 113_549, 1, 9, 21];
/// Java takes a certificate for trusted only if it says so.
const JAVA_TRUSTED: &[u64] = &[2, 16, 840, 1, 113_894, 746_875, 1, 1];
const ANY_USAGE: &[u64] = &[2, 5, 29, 37, 0];
const PBES2: &[u64] = &[1, 2, 840, 113_549, 1, 5, 13];
const PBKDF2: &[u64] = &[1, 2, 840, 113_549, 1, 5, 12];
const HMAC_SHA256: &[u64] = &[1, 2, 840, 113_549, 2, 9];
const AES_256_CBC: &[u64] = &[2, 16, 840, 1, 101, 3, 4, 1, 42];
const SHA256: &[u64] = &[2, 16, 840, 1, 101, 3, 4, 2, 1];

/// Why a store was not written.
#[derive(Debug, thiserror::Error)]
pub enum Pkcs12Error {
    /// The operating system has no randomness to give.
    #[error("the operating system provides no random numbers")]
    NoRandomness,
    /// The key was not encrypted.
    #[error("cannot encrypt the key of a PKCS#12 store")]
    Encrypt,
}

/// A random password of so many letters and digits.
pub(super) fn password(length: usize) -> Result<String, Pkcs12Error> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut password = String::new();
    while password.len() < length {
        let mut byte = [0];
        rand::fill(&mut byte).map_err(|_| Pkcs12Error::NoRandomness)?;
        // Six bits; what is beyond the letters is drawn again, so that all are equally likely.
        if let Some(letter) = LETTERS.get(usize::from(byte[0] & 0x3f)) {
            password.push(char::from(*letter));
        }
    }
    Ok(password)
}

/// A trust store with these certificates (DER), by their names.
pub(super) fn trust_store(
    certificates: &[(String, Vec<u8>)],
    password: &str,
) -> Result<Vec<u8>, Pkcs12Error> {
    let bags = yasna::construct_der(|writer| {
        writer.write_sequence(|bags| {
            for (name, der) in certificates {
                certificate_bag(bags.next(), der, |attributes| {
                    friendly_name(attributes.next(), name);
                    attribute(attributes.next(), JAVA_TRUSTED, |value| {
                        value.write_oid(&oid(ANY_USAGE));
                    });
                });
            }
        });
    });
    sealed(&[bags], password)
}

/// A key store with this key (PKCS#8) and its chain (DER, the key's own certificate first).
pub(super) fn key_store(
    name: &str,
    key: &[u8],
    chain: &[Vec<u8>],
    password: &str,
) -> Result<Vec<u8>, Pkcs12Error> {
    // What binds a key to its certificate; only within the store.
    let id = digest::digest(&digest::SHA256, chain.first().map_or(&[], Vec::as_slice));
    let shrouded = shrouded(key, password)?;
    let keys = yasna::construct_der(|writer| {
        writer.write_sequence(|bags| {
            bags.next().write_sequence(|bag| {
                bag.next().write_oid(&oid(SHROUDED_KEY_BAG));
                bag.next().write_tagged(Tag::context(0), |value| value.write_der(&shrouded));
                bag.next().write_set(|attributes| {
                    friendly_name(attributes.next(), name);
                    attribute(attributes.next(), LOCAL_KEY_ID, |value| {
                        value.write_bytes(id.as_ref());
                    });
                });
            });
        });
    });
    let certificates = yasna::construct_der(|writer| {
        writer.write_sequence(|bags| {
            for (index, der) in chain.iter().enumerate() {
                certificate_bag(bags.next(), der, |attributes| {
                    if index == 0 {
                        friendly_name(attributes.next(), name);
                        attribute(attributes.next(), LOCAL_KEY_ID, |value| {
                            value.write_bytes(id.as_ref());
                        });
                    }
                });
            }
        });
    });
    sealed(&[keys, certificates], password)
}

fn oid(parts: &[u64]) -> ObjectIdentifier {
    ObjectIdentifier::from_slice(parts)
}

fn certificate_bag(
    writer: DERWriter<'_>,
    der: &[u8],
    attributes: impl FnOnce(&mut yasna::DERWriterSet<'_>),
) {
    writer.write_sequence(|bag| {
        bag.next().write_oid(&oid(CERT_BAG));
        bag.next().write_tagged(Tag::context(0), |value| {
            value.write_sequence(|certificate| {
                certificate.next().write_oid(&oid(X509_CERTIFICATE));
                certificate.next().write_tagged(Tag::context(0), |value| value.write_bytes(der));
            });
        });
        bag.next().write_set(attributes);
    });
}

fn friendly_name(writer: DERWriter<'_>, name: &str) {
    attribute(writer, FRIENDLY_NAME, |value| value.write_bmp_string(name));
}

fn attribute(writer: DERWriter<'_>, id: &[u64], value: impl FnOnce(DERWriter<'_>)) {
    writer.write_sequence(|attribute| {
        attribute.next().write_oid(&oid(id));
        attribute.next().write_set(|values| value(values.next()));
    });
}

/// `ContentInfo` with these bytes.
fn data(writer: DERWriter<'_>, bytes: &[u8]) {
    writer.write_sequence(|content| {
        content.next().write_oid(&oid(DATA));
        content.next().write_tagged(Tag::context(0), |value| value.write_bytes(bytes));
    });
}

/// `EncryptedPrivateKeyInfo` of this key.
fn shrouded(key: &[u8], password: &str) -> Result<Vec<u8>, Pkcs12Error> {
    let salt = salt()?;
    let mut derived = [0; 32];
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
    pbkdf2::derive(algorithm, ROUNDS, &salt, password.as_bytes(), &mut derived);
    let cipher = UnboundCipherKey::new(&AES_256, &derived).map_err(|_| Pkcs12Error::Encrypt)?;
    let cipher = PaddedBlockEncryptingKey::cbc_pkcs7(cipher).map_err(|_| Pkcs12Error::Encrypt)?;
    let mut text = key.to_vec();
    let context = cipher.encrypt(&mut text).map_err(|_| Pkcs12Error::Encrypt)?;
    let iv: &[u8] = (&context).try_into().map_err(|_| Pkcs12Error::Encrypt)?;
    Ok(yasna::construct_der(|writer| {
        writer.write_sequence(|info| {
            info.next().write_sequence(|algorithm| {
                algorithm.next().write_oid(&oid(PBES2));
                algorithm.next().write_sequence(|parts| {
                    derivation(parts, &salt);
                    parts.next().write_sequence(|scheme| {
                        scheme.next().write_oid(&oid(AES_256_CBC));
                        scheme.next().write_bytes(iv);
                    });
                });
            });
            info.next().write_bytes(&text);
        });
    }))
}

fn derivation(parts: &mut DERWriterSeq<'_>, salt: &[u8]) {
    parts.next().write_sequence(|derivation| {
        derivation.next().write_oid(&oid(PBKDF2));
        derivation.next().write_sequence(|params| {
            params.next().write_bytes(salt);
            params.next().write_u32(ROUNDS.get());
            params.next().write_u32(32);
            params.next().write_sequence(|function| {
                function.next().write_oid(&oid(HMAC_SHA256));
                function.next().write_null();
            });
        });
    });
}

/// The store with these contents, sealed with the password.
fn sealed(contents: &[Vec<u8>], password: &str) -> Result<Vec<u8>, Pkcs12Error> {
    let safe = yasna::construct_der(|writer| {
        writer.write_sequence(|all| {
            contents.iter().for_each(|content| data(all.next(), content));
        });
    });
    let salt = salt()?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, &seal_key(password, &salt));
    let seal = hmac::sign(&key, &safe);
    Ok(yasna::construct_der(|writer| {
        writer.write_sequence(|store| {
            store.next().write_u8(3);
            data(store.next(), &safe);
            store.next().write_sequence(|mac| {
                mac.next().write_sequence(|info| {
                    info.next().write_sequence(|algorithm| {
                        algorithm.next().write_oid(&oid(SHA256));
                        algorithm.next().write_null();
                    });
                    info.next().write_bytes(seal.as_ref());
                });
                mac.next().write_bytes(&salt);
                mac.next().write_u32(ROUNDS.get());
            });
        });
    }))
}

fn salt() -> Result<[u8; SALT_BYTES], Pkcs12Error> {
    let mut salt = [0; SALT_BYTES];
    rand::fill(&mut salt).map_err(|_| Pkcs12Error::NoRandomness)?;
    Ok(salt)
}

/// The key of the seal: RFC 7292, appendix B, for one output of SHA-256.
fn seal_key(password: &str, salt: &[u8]) -> [u8; 32] {
    /// What the key is for: a MAC.
    const PURPOSE: u8 = 3;
    /// The block of SHA-256.
    const BLOCK: usize = 64;
    let mut input = vec![PURPOSE; BLOCK];
    let fill = |bytes: &[u8], input: &mut Vec<u8>| {
        let length = bytes.len().div_ceil(BLOCK) * BLOCK;
        input.extend(bytes.iter().copied().cycle().take(length));
    };
    fill(salt, &mut input);
    let text: Vec<u8> = password.encode_utf16().chain([0]).flat_map(u16::to_be_bytes).collect();
    fill(&text, &mut input);
    let mut out = digest::digest(&digest::SHA256, &input);
    for _ in 1..ROUNDS.get() {
        out = digest::digest(&digest::SHA256, out.as_ref());
    }
    let mut key = [0; 32];
    key.copy_from_slice(out.as_ref());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_letters_and_digits_and_differ() {
        let one = password(PASSWORD_LETTERS).unwrap();
        assert_eq!(one.len(), PASSWORD_LETTERS);
        assert!(one.chars().all(|c| c.is_ascii_alphanumeric()));
        assert_ne!(one, password(PASSWORD_LETTERS).unwrap());
    }
}
