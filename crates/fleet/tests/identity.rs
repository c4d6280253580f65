//! Identities of data planes, from the identity provider to the agent's token and back to the manager.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use fleet::client::Client;
use fleet::identity::{Credentials, Identity, Keycloak, account_name, client_name};
use serde_json::{Value, json};
use support::keycloak::FakeKeycloak;
use support::tokens::{AUDIENCE, Signer};
use support::{Manager, Remembering, eventually, report};
use tempfile::TempDir;

fn keycloak(server: &FakeKeycloak, dir: &TempDir) -> Keycloak {
    let token_file = dir.path().join("token");
    std::fs::write(&token_file, "admin\n").unwrap();
    Keycloak {
        realm_url: server.admin_url(),
        token_file,
        audience: AUDIENCE.to_owned(),
        redirect_uris: vec!["https://{cluster-id}.test/callback".to_owned()],
        client: Client::new(Duration::from_secs(5)).unwrap(),
    }
}

/// The parameters with which an agent was installed.
fn installed(manager: &Manager, plane: &str) -> Option<Vec<Value>> {
    let id = manager.ocm.cluster(plane)?["id"].as_str()?.to_owned();
    let clusters = manager.ocm.clusters.lock().unwrap();
    clusters.addons.get(&id)?["parameters"]["items"].as_array().cloned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_gets_an_account_whose_tokens_are_good_and_all_of_it_goes_with_the_data_plane() {
    let dir = tempfile::tempdir().unwrap();
    let sso = FakeKeycloak::start().await;
    let identity = Arc::new(keycloak(&sso, &dir)) as Arc<dyn Identity>;
    let both = (Arc::new(Remembering::default()), identity);
    let jwks = sso.jwks_url();
    // The tests' own tokens are signed by a key in a file; agents' by one that is served.
    let manager = Manager::with_identity("sqlite", both, |config| {
        config.auth.jwks_url = Some(jwks);
        config.public_url = "https://fleet.test".to_owned();
        config.cloud_providers[1].regions[0].planes_max = 0;
    })
    .await;
    let body = json!({ "cloud_provider": "aws", "region": "us-east-1" });
    let made = manager.admin("POST", "/data_planes", Some(body)).await.expect(202);
    let id = made["id"].as_str().unwrap();
    manager.state(id, "waiting_for_kas_fleetshard_operator").await;
    assert_eq!(sso.clients(), {
        let mut names = vec![client_name(id), account_name(id)];
        names.sort();
        names
    });
    let client = sso.realm.lock().unwrap().clients["internal-1"].clone();
    assert_eq!(client["redirectUris"], json!([format!("https://{id}.test/callback")]));

    // What the agent was given is enough for a token, and the token for a report.
    let parameters = installed(&manager, id).unwrap();
    let given = |name: &str| {
        let found = parameters.iter().find(|one| one["id"] == name).unwrap();
        found["value"].as_str().unwrap().to_owned()
    };
    assert_eq!(given("control-plane-url"), "https://fleet.test");
    let (name, secret) = (given("sso-client-id"), given("sso-secret"));
    let fields = [
        ("grant_type", "client_credentials"),
        ("client_id", name.as_str()),
        ("client_secret", &secret),
    ];
    let asks = Client::new(Duration::from_secs(5)).unwrap();
    let token = asks.form(&given("sso-auth-server-url"), &fields).await.unwrap();
    let token = token["access_token"].as_str().unwrap();
    let path = format!("/agent-clusters/{id}/status");
    let said = Some(report((1000, 1000), (3, 9, 3, 3)));
    manager.ask("PUT", &path, token, said.clone()).await.expect(204);
    assert_eq!(
        manager.ask("PUT", "/agent-clusters/other/status", token, said).await.code(404),
        "7"
    );

    manager.admin("DELETE", &format!("/data_planes/{id}"), None).await.expect(202);
    eventually("all of it is gone", async || {
        manager.admin("GET", &format!("/data_planes/{id}"), None).await.status == 404
    })
    .await;
    assert_eq!(sso.clients(), [] as [String; 0]);
}

#[tokio::test]
async fn whatever_was_cut_off_is_done_again_and_makes_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let sso = FakeKeycloak::start().await;
    let identity = keycloak(&sso, &dir);
    let first = identity.make_account("p").await.unwrap();
    identity.make_client("p").await.unwrap();
    let again = identity.make_account("p").await.unwrap();
    identity.make_client("p").await.unwrap();
    assert_eq!(first, again);
    assert!(matches!(first, Credentials::Client { .. }));
    assert_eq!(sso.clients(), [client_name("p"), account_name("p")]);
    for _ in 0..2 {
        identity.remove_client("p").await.unwrap();
        identity.remove_account("p").await.unwrap();
    }
    assert_eq!(sso.clients(), [] as [String; 0]);
}

#[tokio::test]
async fn a_data_plane_has_no_client_of_the_realm_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let sso = FakeKeycloak::start().await;
    let identity = keycloak(&sso, &dir);
    let other = json!({ "id": "internal-x", "clientId": "admin-cli" });
    sso.realm.lock().unwrap().clients.insert("internal-x".to_owned(), other.clone());
    // A data plane that is called like a client of the realm.
    identity.make_client("admin-cli").await.unwrap();
    assert_eq!(sso.clients(), ["admin-cli".to_owned(), client_name("admin-cli")]);
    identity.remove_client("admin-cli").await.unwrap();
    assert_eq!(sso.realm.lock().unwrap().clients["internal-x"], other);
    assert_eq!(sso.clients(), ["admin-cli"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_served_may_change_and_strangers_do_not_make_us_ask_for_them() {
    let sso = FakeKeycloak::start().await;
    let jwks = sso.jwks_url();
    let manager = Manager::with("sqlite", |config| config.auth.jwks_url = Some(jwks)).await;
    manager.plane("p").await;
    let put = async |token: &str| {
        let body = Some(report((1000, 1000), (3, 9, 3, 3)));
        manager.ask("PUT", "/agent-clusters/p/status", token, body).await
    };
    let asked = || sso.realm.lock().unwrap().keys_asked;
    let good = sso.realm.lock().unwrap().signer.agent("p");
    put(&good).await.expect(204);
    assert_eq!(asked(), 1, "once, at the start");
    for number in 0..20 {
        let stranger = Signer::ec(if number % 2 == 0 { "who" } else { "sso-1" });
        assert_eq!(put(&stranger.agent("p")).await.code(401), "15");
    }
    assert_eq!(asked(), 1, "strangers are not worth a question so soon");
    // The issuer has a new key. It is found when a token is signed with it, after the pause.
    let new = Signer::rsa("sso-2");
    let token = new.agent("p");
    sso.realm.lock().unwrap().signer = new;
    eventually("the new key is found", async || put(&token).await.status == 204).await;
    assert_eq!(asked(), 2);
    let old = Signer::rsa("sso-1").agent("p");
    assert_eq!(put(&old).await.code(401), "15", "the old one is not good any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_good_for_the_tokens_of_its_own_issuer_only() {
    use support::tokens::{ISSUER, agent_claims, claims};
    const STAFF: &str = "https://staff.test";
    let dir = tempfile::tempdir().unwrap();
    // Both issuers call their key the same.
    let (staff, fleet) = (Signer::ec("key-1"), Signer::ec("key-1"));
    let file = |name: &str, signer: &Signer| {
        let file = dir.path().join(name);
        std::fs::write(&file, json!({ "keys": [signer.jwk()] }).to_string()).unwrap();
        Some(file)
    };
    let (of_staff, of_fleet) = (file("staff.json", &staff), file("fleet.json", &fleet));
    let manager = Manager::with("sqlite", |config| {
        config.auth.jwks_file = of_fleet;
        config.auth.admin.issuer = STAFF.to_owned();
        config.auth.admin.jwks_file = of_staff;
    })
    .await;
    let admin = |issuer: &str, signer: &Signer| {
        let role = "kas-fleet-manager-admin-full";
        let more = json!({ "iss": issuer, "realm_access": { "roles": [role] } });
        signer.sign(&claims(more))
    };
    let get = async |token: &str| manager.ask("GET", "/admin/data_planes", token, None).await;
    get(&admin(STAFF, &staff)).await.expect(200);
    // Whoever signs tokens of agents and people is no administrator, whatever the token says.
    assert_eq!(get(&admin(STAFF, &fleet)).await.code(401), "15");
    assert_eq!(get(&admin(ISSUER, &fleet)).await.code(404), "7");
    let body = Some(report((1000, 1000), (3, 9, 3, 3)));
    let put = async |token: &str| {
        manager.ask("PUT", "/agent-clusters/p/status", token, body.clone()).await
    };
    assert_eq!(put(&fleet.sign(&agent_claims("p"))).await.code(400), "21");
    assert_eq!(put(&staff.sign(&agent_claims("p"))).await.code(401), "15");
    // Some issuers send both names.
    let both = claims(json!({ "username": "ann", "preferred_username": "ann", "org_id": "o" }));
    assert_eq!(manager.ask("GET", "/kafkas", &fleet.sign(&both), None).await.status, 200);
    let other = claims(json!({ "preferred_username": "ann", "rh-org-id": "o" }));
    assert_eq!(manager.ask("GET", "/kafkas", &fleet.sign(&other), None).await.status, 200);
}

/// An issuer that is slow delays only those whose keys are not known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn known_keys_do_not_wait_for_unknown_ones() {
    let sso = FakeKeycloak::start().await;
    let jwks = sso.jwks_url();
    let manager = Manager::with("sqlite", |config| config.auth.jwks_url = Some(jwks)).await;
    manager.plane("p").await;
    let body = || Some(report((1000, 1000), (3, 9, 3, 3)));
    let path = "/agent-clusters/p/status";
    // Longer than the pause in which a stranger is not worth a question.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let slow = sso.slow.clone();
    let held = slow.lock().await;
    let stranger = Signer::ec("who").agent("p");
    let asks = (0..5).map(|_| manager.ask("PUT", path, &stranger, body()));
    let strangers = futures::future::join_all(asks);
    let known = async {
        eventually("the issuer is asked", async || sso.realm.lock().unwrap().keys_asked == 2).await;
        let good = sso.realm.lock().unwrap().signer.agent("p");
        manager.ask("PUT", path, &good, body()).await.expect(204);
        drop(held);
    };
    let (answers, ()) = futures::join!(strangers, known);
    for answer in answers {
        assert_eq!(answer.code(401), "15");
    }
    assert_eq!(sso.realm.lock().unwrap().keys_asked, 2, "once for all of them");
}
