//! Who asks: tokens that are signed with RS256 or ES256 by a key that is known.
//!
//! 1. No other algorithm is accepted, whatever a token says of itself.
//! 2. A key that is not known is looked for once more, but not more often than every few seconds: tokens of
//!    strangers must not make us ask the issuer.
//! 3. No token is logged or stored.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use crate::client::{Client, ClientError};
use crate::config::{Auth, Realm};

/// The role of agents.
pub const AGENT_ROLE: &str = "kas_fleetshard_operator";

/// The claim with the id of an agent's data plane.
pub const AGENT_CLAIM: &str = "kas-fleetshard-operator-cluster-id";

/// The beginning of the roles of administrators, which end with `read`, `write` or `full`.
pub const ADMIN_ROLE: &str = "kas-fleet-manager-admin-";

/// How long a token that was checked is not checked again. A key that is taken back is good for so long.
const CHECKED_FOR: Duration = Duration::from_secs(60);

/// As many checked tokens as are remembered.
const CHECKED_MAX: usize = 50_000;

/// Keys are not asked for more often than this.
const KEYS_PAUSE: Duration = Duration::from_secs(5);

/// Keys are asked for at least this often, to notice those that were taken back.
const KEYS_AGE_MAX: Duration = Duration::from_secs(300);

/// Why a token is not good.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// It is no token, has run out, or its signature is wrong.
    #[error("the token is not good")]
    Token(#[source] jsonwebtoken::errors::Error),
    /// Nobody we know has signed it.
    #[error("the key of the token is not known")]
    UnknownKey,
    /// The keys cannot be had.
    #[error("cannot get the keys that sign tokens")]
    Keys(#[source] KeysError),
}

/// Why keys cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file cannot be read.
    #[error("cannot read {0:?}")]
    File(PathBuf, #[source] std::io::Error),
    /// They are not served.
    #[error("cannot ask for them")]
    Ask(#[source] ClientError),
    /// They are no keys.
    #[error("what was found are no keys")]
    Parse(#[source] serde_json::Error),
}

/// What a token says.
#[derive(Debug, Clone, Deserialize)]
pub struct Claims {
    /// Who it is about.
    #[serde(default)]
    pub sub: String,
    /// Who has signed it.
    #[serde(default)]
    pub iss: String,
    /// For whom.
    #[serde(default)]
    pub aud: Audience,
    /// Until when, in seconds since 1970.
    pub exp: u64,
    /// The name of a person.
    #[serde(default, alias = "preferred_username")]
    pub username: Option<String>,
    /// The organisation of a person.
    #[serde(default, alias = "rh-org-id")]
    pub org_id: Option<String>,
    /// Whether that person may change what others of the organisation have.
    #[serde(default)]
    pub is_org_admin: bool,
    /// Roles.
    #[serde(default)]
    pub realm_access: Roles,
    /// The data plane of an agent.
    #[serde(default, rename = "kas-fleetshard-operator-cluster-id")]
    pub cluster: Option<String>,
}

/// For whom a token is: one name, or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Default for Audience {
    fn default() -> Self {
        Audience::Many(Vec::new())
    }
}

/// Roles in a realm.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Roles {
    /// Their names.
    #[serde(default)]
    pub roles: Vec<String>,
}

impl Claims {
    /// Whether it was signed by that realm and for us.
    #[must_use]
    pub fn is_of(&self, realm: &Realm) -> bool {
        let for_us = match &self.aud {
            Audience::One(one) => *one == realm.audience,
            Audience::Many(many) => many.contains(&realm.audience),
        };
        self.iss == realm.issuer && for_us
    }

    /// Whether it has that role.
    #[must_use]
    pub fn has_role(&self, role: &str) -> bool {
        self.realm_access.roles.iter().any(|one| one == role)
    }
}

/// Checks tokens.
#[derive(Debug)]
pub struct Authenticator {
    files: Vec<PathBuf>,
    url: Option<String>,
    client: Client,
    keys: tokio::sync::RwLock<Keys>,
    checked: Mutex<HashMap<[u8; 32], (Claims, Instant)>>,
}

#[derive(Debug, Default)]
struct Keys {
    by_id: HashMap<String, (Algorithm, DecodingKeyBox)>,
    asked: Option<Instant>,
}

/// A key, without a way to print it.
struct DecodingKeyBox(DecodingKey);

impl std::fmt::Debug for DecodingKeyBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a key")
    }
}

impl Authenticator {
    /// Checks tokens with the keys that are configured.
    ///
    /// # Errors
    /// If the keys cannot be had.
    pub async fn new(auth: &Auth, client: Client) -> Result<Self, AuthError> {
        let authenticator = Self {
            files: auth.jwks_file.iter().chain(&auth.jwks_more).cloned().collect(),
            url: auth.jwks_url.clone(),
            client,
            keys: tokio::sync::RwLock::default(),
            checked: Mutex::default(),
        };
        authenticator.load_keys().await?;
        Ok(authenticator)
    }

    /// What a token says, if it is good. Whose it is has to be looked at besides.
    ///
    /// # Errors
    /// If it is not good.
    pub async fn check(&self, token: &str) -> Result<Claims, AuthError> {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(claims) = self.remembered(&hash) {
            return Ok(claims);
        }
        let header = jsonwebtoken::decode_header(token).map_err(AuthError::Token)?;
        let id = header.kid.unwrap_or_default();
        if self.is_stale(&id).await {
            self.load_keys().await?;
        }
        let keys = self.keys.read().await;
        let (algorithm, key) = keys.by_id.get(&id).ok_or(AuthError::UnknownKey)?;
        let mut validation = Validation::new(*algorithm);
        // The issuer and the audience differ from part to part of the API, and are looked at there.
        validation.validate_aud = false;
        validation.validate_nbf = true;
        let data = jsonwebtoken::decode::<Claims>(token, &key.0, &validation);
        let claims = data.map_err(AuthError::Token)?.claims;
        drop(keys);
        self.remember(hash, &claims);
        Ok(claims)
    }

    fn remembered(&self, hash: &[u8; 32]) -> Option<Claims> {
        let checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let (claims, at) = checked.get(hash)?;
        let good = at.elapsed() < CHECKED_FOR && claims.exp > jsonwebtoken::get_current_timestamp();
        good.then(|| claims.clone())
    }

    fn remember(&self, hash: [u8; 32], claims: &Claims) {
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if checked.len() >= CHECKED_MAX {
            checked.retain(|_, (_, at)| at.elapsed() < CHECKED_FOR);
            if checked.len() >= CHECKED_MAX {
                checked.clear();
            }
        }
        checked.insert(hash, (claims.clone(), Instant::now()));
    }

    async fn is_stale(&self, id: &str) -> bool {
        let keys = self.keys.read().await;
        let age = keys.asked.map_or(Duration::MAX, |at| at.elapsed());
        age > KEYS_AGE_MAX || (!keys.by_id.contains_key(id) && age > KEYS_PAUSE)
    }

    async fn load_keys(&self) -> Result<(), AuthError> {
        let mut keys = self.keys.write().await;
        if keys.asked.is_some_and(|at| at.elapsed() < KEYS_PAUSE) {
            // Somebody else was faster.
            return Ok(());
        }
        let loaded = self.fetch().await;
        keys.asked = Some(Instant::now());
        match loaded {
            Ok(by_id) => keys.by_id = by_id,
            // The old ones are better than none.
            Err(error) if !keys.by_id.is_empty() => {
                tracing::warn!(error = %crate::chain(&error), "keeping the old keys");
            }
            Err(error) => return Err(AuthError::Keys(error)),
        }
        Ok(())
    }

    async fn fetch(&self) -> Result<HashMap<String, (Algorithm, DecodingKeyBox)>, KeysError> {
        let mut texts = Vec::new();
        for file in &self.files {
            let text = tokio::fs::read(file).await;
            texts.push(text.map_err(|error| KeysError::File(file.clone(), error))?);
        }
        if let Some(url) = &self.url {
            texts.push(self.client.get_bytes(url).await.map_err(KeysError::Ask)?);
        }
        let mut by_id = HashMap::new();
        for text in texts {
            let set: JwkSet = serde_json::from_slice(&text).map_err(KeysError::Parse)?;
            for jwk in &set.keys {
                if let (Some(algorithm), Ok(key)) = (algorithm(jwk), DecodingKey::from_jwk(jwk)) {
                    let id = jwk.common.key_id.clone().unwrap_or_default();
                    by_id.insert(id, (algorithm, DecodingKeyBox(key)));
                }
            }
        }
        Ok(by_id)
    }
}

/// The one algorithm that a key is good for, by its kind; the token has no say in it.
fn algorithm(jwk: &jsonwebtoken::jwk::Jwk) -> Option<Algorithm> {
    use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve};
    match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Some(Algorithm::RS256),
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => {
            Some(Algorithm::ES256)
        }
        _ => None,
    }
}
