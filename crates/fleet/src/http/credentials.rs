//! Credentials of the owner of a Kafka: answered once, stored in the data plane by its agent, and then forgotten here.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::ToSchema;

use super::callers::{Change, Id, User};
use super::error::{Code, Error, Refusal};
use super::public::owned;
use super::{App, BASE};
use crate::store::{Credential, new_id};
use crate::tenants::{secret, username};

/// Credentials for a Kafka.
#[derive(Serialize, ToSchema)]
pub(super) struct KafkaCredentials {
    id: String,
    kind: String,
    href: String,
    /// User of Kafka.
    username: String,
    /// Password. No other request returns it.
    password: String,
    /// SASL mechanism.
    mechanism: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bootstrap_server_host: Option<String>,
    /// Certificate authority that clients have to trust, in PEM, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_certificate: Option<String>,
}

/// Create a new password for the owner of a Kafka; the one before stops working.
#[utoipa::path(post, path = "/api/kafkas_mgmt/v1/kafkas/{id}/credentials", tag = "public",
    params(("id" = String, Path)),
    responses((status = 201, body = KafkaCredentials), (status = 401, body = Error),
        (status = 403, body = Error), (status = 404, body = Error), (status = 409, body = Error),
        (status = 429, body = Error)))]
pub(super) async fn create_credentials(
    State(app): State<App>,
    user: User,
    change: Change,
    Id(id): Id,
) -> Result<impl IntoResponse, Refusal> {
    let mut tx = app.store.begin().await?;
    let kafka = owned(&mut tx, &user, &id).await?;
    if kafka.status().is_going() {
        return Err(Refusal::new(Code::Conflict, "the Kafka is being deleted"));
    }
    let password = secret();
    let password = password
        .ok_or_else(|| Refusal::new(Code::General, "cannot create a password: no randomness"))?;
    let credential = Credential { id: new_id(), username: username(&kafka.owner), password };
    tx.put_credential(&kafka.id, &credential).await?;
    change.audit(&mut tx, StatusCode::CREATED).await?;
    tx.commit().await?;
    let some = |text: String| (!text.is_empty()).then_some(text);
    let body = Json(KafkaCredentials {
        href: format!("{BASE}/kafkas/{}/credentials", kafka.id),
        id: credential.id,
        kind: "KafkaCredentials".to_owned(),
        username: credential.username,
        password: credential.password,
        mechanism: "SCRAM-SHA-512".to_owned(),
        bootstrap_server_host: some(kafka.bootstrap),
        ca_certificate: some(kafka.ca_certificate),
    });
    Ok((StatusCode::CREATED, [(header::CACHE_CONTROL, "no-store")], body))
}
