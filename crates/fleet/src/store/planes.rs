//! Data planes.

use std::collections::BTreeMap;

use fleet_control::{Capacity, PlaneState, ProviderNodes};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row as _};

use super::reports::StoredReport;
use super::{
    Backend, DecisionKind, NewDecision, Store, StoreError, Tx, count, flag, now_ms, number,
    number_or_none, read, text, text_or_none, write,
};

/// A data plane, as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Plane {
    /// Its id, for ever.
    pub id: String,
    /// Its cloud provider.
    pub cloud_provider: String,
    /// Its region.
    pub region: String,
    /// Whether it is in several zones.
    pub multi_az: bool,
    /// Which provider makes it: `local`, `ocm`, `capi`, `standalone`.
    pub provider_type: String,
    /// What that provider calls it; nothing until it was asked to make it.
    pub provider_id: Option<String>,
    /// Where it is in its life. Only [`Tx::change_state`] changes it.
    state: PlaneState,
    /// Whether it is kept free by hand.
    pub draining: bool,
    /// Whether a person removes it.
    pub removed_by_hand: bool,
    /// How far the way out has come.
    pub removal: Option<String>,
    /// How many nodes are wanted.
    pub nodes_wanted: Option<i64>,
    /// How many the provider is to make, as it says.
    pub nodes_desired: Option<i64>,
    /// How many the provider has made, as it says.
    pub nodes_actual: Option<i64>,
    /// When it said so.
    pub nodes_asked_at: Option<i64>,
    /// When the wanted number last changed.
    pub nodes_since: Option<i64>,
    /// Whether a person asked for the wanted number.
    pub nodes_by_hand: bool,
    /// What was last sent to the provider; recorded before it was.
    pub nodes_sent: Option<i64>,
    /// The wanted number that the provider had last.
    pub nodes_confirmed: Option<i64>,
    /// The wanted number of which all nodes were there.
    pub nodes_reached: Option<i64>,
    /// Why the provider cannot make them, if it says so.
    pub nodes_failed: String,
    /// Why brokers cannot be placed on its nodes, if the agent says so.
    pub unsuitable: String,
    /// When the last step up was decided.
    pub last_step_up: Option<i64>,
    /// When the agent was last heard of.
    pub last_seen: Option<i64>,
    /// The number of its last report.
    pub sequence: Option<i64>,
    /// Its last report.
    pub report: Option<StoredReport>,
    /// What that report contradicts itself in.
    pub broken: String,
    /// Why it is in its state.
    pub state_reason: String,
    /// Why its nodes come, go or stay.
    pub step_reason: String,
    /// When it was first stored.
    pub created_at: i64,
    /// When it last changed.
    pub updated_at: i64,
}

/// A data plane that is to be made.
#[derive(Debug, Clone)]
pub struct NewPlane {
    /// Its id.
    pub id: String,
    /// Its cloud provider.
    pub cloud_provider: String,
    /// Its region.
    pub region: String,
    /// Whether it is in several zones.
    pub multi_az: bool,
    /// Which provider makes it.
    pub provider_type: String,
    /// How many nodes it begins with.
    pub nodes: u32,
}

/// Which data planes are meant.
#[derive(Debug, Clone, Default)]
pub struct PlaneFilter {
    /// Only those of this provider and region.
    pub region: Option<(String, String)>,
    /// How many are skipped, if there is a limit.
    pub offset: i64,
    /// How many are listed; all without one.
    pub limit: Option<i64>,
}

impl Plane {
    /// Where it is in its life.
    #[must_use]
    pub fn state(&self) -> PlaneState {
        self.state
    }

    /// The nodes, as the manager and the provider have them.
    #[must_use]
    pub fn provider_nodes(&self, now: i64) -> ProviderNodes {
        ProviderNodes {
            wanted: nodes(self.nodes_wanted),
            reached: nodes(self.nodes_reached),
            desired: nodes(self.nodes_desired),
            actual: nodes(self.nodes_actual),
            failed: !self.nodes_failed.is_empty(),
            since_wanted_ms: self.nodes_since.map(|at| u64::try_from(now - at).unwrap_or(0)),
        }
    }

    /// Changes how many nodes are wanted.
    pub fn want_nodes(&mut self, wanted: i64, by_hand: bool) {
        if self.nodes_wanted != Some(wanted) {
            self.nodes_since = Some(now_ms());
            self.nodes_failed.clear();
            if self.nodes_wanted.is_none_or(|was| was < wanted) {
                self.last_step_up = self.nodes_since;
            }
        }
        (self.nodes_wanted, self.nodes_by_hand) = (Some(wanted), by_hand);
    }

    /// What its last report says is left; nothing if there was none.
    #[must_use]
    pub fn remaining(&self) -> Capacity {
        self.report.as_ref().map(|report| report.remaining.capacity()).unwrap_or_default()
    }
}

/// Numbers of nodes as the decisions have them.
fn nodes(stored: Option<i64>) -> Option<u32> {
    stored.and_then(|nodes| u32::try_from(nodes).ok())
}

impl Store {
    /// One data plane; nothing if there is none, or none any more.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn plane(&self, id: &str) -> Result<Option<Plane>, StoreError> {
        let row = sqlx::query("SELECT * FROM planes WHERE id = $1 AND deleted_at IS NULL")
            .bind(id)
            .fetch_optional(&self.pool)
            .await
            .map_err(read("a data plane"))?;
        row.as_ref().map(decode).transpose()
    }

    /// The data planes that are meant, oldest first.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn planes(&self, filter: &PlaneFilter) -> Result<Vec<Plane>, StoreError> {
        const ORDER: &str = "ORDER BY created_at, id";
        let there = match filter.region {
            Some(_) => "deleted_at IS NULL AND cloud_provider = $1 AND region = $2",
            None => "deleted_at IS NULL",
        };
        let mut statement = format!("SELECT * FROM planes WHERE {there} {ORDER}");
        if let Some(limit) = filter.limit {
            // The pages before this one are skipped in an index, without a look at their rows.
            let page = format!(
                "SELECT id FROM planes WHERE {there} {ORDER} LIMIT {limit} OFFSET {}",
                filter.offset
            );
            statement = format!("SELECT * FROM planes WHERE id IN ({page}) {ORDER}");
        }
        let mut query = sqlx::query(AssertSqlSafe(statement));
        if let Some((provider, region)) = &filter.region {
            query = query.bind(provider).bind(region);
        }
        let rows = query.fetch_all(&self.pool).await.map_err(read("data planes"))?;
        rows.iter().map(decode).collect()
    }

    /// How many data planes there are.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn count_planes(&self) -> Result<i64, StoreError> {
        let row = sqlx::query("SELECT COUNT(*) AS n FROM planes WHERE deleted_at IS NULL")
            .fetch_one(&self.pool)
            .await
            .map_err(read("data planes"))?;
        number(&row, "n")
    }

    /// How many Kafkas each data plane has, in whatever state.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn kafkas_by_plane(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let rows = sqlx::query(
            "SELECT plane_id, COUNT(*) AS n FROM kafkas
             WHERE deleted_at IS NULL AND plane_id IS NOT NULL GROUP BY plane_id",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(read("Kafkas"))?;
        rows.iter().map(|row| Ok((text(row, "plane_id")?, count(number(row, "n")?)))).collect()
    }
}

impl Tx {
    /// One data plane, held until the transaction ends: nobody else decides by it meanwhile.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn plane(&mut self, id: &str) -> Result<Option<Plane>, StoreError> {
        let statement = match self.backend {
            // The whole database is held already.
            Backend::Sqlite => "SELECT * FROM planes WHERE id = $1 AND deleted_at IS NULL",
            Backend::Postgres => {
                "SELECT * FROM planes WHERE id = $1 AND deleted_at IS NULL FOR UPDATE"
            }
        };
        let row = sqlx::query(statement)
            .bind(id)
            .fetch_optional(&mut *self.inner)
            .await
            .map_err(read("a data plane"))?;
        row.as_ref().map(decode).transpose()
    }

    /// Several data planes, held as by [`Tx::plane`]. Those that are not there are left out. All who hold
    /// several do so in the order of ids, so that none waits for one that waits for it.
    pub(crate) async fn hold_planes(
        &mut self,
        ids: &[&str],
    ) -> Result<BTreeMap<String, Plane>, StoreError> {
        debug_assert!(ids.is_sorted(), "in the order of ids");
        // The order of bytes, which is ours, whatever language the database speaks.
        let hold = match self.backend {
            Backend::Sqlite => "",
            Backend::Postgres => "COLLATE \"C\" FOR UPDATE",
        };
        let mut planes = BTreeMap::new();
        for piece in pieces(ids) {
            let places = places(1, piece.len());
            let statement = format!(
                "SELECT * FROM planes WHERE id IN ({places}) AND deleted_at IS NULL
                 ORDER BY id {hold}"
            );
            let mut query = sqlx::query(AssertSqlSafe(statement));
            for id in piece {
                query = query.bind(*id);
            }
            let rows = query.fetch_all(&mut *self.inner).await.map_err(read("data planes"))?;
            for row in &rows {
                let plane = decode(row)?;
                planes.insert(plane.id.clone(), plane);
            }
        }
        Ok(planes)
    }

    /// Changes the state of a data plane that is held and records the decision, if it changes at all. The data
    /// plane has to be saved afterwards.
    ///
    /// # Errors
    /// If the change is not in the table of transitions, or the database does not answer.
    pub async fn change_state(
        &mut self,
        kind: DecisionKind,
        plane: &mut Plane,
        state: PlaneState,
        (code, reason): (&'static str, &str),
    ) -> Result<(), StoreError> {
        if plane.state != state {
            let next = plane.state.change_to(state).map_err(StoreError::PlaneTransition)?;
            self.decide(NewDecision {
                plane: Some(&plane.id),
                region: None,
                kind,
                was: plane.state.to_string(),
                becomes: next.to_string(),
                code,
                reason: reason.to_owned(),
                dry_run: false,
            })
            .await?;
            plane.state = next;
        }
        reason.clone_into(&mut plane.state_reason);
        Ok(())
    }

    /// Stores what has changed of data planes that are held.
    pub(crate) async fn save_planes(&mut self, planes: &[&Plane]) -> Result<(), StoreError> {
        save(&mut self.inner, planes).await
    }

    /// How many Kafkas a data plane has, in whatever state.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn kafkas_on(&mut self, plane: &str) -> Result<u64, StoreError> {
        let row = sqlx::query(
            "SELECT COUNT(*) AS n FROM kafkas WHERE deleted_at IS NULL AND plane_id = $1",
        )
        .bind(plane)
        .fetch_one(&mut *self.inner)
        .await
        .map_err(read("Kafkas"))?;
        Ok(count(number(&row, "n")?))
    }

    /// Whether an id is or was that of a data plane. Ids are never given twice.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn plane_ever(&mut self, id: &str) -> Result<bool, StoreError> {
        let row = sqlx::query("SELECT id FROM planes WHERE id = $1")
            .bind(id)
            .fetch_optional(&mut *self.inner)
            .await
            .map_err(read("a data plane"))?;
        Ok(row.is_some())
    }

    /// Stores a new data plane.
    ///
    /// # Errors
    /// If the database does not answer, or has that id already.
    pub async fn add_plane(&mut self, plane: &NewPlane) -> Result<(), StoreError> {
        let now = now_ms();
        sqlx::query(
            "INSERT INTO planes (id, cloud_provider, region, multi_az, provider_type, state,
                nodes_wanted, nodes_since, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $8)",
        )
        .bind(&plane.id)
        .bind(&plane.cloud_provider)
        .bind(&plane.region)
        .bind(i64::from(plane.multi_az))
        .bind(&plane.provider_type)
        .bind(PlaneState::Accepted.name())
        .bind(i64::from(plane.nodes))
        .bind(now)
        .execute(&mut *self.inner)
        .await
        .map_err(write("a data plane"))?;
        Ok(())
    }

    /// Stores what has changed of a data plane that is held.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn save_plane(&mut self, plane: &Plane) -> Result<(), StoreError> {
        save(&mut self.inner, &[plane]).await
    }

    /// Says that a data plane is gone.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn delete_plane(&mut self, id: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE planes SET deleted_at = $2 WHERE id = $1 AND deleted_at IS NULL")
            .bind(id)
            .bind(now_ms())
            .execute(&mut *self.inner)
            .await
            .map_err(write("a data plane"))?;
        Ok(())
    }
}

/// The columns, in the order in which they are bound.
const COLUMNS: [&str; 30] = [
    "id",
    "cloud_provider",
    "region",
    "multi_az",
    "provider_type",
    "created_at",
    "provider_id",
    "state",
    "draining",
    "removed_by_hand",
    "removal",
    "nodes_wanted",
    "nodes_desired",
    "nodes_actual",
    "nodes_asked_at",
    "nodes_since",
    "nodes_by_hand",
    "nodes_sent",
    "nodes_confirmed",
    "nodes_reached",
    "nodes_failed",
    "unsuitable",
    "last_step_up",
    "last_seen",
    "sequence",
    "report",
    "broken",
    "state_reason",
    "step_reason",
    "updated_at",
];

/// So many of the columns never change.
const FIXED: usize = 6;

/// How many data planes are read or written by one statement. There are few such numbers, so that the database
/// keeps the statements.
const AT_ONCE: [usize; 4] = [64, 16, 4, 1];

/// In pieces of these lengths, the longest first.
fn pieces<T>(mut all: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let length = AT_ONCE.into_iter().find(|length| *length <= all.len())?;
        let (piece, rest) = all.split_at(length);
        all = rest;
        Some(piece)
    })
}

/// `$1, $2, …`
fn places(first: usize, count: usize) -> String {
    let places: Vec<_> = (first..first + count).map(|number| format!("${number}")).collect();
    places.join(", ")
}

/// A statement that writes so many rows which are there already.
fn save_statement(rows: usize) -> String {
    let values: Vec<_> = (0..rows)
        .map(|row| format!("({})", places(row * COLUMNS.len() + 1, COLUMNS.len())))
        .collect();
    let changes: Vec<_> =
        COLUMNS[FIXED..].iter().map(|column| format!("{column} = excluded.{column}")).collect();
    format!(
        "INSERT INTO planes ({}) VALUES {} ON CONFLICT (id) DO UPDATE SET {}",
        COLUMNS.join(", "),
        values.join(", "),
        changes.join(", "),
    )
}

/// Writes data planes that are held.
pub(super) async fn save(
    connection: &mut AnyConnection,
    planes: &[&Plane],
) -> Result<(), StoreError> {
    let now = now_ms();
    for piece in pieces(planes) {
        let mut query = sqlx::query(AssertSqlSafe(save_statement(piece.len())));
        for plane in piece {
            query = query
                .bind(&plane.id)
                .bind(&plane.cloud_provider)
                .bind(&plane.region)
                .bind(i64::from(plane.multi_az))
                .bind(&plane.provider_type)
                .bind(plane.created_at)
                .bind(&plane.provider_id)
                .bind(plane.state.name())
                .bind(i64::from(plane.draining))
                .bind(i64::from(plane.removed_by_hand))
                .bind(&plane.removal)
                .bind(plane.nodes_wanted)
                .bind(plane.nodes_desired)
                .bind(plane.nodes_actual)
                .bind(plane.nodes_asked_at)
                .bind(plane.nodes_since)
                .bind(i64::from(plane.nodes_by_hand))
                .bind(plane.nodes_sent)
                .bind(plane.nodes_confirmed)
                .bind(plane.nodes_reached)
                .bind(&plane.nodes_failed)
                .bind(&plane.unsuitable)
                .bind(plane.last_step_up)
                .bind(plane.last_seen)
                .bind(plane.sequence)
                .bind(plane.report.as_ref().map(StoredReport::to_json))
                .bind(&plane.broken)
                .bind(&plane.state_reason)
                .bind(&plane.step_reason)
                .bind(now);
        }
        query.execute(&mut *connection).await.map_err(write("data planes"))?;
    }
    Ok(())
}

fn decode(row: &AnyRow) -> Result<Plane, StoreError> {
    let state = text(row, "state")?;
    let report: Option<String> = row.try_get("report").map_err(read("report"))?;
    Ok(Plane {
        id: text(row, "id")?,
        cloud_provider: text(row, "cloud_provider")?,
        region: text(row, "region")?,
        multi_az: flag(row, "multi_az")?,
        provider_type: text(row, "provider_type")?,
        provider_id: text_or_none(row, "provider_id")?,
        state: state
            .parse()
            .map_err(|_| StoreError::Corrupt { what: "the state of a data plane", value: state })?,
        draining: flag(row, "draining")?,
        removed_by_hand: flag(row, "removed_by_hand")?,
        removal: text_or_none(row, "removal")?,
        nodes_wanted: number_or_none(row, "nodes_wanted")?,
        nodes_desired: number_or_none(row, "nodes_desired")?,
        nodes_actual: number_or_none(row, "nodes_actual")?,
        nodes_asked_at: number_or_none(row, "nodes_asked_at")?,
        nodes_since: number_or_none(row, "nodes_since")?,
        nodes_by_hand: flag(row, "nodes_by_hand")?,
        nodes_sent: number_or_none(row, "nodes_sent")?,
        nodes_confirmed: number_or_none(row, "nodes_confirmed")?,
        nodes_reached: number_or_none(row, "nodes_reached")?,
        nodes_failed: text(row, "nodes_failed")?,
        unsuitable: text(row, "unsuitable")?,
        last_step_up: number_or_none(row, "last_step_up")?,
        last_seen: number_or_none(row, "last_seen")?,
        sequence: number_or_none(row, "sequence")?,
        report: report.map(|text| StoredReport::from_json(&text)).transpose()?,
        broken: text(row, "broken")?,
        state_reason: text(row, "state_reason")?,
        step_reason: text(row, "step_reason")?,
        created_at: number(row, "created_at")?,
        updated_at: number(row, "updated_at")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_that_is_not_in_the_table_is_an_error_and_changes_nothing() {
        use fleet_control::{KafkaEvent, KafkaStatus};
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("fleet.db").display());
        let store = Store::open(&url).await.unwrap();
        let mut tx = store.begin().await.unwrap();
        let new = NewPlane {
            id: "p".to_owned(),
            cloud_provider: "aws".to_owned(),
            region: "r".to_owned(),
            multi_az: true,
            provider_type: "ocm".to_owned(),
            nodes: 3,
        };
        tx.add_plane(&new).await.unwrap();
        let mut plane = tx.plane("p").await.unwrap().unwrap();
        let refused =
            tx.change_state(DecisionKind::State, &mut plane, PlaneState::Ready, ("", "")).await;
        assert!(matches!(refused, Err(StoreError::PlaneTransition(_))), "{refused:?}");
        assert_eq!(plane.state(), PlaneState::Accepted);
        let next = PlaneState::Provisioning;
        tx.change_state(DecisionKind::State, &mut plane, next, ("Created", "created"))
            .await
            .unwrap();
        assert_eq!((plane.state(), plane.state_reason.as_str()), (next, "created"));
        tx.commit().await.unwrap();
        let reasons = store
            .decisions(crate::store::DecisionsAbout::Plane("p"), 10)
            .await
            .unwrap()
            .into_iter()
            .map(|one| one.reason);
        assert_eq!(reasons.collect::<Vec<_>>(), ["created"]);

        let kafka = crate::store::NewKafka {
            name: "k".to_owned(),
            owner: "ann".to_owned(),
            organisation: "org".to_owned(),
            cloud_provider: "aws".to_owned(),
            region: "r".to_owned(),
            multi_az: true,
            instance_type: "standard".to_owned(),
            size_id: "x1".to_owned(),
            need: Capacity::default(),
        };
        let mut tx = store.begin().await.unwrap();
        let id = tx.add_kafka(&kafka).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        let mut kafka = store.kafka(&id).await.unwrap().unwrap();
        let refused = kafka.happens(KafkaEvent::Removed);
        assert!(matches!(refused, Err(StoreError::KafkaTransition(_))), "{refused:?}");
        assert_eq!(kafka.status(), KafkaStatus::Accepted);
    }

    #[test]
    fn many_are_written_in_few_statements() {
        let lengths =
            |count: usize| -> Vec<usize> { pieces(&vec![(); count]).map(<[()]>::len).collect() };
        assert_eq!(lengths(0), [] as [usize; 0]);
        assert_eq!(lengths(1), [1]);
        assert_eq!(lengths(86), [64, 16, 4, 1, 1]);
        let statement = save_statement(2);
        assert!(statement.contains("$60) ON CONFLICT (id) DO UPDATE SET provider_id = excluded."));
        assert!(!statement.contains("cloud_provider = "), "{statement}");
    }
}
