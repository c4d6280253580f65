//! What the fleet manager stores, in SQLite or PostgreSQL with the same statements.
//!
//! 1. A change is acknowledged after its transaction is on disk, never before.
//! 2. A transaction that decides by a data plane holds that data plane's row ([`Tx::plane`]), so that two
//!    replicas never decide by the same row at once.
//! 3. Nothing is deleted; what is gone has a `deleted_at`. Entries of the audit log go after the time that is set for them.
//!
//! What it must not do: decide.

mod credentials;
mod history;
mod kafkas;
mod leases;
mod planes;
mod quotas;
mod regions;
mod reports;
mod tokens;

use std::borrow::Cow;
use std::time::Duration;

use fleet_control::{IllegalKafkaEvent, IllegalPlaneChange};
use sqlx::any::{AnyConnectOptions, AnyPoolOptions, AnyRow};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{
    Any, AnyPool, ConnectOptions as _, Executor as _, Row as _, SqlSafeStr as _, Transaction,
};

use crate::metrics::DecisionCounts;
pub use credentials::Credential;
pub use history::{Decision, DecisionKind, DecisionsAbout, NewDecision};
pub use kafkas::{Kafka, KafkaFilter, NewKafka, Page, SearchError, parse_order, parse_search};
pub use leases::Lease;
pub use planes::{NewPlane, Plane, PlaneFilter};
pub use quotas::SetQuota;
pub use regions::{HeldRegion, PlaneCount, RegionDemand};
pub(crate) use reports::Demand;
pub use reports::StoredReport;
pub use tokens::StoredToken;

/// Why the store could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The address of the database is not valid.
    #[error("cannot read the address of the database")]
    Address(#[source] sqlx::Error),
    /// The database cannot be reached.
    #[error("cannot connect to the database")]
    Connect(#[source] sqlx::Error),
    /// The tables could not be made.
    #[error("cannot bring the tables up to date")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// A read failed.
    #[error("cannot read {what}")]
    Read {
        /// What was to be read.
        what: &'static str,
        /// Why it was not.
        #[source]
        error: sqlx::Error,
    },
    /// A write failed. Whether it happened is not known if the connection was lost.
    #[error("cannot write {what}")]
    Write {
        /// What was to be written.
        what: &'static str,
        /// Why it was not.
        #[source]
        error: sqlx::Error,
    },
    /// A row says something that we never wrote.
    #[error("{what} is stored as \"{value}\", which is not valid")]
    Corrupt {
        /// What.
        what: &'static str,
        /// As what.
        value: String,
    },
    /// A data plane cannot change its state like that.
    #[error("an illegal change of state")]
    PlaneTransition(#[source] IllegalPlaneChange),
    /// That cannot happen to a Kafka in its status.
    #[error("an illegal change of status")]
    KafkaTransition(#[source] IllegalKafkaEvent),
    /// The task that writes reports has ended.
    #[error("reports are no longer written")]
    Stopped,
}

/// Which database it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backend {
    Sqlite,
    Postgres,
}

/// The store. Clones share it.
#[derive(Debug, Clone)]
pub struct Store {
    pool: AnyPool,
    backend: Backend,
    decisions: DecisionCounts,
}

/// A transaction that may write. Dropped without [`Tx::commit`], it has not happened.
#[derive(Debug)]
pub struct Tx {
    inner: Transaction<'static, Any>,
    backend: Backend,
    /// Kinds and reasons of the decisions in it, which count when it is committed.
    decided: Vec<(&'static str, &'static str)>,
    decisions: DecisionCounts,
}

impl Store {
    /// Opens the database at `sqlite:FILE` or `postgres://…` and brings its tables up to date.
    ///
    /// # Errors
    /// If it cannot be reached, or was written by a newer version.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        sqlx::any::install_default_drivers();
        let backend = if url.starts_with("sqlite:") { Backend::Sqlite } else { Backend::Postgres };
        let url = match backend {
            Backend::Sqlite if !url.contains("mode=") => {
                let mark = if url.contains('?') { '&' } else { '?' };
                Cow::Owned(format!("{url}{mark}mode=rwc"))
            }
            Backend::Sqlite | Backend::Postgres => Cow::Borrowed(url),
        };
        let options: AnyConnectOptions = url.parse().map_err(StoreError::Address)?;
        let options = options.disable_statement_logging();
        let pool = AnyPoolOptions::new()
            // SQLite has one writer; the others read. PostgreSQL is shared with other replicas.
            .max_connections(if backend == Backend::Sqlite { 6 } else { 12 })
            .acquire_timeout(Duration::from_secs(10))
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    if backend == Backend::Sqlite {
                        connection.execute(PRAGMAS).await?;
                    }
                    Ok(())
                })
            })
            .connect_with(options)
            .await
            .map_err(StoreError::Connect)?;
        migrator().run(&pool).await.map_err(StoreError::Migrate)?;
        Ok(Self { pool, backend, decisions: DecisionCounts::default() })
    }

    /// Begins a transaction that may write.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        // SQLite would else find out at the first write that somebody else writes, and fail.
        let begin = match self.backend {
            Backend::Sqlite => "BEGIN IMMEDIATE",
            Backend::Postgres => "BEGIN",
        };
        let inner = self.pool.begin_with(begin).await.map_err(write("the beginning"))?;
        let decisions = self.decisions.clone();
        Ok(Tx { inner, backend: self.backend, decided: Vec::new(), decisions })
    }

    /// A setting that was made at run time.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        let row = sqlx::query("SELECT value FROM settings WHERE name = $1")
            .bind(name)
            .fetch_optional(&self.pool)
            .await
            .map_err(read("a setting"))?;
        row.map(|row| text(&row, "value")).transpose()
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// If it does not.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.pool.execute("SELECT 1").await.map_err(read("anything"))?;
        Ok(())
    }

    /// The decisions that were made through this store, counted.
    pub(crate) fn decision_counts(&self) -> DecisionCounts {
        self.decisions.clone()
    }

    /// Ends all connections, after what they do is done.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

impl Tx {
    /// Makes a setting.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn set(&mut self, name: &str, value: &str) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO settings (name, value) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(name)
        .bind(value)
        .execute(&mut *self.inner)
        .await
        .map_err(write("a setting"))?;
        Ok(())
    }

    /// Makes it happen. Without an error it is on disk.
    ///
    /// # Errors
    /// If it did not happen, or if nobody can say.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.inner.commit().await.map_err(write("a transaction"))?;
        self.decisions.count(&self.decided);
        Ok(())
    }
}

/// Every commit is on disk before it returns, and whoever finds the writer busy waits.
const PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
     PRAGMA busy_timeout = 10000; PRAGMA foreign_keys = ON; PRAGMA cache_size = -32000;";

fn migrator() -> Migrator {
    let first = Migration::new(
        1,
        Cow::Borrowed("the first tables"),
        MigrationType::Simple,
        include_str!("schema.sql").into_sql_str(),
        false,
    );
    let second = Migration::new(
        2,
        Cow::Borrowed(
            "whose numbers of nodes are whose; for whom a data plane grows; held regions",
        ),
        MigrationType::Simple,
        include_str!("schema-2.sql").into_sql_str(),
        false,
    );
    let third = Migration::new(
        3,
        Cow::Borrowed("quotas; the audit log by time"),
        MigrationType::Simple,
        include_str!("schema-3.sql").into_sql_str(),
        false,
    );
    let fourth = Migration::new(
        4,
        Cow::Borrowed("credentials of owners; certificate authorities of Kafkas; tokens"),
        MigrationType::Simple,
        include_str!("schema-4.sql").into_sql_str(),
        false,
    );
    let fifth = Migration::new(
        5,
        Cow::Borrowed("decisions by region"),
        MigrationType::Simple,
        include_str!("schema-5.sql").into_sql_str(),
        false,
    );
    Migrator::with_migrations(vec![first, second, third, fourth, fifth])
}

/// The time as it is stored.
#[must_use]
pub fn now_ms() -> i64 {
    i64::try_from(host::clock::now_ms()).unwrap_or(i64::MAX)
}

/// A new id. Later ones sort after earlier ones.
#[must_use]
pub fn new_id() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

fn read(what: &'static str) -> impl FnOnce(sqlx::Error) -> StoreError {
    move |error| StoreError::Read { what, error }
}

fn write(what: &'static str) -> impl FnOnce(sqlx::Error) -> StoreError {
    move |error| StoreError::Write { what, error }
}

fn text(row: &AnyRow, column: &'static str) -> Result<String, StoreError> {
    row.try_get(column).map_err(read(column))
}

fn text_or_none(row: &AnyRow, column: &'static str) -> Result<Option<String>, StoreError> {
    row.try_get(column).map_err(read(column))
}

fn number(row: &AnyRow, column: &'static str) -> Result<i64, StoreError> {
    row.try_get(column).map_err(read(column))
}

fn number_or_none(row: &AnyRow, column: &'static str) -> Result<Option<i64>, StoreError> {
    row.try_get(column).map_err(read(column))
}

fn flag(row: &AnyRow, column: &'static str) -> Result<bool, StoreError> {
    Ok(number(row, column)? != 0)
}

/// A count that was stored as a signed number; ours are never negative.
fn count(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// A count as it is stored.
fn stored(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
