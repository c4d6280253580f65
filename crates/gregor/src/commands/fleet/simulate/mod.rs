//! `gregor fleet simulate`: months of demand against the decisions, in seconds.

mod chart;
mod search;
mod trace;

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use fleet_control::{Arrival, Capacity, Failures, Outcome, Policy, simulate};
use serde_json::{Value, json};

use crate::output::{Format, Grid, Out};

pub(crate) const EXAMPLES: &str = "\
The trace has one line per Kafka: the minute of its creation, its lifetime in minutes, region, connections,
partitions and, optionally, the number of its zones (1 or 3; default 3).

  0,43200,us-east-1,9000,1500
  15,1440,eu-west-1,100,100,1

Or it has the creations and deletions of named Kafkas:

  0,create,orders,us-east-1,9000,1500,3
  43200,delete,orders

Examples:
  gregor fleet simulate --trace demand.csv
  gregor fleet simulate --trace demand.csv --policy gregor --policy letter --nodes-max 30
  gregor fleet simulate --trace demand.csv --node-type m5.xlarge,1500,250,192,4 --node-type m5.2xlarge,3000,500,384,5
  gregor fleet simulate --trace demand.csv --mtbf-hours 4000 --csv out.csv --svg out.svg
  gregor fleet simulate --trace demand.csv --search --wait-p99-max 15 --refused-max 0";

/// Options of the simulation.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// Trace of the demand; - for stdin
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Policy; may be repeated [default: all]
    #[arg(long, value_enum)]
    policy: Vec<Name>,
    /// Type of nodes: NAME,CONNECTIONS,PARTITIONS,PRICE,MINUTES with the price of an hour in thousandths and the minutes until
    /// a node is ready; may be repeated [default: one by the options below]
    #[arg(long, value_name = "TYPE", value_parser = node_type)]
    node_type: Vec<NodeType>,
    /// Capacity of a node, in connections
    #[arg(long, default_value_t = 3000)]
    node_connections: u64,
    /// Capacity of a node, in partitions
    #[arg(long, default_value_t = 500)]
    node_partitions: u64,
    /// Size of a Kafka of Model T, in connections
    #[arg(long, default_value_t = 100)]
    model_t_connections: u64,
    /// Size of a Kafka of Model T, in partitions
    #[arg(long, default_value_t = 100)]
    model_t_partitions: u64,
    /// Minimum nodes of a data plane
    #[arg(long, default_value_t = 3)]
    nodes_min: u32,
    /// Maximum nodes of a data plane
    #[arg(long, default_value_t = 18)]
    nodes_max: u32,
    /// Minutes until a new node is ready
    #[arg(long, default_value_t = 5)]
    node_minutes: u64,
    /// Minutes until a new data plane is ready
    #[arg(long, default_value_t = 40)]
    plane_minutes: u64,
    /// Minutes after a step up in which no node is removed
    #[arg(long, default_value_t = 10)]
    cool_down_minutes: u64,
    /// Minutes that a Kafka waits before it is refused
    #[arg(long, default_value_t = 60)]
    patience_minutes: u64,
    /// Price of a node for an hour, in thousandths
    #[arg(long, default_value_t = 0)]
    node_price: u64,
    /// Hours that a machine works on average until it fails [default: none fails]
    #[arg(long, value_name = "HOURS")]
    mtbf_hours: Option<u64>,
    /// Minutes until a failed machine works again
    #[arg(long, value_name = "MINUTES", default_value_t = 30)]
    repair_minutes: u64,
    /// Try steps, reserves and cool-downs, and show the cheapest policies within the limits
    #[arg(long, conflicts_with = "policy")]
    search: bool,
    /// Limit of the search: minutes that 99 of 100 Kafkas wait at most
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    wait_p99_max: u64,
    /// Limit of the search: refused Kafkas
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    refused_max: u64,
    /// Limit of the search: nodes that were removed and came back within a day
    #[arg(long, value_name = "NUMBER", default_value_t = u64::MAX, hide_default_value = true)]
    flaps_max: u64,
    /// File to write the result to as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// File to write a chart of the nodes over time to
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Output format
    #[arg(long, short = 'o', value_enum, default_value = "table")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// The fleet manager's policy: capacity for one more Kafka of Model T
    Gregor,
    /// The letter of the specification: nodes are removed even if the next report adds them again
    Letter,
    /// Capacity for four Kafkas of Model T: fewer wait, more nodes
    Eager,
    /// Steps of six nodes
    Strides,
}

/// A type of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NodeType {
    /// Empty if there is only one.
    name: String,
    room: Capacity,
    price_per_hour: u64,
    boot_minutes: u64,
}

/// A policy with its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tried {
    name: String,
    policy: Policy,
    outcome: Outcome,
}

fn room(connections: u64, partitions: u64) -> Capacity {
    Capacity { connections, partitions, ..Capacity::default() }
}

fn node_type(text: &str) -> Result<NodeType, String> {
    let words: Vec<_> = text.split(',').map(str::trim).collect();
    let &[name, connections, partitions, price, minutes] = words.as_slice() else {
        return Err("expected NAME,CONNECTIONS,PARTITIONS,PRICE,MINUTES".to_owned());
    };
    let number = |word: &str| word.parse::<u64>().map_err(|_| format!("{word:?} is not a number"));
    Ok(NodeType {
        name: name.to_owned(),
        room: room(number(connections)?, number(partitions)?),
        price_per_hour: number(price)?,
        boot_minutes: number(minutes)?,
    })
}

impl Simulate {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let text = match self.trace.to_str() {
            Some("-") => std::io::read_to_string(std::io::stdin()),
            _ => fs::read_to_string(&self.trace),
        };
        let text = text.with_context(|| format!("cannot read {:?}", self.trace))?;
        let arrivals = trace::parse(&text)?;
        let tried = if self.search { self.search(&arrivals)? } else { self.compare(&arrivals) };
        let write = |file: &Option<PathBuf>, text: String| match file {
            Some(file) => fs::write(file, text).with_context(|| format!("cannot write {file:?}")),
            None => Ok(()),
        };
        write(&self.csv, csv(&tried))?;
        write(&self.svg, chart::svg(&tried))?;
        let text = match self.output {
            Format::Table => table(&tried),
            Format::Json => json(&tried)?,
        };
        Out::new(self.output).text(&text)
    }

    fn compare(&self, arrivals: &[Arrival]) -> Vec<Tried> {
        let all = [Name::Gregor, Name::Letter, Name::Eager, Name::Strides];
        let names = if self.policy.is_empty() { all.to_vec() } else { self.policy.clone() };
        let mut tried = Vec::new();
        for node in self.node_types() {
            for name in &names {
                let policy = self.policy_of(*name, &node);
                let name = called(&word(*name), &node);
                tried.push(Tried { name, policy, outcome: simulate(arrivals, &policy) });
            }
        }
        tried
    }

    fn node_types(&self) -> Vec<NodeType> {
        if !self.node_type.is_empty() {
            return self.node_type.clone();
        }
        vec![NodeType {
            name: String::new(),
            room: room(self.node_connections, self.node_partitions),
            price_per_hour: self.node_price,
            boot_minutes: self.node_minutes,
        }]
    }

    fn model_t(&self) -> Capacity {
        room(self.model_t_connections, self.model_t_partitions)
    }

    fn policy_of(&self, name: Name, node: &NodeType) -> Policy {
        let reserve = if name == Name::Eager { 4 } else { 1 };
        Policy {
            headroom: self.model_t().times(reserve),
            per_node: node.room,
            nodes_min: self.nodes_min,
            nodes_max: self.nodes_max,
            node_delta: if name == Name::Strides { 6 } else { 3 },
            node_minutes: node.boot_minutes,
            plane_minutes: self.plane_minutes,
            patience_minutes: self.patience_minutes,
            cool_down_minutes: self.cool_down_minutes,
            price_per_hour: node.price_per_hour,
            failures: self.mtbf_hours.map(|hours| Failures {
                mean_minutes: hours.saturating_mul(60),
                repair_minutes: self.repair_minutes,
            }),
            by_the_letter: name == Name::Letter,
        }
    }
}

/// The name of a policy with a type of nodes.
fn called(policy: &str, node: &NodeType) -> String {
    match node.name.as_str() {
        "" => policy.to_owned(),
        name => format!("{policy}/{name}"),
    }
}

fn word(name: Name) -> String {
    name.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// An amount of money from thousandths.
fn money(thousandths: u64) -> String {
    format!("{}.{:02}", thousandths / 1000, thousandths % 1000 / 10)
}

const COLUMNS: [&str; 12] = [
    "POLICY",
    "COST",
    "NODE-HOURS",
    "PLACED",
    "REFUSED",
    "WAIT-P50",
    "WAIT-P99",
    "STEPS",
    "FLAPS",
    "FAILURES",
    "PLANES",
    "PEAK",
];

fn table(tried: &[Tried]) -> String {
    let mut grid = Grid::new(&COLUMNS);
    for Tried { name, outcome: one, .. } in tried {
        let wait = |percent| one.wait(percent).map(|minutes| format!("{minutes} min"));
        grid.row([
            name.clone(),
            money(one.cost),
            (one.node_minutes / 60).to_string(),
            one.placed.to_string(),
            one.refused.to_string(),
            wait(50).unwrap_or_default(),
            wait(99).unwrap_or_default(),
            format!("+{} -{}", one.steps_up, one.steps_down),
            one.flaps.to_string(),
            one.failures.to_string(),
            format!("+{} -{}", one.planes_created, one.planes_removed),
            one.planes_peak.to_string(),
        ]);
    }
    grid.take(None)
}

/// A line for each policy. A name has no comma: those of node types are cut at commas.
fn csv(tried: &[Tried]) -> String {
    let mut text =
        "policy,cost,node_hours,placed,refused,wait_p50_minutes,wait_p99_minutes,steps_up,\
                    steps_down,flaps,failures,planes_created,planes_removed,planes_peak\n"
            .to_owned();
    for Tried { name, outcome: one, .. } in tried {
        let wait = |percent| one.wait(percent).map(|one| one.to_string()).unwrap_or_default();
        let cells = [
            name.clone(),
            money(one.cost),
            (one.node_minutes / 60).to_string(),
            one.placed.to_string(),
            one.refused.to_string(),
            wait(50),
            wait(99),
            one.steps_up.to_string(),
            one.steps_down.to_string(),
            one.flaps.to_string(),
            one.failures.to_string(),
            one.planes_created.to_string(),
            one.planes_removed.to_string(),
            one.planes_peak.to_string(),
        ];
        text += &cells.join(",");
        text.push('\n');
    }
    text
}

fn json(tried: &[Tried]) -> anyhow::Result<String> {
    let items = tried.iter().map(|Tried { name, policy, outcome: one }| {
        json!({
            "policy": name, "costThousandths": one.cost, "nodeMinutes": one.node_minutes,
            "placed": one.placed, "refused": one.refused, "waitP50Minutes": one.wait(50),
            "waitP99Minutes": one.wait(99), "stepsUp": one.steps_up, "stepsDown": one.steps_down,
            "flaps": one.flaps, "failures": one.failures, "planesCreated": one.planes_created,
            "planesRemoved": one.planes_removed, "planesPeak": one.planes_peak,
            "nodeDelta": policy.node_delta, "coolDownMinutes": policy.cool_down_minutes,
            "reserveConnections": policy.headroom.connections,
        })
    });
    let value: Value = items.collect();
    Ok(serde_json::to_string_pretty(&value).context("cannot write JSON")? + "\n")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        simulate: Simulate,
    }

    pub(super) fn options(words: &[&str]) -> Simulate {
        let words = ["simulate", "--trace", "-"].iter().chain(words);
        Line::parse_from(words).simulate
    }

    /// Kafkas of a third of a node that come each hour and stay for a day.
    pub(super) fn demand() -> Vec<Arrival> {
        let lines: String =
            (0..100).map(|hour| format!("{},1440,us,1000,100\n", hour * 60)).collect();
        trace::parse(&lines).unwrap()
    }

    #[test]
    fn every_policy_is_tried_with_every_type_of_nodes() {
        let small = ["--node-type", "small,1500,250,100,4"];
        let large = ["--node-type", "large,3000,500,200,8"];
        let simulate = options(
            &[&small[..], &large[..], &["--policy", "gregor", "--policy", "eager"]].concat(),
        );
        let tried = simulate.compare(&demand());
        let names: Vec<_> = tried.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["gregor/small", "eager/small", "gregor/large", "eager/large"]);
        let text = table(&tried);
        assert_eq!(text.lines().count(), 5, "{text}");
        let cost = |at: usize| tried[at].outcome.cost;
        assert!(cost(0) > 0 && cost(1) >= cost(0), "{text}");
        assert_eq!(cost(0), tried[0].outcome.node_minutes * 100 / 60);
        let lines = csv(&tried);
        let fields = |line: &str| line.split(',').count();
        assert!(lines.lines().all(|line| fields(line) == 14), "{lines}");
        assert!(lines.lines().nth(1).unwrap().starts_with("gregor/small,"), "{lines}");
        let value: Value = serde_json::from_str(&json(&tried).unwrap()).unwrap();
        assert_eq!(value[3]["reserveConnections"], 400);
    }

    #[test]
    fn a_type_of_nodes_has_five_parts() {
        let read = node_type("m5, 1500,250,192 ,4").unwrap();
        assert_eq!((read.name.as_str(), read.room.partitions, read.boot_minutes), ("m5", 250, 4));
        assert!(node_type("m5,1,2,3").unwrap_err().starts_with("expected"));
        assert!(node_type("m5,x,2,3,4").unwrap_err().contains("\"x\""));
        assert_eq!(money(12_345), "12.34");
    }
}
