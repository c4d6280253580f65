//! The fleet as pages show it: what its manager answers.

use anyhow::Context as _;
use console::page::{Fleet, FleetDecision, Plane, Region};

use crate::commands::fleet::manager::{Api, Decision, Kafka, Plane as Seen, Region as SeenRegion};

/// As many decisions are shown.
const DECISIONS_MAX: usize = 100;

/// The fleet of a manager.
pub(super) async fn fleet(api: &Api) -> anyhow::Result<Fleet> {
    let (regions, planes, kafkas, decisions) =
        tokio::try_join!(api.regions(), api.planes(), api.kafkas(), api.decisions(None))
            .context("cannot read the fleet")?;
    Ok(shown(&regions, &planes, &kafkas, decisions))
}

fn shown(
    regions: &[SeenRegion],
    planes: &[Seen],
    kafkas: &[Kafka],
    decisions: Vec<Decision>,
) -> Fleet {
    Fleet {
        regions: regions.iter().map(region).collect(),
        planes: planes.iter().map(|one| plane(one, kafkas)).collect(),
        decisions: decisions.into_iter().take(DECISIONS_MAX).map(decision).collect(),
    }
}

fn region(one: &SeenRegion) -> Region {
    Region {
        name: format!("{}/{}", one.cloud_provider, one.id),
        planes_max: one.data_planes_max,
        waiting: one.kafkas_waiting,
        held: one.held.clone(),
    }
}

fn plane(one: &Seen, kafkas: &[Kafka]) -> Plane {
    let on_it = kafkas.iter().filter(|kafka| kafka.data_plane_id.as_ref() == Some(&one.id)).count();
    let attention = [&one.nodes_unsuitable, &one.nodes_failed, &one.contradictions];
    let reasons = [&one.status_reason, &one.nodes_reason];
    let reasons = reasons.into_iter().filter(|text| !text.is_empty()).cloned();
    Plane {
        id: one.id.clone(),
        region: format!("{}/{}", one.cloud_provider, one.region),
        multi_zone: one.multi_az,
        status: one.status.clone(),
        reason: reasons.collect::<Vec<_>>().join("; "),
        attention: attention.into_iter().flatten().next().cloned(),
        nodes: one.nodes_actual,
        nodes_desired: one.nodes_wanted,
        free_connections: one.remaining_connections,
        free_partitions: one.remaining_partitions,
        clusters: on_it as u64,
    }
}

fn decision(one: Decision) -> FleetDecision {
    FleetDecision {
        about: one.data_plane_id.unwrap_or_default(),
        at: one.at,
        kind: one.kind,
        was: one.was,
        becomes: one.becomes,
        reason: one.reason,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plane_has_its_clusters_and_what_needs_a_person() {
        let plane: Seen = serde_json::from_value(json!({
            "id": "p1", "cloud_provider": "aws", "region": "us-east-1", "provider_type": "ocm",
            "status": "ready", "status_reason": "", "nodes_reason": "no step", "nodes_wanted": 6,
            "nodes_actual": 3, "nodes_failed": "node 2 does not start", "remaining_partitions": 9,
        }))
        .unwrap();
        let kafka = |id: &str, plane: Option<&str>| -> Kafka {
            serde_json::from_value(json!({
                "id": id, "name": id, "organisation": "o", "status": "ready", "cloud_provider": "aws",
                "region": "us-east-1", "instance_type": "standard", "size_id": "x1", "data_plane_id": plane,
            }))
            .unwrap()
        };
        let kafkas = [kafka("a", Some("p1")), kafka("b", None), kafka("c", Some("p2"))];
        let fleet = shown(&[], &[plane], &kafkas, Vec::new());
        let [plane] = fleet.planes.as_slice() else { panic!("{fleet:?}") };
        assert_eq!((plane.clusters, plane.reason.as_str()), (1, "no step"));
        assert_eq!(plane.attention.as_deref(), Some("node 2 does not start"));
        assert_eq!((plane.free_connections, plane.free_partitions), (None, Some(9)));
    }
}
