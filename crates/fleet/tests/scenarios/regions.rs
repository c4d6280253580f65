//! Regions: when they get no further data plane, and which data planes go.

use std::time::Duration;

use fleet::store::{DecisionKind, NewPlane};
use fleet_control::PlaneState::{Deprovisioning, Ready};
use serde_json::{Value, json};

use crate::support::{Manager, eventually, report};

fn without_zones() -> Value {
    let mut body = report((0, 0), (6, 18, 3, 3));
    body["conditions"].as_array_mut().unwrap().push(json!({
        "type": "NodesSuitable", "status": "False", "reason": "ZonesMissing",
        "message": "zones found: z1, z2",
    }));
    body
}

/// More nodes, or another data plane, would have the same zones.
pub(crate) async fn nodes_without_zones_are_told_and_make_no_data_planes(database: &str) {
    let manager = Manager::start(database).await;
    let id = first_of(&manager, "us-east-1").await;
    manager.report(&id, report((1000, 1000), (3, 18, 3, 3))).await.expect(204);
    manager.state(&id, "ready").await;
    let told =
        "the nodes are in fewer than three zones, or have no zone label: zones found: z1, z2";
    for _ in 0..3 {
        manager.report(&id, without_zones()).await.expect(204);
    }
    let plane = manager.get_plane(&id).await;
    assert_eq!(plane["status"], "waiting_for_kas_fleetshard_operator");
    assert_eq!((&plane["status_reason"], &plane["nodes_unsuitable"]), (&json!(told), &json!(told)));
    assert_eq!(plane["nodes_wanted"], 3, "more nodes would not help");
    let decision = format!("state ready->waiting_for_kas_fleetshard_operator: {told}");
    let decisions = manager.decisions(&id).await;
    assert_eq!(decisions.iter().filter(|one| **one == decision).count(), 1, "{decisions:#?}");

    let held =
        "Kafkas cannot be placed on the nodes of 1 data planes, and another would be no better";
    eventually("the region says so", async || manager.region("us-east-1").await["held"] == held)
        .await;
    // Some rounds of the workers later there still is no other.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(manager.ocm.clusters.lock().unwrap().created.len(), 1);
    // Somebody has put it right.
    manager.report(&id, report((1000, 1000), (6, 18, 3, 3))).await.expect(204);
    manager.state(&id, "ready").await;
    assert!(manager.get_plane(&id).await["nodes_unsuitable"].is_null());
    eventually("nothing blocks it", async || manager.region("us-east-1").await["held"].is_null())
        .await;
    let holds = manager.region_decisions("hold").await;
    let expected = [
        format!("hold free->held: {held}"),
        "hold held->free: nothing blocks it any longer".into(),
    ];
    assert_eq!(holds, expected);
}

/// The first data plane of a region, as soon as it waits for its agent.
async fn first_of(manager: &Manager, region: &str) -> String {
    let waiting = "waiting_for_kas_fleetshard_operator";
    eventually("the first one", async || {
        !manager.region(region).await["data_planes"][waiting].is_null()
    })
    .await;
    let list = manager.admin("GET", "/data_planes", None).await.expect(200);
    let items = list["items"].as_array().unwrap();
    let first = items.iter().find(|one| one["region"] == region).unwrap();
    let id = first["id"].as_str().unwrap().to_owned();
    eventually("counted", async || manager.get_plane(&id).await["nodes_actual"] == 3).await;
    id
}

/// Three failed ones, as the provider reports them, and the limit.
pub(crate) async fn a_region_that_stops_growing_says_so(database: &str) {
    let manager = Manager::with(database, |config| {
        let mut west = config.cloud_providers[1].regions[0].clone();
        (west.id, west.planes_max) = ("us-west-1".to_owned(), 1);
        config.cloud_providers[1].regions.push(west);
    })
    .await;
    let (east, west) =
        (first_of(&manager, "us-east-1").await, first_of(&manager, "us-west-1").await);
    // From now on clusters end in an error.
    manager.ocm.clusters.lock().unwrap().error = Some("no quota".to_owned());
    for id in [&east, &west] {
        manager.report(id, report((0, 0), (3, 3, 3, 3))).await.expect(204);
        manager.state(id, "full").await;
    }
    let region = async |id: &str| manager.region(id).await;
    eventually("the west is at its limit", async || {
        region("us-west-1").await["held"] == "1 data planes are the limit"
    })
    .await;
    let told = "3 data planes have failed; delete them when the cause is found";
    eventually("three have failed", async || region("us-east-1").await["held"] == told).await;
    assert_eq!(region("us-east-1").await["data_planes"], json!({ "failed": 3, "full": 1 }));
    assert!(!region("us-east-1").await["held_since"].is_null());
    let numbers = manager.metrics().await;
    for line in [
        "gregor_fleet_region_held{cloud_provider=\"aws\",region=\"us-east-1\"} 1",
        "gregor_fleet_data_planes{cloud_provider=\"aws\",region=\"us-east-1\",status=\"failed\"} 3",
        "gregor_fleet_nodes{cloud_provider=\"aws\",region=\"us-west-1\",count=\"actual\"} 3",
        "gregor_fleet_reports_total{outcome=\"stored\"} 2",
        "gregor_fleet_provider_calls_total{kind=\"planes\",outcome=\"done\"}",
        "gregor_fleet_decisions_total{kind=\"hold\",reason=\"TooManyFailed\"} 1",
        "gregor_fleet_decisions_total{kind=\"hold\",reason=\"AtLimit\"} 1",
    ] {
        assert!(numbers.contains(line), "{line} is not in {numbers}");
    }
    for line in numbers.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        assert!(fleet::metrics::NAMES.contains(&name), "{name} is not in the list of names");
    }
    let holds = manager.region_decisions("hold").await;
    assert!(holds.contains(&format!("hold free->held: {told}")), "{holds:#?}");
    let list = manager.admin("GET", "/data_planes", None).await.expect(200);
    let items = list["items"].as_array().unwrap().clone();
    let failed: Vec<_> = items.iter().filter(|one| one["status"] == "failed").collect();
    assert!(failed.iter().all(|one| one["status_reason"] == "no quota"), "{failed:?}");
    // A person deletes one of them, and the region tries again.
    manager.ocm.clusters.lock().unwrap().error = None;
    let gone = failed[0]["id"].as_str().unwrap();
    manager.admin("DELETE", &format!("/data_planes/{gone}"), None).await.expect(202);
    eventually("there is another", async || {
        let region = region("us-east-1").await;
        let planes = &region["data_planes"];
        region["held"].is_null() && !planes["waiting_for_kas_fleetshard_operator"].is_null()
    })
    .await;
}

/// Empty data planes that are each the last of their kind stay.
pub(crate) async fn a_sibling_is_of_the_same_provider_region_and_zones(database: &str) {
    let manager = Manager::with(database, |config| {
        let mut west = config.cloud_providers[1].regions[0].clone();
        west.id = "us-west-1".to_owned();
        config.cloud_providers[1].regions.push(west.clone());
        let mut gcp = config.cloud_providers[1].clone();
        gcp.id = "gcp".to_owned();
        gcp.regions = vec![fleet::config::Region { id: "us-east-1".to_owned(), ..west }];
        config.cloud_providers.push(gcp);
        config.cloud_providers.iter_mut().flat_map(|one| &mut one.regions).for_each(|region| {
            region.planes_max = 0;
        });
    })
    .await;
    for (id, provider, region, multi_az) in [
        ("here", "aws", "us-east-1", true),
        ("elsewhere", "aws", "us-west-1", true),
        ("of-another", "gcp", "us-east-1", true),
        ("in-one-zone", "aws", "us-east-1", false),
    ] {
        ready_plane(&manager, (id, provider, region), multi_az).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    for id in ["here", "elsewhere", "of-another", "in-one-zone"] {
        assert_eq!(manager.get_plane(id).await["status"], "ready", "{id}");
    }
    // With a sibling one of the two goes.
    ready_plane(&manager, ("sibling", "aws", "us-east-1"), true).await;
    eventually("one goes", async || {
        manager.admin("GET", "/data_planes/here", None).await.status == 404
    })
    .await;
    assert_eq!(manager.get_plane("sibling").await["status"], "ready");
    assert_eq!(manager.get_plane("in-one-zone").await["status"], "ready");
}

/// A data plane that reports room.
async fn ready_plane(
    manager: &Manager,
    (id, provider, region): (&str, &str, &str),
    multi_az: bool,
) {
    let mut tx = manager.store.begin().await.unwrap();
    tx.add_plane(&NewPlane {
        id: id.to_owned(),
        cloud_provider: provider.to_owned(),
        region: region.to_owned(),
        multi_az,
        provider_type: "ocm".to_owned(),
        nodes: 3,
    })
    .await
    .unwrap();
    tx.commit().await.unwrap();
    manager.state(id, "waiting_for_kas_fleetshard_operator").await;
    manager.report(id, report((500, 500), (3, 18, 3, 3))).await.expect(204);
}

/// Between the decision and the provider a Kafka may have come, or the sibling may have gone.
pub(crate) async fn a_removal_is_looked_at_again(database: &str) {
    let manager = Manager::with(database, |config| {
        config.cloud_providers[1].regions[0].planes_max = 0;
    })
    .await;
    ready_plane(&manager, ("p", "aws", "us-east-1"), true).await;
    let remove = async || {
        let mut tx = manager.store.begin().await.unwrap();
        let mut plane = tx.plane("p").await.unwrap().unwrap();
        assert_eq!(plane.state(), Ready);
        let kind = DecisionKind::Remove;
        tx.change_state(kind, &mut plane, Deprovisioning, ("Empty", "empty")).await.unwrap();
        tx.save_plane(&plane).await.unwrap();
        tx.commit().await.unwrap();
    };
    // No other is ready.
    remove().await;
    manager.state("p", "ready").await;
    let reason = manager.get_plane("p").await["status_reason"].clone();
    assert_eq!(reason, "no other of its kind is ready in the region");
    // A Kafka has come.
    let user = manager.signer.user("ann", "org");
    let body = Some(json!({ "name": "k", "cloud_provider": "aws" }));
    let kafka = manager.ask("POST", "/kafkas?async=true", &user, body).await.expect(202);
    let placed =
        format!("place ->{}: the tightest of 1 that have room", kafka["id"].as_str().unwrap());
    eventually("it has its place", async || manager.decisions("p").await.contains(&placed)).await;
    remove().await;
    manager.state("p", "ready").await;
    assert_eq!(manager.get_plane("p").await["status_reason"], "1 Kafkas are there");
    assert!(manager.ocm.clusters.lock().unwrap().deleted.is_empty());
}

/// What has the name of a data plane and not its id is neither adopted nor deleted.
pub(crate) async fn a_cluster_of_somebody_else_is_not_adopted(database: &str) {
    let manager = Manager::with(database, |config| {
        config.cloud_providers[1].regions[0].planes_max = 0;
    })
    .await;
    let foreign = json!({
        "id": "foreign", "name": fleet::provider::cluster_name("p-1"),
        "properties": { "gregor.io/data-plane": "another" }, "nodes": { "compute": 3 },
        "status": { "state": "ready", "current_compute": 3 },
    });
    manager.ocm.clusters.lock().unwrap().there.insert("foreign".to_owned(), foreign.clone());
    let body = |id: &str| json!({ "cloud_provider": "aws", "region": "us-east-1", "id": id });
    manager.admin("POST", "/data_planes", Some(body("p-1"))).await.expect(202);
    // The names of these would have been the same without the signs; each gets a cluster of its own.
    for id in ["p.1", "p_1", "P-1"] {
        manager.admin("POST", "/data_planes", Some(body(id))).await.expect(202);
        manager.state(id, "waiting_for_kas_fleetshard_operator").await;
    }
    assert_eq!(manager.get_plane("p-1").await["status"], "cluster_accepted");
    manager.admin("DELETE", "/data_planes/p-1", None).await.expect(202);
    let get = async || manager.admin("GET", "/data_planes/p-1", None).await.status;
    eventually("it is gone", async || get().await == 404).await;
    {
        let clusters = manager.ocm.clusters.lock().unwrap();
        assert_eq!((clusters.there.len(), &clusters.there["foreign"]), (4, &foreign));
        assert!(clusters.deleted.is_empty(), "{:?}", clusters.deleted);
    }
    // One cluster of a provider is never two data planes, whatever a provider answers.
    let of_other = manager.store.plane("p_1").await.unwrap().unwrap().provider_id;
    let mut tx = manager.store.begin().await.unwrap();
    let mut plane = tx.plane("p.1").await.unwrap().unwrap();
    plane.provider_id = of_other;
    assert!(tx.save_plane(&plane).await.is_err());
    drop(tx);
    for id in ["-p", "p-", ".", "_", &"p".repeat(64)] {
        assert_eq!(manager.admin("POST", "/data_planes", Some(body(id))).await.code(400), "37");
    }
}
