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
    // Entries go after their time.
    assert!(manager.store.forget_audit(i64::MAX).await.unwrap() > 0);
    assert_eq!(manager.store.audit_log(1000).await.unwrap(), []);
}

async fn sql(manager: &Manager, statement: &'static str) {
    let mut connection = sqlx::AnyConnection::connect(&manager.database).await.unwrap();
    connection.execute(statement).await.unwrap();
    connection.close().await.unwrap();
}
