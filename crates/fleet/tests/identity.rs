//! Identities of data planes, from the identity provider to the agent's token and back to the manager.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use fleet::client::Client;
use fleet::identity::{Credentials, Identity, Keycloak, account_name};
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
        config.cloud_providers[1].regions[0].planes_max = Some(0);
    })
    .await;
    let body = json!({ "cloud_provider": "aws", "region": "us-east-1" });
    let made = manager.admin("POST", "/data_planes", Some(body)).await.expect(202);
    let id = made["id"].as_str().unwrap();
    manager.state(id, "waiting_for_kas_fleetshard_operator").await;
    assert_eq!(sso.clients(), {
        let mut names = vec![id.to_owned(), account_name(id)];
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
    assert_eq!(sso.clients(), [account_name("p"), "p".to_owned()]);
    for _ in 0..2 {
        identity.remove_client("p").await.unwrap();
        identity.remove_account("p").await.unwrap();
    }
    assert_eq!(sso.clients(), [] as [String; 0]);
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
