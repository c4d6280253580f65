//! `gregor kafka describe`: the cluster in short.
//!
//! Each part that cannot be read is a remark and a hole, not the end: on a bad night the rest counts.

use std::fmt::Write as _;

use anyhow::bail;
use kafka_admin::{Cluster, ClusterNode, Features, NodeKind, Quorum};
use serde::Serialize;

use super::connection::Session;
use super::health::{Health, read_min_isr};
use crate::output::{Grid, Out, View, note, optional, yes_no};

/// The cluster, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterView {
    cluster_id: String,
    quorum_leader: Option<i32>,
    voters: Option<usize>,
    kraft_version: Option<i16>,
    metadata_version: Option<i16>,
    /// `brokers` or `controllers`: what `nodes` are.
    node_kind: &'static str,
    nodes: Vec<NodeView>,
    /// `null` if controllers were asked, or the topics could not be read.
    partitions: Option<Health>,
}

/// A registered node, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeView {
    id: i32,
    endpoint: Option<String>,
    rack: Option<String>,
    /// `null` for controllers, which are never fenced.
    fenced: Option<bool>,
}

pub(super) async fn run(session: &Session, out: &mut Out) -> anyhow::Result<()> {
    let admin = &session.admin;
    let cluster = admin.describe_cluster().await?;
    let mut complete = true;
    let quorum = told(admin.describe_quorum().await, &mut complete);
    let features = told(admin.describe_features(None).await, &mut complete);
    let partitions = match session.asks_brokers {
        true => told(sum_health(session).await, &mut complete),
        false => None,
    };
    out.view(&ClusterView::new(&cluster, quorum.as_ref(), features.as_ref(), partitions))?;
    if !complete {
        bail!("the output is incomplete: see the lines above");
    }
    Ok(())
}

/// The value, or a remark why there is none.
fn told<T, E: Into<anyhow::Error>>(result: Result<T, E>, complete: &mut bool) -> Option<T> {
    result
        .map_err(|error| {
            *complete = false;
            note(&format!("{:#}", error.into()));
        })
        .ok()
}

async fn sum_health(session: &Session) -> anyhow::Result<Health> {
    let mut pages = session.admin.topic_pages(&[]);
    let mut sum = Health::zero();
    while let Some(page) = pages.next().await? {
        let min_isr = read_min_isr(&session.admin, &page).await?;
        let health = page.topics.iter().map(|t| Health::of(t, min_isr.get(&t.name).copied()));
        sum = health.fold(sum, Health::plus);
    }
    Ok(sum)
}

impl ClusterView {
    fn new(
        cluster: &Cluster,
        quorum: Option<&Quorum>,
        features: Option<&Features>,
        partitions: Option<Health>,
    ) -> Self {
        let level = |name| features.map(|all| all.finalized.get(name).copied().unwrap_or(0));
        let brokers = cluster.kind == NodeKind::Brokers;
        let node = |node: &ClusterNode| NodeView {
            id: node.id.get(),
            endpoint: node.endpoint.as_ref().map(ToString::to_string),
            rack: node.rack.clone(),
            fenced: brokers.then_some(node.fenced),
        };
        Self {
            cluster_id: cluster.id.to_string(),
            quorum_leader: quorum.map(|quorum| quorum.leader.get()),
            voters: quorum.map(|quorum| quorum.voters.len()),
            kraft_version: level("kraft.version"),
            metadata_version: level("metadata.version"),
            node_kind: if brokers { "brokers" } else { "controllers" },
            nodes: cluster.nodes.iter().map(node).collect(),
            partitions,
        }
    }
}

impl View for ClusterView {
    fn table(&self, width: Option<u16>) -> String {
        let known = |value: Option<String>| value.unwrap_or("unknown".to_owned());
        let text_of = |level: Option<i16>| known(level.map(|level| level.to_string()));
        let voters = self.voters.map(|count| format!(" (of {count} voters)")).unwrap_or_default();
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "Cluster:           {}", self.cluster_id);
        let leader = known(self.quorum_leader.map(|id| format!("{id}{voters}")));
        let _ = writeln!(text, "Quorum leader:     {leader}");
        let _ = writeln!(text, "kraft.version:     {}", text_of(self.kraft_version));
        let _ = writeln!(text, "metadata.version:  {}", text_of(self.metadata_version));
        if self.node_kind == "brokers" {
            let partitions = known(self.partitions.as_ref().map(health_text));
            let _ = writeln!(text, "Partitions:        {partitions}");
        }
        let _ = writeln!(text, "\nThe {} that are registered:", self.node_kind);
        let mut grid = Grid::new(&["ID", "HOST:PORT", "RACK", "FENCED"]);
        for node in &self.nodes {
            grid.row([
                node.id.to_string(),
                optional(node.endpoint.as_deref()),
                optional(node.rack.as_deref()),
                optional(node.fenced.map(yes_no)),
            ]);
        }
        text + &grid.take(width)
    }
}

fn health_text(health: &Health) -> String {
    let under_min_isr = health.under_min_isr.map_or("unknown".to_owned(), |n| n.to_string());
    format!(
        "{}; {} under-replicated, {under_min_isr} under min ISR, {} offline, {} moving",
        health.partitions, health.under_replicated, health.offline, health.reassigning
    )
}

#[cfg(test)]
mod tests {
    use kafka_admin::Endpoint;
    use model::{ClusterId, NodeId};

    use super::super::quorum::tests::{quorum, replica};
    use super::*;

    fn cluster(kind: NodeKind) -> Cluster {
        let node = |id, endpoint, rack: Option<&str>, fenced| ClusterNode {
            id: NodeId::new(id).unwrap(),
            endpoint,
            rack: rack.map(str::to_owned),
            fenced,
        };
        let endpoint = Some(Endpoint::new("b0", 9092));
        let nodes = vec![node(100, endpoint, Some("a"), false), node(101, None, None, true)];
        Cluster { id: ClusterId::new("abc").unwrap(), kind, active_controller: None, nodes }
    }

    #[test]
    fn brokers_are_listed_below_a_short_head() {
        let quorum = quorum(1, vec![replica(1, Some(0), 0)], vec![]);
        let finalized =
            [("kraft.version".to_owned(), 1), ("metadata.version".to_owned(), 29)].into();
        let features = Features { finalized, finalized_epoch: None, supported: [].into() };
        let health = Health {
            partitions: 60,
            under_replicated: 3,
            under_min_isr: Some(1),
            offline: 0,
            reassigning: 2,
        };
        let brokers = cluster(NodeKind::Brokers);
        let view = ClusterView::new(&brokers, Some(&quorum), Some(&features), Some(health));
        let expected = "\
Cluster:           abc
Quorum leader:     1 (of 1 voters)
kraft.version:     1
metadata.version:  29
Partitions:        60; 3 under-replicated, 1 under min ISR, 0 offline, 2 moving

The brokers that are registered:
ID   HOST:PORT  RACK  FENCED
100  b0:9092    a     no
101  -          -     yes
";
        assert_eq!(view.table(None), expected);
        let json = serde_json::to_value(&view).unwrap();
        assert_eq!(json["partitions"]["underMinIsr"], 1);
        assert_eq!(json["nodes"][1]["fenced"], true);
    }

    #[test]
    fn what_could_not_be_read_is_unknown_and_not_left_out() {
        let text = ClusterView::new(&cluster(NodeKind::Brokers), None, None, None).table(None);
        assert!(
            text.contains("Quorum leader:     unknown\nkraft.version:     unknown\n"),
            "{text}"
        );
        assert!(text.contains("Partitions:        unknown\n"), "{text}");
        let view = ClusterView::new(&cluster(NodeKind::Controllers), None, None, None);
        assert!(!view.table(None).contains("Partitions"), "controllers have none");
        assert_eq!(view.nodes[0].fenced, None);
    }
}
