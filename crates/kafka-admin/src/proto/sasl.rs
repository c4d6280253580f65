//! SASL on the client's side: PLAIN, and SCRAM-SHA-512 (RFC 5802 with SHA-512).
//!
//! The nonce comes from outside, so an exchange is a function of its inputs.

use std::fmt;
use std::num::NonZeroU32;

use aws_lc_rs::{constant_time, digest, hmac, pbkdf2};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bytes of a SHA-512 digest.
pub(crate) const SHA512_BYTES: usize = digest::SHA512_OUTPUT_LEN;

/// More rounds than any sane server asks for. Each takes time, so the number is not believed blindly.
const ITERATIONS_MAX: u32 = 1_000_000;

/// RFC 5802 and Kafka take no fewer.
const ITERATIONS_MIN: u32 = 4096;

/// A text that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Who we are to a SASL listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Mechanism PLAIN: the password itself travels, so only over TLS outside of tests.
    Plain {
        /// The user's name.
        username: String,
        /// The user's password.
        password: Secret,
    },
    /// Mechanism SCRAM-SHA-512.
    ScramSha512 {
        /// The user's name.
        username: String,
        /// The user's password.
        password: Secret,
    },
}

impl Credentials {
    /// The mechanism's name on the wire.
    #[must_use]
    pub fn mechanism(&self) -> &'static str {
        match self {
            Credentials::Plain { .. } => "PLAIN",
            Credentials::ScramSha512 { .. } => "SCRAM-SHA-512",
        }
    }
}

/// Why an exchange failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// The node does not offer the mechanism on this listener.
    #[error("the listener does not take {wanted} (it offers: {})", offered.join(", "))]
    Mechanism {
        /// What we wanted.
        wanted: &'static str,
        /// What it offers.
        offered: Vec<String>,
    },
    /// The node said no.
    #[error("authentication failed: {message}")]
    Refused {
        /// In its words.
        message: String,
    },
    /// The node's side of the exchange does not hold: it may not know the password either.
    #[error("the server's side of the SCRAM exchange is wrong: {what}")]
    Server {
        /// What is wrong.
        what: &'static str,
    },
}

/// An exchange under way.
#[derive(Debug)]
pub(super) enum Exchange {
    Plain,
    ScramFirst { password: Secret, nonce: String, bare: String },
    ScramFinal { expected: hmac::Tag },
    Done,
}

impl Exchange {
    /// The exchange and its first message.
    pub(super) fn start(credentials: &Credentials, nonce: &str) -> (Self, Vec<u8>) {
        match credentials {
            Credentials::Plain { username, password } => {
                let message = format!("\0{username}\0{}", password.expose());
                (Exchange::Plain, message.into_bytes())
            }
            Credentials::ScramSha512 { username, password } => {
                let name = username.replace('=', "=3D").replace(',', "=2C");
                let bare = format!("n={name},r={nonce}");
                let message = format!("n,,{bare}").into_bytes();
                let password = password.clone();
                (Exchange::ScramFirst { password, nonce: nonce.to_owned(), bare }, message)
            }
        }
    }

    /// Takes the server's message; gives the next of ours, or `None` when all is proved.
    pub(super) fn step(&mut self, message: &[u8]) -> Result<Option<Vec<u8>>, SaslError> {
        match std::mem::replace(self, Exchange::Done) {
            Exchange::Plain => Ok(None),
            Exchange::ScramFirst { password, nonce, bare } => {
                let (answer, expected) = answer_challenge(&password, &nonce, &bare, message)?;
                *self = Exchange::ScramFinal { expected };
                Ok(Some(answer))
            }
            Exchange::ScramFinal { expected } => verify_server(&expected, message).map(|()| None),
            Exchange::Done => Err(SaslError::Server { what: "a message after the last one" }),
        }
    }
}

fn answer_challenge(
    password: &Secret,
    nonce: &str,
    bare: &str,
    challenge: &[u8],
) -> Result<(Vec<u8>, hmac::Tag), SaslError> {
    let wrong = |what| SaslError::Server { what };
    let challenge = std::str::from_utf8(challenge).map_err(|_| wrong("it is not text"))?;
    let mut fields = challenge.split(',');
    let mut field = |name| fields.next().and_then(|field| field.strip_prefix(name));
    let server_nonce = field("r=").ok_or(wrong("no nonce"))?;
    let salt = field("s=").and_then(|salt| STANDARD.decode(salt).ok()).ok_or(wrong("no salt"))?;
    let iterations = field("i=").and_then(|count| count.parse().ok()).ok_or(wrong("no count"))?;
    if !server_nonce.starts_with(nonce) || server_nonce.len() == nonce.len() {
        return Err(wrong("its nonce is not an extension of ours"));
    }
    if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
        return Err(wrong("its iteration count is out of bounds"));
    }

    let without_proof = format!("c=biws,r={server_nonce}");
    let signed = format!("{bare},{challenge},{without_proof}");
    let salted = salted_password(password, &salt, iterations);
    let client_key = sign(salted.as_ref(), b"Client Key");
    let stored_key = digest::digest(&digest::SHA512, client_key.as_ref());
    let signature = sign(stored_key.as_ref(), signed.as_bytes());
    let proof: Vec<u8> =
        client_key.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
    let server_key = sign(salted.as_ref(), b"Server Key");
    let expected = sign(server_key.as_ref(), signed.as_bytes());
    let message = format!("{without_proof},p={}", STANDARD.encode(proof));
    Ok((message.into_bytes(), expected))
}

fn verify_server(expected: &hmac::Tag, message: &[u8]) -> Result<(), SaslError> {
    let text = String::from_utf8_lossy(message);
    if let Some(error) = text.strip_prefix("e=") {
        return Err(SaslError::Refused { message: error.to_owned() });
    }
    let signature = text.strip_prefix("v=").and_then(|v| STANDARD.decode(v).ok());
    let signature = signature.ok_or(SaslError::Server { what: "no signature" })?;
    constant_time::verify_slices_are_equal(expected.as_ref(), &signature)
        .map_err(|_| SaslError::Server { what: "its signature does not prove the password" })
}

/// What the password becomes with this salt: the value that Kafka stores a form of.
pub(crate) fn salted_password(password: &Secret, salt: &[u8], rounds: u32) -> [u8; SHA512_BYTES] {
    let rounds = NonZeroU32::new(rounds).unwrap_or(NonZeroU32::MIN);
    let mut salted = [0; SHA512_BYTES];
    let password = password.expose().as_bytes();
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA512, rounds, salt, password, &mut salted);
    salted
}

fn sign(key: &[u8], message: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA512, key), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scram() -> Credentials {
        Credentials::ScramSha512 { username: "user".into(), password: Secret::new("pencil") }
    }

    #[test]
    fn plain_sends_name_and_password() {
        let plain = Credentials::Plain { username: "a".into(), password: Secret::new("b") };
        let (mut exchange, message) = Exchange::start(&plain, "unused");
        assert_eq!(message, b"\0a\0b");
        assert_eq!(exchange.step(b""), Ok(None));
    }

    #[test]
    fn secrets_are_not_shown() {
        assert!(!format!("{:?}", scram()).contains("pencil"));
        assert!(!format!("{:?}", Exchange::start(&scram(), "n")).contains("pencil"));
    }

    #[test]
    fn names_are_escaped() {
        let credentials =
            Credentials::ScramSha512 { username: "a=b,c".into(), password: Secret::new("x") };
        assert_eq!(Exchange::start(&credentials, "N").1, b"n,,n=a=3Db=2Cc,r=N");
    }

    /// An exchange computed with another implementation (Python's hashlib and hmac).
    #[test]
    fn the_exchange_with_sha_512_is_that_of_the_rfc() {
        let (mut exchange, first) = Exchange::start(&scram(), "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(first, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge = include_str!("../../testdata/scram/challenge").trim_end();
        let answer = include_str!("../../testdata/scram/answer").trim_end();
        let proof = include_str!("../../testdata/scram/server-final").trim_end();
        let message = exchange.step(challenge.as_bytes()).unwrap().unwrap();
        assert_eq!(String::from_utf8(message).unwrap(), answer);
        assert_eq!(exchange.step(proof.as_bytes()), Ok(None));
        assert!(exchange.step(proof.as_bytes()).is_err());
    }

    #[test]
    fn a_server_that_does_not_know_the_password_is_found_out() {
        let (mut exchange, _) = Exchange::start(&scram(), "N");
        exchange.step(b"r=Nx,s=c2FsdA==,i=4096").unwrap();
        assert!(matches!(exchange.step(b"v=AAAA"), Err(SaslError::Server { .. })));
        let (mut exchange, _) = Exchange::start(&scram(), "N");
        exchange.step(b"r=Nx,s=c2FsdA==,i=4096").unwrap();
        let refused = SaslError::Refused { message: "invalid-proof".into() };
        assert_eq!(exchange.step(b"e=invalid-proof"), Err(refused));
    }

    #[test]
    fn challenges_that_are_none_are_errors() {
        for challenge in [
            "",
            "r=N,s=c2FsdA==,i=4096",            // nothing added to our nonce
            "r=other,s=c2FsdA==,i=4096",        // not our nonce
            "r=Nx,s=!,i=4096",                  // salt is not base64
            "r=Nx,s=c2FsdA==,i=1",              // too few rounds
            "r=Nx,s=c2FsdA==,i=4294967295",     // a time bomb
            "r=Nx,s=c2FsdA==,i=99999999999999", // not even a number of 32 bits
            "s=c2FsdA==,r=Nx,i=4096",           // wrong order
        ] {
            let (mut exchange, _) = Exchange::start(&scram(), "N");
            assert!(exchange.step(challenge.as_bytes()).is_err(), "{challenge}");
        }
        let (mut exchange, _) = Exchange::start(&scram(), "N");
        assert!(exchange.step(&[0xff, 0xfe]).is_err());
    }
}
