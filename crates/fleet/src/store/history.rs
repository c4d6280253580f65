//! What was decided and why, and who asked for what.

use sqlx::AnyConnection;

use super::{Store, StoreError, Tx, flag, new_id, now_ms, number, read, text, text_or_none, write};

/// What a decision is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionKind {
    /// The state of a data plane.
    State,
    /// Its nodes.
    Nodes,
    /// A data plane is created.
    Create,
    /// A data plane is removed, or taken back.
    Remove,
    /// A Kafka gets its place.
    Place,
    /// A data plane grows for a Kafka that waits.
    Grow,
    /// A region needs a data plane and may not get one, or may again.
    Hold,
}

impl DecisionKind {
    /// The word that is stored and served.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DecisionKind::State => "state",
            DecisionKind::Nodes => "nodes",
            DecisionKind::Create => "create",
            DecisionKind::Remove => "remove",
            DecisionKind::Place => "place",
            DecisionKind::Grow => "grow",
            DecisionKind::Hold => "hold",
        }
    }
}

/// Which decisions are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionsAbout<'a> {
    /// Those about a data plane, by its id.
    Plane(&'a str),
    /// Those about a region, by its provider and id with a slash between them.
    Region(&'a str),
    /// All.
    Everything,
}

/// A decision that is to be remembered.
#[derive(Debug, Clone)]
pub struct NewDecision<'a> {
    /// The data plane it is about.
    pub plane: Option<&'a str>,
    /// The provider and region it is about.
    pub region: Option<String>,
    /// What it is about.
    pub kind: DecisionKind,
    /// What was.
    pub was: String,
    /// What is to be.
    pub becomes: String,
    /// Why, in a word.
    pub code: &'static str,
    /// Why.
    pub reason: String,
    /// Whether it was only decided and not done.
    pub dry_run: bool,
}

/// A decision that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Its id; later ones sort after earlier ones.
    pub id: String,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// The data plane it is about.
    pub plane: Option<String>,
    /// The provider and region it is about.
    pub region: Option<String>,
    /// What it is about.
    pub kind: String,
    /// What was.
    pub was: String,
    /// What is to be.
    pub becomes: String,
    /// Why.
    pub reason: String,
    /// Whether it was only decided and not done.
    pub dry_run: bool,
}

impl Store {
    /// The newest decisions.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn decisions(
        &self,
        about: DecisionsAbout<'_>,
        limit: i64,
    ) -> Result<Vec<Decision>, StoreError> {
        let (statement, about) = match about {
            DecisionsAbout::Plane(id) => {
                ("SELECT * FROM decisions WHERE plane_id = $1 ORDER BY id DESC LIMIT $2", id)
            }
            DecisionsAbout::Region(name) => {
                ("SELECT * FROM decisions WHERE region = $1 ORDER BY id DESC LIMIT $2", name)
            }
            DecisionsAbout::Everything => {
                ("SELECT * FROM decisions WHERE $1 = '' ORDER BY id DESC LIMIT $2", "")
            }
        };
        let rows = sqlx::query(statement).bind(about).bind(limit).fetch_all(&self.pool).await;
        let decode = |row| {
            Ok(Decision {
                id: text(row, "id")?,
                at: number(row, "at")?,
                plane: text_or_none(row, "plane_id")?,
                region: text_or_none(row, "region")?,
                kind: text(row, "kind")?,
                was: text(row, "was")?,
                becomes: text(row, "becomes")?,
                reason: text(row, "reason")?,
                dry_run: flag(row, "dry_run")?,
            })
        };
        rows.map_err(read("decisions"))?.iter().map(decode).collect()
    }

    /// Remembers who asked for what, and how it was answered.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn audit(
        &self,
        subject: &str,
        method: &str,
        path: &str,
        status: u16,
    ) -> Result<(), StoreError> {
        let mut connection = self.pool.acquire().await.map_err(write("the audit log"))?;
        insert_audit(&mut connection, (subject, method, path), status).await
    }

    /// Forgets entries of the audit log that are older.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn forget_audit(&self, before: i64) -> Result<u64, StoreError> {
        let done = sqlx::query("DELETE FROM audit WHERE at < $1")
            .bind(before)
            .execute(&self.pool)
            .await
            .map_err(write("the audit log"))?;
        Ok(done.rows_affected())
    }

    /// The newest entries of the audit log: when, who, method, path, status.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn audit_log(
        &self,
        limit: i64,
    ) -> Result<Vec<(i64, String, String, String, i64)>, StoreError> {
        let rows = sqlx::query("SELECT * FROM audit ORDER BY id DESC LIMIT $1")
            .bind(limit)
            .fetch_all(&self.pool)
            .await
            .map_err(read("the audit log"))?;
        rows.iter()
            .map(|row| {
                let (subject, method) = (text(row, "subject")?, text(row, "method")?);
                Ok((
                    number(row, "at")?,
                    subject,
                    method,
                    text(row, "path")?,
                    number(row, "status")?,
                ))
            })
            .collect()
    }
}

impl Tx {
    /// Remembers a decision.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn decide(&mut self, decision: NewDecision<'_>) -> Result<(), StoreError> {
        let counted = (decision.kind.name(), decision.code);
        insert(&mut self.inner, decision).await?;
        self.decided.push(counted);
        Ok(())
    }

    /// Remembers who asked for what, and how it is answered, if this transaction is.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn audit(
        &mut self,
        subject: &str,
        method: &str,
        path: &str,
        status: u16,
    ) -> Result<(), StoreError> {
        insert_audit(&mut self.inner, (subject, method, path), status).await
    }
}

async fn insert_audit(
    connection: &mut AnyConnection,
    (subject, method, path): (&str, &str, &str),
    status: u16,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO audit (id, at, subject, method, path, status)
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(new_id())
    .bind(now_ms())
    .bind(subject)
    .bind(method)
    .bind(path)
    .bind(i64::from(status))
    .execute(connection)
    .await
    .map_err(write("the audit log"))?;
    Ok(())
}

pub(super) async fn insert(
    connection: &mut AnyConnection,
    decision: NewDecision<'_>,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO decisions (id, at, plane_id, region, kind, was, becomes, reason, dry_run)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(new_id())
    .bind(now_ms())
    .bind(decision.plane)
    .bind(decision.region)
    .bind(decision.kind.name())
    .bind(decision.was)
    .bind(decision.becomes)
    .bind(decision.reason)
    .bind(i64::from(decision.dry_run))
    .execute(connection)
    .await
    .map_err(write("a decision"))?;
    Ok(())
}
