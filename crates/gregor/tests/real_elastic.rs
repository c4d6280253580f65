//! Nodes that come and go: brokers and controllers are added and taken away while a cluster serves, and what
//! would lose data or the quorum is not done.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod up;

use std::fs;
use std::path::Path;

use kafka::{Ground, Place, wait_for};
use serde_json::Value;

const CLUSTER: &str = "my-cluster";

struct Elastic<'a> {
    place: Place<'a>,
}

impl Elastic<'_> {
    fn scale(&self, pool: &str, replicas: u32) {
        let replicas = format!("--replicas={replicas}");
        self.place.kubectl(&["scale", "kafkanodepool", pool, &replicas]);
    }

    fn pods(&self, pool: &str) -> Vec<String> {
        let prefix = format!("{CLUSTER}-{pool}-");
        self.place.names("pods").into_iter().filter(|pod| pod.starts_with(&prefix)).collect()
    }

    /// Waits until a pool has so many pods and the cluster is as it was asked for.
    fn has(&self, pool: &str, count: usize) -> Value {
        wait_for(|| {
            let pods = self.pods(pool);
            let kafka = self.place.get("kafka", CLUSTER);
            let told = kafka["status"]["conditions"].to_string();
            if pods.len() == count { Ok(()) } else { Err(format!("{pods:?}: {told}")) }
        });
        self.place.ready(CLUSTER)
    }

    fn voters(&self) -> Vec<u64> {
        let kafka = self.place.get("kafka", CLUSTER);
        let voters = kafka["status"]["controllers"].as_array().unwrap().clone();
        voters.iter().map(|voter| voter["id"].as_u64().unwrap()).collect()
    }

    fn votes(&self, expected: &[u64]) {
        wait_for(|| {
            let voters = self.voters();
            if voters == expected { Ok(()) } else { Err(format!("{voters:?}")) }
        });
    }

    fn warning(&self, reason: &str) -> Option<String> {
        let kafka = self.place.get("kafka", CLUSTER);
        let all = kafka["status"]["conditions"].as_array().unwrap().clone();
        let found = all.iter().find(|one| one["reason"] == reason)?;
        Some(found["message"].as_str().unwrap().to_owned())
    }

    fn writes_and_reads(&self, topic: &str) {
        let bootstrap = self.place.bootstrap(CLUSTER, "plain");
        self.place.produce_and_consume(&bootstrap, topic, "", 1000);
    }
}

#[test]
fn brokers_and_controllers_come_and_go_and_data_stays() {
    let ground = Ground::start(&["--nodes", "3"]);
    let place = ground.namespace("elastic");
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kafka-persistent.yaml");
    place.apply(&fs::read_to_string(example).unwrap());
    place.ready(CLUSTER);
    let elastic = Elastic { place };
    elastic.writes_and_reads("first");
    controllers_grow_and_shrink(&elastic);
    an_empty_broker_goes(&elastic);
    a_broker_with_data_stays(&elastic);
    elastic.writes_and_reads("last");
    ground.assert_operator_is_content();
}

fn controllers_grow_and_shrink(elastic: &Elastic<'_>) {
    elastic.votes(&[3, 4, 5]);
    elastic.scale("controller", 5);
    elastic.has("controller", 5);
    elastic.votes(&[3, 4, 5, 6, 7]);
    elastic.writes_and_reads("five");
    elastic.scale("controller", 3);
    elastic.has("controller", 3);
    elastic.votes(&[3, 4, 5]);
    elastic.writes_and_reads("three");
}

fn an_empty_broker_goes(elastic: &Elastic<'_>) {
    elastic.scale("broker", 4);
    elastic.has("broker", 4);
    assert_eq!(elastic.pods("broker").last().unwrap(), "my-cluster-broker-6");
    elastic.scale("broker", 3);
    elastic.has("broker", 3);
    let pool = elastic.place.get("knp", "broker");
    assert_eq!(pool["status"]["nodeIds"], serde_json::json!([0, 1, 2]));
    // Nothing that belonged to it is left, but its claim, which was to be kept.
    let left = elastic.place.names("configmaps,secrets,pods");
    assert!(!left.iter().any(|name| name.ends_with("-broker-6")), "{left:?}");
    let claims = elastic.place.names("pvc");
    assert!(claims.contains(&"data-0-my-cluster-broker-6".to_owned()), "{claims:?}");
}

fn a_broker_with_data_stays(elastic: &Elastic<'_>) {
    elastic.scale("broker", 4);
    elastic.has("broker", 4);
    let bootstrap = elastic.place.bootstrap(CLUSTER, "plain");
    let words = ["--bootstrap-server", &bootstrap, "--create", "--topic", "held"];
    let words = [&words[..], &["--replica-assignment", "6:0:1"]].concat();
    elastic.place.ground.tool("org.apache.kafka.tools.TopicCommand", &words).unwrap();
    elastic.scale("broker", 3);
    wait_for(|| elastic.warning("ScaleDownPreventionCheck").map(|_| ()).ok_or("no warning".into()));
    let message = elastic.warning("ScaleDownPreventionCheck").unwrap();
    assert!(message.contains("broker 6") && message.contains("1 partition"), "{message}");
    assert_eq!(elastic.pods("broker").len(), 4);
    elastic.writes_and_reads("held");
    // Taken back: the broker is open again, and nothing is left of the attempt.
    elastic.scale("broker", 4);
    wait_for(|| match elastic.warning("ScaleDownPreventionCheck") {
        None => Ok(()),
        Some(message) => Err(message),
    });
    elastic.has("broker", 4);
    // Without its data it goes.
    let words = ["--bootstrap-server", &bootstrap, "--delete", "--topic", "held"];
    elastic.place.ground.tool("org.apache.kafka.tools.TopicCommand", &words).unwrap();
    elastic.scale("broker", 3);
    elastic.has("broker", 3);
}
