//! Our certificates in the hands of others: Java's own tool reads them, and real nodes form a cluster
//! with them, keep out who is not of it, and go through a replacement of the authority's key.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use control::certificates::authority::{Expiry, Kind, PodGenerations, Source, Stage, Users};
use kafka_admin::{Admin, Bootstrap, ClientOptions, Endpoint, NewTopic, Tls};
use model::TopicName;
use operator::pki::{Clock, SecretContent, Signer, authority, leaf, names, user};
use testkit::{Cluster, Node, Security};

const PATIENCE: Duration = Duration::from_secs(120);

fn clock() -> Clock {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    Clock { now: i64::try_from(now).unwrap(), window_open: true }
}

fn spec(kind: Kind) -> authority::Spec {
    authority::Spec {
        kind,
        source: Source::Generated,
        expiry: Expiry::RenewCertificate,
        validity_days: 365,
        renewal_days: 30,
    }
}

/// What would be stored in Kubernetes, and what pods say of themselves.
#[derive(Default)]
struct Store {
    keys: Option<SecretContent>,
    certificates: Option<SecretContent>,
    bundle: String,
    leaves: BTreeMap<i32, SecretContent>,
    pods: BTreeMap<i32, PodGenerations>,
}

impl Store {
    /// One pass over the authority.
    fn pass(&mut self) -> authority::Outcome {
        let pods: Vec<_> = self.pods.values().copied().map(Some).collect();
        let generation = |leaf: &SecretContent| {
            leaf.annotations[names::CLUSTER_KEY_GENERATION].parse::<u64>().ok()
        };
        let stored: Vec<_> = self.leaves.values().map(generation).collect();
        let observed = authority::Observed {
            keys: self.keys.as_ref(),
            certificates: self.certificates.as_ref(),
            published: Some(self.bundle.as_bytes()),
        };
        let users = Users { pods: Some(&pods), stored: Some(&stored) };
        let outcome = authority::next(&observed, &spec(Kind::Cluster), &users, &clock()).unwrap();
        if let Some(keys) = &outcome.key_secret {
            self.keys = Some(keys.clone());
        }
        if let Some(certificates) = &outcome.cert_secret {
            self.certificates = Some(certificates.clone());
        }
        self.bundle = outcome.trust_bundle.clone().unwrap();
        outcome
    }

    /// The operator's own certificate, as it would be stored.
    fn operator(&self, outcome: &authority::Outcome) -> SecretContent {
        let wanted = leaf::Wanted::operator(&spec(Kind::Cluster));
        leaf::next(None, &wanted, outcome, &clock()).unwrap().secret.unwrap()
    }

    /// Issues what the node needs, and writes what it would find mounted.
    fn equip(&mut self, node: &Node, outcome: &authority::Outcome) -> anyhow::Result<bool> {
        let pod = format!("c-p-{}", node.id());
        let addresses = [node.host().parse()?].into();
        let names = leaf::Names { dns: [format!("{pod}.c-kafka-brokers")].into(), addresses };
        let wanted = leaf::Wanted::node("c", &pod, names, &spec(Kind::Cluster));
        let made = leaf::next(self.leaves.get(&node.id()), &wanted, outcome, &clock())?;
        let issued = made.secret.is_some();
        if let Some(secret) = made.secret {
            self.leaves.insert(node.id(), secret);
        }
        let secret = &self.leaves[&node.id()];
        let key = &secret.data[&format!("{pod}.key")];
        let chain = &secret.data[&format!("{pod}.crt")];
        fs::write(node.dir().join("node.pem"), [key.as_slice(), chain].concat())?;
        fs::write(node.dir().join("ca.pem"), &self.bundle)?;
        let says = PodGenerations {
            certificates: outcome.cert_generation,
            key: made.key_generation.context("a generation")?,
        };
        self.pods.insert(node.id(), says);
        Ok(issued)
    }
}

fn admin(node: &Node, bundle: &str, identity: Option<(&[u8], &[u8])>) -> anyhow::Result<Admin> {
    let tls = Some(Tls::new(bundle.as_bytes(), identity)?);
    let call_timeout = Duration::from_secs(8);
    let options = ClientOptions { tls, call_timeout, ..ClientOptions::default() };
    let at = Endpoint::new(node.host().to_owned(), node.port());
    Ok(Admin::new(Bootstrap::Brokers(vec![at]), options)?)
}

fn pair(content: &SecretContent) -> (&[u8], &[u8]) {
    (&content.data["cluster-operator.crt"], &content.data["cluster-operator.key"])
}

async fn eventually(what: &str, holds: impl AsyncFn() -> anyhow::Result<bool>) {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let last = holds().await;
        if matches!(last, Ok(true)) {
            return;
        }
        assert!(tokio::time::Instant::now() < until, "{what}: {last:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// All three voters keep up, and all three replicas are in sync: the nodes trust each other.
async fn whole(node: &Node, bundle: &str, operator: &SecretContent) {
    eventually("the cluster is whole", async || {
        let admin = admin(node, bundle, Some(pair(operator)))?;
        let quorum = admin.describe_quorum().await?;
        let end = quorum.voters.iter().map(|voter| voter.log_end).max();
        let close =
            |offset: Option<u64>| end.flatten().zip(offset).is_some_and(|(e, o)| e - o < 20);
        let page = admin.describe_topics(&[TopicName::new("t")?]).await?;
        let in_sync = page.topics.iter().flat_map(|topic| &topic.partitions);
        Ok(quorum.voters.len() == 3
            && quorum.voters.iter().all(|voter| close(voter.log_end))
            && in_sync.clone().count() == 3
            && in_sync.clone().all(|partition| partition.isr.len() == 3))
    })
    .await;
}

/// One node after the other with what is stored now; clients of `bundles` get in all the while.
async fn roll(
    cluster: &Cluster,
    count: usize,
    store: &mut Store,
    outcome: &authority::Outcome,
    (operator, bundles): (&SecretContent, &[&str]),
) -> anyhow::Result<()> {
    for node in cluster.nodes().into_iter().take(count) {
        store.equip(&node, outcome)?;
        node.stop().await?;
        for bundle in bundles {
            for other in cluster.nodes().iter().filter(|other| other.id() != node.id()) {
                let client = admin(other, bundle, Some(pair(operator)))?;
                client.describe_cluster().await.with_context(|| {
                    format!("node {} is down, asking {}", node.id(), other.id())
                })?;
            }
        }
        node.start().await?;
        node.wait_ready().await?;
        whole(&node, &store.bundle, operator).await;
        for bundle in bundles {
            let client = admin(&node, bundle, Some(pair(operator)))?;
            client.describe_cluster().await.with_context(|| format!("asking {}", node.id()))?;
        }
    }
    Ok(())
}

async fn started(store: &mut Store) -> anyhow::Result<(Cluster, SecretContent)> {
    let super_users = "User:CN=c-kafka,O=io.strimzi;User:CN=cluster-operator,O=io.strimzi";
    let cluster = Cluster::builder()
        .combined(3)
        .security(Security::Tls)
        .authorizer(true)
        .broker_config("super.users", super_users)
        .prepare()
        .await?;
    let outcome = store.pass();
    let operator = store.operator(&outcome);
    for node in cluster.nodes() {
        ensure!(store.equip(&node, &outcome)?, "every node gets a certificate");
        node.start().await?;
    }
    cluster.wait_ready().await?;
    let first = cluster.nodes().remove(0);
    let client = admin(&first, &store.bundle, Some(pair(&operator)))?;
    // Only a super user may do this, so that the names in certificates are those that Kafka sees.
    let made = client.create_topics(&[NewTopic::new(TopicName::new("t")?, 3, 3)], false).await?;
    ensure!(made.values().all(Result::is_ok), "{made:?}");
    whole(&first, &store.bundle, &operator).await;
    Ok((cluster, operator))
}

async fn refused(client: Admin, why: &[&str]) -> anyhow::Result<()> {
    let Err(error) = client.describe_cluster().await else { bail!("this client must not get in") };
    let sentence = format!("{:#}", anyhow::Error::from(error));
    ensure!(why.iter().any(|why| sentence.contains(why)), "{sentence}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_our_certificates_form_a_cluster_and_its_key_is_replaced() -> anyhow::Result<()>
{
    let mut store = Store::default();
    let (cluster, operator) = started(&mut store).await?;
    let nodes = cluster.nodes();

    let mut foreign = Store::default();
    let stranger = foreign.pass();
    let stranger = foreign.operator(&stranger);
    let client = admin(&nodes[0], &store.bundle, Some(pair(&stranger)))?;
    refused(client, &["BadCertificate", "CertificateUnknown", "UnknownCA"]).await?;
    let client = admin(&nodes[0], &foreign.bundle, Some(pair(&operator)))?;
    refused(client, &["UnknownIssuer", "BadSignature"]).await?;
    let tls = Tls::new(store.bundle.as_bytes(), Some(pair(&operator)))?;
    let tls = Some(tls.with_server_name("c-p-9.c-kafka-brokers")?);
    let options =
        ClientOptions { tls, call_timeout: Duration::from_secs(8), ..ClientOptions::default() };
    let at = Endpoint::new(nodes[0].host().to_owned(), nodes[0].port());
    let at = Bootstrap::Brokers(vec![at]);
    refused(Admin::new(at.clone(), options)?, &["NotValidForName", "not valid for name"]).await?;
    let options =
        ClientOptions { call_timeout: Duration::from_secs(8), ..ClientOptions::default() };
    refused(Admin::new(at, options)?, &["handshake"]).await?;

    // A renewal keeps the key: who trusts what was published before needs nothing new.
    let before = store.bundle.clone();
    annotate(&mut store.certificates, names::FORCE_RENEW);
    let renewed = store.pass();
    assert_ne!(store.bundle, before);
    // With one of three restarted, both are presented.
    roll(&cluster, 1, &mut store, &renewed, (&operator, &[&before])).await?;

    // A replacement: clients that trust the bundle as published while it begins get in throughout.
    annotate(&mut store.keys, names::FORCE_REPLACE);
    let staged = store.pass();
    assert_eq!(staged.decision.stage, Stage::Distributing);
    let published = store.bundle.clone();
    assert_eq!(published.matches("BEGIN CERTIFICATE").count(), 2);
    roll(&cluster, 3, &mut store, &staged, (&operator, &[&before, &published])).await?;
    let promoted = store.pass();
    assert_eq!(promoted.decision.stage, Stage::Switching);
    let operator = store.operator(&promoted);
    roll(&cluster, 3, &mut store, &promoted, (&operator, &[&published])).await?;
    let done = store.pass();
    assert_eq!(done.decision.stage, Stage::Steady);
    assert_eq!(store.bundle.matches("BEGIN CERTIFICATE").count(), 1);
    let last = store.bundle.clone();
    roll(&cluster, 1, &mut store, &done, (&operator, &[&published, &last])).await?;
    // What the former key signed is worth nothing any more.
    let former = store.operator(&staged);
    let client = admin(&nodes[0], &last, Some(pair(&former)))?;
    refused(client, &["BadCertificate", "CertificateUnknown", "UnknownCA"]).await
}

fn annotate(content: &mut Option<SecretContent>, name: &str) {
    content.as_mut().unwrap().annotations.insert(name.to_owned(), "true".to_owned());
}

/// Runs Java's `keytool`, which comes with every Java.
fn keytool(arguments: &[&str]) -> anyhow::Result<String> {
    let home = std::env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/keytool"));
    let program = home.filter(|path| path.exists()).unwrap_or_else(|| "keytool".into());
    let output = Command::new(program).args(["-J-Duser.language=en"]).args(arguments).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "keytool {arguments:?}: {text}");
    Ok(text)
}

#[test]
fn java_reads_the_trust_store_of_an_authority() -> anyhow::Result<()> {
    let mut store = Store::default();
    store.pass();
    annotate(&mut store.keys, names::FORCE_REPLACE);
    store.pass();
    let dir = tempfile::tempdir()?;
    let content = store.certificates.unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    for (name, bytes) in &content.data {
        fs::write(dir.path().join(name), bytes)?;
    }
    let password = String::from_utf8(content.data[names::CA_PASSWORD].clone())?;
    let listed = keytool(&["-list", "-keystore", &file("ca.p12"), "-storepass", &password])?;
    assert_eq!(listed.matches("trustedCertEntry").count(), 2, "{listed}");
    assert!(listed.contains("ca.crt") && listed.contains("ca-next.crt"), "{listed}");
    let wrong = keytool(&["-list", "-keystore", &file("ca.p12"), "-storepass", "guessed"]);
    let wrong = wrong.unwrap_err().to_string();
    assert!(wrong.contains("integrity"), "{wrong}");

    let printed = keytool(&["-printcert", "-file", &file("ca.crt")])?;
    for part in [
        "Owner: CN=cluster-ca v0, O=io.strimzi",
        "CA:true",
        "PathLen:0",
        "Key_CertSign",
        "256-bit EC",
    ] {
        assert!(printed.contains(part), "no {part} in {printed}");
    }
    Ok(())
}

#[test]
fn java_reads_the_key_store_of_a_user() -> anyhow::Result<()> {
    let observed = authority::Observed { keys: None, certificates: None, published: None };
    let users = Users { pods: Some(&[]), stored: Some(&[]) };
    let made = authority::next(&observed, &spec(Kind::Clients), &users, &clock())?;
    let (keys, certificates) = (made.key_secret.unwrap(), made.cert_secret.unwrap());
    let signer = Signer::load(Kind::Clients, &keys, &certificates).unwrap();
    let content = user::issue(
        &signer,
        &user::Order { user: "alice", days: 90, now: clock().now, is_rsa: false },
    )?;
    let dir = tempfile::tempdir()?;
    let file = |name: &str| dir.path().join(name).display().to_string();
    fs::write(dir.path().join("user.p12"), &content.data[user::USER_P12])?;
    let password = String::from_utf8(content.data[user::USER_PASSWORD].clone())?;
    let store = ["-keystore", &file("user.p12"), "-storepass", &password];
    let listed = keytool(&[&["-list", "-v"], store.as_slice()].concat())?;
    for part in [
        "Alias name: alice",
        "PrivateKeyEntry",
        "Certificate chain length: 2",
        "Owner: CN=alice",
        "Issuer: CN=clients-ca v0, O=io.strimzi",
        "clientAuth",
    ] {
        assert!(listed.contains(part), "no {part} in {listed}");
    }
    // To copy the key, Java has to decrypt it.
    let copied = keytool(&[
        "-importkeystore",
        "-srckeystore",
        &file("user.p12"),
        "-srcstorepass",
        &password,
        "-destkeystore",
        &file("copy.p12"),
        "-deststorepass",
        &password,
        "-noprompt",
    ]);
    copied?;
    let listed = keytool(&["-list", "-keystore", &file("copy.p12"), "-storepass", &password])?;
    assert!(listed.contains("PrivateKeyEntry"), "{listed}");
    Ok(())
}
