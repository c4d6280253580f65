//! Reports as they are stored, and what counts as demand besides them.

use std::collections::{BTreeMap, BTreeSet};

use fleet_control::{AgentReady, Capacity, NodeInfo, Report, ResizeInfo};
use serde::{Deserialize, Serialize};

use super::{Store, StoreError, Tx, count, number, read, stored, text, text_or_none, write};

/// The numbers of a report, as they are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredReport {
    /// All the room there is.
    pub total: Room,
    /// The room that is left.
    pub remaining: Room,
    /// Nodes: ceiling, floor, current, and the least that the workload needs.
    pub nodes: [u32; 4],
    /// The nodes of a step.
    pub step: u32,
    /// The room of a step.
    pub delta: Room,
    /// Whether the agent was ready.
    pub ready: bool,
}

/// Room: connections, partitions, bytes a second, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room(u64, u64, u64, u64);

impl Room {
    /// As `control` has it.
    #[must_use]
    pub fn capacity(self) -> Capacity {
        Capacity {
            connections: self.0,
            partitions: self.1,
            throughput_bytes: self.2,
            retention_bytes: self.3,
        }
    }
}

impl From<Capacity> for Room {
    fn from(room: Capacity) -> Self {
        Self(room.connections, room.partitions, room.throughput_bytes, room.retention_bytes)
    }
}

impl From<&Report> for StoredReport {
    fn from(report: &Report) -> Self {
        let NodeInfo { ceiling, floor, current, current_work_load_minimum } = report.nodes;
        let ResizeInfo { node_delta, delta } = report.resize;
        Self {
            total: report.total.into(),
            remaining: report.remaining.into(),
            nodes: [ceiling, floor, current, current_work_load_minimum],
            step: node_delta,
            delta: delta.into(),
            ready: report.ready == AgentReady::Yes,
        }
    }
}

impl StoredReport {
    /// As the decisions have it.
    #[must_use]
    pub fn report(&self) -> Report {
        let [ceiling, floor, current, current_work_load_minimum] = self.nodes;
        Report {
            ready: if self.ready { AgentReady::Yes } else { AgentReady::No },
            unsuitable: None,
            total: self.total.capacity(),
            remaining: self.remaining.capacity(),
            nodes: NodeInfo { ceiling, floor, current, current_work_load_minimum },
            resize: ResizeInfo { node_delta: self.step, delta: self.delta.capacity() },
        }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn from_json(text: &str) -> Result<Self, StoreError> {
        let corrupt = |_| StoreError::Corrupt { what: "a report", value: text.to_owned() };
        serde_json::from_str(text).map_err(corrupt)
    }
}

/// What counts as demand besides what agents have counted.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    /// By data plane: what was placed there and is in no report yet.
    pub(crate) reserved: BTreeMap<String, Capacity>,
    /// By data plane: what waits for a place and was given to it to grow for.
    pub(crate) given: BTreeMap<String, Capacity>,
    /// Provider, region and zones of those who wait.
    pub(crate) waiting: BTreeSet<(String, String, bool)>,
    /// Whether decisions are only recorded.
    pub(crate) dry_run: bool,
}

impl Tx {
    /// What counts as demand now.
    pub(crate) async fn demand(&mut self) -> Result<Demand, StoreError> {
        let rows = sqlx::query(RESERVED)
            .fetch_all(&mut *self.inner)
            .await
            .map_err(read("what is reserved"))?;
        let mut demand = Demand::default();
        for row in &rows {
            demand.reserved.insert(text(row, "plane_id")?, capacity(row)?);
        }
        let rows = sqlx::query(WAITING)
            .fetch_all(&mut *self.inner)
            .await
            .map_err(read("what is queued"))?;
        for row in &rows {
            let key =
                (text(row, "cloud_provider")?, text(row, "region")?, super::flag(row, "multi_az")?);
            demand.waiting.insert(key);
            if let Some(plane) = text_or_none(row, "growing_plane_id")? {
                let given = demand.given.entry(plane).or_default();
                *given = given.plus(capacity(row)?);
            }
        }
        let dry_run = sqlx::query("SELECT value FROM settings WHERE name = 'dry_run'")
            .fetch_optional(&mut *self.inner)
            .await
            .map_err(read("a setting"))?;
        demand.dry_run =
            dry_run.map(|row| text(&row, "value")).transpose()?.as_deref() == Some("true");
        Ok(demand)
    }

    /// What the agent had told of before this report is counted in it, from now on. Returns what is not.
    pub(crate) async fn count_reported(&mut self, plane: &str) -> Result<Capacity, StoreError> {
        sqlx::query(
            "UPDATE kafkas SET counted = 1
             WHERE plane_id = $1 AND counted = 0 AND reported_at IS NOT NULL",
        )
        .bind(plane)
        .execute(&mut *self.inner)
        .await
        .map_err(write("what is counted"))?;
        self.reserved_on(plane).await
    }

    /// What was placed on a data plane and is in no report yet.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn reserved_on(&mut self, plane: &str) -> Result<Capacity, StoreError> {
        let row = sqlx::query(
            "SELECT CAST(COALESCE(SUM(connections), 0) AS BIGINT) AS connections,
                CAST(COALESCE(SUM(partitions), 0) AS BIGINT) AS partitions,
                CAST(COALESCE(SUM(throughput), 0) AS BIGINT) AS throughput,
                CAST(COALESCE(SUM(retention), 0) AS BIGINT) AS retention
             FROM kafkas WHERE deleted_at IS NULL AND counted = 0 AND plane_id = $1",
        )
        .bind(plane)
        .fetch_one(&mut *self.inner)
        .await
        .map_err(read("what is reserved"))?;
        capacity(&row)
    }
}

const RESERVED: &str = "SELECT plane_id, CAST(SUM(connections) AS BIGINT) AS connections,
        CAST(SUM(partitions) AS BIGINT) AS partitions,
        CAST(SUM(throughput) AS BIGINT) AS throughput,
        CAST(SUM(retention) AS BIGINT) AS retention
     FROM kafkas WHERE deleted_at IS NULL AND counted = 0 AND plane_id IS NOT NULL
     GROUP BY plane_id";

const WAITING: &str = "SELECT cloud_provider, region, multi_az, growing_plane_id,
        CAST(SUM(connections) AS BIGINT) AS connections,
        CAST(SUM(partitions) AS BIGINT) AS partitions,
        CAST(SUM(throughput) AS BIGINT) AS throughput,
        CAST(SUM(retention) AS BIGINT) AS retention
     FROM kafkas WHERE deleted_at IS NULL AND status = 'accepted'
     GROUP BY cloud_provider, region, multi_az, growing_plane_id";

fn capacity(row: &sqlx::any::AnyRow) -> Result<Capacity, StoreError> {
    Ok(Capacity {
        connections: count(number(row, "connections")?),
        partitions: count(number(row, "partitions")?),
        throughput_bytes: count(number(row, "throughput")?),
        retention_bytes: count(number(row, "retention")?),
    })
}

impl Store {
    /// By data plane: what was placed there and is in no report yet.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn reserved(&self) -> Result<BTreeMap<String, Capacity>, StoreError> {
        let rows =
            sqlx::query(RESERVED).fetch_all(&self.pool).await.map_err(read("what is reserved"))?;
        rows.iter().map(|row| Ok((text(row, "plane_id")?, capacity(row)?))).collect()
    }
}

/// As it is stored.
pub(super) fn columns(room: Capacity) -> [i64; 4] {
    let Capacity { connections, partitions, throughput_bytes, retention_bytes } = room;
    [stored(connections), stored(partitions), stored(throughput_bytes), stored(retention_bytes)]
}
