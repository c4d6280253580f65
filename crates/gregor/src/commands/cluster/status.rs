//! `gregor status`: the nodes of a cluster, its quorum, what is being done, and what was last decided.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use api::names::{BROKER_LABEL, CONTROLLER_LABEL, POOL_LABEL, node_of_pod};
use clap::Args;
use control::annotations::Annotation;
use control::quorum::QuorumView as SeenQuorum;
use control::quorum::format::QuorumMode;
use control::scaling::leaving::Member;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use model::NodeId;
use operator::cluster::foresee::View as Seen;
use serde::Serialize;

use super::why::{KAFKA_SILENT, Line, Progress, conditions, is_ready};
use super::{Found, Looked, Viewed, snapshot};
use crate::failure::Said;
use crate::output::{Colour, Grid, Out, View, bullets, optional, painted, yes_no};

/// Default interval of --watch.
const WATCH_SECONDS: &str = "2";
/// Clears the terminal and moves the cursor to its top.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Options of `gregor status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    view: Viewed,
    /// Write a snapshot to this file, for a bug report: the resources of the cluster, without values of
    /// environment variables, password settings, and Secrets
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from_snapshot", "watch"])]
    snapshot: Option<PathBuf>,
    /// Refresh every N seconds until interrupted
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = WATCH_SECONDS)]
    #[arg(conflicts_with = "from_snapshot")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    watch: Option<u64>,
}

/// A cluster, as printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterView {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) cluster_id: Option<String>,
    pub(super) kafka_version: Option<String>,
    pub(super) metadata_version: Option<String>,
    pub(super) conditions: Vec<Line>,
    pub(super) quorum: Option<QuorumView>,
    pub(super) nodes: Vec<NodeView>,
    pub(super) listeners: Vec<(String, String)>,
    /// Operations in progress, and what they are waiting for.
    doing: Vec<String>,
    progress: Option<Progress>,
    unknown: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QuorumView {
    leader: i32,
    epoch: i32,
    /// Whether the quorum is dynamic; `null` if unknown.
    pub(super) dynamic: Option<bool>,
    voters: Vec<i32>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeView {
    pub(super) id: Option<i32>,
    pub(super) pod: String,
    pub(super) pool: Option<String>,
    pub(super) roles: String,
    pub(super) ready: bool,
    /// Whether it is a voter; `null` if it is not a controller.
    pub(super) votes: Option<bool>,
    /// Whether it is the leader of the quorum.
    pub(super) leads: bool,
    /// Metadata records that it lags behind.
    pub(super) lag: Option<u64>,
    /// Partitions with a replica on the node; `null` if unknown.
    pub(super) partitions: Option<usize>,
    pub(super) machine: Option<String>,
    /// Whether the pod has the desired revision.
    pub(super) current: Option<bool>,
}

impl Status {
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        self.view.for_file = self.snapshot.is_some();
        self.view.look_every(self.watch.map(Duration::from_secs), async |looked, now_ms| {
            let mut out = Out::new(self.view.output());
            if let Some(file) = &self.snapshot {
                snapshot::write(file, &looked, now_ms)?;
            }
            if self.watch.is_some() && std::io::stdout().is_terminal() {
                out.text(CLEAR)?;
            }
            out.view(&ClusterView::new(&looked, now_ms))?;
            match (self.watch, looked.seen.is_kafka_seen()) {
                (Some(_), _) | (None, true) => Ok(()),
                (None, false) => Said::code(KAFKA_SILENT),
            }
        })
    }
}

impl ClusterView {
    pub(super) fn new(looked: &Looked, now_ms: u64) -> Self {
        let Looked { found, seen, unknown, .. } = looked;
        let status = found.kafka.status.as_ref();
        let pods = found.pods.iter();
        let mut nodes: Vec<_> = pods.map(|pod| NodeView::new(found, seen, pod)).collect();
        let there = |id: &NodeId| nodes.iter().any(|node| node.id == Some(id.get()));
        let gone: Vec<_> = seen.recorded.iter().filter(|(id, _)| !there(id)).collect();
        nodes
            .extend(gone.into_iter().map(|(id, member)| NodeView::without_pod(found, *id, member)));
        nodes.sort_by_key(|node| node.id);
        let listeners = status.and_then(|status| status.listeners.as_ref()).into_iter().flatten();
        Self {
            name: found.names.cluster.clone(),
            namespace: found.names.namespace.clone(),
            cluster_id: status.and_then(|status| status.cluster_id.clone()),
            kafka_version: status.and_then(|status| status.kafka_version.clone()),
            metadata_version: status.and_then(|status| status.kafka_metadata_version.clone()),
            conditions: conditions(&found.kafka),
            quorum: seen.quorum.as_ref().map(|quorum| QuorumView::new(quorum, seen.mode)),
            nodes,
            listeners: listeners
                .filter_map(|one| Some((one.name.clone()?, one.bootstrap_servers.clone()?)))
                .collect(),
            doing: doing(seen),
            progress: Progress::of(seen, now_ms),
            unknown: unknown.clone(),
        }
    }
}

/// The operator's current operations, and what they are waiting for.
fn doing(seen: &Seen) -> Vec<String> {
    let refused = seen.refused.iter();
    let notes = refused.chain(seen.notes.iter().map(|(_, note)| note));
    let mut lines: Vec<_> =
        notes.map(|note| format!("{} ({})", note.message, note.reason)).collect();
    if seen.paused {
        lines.insert(0, "nothing, as long as it is paused".to_owned());
    }
    lines
}

impl QuorumView {
    fn new(quorum: &SeenQuorum, mode: QuorumMode) -> Self {
        Self {
            leader: quorum.leader.get(),
            epoch: quorum.epoch,
            dynamic: match mode {
                QuorumMode::Dynamic => Some(true),
                QuorumMode::Static => Some(false),
                QuorumMode::Unknown => None,
            },
            voters: quorum.voters.iter().map(|voter| voter.id.get()).collect(),
        }
    }
}

impl NodeView {
    fn new(found: &Found, seen: &Seen, pod: &Pod) -> Self {
        let is = |label: &str| pod.labels().get(label).is_some_and(|value| value == "true");
        let (broker, controller) = (is(BROKER_LABEL), is(CONTROLLER_LABEL));
        let roles = match (broker, controller) {
            (true, true) => "broker, controller",
            (true, false) => "broker",
            (false, true) => "controller",
            (false, false) => "-",
        };
        let id = node_of_pod(&pod.name_any());
        let number = id.map(NodeId::get);
        let quorum = seen.quorum.as_ref();
        let is_voter = |quorum: &SeenQuorum| quorum.voters.iter().any(|voter| Some(voter.id) == id);
        // What the operator was last told, where Kafka does not answer now.
        let told = found.kafka.status.as_ref().and_then(|status| status.controllers.as_ref());
        let told = told.map(|all| all.iter().any(|one| one.id == number.map(i64::from)));
        let votes = quorum.map(is_voter).or(told);
        let follows = quorum.and_then(|quorum| {
            let mut all = quorum.voters.iter().chain(&quorum.observers);
            quorum.lag(all.find(|one| Some(one.id) == id)?)
        });
        let assigned = seen.assigned();
        Self {
            id: number,
            pod: pod.name_any(),
            pool: pod.labels().get(POOL_LABEL).cloned(),
            roles: roles.to_owned(),
            ready: is_ready(pod),
            votes: votes.filter(|_| controller),
            leads: quorum.is_some_and(|quorum| Some(quorum.leader) == id),
            lag: follows,
            partitions: assigned
                .filter(|_| broker)
                .map(|all| id.and_then(|id| all.get(&id).copied()).unwrap_or(0)),
            machine: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            current: is_current(found, pod),
        }
    }

    /// A recorded node without a pod.
    fn without_pod(found: &Found, id: NodeId, member: &Member) -> Self {
        Self {
            id: Some(id.get()),
            pod: found.names.pod(&member.pool, id),
            pool: Some(member.pool.clone()),
            roles: member.roles.to_string().replace(',', ", "),
            ready: false,
            votes: None,
            leads: false,
            lag: None,
            partitions: None,
            machine: None,
            current: None,
        }
    }

    fn vote(&self) -> String {
        match (self.leads, self.votes) {
            (true, _) => "leads".to_owned(),
            (false, votes) => optional(votes.map(yes_no)),
        }
    }
}

/// Whether a pod has the desired revision.
fn is_current(found: &Found, pod: &Pod) -> Option<bool> {
    let revision = |annotations: &serde_json::Value| {
        annotations
            .get(Annotation::Revision.name())
            .and_then(|text| text.as_str().map(str::to_owned))
    };
    let name = pod.name_any();
    let wanted = found.sets.iter().flat_map(|set| &set.spec.pods).find_map(|pod| {
        let metadata = pod.0.get("metadata")?;
        (metadata.get("name")?.as_str()? == name).then(|| revision(metadata.get("annotations")?))?
    });
    Some(pod.annotations().get(Annotation::Revision.name()) == Some(&wanted?))
}

impl View for ClusterView {
    fn table(&self, width: Option<u16>) -> String {
        let titles = ["CLUSTER", "NAMESPACE", "ID", "KAFKA", "METADATA", "QUORUM"];
        let mut facts = Grid::new(&titles);
        let quorum = self.quorum.as_ref().map(|quorum| {
            let kind = match quorum.dynamic {
                Some(true) => "dynamic",
                Some(false) => "static",
                None => "unknown",
            };
            let voters = match quorum.voters.len() {
                1 => "1 voter".to_owned(),
                count => format!("{count} voters"),
            };
            format!("{kind}, {voters}, node {} leads", quorum.leader)
        });
        facts.row([
            self.name.clone(),
            self.namespace.clone(),
            optional(self.cluster_id.as_ref()),
            optional(self.kafka_version.as_ref()),
            optional(self.metadata_version.as_ref()),
            optional(quorum),
        ]);
        let mut text = facts.take(width) + "\n" + &self.node_table(width);
        if !self.listeners.is_empty() {
            let mut said = Grid::new(&["LISTENER", "CLIENTS START AT"]);
            for (name, servers) in &self.listeners {
                said.row([name.clone(), servers.clone()]);
            }
            text.push('\n');
            text.push_str(&said.take(width));
        }
        match self.doing.is_empty() {
            true => text.push_str("\nNow: no operation in progress\n"),
            false => text.push_str(&bullets("Now", &self.doing, None, width)),
        }
        if let Some(progress) = &self.progress {
            text.push_str(&format!("  {}\n", progress.sentence()));
        }
        for (index, line) in self.conditions.iter().enumerate() {
            let title = if index == 0 { "\nLast decision: " } else { "" };
            let colour = match line.kind.as_str() {
                "Ready" => Some(Colour::Green),
                "NotReady" => Some(Colour::Red),
                "Warning" => Some(Colour::Yellow),
                _ => None,
            };
            text.push_str(&format!("{title}{}\n", painted(&line.sentence(), colour, width)));
        }
        text.push_str(&bullets("Not known", &self.unknown, Some(Colour::Yellow), width));
        text
    }
}

impl ClusterView {
    fn node_table(&self, width: Option<u16>) -> String {
        let mut nodes = Grid::new(&[
            "NODE",
            "POD",
            "ROLES",
            "READY",
            "VOTES",
            "LAG",
            "PARTITIONS",
            "CURRENT",
            "MACHINE",
        ]);
        for node in &self.nodes {
            nodes.row([
                optional(node.id),
                node.pod.clone(),
                node.roles.clone(),
                yes_no(node.ready),
                node.vote(),
                optional(node.lag),
                optional(node.partitions),
                optional(node.current.map(yes_no)),
                optional(node.machine.as_ref()),
            ]);
        }
        nodes.take(width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: i32, roles: &str, votes: Option<bool>, leads: bool) -> NodeView {
        NodeView {
            id: Some(id),
            pod: format!("c-p-{id}"),
            pool: Some("p".to_owned()),
            roles: roles.to_owned(),
            ready: true,
            votes,
            leads,
            lag: Some(u64::from(!leads)),
            partitions: (roles == "broker").then_some(7),
            machine: None,
            current: Some(true),
        }
    }

    #[test]
    fn a_cluster_reads_as_tables_and_sentences() {
        let line = |kind: &str, reason: Option<&str>| Line {
            kind: kind.to_owned(),
            reason: reason.map(str::to_owned),
            message: None,
            since: None,
        };
        let view = ClusterView {
            name: "c".to_owned(),
            namespace: "n".to_owned(),
            cluster_id: Some("abc".to_owned()),
            kafka_version: Some("4.3.1".to_owned()),
            metadata_version: None,
            conditions: vec![line("Ready", None), line("Warning", Some("Odd"))],
            quorum: Some(QuorumView {
                leader: 1,
                epoch: 3,
                dynamic: Some(true),
                voters: vec![1, 2, 3],
            }),
            nodes: vec![
                node(1, "controller", Some(true), true),
                node(2, "controller", Some(true), false),
                node(4, "broker", None, false),
            ],
            listeners: vec![("plain".to_owned(), "h:9092".to_owned())],
            doing: vec!["node 4: waits (Rolling)".to_owned()],
            progress: Some(Progress::example()),
            unknown: vec!["no node of Kafka answers".to_owned()],
        };
        let expected = "\
CLUSTER  NAMESPACE  ID   KAFKA  METADATA  QUORUM
c        n          abc  4.3.1  -         dynamic, 3 voters, node 1 leads

NODE  POD    ROLES       READY  VOTES  LAG  PARTITIONS  CURRENT  MACHINE
1     c-p-1  controller  yes    leads  0    -           yes      -
2     c-p-2  controller  yes    yes    1    -           yes      -
4     c-p-4  broker      yes    -      1    7           yes      -

LISTENER  CLIENTS START AT
plain     h:9092

Now:
  - node 4: waits (Rolling)
  1 of 3 restarted, about 30 s left, from the restarts seen so far

Last decision: Ready
Warning (Odd)

Not known:
  - no node of Kafka answers
";
        assert_eq!(view.table(None), expected);
        assert_eq!(serde_json::to_value(&view).unwrap()["quorum"]["dynamic"], true);
    }
}
