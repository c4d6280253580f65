//! A cluster in a folder: reading it, and writing it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, bail, ensure};
use flate2::read::GzDecoder;
use model::{NodeId, TopicName};
use placement::{BrokerSpec, BrokerState, Capacity, LeaderLoad, View, ViewBuilder};

const BROKERS: &str = "brokers.csv";
const BROKERS_HEADER: &str = "id,rack,cpu_capacity_pct,nw_in_capacity_kbps,nw_out_capacity_kbps,\
                              disk_capacity_mb,state";
const PARTITIONS: &str = "partitions.csv";
const PARTITIONS_HEADER: &str = "topic,partition,replicas,cpu_pct,nw_in_kbps,nw_out_kbps,disk_mb";

/// Reads the brokers and partitions; `state` has the last word on the state of a broker that lives.
pub(super) fn read(
    dir: &Path,
    state: &dyn Fn(NodeId, BrokerState) -> BrokerState,
) -> anyhow::Result<ViewBuilder> {
    let mut builder = ViewBuilder::default();
    each_line(&dir.join(BROKERS), BROKERS_HEADER, |fields: [&str; 7]| {
        let [id, rack, cpu, inbound, outbound, disk, given] = fields;
        let id: NodeId = id.parse()?;
        let capacity = Capacity {
            cpu_percent: number(cpu)?,
            network_in_kb: number(inbound)?,
            network_out_kb: number(outbound)?,
            disk_mb: number(disk)?,
        };
        let state = match given {
            "alive" => state(id, BrokerState::Alive),
            "new" => state(id, BrokerState::New),
            "remove" => state(id, BrokerState::Removed),
            "dead" => BrokerState::Removed,
            other => bail!("\"{other}\" is not alive, new, remove or dead"),
        };
        let rack = Some(rack.to_owned()).filter(|rack| !rack.is_empty());
        Ok(builder.broker(BrokerSpec { id, rack, capacity, state })?)
    })?;
    let plain = dir.join(PARTITIONS);
    let path = if plain.exists() { plain } else { dir.join(format!("{PARTITIONS}.gz")) };
    let mut topic: Option<TopicName> = None;
    let mut replicas = Vec::new();
    each_line(&path, PARTITIONS_HEADER, |fields: [&str; 7]| {
        let [name, partition, brokers, cpu, inbound, outbound, disk] = fields;
        let topic = match &mut topic {
            Some(topic) if topic.as_str() == name => topic,
            other => other.insert(name.parse()?),
        };
        replicas.clear();
        for broker in brokers.split(';') {
            replicas.push(broker.parse::<NodeId>()?);
        }
        let load = LeaderLoad {
            cpu_percent: number(cpu)?,
            network_in_kb: number(inbound)?,
            network_out_kb: number(outbound)?,
            disk_mb: number(disk)?,
        };
        let partition = u32::from_str(partition)
            .with_context(|| format!("\"{partition}\" is not the number of a partition"))?;
        Ok(builder.partition(topic, partition, &replicas, load)?)
    })?;
    Ok(builder)
}

/// Writes a view as [`read`] reads it.
pub(super) fn write(dir: &Path, view: &View) -> anyhow::Result<()> {
    let named = |name: &str| dir.join(name).display().to_string();
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut text = format!("{BROKERS_HEADER}\n");
    for broker in view.brokers() {
        let Capacity { cpu_percent, network_in_kb, network_out_kb, disk_mb } = broker.capacity;
        let rack = broker.rack.as_deref().unwrap_or_default();
        let state = match broker.state {
            BrokerState::Alive => "alive",
            BrokerState::New => "new",
            BrokerState::Removed => "remove",
        };
        let numbers = format!("{cpu_percent},{network_in_kb},{network_out_kb},{disk_mb}");
        let _ = writeln!(text, "{},{rack},{numbers},{state}", broker.id);
    }
    let result = fs::write(dir.join(BROKERS), &text);
    result.with_context(|| format!("cannot write {}", named(BROKERS)))?;
    text = format!("{PARTITIONS_HEADER}\n");
    for partition in 0..view.partitions() {
        let (topic, number) = view.partition_name(partition);
        let brokers = &view.assignment()[view.slots(partition)];
        let ids: Vec<String> =
            brokers.iter().map(|at| view.brokers()[usize::from(*at)].id.to_string()).collect();
        let LeaderLoad { cpu_percent, network_in_kb, network_out_kb, disk_mb } =
            view.leader_load(partition);
        let numbers = format!("{cpu_percent},{network_in_kb},{network_out_kb},{disk_mb}");
        let _ = writeln!(text, "{topic},{number},{},{numbers}", ids.join(";"));
    }
    let result = fs::write(dir.join(PARTITIONS), &text);
    result.with_context(|| format!("cannot write {}", named(PARTITIONS)))
}

fn number(text: &str) -> anyhow::Result<f64> {
    text.trim().parse().with_context(|| format!("\"{text}\" is not a number"))
}

/// Calls `take` with the fields of every line below the header; an error names file and line.
fn each_line<const N: usize>(
    path: &Path,
    header: &str,
    mut take: impl FnMut([&str; N]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let named = || path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot read {}", named()))?;
    let zipped = path.extension().is_some_and(|extension| extension == "gz");
    let mut reader: Box<dyn BufRead> = if zipped {
        Box::new(BufReader::new(GzDecoder::new(file)))
    } else {
        Box::new(BufReader::new(file))
    };
    let mut line = String::new();
    for at in 1.. {
        line.clear();
        let read =
            reader.read_line(&mut line).with_context(|| format!("cannot read {}", named()))?;
        if read == 0 {
            ensure!(at > 1, "{} is empty", named());
            break;
        }
        let text = line.trim_end();
        if at == 1 {
            ensure!(text == header, "the first line of {} is not \"{header}\"", named());
            continue;
        }
        let fields: Vec<&str> = text.split(',').collect();
        let count = fields.len();
        let result = match <[&str; N]>::try_from(fields) {
            Ok(fields) => take(fields),
            Err(_) => Err(anyhow::anyhow!("it has {count} fields instead of {N}")),
        };
        result.with_context(|| format!("line {at} of {}", named()))?;
    }
    Ok(())
}
