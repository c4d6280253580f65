//! Passwords of the owners of Kafkas, from the moment they are created until the agent has stored them.

use std::collections::BTreeMap;

use super::{Store, StoreError, Tx, now_ms, read, text, write};

/// A password that the agent has not stored yet.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// Its id, another one for each password.
    pub id: String,
    /// The user.
    pub username: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Store {
    /// The passwords that the agent of a data plane has not stored yet, by Kafka.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn credentials_of_plane(
        &self,
        plane: &str,
    ) -> Result<BTreeMap<String, Vec<Credential>>, StoreError> {
        let rows = sqlx::query(
            "SELECT c.* FROM credentials c JOIN kafkas k ON k.id = c.kafka_id
             WHERE k.plane_id = $1 AND k.deleted_at IS NULL AND c.password <> ''
             ORDER BY c.kafka_id, c.username",
        )
        .bind(plane)
        .fetch_all(&self.pool)
        .await
        .map_err(read("credentials"))?;
        let mut found: BTreeMap<String, Vec<Credential>> = BTreeMap::new();
        for row in &rows {
            let credential = Credential {
                id: text(row, "id")?,
                username: text(row, "username")?,
                password: text(row, "password")?,
            };
            found.entry(text(row, "kafka_id")?).or_default().push(credential);
        }
        Ok(found)
    }
}

impl Tx {
    /// Stores the password of a user of a Kafka, in place of the one before.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn put_credential(
        &mut self,
        kafka: &str,
        credential: &Credential,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO credentials (kafka_id, username, id, password, created_at)
             VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (kafka_id, username) DO UPDATE SET id = excluded.id,
                password = excluded.password, created_at = excluded.created_at, stored_at = NULL",
        )
        .bind(kafka)
        .bind(&credential.username)
        .bind(&credential.id)
        .bind(&credential.password)
        .bind(now_ms())
        .execute(&mut *self.inner)
        .await
        .map_err(write("a credential"))?;
        Ok(())
    }

    /// Removes a password that the agent has stored. A newer one of the same user stays.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn credential_stored(&mut self, kafka: &str, id: &str) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE credentials SET password = '', stored_at = $3 WHERE kafka_id = $1 AND id = $2",
        )
        .bind(kafka)
        .bind(id)
        .bind(now_ms())
        .execute(&mut *self.inner)
        .await
        .map_err(write("a credential"))?;
        Ok(())
    }
}
