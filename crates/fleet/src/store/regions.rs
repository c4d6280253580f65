//! Regions: their data planes, counted; those that need a data plane and may not get one; what waits.

use fleet_control::PlaneState;

use super::{Store, StoreError, Tx, count, now_ms, number, read, text, write};

/// A region that does not grow any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRegion {
    /// Its cloud provider.
    pub cloud_provider: String,
    /// Its id.
    pub region: String,
    /// Why.
    pub held: String,
    /// Since when, in milliseconds since 1970.
    pub since: i64,
}

/// The Kafkas of a region that wait for capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionDemand {
    /// The cloud provider.
    pub cloud_provider: String,
    /// The region.
    pub region: String,
    /// How many they are.
    pub kafkas: u64,
    /// Their connections.
    pub connections: u64,
    /// Their partitions.
    pub partitions: u64,
    /// When the first of them was created, in milliseconds since 1970.
    pub oldest: i64,
}

/// The data planes of a region in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaneCount {
    /// The cloud provider.
    pub cloud_provider: String,
    /// The region.
    pub region: String,
    /// The state.
    pub state: PlaneState,
    /// How many they are.
    pub planes: u64,
    /// Their nodes: wanted, and desired and actual as the provider says.
    pub nodes: [u64; 3],
}

impl Store {
    /// The data planes of all regions, counted.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn plane_counts(&self) -> Result<Vec<PlaneCount>, StoreError> {
        let rows = sqlx::query(
            "SELECT cloud_provider, region, state, COUNT(*) AS n,
                CAST(COALESCE(SUM(nodes_wanted), 0) AS BIGINT) AS wanted,
                CAST(COALESCE(SUM(nodes_desired), 0) AS BIGINT) AS desired,
                CAST(COALESCE(SUM(nodes_actual), 0) AS BIGINT) AS actual
             FROM planes WHERE deleted_at IS NULL GROUP BY cloud_provider, region, state
             ORDER BY cloud_provider, region, state",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(read("data planes"))?;
        let decode = |row| {
            let word = text(row, "state")?;
            let state = word.parse();
            let number = |column| Ok::<_, StoreError>(count(number(row, column)?));
            Ok(PlaneCount {
                cloud_provider: text(row, "cloud_provider")?,
                region: text(row, "region")?,
                state: state.map_err(|_| StoreError::Corrupt {
                    what: "the state of a data plane",
                    value: word,
                })?,
                planes: number("n")?,
                nodes: [number("wanted")?, number("desired")?, number("actual")?],
            })
        };
        rows.iter().map(decode).collect()
    }

    /// The regions that do not grow any more.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn held_regions(&self) -> Result<Vec<HeldRegion>, StoreError> {
        let rows = sqlx::query("SELECT * FROM regions ORDER BY cloud_provider, region")
            .fetch_all(&self.pool)
            .await
            .map_err(read("the regions"))?;
        let decode = |row| {
            Ok(HeldRegion {
                cloud_provider: text(row, "cloud_provider")?,
                region: text(row, "region")?,
                held: text(row, "held")?,
                since: number(row, "since")?,
            })
        };
        rows.iter().map(decode).collect()
    }

    /// The regions in which Kafkas wait for capacity.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn demand_by_region(&self) -> Result<Vec<RegionDemand>, StoreError> {
        let rows = sqlx::query(
            "SELECT cloud_provider, region, COUNT(*) AS n, MIN(created_at) AS oldest,
                CAST(SUM(connections) AS BIGINT) AS connections,
                CAST(SUM(partitions) AS BIGINT) AS partitions FROM kafkas
             WHERE deleted_at IS NULL AND status = 'accepted' GROUP BY cloud_provider, region
             ORDER BY cloud_provider, region",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(read("what waits"))?;
        let decode = |row| {
            Ok(RegionDemand {
                cloud_provider: text(row, "cloud_provider")?,
                region: text(row, "region")?,
                kafkas: count(number(row, "n")?),
                connections: count(number(row, "connections")?),
                partitions: count(number(row, "partitions")?),
                oldest: number(row, "oldest")?,
            })
        };
        rows.iter().map(decode).collect()
    }
}

impl Tx {
    /// Records why a region does not grow any more, or that it does.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn hold_region(
        &mut self,
        (cloud_provider, region): (&str, &str),
        held: Option<&str>,
    ) -> Result<(), StoreError> {
        let query = match held {
            Some(held) => sqlx::query(
                "INSERT INTO regions (cloud_provider, region, held, since)
                 VALUES ($1, $2, $3, $4)
                 ON CONFLICT (cloud_provider, region) DO UPDATE SET held = excluded.held",
            )
            .bind(cloud_provider)
            .bind(region)
            .bind(held)
            .bind(now_ms()),
            None => sqlx::query("DELETE FROM regions WHERE cloud_provider = $1 AND region = $2")
                .bind(cloud_provider)
                .bind(region),
        };
        query.execute(&mut *self.inner).await.map_err(write("a region"))?;
        Ok(())
    }
}
