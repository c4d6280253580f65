//! Who gets in, and who does not: clients with certificates and passwords, and what happens to them while
//! the authority of the cluster is renewed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod up;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use kafka::{Ground, Place, wait_for};
use kafka_admin::{Admin, Bootstrap, ClientOptions, Endpoint, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

const CLUSTER: &str = "secure";

/// Two combined nodes: one would be away while it is restarted.
const MANIFEST: &str = r#"
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata:
  name: node
  labels:
    strimzi.io/cluster: secure
spec:
  replicas: 3
  roles: [controller, broker]
  storage: {type: persistent-claim, size: 1Gi, deleteClaim: true}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata:
  name: secure
spec:
  kafka:
    listeners:
      - {name: tls, port: 9093, type: internal, tls: true, authentication: {type: tls}}
      - {name: scram, port: 9094, type: internal, tls: true, authentication: {type: scram-sha-512}}
      - {name: outside, port: 9095, type: loadbalancer, tls: true, authentication: {type: tls}}
      - {name: ports, port: 9096, type: nodeport, tls: false}
    config:
      default.replication.factor: 3
      min.insync.replicas: 2
      offsets.topic.replication.factor: 3
  entityOperator:
    userOperator: {}
"#;

struct Secure<'a> {
    place: Place<'a>,
}

impl Secure<'_> {
    /// A client of one port of a node, with this trust and this identity.
    async fn asks(&self, port: u16, tls: Option<Tls>) -> Result<(), String> {
        let host = format!("secure-node-0.secure-kafka-brokers.{}.svc", self.place.namespace);
        self.asks_as(&host, port, tls).await
    }

    async fn asks_as(&self, host: &str, port: u16, tls: Option<Tls>) -> Result<(), String> {
        let options = ClientOptions {
            tls,
            names: Arc::new(self.place.names_of_hosts()),
            call_timeout: Duration::from_secs(20),
            wait_for_nodes: false,
            ..ClientOptions::default()
        };
        let endpoint = vec![Endpoint::new(host, port)];
        let bootstrap = match port {
            9090 => Bootstrap::Controllers(endpoint),
            _ => Bootstrap::Brokers(endpoint),
        };
        let admin = Admin::new(bootstrap, options).unwrap();
        let asked = admin.describe_features(None).await;
        asked.map(|_| ()).map_err(|error| format!("{:#}", anyhow::Error::from(error)))
    }

    fn trust(&self) -> Vec<u8> {
        self.place.secret("secure-cluster-ca-cert", "ca.crt")
    }

    /// Those whom the nodes let in on their own ports.
    fn operator(&self) -> Tls {
        let entry = |suffix: &str| {
            let name = format!("cluster-operator.{suffix}");
            self.place.secret("secure-cluster-operator-certs", &name)
        };
        Tls::new(&self.trust(), Some((&entry("crt"), &entry("key")))).unwrap()
    }

    /// Somebody with a certificate of an authority that nobody here knows.
    fn stranger(&self) -> Tls {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["stranger".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let identity = (certificate.pem(), key.serialize_pem());
        Tls::new(&self.trust(), Some((identity.0.as_bytes(), identity.1.as_bytes()))).unwrap()
    }

    fn user(&self, words: &[&str]) -> String {
        let world = &self.place.ground.world;
        let kubeconfig = world.state().join("kubeconfig");
        let target = ["--cluster", CLUSTER, "-n", &self.place.namespace];
        let mut command = world.command(&[&["user"], words, &target].concat());
        let output = command.env("KUBECONFIG", kubeconfig).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "gregor user {words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_those_get_in_who_may_also_while_the_authority_is_renewed() {
    let ground = Ground::start(&["--nodes", "3"]);
    let place = ground.restricted_namespace("secure");
    place.apply(MANIFEST);
    place.ready(CLUSTER);
    let secure = Secure { place };
    strangers_stay_out(&secure).await;
    let alice = a_user_with_a_certificate_gets_in(&secure);
    a_user_with_a_password_gets_in(&secure);
    listeners_outside_are_reached_at_what_the_status_says(&secure, &alice);
    a_renewal_breaks_no_client(&secure, &alice);
    volumes_grow_and_what_is_removed_leaves_nothing(&secure);
    ground.assert_operator_is_content();
}

async fn strangers_stay_out(secure: &Secure<'_>) {
    for port in [9090, 9091] {
        secure.asks(port, Some(secure.operator())).await.unwrap();
    }
    for port in [9090, 9091, 9093] {
        let plain = secure.asks(port, None).await;
        assert!(plain.is_err(), "a client without TLS got in on {port}");
        let nameless = Tls::new(&secure.trust(), None).unwrap();
        let nameless = secure.asks(port, Some(nameless)).await;
        assert!(nameless.is_err(), "a client without a certificate got in on {port}");
        let stranger = secure.asks(port, Some(secure.stranger())).await;
        assert!(stranger.is_err(), "a client of a foreign authority got in on {port}");
        let wrong = secure.operator().with_server_name("somebody.else").unwrap();
        let wrong = secure.asks(port, Some(wrong)).await;
        assert!(wrong.is_err(), "a node passed for another on {port}");
    }
}

fn a_user_with_a_certificate_gets_in(secure: &Secure<'_>) -> String {
    let file = secure.place.ground.world.temp().join("alice.properties");
    let file = file.to_str().unwrap().to_owned();
    secure.user(&["add", "alice", "--tls", "--listener", "tls", "--out", &file]);
    let properties = fs::read_to_string(&file).unwrap();
    let bootstrap = secure.place.bootstrap(CLUSTER, "tls");
    secure.place.produce_and_consume(&bootstrap, "alice", &properties, 10_000);
    properties
}

fn a_user_with_a_password_gets_in(secure: &Secure<'_>) {
    let file = secure.place.ground.world.temp().join("bob.properties");
    let file = file.to_str().unwrap().to_owned();
    secure.user(&["add", "bob", "--scram", "--listener", "scram", "--out", &file]);
    let properties = fs::read_to_string(&file).unwrap();
    wait_for(|| {
        let listed = secure.user(&["list"]);
        let bob = listed.lines().find(|line| line.contains("bob")).unwrap_or_default();
        if bob.is_empty() { Err(listed) } else { Ok(()) }
    });
    let bootstrap = secure.place.bootstrap(CLUSTER, "scram");
    secure.place.produce_and_consume(&bootstrap, "bob", &properties, 1000);
    secure.user(&["remove", "bob"]);
    wait_for(|| {
        let secrets = secure.place.names("secrets");
        if secrets.iter().any(|name| name == "bob") { Err("bob is there".into()) } else { Ok(()) }
    });
}

fn listeners_outside_are_reached_at_what_the_status_says(secure: &Secure<'_>, alice: &str) {
    let outside = secure.place.bootstrap(CLUSTER, "outside");
    secure.place.produce_and_consume(&outside, "outside", alice, 1000);
    let ports = secure.place.bootstrap(CLUSTER, "ports");
    secure.place.produce_and_consume(&ports, "ports", "", 1000);
}

/// All nodes get certificates of the renewed authority, one after another, while alice, who trusts what was
/// published before, goes on.
fn a_renewal_breaks_no_client(secure: &Secure<'_>, alice: &str) {
    let before = secure.place.pods();
    let old = secure.trust();
    let annotation = "strimzi.io/force-renew=true";
    secure.place.kubectl(&["annotate", "secret", "secure-cluster-ca-cert", annotation]);
    let bootstrap = secure.place.bootstrap(CLUSTER, "tls");
    wait_for(|| {
        // Under load all the time: each round is a new client that trusts the former certificate.
        secure.place.produce_and_consume(&bootstrap, "renewed", alice, 2000);
        let pods = secure.place.pods();
        let kept = before.iter().filter(|pod| pods.contains(pod)).count();
        if kept == 0 { Ok(()) } else { Err(format!("{kept} pods are as before")) }
    });
    secure.place.ready(CLUSTER);
    assert_ne!(secure.trust(), old);
    secure.place.produce_and_consume(&bootstrap, "renewed", alice, 2000);
}

/// A larger size reaches the claims, the Services of a listener go with it, and the right of the nodes to read
/// their machines goes with the cluster.
fn volumes_grow_and_what_is_removed_leaves_nothing(secure: &Secure<'_>) {
    let place = &secure.place;
    let patch = |kind: &str, name: &str, patch: serde_json::Value| {
        place.kubectl(&["patch", kind, name, "--type=merge", "-p", &patch.to_string()]);
    };
    patch("kafkanodepool", "node", serde_json::json!({ "spec": { "storage": { "size": "2Gi" } } }));
    wait_for(|| {
        let claim = place.get("pvc", "data-secure-node-0");
        let size = &claim["spec"]["resources"]["requests"]["storage"];
        if size == "2Gi" { Ok(()) } else { Err(size.to_string()) }
    });
    let mut listeners = place.get("kafka", CLUSTER)["spec"]["kafka"]["listeners"].clone();
    listeners.as_array_mut().unwrap().retain(|listener| listener["name"] != "outside");
    patch("kafka", CLUSTER, serde_json::json!({ "spec": { "kafka": { "listeners": listeners } } }));
    wait_for(|| {
        let services = place.names("services");
        let left: Vec<_> = services.iter().filter(|name| name.contains("outside")).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    let binding = format!("strimzi-{}-{CLUSTER}-kafka-init", place.namespace);
    let bindings = || place.ground.kubectl(&["get", "clusterrolebindings", "-o", "name"]);
    assert!(bindings().contains(&binding));
    place.kubectl(&["delete", "kafka", CLUSTER, "--timeout=120s"]);
    wait_for(|| if bindings().contains(&binding) { Err(binding.clone()) } else { Ok(()) });
}
