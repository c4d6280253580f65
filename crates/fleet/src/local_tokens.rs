//! Tokens for installations without an identity provider: the manager gives them out, and keeps a hash of each.
//!
//! 1. A token is shown once, when it is created. What is stored does not give anybody access.
//! 2. Each has one role, an end, and can be revoked; the next request with it is refused.

use aws_lc_rs::digest::{SHA256, digest};

use crate::auth::{ADMIN_ROLE, AGENT_ROLE, Claims, Roles};
use crate::store::{Store, StoreError, StoredToken, new_id, now_ms};
use crate::tenants::{hex, secret};

/// The beginning of every token. No signed token begins so.
const PREFIX: &str = "gregor_";

/// The longest time for which a token is valid.
pub const DAYS_MAX: u32 = 3650;

const DAY_MS: i64 = 24 * 3_600_000;

/// What the bearer of a token may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRole {
    /// Read as an administrator.
    AdminRead,
    /// Read and change as an administrator.
    AdminWrite,
    /// Everything that administrators may do.
    AdminFull,
    /// What the agent of a data plane does.
    Agent {
        /// The data plane.
        plane: String,
    },
    /// What a user does.
    User {
        /// The user.
        username: String,
        /// The user's organisation.
        organisation: String,
    },
}

/// The names of the roles.
pub const ROLES: [&str; 5] = ["admin-read", "admin-write", "admin-full", "agent", "user"];

impl TokenRole {
    /// The name that is stored and served.
    #[must_use]
    pub fn name(&self) -> &'static str {
        let [read, write, full, agent, user] = ROLES;
        match self {
            TokenRole::AdminRead => read,
            TokenRole::AdminWrite => write,
            TokenRole::AdminFull => full,
            TokenRole::Agent { .. } => agent,
            TokenRole::User { .. } => user,
        }
    }

    /// User, organisation and data plane, as far as the role has them.
    #[must_use]
    pub fn subject(&self) -> (Option<&str>, Option<&str>, Option<&str>) {
        match self {
            TokenRole::AdminRead | TokenRole::AdminWrite | TokenRole::AdminFull => {
                (None, None, None)
            }
            TokenRole::Agent { plane } => (None, None, Some(plane)),
            TokenRole::User { username, organisation } => {
                (Some(username), Some(organisation), None)
            }
        }
    }

    /// The role of that name, for this user, organisation and data plane. Each role has all that it needs, and nothing else.
    #[must_use]
    pub fn read(
        name: &str,
        (username, organisation, plane): (String, String, String),
    ) -> Option<Self> {
        let has = (!username.is_empty(), !organisation.is_empty(), !plane.is_empty());
        match (name, has) {
            ("admin-read", (false, false, false)) => Some(TokenRole::AdminRead),
            ("admin-write", (false, false, false)) => Some(TokenRole::AdminWrite),
            ("admin-full", (false, false, false)) => Some(TokenRole::AdminFull),
            ("agent", (false, false, true)) => Some(TokenRole::Agent { plane }),
            ("user", (true, true, false)) => Some(TokenRole::User { username, organisation }),
            _ => None,
        }
    }
}

/// Whether a bearer token is one of ours.
pub(crate) fn is_local(token: &str) -> bool {
    token.starts_with(PREFIX)
}

/// What is stored of a token. It has 256 random bits, so that one round of a hash is enough.
fn hash(token: &str) -> String {
    hex(digest(&SHA256, token.as_bytes()).as_ref())
}

/// Creates a token that is valid for so many days.
///
/// # Errors
/// If the database does not answer. Without randomness there is no token.
pub async fn create(
    tx: &mut crate::store::Tx,
    (name, created_by): (&str, &str),
    role: TokenRole,
    days: u32,
) -> Result<Option<(StoredToken, String)>, StoreError> {
    let Some(secret) = secret() else { return Ok(None) };
    let token = format!("{PREFIX}{secret}");
    let now = now_ms();
    let stored = StoredToken {
        id: new_id(),
        name: name.to_owned(),
        role,
        created_by: created_by.to_owned(),
        created_at: now,
        expires_at: now + i64::from(days.clamp(1, DAYS_MAX)) * DAY_MS,
        revoked_at: None,
    };
    tx.add_api_token(&stored, &hash(&token)).await?;
    Ok(Some((stored, token)))
}

/// What a token says, if it is valid.
pub(crate) async fn check(store: &Store, token: &str) -> Result<Option<Claims>, StoreError> {
    let found = store.api_token(&hash(token)).await?;
    Ok(found.map(|token| claims(&token)))
}

fn claims(token: &StoredToken) -> Claims {
    let (username, organisation, plane) = token.role.subject();
    let role = match &token.role {
        TokenRole::AdminRead => Some(format!("{ADMIN_ROLE}read")),
        TokenRole::AdminWrite => Some(format!("{ADMIN_ROLE}write")),
        TokenRole::AdminFull => Some(format!("{ADMIN_ROLE}full")),
        TokenRole::Agent { .. } => Some(AGENT_ROLE.to_owned()),
        TokenRole::User { .. } => None,
    };
    Claims {
        sub: format!("token {}", token.name),
        exp: u64::try_from(token.expires_at / 1000).unwrap_or(0),
        username: username.map(str::to_owned),
        org_id: organisation.map(str::to_owned),
        realm_access: Roles { roles: role.into_iter().collect() },
        cluster: plane.map(str::to_owned),
        local: true,
        ..Claims::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_has_what_it_needs_and_nothing_else() {
        let read = |name: &str, username: &str, organisation: &str, plane: &str| {
            let text = str::to_owned;
            TokenRole::read(name, (text(username), text(organisation), text(plane)))
        };
        for (name, subject) in ROLES.into_iter().zip([
            ("", "", ""),
            ("", "", ""),
            ("", "", ""),
            ("", "", "p"),
            ("ann", "org", ""),
        ]) {
            let role = read(name, subject.0, subject.1, subject.2).unwrap();
            assert_eq!(role.name(), name);
            let (username, organisation, plane) = role.subject();
            let words = [username, organisation, plane].map(Option::unwrap_or_default);
            assert_eq!(words, [subject.0, subject.1, subject.2]);
        }
        for (name, username, organisation, plane) in [
            ("admin-full", "ann", "org", ""),
            ("admin-full", "", "", "p"),
            ("agent", "", "", ""),
            ("agent", "ann", "", "p"),
            ("user", "ann", "", ""),
            ("user", "", "org", ""),
            ("user", "ann", "org", "p"),
            ("root", "", "", ""),
        ] {
            assert_eq!(read(name, username, organisation, plane), None, "{name} {username}");
        }
    }
}
