//! Requests of pages besides streams. What changes something is a POST, and the source carries it out with the rights of
//! the user.

use std::sync::Arc;

use axum::Extension;
use axum::Json;
use axum::extract::{Query, State};
use axum::http::header::{self, HeaderMap};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use crate::feed::Topic;
use crate::gate::USER_COOKIE;
use crate::http::{Door, Shared, Who, asked};
use crate::source::{ClusterId, Edit, Reason, Refusal};

/// A cluster, in a query.
#[derive(Debug, Deserialize)]
pub(crate) struct Of {
    namespace: String,
    name: String,
    /// A time, in a request for the history.
    at: Option<u64>,
}

impl Of {
    fn id(self) -> ClusterId {
        ClusterId { namespace: self.namespace, name: self.name }
    }
}

/// A bearer token.
#[derive(Deserialize)]
pub(crate) struct Token {
    token: String,
}

/// A command to a rebalance.
#[derive(Debug, Deserialize)]
pub(crate) struct Command {
    rebalance: String,
    command: String,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self.reason {
            Reason::Forbidden => StatusCode::FORBIDDEN,
            Reason::Conflict => StatusCode::CONFLICT,
            Reason::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Reason::Failed => StatusCode::BAD_GATEWAY,
        };
        (status, Json(json!({ "message": self.message }))).into_response()
    }
}

/// Lets a user in: a cookie, and the key in the answer.
pub(crate) async fn sign_in(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Json(Token { token }): Json<Token>,
) -> Response {
    let Door::Users { logins, sessions } = &shared.door else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let admitted = match logins.admit(token.trim()).await {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal.into_response(),
    };
    let user = admitted.user.clone();
    let Some((session, key)) = sessions.begin(admitted) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    // Only a proxy knows whether the browser came by TLS.
    let proto = headers.get(HeaderName::from_static("x-forwarded-proto"));
    let secure = if proto.is_some_and(|proto| proto == "https") { "; Secure" } else { "" };
    let cookie = format!("{USER_COOKIE}={session}; Path=/; HttpOnly; SameSite=Strict{secure}");
    ([(header::SET_COOKIE, cookie)], Json(json!({ "key": key, "user": user }))).into_response()
}

/// Ends a session.
pub(crate) async fn sign_out(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if let Door::Users { sessions, .. } = &shared.door {
        sessions.end(asked(&headers).cookies);
    }
    StatusCode::NO_CONTENT.into_response()
}

pub(crate) async fn resources(Extension(who): Extension<Who>, Query(of): Query<Of>) -> Response {
    match who.feeds.source().resources(&of.id()).await {
        Ok(resources) => Json(resources).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

/// The times of the history of a cluster; with `at`, what its pages showed then.
pub(crate) async fn history(Extension(who): Extension<Who>, Query(of): Query<Of>) -> Response {
    let at = of.at;
    let topic = Topic::Cluster(of.id());
    let Some(at) = at else {
        return Json(json!({ "times": who.feeds.times(&topic) })).into_response();
    };
    let Some((since_ms, parts)) = who.feeds.at(&topic, at) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let parts: Vec<_> = parts.iter().map(|(name, part)| format!("\"{name}\":{part}")).collect();
    let text = format!("{{\"sinceMs\":{since_ms},\"parts\":{{{}}}}}", parts.join(","));
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

pub(crate) async fn plan(
    Extension(who): Extension<Who>,
    Query(of): Query<Of>,
    Json(edit): Json<Edit>,
) -> Response {
    match who.feeds.source().plan(&of.id(), &edit).await {
        Ok(plan) => Json(plan).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

pub(crate) async fn apply(
    Extension(who): Extension<Who>,
    Query(of): Query<Of>,
    Json(edit): Json<Edit>,
) -> Response {
    let id = of.id();
    let applied = who.feeds.source().apply(&id, &edit).await;
    who.feeds.poke(&Topic::Cluster(id));
    match applied {
        Ok(changed) => Json(json!({ "changed": changed })).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

pub(crate) async fn rebalance(
    Extension(who): Extension<Who>,
    Query(of): Query<Of>,
    Json(Command { rebalance, command }): Json<Command>,
) -> Response {
    let id = of.id();
    let asked = who.feeds.source().command(&id, &rebalance, &command).await;
    who.feeds.poke(&Topic::Cluster(id));
    match asked {
        Ok(()) => Json(json!({})).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}
