//! Two organisations whose Kafkas are on one data plane: each reaches its own, and none the other's.
//!
//! What is tried is what a neighbour could have: the address of the other Kafka and its certificate authority, with no
//! credentials, and with valid credentials for the neighbour's own Kafka; at the listener for clients and at those for
//! brokers and controllers, which pods can reach where no NetworkPolicy is enforced.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use api::names::{CONTROLLER_PORT, REPLICATION_PORT};
use kafka_admin::proto::ConnectionError;
use kafka_admin::{
    Admin, Bootstrap, ClientOptions, Code, Credentials, Endpoint, LinkError, NewTopic, Secret, Tls,
};
use model::TopicName;
use serde_json::Value;

use super::view::{Access, Fleet, Kafka, ORGANISATIONS, View};
use crate::commands::hosts::Hosts;

/// Between two attempts to reach a Kafka with credentials that were just created.
const PAUSE: Duration = Duration::from_millis(500);

/// A listener of a Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listener {
    Clients,
    Brokers,
    Controllers,
}

const LISTENERS: [Listener; 3] = [Listener::Clients, Listener::Brokers, Listener::Controllers];

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
        let clients = servers(fleet, plane, (own.kafka, &own.shown, Listener::Clients))?;
        while let Err(error) = reach(fleet, plane, (&own.shown, &clients), Some(&own.access)).await
        {
            let context = format!("{name} cannot reach {}", own.kafka.name);
            anyhow::ensure!(begun.elapsed() < patience, "{context}: {error:#}");
            tokio::time::sleep(PAUSE).await;
        }
        seen.push(format!("{name} creates a topic in {}", own.kafka.name));
    }
    for (own, other) in [(&tenants[0], &tenants[1]), (&tenants[1], &tenants[0])] {
        let name = ORGANISATIONS[own.kafka.organisation];
        for (with, access) in [("without credentials", None), ("with its own", Some(&own.access))] {
            for listener in LISTENERS {
                refused(fleet, plane, (other.kafka, &other.shown, listener), access)
                    .await
                    .with_context(|| {
                        format!("{name} {with} at {listener:?} of {}", other.kafka.name)
                    })?;
            }
        }
        seen.push(format!("{name} is refused by {} at every listener", other.kafka.name));
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

/// The addresses of a listener. Those that are not for clients are found by the names of the pods.
fn servers(
    fleet: &Fleet,
    plane: &str,
    (kafka, shown, listener): (&Kafka, &Value, Listener),
) -> anyhow::Result<Vec<Endpoint>> {
    let port = match listener {
        Listener::Clients => {
            let bootstrap = shown["bootstrap_server_host"].as_str();
            let bootstrap = bootstrap.context("the Kafka has no bootstrap address")?;
            let servers = bootstrap.split(',').map(str::parse).collect::<Result<_, _>>();
            return servers.context("not the address of a Kafka");
        }
        Listener::Brokers => REPLICATION_PORT,
        Listener::Controllers => CONTROLLER_PORT,
    };
    let hosts = std::fs::read_to_string(fleet.hosts(plane)).context("cannot read the names")?;
    let suffix = format!(".{}-kafka-brokers.kafka-{}.svc", kafka.name, kafka.id);
    let pods = hosts.split_whitespace().filter(|name| name.ends_with(&suffix));
    let servers: Vec<_> =
        pods.map(|pod| format!("{pod}:{port}").parse()).collect::<Result<_, _>>()?;
    anyhow::ensure!(!servers.is_empty(), "no pod of {} has a name", kafka.name);
    Ok(servers)
}

/// Creates a topic in a Kafka.
async fn reach(
    fleet: &Fleet,
    plane: &str,
    (shown, servers): (&Value, &[Endpoint]),
    access: Option<&Access>,
) -> anyhow::Result<()> {
    let authority = shown["ca_certificate"].as_str().context("the Kafka has no ca_certificate")?;
    let options = ClientOptions {
        tls: Some(Tls::new(authority.as_bytes(), None)?),
        credentials: access.map(|access| Credentials::ScramSha512 {
            username: access.username.clone(),
            password: Secret::new(access.password.clone()),
        }),
        names: Hosts::of_file(fleet.hosts(plane)).names(None)?,
        wait_for_nodes: false,
        ..ClientOptions::default()
    };
    let admin = Admin::new(Bootstrap::Brokers(servers.to_vec()), options)?;
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
    (kafka, shown, listener): (&Kafka, &Value, Listener),
    access: Option<&Access>,
) -> anyhow::Result<()> {
    let servers = servers(fleet, plane, (kafka, shown, listener))?;
    match reach(fleet, plane, (shown, &servers), access).await {
        Ok(()) => anyhow::bail!("a stranger has created a topic"),
        Err(error) if is_refused(&error, listener, access.is_some()) => Ok(()),
        Err(error) => Err(error.context("it is not refused, but fails")),
    }
}

/// Whether the Kafka itself refused the client. The listener for clients says that credentials are wrong, and disconnects a
/// client without any; the others trust certificates that no client has.
fn is_refused(error: &anyhow::Error, listener: Listener, has_credentials: bool) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<LinkError>()).any(|cause| match cause {
        LinkError::Protocol(ConnectionError::Sasl(_)) => {
            listener == Listener::Clients && has_credentials
        }
        LinkError::Closed => listener == Listener::Clients && !has_credentials,
        LinkError::Tls { distrust, .. } => listener != Listener::Clients && *distrust,
        _ => false,
    })
}
