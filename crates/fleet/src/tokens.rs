//! Tokens of our own, for data planes on this machine and for demonstrations: where there is no identity
//! provider, whoever has the key file is one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use crate::auth::{ADMIN_ROLE, AGENT_CLAIM, AGENT_ROLE};
use crate::config::Realm;

/// Which of all keys it is.
const KEY_ID: &str = "gregor-local";

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The key cannot be read.
    #[error("cannot read the key in {0:?}")]
    ReadKey(PathBuf, #[source] io::Error),
    /// No key can be made.
    #[error("cannot generate a key in {0:?}")]
    MakeKey(PathBuf, #[source] io::Error),
    /// It cannot be signed.
    #[error("cannot sign")]
    Sign(#[source] jsonwebtoken::errors::Error),
}

/// Signs tokens with a key of its own.
#[derive(Clone)]
pub struct Issuer {
    key: EncodingKey,
    realm: Realm,
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer").field("realm", &self.realm).finish_non_exhaustive()
    }
}

impl Issuer {
    /// With the key in this file, which is made if it is not there. Nobody else may read it.
    ///
    /// # Errors
    /// If it can be neither read nor made.
    pub fn open(file: &Path, realm: &Realm) -> Result<Self, TokenError> {
        let der = match fs::read(file) {
            Ok(der) => der,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_key(file).map_err(|error| TokenError::MakeKey(file.to_owned(), error))?
            }
            Err(error) => return Err(TokenError::ReadKey(file.to_owned(), error)),
        };
        Ok(Self { key: EncodingKey::from_ec_der(&der), realm: realm.clone() })
    }

    /// The key for those who check tokens (JWKS).
    ///
    /// # Errors
    /// If the key is none.
    pub fn jwks(&self) -> Result<Value, TokenError> {
        let mut jwk =
            Jwk::from_encoding_key(&self.key, Algorithm::ES256).map_err(TokenError::Sign)?;
        jwk.common.key_id = Some(KEY_ID.to_owned());
        Ok(json!({ "keys": [jwk] }))
    }

    /// For the agent of a data plane.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn agent(&self, plane: &str, good_for: Duration) -> Result<String, TokenError> {
        let claims = json!({
            "sub": crate::identity::account_name(plane),
            "realm_access": { "roles": [AGENT_ROLE] }, AGENT_CLAIM: plane,
        });
        self.sign(claims, good_for)
    }

    /// For a person.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn user(
        &self,
        name: &str,
        organisation: &str,
        good_for: Duration,
    ) -> Result<String, TokenError> {
        let claims = json!({ "sub": name, "username": name, "org_id": organisation });
        self.sign(claims, good_for)
    }

    /// For an administrator who may do everything.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn admin(&self, name: &str, good_for: Duration) -> Result<String, TokenError> {
        let role = format!("{ADMIN_ROLE}full");
        self.sign(json!({ "sub": name, "realm_access": { "roles": [role] } }), good_for)
    }

    fn sign(&self, mut claims: Value, good_for: Duration) -> Result<String, TokenError> {
        let until = jsonwebtoken::get_current_timestamp().saturating_add(good_for.as_secs());
        claims["exp"] = json!(until);
        claims["iss"] = json!(self.realm.issuer);
        claims["aud"] = json!(self.realm.audience);
        let header = Header { kid: Some(KEY_ID.to_owned()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, &claims, &self.key).map_err(TokenError::Sign)
    }
}

/// Whole or not at all: a file that was cut off would be no key for ever.
fn make_key(file: &Path) -> io::Result<Vec<u8>> {
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
        .map_err(io::Error::other)?;
    host::file::write(file, key.as_ref(), host::file::PRIVATE, host::file::Survives::Machine)?;
    Ok(key.as_ref().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Authenticator;
    use crate::client::Client;
    use crate::config::Auth;

    #[tokio::test]
    async fn tokens_are_good_for_whoever_knows_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key.der");
        let realm =
            Realm { issuer: "us".to_owned(), audience: "them".to_owned(), ..Realm::default() };
        let issuer = Issuer::open(&key, &realm).unwrap();
        let file = dir.path().join("jwks.json");
        fs::write(&file, issuer.jwks().unwrap().to_string()).unwrap();
        let of = || realm.clone();
        let auth = Auth {
            jwks_more: vec![file],
            agent: of(),
            public: of(),
            admin: of(),
            ..Auth::default()
        };
        let client = Client::new(Duration::from_secs(5)).unwrap();
        let authenticator = Authenticator::new(&auth, client).await.unwrap();
        let hour = Duration::from_secs(3600);
        // The key is the same after a restart.
        let again = Issuer::open(&key, &realm).unwrap();
        let claims = authenticator.check(&again.agent("p", hour).unwrap()).await.unwrap();
        assert!(claims.is_of(&realm) && claims.has_role(AGENT_ROLE));
        assert_eq!(claims.cluster.as_deref(), Some("p"));
        let other = Issuer::open(&dir.path().join("other.der"), &realm).unwrap();
        let refused = authenticator.check(&other.admin("root", hour).unwrap()).await;
        assert!(refused.is_err(), "another key with the same name");
    }
}
