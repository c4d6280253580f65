//! The states that take minutes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kafka_admin::{ClientOptions, ThrottleValues};
use model::NodeId;
use rustix::process::Signal;
use tokio::runtime::Runtime;

use super::{CLUSTER, Watched};
use crate::kafka::wait_for;
use crate::up;

/// Ends a thread when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Watched<'_> {
    /// A partition with four replicas on brokers of which three shall remain.
    pub(crate) fn a_drain_that_cannot_proceed_is_seen(&self) {
        const ALERT: &str = "GregorDrainWithoutProgress";
        let topic = format!(
            "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\n\
             metadata: {{name: wide, labels: {{strimzi.io/cluster: {CLUSTER}}}}}\n\
             spec: {{partitions: 1, replicas: 4}}\n"
        );
        let file = self.place.ground.world.file("wide.yaml", &topic);
        self.place.kubectl(&["apply", "-f", &file]);
        self.place.kubectl(&["wait", "--for=condition=Ready", "--timeout=300s", "kafkatopic/wide"]);
        self.is_quiet(ALERT);
        self.scale("broker", 3);
        self.fires_for_cluster(ALERT);
        self.scale("broker", 4);
        self.is_resolved(ALERT);
        self.place.ready(CLUSTER);
        self.place.kubectl(&["delete", "kafkatopic", "wide"]);
    }

    /// Another tool sets the throttle of a broker anew whenever Gregor has reverted it.
    pub(crate) fn a_throttle_that_comes_back_is_seen(&self) {
        const ALERT: &str = "GregorThrottleLeft";
        self.is_quiet(ALERT);
        let request = format!(
            "apiVersion: kafka.strimzi.io/v1\nkind: KafkaRebalance\n\
             metadata: {{name: mine, labels: {{strimzi.io/cluster: {CLUSTER}}}, \
             annotations: {{strimzi.io/rebalance-auto-approval: 'true'}}}}\n\
             spec: {{mode: remove-brokers, brokers: [3], replicationThrottle: 1000000}}\n"
        );
        let file = self.place.ground.world.file("mine.yaml", &request);
        self.place.kubectl(&["apply", "-f", &file]);
        // Until then the other value would be one that Gregor restores.
        let throttled = format!(
            "gregor_moves_throttled_objects{{namespace=\"watched\",cluster=\"{CLUSTER}\"}} "
        );
        let begun = std::time::Instant::now();
        let is_set = || {
            let served = self.served();
            let line =
                served.lines().find_map(|line| line.strip_prefix(&throttled)).map(str::to_owned);
            line.is_some_and(|value| value.parse::<f64>().unwrap() > 0.0)
        };
        while !is_set() {
            assert!(begun.elapsed() < crate::kafka::READY, "no throttle was set");
            std::thread::sleep(Duration::from_millis(20));
        }
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Also if the alert does not fire.
            let _end = End(&is_over);
            scope.spawn(|| self.keep_throttling(&is_over));
            self.fires_for_cluster(ALERT);
        });
        self.is_resolved(ALERT);
        let runtime = Runtime::new().unwrap();
        let admin = self.place.admin(CLUSTER, ClientOptions::default());
        let left = runtime.block_on(admin.broker_throttle(NodeId::new(0).unwrap())).unwrap();
        assert_eq!(left, ThrottleValues::default(), "Gregor has reverted it in the end");
        self.place.kubectl(&["delete", "kafkarebalance", "mine"]);
    }

    fn keep_throttling(&self, is_over: &AtomicBool) {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let admin = self.place.admin(CLUSTER, ClientOptions::default());
            let rate = Some("7654321".to_owned());
            let values = ThrottleValues { leader: rate.clone(), follower: rate };
            while !is_over.load(Ordering::Relaxed) {
                // A broker that is busy is asked again.
                let _ = admin.set_broker_throttle(NodeId::new(0).unwrap(), &values).await;
            }
        });
    }

    /// A pod is deleted for a restart, and no machine takes the new one.
    pub(crate) fn a_stuck_roll_is_seen(&self) {
        const ALERT: &str = "GregorRollStuck";
        self.is_quiet(ALERT);
        self.cordon(true);
        let restart = "strimzi.io/manual-rolling-update=true";
        self.place.kubectl(&["annotate", "strimzipodset", "my-cluster-broker", restart]);
        self.fires_for_cluster(ALERT);
        self.cordon(false);
        self.is_resolved(ALERT);
        self.shows(r#"gregor_roll_state{state="Settled"} == 1"#);
        self.place.ready(CLUSTER);
    }

    fn cordon(&self, closed: bool) {
        let machines = self.place.ground.kubectl(&["get", "nodes", "-o", "name"]);
        let verb = if closed { "cordon" } else { "uncordon" };
        for machine in machines.lines() {
            self.place.ground.kubectl(&[verb, machine.trim_start_matches("node/")]);
        }
    }

    /// One controller becomes three, and one of them does not follow any more.
    pub(crate) fn a_quorum_at_risk_is_seen(&self) {
        const ALERT: &str = "GregorQuorumAtRisk";
        self.scale("controller", 3);
        self.shows("sum(gregor_quorum_voters{state=\"caught_up\"}) == 3");
        self.place.ready(CLUSTER);
        self.is_quiet(ALERT);
        let leader = self.prometheus.now("gregor_quorum_leader_node")[0];
        let pods = self.place.pods_of_pool(CLUSTER, "controller");
        let is_other = |pod: &&String| !pod.ends_with(&format!("-{leader}"));
        let jvm = self.place.java(pods.keys().find(is_other).unwrap());
        up::signal(jvm, Signal::STOP);
        self.fires_for_cluster(ALERT);
        up::resume(jvm);
        self.is_resolved(ALERT);
        wait_for(|| match self.prometheus.now("gregor_quorum_failures_tolerated").as_slice() {
            [tolerated] if *tolerated >= 1.0 => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
}
