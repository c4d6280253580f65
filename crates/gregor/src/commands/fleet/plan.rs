//! `gregor fleet plan`: what a changed configuration would do to the fleet as it is, by the decisions of the manager.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use fleet::config::Config;
use fleet_control::{
    Arrival, Capacity, Change, Forecast, Happened, Mode, Policy, StartPlane, forecast,
};
use serde::Serialize;

use super::manager::{Kafka, Manager, Plane};
use crate::machine::planes;
use crate::output::{Format, Out, View, bullets};

pub(crate) const EXAMPLES: &str = "\
Nothing is changed. Data planes and Kafkas are read from the manager; no new demand is assumed.

Examples:
  gregor fleet plan -f fleet.yaml --token-file token
  gregor fleet plan -f fleet.yaml --token-file token --node-minutes 8 --days 2";

/// Options of `gregor fleet plan`.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Changed configuration
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    manager: Manager,
    /// Minutes until a new node is ready
    #[arg(long, default_value_t = 5)]
    node_minutes: u64,
    /// Minutes until a new data plane is ready
    #[arg(long, default_value_t = 40)]
    plane_minutes: u64,
    /// Days to look ahead
    #[arg(long, default_value_t = 7)]
    days: u64,
    /// Output format
    #[arg(long, short = 'o', value_enum, default_value = "table")]
    output: Format,
}

/// What would happen in a region.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Foreseen {
    region: String,
    data_planes: u64,
    data_planes_after: u64,
    nodes: u64,
    nodes_after: u64,
    steps: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Shown {
    regions: Vec<Foreseen>,
    /// What no decision of the manager resolves.
    problems: Vec<String>,
}

impl Plan {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let text = fs::read_to_string(&self.file);
        let text = text.with_context(|| format!("cannot read {:?}", self.file))?;
        let mut config: Config = serde_saphyr::from_str(&text)
            .with_context(|| format!("{:?} is not a fleet configuration", self.file))?;
        if let Some(access) = &config.local {
            // The manager adds the key that it signs with.
            config.auth.jwks_more.push(planes::keys_file(&access.dir));
        }
        config.check().with_context(|| format!("{:?}", self.file))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (planes, kafkas) = runtime.context("cannot start")?.block_on(async {
            let api = self.manager.connect()?;
            anyhow::Ok((api.planes().await?, api.kafkas().await?))
        })?;
        Out::new(self.output).view(&self.foresee(&config, &planes, &kafkas))
    }

    fn foresee(&self, config: &Config, planes: &[Plane], kafkas: &[Kafka]) -> Shown {
        let mut problems = Vec::new();
        let mut sizes = BTreeMap::new();
        for kafka in kafkas {
            match config.size(&kafka.instance_type, &kafka.size_id) {
                Some(size) => {
                    sizes.insert(kafka.id.as_str(), size.capacity());
                }
                None => problems.push(format!(
                    "Kafka {} has the size {}.{}, which is not configured any more",
                    kafka.name, kafka.instance_type, kafka.size_id
                )),
            }
        }
        for plane in planes {
            if config.region(&plane.cloud_provider, &plane.region).is_none() {
                problems.push(format!(
                    "data plane {} is in {}/{}, which is not configured any more",
                    plane.id, plane.cloud_provider, plane.region
                ));
            }
        }
        let mut regions = Vec::new();
        for provider in &config.cloud_providers {
            for region in &provider.regions {
                let here =
                    |provider_id: &str, id: &str| provider_id == provider.id && id == region.id;
                let start: Vec<_> = planes
                    .iter()
                    .filter(|one| here(&one.cloud_provider, &one.region) && one.is_scaled())
                    .map(|one| start(one, kafkas, &sizes))
                    .collect();
                let waiting: Vec<_> = kafkas
                    .iter()
                    .filter(|one| here(&one.cloud_provider, &one.region))
                    .filter(|one| one.data_plane_id.is_none() && one.status == "accepted")
                    .filter_map(|one| Some((one, *sizes.get(one.id.as_str())?)))
                    .collect();
                let arrivals: Vec<_> = waiting
                    .iter()
                    .map(|(one, need)| Arrival {
                        at: 0,
                        stays: u64::MAX / 4,
                        region: "r".to_owned(),
                        multi_az: one.multi_az,
                        need: *need,
                    })
                    .collect();
                let policy = self.policy(config);
                let is_fixed = config.mode() == Mode::Manual || region.provider == "standalone";
                let limits = (region.planes_max, self.days * 24 * 60);
                let nodes = start.iter().map(|one| u64::from(one.nodes)).sum();
                let count = start.len() as u64;
                let found = if is_fixed {
                    Forecast { happened: Vec::new(), planes: count, nodes }
                } else {
                    forecast(&start, &arrivals, &policy, limits)
                };
                let names: Vec<_> = waiting.iter().map(|(one, _)| one.name.as_str()).collect();
                regions.push(Foreseen {
                    region: format!("{}/{}", provider.id, region.id),
                    data_planes: count,
                    data_planes_after: found.planes,
                    nodes,
                    nodes_after: found.nodes,
                    steps: found.happened.iter().map(|one| sentence(one, &names)).collect(),
                });
            }
        }
        Shown { regions, problems }
    }

    fn policy(&self, config: &Config) -> Policy {
        let room = fleet::config::Size {
            connections: config.agent.connections,
            partitions: config.agent.partitions,
            throughput: config.agent.throughput.clone(),
            retention: config.agent.retention.clone(),
            ..config.model_t.clone()
        };
        Policy {
            headroom: config.model_t.capacity(),
            per_node: room.capacity(),
            nodes_min: config.agent.nodes_min,
            nodes_max: config.agent.nodes_max,
            node_delta: config.agent.node_delta,
            node_minutes: self.node_minutes,
            plane_minutes: self.plane_minutes,
            patience_minutes: config.times.patience_ms / 60_000,
            cool_down_minutes: config.times.cool_down_ms / 60_000,
            price_per_hour: 0,
            failures: None,
            by_the_letter: false,
        }
    }
}

impl Plane {
    /// Whether its agent has reported, so that nodes come and go with demand.
    fn is_scaled(&self) -> bool {
        ["ready", "full", "compute_node_scaling_up"].contains(&self.status.as_str())
    }
}

fn start(plane: &Plane, kafkas: &[Kafka], sizes: &BTreeMap<&str, Capacity>) -> StartPlane {
    let here = kafkas.iter().filter(|one| one.data_plane_id.as_ref() == Some(&plane.id));
    let used = here.clone().filter_map(|one| sizes.get(one.id.as_str()));
    StartPlane {
        id: plane.id.clone(),
        region: "r".to_owned(),
        multi_az: plane.multi_az,
        nodes: plane.nodes_wanted.and_then(|nodes| u32::try_from(nodes).ok()).unwrap_or(0),
        used: used.fold(Capacity::default(), |sum, one| sum.plus(*one)),
        kafkas: here.count() as u64,
    }
}

fn sentence(happened: &Happened, waiting: &[&str]) -> String {
    let name = |kafka: &usize| waiting.get(*kafka).copied().unwrap_or_default();
    let text = match &happened.change {
        Change::Nodes { plane, from, to, reason } => {
            format!("{plane} goes from {from} to {to} nodes: {reason}")
        }
        Change::Create { plane, reason } => format!("{plane} is created: {reason}"),
        Change::Remove { plane, reason } => format!("{plane} is removed: {reason}"),
        Change::Placed { kafka, plane } => format!("Kafka {} is placed on {plane}", name(kafka)),
        Change::Refused { kafka } => format!("Kafka {} has waited too long", name(kafka)),
    };
    format!("after {} min: {text}", happened.minute)
}

impl View for Shown {
    fn table(&self, width: Option<u16>) -> String {
        let mut text = String::new();
        for one in &self.regions {
            let change = |before: u64, after: u64| match before == after {
                true => before.to_string(),
                false => format!("{before} -> {after}"),
            };
            let title = format!(
                "{}: {} data planes, {} nodes",
                one.region,
                change(one.data_planes, one.data_planes_after),
                change(one.nodes, one.nodes_after)
            );
            match one.steps.as_slice() {
                [] => text += &format!("\n{title}; nothing changes\n"),
                steps => text += &bullets(&title, steps, None, width),
            }
        }
        text += &bullets("Problems", &self.problems, None, width);
        text.trim_start().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::super::status::tests::plane;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        plan: Plan,
    }

    fn foresee(change: impl FnOnce(&mut Config), kafkas: u64) -> Shown {
        let mut config = Config::default();
        let provider =
            json!({ "id": "aws", "regions": [{ "id": "us-east-1", "provider": "ocm" }] });
        config.cloud_providers = vec![serde_json::from_value(provider).unwrap()];
        change(&mut config);
        let kafka = |number: u64| -> Kafka {
            serde_json::from_value(json!({
                "id": format!("k{number}"), "name": format!("k{number}"), "organisation": "o",
                "status": "ready", "cloud_provider": "aws", "region": "us-east-1",
                "instance_type": "standard", "size_id": "x1", "data_plane_id": "p1",
            }))
            .unwrap()
        };
        let kafkas: Vec<_> = (0..kafkas).map(kafka).collect();
        let planes = [Plane { multi_az: true, ..plane("ready") }];
        let line = Line::parse_from(["plan", "-f", "fleet.yaml", "--token-file", "token"]);
        line.plan.foresee(&config, &planes, &kafkas)
    }

    #[test]
    fn a_changed_configuration_shows_its_steps_and_what_it_would_break() {
        // Six nodes for 3000 connections each, and one Kafka of 9000: as it is, nothing changes.
        let text = foresee(|_| {}, 1).table(None);
        assert_eq!(text, "aws/us-east-1: 1 data planes, 6 nodes; nothing changes\n");
        // Smaller nodes are too few.
        let text = foresee(|config| config.agent.connections = 1500, 1).table(None);
        assert!(text.starts_with("aws/us-east-1: 1 data planes, 6 -> 9 nodes:\n"), "{text}");
        assert!(text.contains("  - after 0 min: p1 goes from 6 to 9 nodes: "), "{text}");
        // By hand nothing is done, whatever is missing.
        let by_hand = |config: &mut Config| {
            config.agent.connections = 1500;
            config.scaling = fleet::config::Scaling::Manual;
        };
        assert!(foresee(by_hand, 1).table(None).contains("nothing changes"));
        let text = foresee(|config| config.instance_types.clear(), 1).table(None);
        assert!(
            text.contains("Kafka k0 has the size standard.x1, which is not configured"),
            "{text}"
        );
        let text = foresee(|config| config.cloud_providers.clear(), 0).table(None);
        assert!(text.contains("data plane p1 is in aws/us-east-1, which is not"), "{text}");
    }
}
