//! `--mode remove-disks`: which replicas go to which other disk of their broker.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use anyhow::{Context as _, bail};
use control::rebalance::load::{LoadOptions, Loaded, load};
use model::{NodeId, TopicName};
use operator::rebalance::load::{Source, sample};
use placement::{BrokerDisks, DiskChange, DiskFinding, DiskGoals, View};
use serde_json::{Value, json};

use super::{Balance, PlanFormat, live};
use crate::output::{Format, Grid, Out, terminal_width};

/// What Kafka's reassignment tool writes for a replica that may stay on its disk.
const ANY: &str = "any";

/// A disk, as `BROKER:DIR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Volume {
    broker: NodeId,
    dir: String,
}

impl FromStr for Volume {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').filter(|(_, dir)| !dir.is_empty());
        let (broker, dir) = parts.ok_or_else(|| format!("\"{text}\" is not BROKER:DIR"))?;
        let broker = broker.parse().map_err(|_| format!("\"{broker}\" is not a broker's id"))?;
        Ok(Self { broker, dir: dir.to_owned() })
    }
}

pub(super) fn run(asked: &Balance) -> anyhow::Result<()> {
    let loaded = read(asked)?;
    let mut changes = Vec::new();
    for broker in concerned(&loaded.disks, &asked.volumes)? {
        let (moved, left) = placement::plan_disks(broker, DiskGoals::Empty);
        if let Some(why) = left.iter().find_map(DiskFinding::refusal) {
            bail!("{why}");
        }
        changes.extend(moved);
    }
    let mut out = Out::new(Format::Table);
    match asked.output {
        PlanFormat::Json => out.text(&json(&loaded.view, &changes)?)?,
        PlanFormat::Table | PlanFormat::Csv => out.text(&table(&changes))?,
    }
    Ok(())
}

/// The cluster as it is now; how fast partitions grow does not matter.
fn read(asked: &Balance) -> anyhow::Result<Loaded> {
    let session = live::session(asked)?;
    let now = live::runtime()?.block_on(async {
        let source = Source { admin: &session.admin, nodes: None };
        sample(&source).await
    })?;
    let removed_disks: BTreeSet<_> =
        asked.volumes.iter().map(|volume| (volume.broker, volume.dir.clone())).collect();
    let options = LoadOptions { removed_disks, ..LoadOptions::default() };
    load(&now, None, &options).context("the state of the cluster is inconsistent")
}

/// The brokers of these volumes.
fn concerned<'a>(
    all: &'a [BrokerDisks],
    volumes: &[Volume],
) -> anyhow::Result<Vec<&'a BrokerDisks>> {
    let mut found: Vec<&BrokerDisks> = Vec::new();
    for Volume { broker, dir } in volumes {
        let Some(disks) = all.iter().find(|one| one.broker == *broker) else {
            bail!("the disks of broker {broker} are unknown: is it running?");
        };
        let paths: Vec<&str> = disks.disks.iter().map(|disk| disk.path.as_str()).collect();
        if !paths.contains(&dir.as_str()) {
            bail!("broker {broker} has no disk {dir}; it has {}", paths.join(", "));
        }
        if found.iter().all(|one| one.broker != *broker) {
            found.push(disks);
        }
    }
    Ok(found)
}

fn table(changes: &[DiskChange]) -> String {
    let mb: f64 = changes.iter().map(|change| change.mb).sum();
    let mut grid = Grid::new(&["BROKER", "PARTITION", "FROM", "TO", "MB"]);
    for change in changes {
        grid.row([
            change.broker.to_string(),
            format!("{}-{}", change.topic, change.partition),
            change.from.clone(),
            change.to.clone(),
            format!("{:.0}", change.mb),
        ]);
    }
    format!("Moves:  {} replicas, {mb:.0} MB\n\n{}", changes.len(), grid.take(terminal_width()))
}

/// In the format of Kafka's own reassignment tool.
fn json(view: &View, changes: &[DiskChange]) -> anyhow::Result<String> {
    let mut changed: BTreeMap<(&TopicName, u32), BTreeMap<NodeId, &str>> = BTreeMap::new();
    for change in changes {
        let partition = changed.entry((&change.topic, change.partition)).or_default();
        partition.insert(change.broker, &change.to);
    }
    let partition = |at: usize| {
        let (topic, number) = view.partition_name(at);
        let to = changed.get(&(topic, number))?;
        let brokers = view.assignment()[view.slots(at)].iter();
        let ids: Vec<NodeId> =
            brokers.map(|index| view.brokers()[usize::from(*index)].id).collect();
        let dirs: Vec<&str> = ids.iter().map(|id| to.get(id).copied().unwrap_or(ANY)).collect();
        Some(json!({ "topic": topic, "partition": number, "replicas": ids, "log_dirs": dirs }))
    };
    let partitions: Vec<Value> = (0..view.partitions()).filter_map(partition).collect();
    let mb: f64 = changes.iter().map(|change| change.mb).sum();
    let shown = json!({ "version": 1, "partitions": partitions, "movedMb": mb });
    Ok(serde_json::to_string_pretty(&shown).context("cannot write JSON")? + "\n")
}
