//! `gregor node` as the first process of real Kafka nodes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod node_properties;
mod node_support;

use model::NodeId;
use node_support::{Ground, Mode, NodeProcess, Plan};
use serde_json::Value;

const CONTROLLERS: [(i32, &str); 3] =
    [(0, "9f7Q2Kx1TbeyGn1oVb3o5A"), (1, "r9VGTiw2QUCoDUadCt6q2g"), (2, "Anjr8banTey_LqVZsppzYg")];

fn node(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_combined_node_lives_and_dies_on_the_newest_kafka() {
    combined_node(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_combined_node_lives_and_dies_on_the_oldest_kafka() {
    combined_node(Some(artifacts::KafkaVersion::oldest_supported())).await;
}

async fn combined_node(version: Option<artifacts::KafkaVersion>) {
    let ground = Ground::new(version).await;
    let plan = Plan::new(0, "broker,controller", Mode::Dynamic).voters(&CONTROLLERS[..1]);
    let mut one = ground.start(&plan);
    one.wait_ready().await;
    tells_how_it_is(&ground, &one).await;
    restart_leaves_the_disk(&ground, &plan, one).await;
    wrong_disks_are_refused(&ground, &plan);
}

/// What the node tells is what its disk and the quorum say.
async fn tells_how_it_is(ground: &Ground, one: &NodeProcess) {
    let id = CONTROLLERS[0].1;
    assert_eq!(one.get("/live"), (200, "live\n".to_owned()));
    assert_eq!(one.get("/directory-id"), (200, format!("{id}\n")));
    assert_eq!(one.directory_id(), id);
    let quorum = ground.admin(&[0]).describe_quorum().await.unwrap();
    assert_eq!(quorum.voters.len(), 1);
    assert_eq!(quorum.voters[0].directory.unwrap().to_string(), id);
    let features = ground.admin(&[0]).describe_features(None).await.unwrap();
    assert_eq!(features.finalized["kraft.version"], 1);

    let (status, body) = one.get("/broker-state");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["state"], &body["number"]), (200, &"running".into(), &3.into()));
    assert_eq!(body["remainingLogsToRecover"], 0);
    assert_eq!(body["remainingSegmentsToRecover"], 0);
    for path in ["/v1/broker-state", "/v1/broker-state/"] {
        assert_eq!(one.get(path), (200, "{\"brokerState\":3}\n".to_owned()));
    }
    for path in ["/v1/ready", "/v1/ready/"] {
        assert_eq!(one.get(path), (204, String::new()));
    }
    let ready = one.ready();
    assert_eq!(ready["controller"]["state"], "leader");
    assert_eq!(ready["controller"]["leader"], 0);
    let (status, page) = one.get("/metrics");
    assert_eq!(status, 200);
    for series in [
        "kafka_broker_state 3.0",
        "kafka_raft_state{state=\"leader\"} 1.0",
        "kafka_raft_number_of_voters 1.0",
        "kafka_broker_bytes_in_total ",
        "kafka_broker_bytes_out_total ",
        "kafka_controller_last_applied_record_lag_ms ",
        "process_cpu_seconds_total ",
    ] {
        assert!(page.contains(&format!("\n{series}")), "no {series} in:\n{page}");
    }
    assert_eq!(one.get("/nothing").0, 404);
}

async fn restart_leaves_the_disk(ground: &Ground, plan: &Plan, mut one: NodeProcess) {
    let vote = one.read("data-0/__cluster_metadata-0/quorum-state");
    one.ask_to_stop();
    assert_eq!(one.wait_end().await, 0, "{}", one.log());
    assert!(one.log().contains("Kafka stopped"));
    // Whom a controller voted for must survive, or it could vote twice.
    assert_eq!(one.read("data-0/__cluster_metadata-0/quorum-state"), vote);
    drop(one);

    let mut one = ground.start(plan);
    one.wait_ready().await;
    assert!(one.log().contains("the disks are formatted"));
    assert_eq!(one.directory_id(), CONTROLLERS[0].1);

    one.kill_jvm();
    assert_eq!(one.wait_end().await, 137);
    assert!(one.log().contains("Kafka exited code=137"));
}

fn wrong_disks_are_refused(ground: &Ground, plan: &Plan) {
    let other_cluster = plan.clone().cluster("4L6g3nShT-eMCtK--X86sw");
    let sentence = ground.refused(&other_cluster, 65);
    assert!(sentence.contains("belongs to the cluster"), "{sentence}");
    assert!(sentence.contains("and not to 4L6g3nShT-eMCtK--X86sw"), "{sentence}");

    let other_node = plan.clone().property("node.id", "7");
    let sentence = ground.refused(&other_node, 65);
    assert!(sentence.contains("belongs to node 0 and not to node 7"), "{sentence}");

    let nobody_knows = Plan::new(9, "broker", Mode::Unknown);
    let sentence = ground.refused(&nobody_knows, 75);
    assert!(sentence.contains("whether the quorum is static or dynamic"), "{sentence}");

    let impossible = Plan::new(8, "broker", Mode::Dynamic).metadata_version("9.9-IV9");
    let sentence = ground.refused(&impossible, 70);
    assert!(sentence.contains("9.9-IV9") && sentence.lines().count() == 1, "{sentence}");

    let malformed = Plan::new(7, "boss", Mode::Dynamic);
    let sentence = ground.refused(&malformed, 78);
    assert!(sentence.contains("process.roles"), "{sentence}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dynamic_quorum_is_born_and_loses_a_disk() {
    let ground = Ground::new(None).await;
    let controller =
        |id: i32| Plan::new(id, "controller", Mode::Dynamic).voters(&CONTROLLERS).quorum_of(3);
    let broker = Plan::new(100, "broker", Mode::Dynamic).voters(&CONTROLLERS).quorum_of(3);
    let mut controllers: Vec<_> = (0..3).map(|id| ground.start(&controller(id))).collect();
    let mut broker = ground.start(&broker);
    for one in controllers.iter_mut().chain([&mut broker]) {
        one.wait_ready().await;
    }
    let admin = ground.admin(&[0, 1, 2]);
    let quorum = admin.describe_quorum().await.unwrap();
    let voters: Vec<_> = quorum
        .voters
        .iter()
        .map(|voter| (voter.id.get(), voter.directory.unwrap().to_string()))
        .collect();
    assert_eq!(voters, CONTROLLERS.map(|(id, directory)| (id, directory.to_owned())));
    assert_eq!(admin.describe_features(None).await.unwrap().finalized["kraft.version"], 1);
    assert_eq!(broker.ready()["controller"]["state"], "observer");
    assert_eq!(broker.get("/broker-state").0, 200);
    for one in &controllers {
        assert_eq!(one.get("/broker-state").0, 404);
        assert_eq!(one.get("/v1/ready/").0, 404);
    }

    // One that nobody leads: the other two go on without it.
    let lost = (0..3).find(|id| node(*id) != quorum.leader).unwrap();
    let index = usize::try_from(lost).unwrap();
    controllers[index].ask_to_stop();
    assert_eq!(controllers[index].wait_end().await, 0);
    controllers[index].wipe();
    let unknown = controller(lost).seen(None);
    let sentence = ground.refused(&unknown, 75);
    assert!(sentence.contains("whether this controller was a voter before"), "{sentence}");
    controllers[index] = ground.start(&controller(lost).seen(Some(true)));
    controllers[index].wait_ready().await;
    comes_back_as_an_observer(&ground, &controllers[index], lost).await;
    keeps_up_or_is_not_ready(controllers, lost).await;
}

async fn comes_back_as_an_observer(ground: &Ground, one: &NodeProcess, id: i32) {
    let former = CONTROLLERS[usize::try_from(id).unwrap()].1;
    let now = one.directory_id();
    assert_ne!(now, former);
    assert_eq!(one.get("/directory-id"), (200, format!("{now}\n")));
    assert!(one.log().contains("formatted the disks without initial controllers"));
    assert!(one.log().contains(&format!("the voter with directory id {former} is gone")));
    assert_eq!(one.ready()["controller"]["state"], "observer");
    let quorum = ground.admin(&[0, 1, 2]).describe_quorum().await.unwrap();
    let ids = |replicas: &[kafka_admin::QuorumReplica]| -> Vec<String> {
        let own = replicas.iter().filter(|replica| replica.id == node(id));
        own.filter_map(|replica| Some(replica.directory?.to_string())).collect()
    };
    assert_eq!(ids(&quorum.voters), [former]);
    // The one that it was is listed as an observer for a while if it was one before.
    assert!(ids(&quorum.observers).contains(&now), "{quorum:?}");
}

/// An observer whose leader is gone shows the old leader for ever, but is not ready.
async fn keeps_up_or_is_not_ready(mut controllers: Vec<NodeProcess>, observer: i32) {
    let index = usize::try_from(observer).unwrap();
    let one = controllers.remove(index);
    controllers.iter().for_each(NodeProcess::kill_jvm);
    one.wait_not_ready("the controller lags").await;
    assert_eq!(one.get("/live").0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_quorum_stays_static() {
    let ground = Ground::new(None).await;
    // A list that somebody left there must not matter.
    let plan = Plan::new(0, "broker,controller", Mode::Static).voters(&CONTROLLERS[..1]);
    let mut last = None;
    for said in ["formatted the disks for a static quorum", "the disks are formatted"] {
        let mut one = ground.start(&plan);
        one.wait_ready().await;
        assert!(one.log().contains(said), "{}", one.log());
        let features = ground.admin(&[0]).describe_features(None).await.unwrap();
        assert_eq!(features.finalized.get("kraft.version").copied().unwrap_or(0), 0);
        let quorum = ground.admin(&[0]).describe_quorum().await.unwrap();
        assert_eq!(quorum.voters[0].directory, None);
        one.ask_to_stop();
        assert_eq!(one.wait_end().await, 0);
        last = Some(one);
    }
    // A lost disk: it would vote with an empty log.
    last.unwrap().wipe();
    let seen = plan.seen(Some(true));
    let sentence = ground.refused(&seen, 75);
    assert!(sentence.contains("gregor.io/disk-replaced=true"), "{sentence}");
    let mut one = ground.start(&seen.replaced());
    one.wait_ready().await;
    assert!(one.log().contains("formatted the disks for a static quorum"), "{}", one.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_with_the_users_rules_leave_the_node_alone() {
    let ground = Ground::new(None).await;
    let plan = Plan::new(0, "broker,controller", Mode::Dynamic).voters(&CONTROLLERS[..1]);
    // They take every MBean that the node looks at, under other names.
    let rules = r#"{"lowercaseOutputName": true, "rules": [
        {"pattern": "kafka.server<type=(.+), name=(.+)><>Value", "name": "mine_$1_$2"},
        {"pattern": ".*", "name": "rest"}]}"#;
    let mut one = ground.start(&plan.clone().metrics(rules));
    one.wait_ready().await;
    one.wait_users_metric("mine_kafkaserver_brokerstate 3.0").await;
    assert!(one.users_metrics().unwrap().contains("\njvm_memory_used_bytes"));
    let (status, own) = one.get("/metrics");
    assert_eq!(status, 200);
    assert!(own.contains("\nkafka_broker_state 3.0") && !own.contains("mine_"), "{own}");

    // Better rules are taken without a restart, worse ones are not.
    one.change_metrics(
        r#"{"rules": [{"pattern": "kafka.server<type=(.+), name=(.+)><>Value",
        "name": "other_$1_$2"}]}"#,
    );
    one.wait_users_metric("other_KafkaServer_BrokerState 3.0").await;
    one.change_metrics(r#"{"rules": [{"pattern": "(", "name": "x"}]}"#);
    one.wait_users_metric("jmx_config_reload_failure_total 1.0").await;
    one.wait_users_metric("other_KafkaServer_BrokerState 3.0").await;
    one.change_metrics(r#"{"hostPort": "127.0.0.1:1"}"#);
    one.wait_log("cannot reload the metrics rules").await;
    one.wait_users_metric("other_KafkaServer_BrokerState 3.0").await;
    one.wait_ready().await;
    one.ask_to_stop();
    assert_eq!(one.wait_end().await, 0);

    for (rules, said) in [
        (r#"{"rules": [{"pattern": "kafka(", "name": "x"}]}"#, "Unclosed group"),
        (r#"{"hostPort": "127.0.0.1:1"}"#, "you must not configure 'jmxUrl' or 'hostPort'"),
        ("rules: [", "while parsing a flow node"),
    ] {
        let mut one = ground.start(&plan.clone().metrics(rules));
        one.wait_ready().await;
        let log = one.log();
        let line = log.lines().find(|line| line.contains("without the metrics of metricsConfig"));
        assert!(line.is_some_and(|line| line.contains("ERROR") && line.contains(said)), "{log}");
        assert_eq!(one.users_metrics(), None);
        one.ask_to_stop();
        assert_eq!(one.wait_end().await, 0);
    }
}

#[cfg(feature = "soak")]
#[tokio::test(flavor = "multi_thread")]
async fn a_class_archive_is_made_once_and_never_trusted_blindly() {
    let ground = Ground::new(None).await;
    let dir = tempfile::tempdir().unwrap();
    // Two at once: one makes it, the other waits for it.
    std::thread::scope(|scope| {
        let ground = &ground;
        let both = [(); 2].map(|()| scope.spawn(|| ground.make_class_archive(dir.path())));
        both.into_iter().for_each(|one| one.join().unwrap());
    });
    let files = |kind: &str| -> Vec<std::path::PathBuf> {
        let all = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| path.extension().unwrap() == kind).collect()
    };
    let archives = files("jsa");
    assert_eq!((archives.len(), files("new").len()), (1, 0));
    let archive = archives[0].to_str().unwrap();
    let made = std::fs::metadata(archive).unwrap().modified().unwrap();
    ground.make_class_archive(dir.path());
    assert_eq!(std::fs::metadata(archive).unwrap().modified().unwrap(), made);

    let plan = Plan::new(0, "broker,controller", Mode::Dynamic).voters(&CONTROLLERS[..1]);
    let plan = plan.class_archive(dir.path());
    let uses = async |end: fn(&NodeProcess)| {
        let mut one = ground.start(&plan);
        one.wait_ready().await;
        let uses = one.mapped().contains(archive);
        end(&one);
        (uses, one.wait_end().await)
    };
    assert_eq!(uses(NodeProcess::ask_to_stop).await, (true, 0));
    // The JVM itself sees that these are no classes of its own.
    let bytes = std::fs::read(archive).unwrap();
    std::fs::write(archive, vec![7; bytes.len()]).unwrap();
    assert_eq!(uses(NodeProcess::ask_to_stop).await, (false, 0));
    // It would crash on one that is cut short.
    std::fs::write(archive, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(uses(NodeProcess::ask_to_stop).await, (false, 0));
    // One on which a JVM crashed is not used again.
    std::fs::write(archive, &bytes).unwrap();
    assert_eq!(uses(NodeProcess::crash_jvm).await, (true, 134));
    assert_eq!(uses(NodeProcess::ask_to_stop).await, (false, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_runs_with_what_the_operator_tells_it() {
    for version in [None, Some(artifacts::KafkaVersion::oldest_supported())] {
        let ground = Ground::new(version).await;
        let place = node_properties::NodeFiles::new(&ground, 0);
        let (text, port) = place.server_config();
        let plan = Plan::new(0, "broker,controller", Mode::Dynamic).voters(&CONTROLLERS[..1]);
        let mut one = ground.start(&plan.server(text, port));
        one.wait_ready().await;
        place.is_as_it_was_told().await;
    }
}
