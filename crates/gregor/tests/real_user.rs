//! `gregor user` on a real API server, and what it makes in the hands of a Java client on a real cluster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use artifacts::kubernetes;
use control::certificates::authority::{Expiry, Kind, Source, Users};
use control::users::{Act, Decision, decide};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kafka_admin::{Admin, Bootstrap, ClientOptions, Endpoint, Tls};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use local::control_plane::{ControlPlane, Options};
use model::ClusterId;
use operator::crash::CrashSwitch;
use operator::fence::Fence;
use operator::metrics::Metrics;
use operator::pki::{Clock, SecretContent, authority, leaf, names};
use operator::users;
use operator::write::Writer;
use serde_json::{Value, json};
use testkit::{Cluster, Security};

const CLUSTER: &str = "c";

/// A control plane with our definitions, a real cluster with our certificates, and what an operator would
/// have stored about it.
struct World {
    plane: ControlPlane,
    temp: tempfile::TempDir,
    kafka: Cluster,
    cluster_ca: authority::Outcome,
    operator: SecretContent,
}

fn now() -> i64 {
    time::OffsetDateTime::now_utc().unix_timestamp()
}

fn wishes(kind: Kind) -> authority::Wishes {
    authority::Wishes {
        kind,
        source: Source::Generated,
        expiry: Expiry::RenewCertificate,
        validity_days: 365,
        renewal_days: 30,
    }
}

fn clock() -> Clock {
    Clock { now: now(), window_open: true }
}

fn new_authority(kind: Kind) -> authority::Outcome {
    let observed = authority::Observed { keys: None, certificates: None, published: None };
    let nobody = Users { pods: Some(&[]), stored: Some(&[]) };
    authority::next(&observed, &wishes(kind), &nobody, &clock()).unwrap()
}

impl World {
    async fn start() -> Self {
        let environment = artifacts::Environment::from_process();
        let binaries = kubernetes::ensure(&environment, None, &artifacts::Silent).unwrap();
        let temp = tempfile::tempdir().unwrap();
        let options = Options::for_test(temp.path().join("state"), binaries);
        let plane = ControlPlane::start(options, |_| {}).await.unwrap();
        install_definitions(&plane.client()).await;
        let (cluster_ca, clients_ca) = (new_authority(Kind::Cluster), new_authority(Kind::Clients));
        for (kind, made) in [(Kind::Cluster, &cluster_ca), (Kind::Clients, &clients_ca)] {
            let client = plane.client();
            store(&client, &names::key_secret(CLUSTER, kind), made.key_secret.as_ref()).await;
            store(&client, &names::cert_secret(CLUSTER, kind), made.cert_secret.as_ref()).await;
        }
        let wanted = leaf::Wanted::operator(&wishes(Kind::Cluster));
        let operator = leaf::next(None, &wanted, &cluster_ca, &clock()).unwrap().secret.unwrap();
        let kafka = start_kafka(&cluster_ca, &clients_ca).await;
        let world = Self { plane, temp, kafka, cluster_ca, operator };
        world.store_cluster().await;
        world
    }

    fn client(&self) -> Client {
        self.plane.client()
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client(), "default")
    }

    async fn store_cluster(&self) {
        let api: Api<api::Kafka> = Api::namespaced(self.client(), "default");
        let listener = |name: &str, port: u16, tls: bool, kind: &str| {
            json!({ "name": name, "port": port, "type": "internal", "tls": tls,
                "authentication": { "type": kind } })
        };
        let listeners =
            [listener("tls", 9093, true, "tls"), listener("sasl", 9094, false, "scram-sha-512")];
        let kafka: api::Kafka = serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "Kafka",
            "metadata": { "name": CLUSTER },
            "spec": { "kafka": { "listeners": listeners }, "clientsCa": { "validityDays": 90 } },
        }))
        .unwrap();
        api.create(&PostParams::default(), &kafka).await.unwrap();
        let at = |addresses: Vec<(String, u16)>| {
            let all = addresses.into_iter().map(|(host, port)| format!("{host}:{port}"));
            all.collect::<Vec<_>>().join(",")
        };
        let status = json!({ "status": {
            "clusterId": self.kafka.cluster_id(),
            "listeners": [
                { "name": "tls", "bootstrapServers": at(self.kafka.bootstrap_brokers()) },
                { "name": "sasl", "bootstrapServers": at(self.kafka.bootstrap_sasl()) },
            ],
        }});
        let params = PatchParams::default();
        api.patch_status(CLUSTER, &params, &Patch::Merge(status)).await.unwrap();
    }

    /// Runs `gregor user` in the test's directory.
    fn gregor(&self, words: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_gregor"))
            .arg("user")
            .args(words.split_whitespace())
            .args(["--cluster", CLUSTER, "--kubeconfig"])
            .arg(self.plane.kubeconfig_path())
            .current_dir(self.temp.path())
            .output()
            .unwrap()
    }

    fn ok(&self, words: &str) -> String {
        let output = self.gregor(words);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn fails(&self, words: &str, code: i32, expected: &str) {
        let output = self.gregor(words);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words}: {stderr}");
        assert!(stderr.contains(expected), "{words}: {stderr}");
    }

    fn file(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// Whether a Java client with this file gets an answer from every broker.
    async fn java_gets_in(&self, file: &Path) -> anyhow::Result<String> {
        let text = fs::read_to_string(file)?;
        let servers =
            text.lines().find_map(|line| line.strip_prefix("bootstrap.servers=")).unwrap();
        let class = "org.apache.kafka.tools.BrokerApiVersionsCommand";
        let file = file.display().to_string();
        let arguments = ["--bootstrap-server", servers, "--command-config", &file];
        self.kafka.run_tool(class, &arguments).await
    }

    fn admin(&self) -> Admin {
        let identity: (&[u8], &[u8]) = (
            &self.operator.data["cluster-operator.crt"],
            &self.operator.data["cluster-operator.key"],
        );
        let bundle = self.cluster_ca.trust_bundle.as_ref().unwrap();
        let tls = Some(Tls::new(bundle.as_bytes(), Some(identity)).unwrap());
        let at = self.kafka.bootstrap_brokers().into_iter();
        let at = at.map(|(host, port)| Endpoint::new(host, port)).collect();
        let options = ClientOptions { tls, ..ClientOptions::default() };
        Admin::new(Bootstrap::Brokers(at), options).unwrap()
    }

    /// What the operator does about users in a pass; how many writes it took, in Kubernetes and in Kafka.
    async fn operator_pass(&self) -> (u64, Vec<String>) {
        let writer = Writer::new(self.client(), Fence::open(), CrashSwitch::Off, Metrics::new());
        let (api, admin) = (self.secrets(), self.admin());
        let all = api.list(&ListParams::default()).await.unwrap().items.into_iter();
        let all = all.filter(|one| users::is_user(one, CLUSTER));
        let mut secrets: BTreeMap<_, _> = all.map(|one| (one.name_any(), one)).collect();
        let cluster = ClusterId::new(self.kafka.cluster_id()).unwrap();
        let seen: Vec<_> = secrets.values().map(|one| users::user(one, &cluster)).collect();
        let known = users::known(&admin).await.unwrap();
        let Decision { acts, notes } = decide(&seen, Some(&known));
        for act in acts {
            match act {
                Act::Remember { user, mark } => {
                    let secret = &secrets[&user];
                    let after = users::remember(&writer, &api, secret, &mark).await.unwrap();
                    secrets.extend(after.map(|after| (user, after)));
                }
                Act::Set { user } => users::set(&writer, &admin, &secrets[&user]).await.unwrap(),
                Act::Delete { user } => users::delete(&writer, &admin, &user).await.unwrap(),
                Act::Release { user } => {
                    users::release(&writer, &api, &[&secrets[&user]]).await.unwrap();
                }
            }
        }
        let metrics = writer.metrics().encode();
        let number = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        let changed = metrics.lines().filter(|line| {
            line.contains("outcome=\"Changed\"") || line.contains("AlterUserScramCredentials")
        });
        (changed.map(number).sum(), notes.iter().map(ToString::to_string).collect())
    }

    async fn known_users(&self) -> Vec<String> {
        let users = self.admin().describe_scram_users().await.unwrap();
        users.into_iter().map(|user| user.name).collect()
    }
}

async fn install_definitions(client: &Client) {
    let objects = api::crds::crds().iter().map(api::crds::manifest).collect();
    let manifests = local::manifests::from_objects("test", objects).unwrap();
    local::manifests::apply(client, &manifests, |_| {}).await.unwrap();
    let kafkas = Api::<api::Kafka>::all(client.clone());
    let begun = Instant::now();
    while kafkas.list(&ListParams::default()).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the definitions are not served");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn store(client: &Client, name: &str, content: Option<&SecretContent>) {
    let content = content.unwrap().clone();
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.metadata.annotations = Some(content.annotations);
    let data = content.data.into_iter().map(|(name, bytes)| (name, ByteString(bytes)));
    secret.data = Some(data.collect());
    let api: Api<Secret> = Api::namespaced(client.clone(), "default");
    api.create(&PostParams::default(), &secret).await.unwrap();
}

/// One node that presents what the cluster's authority signed, and lets in whom either has signed for.
async fn start_kafka(cluster_ca: &authority::Outcome, clients_ca: &authority::Outcome) -> Cluster {
    let builder = Cluster::builder().combined(1).security(Security::Tls).sasl_listeners(true);
    let kafka = builder.prepare().await.unwrap();
    for node in kafka.nodes() {
        let addresses = [node.host().parse().unwrap()].into();
        let names = leaf::Names { addresses, ..leaf::Names::default() };
        let wanted = leaf::Wanted::node(CLUSTER, "c-p-0", names, &wishes(Kind::Cluster));
        let made = leaf::next(None, &wanted, cluster_ca, &clock()).unwrap().secret.unwrap();
        let store = [made.data["c-p-0.key"].as_slice(), &made.data["c-p-0.crt"]].concat();
        fs::write(node.dir().join("node.pem"), store).unwrap();
        let both = [cluster_ca, clients_ca].map(|one| one.trust_bundle.clone().unwrap());
        fs::write(node.dir().join("ca.pem"), both.concat()).unwrap();
        node.start().await.unwrap();
    }
    kafka.wait_ready().await.unwrap();
    kafka
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_made_listed_and_taken_away() {
    let world = World::start().await;
    with_a_certificate(&world).await;
    with_a_password(&world).await;
    what_makes_no_sense_is_refused(&world).await;
}

async fn with_a_certificate(world: &World) {
    let added: Value = serde_json::from_str(&world.ok("add alice --tls -o json")).unwrap();
    assert_eq!(added["listener"], "tls");
    assert_eq!(added["principal"], "User:CN=alice");
    let answer = world.java_gets_in(&world.file("alice.properties")).await.unwrap();
    assert!(answer.contains("(id: 200"), "{answer}");
    world.fails("add alice --tls", 1, "the user alice exists");
    world.fails("add carol --tls --out alice.properties", 1, "alice.properties exists");
    assert!(world.secrets().get_opt("carol").await.unwrap().is_none());
    let before = fs::read(world.file("alice.properties")).unwrap();
    world.ok("add alice --tls --force");
    assert_ne!(fs::read(world.file("alice.properties")).unwrap(), before);
    world.java_gets_in(&world.file("alice.properties")).await.unwrap();
    let secret = world.secrets().get("alice").await.unwrap();
    assert_eq!(secret.labels()["strimzi.io/kind"], "KafkaUser");
    assert_eq!(secret.data.unwrap().len(), 5);

    let listed: Value = serde_json::from_str(&world.ok("list -o json")).unwrap();
    assert_eq!(listed[0]["name"], "alice");
    assert_eq!(listed[0]["listeners"], json!(["tls"]));
    let output = world.gregor("remove alice");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("stays good until"), "{said}");
    assert!(world.secrets().get_opt("alice").await.unwrap().is_none());
}

async fn with_a_password(world: &World) {
    let said = world.gregor("add bob --scram --wait 0");
    assert!(said.status.success(), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stderr).contains("has not given the password"));
    let file = world.file("bob.properties");
    // Two marks and one change in Kafka; then nothing.
    assert_eq!(world.operator_pass().await, (3, Vec::new()));
    assert_eq!(world.operator_pass().await, (0, Vec::new()));
    eventually_gets_in(world, &file).await;
    let old = world.file("old.properties");
    fs::copy(&file, &old).unwrap();
    world.ok("add bob --scram --force --wait 0");
    assert_eq!(world.operator_pass().await.0, 3);
    eventually_gets_in(world, &file).await;
    assert!(world.java_gets_in(&old).await.is_err(), "the former password is worth nothing");

    // Somebody else's credential is not touched, whatever Secrets there are.
    let admin = world.admin();
    admin.set_scram_password("dora", &kafka_admin::Secret::new("theirs")).await.unwrap();
    world.ok("add dora --scram --wait 0");
    let (changes, notes) = world.operator_pass().await;
    assert_eq!(changes, 0);
    assert!(notes[0].contains("left alone"), "{notes:?}");
    world.ok("remove dora");
    world.operator_pass().await;
    assert!(world.secrets().get_opt("dora").await.unwrap().is_none());
    assert_eq!(world.known_users().await, ["bob", "dora"]);

    world.ok("remove bob");
    assert!(world.secrets().get_opt("bob").await.unwrap().is_some(), "it waits for the operator");
    assert!(world.ok("list").contains("being removed"));
    world.operator_pass().await;
    assert!(world.secrets().get_opt("bob").await.unwrap().is_none());
    assert_eq!(world.known_users().await, ["dora"]);
}

async fn eventually_gets_in(world: &World, file: &Path) {
    let begun = Instant::now();
    while let Err(error) = world.java_gets_in(file).await {
        assert!(begun.elapsed() < Duration::from_secs(60), "{error:#}");
    }
}

async fn what_makes_no_sense_is_refused(world: &World) {
    world.fails("add eve", 2, "--tls");
    world.fails("add eve --tls --scram", 2, "cannot be used with");
    world.fails("add Eve --tls", 2, "cannot be the name of a user");
    world.fails("add eve --tls --listener sasl", 1, "there are tls:9093 (tls), sasl:9094");
    world.fails("add c-clients-ca --tls", 1, "is not that of a user");
    world.fails("remove eve", 1, "there is no user eve");
    world.fails("remove c-clients-ca", 1, "is not that of a user");
    world.fails("add eve --tls -n other", 1, "there is no Kafka c in namespace other");
    assert!(!world.file("eve.properties").exists());
}
