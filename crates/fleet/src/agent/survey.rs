//! What there is, and what is left, from the nodes and the Kafkas that are there.

use std::collections::BTreeSet;

use control::cluster::quantity;
use fleet_control::{
    BrokerNeed, Capacity, HostedKafka, PlaneNode, Pool, Survey, Unsuitable, survey,
};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Api;
use kube::api::ListParams;

use super::kafkas::hosted;
use super::{Agent, AgentError};
use crate::http::{AgentConfig, AgentReport, Amounts, Condition, NODES_SUITABLE, Nodes, Resize};

/// The zone of a node.
const ZONE: &str = "topology.kubernetes.io/zone";

impl Agent {
    async fn nodes(&self) -> Result<Vec<Node>, AgentError> {
        let params = match self.options.node_selector.as_str() {
            "" => ListParams::default(),
            selector => ListParams::default().labels(selector),
        };
        let nodes = Api::<Node>::all(self.kubernetes.clone());
        let list = nodes.list(&params).await.map_err(AgentError::Nodes)?;
        Ok(list.items.into_iter().filter(is_for_kafkas).collect())
    }

    /// Whether all of these fit on the nodes that are there.
    pub(super) async fn has_room(
        &self,
        config: &AgentConfig,
        kafkas: &[HostedKafka],
    ) -> Result<bool, AgentError> {
        let nodes = self.nodes().await?;
        let (last, others) = match kafkas.split_last() {
            Some((last, others)) => (*last, others),
            None => return Ok(true),
        };
        // The question is the one of Model T, for this Kafka.
        let pool = Pool { model_t: last, ..pool(config) };
        Ok(survey(&pool, &plane_nodes(&nodes), others).remaining.holds(last.capacity))
    }

    /// The numbers of a report.
    pub(super) async fn survey(&self, config: &AgentConfig) -> Result<AgentReport, AgentError> {
        let nodes = self.nodes().await?;
        let kafkas: Vec<_> = self.present().await?.iter().filter_map(|one| one.takes).collect();
        let found = survey(&pool(config), &plane_nodes(&nodes), &kafkas);
        let mut report = written(&found);
        let conditions = report.conditions.get_or_insert_default();
        conditions.extend(found.unsuitable.map(|why| unsuitable(&nodes, why)));
        Ok(report)
    }
}

/// Roles of nodes that are not for Kafkas: taints keep brokers away from them.
const OTHER_ROLES: [&str; 3] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/infra",
];

/// Nodes for infrastructure are labelled, and not always tainted; providers do not count them either.
fn is_for_kafkas(node: &Node) -> bool {
    let other = |taint: &&Taint| OTHER_ROLES.contains(&taint.key.as_str());
    let labels = node.metadata.labels.as_ref();
    let infra = labels.is_some_and(|labels| labels.contains_key(OTHER_ROLES[2]));
    !infra && !taints(node).any(|taint| other(&taint))
}

fn taints(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).into_iter().flatten()
}

fn pool(config: &AgentConfig) -> Pool {
    let spec = &config.spec;
    Pool {
        nodes_min: spec.nodes.min,
        nodes_max: spec.nodes.max,
        node_delta: spec.nodes.delta,
        multi_az: spec.multi_az,
        per_node: Capacity::from(&spec.nodes.per_node),
        model_t: hosted(&spec.model_t),
    }
}

fn zone(node: &Node) -> Option<&String> {
    node.metadata.labels.as_ref()?.get(ZONE)
}

fn plane_nodes(nodes: &[Node]) -> Vec<PlaneNode> {
    let zones: BTreeSet<_> = nodes.iter().filter_map(zone).collect();
    let plane_node = |node: &Node| PlaneNode {
        zone: zone(node).and_then(|zone| zones.iter().position(|one| *one == zone)),
        usable: is_usable(node),
        offers: offers(node),
    };
    nodes.iter().map(plane_node).collect()
}

/// What a person needs to know to change the nodes.
fn unsuitable(nodes: &[Node], why: Unsuitable) -> Condition {
    let zones: BTreeSet<_> = nodes.iter().filter_map(zone).cloned().collect();
    let unlabelled = nodes.iter().filter(|node| zone(node).is_none());
    let names: Vec<_> =
        unlabelled.map(|node| node.metadata.name.clone().unwrap_or_default()).collect();
    let message = match why {
        Unsuitable::ZonesMissing => {
            let zones: Vec<_> = zones.into_iter().collect();
            let found = if zones.is_empty() { "none".to_owned() } else { zones.join(", ") };
            let without = match names.as_slice() {
                [] => String::new(),
                names => format!("; nodes without the label {ZONE}: {}", names.join(", ")),
            };
            format!("zones found: {found}{without}")
        }
        Unsuitable::NodesTooSmall => {
            let largest = nodes.iter().map(offers).max().unwrap_or_default();
            let mib = largest.memory_bytes >> 20;
            format!("the largest node offers {mib} MiB and {}m", largest.cpu_milli)
        }
        Unsuitable::Other => String::new(),
    };
    Condition {
        kind: Some(NODES_SUITABLE.to_owned()),
        status: Some("False".to_owned()),
        reason: Some(why.name().to_owned()),
        message: Some(message),
    }
}

fn is_usable(node: &Node) -> bool {
    let spec = node.spec.as_ref();
    let cordoned = spec.and_then(|spec| spec.unschedulable).unwrap_or(false);
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready =
        conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    // Brokers tolerate no taints.
    let repels = taints(node).any(|one| one.effect == "NoSchedule" || one.effect == "NoExecute");
    ready && !cordoned && !repels && node.metadata.deletion_timestamp.is_none()
}

fn offers(node: &Node) -> BrokerNeed {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let text = |name: &str| allocatable.and_then(|all| all.get(name)).map(|one| one.0.clone());
    BrokerNeed {
        memory_bytes: text("memory").and_then(|text| quantity::bytes(&text).ok()).unwrap_or(0),
        cpu_milli: text("cpu").and_then(|text| milli(&text)).unwrap_or(0),
    }
}

/// Processors: `4`, `3920m` or `1.5`.
fn milli(text: &str) -> Option<u64> {
    if let Some(text) = text.strip_suffix('m') {
        return text.parse().ok();
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction: String = fraction.chars().chain("000".chars()).take(3).collect();
    Some(whole.parse::<u64>().ok()?.checked_mul(1000)? + fraction.parse::<u64>().ok()?)
}

fn written(found: &Survey) -> AgentReport {
    let number = |value: u64| Some(i64::try_from(value).unwrap_or(i64::MAX));
    let amounts = |room: Capacity| {
        Some(Amounts {
            ingress_egress_throughput_per_sec: Some(room.throughput_bytes.to_string()),
            connections: number(room.connections),
            data_retention_size: Some(room.retention_bytes.to_string()),
            partitions: number(room.partitions),
        })
    };
    let ready = Condition {
        kind: Some("Ready".to_owned()),
        status: Some("True".to_owned()),
        ..Condition::default()
    };
    AgentReport {
        sequence: None,
        conditions: Some(vec![ready]),
        total: amounts(found.total),
        remaining: amounts(found.remaining),
        node_info: Some(Nodes {
            ceiling: Some(found.nodes.ceiling.into()),
            floor: Some(found.nodes.floor.into()),
            current: Some(found.nodes.current.into()),
            current_work_load_minimum: Some(found.nodes.current_work_load_minimum.into()),
        }),
        resize_info: Some(Resize {
            node_delta: Some(found.resize.node_delta.into()),
            delta: amounts(found.resize.delta),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read() {
        let rows = [
            ("4", Some(4000)),
            ("3920m", Some(3920)),
            ("1.5", Some(1500)),
            ("0.05", Some(50)),
            ("x", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(milli(text), expected, "{text}");
        }
    }

    fn node(value: serde_json::Value) -> Node {
        serde_json::from_value(value).unwrap()
    }

    fn ready(name: &str, labels: &[(&str, &str)], taint: Option<&str>) -> Node {
        let labels: std::collections::BTreeMap<_, _> = labels.iter().copied().collect();
        let taints: Vec<_> = taint
            .map(|key| serde_json::json!({ "key": key, "effect": "NoSchedule" }))
            .into_iter()
            .collect();
        node(serde_json::json!({
            "metadata": { "name": name, "labels": labels }, "spec": { "taints": taints },
            "status": {
                "allocatable": { "cpu": "4", "memory": "16Gi" },
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        }))
    }

    #[test]
    fn nodes_for_infrastructure_do_not_count_and_tainted_ones_take_no_broker() {
        let infra = "node-role.kubernetes.io/infra";
        let rows = [
            (ready("a", &[], None), true, true),
            (ready("b", &[(infra, "")], None), false, true),
            (ready("c", &[], Some(infra)), false, false),
            (ready("d", &[], Some("node-role.kubernetes.io/control-plane")), false, false),
            (ready("e", &[], Some("gpu")), true, false),
        ];
        for (node, counts, usable) in rows {
            assert_eq!((is_for_kafkas(&node), is_usable(&node)), (counts, usable), "{node:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_the_zones_is_told_by_name() {
        let zone = |name| [(ZONE, name)];
        let nodes =
            [ready("a", &zone("z1"), None), ready("b", &zone("z2"), None), ready("c", &[], None)];
        let numbers: Vec<_> = plane_nodes(&nodes).iter().map(|node| node.zone).collect();
        assert_eq!(numbers, [Some(0), Some(1), None]);
        let told = unsuitable(&nodes, Unsuitable::ZonesMissing);
        let expected =
            "zones found: z1, z2; nodes without the label topology.kubernetes.io/zone: c";
        assert_eq!(told.message.as_deref(), Some(expected));
        let told = unsuitable(&nodes, Unsuitable::NodesTooSmall);
        assert_eq!(told.message.as_deref(), Some("the largest node offers 16384 MiB and 4000m"));
    }

    #[test]
    fn a_report_that_we_write_is_one_that_we_read() {
        let room =
            Capacity { connections: 1, partitions: 2, throughput_bytes: 3, retention_bytes: 4 };
        let nodes = fleet_control::NodeInfo {
            ceiling: 9,
            floor: 3,
            current: 6,
            current_work_load_minimum: 3,
        };
        let resize = fleet_control::ResizeInfo { node_delta: 3, delta: room };
        let read =
            written(&Survey { total: room, remaining: room, nodes, resize, unsuitable: None })
                .read()
                .unwrap();
        assert_eq!((read.total, read.nodes, read.resize), (room, nodes, resize));
    }
}
