//! The keys of one issuer: found by their id, asked for when one is missing, and now and then to notice those that were
//! revoked.
//!
//! 1. Keys are asked for by one task at a time, and nobody else's look-up waits for the answer.
//! 2. What brings nothing new is repeated with back-off.
//! 3. Old keys stay until new ones are there.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey};

use super::AuthError;
use crate::client::{Client, ClientError};
use crate::config::KeySources;

/// Keys are not asked for more often than this, and after each time that brings nothing new, half as often.
const KEYS_PAUSE: Duration = Duration::from_secs(5);

/// However often nothing new was found.
const KEYS_PAUSE_MAX: Duration = Duration::from_secs(300);

/// Keys are asked for at least this often, to notice those that were revoked.
const KEYS_AGE_MAX: Duration = Duration::from_secs(300);

/// Why keys are not available.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file cannot be read.
    #[error("cannot read {0:?}")]
    File(PathBuf, #[source] std::io::Error),
    /// They are not served.
    #[error("cannot get them")]
    Ask(#[source] ClientError),
    /// They are no keys.
    #[error("not a valid JWKS document")]
    Parse(#[source] serde_json::Error),
}

/// A key, without a way to print it.
#[derive(Clone)]
pub(super) struct Key(pub(super) DecodingKey);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a key")
    }
}

type ById = HashMap<String, (Algorithm, Key)>;

/// The keys of an issuer.
#[derive(Debug)]
pub(super) struct IssuerKeys {
    sources: KeySources,
    client: Client,
    /// Held for a look-up, never for a question.
    known: RwLock<Arc<ById>>,
    /// Held by the one who asks.
    asked: tokio::sync::Mutex<Fetches>,
}

/// When the issuer was asked, and how often in a row that brought nothing new.
#[derive(Debug, Default)]
struct Fetches {
    at: Option<Instant>,
    in_vain: u32,
}

impl Fetches {
    fn pause(&self) -> Duration {
        KEYS_PAUSE
            .saturating_mul(1u32.checked_shl(self.in_vain).unwrap_or(u32::MAX))
            .min(KEYS_PAUSE_MAX)
    }

    fn is_due(&self, now: Instant) -> bool {
        self.at.is_none_or(|at| now.saturating_duration_since(at) >= self.pause())
    }
}

impl IssuerKeys {
    /// None is known yet.
    pub(super) fn new(sources: KeySources, client: Client) -> Self {
        Self { sources, client, known: RwLock::default(), asked: tokio::sync::Mutex::default() }
    }

    /// The key of that id, which is asked for if it is not known.
    pub(super) async fn find(self: &Arc<Self>, id: &str) -> Result<(Algorithm, Key), AuthError> {
        if let Some(found) = self.known().get(id) {
            let found = found.clone();
            self.renew();
            return Ok(found);
        }
        self.look_for(Some(id)).await.map_err(AuthError::Keys)?;
        self.known().get(id).cloned().ok_or(AuthError::UnknownKey)
    }

    fn known(&self) -> Arc<ById> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks again in the background if the keys are old and nobody else does.
    fn renew(self: &Arc<Self>) {
        let is_old = |asked: &Fetches| asked.at.is_none_or(|at| at.elapsed() > KEYS_AGE_MAX);
        let due = self.asked.try_lock().is_ok_and(|asked| is_old(&asked));
        if due {
            let keys = Arc::clone(self);
            tokio::spawn(async move {
                let mut asked = keys.asked.lock().await;
                if is_old(&asked)
                    && let Err(error) = keys.ask(&mut asked).await
                {
                    tracing::warn!(error = %crate::chain(&error), "keeping the old keys");
                }
            });
        }
    }

    /// Asks for the keys, unless the one that is looked for has come meanwhile, or it is too soon.
    pub(super) async fn look_for(&self, id: Option<&str>) -> Result<(), KeysError> {
        let mut asked = self.asked.lock().await;
        let has_come = id.is_some_and(|id| self.known().contains_key(id));
        if has_come || !asked.is_due(Instant::now()) {
            return Ok(());
        }
        let done = self.ask(&mut asked).await;
        let found = id.is_none_or(|id| self.known().contains_key(id));
        asked.in_vain = if found { 0 } else { asked.in_vain.saturating_add(1) };
        match done {
            Err(error) if !self.known().is_empty() => {
                tracing::warn!(error = %crate::chain(&error), "keeping the old keys");
                Ok(())
            }
            other => other,
        }
    }

    async fn ask(&self, asked: &mut Fetches) -> Result<(), KeysError> {
        let fetched = self.fetch().await;
        asked.at = Some(Instant::now());
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fetched?);
        Ok(())
    }

    async fn fetch(&self) -> Result<ById, KeysError> {
        let mut texts = Vec::new();
        for file in &self.sources.files {
            let text = tokio::fs::read(file).await;
            texts.push(text.map_err(|error| KeysError::File(file.clone(), error))?);
        }
        for url in &self.sources.urls {
            texts.push(self.client.get_bytes(url).await.map_err(KeysError::Ask)?);
        }
        let mut by_id = HashMap::new();
        for text in texts {
            let set: JwkSet = serde_json::from_slice(&text).map_err(KeysError::Parse)?;
            for jwk in &set.keys {
                if let (Some(algorithm), Ok(key)) = (algorithm(jwk), DecodingKey::from_jwk(jwk)) {
                    let id = jwk.common.key_id.clone().unwrap_or_default();
                    by_id.insert(id, (algorithm, Key(key)));
                }
            }
        }
        Ok(by_id)
    }
}

/// The one algorithm that a key is good for, by its kind; the token has no say in it.
fn algorithm(jwk: &Jwk) -> Option<Algorithm> {
    match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Some(Algorithm::RS256),
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => {
            Some(Algorithm::ES256)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_brings_nothing_new_is_asked_less_and_less_often() {
        let now = Instant::now();
        let rows = [(0, 5), (1, 10), (3, 40), (5, 160), (6, 300), (40, 300)];
        for (in_vain, seconds) in rows {
            let asked = Fetches { at: Some(now), in_vain };
            let after =
                |ms: u64| now + Duration::from_millis(seconds * 1000) - Duration::from_millis(ms);
            assert!(asked.is_due(after(0)), "{in_vain}");
            assert!(!asked.is_due(after(1)), "{in_vain}");
        }
        assert!(Fetches::default().is_due(now));
    }
}
