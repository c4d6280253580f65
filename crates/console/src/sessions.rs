//! The sessions of users of a console that serves many: each has a cookie, a key and feeds with the rights of its user.
//!
//! Tokens of users are kept in the clients of their sources and nowhere else. A session ends after [`LIFETIME`]; its
//! streams end with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use tokio::time::Instant;

use crate::feed::Feeds;
use crate::gate::{self, Secrets};
use crate::source::Admitted;

/// A working day: most tokens end sooner.
const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// The oldest session ends when there are more.
const SESSIONS_MAX: usize = 1_000;

/// A session.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) key: String,
    pub(crate) user: String,
    pub(crate) feeds: Arc<Feeds>,
    pub(crate) until: Instant,
}

/// All sessions. They are found by the digest of their cookie, so that the time of a search tells nothing.
#[derive(Default)]
pub(crate) struct Sessions {
    all: Mutex<BTreeMap<Vec<u8>, Session>>,
}

impl Sessions {
    /// Begins a session, and returns the value of its cookie and its key; `None` if the machine has no randomness.
    pub(crate) fn begin(&self, admitted: Admitted) -> Option<(String, String)> {
        let Secrets { session, key, .. } = Secrets::new()?;
        let Admitted { user, source } = admitted;
        let (feeds, until) = (Feeds::new(source), Instant::now() + LIFETIME);
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, one| one.until > Instant::now());
        while all.len() >= SESSIONS_MAX {
            let oldest = all.iter().min_by_key(|(_, one)| one.until).map(|(id, _)| id.clone());
            oldest.and_then(|id| all.remove(&id));
        }
        all.insert(id(&session), Session { key: key.clone(), user, feeds, until });
        Some((session, key))
    }

    /// The session of a request, by its cookies.
    pub(crate) fn of(&self, cookies: Option<&str>) -> Option<Session> {
        let value = gate::cookie(cookies, gate::USER_COOKIE)?;
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&id(value)).filter(|one| one.until > Instant::now()).cloned()
    }

    /// Ends the session of a request.
    pub(crate) fn end(&self, cookies: Option<&str>) {
        if let Some(value) = gate::cookie(cookies, gate::USER_COOKIE) {
            self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&id(value));
        }
    }
}

fn id(cookie: &str) -> Vec<u8> {
    digest(&SHA256, cookie.as_bytes()).as_ref().to_vec()
}
