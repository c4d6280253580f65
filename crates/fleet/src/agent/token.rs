//! The agent's token: from a file that somebody renews, or from the identity provider for a secret.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::AgentError;
use crate::client::{Client, is_confidential};

/// A token is not used in its last seconds: the request would come too late.
const SKEW: Duration = Duration::from_secs(5);

/// Where an agent's token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// A file; it is read for every request, so that it can be renewed.
    File(PathBuf),
    /// The identity provider, for a name and a secret (client credentials of OAuth 2.0).
    Client {
        /// Where tokens are to be had.
        url: String,
        /// The name.
        id: String,
        /// A file with the secret.
        secret_file: PathBuf,
    },
}

/// Tokens, as long as they are good.
#[derive(Debug)]
pub(super) struct Tokens {
    source: TokenSource,
    held: Mutex<Option<(Held, Instant)>>,
}

/// A token, without a way to print it.
#[derive(Clone)]
struct Held(String);

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a token")
    }
}

#[derive(serde::Deserialize)]
struct Given {
    access_token: String,
    #[serde(default)]
    expires_in: u64,
}

impl Tokens {
    pub(super) fn new(source: TokenSource) -> Self {
        Self { source, held: Mutex::default() }
    }

    pub(super) async fn get(&self, client: &Client) -> Result<String, AgentError> {
        let (url, id, secret_file) = match &self.source {
            TokenSource::File(file) => return read(file).await,
            TokenSource::Client { url, id, secret_file } => (url, id, secret_file),
        };
        if !is_confidential(url) {
            return Err(AgentError::Insecure(url.clone()));
        }
        let mut held = self.held.lock().await;
        if let Some((token, until)) = &*held
            && Instant::now() < *until
        {
            return Ok(token.0.clone());
        }
        let secret = read(secret_file).await?;
        let asked = Instant::now();
        let fields = [
            ("grant_type", "client_credentials"),
            ("client_id", id.as_str()),
            ("client_secret", &secret),
        ];
        let given = client.form(url, &fields).await.map_err(AgentError::NoToken)?;
        let given: Given = serde_json::from_value(given).map_err(AgentError::Answer)?;
        let life = Duration::from_secs(given.expires_in).saturating_sub(SKEW);
        *held = Some((Held(given.access_token.clone()), asked + life));
        Ok(given.access_token)
    }
}

async fn read(file: &PathBuf) -> Result<String, AgentError> {
    let text = tokio::fs::read_to_string(file).await;
    let text = text.map_err(|error| AgentError::Token(file.clone(), error))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_secret_is_not_sent_in_the_clear() {
        let url = "http://sso.example.com/token".to_owned();
        let secret_file = PathBuf::from("/nowhere");
        let tokens = Tokens::new(TokenSource::Client { url, id: "agent".to_owned(), secret_file });
        let client = Client::new(Duration::from_secs(1)).unwrap();
        let refused = tokens.get(&client).await;
        assert!(matches!(refused, Err(AgentError::Insecure(_))), "{refused:?}");
    }
}
