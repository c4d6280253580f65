//! A cluster that a real Prometheus watches, and what happens to it so that each alert fires and is resolved.

#![allow(dead_code, reason = "the part of `make soak` uses all of it")]

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::kafka::{Ground, Place, wait_for, wait_for_mut};
use crate::prometheus::collector::Collector;
use crate::prometheus::{Discovery, Prometheus, quick_rules, scrape_configs};

pub(crate) const CLUSTER: &str = "my-cluster";
pub(crate) const NAMESPACE: &str = "watched";

/// One controller and three brokers with all that has metrics. The certificates end within two weeks.
const MANIFEST: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: kafka-metrics}
data:
  rules.yml: |
    includeObjectNames: ["kafka.server:type=ReplicaManager,*"]
    lowercaseOutputName: true
    rules:
      - pattern: kafka.server<type=ReplicaManager, name=(.+)><>Value
        name: kafka_server_replicamanager_$1
        type: GAUGE
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: controller, labels: {strimzi.io/cluster: my-cluster}, annotations: {strimzi.io/next-node-ids: '[10-19]'}}
spec: {replicas: 1, roles: [controller], storage: {type: persistent-claim, size: 1Gi, deleteClaim: true}}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: broker, labels: {strimzi.io/cluster: my-cluster}, annotations: {strimzi.io/next-node-ids: '[0-9]'}}
spec: {replicas: 3, roles: [broker], storage: {type: persistent-claim, size: 1Gi, deleteClaim: true}}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaRebalance
metadata: {name: template, annotations: {strimzi.io/rebalance-template: 'true'}}
spec: {replicationThrottle: 1000000}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata: {name: bulk, labels: {strimzi.io/cluster: my-cluster}}
spec: {partitions: 12, replicas: 3}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata: {name: alice, labels: {strimzi.io/cluster: my-cluster}}
spec: {authentication: {type: tls}}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata:
  name: my-cluster
spec:
  kafka:
    listeners:
      - {name: plain, port: 9092, type: internal, tls: false}
    metricsConfig:
      type: jmxPrometheusExporter
      valueFrom: {configMapKeyRef: {name: kafka-metrics, key: rules.yml}}
    config:
      default.replication.factor: 3
      min.insync.replicas: 2
      offsets.topic.replication.factor: 3
      offsets.topic.num.partitions: 3
  clusterCa: {validityDays: 10, renewalDays: 5}
  kafkaExporter: {}
  entityOperator: {topicOperator: {}, userOperator: {}}
  cruiseControl:
    autoRebalance:
      - {mode: add-brokers, template: {name: template}}
      - {mode: remove-brokers, template: {name: template}}
"#;

/// Records of 100 bytes: what moves copy takes some passes.
const RECORDS: u32 = 50_000;

/// The cluster, and the Prometheus that watches it.
pub(crate) struct Watched<'a> {
    pub(crate) prometheus: Prometheus,
    pub(crate) place: Place<'a>,
    _discovery: Discovery,
    _temp: tempfile::TempDir,
}

impl<'a> Watched<'a> {
    /// Starts both, and lets the operator send traces to the collector.
    pub(crate) fn start(ground: &'a Ground, collector: &Collector) -> Self {
        let traces = format!("OTEL_EXPORTER_OTLP_ENDPOINT={}", collector.url());
        ground.kubectl(&[
            "-n",
            "gregor",
            "set",
            "env",
            "deployment/gregor-operator",
            &traces,
            "GREGOR_LOG_FORMAT=json",
        ]);
        ground.kubectl(&["-n", "gregor", "rollout", "status", "deployment/gregor-operator"]);
        let temp = tempfile::tempdir().unwrap();
        let targets = temp.path().join("targets.json");
        let kubeconfig = ground.world.state().join("kubeconfig");
        let discovery = Discovery::start(kubeconfig, targets.clone());
        let prometheus = Prometheus::start(temp.path(), &scrape_configs(&targets), &quick_rules());
        let place = ground.namespace(NAMESPACE);
        let watched = Self { prometheus, place, _discovery: discovery, _temp: temp };
        watched.place.apply(MANIFEST);
        watched.place.ready(CLUSTER);
        wait_for(|| {
            let topic = watched.place.get("kafkatopic", "bulk");
            let ready = topic["status"]["conditions"][0]["type"] == "Ready";
            if ready { Ok(()) } else { Err(topic["status"].to_string()) }
        });
        let bootstrap = watched.place.bootstrap(CLUSTER, "plain");
        watched.place.produce(&bootstrap, "bulk", "", RECORDS);
        watched
    }

    /// Waits until an alert fires, and returns the labels of each series of it.
    fn fires(&self, alert: &str) -> Vec<Value> {
        let mut found = Vec::new();
        wait_for_mut(|| {
            found = self.prometheus.firing(alert);
            if found.is_empty() { Err(format!("{alert} does not fire")) } else { Ok(()) }
        });
        println!("{alert} fires: {}", json!(found));
        found
    }

    /// Waits until an alert fires for the cluster.
    fn fires_for_cluster(&self, alert: &str) -> Value {
        let found = self.fires(alert);
        let is_it = |one: &&Value| one["namespace"] == NAMESPACE && one["cluster"] == CLUSTER;
        found.iter().find(is_it).unwrap_or_else(|| panic!("{found:?}")).clone()
    }

    /// Waits until an alert does not fire any more.
    fn is_resolved(&self, alert: &str) {
        wait_for(|| {
            let found = self.prometheus.firing(alert);
            if found.is_empty() { Ok(()) } else { Err(format!("{alert} fires: {found:?}")) }
        });
        println!("{alert} is resolved");
    }

    fn is_quiet(&self, alert: &str) {
        assert_eq!(self.prometheus.firing(alert), Vec::<Value>::new(), "{alert}");
    }

    /// Waits until a query has a result.
    fn shows(&self, query: &str) {
        wait_for(|| {
            let found = self.prometheus.now(query);
            if found.is_empty() { Err(format!("no data: {query}")) } else { Ok(()) }
        });
    }

    fn patch(&self, kind: &str, name: &str, patch: &Value) {
        let patch = patch.to_string();
        self.place.kubectl(&["patch", kind, name, "--type", "merge", "-p", &patch]);
    }

    fn scale(&self, pool: &str, replicas: u32) {
        self.patch("kafkanodepool", pool, &json!({ "spec": { "replicas": replicas } }));
    }

    /// Certificates that end within two weeks are replaced by longer ones on request, and all nodes are restarted.
    pub(crate) fn resolved_after_a_renewal_of_certificates(&self) {
        const ALERT: &str = "GregorCertificateNearEnd";
        let labels = self.fires(ALERT);
        let types = ["cluster-ca", "nodes", "operator"];
        for name in types {
            assert!(labels.iter().any(|one| one["type"] == name), "{name}: {labels:?}");
        }
        assert!(!labels.iter().any(|one| one["type"] == "client-ca"), "{labels:?}");
        let longer = json!({ "spec": { "clusterCa": { "validityDays": 365, "renewalDays": 30 } } });
        self.patch("kafka", CLUSTER, &longer);
        let renew = "strimzi.io/force-renew=true";
        self.place.kubectl(&["annotate", "secret", "my-cluster-cluster-ca-cert", renew]);
        self.is_resolved(ALERT);
        self.shows(r#"gregor_operation_duration_seconds{operation="roll"}"#);
        self.shows(r#"gregor_roll_state{state="Settled"} == 1"#);
        self.place.ready(CLUSTER);
    }

    /// A broker more, to which replicas are moved with a throttle.
    pub(crate) fn a_new_broker_is_filled(&self) {
        self.scale("broker", 4);
        self.shows(r#"gregor_moves_phase{phase="Ended"} == 1"#);
        self.place.ready(CLUSTER);
        self.is_quiet("GregorThrottleLeft");
    }

    /// The operator is gone, and comes back.
    pub(crate) fn no_leader_is_seen(&self) {
        const ALERT: &str = "GregorOperatorWithoutLeader";
        self.is_quiet(ALERT);
        let scale = |replicas: &str| {
            let replicas = format!("--replicas={replicas}");
            let words = ["-n", "gregor", "scale", "deployment/gregor-operator", &replicas];
            self.place.ground.kubectl(&words);
        };
        scale("0");
        self.fires(ALERT);
        scale("1");
        self.is_resolved(ALERT);
    }

    /// What the operator serves at this moment: Prometheus sees it up to a second later.
    fn served(&self) -> String {
        let pods = self.place.ground.kubectl(&[
            "-n",
            "gregor",
            "get",
            "pods",
            "-o",
            "jsonpath={.items[*].status.podIP}",
        ]);
        let address: SocketAddr = format!("{}:8080", pods.trim()).parse().unwrap();
        crate::prometheus::get(address, "/metrics").unwrap()
    }
}

#[cfg(feature = "soak")]
mod soak;
