//! Two organisations whose Kafkas are on one data plane: each reaches its own, and none the other's.
//!
//! What is tried is what a neighbour could have: the address of the other Kafka and its certificate authority, with no
//! credentials, and with valid credentials for the neighbour's own Kafka.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use kafka_admin::proto::ConnectionError;
use kafka_admin::{
    Admin, Bootstrap, ClientOptions, Code, Credentials, LinkError, NewTopic, Secret, Tls,
};
use model::TopicName;
use serde_json::Value;

use super::view::{Access, Fleet, Kafka, ORGANISATIONS, View};
use crate::commands::hosts::Hosts;

/// Between two attempts to reach a Kafka with credentials that were just created.
const PAUSE: Duration = Duration::from_millis(500);

/// A Kafka with what its owner knows.
struct Tenant<'a> {
    kafka: &'a Kafka,
    shown: Value,
    access: Access,
}

/// Checks it, and returns what was seen.
///
/// # Errors
/// If an organisation sees or reaches what is not its own, or cannot reach its own.
pub(super) async fn check(
    fleet: &Fleet,
    view: &View,
    plane: &str,
    patience: Duration,
) -> anyhow::Result<Vec<String>> {
    let mut tenants = Vec::new();
    for (organisation, name) in ORGANISATIONS.iter().enumerate() {
        let mut of = view.kafkas.iter().filter(|kafka| kafka.organisation == organisation);
        let kafka = of.next().with_context(|| format!("organisation {name} has no Kafka"))?;
        tenants.push(tenant(fleet, kafka).await?);
    }
    let mut seen = Vec::new();
    for (own, other) in [(&tenants[0], &tenants[1]), (&tenants[1], &tenants[0])] {
        let name = ORGANISATIONS[own.kafka.organisation];
        sees_only_its_own(fleet, own.kafka, other.kafka).await?;
        let begun = Instant::now();
        // The operator has to read the new user first.
        while let Err(error) = reach(fleet, plane, &own.shown, Some(&own.access)).await {
            let context = format!("{name} cannot reach {}", own.kafka.name);
            anyhow::ensure!(begun.elapsed() < patience, "{context}: {error:#}");
            tokio::time::sleep(PAUSE).await;
        }
        seen.push(format!("{name} creates a topic in {}", own.kafka.name));
    }
    for (own, other) in [(&tenants[0], &tenants[1]), (&tenants[1], &tenants[0])] {
        let name = ORGANISATIONS[own.kafka.organisation];
        for (with, access) in [("without credentials", None), ("with its own", Some(&own.access))] {
            refused(fleet, plane, &other.shown, access)
                .await
                .with_context(|| format!("{name} {with} in {}", other.kafka.name))?;
        }
        seen.push(format!("{name} is refused by {}", other.kafka.name));
    }
    Ok(seen)
}

async fn tenant<'a>(fleet: &Fleet, kafka: &'a Kafka) -> anyhow::Result<Tenant<'a>> {
    let shown = fleet.kafka(kafka.organisation, &kafka.id).await?;
    let shown = shown.with_context(|| format!("{} is gone", kafka.name))?;
    let access = fleet.credentials(kafka.organisation, &kafka.id).await?;
    let access = access.with_context(|| format!("the owner of {} is refused", kafka.name))?;
    Ok(Tenant { kafka, shown, access })
}

/// The API shows an organisation nothing of the other.
async fn sees_only_its_own(fleet: &Fleet, own: &Kafka, other: &Kafka) -> anyhow::Result<()> {
    let listed = fleet.kafkas_of(own.organisation).await?;
    anyhow::ensure!(listed.iter().any(|one| one.id == own.id), "{} is not listed", own.name);
    anyhow::ensure!(listed.iter().all(|one| one.id != other.id), "{} is listed", other.name);
    let shown = fleet.kafka(own.organisation, &other.id).await?;
    anyhow::ensure!(shown.is_none(), "{} is shown to a stranger", other.name);
    let access = fleet.credentials(own.organisation, &other.id).await?;
    anyhow::ensure!(access.is_none(), "a stranger gets credentials of {}", other.name);
    Ok(())
}

/// Creates a topic in a Kafka.
async fn reach(
    fleet: &Fleet,
    plane: &str,
    shown: &Value,
    access: Option<&Access>,
) -> anyhow::Result<()> {
    let text =
        |name: &str| shown[name].as_str().with_context(|| format!("the Kafka has no {name}"));
    let servers = text("bootstrap_server_host")?.split(',').map(str::parse);
    let servers = servers.collect::<Result<_, _>>().context("not the address of a Kafka")?;
    let options = ClientOptions {
        tls: Some(Tls::new(text("ca_certificate")?.as_bytes(), None)?),
        credentials: access.map(|access| Credentials::ScramSha512 {
            username: access.username.clone(),
            password: Secret::new(access.password.clone()),
        }),
        names: Hosts::of_file(fleet.hosts(plane)).names(None)?,
        wait_for_nodes: false,
        ..ClientOptions::default()
    };
    let admin = Admin::new(Bootstrap::Brokers(servers), options)?;
    let name: TopicName = "orders".parse()?;
    let created = admin.create_topics(&[NewTopic::new(name.clone(), 1, 1)], false).await?;
    match created.get(&name) {
        Some(Ok(_)) => Ok(()),
        Some(Err(refusal)) if refusal.code == Code::TOPIC_ALREADY_EXISTS => Ok(()),
        other => anyhow::bail!("the topic is not created: {other:?}"),
    }
}

/// Tries to create a topic in a Kafka.
///
/// # Errors
/// If it was not the Kafka that refused the client.
async fn refused(
    fleet: &Fleet,
    plane: &str,
    shown: &Value,
    access: Option<&Access>,
) -> anyhow::Result<()> {
    match reach(fleet, plane, shown, access).await {
        Ok(()) => anyhow::bail!("a stranger has created a topic"),
        Err(error) if is_refused(&error, access.is_some()) => Ok(()),
        Err(error) => Err(error.context("it is not refused, but fails")),
    }
}

/// Whether the Kafka itself refused the client: it says that credentials are wrong, and disconnects a client without any.
fn is_refused(error: &anyhow::Error, has_credentials: bool) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<LinkError>()).any(|cause| match cause {
        LinkError::Protocol(ConnectionError::Sasl(_)) => has_credentials,
        LinkError::Closed => !has_credentials,
        _ => false,
    })
}
