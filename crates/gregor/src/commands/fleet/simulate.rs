//! `gregor fleet simulate`: months of demand against the decisions, in seconds.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use fleet_control::{Arrival, Capacity, Outcome, Policy, simulate};
use serde_json::json;

use crate::output::{Format, Out};

pub(crate) const EXAMPLES: &str = "\
The trace has one line per Kafka: the minute of its creation, its lifetime in minutes, region, connections
and partitions.

  0,43200,us-east-1,9000,1500
  15,1440,eu-west-1,100,100

Examples:
  gregor fleet simulate --trace demand.csv
  gregor fleet simulate --trace demand.csv --policy gregor --policy letter --nodes-max 30";

/// Options of the simulation.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// Trace of the demand; - for stdin
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Policy; may be repeated [default: all]
    #[arg(long, value_enum)]
    policy: Vec<Name>,
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

impl Simulate {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let text = match self.trace.to_str() {
            Some("-") => std::io::read_to_string(std::io::stdin()),
            _ => fs::read_to_string(&self.trace),
        };
        let text = text.with_context(|| format!("cannot read {:?}", self.trace))?;
        let arrivals = parse(&text)?;
        let all = [Name::Gregor, Name::Letter, Name::Eager, Name::Strides];
        let names = if self.policy.is_empty() { all.to_vec() } else { self.policy.clone() };
        let outcomes: Vec<_> =
            names.iter().map(|name| (*name, simulate(&arrivals, &self.policy_of(*name)))).collect();
        let text = match self.output {
            Format::Table => table(&outcomes),
            Format::Json => json(&outcomes)?,
        };
        Out::new(self.output).text(&text)
    }

    fn policy_of(&self, name: Name) -> Policy {
        let room =
            |connections, partitions| Capacity { connections, partitions, ..Capacity::default() };
        let model_t = room(self.model_t_connections, self.model_t_partitions);
        Policy {
            headroom: if name == Name::Eager { model_t.times(4) } else { model_t },
            per_node: room(self.node_connections, self.node_partitions),
            nodes_min: self.nodes_min,
            nodes_max: self.nodes_max,
            node_delta: if name == Name::Strides { 6 } else { 3 },
            multi_az: true,
            node_minutes: self.node_minutes,
            plane_minutes: self.plane_minutes,
            patience_minutes: 60,
            by_the_letter: name == Name::Letter,
        }
    }
}

fn parse(text: &str) -> anyhow::Result<Vec<Arrival>> {
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    });
    lines
        .map(|(index, line)| {
            let one = arrival(line);
            one.with_context(|| {
                let number = index + 1;
                format!("line {number} is not MINUTE,STAYS,REGION,CONNECTIONS,PARTITIONS: {line}")
            })
        })
        .collect()
}

fn arrival(line: &str) -> Option<Arrival> {
    let words: Vec<_> = line.split(',').map(str::trim).collect();
    let &[at, stays, region, connections, partitions] = words.as_slice() else { return None };
    Some(Arrival {
        at: at.parse().ok()?,
        stays: stays.parse().ok()?,
        region: region.to_owned(),
        need: Capacity {
            connections: connections.parse().ok()?,
            partitions: partitions.parse().ok()?,
            ..Capacity::default()
        },
    })
}

fn word(name: Name) -> String {
    name.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn table(outcomes: &[(Name, Outcome)]) -> String {
    let mut lines = vec![
        [
            "POLICY",
            "NODE-HOURS",
            "PLACED",
            "REFUSED",
            "MEAN-WAIT",
            "STEPS",
            "FLAPS",
            "PLANES",
            "PEAK",
        ]
        .map(str::to_owned),
    ];
    for (name, one) in outcomes {
        let wait = one.waited_minutes.checked_div(one.placed).unwrap_or(0);
        lines.push([
            word(*name),
            (one.node_minutes / 60).to_string(),
            one.placed.to_string(),
            one.refused.to_string(),
            format!("{wait} min"),
            format!("+{} -{}", one.steps_up, one.steps_down),
            one.flaps.to_string(),
            format!("+{} -{}", one.planes_created, one.planes_removed),
            one.planes_peak.to_string(),
        ]);
    }
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().enumerate().map(|(column, cell)| {
            let width = lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
            format!("{cell:<width$}")
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

fn json(outcomes: &[(Name, Outcome)]) -> anyhow::Result<String> {
    let items = outcomes.iter().map(|(name, one)| {
        json!({
            "policy": word(*name), "nodeMinutes": one.node_minutes, "placed": one.placed,
            "refused": one.refused, "waitedMinutes": one.waited_minutes, "stepsUp": one.steps_up,
            "stepsDown": one.steps_down, "flaps": one.flaps, "planesCreated": one.planes_created,
            "planesRemoved": one.planes_removed, "planesPeak": one.planes_peak,
        })
    });
    let value = json!(items.collect::<Vec<_>>());
    Ok(serde_json::to_string_pretty(&value).context("cannot write JSON")? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_line_by_line() {
        let trace = "# demand\n0,60,us, 100,200\n\n5,10,eu,1,2\n";
        let arrivals = parse(trace).unwrap();
        assert_eq!((arrivals.len(), arrivals[0].need.partitions), (2, 200));
        let error = format!("{:#}", parse("0,60,us,100\n").unwrap_err());
        assert!(error.starts_with("line 1 is not"), "{error}");
    }

    #[test]
    fn the_table_has_a_line_for_each_policy() {
        let outcome =
            Outcome { node_minutes: 180, placed: 2, waited_minutes: 9, ..Outcome::default() };
        let text = table(&[(Name::Gregor, outcome), (Name::Letter, outcome)]);
        let second: Vec<_> = text.lines().nth(2).unwrap().split_whitespace().collect();
        assert_eq!(second[..4], ["letter", "3", "2", "0"]);
    }
}
