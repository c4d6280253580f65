//! A Kubernetes cluster with containers, which `cargo xtask e2e` has started, with the operator installed by Helm.
//!
//! Everything is reached with kubectl, and clients of Kafka are pods. The tests have the network of the machine on which
//! the control plane runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

use serde_json::Value;
use testkit::{Account, Report};

pub(crate) const CLUSTER: &str = "my-cluster";

/// Until something happens on a machine that does other things as well.
const PATIENCE: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(500);

/// Three controllers and three brokers, whose disks any node can attach.
const MANIFEST: &str = r#"
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: controller, labels: {strimzi.io/cluster: my-cluster}}
spec:
  replicas: 3
  roles: [controller]
  storage: {type: persistent-claim, size: 1Gi, class: network}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: broker, labels: {strimzi.io/cluster: my-cluster}, annotations: {strimzi.io/next-node-ids: '[10-19]'}}
spec:
  replicas: 3
  roles: [broker]
  storage: {type: jbod, volumes: [{id: 0, type: persistent-claim, size: 1Gi, class: network}]}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaRebalance
metadata: {name: template, annotations: {strimzi.io/rebalance-template: 'true'}}
spec: {replicationThrottle: 20000000}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: my-cluster}
spec:
  kafka:
    version: 4.3.1
    jvmOptions: {"-Xmx": "256m"}
    template:
      pod:
        # Of each role at most one on a machine, unless one of them is drained.
        topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector: {matchLabels: {strimzi.io/cluster: my-cluster}}
          matchLabelKeys: [strimzi.io/pool-name]
    listeners: [{name: plain, port: 9092, type: internal, tls: false}]
    config:
      default.replication.factor: 3
      min.insync.replicas: 2
      offsets.topic.replication.factor: 3
      offsets.topic.num.partitions: 6
      group.initial.rebalance.delay.ms: 0
  cruiseControl:
    autoRebalance:
    - {mode: add-brokers, template: {name: template}}
    - {mode: remove-brokers, template: {name: template}}
  entityOperator: {topicOperator: {}}
"#;

/// Every record of this topic is accounted for.
const TOPIC: &str = r#"
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata: {name: load, labels: {strimzi.io/cluster: my-cluster}}
spec: {partitions: 12, replicas: 3, config: {min.insync.replicas: "2"}}
"#;

/// A client that conforms to the profile `restricted`, on a node that no test drains.
const CLIENT: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: client}}
spec:
  restartPolicy: Never
  nodeSelector: {kubernetes.io/hostname: n1}
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  volumes: [{name: tmp, emptyDir: {}}]
  containers:
  - name: client
    image: IMAGE
    command: [sh, -c]
    args: ['SCRIPT']
    volumeMounts: [{name: tmp, mountPath: /tmp}]
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
"#;

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set; run make soak PART=e2e"))
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Waits until this holds.
#[track_caller]
pub(crate) fn wait_for(mut holds: impl FnMut() -> Result<(), String>) {
    let until = Instant::now() + PATIENCE;
    while let Err(why) = holds() {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {why}");
        sleep(POLL);
    }
}

/// The registry in the names of all images.
pub(crate) fn registry() -> String {
    variable("GREGOR_E2E_REGISTRY")
}

fn kubectl_command(words: &[&str]) -> Command {
    let dir = PathBuf::from(variable("GREGOR_E2E_DIR"));
    let mut command = Command::new(dir.join("bin/kubectl"));
    command.env("KUBECONFIG", dir.join("kube/admin.conf")).args(words);
    command
}

/// What kubectl prints, or why it failed.
pub(crate) fn try_kubectl(words: &[&str]) -> Result<String, String> {
    let output = kubectl_command(words).output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[track_caller]
pub(crate) fn kubectl(words: &[&str]) -> String {
    try_kubectl(words).unwrap_or_else(|error| panic!("kubectl {}: {error}", words.join(" ")))
}

/// Installs the operator, once.
pub(crate) fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(install_again);
}

/// Installs the operator with Helm, or upgrades it.
pub(crate) fn install_again() {
    let registry = format!("imageRegistry={}", registry());
    let chart = repository().join("deploy/helm/gregor").display().to_string();
    let words = ["upgrade", "--install", "gregor", &chart, "--create-namespace", "--wait", "--set"];
    helm(&[&words[..], &[&registry]].concat());
}

/// Removes the operator. The definitions of its resources stay, and so do the clusters.
pub(crate) fn uninstall() {
    helm(&["uninstall", "gregor", "--wait"]);
}

fn helm(words: &[&str]) {
    let dir = PathBuf::from(variable("GREGOR_E2E_DIR"));
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(variable("GREGOR_E2E_HELM"))
        .env("KUBECONFIG", dir.join("kube/admin.conf"))
        .env("HELM_CACHE_HOME", home.path().join("cache"))
        .env("HELM_CONFIG_HOME", home.path().join("config"))
        .env("HELM_DATA_HOME", home.path().join("data"))
        .args(words)
        .args(["--namespace", "gregor", "--timeout", "5m"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{errors}\n{}",
        kubectl(&["-n", "gregor", "get", "pods,events"])
    );
}

/// A namespace in which the API server enforces the Pod Security profile `restricted`. It is deleted on drop, unless
/// the test fails.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) namespace: String,
}

impl Place {
    pub(crate) fn new(namespace: &str) -> Self {
        install();
        let yaml = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}, labels: \
             {{pod-security.kubernetes.io/enforce: restricted}}}}\n"
        );
        apply(&yaml);
        let place = Self { namespace: namespace.to_owned() };
        let words = ["run", "ordinary", "--image=localhost/pause:e2e", "--restart=Never"];
        let why = place.try_kubectl(&words).expect_err("the profile is not enforced");
        assert!(why.contains("violates PodSecurity \"restricted:latest\""), "{why}");
        place
    }

    /// With a cluster that is Ready.
    pub(crate) fn with_cluster(namespace: &str) -> Self {
        let place = Self::new(namespace);
        place.apply(MANIFEST);
        place.ready();
        place.apply(TOPIC);
        place.kubectl(&["wait", "kafkatopic/load", "--for=condition=Ready", "--timeout=300s"]);
        place
    }

    pub(crate) fn try_kubectl(&self, words: &[&str]) -> Result<String, String> {
        let mut all = vec!["--namespace", &self.namespace];
        all.extend(words);
        try_kubectl(&all)
    }

    #[track_caller]
    pub(crate) fn kubectl(&self, words: &[&str]) -> String {
        self.try_kubectl(words)
            .unwrap_or_else(|error| panic!("kubectl {}: {error}", words.join(" ")))
    }

    pub(crate) fn apply(&self, yaml: &str) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), yaml).unwrap();
        self.kubectl(&["apply", "--filename", &file.path().display().to_string()]);
    }

    pub(crate) fn get(&self, words: &[&str]) -> Value {
        let mut all = vec!["get", "--output", "json"];
        all.extend(words);
        serde_json::from_str(&self.kubectl(&all)).unwrap()
    }

    /// Waits until the cluster matches its spec.
    #[track_caller]
    pub(crate) fn ready(&self) {
        wait_for(|| {
            let kafka = self.get(&["kafka", CLUSTER]);
            let seen = kafka["status"]["observedGeneration"] == kafka["metadata"]["generation"];
            let conditions = kafka["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let has = |kind: &str| {
                conditions.iter().any(|one| one["type"] == kind && one["status"] == "True")
            };
            match seen && has("Ready") && !has("Progressing") {
                true => Ok(()),
                false => Err(format!(
                    "{}\n{}",
                    kafka["status"],
                    self.kubectl(&["get", "pods", "-o", "wide"])
                )),
            }
        });
    }

    /// The pods of the cluster.
    pub(crate) fn pods(&self) -> Vec<Value> {
        let pods = self.get(&["pods", "--selector", "strimzi.io/cluster=my-cluster"]);
        pods["items"].as_array().unwrap().clone()
    }

    /// The uid of each pod of a pool, by name.
    pub(crate) fn uids(&self, pool: &str) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pods = self.pods();
        let own =
            pods.iter().filter(|pod| pod["metadata"]["labels"]["strimzi.io/pool-name"] == pool);
        own.map(|pod| (text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"]))).collect()
    }

    /// Starts a client and waits until it runs. `${BOOTSTRAP}` in its script are the brokers.
    fn client(&self, name: &str, script: &str) {
        let image =
            format!("{}/gregor-kafka:{}-kafka-4.3.1", registry(), env!("CARGO_PKG_VERSION"));
        let bootstrap = format!("my-cluster-kafka-bootstrap.{}.svc:9092", self.namespace);
        let script = script.replace("${BOOTSTRAP}", &bootstrap);
        self.apply(
            &CLIENT.replace("NAME", name).replace("IMAGE", &image).replace("SCRIPT", &script),
        );
        let until = ["wait", "--for=jsonpath={.status.phase}=Running", "--timeout=120s"];
        let pod = format!("pod/{name}");
        self.kubectl(&[&until[..], &[&pod]].concat());
    }

    /// The restarts of containers of the cluster.
    pub(crate) fn restarts(&self) -> BTreeMap<String, u64> {
        let count = |pod: &Value| {
            let statuses =
                pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
            statuses.iter().filter_map(|status| status["restartCount"].as_u64()).sum()
        };
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.pods().iter().map(|pod| (name(pod), count(pod))).collect()
    }

    /// No container of the cluster failed, and the operator has logged nothing worse than information.
    pub(crate) fn nothing_failed(&self) {
        let restarts = self.restarts();
        assert!(restarts.values().all(|count| *count == 0), "{restarts:?}");
        let log = kubectl(&["-n", "gregor", "logs", "deployment/gregor-operator", "--tail=-1"]);
        let bad = log.lines().filter(|line| line.contains(" ERROR ") || line.contains(" WARN "));
        let bad: Vec<_> = bad.collect();
        assert!(bad.is_empty(), "{}", bad.join("\n"));
    }

    /// Deletes everything; the next test has room.
    pub(crate) fn end(self) {
        kubectl(&["delete", "namespace", &self.namespace, "--timeout=300s"]);
    }
}

fn apply(yaml: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), yaml).unwrap();
    kubectl(&["apply", "--filename", &file.path().display().to_string()]);
}

/// A producer with `acks=all` and a consumer, as pods.
pub(crate) struct Load<'a> {
    place: &'a Place,
}

impl<'a> Load<'a> {
    pub(crate) fn start(place: &'a Place) -> Self {
        let java = "exec /opt/java/bin/java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
                    -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.properties -Dgregor.log.level=WARN \
                    -cp \"/opt/kafka/libs/*\" org.apache.kafka.tools";
        let topic = "--bootstrap-server ${BOOTSTRAP} --topic load";
        place.client(
            "consumer",
            &format!(
                "printf \"metadata.max.age.ms=5000\\nisolation.level=read_committed\\n\" > /tmp/p; \
                 {java}.VerifiableConsumer {topic} --group-id load --reset-policy earliest --verbose --consumer.config /tmp/p"
            ),
        );
        place.client(
            "producer",
            &format!(
                "printf \"acks=all\\nenable.idempotence=true\\nretries=2147483647\\ndelivery.timeout.ms=120000\\n\
                 request.timeout.ms=15000\\nlinger.ms=5\\n\" > /tmp/p; \
                 {java}.VerifiableProducer {topic} --acks -1 --throughput 50 --producer.config /tmp/p"
            ),
        );
        let load = Self { place };
        load.more(50);
        load
    }

    fn account(&self) -> Account {
        let mut account = Account::default();
        for pod in ["producer", "consumer"] {
            self.place.kubectl(&["logs", pod]).lines().for_each(|line| account.take(line));
        }
        account
    }

    /// Waits until so many more records are acknowledged and read.
    #[track_caller]
    pub(crate) fn more(&self, records: usize) {
        let wanted = self.account().report().acknowledged + records;
        wait_for(|| {
            let report = self.account().report();
            let phase = self.place.kubectl(&["get", "pods", "--selector", "app=client"]);
            match report.acknowledged >= wanted && report.read >= wanted {
                true => Ok(()),
                false => Err(format!("{wanted} records: {report:?}\n{phase}{}", self.tails())),
            }
        });
    }

    fn tails(&self) -> String {
        let tail = |pod: &&str| self.place.kubectl(&["logs", pod, "--tail=5"]);
        ["producer", "consumer"].iter().map(tail).collect()
    }

    /// Stops the producer, waits until every acknowledged record is read, and checks that each is there once.
    #[track_caller]
    pub(crate) fn stop(self) -> Report {
        self.place.kubectl(&["exec", "producer", "--", "sh", "-c", "kill -TERM 1"]);
        // Java ends with an error when it is asked to stop.
        wait_for(|| {
            let pod = self.place.get(&["pod", "producer"]);
            let phase = pod["status"]["phase"].as_str().unwrap_or_default();
            if ["Succeeded", "Failed"].contains(&phase) { Ok(()) } else { Err(pod.to_string()) }
        });
        wait_for(|| {
            let report = self.account().report();
            if report.lost.is_empty() { Ok(()) } else { Err(format!("{report:?}")) }
        });
        sleep(Duration::from_secs(2));
        let report = self.account().report();
        report.check().unwrap();
        println!("{report:?}");
        self.place.kubectl(&["delete", "pod", "producer", "consumer"]);
        report
    }
}
