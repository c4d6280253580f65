//! Tokens that the manager gives out itself. What is stored does not give anybody access.

use sqlx::any::AnyRow;

use super::{
    Store, StoreError, Tx, now_ms, number, number_or_none, read, text, text_or_none, write,
};
use crate::local_tokens::TokenRole;

/// A token, without itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What its bearer may do.
    pub role: TokenRole,
    /// Who created it.
    pub created_by: String,
    /// When.
    pub created_at: i64,
    /// Until when it is valid.
    pub expires_at: i64,
    /// When it was revoked.
    pub revoked_at: Option<i64>,
}

impl Store {
    /// All tokens, also those that are no longer valid, oldest first.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn api_tokens(&self) -> Result<Vec<StoredToken>, StoreError> {
        let rows = sqlx::query("SELECT * FROM api_tokens ORDER BY id LIMIT 10000")
            .fetch_all(&self.pool)
            .await
            .map_err(read("tokens"))?;
        rows.iter().map(decode).collect()
    }

    /// The valid token with this hash.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn api_token(&self, hash: &str) -> Result<Option<StoredToken>, StoreError> {
        let row = sqlx::query(
            "SELECT * FROM api_tokens WHERE hash = $1 AND revoked_at IS NULL AND expires_at > $2",
        )
        .bind(hash)
        .bind(now_ms())
        .fetch_optional(&self.pool)
        .await
        .map_err(read("a token"))?;
        row.as_ref().map(decode).transpose()
    }
}

impl Tx {
    /// Stores a token by its hash.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn add_api_token(
        &mut self,
        token: &StoredToken,
        hash: &str,
    ) -> Result<(), StoreError> {
        let (username, organisation, plane) = token.role.subject();
        sqlx::query(
            "INSERT INTO api_tokens (id, name, hash, role, username, organisation, plane_id,
                created_by, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        )
        .bind(&token.id)
        .bind(&token.name)
        .bind(hash)
        .bind(token.role.name())
        .bind(username)
        .bind(organisation)
        .bind(plane)
        .bind(&token.created_by)
        .bind(token.created_at)
        .bind(token.expires_at)
        .execute(&mut *self.inner)
        .await
        .map_err(write("a token"))?;
        Ok(())
    }

    /// Revokes a token; false if there is none.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn revoke_api_token(&mut self, id: &str) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "UPDATE api_tokens SET revoked_at = COALESCE(revoked_at, $2) WHERE id = $1",
        )
        .bind(id)
        .bind(now_ms())
        .execute(&mut *self.inner)
        .await
        .map_err(write("a token"))?;
        Ok(done.rows_affected() == 1)
    }
}

fn decode(row: &AnyRow) -> Result<StoredToken, StoreError> {
    let name = text(row, "role")?;
    let of = |column| Ok::<_, StoreError>(text_or_none(row, column)?.unwrap_or_default());
    let subject = (of("username")?, of("organisation")?, of("plane_id")?);
    let role = TokenRole::read(&name, subject);
    Ok(StoredToken {
        id: text(row, "id")?,
        name: text(row, "name")?,
        role: role.ok_or(StoreError::Corrupt { what: "the role of a token", value: name })?,
        created_by: text(row, "created_by")?,
        created_at: number(row, "created_at")?,
        expires_at: number(row, "expires_at")?,
        revoked_at: number_or_none(row, "revoked_at")?,
    })
}
