//! A program that was written for Strimzi, against Gregor: its users change nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "clients/strimzi.rs"]
mod strimzi;
mod up;

use strimzi::StrimziClient;
use up::World;

#[test]
fn strimzis_own_library_creates_a_cluster_reads_its_status_and_deletes_it() {
    let world = World::with_operator();
    let classes = world.temp().join("classes");
    let client = StrimziClient::build(&classes);
    world.gregor(&["up", "--detach"]).ok();
    let lines = client.run(&world.state().join("kubeconfig"), "java");
    let value = |key: &str| {
        let line = lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {key} in {lines:#?}"))
    };
    assert_eq!(value("created"), "java/from-java");
    // As Kafka writes ids.
    assert_eq!(value("clusterId").len(), 22);
    assert_eq!(value("kafkaVersion"), artifacts::KafkaVersion::default_version().to_string());
    assert_eq!(value("pool"), "dual");
    assert_eq!(value("listener plain"), "from-java-kafka-bootstrap.java.svc:9092");
    assert_eq!(value("listener tls"), "from-java-kafka-bootstrap.java.svc:9093");
    assert_eq!(value("certificates tls"), "1");
    assert_eq!(lines.last().unwrap(), "gone");
    world.gregor(&["down", "--purge"]).ok();
}
