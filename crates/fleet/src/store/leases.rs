//! Who does the work: one replica for each kind of work, for a while.

use std::time::{Duration, Instant};

use super::{Backend, Store, StoreError, Tx, read, write};
use sqlx::Row as _;

/// The right to do one kind of work until it ends.
#[derive(Debug, Clone)]
pub struct Lease {
    /// Grows with each new holder.
    pub term: i64,
    /// Measured from before the database was asked, so that it ends here before it ends there.
    until: Instant,
}

impl Lease {
    /// How long it holds for certain. An act must end before that.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

impl Store {
    /// Takes or renews the right to do a kind of work; nothing if somebody else has it. The clock is the
    /// database's, so that replicas need not agree on the time.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn take_lease(
        &self,
        kind: &str,
        holder: &str,
        length: Duration,
    ) -> Result<Option<Lease>, StoreError> {
        const SQLITE: &str = "
            INSERT INTO leases (kind, holder, expires, term)
            VALUES ($1, $2, CAST(unixepoch('subsec') * 1000 AS BIGINT) + $3, 1)
            ON CONFLICT (kind) DO UPDATE SET
                holder = excluded.holder, expires = excluded.expires,
                term = leases.term + CASE WHEN leases.holder = excluded.holder THEN 0 ELSE 1 END
            WHERE leases.holder = excluded.holder
               OR leases.expires < CAST(unixepoch('subsec') * 1000 AS BIGINT)
            RETURNING term";
        const POSTGRES: &str = "
            INSERT INTO leases (kind, holder, expires, term)
            VALUES ($1, $2, CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) + $3, 1)
            ON CONFLICT (kind) DO UPDATE SET
                holder = excluded.holder, expires = excluded.expires,
                term = leases.term + CASE WHEN leases.holder = excluded.holder THEN 0 ELSE 1 END
            WHERE leases.holder = excluded.holder
               OR leases.expires < CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)
            RETURNING term";
        let until = Instant::now() + length;
        let statement = match self.backend {
            Backend::Sqlite => SQLITE,
            Backend::Postgres => POSTGRES,
        };
        let row = sqlx::query(statement)
            .bind(kind)
            .bind(holder)
            .bind(i64::try_from(length.as_millis()).unwrap_or(i64::MAX))
            .fetch_optional(&self.pool)
            .await
            .map_err(write("a lease"))?;
        let Some(row) = row else { return Ok(None) };
        let term = row.try_get("term").map_err(read("a lease"))?;
        Ok(Some(Lease { term, until }))
    }

    /// Gives a right back, so that another need not wait until it ends.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn give_lease_back(&self, kind: &str, holder: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE leases SET expires = 0 WHERE kind = $1 AND holder = $2")
            .bind(kind)
            .bind(holder)
            .execute(&self.pool)
            .await
            .map_err(write("a lease"))?;
        Ok(())
    }
}

impl Tx {
    /// Whether the right is still ours; if so it stays ours until this transaction ends. A replica that
    /// was paused, and whose right went to another, so never writes what it decided before.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn fence(&mut self, kind: &str, holder: &str, term: i64) -> Result<bool, StoreError> {
        let statement = match self.backend {
            Backend::Sqlite => {
                "SELECT term FROM leases WHERE kind = $1 AND holder = $2 AND term = $3"
            }
            Backend::Postgres => {
                "SELECT term FROM leases WHERE kind = $1 AND holder = $2 AND term = $3 FOR UPDATE"
            }
        };
        let row = sqlx::query(statement)
            .bind(kind)
            .bind(holder)
            .bind(term)
            .fetch_optional(&mut *self.inner)
            .await
            .map_err(read("a lease"))?;
        Ok(row.is_some())
    }
}
