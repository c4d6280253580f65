//! What organisations and users may have, and what is remembered of who asked for what.

use serde_json::{Value, json};
use sqlx::{Connection as _, Executor as _};

use crate::support::Manager;

/// Limits of organisations and users, with a no that names the limit.
pub(crate) async fn quotas_are_kept(database: &str) {
    let manager = Manager::with(database, |config| {
        config.quotas.organisation.kafkas = 3;
        config.quotas.user.kafkas = 2;
    })
    .await;
    let create = async |user: &str, organisation: &str, name: &str, plan: &str| {
        let token = manager.signer.user(user, organisation);
        let body = Some(json!({ "name": name, "plan": plan }));
        manager.ask("POST", "/kafkas?async=true", &token, body).await
    };
    let refused = |answer: crate::support::Answer, reason: &str| {
        let body = answer.expect(403);
        assert_eq!((&body["id"], &body["reason"]), (&json!("5"), &json!(reason)));
    };
    create("ann", "org", "a", "standard.x1").await.expect(202);
    let second = create("ann", "org", "b", "standard.x1").await.expect(202);
    let of_user = "user ann may have at most 2 Kafkas, has 2, and 1 more are asked for";
    refused(create("ann", "org", "c", "standard.x1").await, of_user);
    create("bob", "org", "c", "standard.x1").await.expect(202);
    let of_all = "organisation org may have at most 3 Kafkas, has 3, and 1 more are asked for";
    refused(create("bob", "org", "d", "standard.x1").await, of_all);
    // The same name in another organisation is somebody else.
    create("ann", "else", "e", "standard.x1").await.expect(202);
    // Several at once, as many as fit.
    let names = ["f", "g", "h", "i"];
    let asks = names.map(|name| create("zoe", "third", name, "standard.x1"));
    let answers = futures::future::join_all(asks).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 202).count(), 2);

    // An administrator permits more, by what they take.
    let quota = |user: Value, kafkas: u64, connections: u64| {
        Some(json!({
            "organisation": "org", "user": user, "kafkas": kafkas, "connections": connections,
            "partitions": 1000,
        }))
    };
    manager.admin("PUT", "/quotas", quota(Value::Null, 10, 1000)).await.expect(200);
    manager.admin("PUT", "/quotas", quota(json!("ann"), 10, 799)).await.expect(200);
    let by_size = "user ann may have at most 799 connections, has 200, and 500 more are asked for";
    create("ann", "org", "j", "standard.x1").await.expect(202);
    let by_size = by_size.replace("200", "300");
    refused(create("ann", "org", "k", "standard.x5").await, &by_size);
    manager.admin("PUT", "/quotas", quota(json!("ann"), 10, 800)).await.expect(200);
    create("ann", "org", "k", "standard.x5").await.expect(202);
    let list = manager.admin("GET", "/quotas", None).await.expect(200);
    assert_eq!(
        (list["items"].as_array().unwrap().len(), &list["user_default"]["kafkas"]),
        (2, &json!(2))
    );
    // The default holds again. What is on its way out still counts.
    manager.admin("DELETE", "/quotas?organisation=org&user=ann", None).await.expect(204);
    let delete = format!("/kafkas/{}?async=true", second["id"].as_str().unwrap());
    let ann = manager.signer.user("ann", "org");
    manager.ask("DELETE", &delete, &ann, None).await.expect(202);
    assert_eq!(create("ann", "org", "l", "standard.x1").await.code(403), "5");
    for token in [&ann, &manager.signer.admin("read")] {
        let answer = manager.ask("PUT", "/admin/quotas", token, quota(json!("ann"), 99, 99)).await;
        assert_eq!(answer.code(404), "7");
    }
}

/// No change without its entry, and no entry for strangers and for those who ask too often.
pub(crate) async fn a_change_and_its_audit_are_one(database: &str) {
    let manager = Manager::with(database, |config| {
        config.limits.burst = 40;
        config.limits.requests_per_second = 1;
    })
    .await;
    let ann = manager.signer.user("ann", "org");
    let create = async |name: &str| {
        let body = Some(json!({ "name": name }));
        manager.ask("POST", "/kafkas?async=true", &ann, body).await
    };
    let plane = json!({ "cloud_provider": "hand", "region": "here", "id": "p" });
    let made = create("a").await.expect(202);
    manager.admin("POST", "/data_planes", Some(plane)).await.expect(202);

    sql(&manager, "ALTER TABLE audit RENAME TO audit_gone").await;
    let delete = format!("/kafkas/{}?async=true", made["id"].as_str().unwrap());
    let plane = json!({ "cloud_provider": "hand", "region": "here", "id": "q" });
    let quota = json!({ "organisation": "o", "kafkas": 1, "connections": 1, "partitions": 1 });
    assert_eq!(create("b").await.code(500), "9");
    assert_eq!(manager.ask("DELETE", &delete, &ann, None).await.code(500), "9");
    for (method, path, body) in [
        ("POST", "/data_planes", Some(plane)),
        ("DELETE", "/data_planes/p", None),
        ("PUT", "/data_planes/p/drain", Some(json!({ "draining": true }))),
        ("PUT", "/data_planes/p/scale", Some(json!({ "nodes": 9 }))),
        ("PUT", "/settings", Some(json!({ "dry_run": true }))),
        ("PUT", "/quotas", Some(quota)),
        ("DELETE", "/quotas?organisation=o", None),
    ] {
        assert_eq!(manager.admin(method, path, body).await.code(500), "9", "{method} {path}");
    }
    sql(&manager, "ALTER TABLE audit_gone RENAME TO audit").await;
    let list = manager.ask("GET", "/kafkas", &ann, None).await.expect(200);
    assert_eq!((&list["total"], &list["items"][0]["status"]), (&json!(1), &json!("accepted")));
    assert_eq!(manager.admin("GET", "/data_planes/q", None).await.status, 404);
    let plane = manager.get_plane("p").await;
    assert_eq!((&plane["draining"], &plane["nodes_wanted"]), (&json!(false), &json!(3)));
    assert_eq!(manager.admin("GET", "/settings", None).await.expect(200)["dry_run"], false);
    let list = manager.admin("GET", "/quotas", None).await.expect(200);
    assert_eq!(list["items"], json!([]));

    // Strangers and those who ask too often leave nothing.
    let rows = async |subject: &str| {
        let log = manager.store.audit_log(1000).await.unwrap();
        log.into_iter().filter(|one| one.1 == subject).collect::<Vec<_>>()
    };
    let before = manager.store.audit_log(1000).await.unwrap().len();
    for _ in 0..5 {
        assert_eq!(manager.ask("POST", "/kafkas?async=true", "x", None).await.code(401), "15");
    }
    assert_eq!(manager.store.audit_log(1000).await.unwrap().len(), before);
    let eve = manager.signer.user("eve", "org");
    let asks = (0..80).map(|_| manager.ask("POST", "/kafkas", &eve, Some(json!({ "name": "e" }))));
    let answers = futures::future::join_all(asks).await;
    let heard = answers.iter().filter(|answer| answer.status != 429).count();
    assert!(heard < 80);
    assert_eq!(rows("eve").await.len(), heard, "what was refused for other reasons is remembered");
    let of_ann: Vec<_> = rows("ann").await.into_iter().map(|one| (one.2, one.4)).collect();
    assert_eq!(of_ann, [("POST".to_owned(), 202)], "one entry for one change");
}

/// How long entries of the audit log are kept is a setting.
pub(crate) async fn the_audit_log_is_kept_as_long_as_configured(database: &str) {
    let manager = Manager::with(database, |config| config.audit.days = 2).await;
    let hours_ago = |hours: i64| fleet::store::now_ms() - hours * 3_600_000;
    for (id, at) in [("old", hours_ago(49)), ("new", hours_ago(47))] {
        let row = format!(
            "INSERT INTO audit (id, at, subject, method, path, status)
             VALUES ('{id}', {at}, '{id}', 'GET', '/', 200)"
        );
        sql(&manager, &row).await;
    }
    let subjects = async || -> Vec<String> {
        let log = manager.store.audit_log(1000).await.unwrap();
        log.into_iter().map(|one| one.1).collect()
    };
    crate::support::eventually("the old one is removed", async || subjects().await == ["new"])
        .await;
}

/// The owner of a Kafka gets a password once; the agent stores it, and the manager forgets it.
pub(crate) async fn owners_get_credentials_once(database: &str) {
    let manager = Manager::start(database).await;
    manager.plane("p").await;
    manager.report("p", crate::support::report((1000, 1000), (3, 3, 3, 3))).await.expect(204);
    let ann = manager.signer.user("ann", "acme corp");
    let body = Some(json!({ "name": "k" }));
    let made = manager.ask("POST", "/kafkas?async=true", &ann, body).await.expect(202);
    let id = made["id"].as_str().unwrap().to_owned();
    let path = format!("/kafkas/{id}/credentials");
    let ask = async |token: &str| manager.ask("POST", &path, token, None).await;
    // Nobody else, not even a colleague.
    for stranger in [manager.signer.user("ann", "else"), manager.signer.user("bob", "acme corp")] {
        assert_eq!(ask(&stranger).await.code(404), "7");
    }
    assert_eq!(ask("").await.code(401), "15");
    assert_eq!(manager.ask("GET", &path, &ann, None).await.code(405), "10");

    let agent = manager.signer.agent("p");
    let told = async || {
        let list = manager.ask("GET", "/agent-clusters/p/kafkas", &agent, None).await.expect(200);
        list["items"].as_array().unwrap().first().cloned().unwrap_or_default()
    };
    crate::support::eventually("it has a place", async || !told().await.is_null()).await;
    let kafka = told().await;
    assert_eq!(kafka["credentials"], Value::Null, "none until the owner asks");
    let label = kafka["metadata"]["labels"]["gregor.io/organisation"].as_str().unwrap().to_owned();
    assert!(label.starts_with("org-"), "{label}");
    assert_eq!(made["client_namespace_label"], format!("gregor.io/organisation={label}"));

    let first = ask(&ann).await.expect(201);
    let second = ask(&ann).await.expect(201);
    assert_eq!(first["username"], second["username"]);
    assert_ne!(first["password"], second["password"]);
    let listed = told().await["credentials"].clone();
    let expected = json!([{
        "id": second["id"], "username": second["username"], "password": second["password"],
    }]);
    assert_eq!(listed, expected, "the first one is replaced");
    let stored = async |plane: &str, credential: &Value| {
        let body = json!({ id.as_str(): {
            "conditions": [{ "type": "Ready", "status": "True" }],
            "caCertificate": "PEM", "credentialsStored": [credential],
        } });
        let path = format!("/agent-clusters/{plane}/kafkas/status");
        let token = manager.signer.agent(plane);
        manager.ask("PUT", &path, &token, Some(body)).await.expect(200);
    };
    // What was stored of an older one, or by another agent, says nothing of this one.
    manager.plane("q").await;
    stored("p", &first["id"]).await;
    stored("q", &second["id"]).await;
    assert_eq!(told().await["credentials"], expected);
    stored("p", &second["id"]).await;
    assert_eq!(told().await["credentials"], Value::Null);
    assert_eq!(passwords(&manager).await, [String::new()], "nothing is kept of it");
    let kafka = manager.ask("GET", &format!("/kafkas/{id}"), &ann, None).await.expect(200);
    assert_eq!(kafka["ca_certificate"], "PEM");
    // The log of changes names the request and no password.
    let log = manager.store.audit_log(1000).await.unwrap();
    assert_eq!(log.iter().filter(|one| one.3.ends_with("/credentials") && one.4 == 201).count(), 2);

    // One that is deleted gets none, and leaves none.
    ask(&ann).await.expect(201);
    let delete = format!("/kafkas/{id}?async=true");
    manager.ask("DELETE", &delete, &ann, None).await.expect(202);
    assert_eq!(ask(&ann).await.code(409), "6");
    let gone = json!({ id.as_str(): {
        "conditions": [{ "type": "Ready", "status": "False", "reason": "Deleted" }],
    } });
    manager.ask("PUT", "/agent-clusters/p/kafkas/status", &agent, Some(gone)).await.expect(200);
    crate::support::eventually("its password is gone", async || {
        passwords(&manager).await.is_empty()
    })
    .await;
}

/// Tokens of the manager's own: created, listed and revoked by administrators, and known by their hash only.
pub(crate) async fn local_tokens_are_given_out_and_revoked(database: &str) {
    let manager = Manager::start(database).await;
    manager.plane("p").await;
    let body = |role: &str, more: Value| {
        let mut body = json!({ "name": "ci", "role": role, "expires_in_days": 1 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Some(body)
    };
    let create = async |role: &str, more: Value| {
        manager.admin("POST", "/tokens", body(role, more)).await.expect(201)
    };
    let token = |made: &Value| made["token"].as_str().unwrap().to_owned();
    let reader = create("admin-read", json!({})).await;
    let writer = create("admin-write", json!({})).await;
    let full = create("admin-full", json!({})).await;
    let agent = create("agent", json!({ "data_plane": "p" })).await;
    let user = create("user", json!({ "username": "ann", "organisation": "org" })).await;
    for (role, more) in [
        ("root", json!({})),
        ("agent", json!({})),
        ("agent", json!({ "data_plane": "../p" })),
        ("user", json!({ "username": "ann" })),
        ("admin-full", json!({ "username": "ann", "organisation": "org" })),
        ("admin-full", json!({ "expires_in_days": 0 })),
        ("admin-full", json!({ "expires_in_days": 4000 })),
        ("admin-full", json!({ "name": "" })),
    ] {
        let answer = manager.admin("POST", "/tokens", body(role, more.clone())).await;
        assert_eq!(answer.code(400), "37", "{role} {more}");
    }
    let report = || Some(crate::support::report((1000, 1000), (3, 3, 3, 3)));
    let drain = || Some(json!({ "draining": false }));
    let rows = [
        (&reader, "GET", "/admin/data_planes", None, 200),
        (&reader, "PUT", "/admin/data_planes/p/drain", drain(), 404),
        (&writer, "PUT", "/admin/data_planes/p/drain", drain(), 200),
        (&writer, "POST", "/admin/tokens", body("admin-full", json!({})), 404),
        (&full, "POST", "/admin/tokens", body("admin-read", json!({})), 201),
        (&full, "GET", "/kafkas", None, 403),
        (&full, "PUT", "/agent-clusters/p/status", report(), 404),
        (&agent, "PUT", "/agent-clusters/p/status", report(), 204),
        (&agent, "PUT", "/agent-clusters/q/status", report(), 404),
        (&agent, "GET", "/admin/data_planes", None, 404),
        (&user, "GET", "/kafkas", None, 200),
        (&user, "GET", "/admin/data_planes", None, 404),
        (&user, "PUT", "/agent-clusters/p/status", report(), 404),
    ];
    for (made, method, path, body, status) in rows {
        let answer = manager.ask(method, path, &token(made), body).await;
        assert_eq!(answer.status, status, "{} {method} {path}: {}", made["role"], answer.body);
    }
    unknown_tokens_are_refused(&manager, &token(&full)).await;
    // Nobody who reads the list or the database has a token.
    let list = manager.admin("GET", "/tokens", None).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 6);
    let all: Vec<_> = [&reader, &writer, &full, &agent, &user].map(&token).into();
    let dump = dump(&manager).await;
    assert!(all.iter().all(|token| !list.to_string().contains(token) && !dump.contains(token)));
    assert!(dump.contains("admin-read"), "{dump}");
    // One that is revoked, or whose time is over, is refused with the next request.
    let path = format!("/tokens/{}", full["id"].as_str().unwrap());
    manager.admin("DELETE", &path, None).await.expect(204);
    assert_eq!(manager.ask("GET", "/admin/tokens", &token(&full), None).await.code(401), "15");
    assert_eq!(manager.admin("DELETE", "/tokens/none", None).await.code(404), "7");
    assert_eq!(manager.ask("GET", "/kafkas", &token(&user), None).await.status, 200);
    sql(&manager, "UPDATE api_tokens SET expires_at = 1 WHERE role = 'user'").await;
    assert_eq!(manager.ask("GET", "/kafkas", &token(&user), None).await.code(401), "15");
    let log = manager.store.audit_log(1000).await.unwrap();
    let by_token = log.iter().filter(|one| one.1 == "token ci" && one.4 < 300).count();
    assert_eq!(by_token, 3, "what was done with a token is in the log by its name: {log:?}");
}

async fn unknown_tokens_are_refused(manager: &Manager, known: &str) {
    let cut = &known[..known.len() - 1];
    for unknown in [cut, &format!("{cut}0g"), "gregor_", "gregor_' OR '1'='1"] {
        assert_eq!(manager.ask("GET", "/admin/tokens", unknown, None).await.code(401), "15");
    }
}

/// All that the database has of tokens.
async fn dump(manager: &Manager) -> String {
    use sqlx::Row as _;
    let mut connection = sqlx::AnyConnection::connect(&manager.database).await.unwrap();
    let rows = connection.fetch_all("SELECT * FROM api_tokens").await.unwrap();
    connection.close().await.unwrap();
    let columns = ["id", "name", "hash", "role", "created_by"];
    let words = rows.iter().flat_map(|row| columns.map(|name| row.get::<String, _>(name)));
    words.collect::<Vec<_>>().join(" ")
}

/// All passwords that the database has.
async fn passwords(manager: &Manager) -> Vec<String> {
    use sqlx::Row as _;
    let mut connection = sqlx::AnyConnection::connect(&manager.database).await.unwrap();
    let rows = connection.fetch_all("SELECT password FROM credentials").await.unwrap();
    connection.close().await.unwrap();
    rows.iter().map(|row| row.get::<String, _>("password")).collect()
}

async fn sql(manager: &Manager, statement: &str) {
    let mut connection = sqlx::AnyConnection::connect(&manager.database).await.unwrap();
    connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(statement))).await.unwrap();
    connection.close().await.unwrap();
}
