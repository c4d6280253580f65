//! Steps of nodes, with a provider that is slow, fails, makes other numbers than asked for, or is changed by a person.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Manager, eventually, report};

/// No data planes but those that a test asks for.
async fn by_hand(database: &str, change: impl FnOnce(&mut fleet::config::Config)) -> Manager {
    Manager::with(database, |config| {
        config.cloud_providers[1].regions[0].planes_max = 0;
        config.times.cool_down_ms = 0;
        change(config);
    })
    .await
}

/// No capacity, and so many nodes of at most 18.
fn no_room(nodes: u32) -> Value {
    report((0, 0), (nodes, 18, 3, 3))
}

/// While nodes boot, no report asks for more of them.
pub(crate) async fn a_step_is_one_until_its_nodes_are_there(database: &str) {
    let manager = by_hand(database, |_| {}).await;
    let id = manager.ocm_plane("us-east-1").await;
    manager.ocm.clusters.lock().unwrap().frozen = true;
    let wanted = async || manager.get_plane(&id).await["nodes_wanted"].clone();
    manager.report(&id, no_room(3)).await.expect(204);
    assert_eq!(wanted().await, 6);
    eventually("it is sent", async || manager.ocm.scaled() == [6]).await;
    for arrived in [4, 5] {
        manager.ocm.arrive(&id, u64::from(arrived));
        eventually("counted", async || manager.get_plane(&id).await["nodes_actual"] == arrived)
            .await;
        manager.report(&id, no_room(arrived)).await.expect(204);
        assert_eq!(wanted().await, 6, "{arrived} of 6 nodes are there");
    }
    // The provider counts machines that have not joined yet.
    manager.ocm.arrive(&id, 6);
    eventually("counted", async || manager.get_plane(&id).await["nodes_actual"] == 6).await;
    manager.report(&id, no_room(5)).await.expect(204);
    assert_eq!(wanted().await, 6);
    let plane = manager.get_plane(&id).await;
    assert_eq!(plane["status"], "compute_node_scaling_up");
    assert_eq!(plane["nodes_reason"], "no step: the last one is in progress");
    // All of them are there: the next step is one of three.
    manager.report(&id, no_room(6)).await.expect(204);
    assert_eq!(wanted().await, 9);
    eventually("it is sent", async || manager.ocm.scaled() == [6, 9]).await;
}

/// A step that takes too long makes the data plane full, and is not repeated with more nodes.
pub(crate) async fn nodes_that_do_not_come_fail_the_step(database: &str) {
    let manager = by_hand(database, |config| config.times.step_ms = 300).await;
    let id = manager.ocm_plane("us-east-1").await;
    manager.report(&id, report((1000, 1000), (3, 18, 3, 3))).await.expect(204);
    manager.ocm.clusters.lock().unwrap().frozen = true;
    manager.report(&id, no_room(3)).await.expect(204);
    eventually("it is sent", async || manager.ocm.scaled() == [6]).await;
    manager.ocm.arrive(&id, 4);
    eventually("counted", async || manager.get_plane(&id).await["nodes_actual"] == 4).await;
    eventually("it has failed", async || {
        manager.report(&id, no_room(4)).await.expect(204);
        manager.get_plane(&id).await["status"] == "full"
    })
    .await;
    let plane = manager.get_plane(&id).await;
    let failed = "no capacity; no step: the last one failed; of 6 nodes 4 are there";
    assert_eq!(plane["status_reason"], failed);
    assert_eq!((&plane["nodes_wanted"], manager.ocm.scaled()), (&json!(6), vec![6]));
    // They come after all.
    manager.ocm.arrive(&id, 6);
    eventually("counted", async || manager.get_plane(&id).await["nodes_actual"] == 6).await;
    manager.report(&id, no_room(6)).await.expect(204);
    assert_eq!(manager.get_plane(&id).await["nodes_wanted"], 9);
}

/// Machines that Cluster API counts are there when they are ready, and not before; and machines go through it as well.
pub(crate) async fn machines_that_boot_are_one_step(database: &str) {
    let manager = by_hand(database, |config| {
        let mut metal = config.cloud_providers[1].clone();
        "metal".clone_into(&mut metal.id);
        "capi".clone_into(&mut metal.regions[0].provider);
        config.cloud_providers.push(metal);
    })
    .await;
    let id = manager.counted_plane("metal", "us-east-1").await;
    assert_eq!(manager.capi.scaled(), [3], "the class begins with one machine");
    manager.capi.freeze();
    let wanted = async || manager.get_plane(&id).await["nodes_wanted"].clone();
    manager.report(&id, no_room(3)).await.expect(204);
    eventually("six are sent", async || manager.capi.scaled() == [3, 6]).await;
    for ready in [4, 5] {
        manager.capi.boot(&id, ready);
        eventually("counted", async || manager.get_plane(&id).await["nodes_actual"] == ready).await;
        manager.report(&id, no_room(u32::try_from(ready).unwrap())).await.expect(204);
        assert_eq!(wanted().await, 6, "{ready} of 6 machines are ready");
    }
    assert_eq!(manager.get_plane(&id).await["status"], "compute_node_scaling_up");
    manager.capi.boot(&id, 6);
    eventually("counted", async || manager.get_plane(&id).await["nodes_actual"] == 6).await;
    // The provider has them, and the last one has not joined yet.
    manager.report(&id, no_room(5)).await.expect(204);
    assert_eq!(wanted().await, 6);
    manager.report(&id, no_room(6)).await.expect(204);
    eventually("nine are sent", async || manager.capi.scaled() == [3, 6, 9]).await;
    manager.capi.boot(&id, 9);
    eventually("counted", async || manager.get_plane(&id).await["nodes_actual"] == 9).await;

    let room = |nodes| report((8000, 8000), (nodes, 18, 3, 3));
    manager.report(&id, room(9)).await.expect(204);
    eventually("six are sent", async || manager.capi.scaled() == [3, 6, 9, 6]).await;
    // Those that still drain are there.
    eventually("counted", async || manager.get_plane(&id).await["nodes_desired"] == 6).await;
    assert_eq!(manager.get_plane(&id).await["nodes_actual"], 9);
    for nodes in [9, 7] {
        manager.report(&id, room(nodes)).await.expect(204);
        assert_eq!(wanted().await, 6, "one step after the other");
    }
    manager.capi.boot(&id, 6);
    eventually("counted", async || manager.get_plane(&id).await["nodes_actual"] == 6).await;
    manager.report(&id, room(6)).await.expect(204);
    eventually("three are sent", async || manager.capi.scaled() == [3, 6, 9, 6, 3]).await;
    manager.admin("DELETE", &format!("/data_planes/{id}"), None).await.expect(202);
    eventually("it is gone", async || manager.capi.clusters() == 0).await;
}

/// What the provider did and could not say in time is not done twice.
pub(crate) async fn a_provider_that_answers_late_does_nothing_twice(database: &str) {
    let manager = by_hand(database, |config| config.times.provider_ms = 300).await;
    let late = |ms| manager.ocm.clusters.lock().unwrap().late = Duration::from_millis(ms);
    manager.ocm.clusters.lock().unwrap().installing = true;
    late(1500);
    let body = json!({ "cloud_provider": "aws", "region": "us-east-1" });
    let made = manager.admin("POST", "/data_planes", Some(body)).await.expect(202);
    let id = made["id"].as_str().unwrap().to_owned();
    manager.state(&id, "cluster_provisioning").await;
    // It is installed for some rounds of the workers, and nothing else is created meanwhile.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(manager.get_plane(&id).await["status"], "cluster_provisioning");
    manager.ocm.install(&id);
    manager.state(&id, "waiting_for_kas_fleetshard_operator").await;
    eventually("counted", async || manager.get_plane(&id).await["nodes_actual"] == 3).await;
    manager.report(&id, no_room(3)).await.expect(204);
    eventually("six", async || manager.get_plane(&id).await["nodes_actual"] == 6).await;
    assert_eq!(manager.ocm.scaled(), [6]);
    assert_eq!(manager.ocm.clusters.lock().unwrap().created[&id], 1);
    let numbers = manager.metrics().await;
    for kind in ["planes", "nodes"] {
        let line =
            format!("gregor_fleet_provider_calls_total{{kind=\"{kind}\",outcome=\"timed-out\"}} 1");
        assert!(numbers.contains(&line), "{line} is not in {numbers}");
    }
    manager.admin("DELETE", &format!("/data_planes/{id}"), None).await.expect(202);
    eventually("it is gone", async || {
        manager.admin("GET", &format!("/data_planes/{id}"), None).await.status == 404
    })
    .await;
    assert!(manager.ocm.cluster(&id).is_none());
}

/// An error of the provider loses no step and begins no other.
pub(crate) async fn a_provider_that_fails_is_asked_again(database: &str) {
    let manager = by_hand(database, |_| {}).await;
    let id = manager.ocm_plane("us-east-1").await;
    manager.ocm.clusters.lock().unwrap().refuses = true;
    manager.report(&id, no_room(3)).await.expect(204);
    eventually("its word is unknown", async || {
        manager.get_plane(&id).await["nodes_actual"].is_null()
    })
    .await;
    manager.report(&id, no_room(3)).await.expect(204);
    let plane = manager.get_plane(&id).await;
    assert_eq!((&plane["nodes_wanted"], manager.ocm.scaled()), (&json!(6), vec![]));
    let failed = "gregor_fleet_provider_calls_total{kind=\"nodes\",outcome=\"failed\"}";
    let numbers = manager.metrics().await;
    assert!(numbers.contains(failed), "{failed} is not in {numbers}");
    manager.ocm.clusters.lock().unwrap().refuses = false;
    eventually("six", async || manager.get_plane(&id).await["nodes_actual"] == 6).await;
    assert_eq!(manager.ocm.scaled(), [6]);
}

/// The manager never reverts a number that it did not send.
pub(crate) async fn what_the_provider_or_a_person_changes_is_adopted(database: &str) {
    // The provider is asked repeatedly.
    let manager = by_hand(database, |_| {}).await;
    let id = manager.ocm_plane("us-east-1").await;
    let wanted = async || manager.get_plane(&id).await["nodes_wanted"].clone();
    // The provider makes seven where six were asked for.
    manager.ocm.clusters.lock().unwrap().extra = 1;
    manager.report(&id, no_room(3)).await.expect(204);
    eventually("seven are wanted", async || wanted().await == 7).await;
    assert_eq!(manager.ocm.scaled(), [6], "it is not asked repeatedly");
    // While six are on their way, a person makes nine of it.
    manager.ocm.clusters.lock().unwrap().extra = 0;
    manager.ocm.clusters.lock().unwrap().frozen = true;
    manager.report(&id, no_room(7)).await.expect(204);
    eventually("ten are sent", async || manager.ocm.scaled() == [6, 10]).await;
    manager.ocm.scale_as_person(&id, 15);
    eventually("fifteen are wanted", async || wanted().await == 15).await;
    manager.report(&id, no_room(15)).await.expect(204);
    assert_eq!(wanted().await, 18, "the next step is counted from there");
    let decisions = manager.decisions(&id).await;
    for adopted in ["nodes 6->7: changed at the provider", "nodes 10->15: changed at the provider"]
    {
        assert!(decisions.contains(&adopted.to_owned()), "{decisions:#?}");
    }
}

/// By hand: the API is obeyed, a person's change at the provider stays, and reports change nothing.
pub(crate) async fn with_manual_scaling_the_manager_changes_nothing(database: &str) {
    let manager = by_hand(database, |config| config.scaling = fleet::config::Scaling::Manual).await;
    let id = manager.ocm_plane("us-east-1").await;
    let wanted = async || manager.get_plane(&id).await["nodes_wanted"].clone();
    manager.ocm.scale_as_person(&id, 9);
    // It looks again when something is asked of it, or after a minute.
    let scale = async |nodes: u32| {
        let path = format!("/data_planes/{id}/scale");
        manager.admin("PUT", &path, Some(json!({ "nodes": nodes }))).await.expect(200);
    };
    scale(4).await;
    eventually("nine are adopted", async || wanted().await == 9).await;
    assert_eq!(manager.ocm.scaled(), [] as [u64; 0], "nine is what a person set last");
    manager.report(&id, no_room(9)).await.expect(204);
    assert_eq!((wanted().await, manager.ocm.scaled()), (json!(9), vec![]));
    scale(6).await;
    eventually("six are sent", async || manager.ocm.scaled() == [6]).await;
    let decisions = manager.decisions(&id).await;
    assert!(
        decisions.contains(&"nodes 4->9: changed at the provider".to_owned()),
        "{decisions:#?}"
    );
}

/// Fewer nodes, as the provider removes them.
pub(crate) async fn nodes_go_through_the_provider(database: &str) {
    let manager = by_hand(database, |_| {}).await;
    let id = manager.ocm_plane("us-east-1").await;
    manager.report(&id, no_room(3)).await.expect(204);
    eventually("six", async || manager.get_plane(&id).await["nodes_actual"] == 6).await;
    manager.report(&id, report((5000, 5000), (6, 18, 3, 3))).await.expect(204);
    eventually("three are sent", async || manager.ocm.scaled() == [6, 3]).await;
    eventually("three", async || manager.get_plane(&id).await["nodes_actual"] == 3).await;
    // Those that still drain count for the agent.
    manager.report(&id, report((5000, 5000), (5, 18, 3, 3))).await.expect(204);
    let plane = manager.get_plane(&id).await;
    assert_eq!((&plane["status"], &plane["nodes_wanted"]), (&json!("ready"), &json!(3)));
    manager.report(&id, report((5000, 5000), (3, 18, 3, 3))).await.expect(204);
    let decisions = manager.decisions(&id).await;
    let down = "nodes 6->3: 5000 connections and 5000 partitions left, more than 1000 connections \
                and 1000 partitions";
    assert!(decisions.contains(&down.to_owned()), "{decisions:#?}");
    assert_eq!(manager.ocm.scaled(), [6, 3]);
}

/// One Kafka that waits is demand for one data plane of its region, and for the same one until it has its place.
pub(crate) async fn one_data_plane_grows_for_a_kafka_that_waits(database: &str) {
    let manager = by_hand(database, |_| {}).await;
    let (first, second) =
        (manager.ocm_plane("us-east-1").await, manager.ocm_plane("us-east-1").await);
    let small = || report((200, 200), (3, 18, 3, 3));
    let user = manager.signer.user("ann", "org");
    let body = Some(json!({ "name": "k", "cloud_provider": "aws", "plan": "standard.x5" }));
    let made = manager.ask("POST", "/kafkas?async=true", &user, body).await.expect(202);
    let kafka = made["id"].as_str().unwrap();
    for id in [&first, &second] {
        manager.report(id, small()).await.expect(204);
        manager.state(id, "ready").await;
    }
    eventually("demand is counted", async || {
        let numbers = manager.metrics().await;
        let region = "{cloud_provider=\"aws\",region=\"us-east-1\"}";
        ["kafkas_waiting{} 1", "waiting_connections{} 500", "waiting_partitions{} 100"]
            .map(|line| format!("gregor_fleet_{}", line.replace("{}", region)))
            .iter()
            .all(|line| numbers.contains(line.as_str()))
            && numbers.contains(&format!("gregor_fleet_queue_age_seconds{region} "))
    })
    .await;
    let grow = format!("grow ->{kafka}: a Kafka waits for 500 connections and 100 partitions");
    eventually("it is given to one", async || {
        manager.region_decisions("grow").await == [grow.clone()]
    })
    .await;
    manager.ocm.clusters.lock().unwrap().frozen = true;
    for _ in 0..3 {
        for id in [&first, &second] {
            manager.report(id, small()).await.expect(204);
        }
    }
    let wanted = async |id: &str| manager.get_plane(id).await["nodes_wanted"].as_i64().unwrap();
    let grows = if wanted(&first).await == 6 { &first } else { &second };
    let other = if *grows == first { &second } else { &first };
    assert_eq!((wanted(grows).await, wanted(other).await), (6, 3));
    let path = format!("/kafkas/{kafka}");
    let reason = format!("none of 2 ready data planes has room; {grows} grows for it");
    eventually("the Kafka says so", async || {
        manager.ask("GET", &path, &user, None).await.body["failed_reason"] == reason.as_str()
    })
    .await;
    // The nodes come, and it has its place there.
    manager.ocm.arrive(grows, 6);
    eventually("counted", async || manager.get_plane(grows).await["nodes_actual"] == 6).await;
    manager.report(grows, report((1200, 1200), (6, 18, 3, 3))).await.expect(204);
    let placed = format!("place ->{kafka}: the tightest of 1 that have room");
    eventually("it has its place", async || manager.decisions(grows).await.contains(&placed)).await;
    assert_eq!(manager.region_decisions("grow").await, [grow], "it was given once");
}
