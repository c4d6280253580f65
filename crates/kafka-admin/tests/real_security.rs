//! Who is let in: TLS with certificates, and SASL.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod common;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use common::{endpoints, eventually};
use kafka_admin::{
    Admin, Bootstrap, CallError, ClientOptions, ConnectError, Credentials, DescribeClusterError,
    Endpoint, Outcome, Secret, Tls,
};
use testkit::{Authority, Cluster, Identity, Security};

/// A client with this TLS that gives up soon, as it should when it is not let in.
fn client(bootstrap: Vec<Endpoint>, tls: Option<Tls>, sasl: Option<Credentials>) -> Admin {
    let call_timeout = Duration::from_secs(8);
    let options =
        ClientOptions { tls, credentials: sasl, call_timeout, ..ClientOptions::default() };
    Admin::new(Bootstrap::Brokers(bootstrap), options).unwrap()
}

fn tls(authority: &Authority, identity: Option<&Identity>) -> anyhow::Result<Tls> {
    let identity = identity.map(|i| (i.certificate_pem.as_bytes(), i.key_pem.as_bytes()));
    Ok(Tls::new(authority.ca_pem().as_bytes(), identity)?)
}

/// The whole chain of an error, as a person would see it.
fn sentence(error: DescribeClusterError) -> String {
    format!("{:#}", anyhow::Error::from(error))
}

/// Not let in, nothing done; and the sentence says why. Returns whether it is about trust.
async fn refused(admin: Admin, why: &[&str]) -> anyhow::Result<bool> {
    let error = admin.describe_cluster().await.err().context("this client must not get in")?;
    let DescribeClusterError::Call(call) = &error else { anyhow::bail!("{error:?}") };
    let connect = matches!(call, CallError::Connect { .. });
    ensure!(connect && call.outcome() == Outcome::NotDone, "{call:?}");
    let distrust = call.is_distrust();
    let sentence = sentence(error);
    ensure!(why.iter().any(|why| sentence.contains(why)), "{sentence}");
    Ok(distrust)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_clients_that_both_sides_trust_get_in() -> anyhow::Result<()> {
    let cluster =
        Cluster::builder().combined(1).security(Security::Tls).sasl_listeners(true).start().await?;
    let authority = cluster.tls().context("a cluster with TLS")?;
    let good = authority.client_certificate("operator")?;
    let at = || endpoints(cluster.bootstrap_brokers());

    let admin = client(at(), Some(tls(authority, Some(&good))?), None);
    assert_eq!(admin.describe_cluster().await?.id.as_str(), cluster.cluster_id());
    for endpoint in at() {
        admin.reach(&endpoint).await?;
    }
    let controllers = Bootstrap::Controllers(endpoints(cluster.bootstrap_controllers()));
    let with_tls = ClientOptions { tls: Some(tls(authority, Some(&good))?), ..Default::default() };
    let direct = Admin::new(controllers, with_tls)?;
    assert_eq!(direct.describe_quorum().await?.voters.len(), 1);

    let foreign = Authority::new("foreign")?;
    let wrong_ca = client(at(), Some(tls(&foreign, Some(&good))?), None);
    assert!(refused(wrong_ca, &["UnknownIssuer", "BadSignature"]).await?);
    let stranger = foreign.client_certificate("operator")?;
    let foreign_client = client(at(), Some(tls(authority, Some(&stranger))?), None);
    assert!(refused(foreign_client, &["BadCertificate", "CertificateUnknown"]).await?);
    let expired = authority.expired_client_certificate()?;
    let expired = client(at(), Some(tls(authority, Some(&expired))?), None);
    assert!(
        refused(expired, &["CertificateExpired", "BadCertificate", "CertificateUnknown"]).await?
    );
    let missing = client(at(), Some(tls(authority, None)?), None);
    assert!(refused(missing, &["CertificateRequired", "BadCertificate"]).await?);
    let other_name = tls(authority, Some(&good))?.with_server_name("elsewhere.example")?;
    let other_name = client(at(), Some(other_name), None);
    assert!(refused(other_name, &["not valid for name", "NotValidForName"]).await?);
    // Without TLS the node reads our first bytes as TLS and hangs up.
    let plain = client(at(), None, None);
    let error = plain.describe_cluster().await.err().context("plain bytes must not get in")?;
    ensure!(sentence(error).contains("handshake"));

    sasl(&cluster, &admin).await
}

fn plain(username: &str, password: &str) -> Credentials {
    Credentials::Plain { username: username.into(), password: Secret::new(password) }
}

fn scram(username: &str, password: &str) -> Credentials {
    Credentials::ScramSha512 { username: username.into(), password: Secret::new(password) }
}

async fn sasl(cluster: &Cluster, admin: &Admin) -> anyhow::Result<()> {
    let as_user = |who| client(endpoints(cluster.bootstrap_sasl()), None, Some(who));
    let known = as_user(plain("alice", "alice-secret")).describe_cluster().await?;
    assert_eq!(known.id.as_str(), cluster.cluster_id());
    assert!(!refused(as_user(plain("alice", "guess")), &["authentication failed"]).await?);

    admin.set_scram_password("carol", &Secret::new("open, sesame=")).await?;
    eventually("carol gets in", async || {
        let carol = as_user(scram("carol", "open, sesame="));
        Ok(carol.describe_cluster().await.map_err(sentence))
    })
    .await?;
    assert!(!refused(as_user(scram("carol", "guess")), &["authentication failed"]).await?);
    assert!(!refused(as_user(scram("nobody", "x")), &["authentication failed"]).await?);
    let anonymous = client(endpoints(cluster.bootstrap_sasl()), None, None);
    let error = anonymous.describe_cluster().await.err().context("no SASL, no entry")?;
    let DescribeClusterError::Call(call) = error else { anyhow::bail!("refused otherwise") };
    ensure!(
        matches!(
            &call,
            CallError::Lost { .. } | CallError::Connect { source: ConnectError::Handshake(_), .. }
        ),
        "{call:?}"
    );
    Ok(())
}
