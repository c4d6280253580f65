//! Reading a cluster that runs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use control::rebalance::load::{Given, LoadOptions, Mark, Sample, Unknown, load};
use model::{NodeId, TopicName};
use operator::rebalance::load::{Source, sample};
use placement::Rate;
use tokio::runtime::Runtime;

use super::super::kafka::connection::Session;
use super::{Balance, Cluster};

/// What brokers can take of the network, KB a second: the same for all, and more than any takes in, so that
/// brokers are compared with each other and not with an invented number.
const NETWORK_KB: f64 = 10_000_000.0;

/// The way to the brokers.
pub(super) fn session(asked: &Balance) -> anyhow::Result<Session> {
    let session = asked.connection.session(&|name| std::env::var(name).ok())?;
    session.require_brokers("what they carry")?;
    Ok(session)
}

pub(super) fn runtime() -> anyhow::Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")
}

/// Reads what the cluster carries, twice if it is to be watched.
pub(super) fn read(asked: &Balance) -> anyhow::Result<Cluster> {
    let session = session(asked)?;
    let (earlier, now) = runtime()?.block_on(async {
        let source = Source { admin: &session.admin, nodes: None };
        let first = sample(&source).await?;
        if asked.sample == 0 {
            return Ok::<_, anyhow::Error>((None, first));
        }
        tokio::time::sleep(Duration::from_secs(asked.sample)).await;
        Ok((Some(first.mark()), sample(&source).await?))
    })?;
    cluster(asked, earlier.as_ref(), &now)
}

fn cluster(asked: &Balance, earlier: Option<&Mark>, now: &Sample) -> anyhow::Result<Cluster> {
    let given = Given { network_in_kb: Some(NETWORK_KB), ..Given::default() };
    let capacities: BTreeMap<NodeId, Given> =
        now.brokers.keys().map(|broker| (*broker, given)).collect();
    let options = LoadOptions {
        capacities,
        added: asked.add.iter().copied().collect(),
        removed: asked.remove.iter().copied().collect(),
        pinned: &|topic: &TopicName| asked.exclude_topics.contains(topic),
        ..LoadOptions::default()
    };
    let loaded =
        load(now, earlier, &options).context("the state of the cluster is inconsistent")?;
    // Of these nothing is known anyway, and that is said once.
    let said = |unknown: &Unknown| {
        !matches!(unknown, Unknown::Capacity { rate: Rate::Outbound | Rate::Cpu, .. })
    };
    let unknown = loaded.unknown.into_iter().filter(said).collect();
    Ok(Cluster { view: loaded.view, named: "the cluster".to_owned(), unknown })
}
