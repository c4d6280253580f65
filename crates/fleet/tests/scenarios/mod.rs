//! What the API does, on whatever database. Each scenario is a story with one manager.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod access;
mod regions;
mod steps;

use std::time::Duration;

use serde_json::{Value, json};

pub(crate) use access::*;
pub(crate) use regions::*;
pub(crate) use steps::*;

use crate::support::tokens::{agent_claims, claims};
use crate::support::{Manager, Signer, eventually, report};

/// Who may speak for a data plane, and what strangers are told.
pub(crate) async fn agents_are_known_by_their_tokens(database: &str) {
    let manager = Manager::start(database).await;
    manager.plane("one").await;
    let path = "/agent-clusters/one/status";
    let body = || Some(report((1000, 1000), (3, 9, 3, 3)));
    let put = async |token: &str| manager.ask("PUT", path, token, body()).await;

    assert_eq!(put("").await.code(401), "15");
    assert_eq!(put("nonsense").await.code(401), "15");
    assert_eq!(put(&Signer::ec("test").agent("one")).await.code(401), "15", "a stranger's key");
    let mut old = agent_claims("one");
    old["exp"] = json!(1);
    assert_eq!(put(&manager.signer.sign(&old)).await.code(401), "15");
    // An algorithm that is none, and one that would take a public key for a secret.
    for algorithm in ["none", "HS256"] {
        use base64::Engine as _;
        let part = |value: Value| {
            base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string())
        };
        let header = part(json!({ "alg": algorithm, "kid": "test" }));
        let token = format!("{header}.{}.", part(agent_claims("one")));
        assert_eq!(put(&token).await.code(401), "15", "{algorithm}");
    }
    // Known, but not the agent of this data plane: as if there were nothing here.
    assert_eq!(put(&manager.signer.agent("other")).await.code(404), "7");
    assert_eq!(put(&manager.signer.user("u", "o")).await.code(404), "7");
    // Nobody knows keys of that issuer, whoever has signed it.
    for (claim, value, status, code) in
        [("iss", "https://else.test", 401, "15"), ("aud", "else", 404, "7")]
    {
        let mut foreign = agent_claims("one");
        foreign[claim] = json!(value);
        assert_eq!(put(&manager.signer.sign(&foreign)).await.code(status), code, "{claim}");
    }
    let no_role = claims(json!({ "kas-fleetshard-operator-cluster-id": "one" }));
    assert_eq!(put(&manager.signer.sign(&no_role)).await.code(404), "7");

    assert_eq!(manager.report("none", report((0, 0), (3, 9, 3, 3))).await.code(400), "21");
    let token = manager.signer.agent("none");
    for path in ["", "/kafkas"] {
        let path = format!("/agent-clusters/none{path}");
        assert_eq!(manager.ask("GET", &path, &token, None).await.code(400), "21");
    }
    let own = manager.signer.agent("one");
    assert_eq!(put(&own).await.status, 204);
    let config = manager.ask("GET", "/agent-clusters/one", &own, None).await.expect(200);
    assert_eq!(config["spec"]["nodes"]["delta"], 3);
    assert_eq!(config["spec"]["multiAz"], true);
}

/// What reports do, and what they do not.
pub(crate) async fn reports_change_the_state(database: &str) {
    let manager = Manager::start(database).await;
    manager.plane("p").await;
    let status = async || manager.get_plane("p").await["status"].as_str().unwrap().to_owned();
    let send = async |body: Value| manager.report("p", body).await;

    send(report((1000, 1000), (3, 9, 3, 3))).await.expect(204);
    assert_eq!(status().await, "ready");
    // Nobody makes nodes for a standalone data plane, so it never waits for any.
    send(report((1_000_000, 0), (3, 9, 3, 3))).await.expect(204);
    assert_eq!(status().await, "full");
    send(report((1_000_000, 0), (0, 0, 0, 0))).await.expect(204);
    assert_eq!(status().await, "full");
    let plane = manager.get_plane("p").await;
    assert_eq!(plane["contradictions"], "ceiling or floor is 0");
    let mut unready = report((1000, 1000), (3, 9, 3, 3));
    unready["conditions"] = json!([{ "type": "Ready", "status": "False" }]);
    send(unready).await.expect(204);
    assert_eq!(status().await, "waiting_for_kas_fleetshard_operator");

    // Refused, with the paths of the fields; nothing is changed by it.
    let mut wrong = report((1000, 1000), (3, 9, 3, 3));
    wrong["remaining"]["connections"] = json!(-1);
    wrong["nodeInfo"]["floor"] = json!(null);
    let refused = send(wrong).await.expect(400);
    assert_eq!(refused["code"], "KAFKAS-MGMT-37");
    let reason = "nodeInfo.floor must be set; remaining.connections must not be negative";
    assert_eq!(refused["reason"], reason);
    assert_eq!(send(json!("x")).await.code(400), "17");
    assert_eq!(send(json!({ "total": 3 })).await.code(400), "17");
    let mut strange = report((1000, 1000), (3, 9, 3, 3));
    strange["conditions"] = json!([{ "type": "Ready", "status": "InventedValue" }]);
    assert_eq!(send(strange).await.code(400), "37");
    assert_eq!(status().await, "waiting_for_kas_fleetshard_operator");

    // A report that was seen already, or is older, changes nothing.
    let numbered = |sequence: i64, left: u64| {
        let mut body = report((left, left), (3, 9, 3, 3));
        body["sequence"] = json!(sequence);
        body
    };
    send(numbered(5, 1000)).await.expect(204);
    assert_eq!(status().await, "ready");
    for sequence in [5, 4, 0] {
        send(numbered(sequence, 0)).await.expect(204);
        assert_eq!(status().await, "ready", "{sequence}");
    }
    send(numbered(6, 0)).await.expect(204);
    assert_eq!(status().await, "full");

    // Those of one data plane are looked at one after the other: the last number wins.
    let all = (7..=40).map(|number| send(numbered(number, if number == 40 { 1000 } else { 0 })));
    for answer in futures::future::join_all(all).await {
        answer.expect(204);
    }
    assert_eq!(status().await, "ready");
    let decisions = manager.decisions("p").await;
    assert!(
        decisions.contains(
            &"state full->ready: room for 1000 connections and 1000 partitions".to_owned()
        ),
        "{decisions:#?}"
    );
}

/// A Kafka from its request to its end.
pub(crate) async fn a_kafka_lives_and_goes(database: &str) {
    let manager = Manager::start(database).await;
    manager.plane("p").await;
    let user = manager.signer.user("ann", "org");
    let agent = manager.signer.agent("p");
    let ask = async |method: &str, path: &str, body| manager.ask(method, path, &user, body).await;
    let payload = |name: &str| Some(json!({ "name": name, "plan": "standard.x1" }));

    refuses_what_makes_no_sense(&manager, &user).await;
    let made = ask("POST", "/kafkas?async=true", payload("first")).await.expect(202);
    assert_eq!((made["status"].as_str(), made["owner"].as_str()), (Some("accepted"), Some("ann")));
    assert_eq!(ask("POST", "/kafkas?async=true", payload("first")).await.code(409), "36");
    let id = made["id"].as_str().unwrap().to_owned();
    let path = format!("/kafkas/{id}");

    // It waits until there is capacity for it, and then is listed for the agent.
    let list = async || {
        let list = manager.ask("GET", "/agent-clusters/p/kafkas", &agent, None).await;
        list.expect(200)["items"].as_array().unwrap().clone()
    };
    assert_eq!(list().await, [] as [Value; 0]);
    manager.report("p", report((150, 150), (3, 3, 3, 3))).await.expect(204);
    eventually("it has a place", async || !list().await.is_empty()).await;
    let told = list().await.remove(0);
    assert_eq!(told["metadata"]["annotations"]["bf2.org/id"], id.as_str());
    assert_eq!(told["spec"]["deleted"], false);
    assert_eq!(told["spec"]["capacity"]["totalMaxConnections"], 100);
    // What it takes is reserved before any report counts it.
    manager.report("p", report((150, 150), (3, 3, 3, 3))).await.expect(204);
    assert_eq!(manager.get_plane("p").await["status"], "full");

    let tell = async |condition: Value| {
        let body = json!({ id.as_str(): {
            "conditions": [condition], "bootstrapServerHost": "first.test:443",
            "versions": { "kafka": "4.1.0" },
        } });
        let path = "/agent-clusters/p/kafkas/status";
        manager.ask("PUT", path, &agent, Some(body)).await.expect(200);
    };
    // Nobody asked for it to be deleted, so it is not.
    tell(json!({ "type": "Ready", "status": "False", "reason": "Deleted" })).await;
    assert_eq!(ask("GET", &path, None).await.expect(200)["status"], "provisioning");
    tell(json!({ "type": "Ready", "status": "True" })).await;
    let kafka = ask("GET", &path, None).await.expect(200);
    assert_eq!(kafka["status"], "ready");
    assert_eq!(kafka["bootstrap_server_host"], "first.test:443");
    // From the next report on it is counted by the agent.
    manager.report("p", report((100, 100), (3, 3, 3, 3))).await.expect(204);
    assert_eq!(manager.get_plane("p").await["status"], "ready");

    // Others neither see nor delete it.
    let stranger = manager.signer.user("bob", "else");
    assert_eq!(manager.ask("GET", &path, &stranger, None).await.code(404), "7");
    let colleague = manager.signer.user("bob", "org");
    assert_eq!(manager.ask("GET", &path, &colleague, None).await.status, 200);
    let delete = format!("{path}?async=true");
    assert_eq!(manager.ask("DELETE", &delete, &colleague, None).await.code(404), "7");
    assert_eq!(ask("DELETE", &path, None).await.code(400), "103");

    assert_eq!(ask("DELETE", &delete, None).await.expect(202)["status"], "deprovision");
    assert_eq!(list().await[0]["spec"]["deleted"], true);
    assert_eq!(manager.admin("DELETE", "/data_planes/p", None).await.code(409), "6", "not empty");
    tell(json!({ "type": "Ready", "status": "True" })).await;
    assert_eq!(list().await[0]["spec"]["deleted"], true, "it does not come back");
    tell(json!({ "type": "Ready", "status": "False", "reason": "Deleted" })).await;
    eventually("it is gone", async || ask("GET", &path, None).await.status == 404).await;
    assert_eq!(list().await, [] as [Value; 0]);
    // Its name is free again.
    ask("POST", "/kafkas?async=true", payload("first")).await.expect(202);
}

async fn refuses_what_makes_no_sense(manager: &Manager, user: &str) {
    let payload = |name: &str| Some(json!({ "name": name, "plan": "standard.x1" }));
    let rows = [
        ("/kafkas", payload("a"), "103"),
        ("/kafkas?async=true", payload(""), "33"),
        ("/kafkas?async=true", payload(&"a".repeat(33)), "34"),
        ("/kafkas?async=true", payload("Abc"), "32"),
        ("/kafkas?async=true", payload("a-"), "32"),
        ("/kafkas?async=true", Some(json!({ "name": "a", "plan": "standard.x9" })), "42"),
        ("/kafkas?async=true", Some(json!({ "name": "a", "plan": "else.x1" })), "41"),
        ("/kafkas?async=true", Some(json!({ "name": "a", "cloud_provider": "else" })), "30"),
        ("/kafkas?async=true", Some(json!({ "name": "a", "region": "else" })), "31"),
        ("/kafkas?async=true", Some(json!({ "nom": "a" })), "17"),
        ("/kafkas?async=maybe", payload("a"), "17"),
    ];
    for (path, body, code) in rows {
        assert_eq!(
            manager.ask("POST", path, user, body.clone()).await.code(400),
            code,
            "{path} {body:?}"
        );
    }
}

/// A Kafka that an agent has no capacity for gets another place.
pub(crate) async fn a_kafka_that_is_rejected_gets_another_place(database: &str) {
    let manager = Manager::start(database).await;
    let user = manager.signer.user("ann", "org");
    for plane in ["a", "b"] {
        manager.plane(plane).await;
    }
    manager.report("a", report((120, 120), (3, 3, 3, 3))).await.expect(204);
    manager.report("b", report((500, 500), (3, 3, 3, 3))).await.expect(204);
    let body = Some(json!({ "name": "k" }));
    let made = manager.ask("POST", "/kafkas?async=true", &user, body).await.expect(202);
    let id = made["id"].as_str().unwrap();
    let on = async |plane: &str| {
        let path = format!("/agent-clusters/{plane}/kafkas");
        let list = manager.ask("GET", &path, &manager.signer.agent(plane), None).await.expect(200);
        !list["items"].as_array().unwrap().is_empty()
    };
    eventually("the tightest place is taken", async || on("a").await).await;
    // By now there is less room than the manager thought.
    manager.report("a", report((20, 20), (3, 3, 3, 3))).await.expect(204);
    let rejected = json!({ id: { "conditions": [{ "type": "Ready", "status": "False",
        "reason": "Rejected", "message": "Cluster has insufficient resources" }] } });
    let token = manager.signer.agent("a");
    manager.ask("PUT", "/agent-clusters/a/kafkas/status", &token, Some(rejected)).await.expect(200);
    eventually("it goes to the other", async || on("b").await).await;
    assert!(!on("a").await);
}

/// Pages, searches and orders.
pub(crate) async fn kafkas_are_listed(database: &str) {
    let manager = Manager::start(database).await;
    let user = manager.signer.user("ann", "org");
    for name in ["alpha", "beta", "gamma", "delta", "it-is"] {
        let body = Some(json!({ "name": name }));
        manager.ask("POST", "/kafkas?async=true", &user, body).await.expect(202);
    }
    let names = async |query: &str| {
        let path = format!("/kafkas?{query}");
        let list = manager.ask("GET", &path, &user, None).await.expect(200);
        let items = list["items"].as_array().unwrap().clone();
        let names = items.iter().map(|one| one["name"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>().join(" "), list["total"].as_i64().unwrap())
    };
    let rows = [
        ("orderBy=name", "alpha beta delta gamma it-is", 5),
        ("orderBy=name+desc&size=2", "it-is gamma", 5),
        ("orderBy=name&size=2&page=2", "delta gamma", 5),
        ("orderBy=name&page=9", "", 5),
        ("search=name+LIKE+'%25ta'&orderBy=name", "beta delta", 2),
        ("search=name+ILIKE+'ALPH%25'", "alpha", 1),
        ("search=name+=+'alpha'+or+name+=+'beta'&orderBy=name", "alpha beta", 2),
        ("search=name+in+('alpha','it-is')+and+status+=+accepted&orderBy=name", "alpha it-is", 2),
        (
            "search=name+%3C%3E+'alpha'+and+cluster_id+=+''&orderBy=name",
            "beta delta gamma it-is",
            4,
        ),
        ("search=region+not+in+('here')", "", 0),
    ];
    for (query, expected, total) in rows {
        assert_eq!(names(query).await, (expected.to_owned(), total), "{query}");
    }
    for (query, code) in [
        ("size=0", "17"),
        ("page=0", "17"),
        ("page=x", "17"),
        ("search=name", "23"),
        ("search=id+=+1", "23"),
        ("orderBy=size", "23"),
        ("page=9223372036854775807", "17"),
    ] {
        let answer = manager.ask("GET", &format!("/kafkas?{query}"), &user, None).await;
        assert_eq!(answer.code(400), code, "{query}");
    }
    let other = manager.signer.user("zoe", "else");
    assert_eq!(manager.ask("GET", "/kafkas", &other, None).await.expect(200)["total"], 0);
    let providers = manager.ask("GET", "/cloud_providers", &user, None).await.expect(200);
    assert_eq!(providers["items"][1]["id"], "aws");
    let regions = manager.ask("GET", "/cloud_providers/aws/regions", &user, None).await.expect(200);
    assert_eq!(regions["items"][0]["id"], "us-east-1");
    assert_eq!(manager.ask("GET", "/cloud_providers/x/regions", &user, None).await.code(404), "7");
    let types = manager.ask("GET", "/instance_types/aws/us-east-1", &user, None).await.expect(200);
    assert_eq!(types["items"][0]["sizes"][1]["total_max_connections"], 500);
}

/// The ids of all data planes of the provider that makes them.
async fn made(manager: &Manager) -> Vec<String> {
    let list = manager.admin("GET", "/data_planes", None).await.expect(200);
    let items = list["items"].as_array().unwrap().clone();
    let ours = items.iter().filter(|one| one["cloud_provider"] == "aws");
    ours.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

/// Nodes come and go, data planes come and go, and every decision has its reason.
pub(crate) async fn a_fleet_grows_and_shrinks(database: &str) {
    let manager = Manager::start(database).await;
    // A region without a data plane gets one.
    eventually("the first one is made", async || made(&manager).await.len() == 1).await;
    let first = made(&manager).await.remove(0);
    manager.state(&first, "waiting_for_kas_fleetshard_operator").await;
    let nodes = |plane: &str, field: &str| {
        manager.ocm.cluster(plane).and_then(|one| one["nodes"][field].as_u64())
    };
    assert_eq!(nodes(&first, "compute"), Some(3));
    let known = async |plane: &str, count: u64| {
        let plane = plane.to_owned();
        eventually("the provider was asked", || {
            let plane = plane.clone();
            let manager = &manager;
            async move { manager.get_plane(&plane).await["nodes_actual"] == count }
        })
        .await;
    };
    known(&first, 3).await;

    // No capacity: three more nodes.
    manager.report(&first, report((0, 0), (3, 6, 3, 3))).await.expect(204);
    manager.state(&first, "compute_node_scaling_up").await;
    eventually("three more", async || nodes(&first, "compute") == Some(6)).await;
    known(&first, 6).await;
    // No capacity, and no step is permitted: full, and another data plane is made.
    manager.report(&first, report((0, 0), (6, 6, 3, 6))).await.expect(204);
    manager.state(&first, "full").await;
    eventually("the second one is made", async || made(&manager).await.len() == 2).await;
    let second = made(&manager).await.remove(1);
    manager.state(&second, "waiting_for_kas_fleetshard_operator").await;
    manager.report(&second, report((1000, 1000), (3, 9, 3, 3))).await.expect(204);
    manager.state(&second, "ready").await;
    // One full and one ready are enough, and the empty one is the only ready one: both stay.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(made(&manager).await.len(), 2);

    // Something is on the second, and the first has room again but nothing on it: it goes, in the safe order.
    let user = manager.signer.user("ann", "org");
    let body = Some(json!({ "name": "k", "cloud_provider": "aws" }));
    let kafka = manager.ask("POST", "/kafkas?async=true", &user, body).await.expect(202);
    let placed =
        format!("place ->{}: the tightest of 1 that have room", kafka["id"].as_str().unwrap());
    eventually("it has its place", async || manager.decisions(&second).await.contains(&placed))
        .await;
    manager.report(&first, report((500, 500), (6, 6, 3, 3))).await.expect(204);
    eventually("the first goes", async || made(&manager).await == [second.clone()]).await;
    let asked = manager.identity.0.lock().unwrap().clone();
    let words = ["make client", "make account"].map(|words| (words, &first));
    let words = words.into_iter().chain(["make client", "make account"].map(|one| (one, &second)));
    let words = words.chain(["client", "account"].map(|one| (one, &first)));
    let expected: Vec<_> = words.map(|(words, plane)| format!("{words} {plane}")).collect();
    assert_eq!(asked, expected, "identities are made first and removed last");
    assert!(manager.ocm.cluster(&first).is_none());
    let created = manager.ocm.clusters.lock().unwrap().created.clone();
    assert!(created.values().all(|count| *count == 1), "{created:?}");
    assert_eq!(manager.admin("GET", &format!("/data_planes/{first}"), None).await.status, 404);

    let steps = manager.decisions(&first).await;
    let expected = [
        "create ->cluster_accepted: the region has no data plane",
        "state cluster_accepted->cluster_provisioning: the provider creates it",
        "state cluster_provisioning->cluster_provisioned: the provider reports that it exists",
        "state cluster_provisioned->waiting_for_kas_fleetshard_operator: the agent is installed",
        "state waiting_for_kas_fleetshard_operator->compute_node_scaling_up: room for no more than 0 \
         connections and 0 partitions; more nodes are permitted",
        "nodes 3->6: room for no more than 0 connections and 0 partitions",
        "state compute_node_scaling_up->full: no capacity; no step: 6 >= ceiling 6",
        "state full->ready: room for 500 connections and 500 partitions",
    ];
    assert_eq!(steps[..8], expected.map(str::to_owned), "{steps:#?}");
    let empty = format!("remove ready->deprovisioning: empty, and {second} is ready");
    assert!(steps.contains(&empty), "{steps:#?}");
    assert_eq!(steps.last().unwrap(), "remove cleanup->deleted: it is deleted completely");
}

/// What administrators may do by hand, and what they may not.
pub(crate) async fn administrators_do_things_by_hand(database: &str) {
    let manager = Manager::with(database, |config| {
        config.scaling = fleet::config::Scaling::Manual;
    })
    .await;
    let body = json!({ "cloud_provider": "aws", "region": "us-east-1" });
    let made = manager.admin("POST", "/data_planes", Some(body.clone())).await.expect(202);
    let id = made["id"].as_str().unwrap().to_owned();
    let path = format!("/data_planes/{id}");
    manager.state(&id, "waiting_for_kas_fleetshard_operator").await;
    manager.report(&id, report((0, 0), (3, 9, 3, 3))).await.expect(204);
    manager.state(&id, "ready").await;

    let scale = |nodes: i64| Some(json!({ "nodes": nodes }));
    let scale_path = format!("{path}/scale");
    assert_eq!(manager.admin("PUT", &scale_path, scale(2)).await.code(409), "6");
    assert_eq!(manager.admin("PUT", &scale_path, scale(-1)).await.code(400), "37");
    manager.admin("PUT", &scale_path, scale(6)).await.expect(200);
    eventually("six nodes", async || manager.get_plane(&id).await["nodes_actual"] == 6).await;

    // Roles: who reads does not write, and who writes does not delete.
    for (role, method, path, status) in [
        ("read", "GET", path.clone(), 200),
        ("read", "PUT", scale_path.clone(), 404),
        ("write", "PUT", scale_path.clone(), 200),
        ("write", "DELETE", path.clone(), 404),
        ("none", "GET", path.clone(), 404),
    ] {
        let token = manager.signer.admin(role);
        let body = (method == "PUT").then(|| json!({ "nodes": 6 }));
        let answer = manager.ask(method, &format!("/admin{path}"), &token, body).await;
        assert_eq!(answer.status, status, "{role} {method} {path}");
    }
    let user = manager.signer.user("ann", "org");
    assert_eq!(manager.ask("GET", "/admin/data_planes", &user, None).await.code(404), "7");

    let taken = json!({ "cloud_provider": "aws", "region": "us-east-1", "id": id });
    assert_eq!(manager.admin("POST", "/data_planes", Some(taken)).await.code(409), "6");
    manager.admin("DELETE", &path, None).await.expect(202);
    let get = async || manager.admin("GET", &path, None).await.status;
    eventually("it is gone", async || get().await == 404).await;
    assert!(manager.ocm.cluster(&id).is_none());

    let log = manager.admin("GET", "/audit", None).await.expect(200);
    let lines: Vec<_> = log["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let word = |name: &str| one[name].as_str().unwrap().to_owned();
            format!("{} {} {} {}", word("subject"), word("method"), word("path"), one["status"])
        })
        .collect();
    let base = fleet::http::BASE;
    assert!(lines.contains(&format!("root DELETE {base}/admin{path} 202")), "{lines:#?}");
    assert!(lines.contains(&format!("root DELETE {base}/admin{path} 404")), "{lines:#?}");
}

/// The manager's own bounds win over whatever an agent reports.
pub(crate) async fn reports_outside_the_bounds_are_refused(database: &str) {
    let manager = Manager::with(database, |config| {
        config.cloud_providers[1].regions[0].planes_max = 0;
    })
    .await;
    let body = json!({ "cloud_provider": "aws", "region": "us-east-1" });
    let made = manager.admin("POST", "/data_planes", Some(body)).await.expect(202);
    let id = made["id"].as_str().unwrap().to_owned();
    manager.state(&id, "waiting_for_kas_fleetshard_operator").await;
    eventually("known", async || manager.get_plane(&id).await["nodes_actual"] == 3).await;
    let mut large = report((0, 0), (3, 1000, 3, 3));
    large["resizeInfo"]["nodeDelta"] = json!(900);
    for _ in 0..3 {
        let refused = manager.report(&id, large.clone()).await.expect(400);
        assert_eq!(refused["code"], "KAFKAS-MGMT-37");
        let reason = "nodeInfo.ceiling is 1000, and at most 18 nodes are permitted; \
                      resizeInfo.nodeDelta is 900, and at most 3 are permitted";
        assert_eq!(refused["reason"], reason);
    }
    let plane = manager.get_plane(&id).await;
    assert_eq!(plane["status"], "waiting_for_kas_fleetshard_operator", "it changes nothing");
    assert_eq!((&plane["nodes_wanted"], &plane["last_seen"]), (&json!(3), &Value::Null));
    let log = manager.admin("GET", "/audit", None).await.expect(200);
    let path = format!("{}/agent-clusters/{id}/status", fleet::http::BASE);
    let rows = log["items"].as_array().unwrap().clone();
    let rows: Vec<_> = rows.into_iter().filter(|one| one["path"] == path.as_str()).collect();
    assert_eq!(rows.len(), 1, "once, not with every repetition: {rows:?}");
    assert_eq!(rows[0]["subject"], format!("kas-fleetshard-agent-{id}"));
    // One that is within the bounds is believed as before.
    manager.report(&id, report((0, 0), (3, 18, 3, 3))).await.expect(204);
    eventually("six", async || manager.get_plane(&id).await["nodes_actual"] == 6).await;
    let asked: Vec<_> =
        manager.ocm.clusters.lock().unwrap().scaled.iter().map(|one| one.1).collect();
    assert_eq!(asked, [6]);
}

/// With the switch on, everything is decided and nothing is done.
pub(crate) async fn a_dry_run_decides_and_does_nothing(database: &str) {
    let manager = Manager::with(database, |config| {
        config.cloud_providers[1].regions[0].planes_max = 0;
    })
    .await;
    let on = |value: bool| Some(json!({ "dry_run": value }));
    manager.admin("PUT", "/settings", on(true)).await.expect(200);
    let body = json!({ "cloud_provider": "aws", "region": "us-east-1" });
    let made = manager.admin("POST", "/data_planes", Some(body)).await.expect(202);
    let id = made["id"].as_str().unwrap().to_owned();
    manager.state(&id, "waiting_for_kas_fleetshard_operator").await;
    eventually("known", async || manager.get_plane(&id).await["nodes_actual"] == 3).await;
    manager.report(&id, report((0, 0), (3, 6, 3, 3))).await.expect(204);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(manager.get_plane(&id).await["nodes_wanted"], 3);
    assert_eq!(manager.ocm.clusters.lock().unwrap().scaled, []);
    let last = manager.decisions(&id).await.pop().unwrap();
    assert_eq!(last, "nodes 3->6: room for no more than 0 connections and 0 partitions");
    manager.admin("PUT", "/settings", on(false)).await.expect(200);
    manager.report(&id, report((0, 0), (3, 6, 3, 3))).await.expect(204);
    eventually("now it is done", async || manager.get_plane(&id).await["nodes_actual"] == 6).await;
}

/// An agent that has fallen silent is noticed, and nothing is placed there.
pub(crate) async fn silence_is_noticed(database: &str) {
    let manager = Manager::with(database, |config| config.times.silence_ms = 700).await;
    manager.plane("p").await;
    manager.report("p", report((1000, 1000), (3, 9, 3, 3))).await.expect(204);
    assert_eq!(manager.get_plane("p").await["status"], "ready");
    manager.state("p", "waiting_for_kas_fleetshard_operator").await;
    let reason = manager.get_plane("p").await["status_reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("the agent has been silent for"), "{reason}");
    manager.report("p", report((1000, 1000), (3, 9, 3, 3))).await.expect(204);
    assert_eq!(manager.get_plane("p").await["status"], "ready");
}

/// Too much and too often.
pub(crate) async fn limits_are_kept(database: &str) {
    let manager = Manager::with(database, |config| {
        config.limits.body_bytes = 2000;
        config.limits.burst = 20;
        config.limits.requests_per_second = 1;
    })
    .await;
    let user = manager.signer.user("ann", "org");
    let body = Some(json!({ "name": "a".repeat(4000) }));
    let answer = manager.ask("POST", "/kafkas?async=true", &user, body).await;
    assert_eq!(answer.code(413), "17");
    // At once, so that the bucket is not filled again meanwhile, however slow this machine is.
    let asks = (0..60).map(|_| manager.ask("GET", "/kafkas", &user, None));
    let answers = futures::future::join_all(asks).await;
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    let other = manager.signer.user("bob", "org");
    assert_eq!(manager.ask("GET", "/kafkas", &other, None).await.status, 200);
    assert_eq!(manager.ask("GET", "/nothing", &other, None).await.code(404), "7");
    assert_eq!(manager.ask("PATCH", "/kafkas", &other, None).await.code(405), "10");
}
