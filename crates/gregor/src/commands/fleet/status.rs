//! `gregor fleet status`: regions, data planes, and what waits.

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use super::manager::{Manager, Plane, Region};
use crate::output::{Format, Grid, Out, View, optional};

pub(crate) const EXAMPLES: &str = "\
Examples:
  gregor fleet status --token-file token
  gregor fleet status --manager https://fleet.example.com --token-file token -o json";

/// Options of `gregor fleet status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    manager: Manager,
    /// Output format
    #[arg(long, short = 'o', value_enum, default_value = "table")]
    output: Format,
}

/// What is shown.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Shown {
    regions: Vec<RegionRow>,
    data_planes: Vec<PlaneRow>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct RegionRow {
    region: String,
    provider: String,
    data_planes: u64,
    data_planes_max: u64,
    kafkas_waiting: u64,
    held: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct PlaneRow {
    id: String,
    region: String,
    status: String,
    nodes_actual: Option<i64>,
    nodes_wanted: Option<i64>,
    free_connections: Option<u64>,
    free_partitions: Option<u64>,
    attention: Option<String>,
}

impl Status {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let shown = runtime.context("cannot start")?.block_on(async {
            let api = self.manager.connect()?;
            anyhow::Ok(shown(&api.regions().await?, &api.planes().await?))
        })?;
        Out::new(self.output).view(&shown)
    }
}

fn shown(regions: &[Region], planes: &[Plane]) -> Shown {
    let regions = regions.iter().map(|one| RegionRow {
        region: format!("{}/{}", one.cloud_provider, one.id),
        provider: one.provider_type.clone(),
        data_planes: one.data_planes.values().sum(),
        data_planes_max: one.data_planes_max,
        kafkas_waiting: one.kafkas_waiting,
        held: one.held.clone(),
    });
    let planes = planes.iter().map(|one| PlaneRow {
        id: one.id.clone(),
        region: format!("{}/{}", one.cloud_provider, one.region),
        status: one.status.clone(),
        nodes_actual: one.nodes_actual,
        nodes_wanted: one.nodes_wanted,
        free_connections: one.remaining_connections,
        free_partitions: one.remaining_partitions,
        attention: attention(one),
    });
    Shown { regions: regions.collect(), data_planes: planes.collect() }
}

/// What a person has to look at.
fn attention(plane: &Plane) -> Option<String> {
    let found = [&plane.nodes_unsuitable, &plane.nodes_failed, &plane.contradictions];
    if let Some(text) = found.into_iter().flatten().next() {
        return Some(text.clone());
    }
    let is_waiting = plane.status == "waiting_for_kas_fleetshard_operator";
    let is_bad = plane.status == "failed" || (is_waiting && plane.last_seen.is_some());
    is_bad.then(|| plane.status_reason.clone())
}

impl View for Shown {
    fn table(&self, width: Option<u16>) -> String {
        let header = ["REGION", "PROVIDER", "PLANES", "MAX", "WAITING", "HELD"];
        let mut regions = Grid::new(&header).wrap(5);
        for one in &self.regions {
            regions.row([
                one.region.clone(),
                one.provider.clone(),
                one.data_planes.to_string(),
                one.data_planes_max.to_string(),
                one.kafkas_waiting.to_string(),
                optional(one.held.clone()),
            ]);
        }
        let header =
            ["DATA-PLANE", "REGION", "STATUS", "NODES", "CONNECTIONS", "PARTITIONS", "ATTENTION"];
        let mut planes = Grid::new(&header).wrap(6);
        for one in &self.data_planes {
            let nodes = match (one.nodes_actual, one.nodes_wanted) {
                (Some(actual), Some(wanted)) if actual != wanted => format!("{actual}->{wanted}"),
                (Some(nodes), _) => nodes.to_string(),
                (None, wanted) => format!("?->{}", optional(wanted)),
            };
            planes.row([
                one.id.clone(),
                one.region.clone(),
                one.status.clone(),
                nodes,
                optional(one.free_connections),
                optional(one.free_partitions),
                optional(one.attention.clone()),
            ]);
        }
        format!("{}\n{}", regions.take(width), planes.take(width))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(in super::super) fn plane(status: &str) -> Plane {
        serde_json::from_value(json!({
            "id": "p1", "cloud_provider": "aws", "region": "us-east-1", "provider_type": "ocm",
            "status": status, "status_reason": "the agent has been silent for 200 s",
            "nodes_reason": "no step: 6 >= ceiling 6", "nodes_wanted": 6, "nodes_actual": 3,
        }))
        .unwrap()
    }

    pub(in super::super) fn region() -> Region {
        serde_json::from_value(json!({
            "cloud_provider": "aws", "id": "us-east-1", "provider_type": "ocm",
            "data_planes_max": 5, "data_planes": { "full": 1, "ready": 2 }, "kafkas_waiting": 7,
            "held": "there are as many data planes as planes_max permits",
            "held_since": "2026-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    #[test]
    fn regions_and_data_planes_have_a_line_each_with_what_needs_attention() {
        let silent = Plane {
            last_seen: Some("2026-01-01T00:00:00Z".to_owned()),
            ..plane("waiting_for_kas_fleetshard_operator")
        };
        let unsuitable =
            Plane { nodes_unsuitable: Some("ZonesMissing".to_owned()), ..plane("full") };
        let planes = [plane("ready"), silent, unsuitable];
        let text = shown(&[region()], &planes).table(None);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[1].starts_with("aws/us-east-1  ocm"), "{text}");
        assert!(lines[1].contains("  3  ") && lines[1].ends_with("planes_max permits"), "{text}");
        assert!(lines[4].contains("3->6") && lines[4].ends_with('-'), "{text}");
        assert!(lines[5].ends_with("the agent has been silent for 200 s"), "{text}");
        assert!(lines[6].ends_with("ZonesMissing"), "{text}");
    }
}
