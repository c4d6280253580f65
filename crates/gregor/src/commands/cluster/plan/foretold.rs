//! The plan of an edit: the operator is run forward in the simulator, from what was observed.

use std::collections::BTreeMap;

use anyhow::Context as _;
use kafka_admin::LogDir;
use model::{NodeId, TopicPartition};
use operator::cluster::foresee::{Beginning, Stage, View};
use sim::whole::{Forward, Paces, Start, forward};

/// The plan of an edit.
#[derive(Debug)]
pub(super) struct Foretold {
    pub(super) forward: Forward,
    /// What durations are based on.
    pub(super) basis: Vec<String>,
    /// The resources as they would be.
    pub(super) beginning: Beginning,
}

/// The sizes of partitions: that of the largest replica.
pub(crate) type Sizes = BTreeMap<TopicPartition, u64>;

/// The sizes of partitions, from the log directories of brokers.
pub(crate) fn sizes(disks: &BTreeMap<NodeId, Vec<LogDir>>) -> Sizes {
    let mut sizes = Sizes::new();
    for replica in disks.values().flatten().flat_map(|dir| &dir.replicas) {
        if !replica.future {
            let size = sizes.entry(replica.partition.clone()).or_default();
            *size = (*size).max(replica.size_bytes);
        }
    }
    sizes
}

/// Plans an edit. The simulator has a thread of its own: it takes seconds for a large cluster.
pub(super) async fn foretell(
    stage: &Stage,
    (present, edited): (Option<&View>, &View),
    sizes: Sizes,
) -> anyhow::Result<Foretold> {
    let beginning = stage.beginning(present, edited).await?;
    let beginning = beginning.context("the edited cluster was not observed")?;
    let (paces, basis) = Paces::measured(&beginning.found, beginning.record.as_ref());
    let start = start(beginning.clone(), sizes, paces);
    let forward = tokio::task::spawn_blocking(move || forward(start)).await;
    Ok(Foretold { forward: forward.context("the simulation failed")?, basis, beginning })
}

fn start(beginning: Beginning, sizes: Sizes, pace: Paces) -> Start {
    Start {
        kafka: beginning.kafka,
        found: beginning.found,
        record: beginning.record,
        snapshot: beginning.snapshot,
        marks: beginning.marks,
        sizes,
        images: beginning.images,
        domain: beginning.domain,
        classes: beginning.classes,
        metrics: beginning.config_maps,
        pace,
    }
}
