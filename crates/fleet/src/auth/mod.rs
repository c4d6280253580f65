//! Who asks: tokens that are signed with RS256 or ES256 by a key that is known.
//!
//! 1. No other algorithm is accepted, whatever a token says of itself.
//! 2. A key is good for the tokens of its own issuer only.
//! 3. A key that is not known is looked for once more, one request at a time, and with back-off if it is not found:
//!    tokens of strangers must not make us ask the issuer. Tokens with known keys never wait for that.
//! 4. No token is logged or stored.

mod keys;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use jsonwebtoken::Validation;
use jsonwebtoken::dangerous::insecure_decode;
use serde::Deserialize;

use crate::client::Client;
use crate::config::{Auth, ConfigError, Realm};
use keys::IssuerKeys;
pub use keys::KeysError;

/// The role of agents.
pub const AGENT_ROLE: &str = "kas_fleetshard_operator";

/// The claim with the id of an agent's data plane.
pub const AGENT_CLAIM: &str = "kas-fleetshard-operator-cluster-id";

/// The beginning of the roles of administrators, which end with `read`, `write` or `full`.
pub const ADMIN_ROLE: &str = "kas-fleet-manager-admin-";

/// How long a token that was checked is not checked again. A key that is revoked is good for so long.
const CHECKED_FOR: Duration = Duration::from_secs(60);

/// As many checked tokens as are remembered.
const CHECKED_MAX: usize = 50_000;

/// Why a token is not good.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// It is no token, has run out, or its signature is wrong.
    #[error("the token is not valid")]
    Token(#[source] jsonwebtoken::errors::Error),
    /// The configuration is not valid.
    #[error("cannot use the configuration")]
    Config(#[source] ConfigError),
    /// Nobody we know has signed it.
    #[error("the key of the token is unknown")]
    UnknownKey,
    /// The keys are not available.
    #[error("cannot get the keys that sign tokens")]
    Keys(#[source] KeysError),
}

/// What a token says.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Claims {
    /// Whether the manager gave it out itself, so that it has no issuer. No signed token can say so.
    #[serde(skip)]
    pub local: bool,
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
    #[serde(default)]
    pub username: Option<String>,
    /// The name of a person, as OpenID Connect has it. Some issuers send both.
    #[serde(default)]
    pub preferred_username: Option<String>,
    /// The organisation of a person.
    #[serde(default)]
    pub org_id: Option<String>,
    /// The organisation of a person, as some issuers have it.
    #[serde(default, rename = "rh-org-id")]
    pub rh_org_id: Option<String>,
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
    /// Whether it was signed by that realm and for us, or given out by us.
    #[must_use]
    pub fn is_of(&self, realm: &Realm) -> bool {
        if self.local {
            return true;
        }
        let for_us = match &self.aud {
            Audience::One(one) => *one == realm.audience,
            Audience::Many(many) => many.contains(&realm.audience),
        };
        self.iss == realm.issuer && for_us
    }

    /// The name of the person.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.username.as_deref().or(self.preferred_username.as_deref())
    }

    /// The organisation of the person.
    #[must_use]
    pub fn organisation(&self) -> Option<&str> {
        self.org_id.as_deref().or(self.rh_org_id.as_deref())
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
    issuers: BTreeMap<String, Arc<IssuerKeys>>,
    checked: Mutex<HashMap<[u8; 32], (Claims, Instant)>>,
}

/// Who has signed a token, as long as nobody has checked it.
#[derive(Deserialize)]
struct Unchecked {
    #[serde(default)]
    iss: String,
}

impl Authenticator {
    /// Checks tokens with the keys that are configured.
    ///
    /// # Errors
    /// If the configuration is not valid, or the keys are not available.
    pub async fn new(auth: &Auth, client: Client) -> Result<Self, AuthError> {
        let mut issuers = BTreeMap::new();
        for (issuer, sources) in auth.sources().map_err(AuthError::Config)? {
            let keys = IssuerKeys::new(sources, client.clone());
            keys.look_for(None).await.map_err(AuthError::Keys)?;
            issuers.insert(issuer, Arc::new(keys));
        }
        Ok(Self { issuers, checked: Mutex::default() })
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
        // Which keys are looked at, and no more, depends on what is not checked yet: the signature covers it.
        let unchecked = insecure_decode::<Unchecked>(token).map_err(AuthError::Token)?;
        let issuer = self.issuers.get(&unchecked.claims.iss).ok_or(AuthError::UnknownKey)?;
        let id = unchecked.header.kid.unwrap_or_default();
        let (algorithm, key) = issuer.find(&id).await?;
        let mut validation = Validation::new(algorithm);
        // The audience differs from part to part of the API, and is looked at there.
        validation.validate_aud = false;
        validation.validate_nbf = true;
        validation.set_issuer(&[&unchecked.claims.iss]);
        let data = jsonwebtoken::decode::<Claims>(token, &key.0, &validation);
        let claims = data.map_err(AuthError::Token)?.claims;
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
}
