//! Whose tokens are good, and where the keys of their issuers are.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::ConfigError;

/// Whose tokens are good. A key is good for the tokens of its own issuer only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// A file with the keys that sign tokens (JWKS), for the one issuer whose realms name no keys of their own.
    pub jwks_file: Option<std::path::PathBuf>,
    /// Where those keys are served.
    pub jwks_url: Option<String>,
    /// More files with keys of the agents' issuer: those of this machine's own data planes.
    #[serde(skip)]
    pub jwks_more: Vec<std::path::PathBuf>,
    /// There is no identity provider: only tokens that the manager gives out itself are valid. Realms may be left out.
    pub local_tokens_only: bool,
    /// Agents' tokens.
    pub agent: Realm,
    /// Users' tokens.
    pub public: Realm,
    /// Administrators' tokens.
    pub admin: Realm,
}

/// Who signs tokens, and for whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Realm {
    /// The `iss` of a token.
    pub issuer: String,
    /// One of the `aud` of a token.
    pub audience: String,
    /// A file with the keys of this issuer (JWKS).
    pub jwks_file: Option<std::path::PathBuf>,
    /// Where the keys of this issuer are served.
    pub jwks_url: Option<String>,
}

/// Where the keys of an issuer are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySources {
    /// Files.
    pub files: BTreeSet<std::path::PathBuf>,
    /// Addresses at which they are served.
    pub urls: BTreeSet<String>,
}

impl Auth {
    /// By issuer: where its keys are.
    ///
    /// # Errors
    /// If an issuer has none, or shares them with another.
    pub fn sources(&self) -> Result<BTreeMap<String, KeySources>, ConfigError> {
        let mut sources: BTreeMap<String, KeySources> = BTreeMap::new();
        let mut shared = BTreeSet::new();
        if self.local_tokens_only {
            // Agents of data planes on this machine have keys of this machine.
            let files: BTreeSet<_> = self.jwks_more.iter().cloned().collect();
            if !files.is_empty() && !self.agent.issuer.is_empty() {
                let of_agents = KeySources { files, urls: BTreeSet::new() };
                sources.insert(self.agent.issuer.clone(), of_agents);
            }
            return Ok(sources);
        }
        for realm in [&self.agent, &self.public, &self.admin] {
            let of = sources.entry(realm.issuer.clone()).or_default();
            of.files.extend(realm.jwks_file.clone());
            of.urls.extend(realm.jwks_url.clone());
            if realm.jwks_file.is_none() && realm.jwks_url.is_none() {
                shared.insert(&realm.issuer);
                of.files.extend(self.jwks_file.clone());
                of.urls.extend(self.jwks_url.clone());
            }
        }
        let of_agents = sources.entry(self.agent.issuer.clone()).or_default();
        of_agents.files.extend(self.jwks_more.iter().cloned());
        if sources.values().any(|of| of.files.is_empty() && of.urls.is_empty()) {
            return Err(ConfigError::Auth);
        }
        let are_shared = self.jwks_file.is_some() || self.jwks_url.is_some();
        if shared.len() > 1 && are_shared {
            return Err(ConfigError::SharedKeys);
        }
        Ok(sources)
    }
}

impl Default for Auth {
    fn default() -> Self {
        let realm = Realm::default;
        Self {
            jwks_file: None,
            jwks_url: None,
            jwks_more: Vec::new(),
            local_tokens_only: false,
            agent: realm(),
            public: realm(),
            admin: realm(),
        }
    }
}

impl Default for Realm {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            audience: "gregor-fleet".to_owned(),
            jwks_file: None,
            jwks_url: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn realm(issuer: &str, url: Option<&str>) -> Realm {
        let jwks_url = url.map(str::to_owned);
        Realm { issuer: issuer.to_owned(), jwks_url, ..Realm::default() }
    }

    #[test]
    fn keys_are_those_of_one_issuer() {
        let (fleet, staff) = ("https://sso/fleet", "https://sso/staff");
        let auth = |jwks_url: Option<&str>, admin: Realm| Auth {
            jwks_url: jwks_url.map(str::to_owned),
            agent: realm(fleet, None),
            public: realm(fleet, None),
            admin,
            ..Auth::default()
        };
        // One issuer; two with keys of their own; two that share them; one without any.
        assert!(auth(Some("https://keys"), realm(fleet, None)).sources().is_ok());
        let two = auth(Some("https://keys"), realm(staff, Some("https://staff"))).sources();
        let two = two.unwrap();
        assert_eq!(two[fleet].urls, ["https://keys".to_owned()].into());
        assert_eq!(two[staff].urls, ["https://staff".to_owned()].into());
        let shared = auth(Some("https://keys"), realm(staff, None)).sources();
        assert!(matches!(shared, Err(ConfigError::SharedKeys)));
        let none = auth(None, realm(staff, Some("https://staff"))).sources();
        assert!(matches!(none, Err(ConfigError::Auth)));
    }
}
