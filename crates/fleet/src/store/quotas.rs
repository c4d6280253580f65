//! Quotas that administrators have set, and what counts against them.

use fleet_control::Quota;
use sqlx::any::AnyRow;

use super::{Backend, Store, StoreError, Tx, count, number, read, stored, text, write};

/// A quota in place of the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetQuota {
    /// The organisation.
    pub organisation: String,
    /// The user of it; empty if it is for the organisation.
    pub owner: String,
    /// The most.
    pub quota: Quota,
}

impl Store {
    /// The quotas that are set.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn quotas(&self) -> Result<Vec<SetQuota>, StoreError> {
        let rows = sqlx::query("SELECT * FROM quotas ORDER BY organisation, owner LIMIT 10000")
            .fetch_all(&self.pool)
            .await
            .map_err(read("the quotas"))?;
        let decode = |row| {
            Ok(SetQuota {
                organisation: text(row, "organisation")?,
                owner: text(row, "owner")?,
                quota: decode(row)?,
            })
        };
        rows.iter().map(decode).collect()
    }
}

impl Tx {
    /// Holds what an organisation has until the transaction ends: nobody else adds to it meanwhile.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn hold_organisation(&mut self, organisation: &str) -> Result<(), StoreError> {
        if self.backend == Backend::Postgres {
            sqlx::query("SELECT 1 AS n FROM pg_advisory_xact_lock(hashtext($1))")
                .bind(organisation)
                .fetch_optional(&mut *self.inner)
                .await
                .map_err(read("the quotas"))?;
        }
        Ok(())
    }

    /// The quota that is set for an organisation, or for a user of it.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn quota(
        &mut self,
        organisation: &str,
        owner: &str,
    ) -> Result<Option<Quota>, StoreError> {
        let row = sqlx::query("SELECT * FROM quotas WHERE organisation = $1 AND owner = $2")
            .bind(organisation)
            .bind(owner)
            .fetch_optional(&mut *self.inner)
            .await
            .map_err(read("a quota"))?;
        row.as_ref().map(decode).transpose()
    }

    /// What an organisation has, or a user of it; also what is on its way out.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn used(&mut self, organisation: &str, owner: &str) -> Result<Quota, StoreError> {
        let row = sqlx::query(
            "SELECT COUNT(*) AS kafkas,
                CAST(COALESCE(SUM(connections), 0) AS BIGINT) AS connections,
                CAST(COALESCE(SUM(partitions), 0) AS BIGINT) AS partitions
             FROM kafkas WHERE deleted_at IS NULL AND organisation = $1
                AND ($2 = '' OR owner = $2)",
        )
        .bind(organisation)
        .bind(owner)
        .fetch_one(&mut *self.inner)
        .await
        .map_err(read("what somebody has"))?;
        decode(&row)
    }

    /// Sets a quota.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn set_quota(&mut self, new: &SetQuota) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO quotas (organisation, owner, kafkas, connections, partitions)
             VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (organisation, owner) DO UPDATE SET kafkas = excluded.kafkas,
                connections = excluded.connections, partitions = excluded.partitions",
        )
        .bind(&new.organisation)
        .bind(&new.owner)
        .bind(stored(new.quota.kafkas))
        .bind(stored(new.quota.connections))
        .bind(stored(new.quota.partitions))
        .execute(&mut *self.inner)
        .await
        .map_err(write("a quota"))?;
        Ok(())
    }

    /// Lets the default hold again.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn delete_quota(
        &mut self,
        organisation: &str,
        owner: &str,
    ) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM quotas WHERE organisation = $1 AND owner = $2")
            .bind(organisation)
            .bind(owner)
            .execute(&mut *self.inner)
            .await
            .map_err(write("a quota"))?;
        Ok(())
    }
}

fn decode(row: &AnyRow) -> Result<Quota, StoreError> {
    Ok(Quota {
        kafkas: count(number(row, "kafkas")?),
        connections: count(number(row, "connections")?),
        partitions: count(number(row, "partitions")?),
    })
}
