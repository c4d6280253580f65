//! What there is, and what is left, from the nodes and the Kafkas that are there.

use std::collections::BTreeSet;

use control::cluster::quantity;
use fleet_control::{BrokerNeed, Capacity, HostedKafka, PlaneNode, Pool, Survey, survey};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;

use super::kafkas::hosted;
use super::{Agent, AgentError};
use crate::http::{AgentConfig, AgentReport, Amounts, Condition, Nodes, Resize};

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
        let pool = Pool { model_t: last, ..pool(config, &nodes) };
        Ok(survey(&pool, &plane_nodes(&nodes), others).remaining.holds(last.capacity))
    }

    /// The numbers of a report.
    pub(super) async fn survey(&self, config: &AgentConfig) -> Result<AgentReport, AgentError> {
        let nodes = self.nodes().await?;
        let kafkas: Vec<_> = self.present().await?.iter().filter_map(|one| one.takes).collect();
        let found = survey(&pool(config, &nodes), &plane_nodes(&nodes), &kafkas);
        Ok(written(&found))
    }
}

/// Nodes for the control plane only are not for Kafkas.
fn is_for_kafkas(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    !taints.into_iter().flatten().any(|taint| taint.key == "node-role.kubernetes.io/control-plane")
}

fn pool(config: &AgentConfig, nodes: &[Node]) -> Pool {
    let spec = &config.spec;
    let offers = nodes.iter().map(offers);
    Pool {
        nodes_min: spec.nodes.min,
        nodes_max: spec.nodes.max,
        node_delta: spec.nodes.delta,
        multi_az: spec.multi_az,
        // The smallest, so that what is said to fit does fit.
        offers: offers.min().unwrap_or_default(),
        per_node: Capacity::from(&spec.nodes.per_node),
        model_t: hosted(&spec.model_t),
    }
}

fn plane_nodes(nodes: &[Node]) -> Vec<PlaneNode> {
    let zone = |node: &Node| {
        let labels = node.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(ZONE)).cloned().unwrap_or_default()
    };
    let zones: BTreeSet<_> = nodes.iter().map(zone).collect();
    let number = |node: &Node| zones.iter().position(|one| *one == zone(node)).unwrap_or(0);
    let plane_node = |node: &Node| PlaneNode {
        zone: number(node),
        usable: is_usable(node),
        offers: offers(node),
    };
    nodes.iter().map(plane_node).collect()
}

fn is_usable(node: &Node) -> bool {
    let spec = node.spec.as_ref();
    let cordoned = spec.and_then(|spec| spec.unschedulable).unwrap_or(false);
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready =
        conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    ready && !cordoned && node.metadata.deletion_timestamp.is_none()
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
        let read = written(&Survey { total: room, remaining: room, nodes, resize }).read().unwrap();
        assert_eq!((read.total, read.nodes, read.resize), (room, nodes, resize));
    }
}
