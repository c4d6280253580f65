//! Kafkas, and how they are searched for.

use fleet_control::{Capacity, KafkaEvent, KafkaStatus};
use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

use super::reports::columns;
use super::{
    Store, StoreError, Tx, count, flag, new_id, now_ms, number, number_or_none, read, text,
    text_or_none, write,
};

/// A Kafka, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kafka {
    /// Its id, for ever.
    pub id: String,
    /// Its name, unique among those that are there.
    pub name: String,
    /// Who asked for it.
    pub owner: String,
    /// The organisation of that person.
    pub organisation: String,
    /// Its cloud provider.
    pub cloud_provider: String,
    /// Its region.
    pub region: String,
    /// Whether its brokers are in several zones.
    pub multi_az: bool,
    /// The type of its size.
    pub instance_type: String,
    /// Its size.
    pub size_id: String,
    /// Where it is in its life. Only [`Kafka::happens`] changes it.
    status: KafkaStatus,
    /// Why, in words.
    pub reason: String,
    /// The data plane it is on.
    pub plane_id: Option<String>,
    /// The data plane that grows for it while it waits.
    pub growing_plane_id: Option<String>,
    /// Changes each time it is placed.
    pub placement_id: String,
    /// Where clients begin.
    pub bootstrap: String,
    /// The version of Kafka that the agent told of.
    pub version: String,
    /// The certificate authority that its listeners are signed by, in PEM.
    pub ca_certificate: String,
    /// What it takes.
    pub need: Capacity,
    /// When the agent first told of it.
    pub reported_at: Option<i64>,
    /// When it was asked for.
    pub created_at: i64,
    /// When it last changed.
    pub updated_at: i64,
}

impl Kafka {
    /// Where it is in its life.
    #[must_use]
    pub fn status(&self) -> KafkaStatus {
        self.status
    }

    /// Changes the status by an event.
    ///
    /// # Errors
    /// If the event cannot happen in this status.
    pub fn happens(&mut self, event: KafkaEvent) -> Result<(), StoreError> {
        self.status = self.status.after(event).map_err(StoreError::KafkaTransition)?;
        Ok(())
    }
}

/// A Kafka that is asked for.
#[derive(Debug, Clone)]
pub struct NewKafka {
    /// Its name.
    pub name: String,
    /// Who asks for it.
    pub owner: String,
    /// The organisation of that person.
    pub organisation: String,
    /// Its cloud provider.
    pub cloud_provider: String,
    /// Its region.
    pub region: String,
    /// Whether its brokers are to be in several zones.
    pub multi_az: bool,
    /// The type of its size.
    pub instance_type: String,
    /// Its size.
    pub size_id: String,
    /// What it takes.
    pub need: Capacity,
}

/// Which Kafkas are meant, and in which order.
#[derive(Debug, Clone, Default)]
pub struct KafkaFilter {
    /// Only those of this organisation.
    pub organisation: Option<String>,
    /// Only those for which this holds.
    pub search: Vec<Term>,
    /// By these columns; a name and whether it is descending.
    pub order: Vec<(&'static str, bool)>,
    /// How many are skipped.
    pub offset: i64,
    /// How many are wanted.
    pub limit: i64,
}

/// Some of many.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// These.
    pub items: Vec<T>,
    /// How many there are in all.
    pub total: i64,
}

/// One comparison of a search, and what joins it to the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    or: bool,
    column: &'static str,
    compare: Compare,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Compare {
    Equal(String),
    Differs(String),
    Like(String),
    LikeAnyCase(String),
    In(Vec<String>),
    NotIn(Vec<String>),
}

/// What is wrong with a search.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// Only some columns can be searched or sorted by.
    #[error("\"{0}\" is not a field to search or sort by")]
    Field(String),
    /// It ends too early, or goes on too long.
    #[error("the search is not valid at \"{0}\"")]
    Syntax(String),
    /// It is longer than anyone needs.
    #[error("a search has at most 10 conditions")]
    TooLong,
}

/// What may be searched by.
const SEARCHED: [&str; 7] =
    ["cloud_provider", "name", "owner", "region", "status", "instance_type", "cluster_id"];

/// Reads a search such as `name LIKE 'a%' AND region = 'us-east-1'`; AND binds tighter than OR.
///
/// # Errors
/// If it is not valid.
pub fn parse_search(text: &str) -> Result<Vec<Term>, SearchError> {
    let words = split(text)?;
    let mut words = words.iter().map(String::as_str).peekable();
    let mut terms: Vec<Term> = Vec::new();
    let mut or = false;
    while words.peek().is_some() {
        if terms.len() == 10 {
            return Err(SearchError::TooLong);
        }
        terms.push(term(&mut words, or)?);
        or = match words.next().map(str::to_ascii_uppercase).as_deref() {
            None => return Ok(terms),
            Some("AND") => false,
            Some("OR") => true,
            Some(other) => return Err(SearchError::Syntax(other.to_owned())),
        };
        if words.peek().is_none() {
            return Err(SearchError::Syntax(String::new()));
        }
    }
    Ok(terms)
}

fn term<'a>(words: &mut impl Iterator<Item = &'a str>, or: bool) -> Result<Term, SearchError> {
    let mut next = || words.next().ok_or_else(|| SearchError::Syntax(String::new()));
    let name = next()?.to_ascii_lowercase();
    let column = SEARCHED.into_iter().find(|column| *column == name);
    let column = match column.ok_or(SearchError::Field(name))? {
        "cluster_id" => "plane_id",
        column => column,
    };
    let mut operator = next()?.to_ascii_uppercase();
    if operator == "NOT" {
        operator = format!("NOT {}", next()?.to_ascii_uppercase());
    }
    let compare = match operator.as_str() {
        "=" => Compare::Equal(value(next()?)?),
        "<>" => Compare::Differs(value(next()?)?),
        "LIKE" => Compare::Like(value(next()?)?),
        "ILIKE" => Compare::LikeAnyCase(value(next()?)?),
        "IN" => Compare::In(list(&mut next)?),
        "NOT IN" => Compare::NotIn(list(&mut next)?),
        other => return Err(SearchError::Syntax(other.to_owned())),
    };
    Ok(Term { or, column, compare })
}

fn list<'a>(
    next: &mut impl FnMut() -> Result<&'a str, SearchError>,
) -> Result<Vec<String>, SearchError> {
    let mut values = Vec::new();
    match next()? {
        "(" => {}
        other => return Err(SearchError::Syntax(other.to_owned())),
    }
    loop {
        values.push(value(next()?)?);
        match next()? {
            "," => {}
            ")" => return Ok(values),
            other => return Err(SearchError::Syntax(other.to_owned())),
        }
    }
}

fn value(word: &str) -> Result<String, SearchError> {
    match word.strip_prefix('\'') {
        // PostgreSQL has no text with a zero in it, and no pattern that ends with its own escape.
        Some(text) if !text.contains(['\0', '!']) => Ok(text.to_owned()),
        Some(text) => Err(SearchError::Syntax(text.to_owned())),
        None if word.chars().all(|c| c.is_alphanumeric() || "-_.%".contains(c)) => {
            Ok(word.to_owned())
        }
        None => Err(SearchError::Syntax(word.to_owned())),
    }
}

/// Words, signs, and texts in quotes; a text keeps its first quote, to tell it from a word.
fn split(text: &str) -> Result<Vec<String>, SearchError> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let mut word = String::from(c);
        match c {
            c if c.is_whitespace() => continue,
            '\'' => loop {
                match (chars.next(), chars.peek()) {
                    (Some('\''), Some('\'')) => word.extend(chars.next()),
                    (Some('\''), _) => break,
                    (Some(c), _) => word.push(c),
                    (None, _) => return Err(SearchError::Syntax(word)),
                }
            },
            '(' | ')' | ',' | '=' => {}
            '<' => word.extend(chars.next()),
            _ => {
                while let Some(c) = chars.next_if(|c| !c.is_whitespace() && !"()',=<".contains(*c))
                {
                    word.push(c);
                }
            }
        }
        words.push(word);
    }
    Ok(words)
}

/// Reads an order such as `name asc, region desc`.
///
/// # Errors
/// If it names something that cannot be sorted by.
pub fn parse_order(text: &str) -> Result<Vec<(&'static str, bool)>, SearchError> {
    const MORE: [&str; 3] = ["created_at", "updated_at", "id"];
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    parts
        .map(|part| {
            let mut words = part.split_whitespace();
            let name = words.next().unwrap_or_default().to_ascii_lowercase();
            let column = SEARCHED.into_iter().chain(MORE).find(|column| *column == name);
            let column = column.ok_or(SearchError::Field(name))?;
            let column = if column == "cluster_id" { "plane_id" } else { column };
            let descending = match words.next().map(str::to_ascii_lowercase).as_deref() {
                None | Some("asc") => false,
                Some("desc") => true,
                Some(other) => return Err(SearchError::Syntax(other.to_owned())),
            };
            match words.next() {
                None => Ok((column, descending)),
                Some(other) => Err(SearchError::Syntax(other.to_owned())),
            }
        })
        .collect()
}

/// A statement that grows, with the values of its placeholders. Only names of ours become a part of it.
/// `sqlx::QueryBuilder` does not serve both databases: for `Any` it writes `?`, which PostgreSQL does not accept.
#[derive(Debug)]
struct Statement {
    text: String,
    values: Vec<String>,
}

impl Statement {
    fn new(text: &str, filter: &KafkaFilter) -> Self {
        let mut statement = Self { text: text.to_owned(), values: Vec::new() };
        statement.text += " WHERE deleted_at IS NULL";
        if let Some(organisation) = &filter.organisation {
            let place = statement.bind(organisation);
            statement.text += &format!(" AND organisation = {place}");
        }
        for (index, term) in filter.search.iter().enumerate() {
            statement.text += match (index, term.or) {
                (0, _) => " AND (",
                (_, true) => " OR ",
                (_, false) => " AND ",
            };
            statement.compare(term);
        }
        if !filter.search.is_empty() {
            statement.text += ")";
        }
        statement
    }

    /// The placeholder of a value.
    fn bind(&mut self, value: &str) -> String {
        self.values.push(value.to_owned());
        format!("${}", self.values.len())
    }

    fn compare(&mut self, term: &Term) {
        // The others are never null, and have indexes that a function would hide.
        let column = match term.column {
            "plane_id" => "COALESCE(plane_id, '')",
            column => column,
        };
        let many = |statement: &mut Self, values: &[String]| {
            let places: Vec<_> = values.iter().map(|value| statement.bind(value)).collect();
            places.join(", ")
        };
        let condition = match &term.compare {
            Compare::Equal(value) => format!("{column} = {}", self.bind(value)),
            Compare::Differs(value) => format!("{column} <> {}", self.bind(value)),
            Compare::Like(value) => format!("{column} LIKE {} ESCAPE '!'", self.bind(value)),
            Compare::LikeAnyCase(value) => {
                format!("LOWER({column}) LIKE LOWER({}) ESCAPE '!'", self.bind(value))
            }
            Compare::In(values) => format!("{column} IN ({})", many(self, values)),
            Compare::NotIn(values) => format!("{column} NOT IN ({})", many(self, values)),
        };
        self.text += &condition;
    }

    async fn fetch(self, pool: &sqlx::AnyPool) -> Result<Vec<AnyRow>, StoreError> {
        let query = sqlx::query(AssertSqlSafe(self.text));
        let query = self.values.into_iter().fold(query, sqlx::query::Query::bind);
        query.fetch_all(pool).await.map_err(read("Kafkas"))
    }
}

impl Store {
    /// One Kafka; nothing if there is none, or none any more.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn kafka(&self, id: &str) -> Result<Option<Kafka>, StoreError> {
        let row = sqlx::query("SELECT * FROM kafkas WHERE id = $1 AND deleted_at IS NULL")
            .bind(id)
            .fetch_optional(&self.pool)
            .await
            .map_err(read("a Kafka"))?;
        row.as_ref().map(decode).transpose()
    }

    /// The Kafkas that are meant, and how many there are without the limit.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn kafkas(&self, filter: &KafkaFilter) -> Result<Page<Kafka>, StoreError> {
        let counted = Statement::new("SELECT COUNT(*) AS n FROM kafkas", filter);
        let total = match counted.fetch(&self.pool).await?.first() {
            Some(row) => number(row, "n")?,
            None => 0,
        };
        let mut order = String::from(" ORDER BY ");
        for (column, descending) in &filter.order {
            order += &format!("{column} {}, ", if *descending { "DESC" } else { "ASC" });
        }
        order += "id";
        // The pages before this one are skipped in an index where there is one, without a look at their rows.
        let mut found = Statement::new("SELECT id FROM kafkas", filter);
        found.text += &format!("{order} LIMIT {} OFFSET {}", filter.limit, filter.offset);
        found.text = format!("SELECT * FROM kafkas WHERE id IN ({}){order}", found.text);
        let rows = found.fetch(&self.pool).await?;
        let items = rows.iter().map(decode).collect::<Result<_, _>>()?;
        Ok(Page { items, total })
    }

    /// The Kafkas with that status, oldest first.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn kafkas_with_status(&self, status: KafkaStatus) -> Result<Vec<Kafka>, StoreError> {
        let rows = sqlx::query(
            "SELECT * FROM kafkas WHERE deleted_at IS NULL AND status = $1 ORDER BY id LIMIT 1000",
        )
        .bind(status.name())
        .fetch_all(&self.pool)
        .await
        .map_err(read("Kafkas"))?;
        rows.iter().map(decode).collect()
    }

    /// The Kafkas that a data plane has or is to have.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn kafkas_of_plane(&self, plane: &str) -> Result<Vec<Kafka>, StoreError> {
        let rows = sqlx::query(
            "SELECT * FROM kafkas WHERE deleted_at IS NULL AND plane_id = $1 ORDER BY id",
        )
        .bind(plane)
        .fetch_all(&self.pool)
        .await
        .map_err(read("Kafkas"))?;
        rows.iter().map(decode).collect()
    }
}

impl Tx {
    /// Stores a Kafka that is asked for; nothing if the name is taken.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn add_kafka(&mut self, kafka: &NewKafka) -> Result<Option<String>, StoreError> {
        let (id, now) = (new_id(), now_ms());
        let [connections, partitions, throughput, retention] = columns(kafka.need);
        let done = sqlx::query(
            "INSERT INTO kafkas (id, name, owner, organisation, cloud_provider, region, multi_az,
                instance_type, size_id, status, placement_id, connections, partitions, throughput,
                retention, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $15, '', $10, $11, $12, $13, $14, $14)
             ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING",
        )
        .bind(&id)
        .bind(&kafka.name)
        .bind(&kafka.owner)
        .bind(&kafka.organisation)
        .bind(&kafka.cloud_provider)
        .bind(&kafka.region)
        .bind(i64::from(kafka.multi_az))
        .bind(&kafka.instance_type)
        .bind(&kafka.size_id)
        .bind(connections)
        .bind(partitions)
        .bind(throughput)
        .bind(retention)
        .bind(now)
        .bind(KafkaStatus::Accepted.name())
        .execute(&mut *self.inner)
        .await
        .map_err(write("a Kafka"))?;
        Ok((done.rows_affected() == 1).then_some(id))
    }

    /// One Kafka, held until the transaction ends.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn kafka(&mut self, id: &str) -> Result<Option<Kafka>, StoreError> {
        let mut statement = "SELECT * FROM kafkas WHERE id = $1 AND deleted_at IS NULL".to_owned();
        if self.backend == super::Backend::Postgres {
            statement += " FOR UPDATE";
        }
        let row = sqlx::query(AssertSqlSafe(statement))
            .bind(id)
            .fetch_optional(&mut *self.inner)
            .await
            .map_err(read("a Kafka"))?;
        row.as_ref().map(decode).transpose()
    }

    /// Stores what has changed of a Kafka that is held.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn save_kafka(&mut self, kafka: &Kafka) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE kafkas SET status = $2, reason = $3, plane_id = $4, placement_id = $5,
                bootstrap = $6, version = $7, reported_at = $8, updated_at = $9,
                growing_plane_id = $10, ca_certificate = $11,
                counted = CASE WHEN plane_id = $4 THEN counted ELSE 0 END
             WHERE id = $1",
        )
        .bind(&kafka.id)
        .bind(kafka.status.name())
        .bind(&kafka.reason)
        .bind(&kafka.plane_id)
        .bind(&kafka.placement_id)
        .bind(&kafka.bootstrap)
        .bind(&kafka.version)
        .bind(kafka.reported_at)
        .bind(now_ms())
        .bind(&kafka.growing_plane_id)
        .bind(&kafka.ca_certificate)
        .execute(&mut *self.inner)
        .await
        .map_err(write("a Kafka"))?;
        Ok(())
    }

    /// Says that a Kafka is gone. Nobody needs its passwords any more.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn delete_kafka(&mut self, id: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE kafkas SET deleted_at = $2 WHERE id = $1 AND deleted_at IS NULL")
            .bind(id)
            .bind(now_ms())
            .execute(&mut *self.inner)
            .await
            .map_err(write("a Kafka"))?;
        sqlx::query("DELETE FROM credentials WHERE kafka_id = $1")
            .bind(id)
            .execute(&mut *self.inner)
            .await
            .map_err(write("a credential"))?;
        Ok(())
    }
}

fn decode(row: &AnyRow) -> Result<Kafka, StoreError> {
    let word = text(row, "status")?;
    let status = word.parse();
    Ok(Kafka {
        id: text(row, "id")?,
        name: text(row, "name")?,
        owner: text(row, "owner")?,
        organisation: text(row, "organisation")?,
        cloud_provider: text(row, "cloud_provider")?,
        region: text(row, "region")?,
        multi_az: flag(row, "multi_az")?,
        instance_type: text(row, "instance_type")?,
        size_id: text(row, "size_id")?,
        status: status
            .map_err(|_| StoreError::Corrupt { what: "the status of a Kafka", value: word })?,
        reason: text(row, "reason")?,
        plane_id: text_or_none(row, "plane_id")?,
        growing_plane_id: text_or_none(row, "growing_plane_id")?,
        placement_id: text(row, "placement_id")?,
        bootstrap: text(row, "bootstrap")?,
        version: text(row, "version")?,
        ca_certificate: text(row, "ca_certificate")?,
        need: Capacity {
            connections: count(number(row, "connections")?),
            partitions: count(number(row, "partitions")?),
            throughput_bytes: count(number(row, "throughput")?),
            retention_bytes: count(number(row, "retention")?),
        },
        reported_at: number_or_none(row, "reported_at")?,
        created_at: number(row, "created_at")?,
        updated_at: number(row, "updated_at")?,
    })
}

#[cfg(test)]
#[path = "kafkas_tests.rs"]
mod tests;
