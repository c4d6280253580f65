//! Users as resources on a real cluster: users of every kind log in and may do what their rules allow, also while the
//! clients CA is renewed; bad resources are told and harm no other; what was not created for a resource stays.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod up;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kafka::{Ground, Place, wait_for, wait_for_mut};
use kafka_admin::{
    Acl, AclFilter, AclOperation, AclPattern, AclPermission, AclResource, Admin, Bootstrap,
    ClientOptions, Credentials, NewTopic, OffsetAt, Secret, Tls,
};
use model::{TopicName, TopicPartition};
use rcgen::{CertificateParams, DnType, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

const CLUSTER: &str = "c";
const ENTITY_OPERATOR: &str = "c-entity-operator";

/// The user `root` is the test itself.
const MANIFEST: &str = r#"
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata:
  name: node
  labels: {strimzi.io/cluster: c}
spec:
  replicas: 1
  roles: [controller, broker]
  storage: {type: persistent-claim, size: 1Gi, deleteClaim: true}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata:
  name: c
spec:
  kafka:
    authorization: {type: simple, superUsers: [CN=root]}
    listeners:
      - {name: tls, port: 9093, type: internal, tls: true, authentication: {type: tls}}
      - {name: scram, port: 9094, type: internal, tls: false, authentication: {type: scram-sha-512}}
    config:
      default.replication.factor: 1
      min.insync.replicas: 1
      offsets.topic.replication.factor: 1
  entityOperator:
    userOperator: {reconciliationIntervalMs: 5000}
"#;

struct Scene<'a> {
    place: Place<'a>,
    runtime: Runtime,
}

/// What Kafka has of a user.
#[derive(Debug, Clone, Default, PartialEq)]
struct Shown {
    rules: usize,
    quotas: BTreeMap<String, f64>,
    has_password: bool,
}

impl Scene<'_> {
    fn apply(&self, items: &[Value]) {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        let file = self.place.ground.world.file("users.json", &list.to_string());
        self.place.kubectl(&["apply", "-f", &file]);
    }

    fn patch(&self, kind: &str, name: &str, patch: &Value) {
        self.place.kubectl(&["patch", kind, name, "--type=merge", "-p", &patch.to_string()]);
    }

    fn delete(&self, name: &str) {
        self.place.kubectl(&["delete", "kafkauser", name, "--timeout=60s"]);
    }

    /// Waits until the resource is ready in its present generation.
    fn ready(&self, name: &str) -> Value {
        let mut found = Value::Null;
        wait_for_mut(|| {
            found = self.place.get("kafkauser", name);
            let status = &found["status"];
            let is_done = status["observedGeneration"] == found["metadata"]["generation"];
            let is_ready = status["conditions"][0]["type"] == "Ready";
            if is_done && is_ready { Ok(()) } else { Err(format!("{name}: {status}")) }
        });
        found
    }

    /// Waits until a condition of the resource has this reason, and returns its message.
    fn said(&self, name: &str, reason: &str) -> String {
        let mut message = String::new();
        wait_for_mut(|| {
            let status = &self.place.get("kafkauser", name)["status"];
            let all = status["conditions"].as_array().cloned().unwrap_or_default();
            let found = all.iter().find(|one| one["reason"] == reason);
            message = found.map(|one| one["message"].to_string()).ok_or(status.to_string())?;
            Ok(())
        });
        message
    }

    fn entry(&self, secret: &str, entry: &str) -> String {
        String::from_utf8(self.place.secret(secret, entry)).unwrap()
    }

    fn admin(&self, listener: &str, tls: Option<Tls>, credentials: Option<Credentials>) -> Admin {
        let servers = self.place.bootstrap(CLUSTER, listener);
        let servers = servers.split(',').map(|server| server.parse().unwrap()).collect();
        let options = ClientOptions {
            tls,
            credentials,
            names: Arc::new(self.place.names_of_hosts()),
            call_timeout: Duration::from_secs(20),
            ..ClientOptions::default()
        };
        Admin::new(Bootstrap::Brokers(servers), options).unwrap()
    }

    fn trust(&self) -> Vec<u8> {
        self.place.secret("c-cluster-ca-cert", "ca.crt")
    }

    /// A client with a certificate.
    fn with_certificate(&self, certificate: &str, key: &str) -> Admin {
        let identity = (certificate.as_bytes(), key.as_bytes());
        self.admin("tls", Some(Tls::new(&self.trust(), Some(identity)).unwrap()), None)
    }

    /// A client with the certificate in the Secret of a user.
    fn with_secret(&self, name: &str) -> Admin {
        self.with_certificate(&self.entry(name, "user.crt"), &self.entry(name, "user.key"))
    }

    fn with_password(&self, username: &str, password: &str) -> Admin {
        let (username, password) = (username.to_owned(), Secret::new(password));
        self.admin("scram", None, Some(Credentials::ScramSha512 { username, password }))
    }

    fn sees(&self, admin: &Admin) -> Result<Vec<String>, String> {
        self.runtime.block_on(sees(admin))
    }

    fn eventually_sees(&self, client: impl Fn() -> Admin, expected: &[&str]) {
        wait_for(|| match self.sees(&client()) {
            Ok(seen) if seen == expected => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }

    /// What Kafka has of a user.
    fn shown(&self, name: &str) -> Shown {
        let admin = self.with_secret("root");
        let principal = Some(format!("User:{name}"));
        self.runtime.block_on(async {
            let filter = AclFilter { principal, ..AclFilter::default() };
            let quotas = admin.describe_user_quotas().await.unwrap();
            let scram = admin.describe_scram_users().await.unwrap();
            Shown {
                rules: admin.describe_acls(&filter).await.unwrap().len(),
                quotas: quotas.get(name).cloned().unwrap_or_default(),
                has_password: scram.iter().any(|user| user.name == name),
            }
        })
    }

    fn becomes(&self, name: &str, expected: &Shown) {
        wait_for(|| {
            let shown = self.shown(name);
            if shown == *expected { Ok(()) } else { Err(format!("{name}: {shown:?}")) }
        });
    }

    fn has_no(&self, kind: &str, name: &str) {
        wait_for(|| {
            let names = self.place.names(kind);
            if names.iter().any(|one| one == name) { Err(format!("{names:?}")) } else { Ok(()) }
        });
    }

    /// How many records a topic has.
    fn records(&self, topic: &str) -> u64 {
        let partition = TopicPartition::new(TopicName::new(topic).unwrap(), 0);
        let admin = self.with_secret("root");
        let all = BTreeSet::from([partition.clone()]);
        let found = self.runtime.block_on(admin.list_offsets(&all, OffsetAt::Latest)).unwrap();
        found[&partition].clone().unwrap().unwrap()
    }

    fn produce(&self, user: &str, topic: &str, more: &[&str]) -> Result<String, String> {
        let login = self.entry(user, "sasl.jaas.config");
        let properties = format!(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={login}\n\
             max.block.ms=20000\n"
        );
        let file = self.place.ground.world.file(&format!("{user}.properties"), &properties);
        let servers = self.place.bootstrap(CLUSTER, "scram");
        let words = [
            ["--topic", topic],
            ["--num-records", "60"],
            ["--record-size", "1000"],
            ["--throughput", "-1"],
            ["--bootstrap-server", &servers],
            ["--command-config", &file],
        ];
        let words = [words.as_flattened(), more].concat();
        self.place.ground.tool("org.apache.kafka.tools.ProducerPerformance", &words)
    }
}

/// Which of the two topics a client may describe.
async fn sees(admin: &Admin) -> Result<Vec<String>, String> {
    let names = ["orders", "other"].map(|name| TopicName::new(name).unwrap());
    // Moves in flight are shown only to those who may describe the cluster.
    let mut pages = admin.topic_pages(&names).without_moves();
    let page = pages.next().await.map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
    let page = page.ok_or("no page")?;
    Ok(page.topics.into_iter().map(|topic| topic.name.as_str().to_owned()).collect())
}

/// A client that asks for the topics all the time, until it is stopped.
struct Client {
    is_over: Arc<AtomicBool>,
    task: JoinHandle<(usize, Vec<String>)>,
}

impl Client {
    fn start(runtime: &Runtime, admin: Admin) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&is_over);
        let task = runtime.spawn(async move {
            let (mut served, mut failures) = (0, Vec::new());
            while !shared.load(Ordering::Relaxed) {
                match sees(&admin).await {
                    Ok(seen) if seen == ["orders"] => served += 1,
                    other => failures.push(format!("{other:?}")),
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            (served, failures)
        });
        Self { is_over, task }
    }

    /// How often it was served; it was never refused.
    fn stop(self, runtime: &Runtime) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        let (served, failures) = runtime.block_on(self.task).unwrap();
        assert!(failures.is_empty(), "{failures:?}");
        served
    }
}

fn user(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaUser",
        "metadata": { "name": name, "labels": { "strimzi.io/cluster": CLUSTER } },
        "spec": spec,
    })
}

/// A user who may read and write one topic.
fn of_orders(name: &str, authentication: Value) -> Value {
    let rule = json!({
        "resource": { "type": "topic", "name": "orders" },
        "operations": ["Read", "Write", "Describe"],
    });
    let authorization = json!({ "type": "simple", "acls": [rule] });
    user(name, json!({ "authentication": authentication, "authorization": authorization }))
}

fn of_strimzi(version: &str, kind: &str, name: &str, rest: Value) -> Value {
    let labels = json!({
        "strimzi.io/cluster": CLUSTER, "strimzi.io/name": ENTITY_OPERATOR,
        "app.kubernetes.io/managed-by": "strimzi-cluster-operator",
    });
    let metadata = json!({ "name": name, "labels": labels });
    let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": metadata });
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

/// What Strimzi leaves behind. Without replicas, since there is nothing to run.
fn entity_operator() -> Vec<Value> {
    let selector = json!({ "matchLabels": { "strimzi.io/name": ENTITY_OPERATOR } });
    let pod = json!({
        "metadata": { "labels": { "strimzi.io/name": ENTITY_OPERATOR } },
        "spec": { "containers": [{ "name": "user-operator", "image": "x" }] },
    });
    let deployment = json!({ "replicas": 0, "selector": selector, "template": pod });
    let name = ENTITY_OPERATOR;
    let binding = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name });
    let (rbac, none) = ("rbac.authorization.k8s.io/v1", json!({}));
    vec![
        of_strimzi("apps/v1", "Deployment", name, json!({ "spec": deployment })),
        of_strimzi("v1", "ServiceAccount", name, none.clone()),
        of_strimzi(rbac, "Role", name, none.clone()),
        of_strimzi(
            rbac,
            "RoleBinding",
            "c-entity-user-operator-role",
            json!({ "roleRef": binding }),
        ),
        of_strimzi("v1", "ConfigMap", "c-entity-user-operator-config", none.clone()),
        of_strimzi("v1", "Secret", "c-entity-user-operator-certs", none),
        of_strimzi(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            name,
            json!({ "spec": { "podSelector": selector } }),
        ),
        of_strimzi(
            "policy/v1",
            "PodDisruptionBudget",
            name,
            json!({ "spec": { "selector": selector } }),
        ),
    ]
}

#[test]
fn users_follow_their_resources() {
    let ground = Ground::mortal(&["--nodes", "1"]);
    let place = ground.namespace("users");
    let scene = Scene { place, runtime: Runtime::new().unwrap() };
    scene.place.apply(MANIFEST);
    scene.apply(&entity_operator());
    // Resources that are there before their cluster wait for it.
    scene.apply(&[user("root", json!({ "authentication": { "type": "tls" } }))]);
    scene.place.ready(CLUSTER);
    scene.ready("root");
    topics_are_there(&scene);
    the_entity_operator_of_strimzi_is_replaced(&scene);
    users_of_every_kind_do_what_they_may(&scene);
    a_quota_slows_a_producer(&scene);
    bad_resources_are_told_and_harm_no_other(&scene);
    users_without_a_resource_stay_and_are_taken_over(&scene);
    people_add_list_and_remove_users(&scene);
    certificates_follow_the_clients_ca(&scene);
    a_user_that_is_deleted_is_forgotten(&scene);
    ground.assert_operator_is_content();
    #[cfg(feature = "soak")]
    one_act_per_life_is_enough(&scene);
}

fn topics_are_there(scene: &Scene<'_>) {
    let admin = scene.with_secret("root");
    let topics = ["orders", "other"].map(|name| NewTopic::new(TopicName::new(name).unwrap(), 1, 1));
    let made = scene.runtime.block_on(admin.create_topics(&topics, false)).unwrap();
    assert!(made.values().all(Result::is_ok), "{made:?}");
}

fn the_entity_operator_of_strimzi_is_replaced(scene: &Scene<'_>) {
    for one in entity_operator() {
        let name = one["metadata"]["name"].as_str().unwrap();
        scene.has_no(&one["kind"].as_str().unwrap().to_lowercase(), name);
    }
}

fn users_of_every_kind_do_what_they_may(scene: &Scene<'_>) {
    let reference = json!({ "secretKeyRef": { "name": "brought", "key": "word" } });
    let brought = json!({ "type": "scram-sha-512", "password": { "valueFrom": reference } });
    scene.apply(&[
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "brought" },
                "stringData": { "word": "first \"word\"" } }),
        of_orders("alice", json!({ "type": "tls" })),
        of_orders("bob", json!({ "type": "scram-sha-512" })),
        of_orders("carl", json!({ "type": "tls-external" })),
        of_orders("dora", brought),
    ]);
    let status = scene.ready("alice")["status"].clone();
    assert_eq!((&status["username"], &status["secret"]), (&json!("CN=alice"), &json!("alice")));
    scene.eventually_sees(|| scene.with_secret("alice"), &["orders"]);
    let entries = |name: &str| {
        let data = scene.place.get("secret", name)["data"].clone();
        data.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>()
    };
    let expected = ["ca.crt", "user.crt", "user.key", "user.p12", "user.password"];
    assert_eq!(entries("alice"), expected.map(str::to_owned).into());

    assert_eq!(scene.ready("bob")["status"]["username"], "bob");
    assert_eq!(entries("bob"), ["password", "sasl.jaas.config"].map(str::to_owned).into());
    let password = scene.entry("bob", "password");
    scene.eventually_sees(|| scene.with_password("bob", &password), &["orders"]);
    // Kafka's tool tells of records that were refused only on its standard error.
    let _ = scene.produce("bob", "other", &[]);
    scene.produce("bob", "orders", &[]).unwrap();
    assert_eq!(["orders", "other"].map(|topic| scene.records(topic)), [60, 0]);

    let carl = scene.ready("carl");
    assert_eq!(carl["status"]["secret"], Value::Null);
    let (certificate, key) = signed_outside(scene, "carl");
    scene.eventually_sees(|| scene.with_certificate(&certificate, &key), &["orders"]);

    scene.ready("dora");
    scene.eventually_sees(|| scene.with_password("dora", "first \"word\""), &["orders"]);
    scene.patch("secret", "brought", &json!({ "stringData": { "word": "open-sesame-2" } }));
    scene.eventually_sees(|| scene.with_password("dora", "open-sesame-2"), &["orders"]);
    assert!(scene.sees(&scene.with_password("dora", "first \"word\"")).is_err());
    let log = scene.place.ground.operator_log();
    assert!(
        !log.contains(&password) && !log.contains("open-sesame-2"),
        "no password is in the log"
    );
}

/// A certificate that somebody else has issued with the key of the clients CA.
fn signed_outside(scene: &Scene<'_>, name: &str) -> (String, String) {
    let authority = KeyPair::from_pem(&scene.entry("c-clients-ca", "ca.key")).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&scene.entry("c-clients-ca-cert", "ca.crt"), authority);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.signed_by(&key, &issuer.unwrap()).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn a_quota_slows_a_producer(scene: &Scene<'_>) {
    let throttled = |printed: &str| {
        let line = printed.lines().find(|line| line.contains("produce-throttle-time-max"));
        let value = line.and_then(|line| line.rsplit(':').next()?.trim().parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("{printed}"))
    };
    let produce = || scene.produce("bob", "orders", &["--print-metrics"]).unwrap();
    assert!(throttled(&produce()) <= 0.0);
    scene.patch("kafkauser", "bob", &json!({ "spec": { "quotas": { "producerByteRate": 2000 } } }));
    scene.ready("bob");
    let quotas: BTreeMap<_, _> = [("producer_byte_rate".to_owned(), 2000.0)].into();
    scene.becomes("bob", &Shown { rules: 3, quotas, has_password: true });
    assert!(throttled(&produce()) > 0.0, "the broker throttles the producer");
    scene.patch("kafkauser", "bob", &json!({ "spec": { "quotas": null } }));
    scene.becomes("bob", &Shown { rules: 3, has_password: true, ..Shown::default() });
}

fn bad_resources_are_told_and_harm_no_other(scene: &Scene<'_>) {
    let nameless = json!({ "resource": { "type": "topic" }, "operations": ["Read"] });
    let rules = |rule| json!({ "authorization": { "type": "simple", "acls": [rule] } });
    let missing = json!({ "type": "scram-sha-512", "password": {
        "valueFrom": { "secretKeyRef": { "name": "missing", "key": "k" } },
    }});
    scene.apply(&[
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "taken" } }),
        user("nameless", rules(nameless)),
        user("missing", json!({ "authentication": missing })),
        user("taken", json!({ "authentication": { "type": "scram-sha-512" } })),
        user("zero", json!({ "quotas": { "producerByteRate": 0 } })),
        of_orders("good", json!({ "type": "scram-sha-512" })),
    ]);
    scene.ready("good");
    for (name, reason, words) in [
        ("nameless", "InvalidResource", "has no name"),
        ("missing", "InvalidReference", "Secret missing in namespace users not found"),
        ("taken", "SecretConflict", "The Secret taken is not changed"),
        ("zero", "KafkaError", "must be greater than 0"),
    ] {
        let said = scene.said(name, reason);
        assert!(said.contains(words), "{name}: {said}");
        scene.delete(name);
    }
    assert_eq!(scene.place.get("secret", "taken")["data"], Value::Null);
}

/// Users that somebody created with Kafka's tools, and those that an earlier version kept as Secrets.
fn users_without_a_resource_stay_and_are_taken_over(scene: &Scene<'_>) {
    let admin = scene.with_secret("root");
    scene.runtime.block_on(async {
        let rule = Acl {
            resource: AclResource::Topic,
            name: "orders".to_owned(),
            pattern: AclPattern::Literal,
            principal: "User:by-hand".to_owned(),
            host: "*".to_owned(),
            operation: AclOperation::Read,
            permission: AclPermission::Allow,
        };
        admin.create_acls(&[rule]).await.unwrap();
        admin.set_scram_password("by-hand", &Secret::new("theirs")).await.unwrap();
    });
    let labels = json!({ "strimzi.io/cluster": CLUSTER, "strimzi.io/kind": "KafkaUser" });
    let metadata =
        json!({ "name": "old", "labels": labels, "finalizers": ["gregor.io/scram-user"] });
    scene.apply(&[json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata,
                          "stringData": { "password": "kept" } })]);
    let with_password = Shown { has_password: true, ..Shown::default() };
    scene.becomes("old", &with_password);
    scene.apply(&[of_orders("old", json!({ "type": "scram-sha-512" }))]);
    scene.ready("old");
    let metadata = scene.place.get("secret", "old")["metadata"].clone();
    assert_eq!(metadata["ownerReferences"][0]["kind"], "KafkaUser");
    assert_eq!(
        (&metadata["finalizers"], scene.entry("old", "password")),
        (&Value::Null, "kept".into())
    );
    scene.eventually_sees(|| scene.with_password("old", "kept"), &["orders"]);
    scene.delete("old");
    scene.becomes("old", &Shown::default());
    assert_eq!(scene.shown("by-hand"), Shown { rules: 1, ..with_password });
}

fn people_add_list_and_remove_users(scene: &Scene<'_>) {
    let run = |words: &[&str]| {
        let words = [&["user"], words, &["--cluster", CLUSTER]].concat();
        scene.place.gregor(&words)
    };
    let file = scene.place.ground.world.temp().join("erin.properties");
    let path = file.to_str().unwrap();
    let added = run(&["add", "erin", "--scram", "--out", path]).ok().out;
    assert!(added.contains("access rules know it as User:erin"), "{added}");
    let former = fs::read_to_string(&file).unwrap();
    assert!(former.contains("SCRAM-SHA-512") && former.contains("username=\"erin\""));
    assert!(run(&["list"]).ok().out.contains("erin"));
    run(&["add", "erin", "--scram"]).failed("exists: use --force");
    run(&["add", "erin", "--tls", "--force"]).failed("logs in by scram-sha-512");
    run(&["add", "erin", "--scram", "--force", "--out", path]).ok();
    assert_ne!(fs::read_to_string(&file).unwrap(), former, "a new password");
    run(&["remove", "erin"]).ok();
    scene.becomes("erin", &Shown::default());
    scene.has_no("secret", "erin");
    run(&["remove", "erin"]).failed("there is no user erin");
}

/// The renewed clients CA reaches all users, and those who have not heard of it stay in.
fn certificates_follow_the_clients_ca(scene: &Scene<'_>) {
    let former = (scene.entry("alice", "user.crt"), scene.entry("alice", "user.key"));
    let authority = scene.entry("alice", "ca.crt");
    let password = scene.entry("bob", "password");
    // One with the former certificate, and one with a password.
    let clients = [scene.with_secret("alice"), scene.with_password("bob", &password)];
    let clients = clients.map(|admin| Client::start(&scene.runtime, admin));
    let annotate = json!({ "metadata": { "annotations": { "strimzi.io/force-renew": "true" } } });
    scene.patch("secret", "c-clients-ca-cert", &annotate);
    wait_for(|| match scene.entry("alice", "ca.crt") == authority {
        true => Err("alice has the former certificate of the clients CA".to_owned()),
        false => Ok(()),
    });
    assert_eq!(scene.entry("alice", "ca.crt"), scene.entry("c-clients-ca-cert", "ca.crt"));
    assert_ne!(scene.entry("alice", "user.crt"), former.0);
    scene.eventually_sees(|| scene.with_secret("alice"), &["orders"]);
    // U7.12: nothing is revoked.
    scene.eventually_sees(|| scene.with_certificate(&former.0, &former.1), &["orders"]);
    scene.place.ready(CLUSTER);
    assert!(clients.map(|one| one.stop(&scene.runtime)).iter().all(|served| *served > 0));
    // One user asks for a new certificate, and nothing else changes.
    let (renewed, other) = (scene.entry("alice", "user.crt"), scene.entry("root", "user.crt"));
    scene.patch("secret", "alice", &annotate);
    wait_for(|| match scene.entry("alice", "user.crt") == renewed {
        true => Err("alice has the former certificate".to_owned()),
        false => Ok(()),
    });
    assert_eq!(scene.entry("root", "user.crt"), other);
    let annotations = scene.place.get("secret", "alice")["metadata"]["annotations"].clone();
    assert_eq!(annotations["strimzi.io/force-renew"], Value::Null);
}

fn a_user_that_is_deleted_is_forgotten(scene: &Scene<'_>) {
    assert_eq!(scene.shown("CN=alice").rules, 3);
    for name in ["alice", "bob", "carl", "dora", "good"] {
        scene.delete(name);
    }
    for name in ["CN=alice", "bob", "CN=carl", "dora", "good"] {
        scene.becomes(name, &Shown::default());
    }
    for name in ["alice", "bob", "dora", "good"] {
        scene.has_no("secret", name);
    }
    assert!(scene.place.names("secrets").contains(&"brought".to_owned()));
    assert!(scene.shown("by-hand").has_password, "nobody has asked for that");
}

/// The operator dies after each of its writes while a user is created, changed and deleted.
#[cfg(feature = "soak")]
fn one_act_per_life_is_enough(scene: &Scene<'_>) {
    scene.place.ground.begin_one_act_per_life();
    let mut mortal = of_orders("mortal", json!({ "type": "scram-sha-512" }));
    mortal["spec"]["quotas"] = json!({ "consumerByteRate": 5000 });
    scene.apply(&[mortal]);
    scene.ready("mortal");
    let quotas: BTreeMap<_, _> = [("consumer_byte_rate".to_owned(), 5000.0)].into();
    scene.becomes("mortal", &Shown { rules: 3, quotas: quotas.clone(), has_password: true });
    let password = scene.entry("mortal", "password");
    scene.eventually_sees(|| scene.with_password("mortal", &password), &["orders"]);
    let tls = json!({ "spec": { "authentication": { "type": "tls" } } });
    scene.patch("kafkauser", "mortal", &tls);
    scene.ready("mortal");
    scene.becomes("mortal", &Shown::default());
    scene.becomes("CN=mortal", &Shown { rules: 3, quotas, has_password: false });
    scene.eventually_sees(|| scene.with_secret("mortal"), &["orders"]);
    scene.delete("mortal");
    scene.becomes("CN=mortal", &Shown::default());
}
