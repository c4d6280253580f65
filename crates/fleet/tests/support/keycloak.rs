//! Keycloak, as far as we ask it: clients with accounts, tokens for their secrets, and the keys behind them.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

use super::tokens::{ISSUER, Signer};

/// The realm in the paths.
const REALM: &str = "/realms/fleet";

pub(crate) struct Realm {
    /// By internal id.
    pub(crate) clients: BTreeMap<String, Value>,
    /// By account: the names of its roles.
    roles: BTreeMap<String, Vec<String>>,
    pub(crate) signer: Signer,
    /// How often the keys were asked for.
    pub(crate) keys_asked: u32,
    /// How often a token was asked for.
    pub(crate) tokens_asked: u32,
    made: u32,
}

#[derive(Clone)]
pub(crate) struct FakeKeycloak {
    pub(crate) url: String,
    pub(crate) realm: Arc<Mutex<Realm>>,
    /// While somebody holds this, keys are not answered.
    pub(crate) slow: Arc<tokio::sync::Mutex<()>>,
}

type Shared = State<Arc<Mutex<Realm>>>;
type Answer = Result<Json<Value>, StatusCode>;

impl FakeKeycloak {
    pub(crate) async fn start() -> Self {
        let realm = Arc::new(Mutex::new(Realm {
            clients: BTreeMap::new(),
            roles: BTreeMap::new(),
            signer: Signer::rsa("sso-1"),
            keys_asked: 0,
            tokens_asked: 0,
            made: 0,
        }));
        let slow = Arc::<tokio::sync::Mutex<()>>::default();
        let waits = Arc::clone(&slow);
        let answer_keys = move |realm: Shared| async move {
            let answer = keys(realm).await;
            let _ = waits.lock().await;
            answer
        };
        let admin = format!("/admin{REALM}");
        let router = Router::new()
            .route(&format!("{admin}/clients"), get(search).post(create))
            .route(&format!("{admin}/clients/{{id}}"), delete(remove))
            .route(&format!("{admin}/clients/{{id}}/service-account-user"), get(account))
            .route(&format!("{admin}/clients/{{id}}/client-secret"), get(secret))
            .route(&format!("{admin}/roles/{{name}}"), get(role))
            .route(&format!("{admin}/users/{{id}}/role-mappings/realm"), post(give_roles))
            .route(&format!("{REALM}/protocol/openid-connect/certs"), get(answer_keys))
            .route(&format!("{REALM}/protocol/openid-connect/token"), post(token))
            .with_state(Arc::clone(&realm));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, realm, slow }
    }

    pub(crate) fn admin_url(&self) -> String {
        format!("{}/admin{REALM}", self.url)
    }

    pub(crate) fn jwks_url(&self) -> String {
        format!("{}{REALM}/protocol/openid-connect/certs", self.url)
    }

    /// The names of all clients.
    pub(crate) fn clients(&self) -> Vec<String> {
        let realm = self.realm.lock().unwrap();
        let mut names: Vec<_> = realm
            .clients
            .values()
            .map(|one| one["clientId"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }
}

async fn search(
    State(realm): Shared,
    Query(query): Query<BTreeMap<String, String>>,
) -> Json<Value> {
    let realm = realm.lock().unwrap();
    let named = |one: &&Value| query.get("clientId").is_some_and(|name| one["clientId"] == **name);
    Json(realm.clients.values().filter(named).cloned().collect())
}

async fn create(State(realm): Shared, Json(mut body): Json<Value>) -> StatusCode {
    let mut realm = realm.lock().unwrap();
    if realm.clients.values().any(|one| one["clientId"] == body["clientId"]) {
        return StatusCode::CONFLICT;
    }
    realm.made += 1;
    let id = format!("internal-{}", realm.made);
    body["id"] = json!(id);
    realm.clients.insert(id, body);
    StatusCode::CREATED
}

async fn remove(State(realm): Shared, Path(id): Path<String>) -> StatusCode {
    match realm.lock().unwrap().clients.remove(&id) {
        Some(_) => StatusCode::NO_CONTENT,
        None => StatusCode::NOT_FOUND,
    }
}

async fn account(State(realm): Shared, Path(id): Path<String>) -> Answer {
    let realm = realm.lock().unwrap();
    let client = realm.clients.get(&id).ok_or(StatusCode::NOT_FOUND)?;
    match client["serviceAccountsEnabled"] == true {
        true => Ok(Json(json!({ "id": format!("account-of-{id}") }))),
        false => Err(StatusCode::BAD_REQUEST),
    }
}

async fn secret(State(realm): Shared, Path(id): Path<String>) -> Answer {
    let there = realm.lock().unwrap().clients.contains_key(&id);
    match there {
        true => Ok(Json(json!({ "type": "secret", "value": format!("secret-of-{id}") }))),
        false => Err(StatusCode::NOT_FOUND),
    }
}

async fn role(Path(name): Path<String>) -> Json<Value> {
    Json(json!({ "id": "role-1", "name": name }))
}

async fn give_roles(
    State(realm): Shared,
    Path(id): Path<String>,
    Json(roles): Json<Vec<Value>>,
) -> StatusCode {
    let names = roles.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect();
    realm.lock().unwrap().roles.insert(id, names);
    StatusCode::NO_CONTENT
}

async fn keys(State(realm): Shared) -> Json<Value> {
    let mut realm = realm.lock().unwrap();
    realm.keys_asked += 1;
    Json(json!({ "keys": [realm.signer.jwk()] }))
}

/// A token for a secret, with the claims that the client's mappers say.
async fn token(State(realm): Shared, body: String) -> Answer {
    let form: BTreeMap<_, _> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let mut realm = realm.lock().unwrap();
    realm.tokens_asked += 1;
    let field = |name: &str| form.get(name).cloned().unwrap_or_default();
    let (name, secret) = (field("client_id"), field("client_secret"));
    let named = |(_, one): &(&String, &Value)| one["clientId"] == name.as_str();
    let (id, client) = realm.clients.iter().find(named).ok_or(StatusCode::UNAUTHORIZED)?;
    if field("grant_type") != "client_credentials" || secret != format!("secret-of-{id}") {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let mut claims = Map::new();
    for mapper in client["protocolMappers"].as_array().unwrap() {
        let config = &mapper["config"];
        match mapper["protocolMapper"].as_str().unwrap() {
            "oidc-hardcoded-claim-mapper" => {
                let claim = config["claim.name"].as_str().unwrap().to_owned();
                claims.insert(claim, config["claim.value"].clone());
            }
            "oidc-audience-mapper" => {
                claims.insert("aud".to_owned(), config["included.custom.audience"].clone());
            }
            other => panic!("no mapper is called {other}"),
        }
    }
    claims.insert("iss".to_owned(), json!(ISSUER));
    claims.insert("exp".to_owned(), json!(jsonwebtoken::get_current_timestamp() + 60));
    let roles = realm.roles.get(&format!("account-of-{id}"));
    claims.insert("realm_access".to_owned(), json!({ "roles": roles }));
    let token = realm.signer.sign(&Value::Object(claims));
    Ok(Json(json!({ "access_token": token, "expires_in": 60, "token_type": "Bearer" })))
}
