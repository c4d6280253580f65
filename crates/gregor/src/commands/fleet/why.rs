//! `gregor fleet why`: why a data plane, a region or a Kafka is as it is, and what was decided about it.

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use super::manager::{Api, Decision, Kafka, Manager, Plane, Region};
use crate::output::{Format, Out, View, bullets};

pub(crate) const EXAMPLES: &str = "\
Examples:
  gregor fleet why 0199a3f2b1c4 --token-file token          a data plane, or a Kafka, by its id
  gregor fleet why orders --token-file token                a Kafka by its name
  gregor fleet why aws/us-east-1 --token-file token         a region";

/// Options of `gregor fleet why`.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// Data plane, region (PROVIDER/REGION) or Kafka (id or name)
    #[arg(value_name = "PLANE|REGION|KAFKA")]
    about: String,
    #[command(flatten)]
    manager: Manager,
    /// Number of decisions to show
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    decisions: usize,
    /// Output format
    #[arg(long, short = 'o', value_enum, default_value = "table")]
    output: Format,
}

/// The answer.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Answer {
    /// What it is about, with its status.
    about: String,
    reasons: Vec<String>,
    /// Oldest first.
    decisions: Vec<String>,
}

impl Why {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let answer = runtime.context("cannot start")?.block_on(async {
            let api = self.manager.connect()?;
            let mut answer = answer(&api, &self.about).await?;
            let skipped = answer.decisions.len().saturating_sub(self.decisions);
            answer.decisions.drain(..skipped);
            anyhow::Ok(answer)
        })?;
        Out::new(self.output).view(&answer)
    }
}

async fn answer(api: &Api, about: &str) -> anyhow::Result<Answer> {
    // Asked first, so that a token without the role is told apart from a name that does not exist.
    let regions = api.regions().await?;
    let matches = |region: &&Region| {
        region.id == about || format!("{}/{}", region.cloud_provider, region.id) == about
    };
    let found: Vec<_> = regions.iter().filter(matches).collect();
    match found.as_slice() {
        [] => {}
        [region] => {
            let name = format!("{}/{}", region.cloud_provider, region.id);
            return Ok(of_region(region, &api.decisions_of_region(&name).await?));
        }
        several => {
            let names = several.iter().map(|one| format!("{}/{}", one.cloud_provider, one.id));
            let names = names.collect::<Vec<_>>().join(", ");
            anyhow::bail!("several regions are called {about}: {names}");
        }
    }
    if let Some(plane) = api.plane(about).await? {
        return Ok(of_plane(&plane, &api.decisions(Some(&plane.id)).await?));
    }
    let kafka = api.kafka(about).await?;
    let kafka = kafka.with_context(|| {
        format!(
            "there is no data plane, region or Kafka called {about}; PROVIDER/REGION names a region"
        )
    })?;
    let on = kafka.data_plane_id.as_ref().or(kafka.growing_data_plane_id.as_ref());
    let plane = match on {
        Some(id) => api.plane(id).await?,
        None => None,
    };
    let region = regions
        .iter()
        .find(|one| one.cloud_provider == kafka.cloud_provider && one.id == kafka.region);
    let decisions = match on {
        Some(id) => api.decisions(Some(id)).await?,
        None => api.decisions(None).await?,
    };
    let about: Vec<_> = decisions.into_iter().filter(|one| one.becomes == kafka.id).collect();
    Ok(of_kafka(&kafka, (plane.as_ref(), region), &about))
}

fn of_region(region: &Region, decisions: &[Decision]) -> Answer {
    let planes: u64 = region.data_planes.values().sum();
    let by = region.data_planes.iter().map(|(status, count)| format!("{count} {status}"));
    let mut reasons = vec![format!(
        "{planes} of at most {} data planes: {}",
        region.data_planes_max,
        by.collect::<Vec<_>>().join(", ")
    )];
    reasons.push(format!("{} Kafkas wait for capacity", region.kafkas_waiting));
    match (&region.held, &region.held_since) {
        (Some(held), Some(since)) => {
            reasons.push(format!("no further data plane since {since}: {held}"));
        }
        (Some(held), None) => reasons.push(format!("no further data plane: {held}")),
        (None, _) => {}
    }
    let about = format!("region {}/{}", region.cloud_provider, region.id);
    Answer { about, reasons, decisions: history(decisions) }
}

fn of_plane(plane: &Plane, decisions: &[Decision]) -> Answer {
    let mut reasons = vec![format!("{}: {}", plane.status, plane.status_reason)];
    let count = |nodes: Option<i64>| nodes.map_or_else(|| "?".to_owned(), |n| n.to_string());
    reasons.push(format!(
        "nodes: {} wanted, {} desired and {} ready at the provider; {}",
        count(plane.nodes_wanted),
        count(plane.nodes_desired),
        count(plane.nodes_actual),
        plane.nodes_reason
    ));
    let more = [
        ("the nodes are unsuitable", &plane.nodes_unsuitable),
        ("the provider cannot create the nodes", &plane.nodes_failed),
        ("the report contradicts itself", &plane.contradictions),
    ];
    for (what, why) in more {
        reasons.extend(why.as_ref().map(|why| format!("{what}: {why}")));
    }
    if plane.draining {
        reasons.push("an administrator keeps it free of new Kafkas".to_owned());
    }
    let seen = plane.last_seen.as_deref().unwrap_or("never");
    reasons.push(format!("last report of its agent: {seen}"));
    let about = format!("data plane {} in {}/{}", plane.id, plane.cloud_provider, plane.region);
    Answer { about, reasons, decisions: history(decisions) }
}

fn of_kafka(
    kafka: &Kafka,
    (plane, region): (Option<&Plane>, Option<&Region>),
    decisions: &[Decision],
) -> Answer {
    let reason = kafka.reason.as_ref().map(|reason| format!(": {reason}"));
    let mut reasons = vec![format!("{}{}", kafka.status, reason.unwrap_or_default())];
    if let Some(plane) = plane {
        let word = if kafka.data_plane_id.is_some() { "is on" } else { "waits for" };
        reasons.push(format!(
            "it {word} data plane {}, which is {}: {}",
            plane.id, plane.status, plane.status_reason
        ));
    }
    if kafka.data_plane_id.is_none()
        && let Some(held) = region.and_then(|region| region.held.as_ref())
    {
        reasons.push(format!("its region gets no further data plane: {held}"));
    }
    let about = format!(
        "Kafka {} ({}) of {} in {}/{}",
        kafka.name, kafka.id, kafka.organisation, kafka.cloud_provider, kafka.region
    );
    Answer { about, reasons, decisions: history(decisions) }
}

/// Decisions as lines, oldest first.
fn history(decisions: &[Decision]) -> Vec<String> {
    let line = |one: &Decision| {
        let plane = one.data_plane_id.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
        let change = match (one.was.as_str(), one.becomes.as_str()) {
            ("", "") => String::new(),
            ("", becomes) => format!(" {becomes}"),
            (was, becomes) => format!(" {was} -> {becomes}"),
        };
        let dry_run = if one.dry_run { " (dry run)" } else { "" };
        format!("{} {}{plane}{change}{dry_run}: {}", one.at, one.kind, one.reason)
    };
    decisions.iter().rev().map(line).collect()
}

impl View for Answer {
    fn table(&self, width: Option<u16>) -> String {
        let mut text = format!("{}\n", self.about);
        text += &bullets("Now", &self.reasons, None, width);
        text += &bullets("Decisions", &self.decisions, None, width);
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::status::tests::{plane, region};
    use super::*;

    fn decision(kind: &str, was: &str, becomes: &str) -> Decision {
        Decision {
            at: "2026-01-01T00:00:00Z".to_owned(),
            data_plane_id: Some("p1".to_owned()),
            kind: kind.to_owned(),
            was: was.to_owned(),
            becomes: becomes.to_owned(),
            reason: "because".to_owned(),
            dry_run: kind == "nodes",
        }
    }

    #[test]
    fn each_kind_of_object_has_its_reasons_and_its_history() {
        let newest_first = [decision("nodes", "3", "6"), decision("state", "ready", "full")];
        let text = of_plane(&plane("full"), &newest_first).table(None);
        for line in [
            "data plane p1 in aws/us-east-1",
            "  - full: the agent has been silent for 200 s",
            "  - nodes: 6 wanted, ? desired and 3 ready at the provider; no step: 6 >= ceiling 6",
            "  - last report of its agent: never",
            "  - 2026-01-01T00:00:00Z state p1 ready -> full: because",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        assert!(text.ends_with("nodes p1 3 -> 6 (dry run): because\n"), "{text}");

        let text = of_region(&region(), &[]).table(None);
        for line in [
            "region aws/us-east-1",
            "  - 3 of at most 5 data planes: 1 full, 2 ready",
            "  - 7 Kafkas wait for capacity",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        assert!(text.contains("no further data plane since 2026-01-01T00:00:00Z"), "{text}");

        let waits: Kafka = serde_json::from_value(json!({
            "id": "k1", "name": "orders", "organisation": "org", "status": "accepted",
            "reason": "none of 2 has room", "cloud_provider": "aws", "region": "us-east-1",
            "instance_type": "standard", "size_id": "x1", "growing_data_plane_id": "p1",
        }))
        .unwrap();
        let grows = plane("compute_node_scaling_up");
        let text = of_kafka(&waits, (Some(&grows), Some(&region())), &[]).table(None);
        for line in [
            "Kafka orders (k1) of org in aws/us-east-1",
            "  - accepted: none of 2 has room",
            "  - it waits for data plane p1, which is compute_node_scaling_up: the agent has been silent for 200 s",
            "  - its region gets no further data plane: there are as many data planes as planes_max permits",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
    }
}
