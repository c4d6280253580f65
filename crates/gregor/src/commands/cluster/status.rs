//! `gregor status`: the nodes of a cluster, its quorum, and what is being done.

use api::names::{BROKER_LABEL, CONTROLLER_LABEL, POOL_LABEL, node_of_pod};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde::Serialize;

use super::why::{Line, conditions};
use super::{Found, Target};
use crate::output::{Grid, View, optional};

/// Which cluster.
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    target: Target,
}

/// A cluster, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterView {
    name: String,
    namespace: String,
    cluster_id: Option<String>,
    kafka_version: Option<String>,
    metadata_version: Option<String>,
    conditions: Vec<Line>,
    nodes: Vec<NodeView>,
    listeners: Vec<(String, String)>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeView {
    id: Option<i32>,
    pod: String,
    pool: Option<String>,
    roles: String,
    ready: bool,
    /// Whether it has a vote; `null` for one that is no controller.
    votes: Option<bool>,
    machine: Option<String>,
    /// Whether the pod is as its set wants it.
    current: Option<bool>,
}

impl Status {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.target.run(async |found, mut out| out.view(&ClusterView::new(&found)))
    }
}

impl ClusterView {
    fn new(found: &Found) -> Self {
        let status = found.kafka.status.as_ref();
        let mut nodes: Vec<_> = found.pods.iter().map(|pod| NodeView::new(found, pod)).collect();
        nodes.sort_by_key(|node| node.id);
        let listeners = status.and_then(|status| status.listeners.as_ref()).into_iter().flatten();
        Self {
            name: found.names.cluster.clone(),
            namespace: found.names.namespace.clone(),
            cluster_id: status.and_then(|status| status.cluster_id.clone()),
            kafka_version: status.and_then(|status| status.kafka_version.clone()),
            metadata_version: status.and_then(|status| status.kafka_metadata_version.clone()),
            conditions: conditions(&found.kafka),
            nodes,
            listeners: listeners
                .filter_map(|one| Some((one.name.clone()?, one.bootstrap_servers.clone()?)))
                .collect(),
        }
    }
}

impl NodeView {
    fn new(found: &Found, pod: &Pod) -> Self {
        let is = |label: &str| pod.labels().get(label).is_some_and(|value| value == "true");
        let (broker, controller) = (is(BROKER_LABEL), is(CONTROLLER_LABEL));
        let roles = match (broker, controller) {
            (true, true) => "broker, controller",
            (true, false) => "broker",
            (false, true) => "controller",
            (false, false) => "-",
        };
        let id = node_of_pod(&pod.name_any()).map(model::NodeId::get);
        let voters = found.kafka.status.as_ref().and_then(|status| status.controllers.as_ref());
        let votes = voters.map(|voters| voters.iter().any(|voter| voter.id == id.map(i64::from)));
        let status = pod.status.as_ref();
        let ready = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        Self {
            id,
            pod: pod.name_any(),
            pool: pod.labels().get(POOL_LABEL).cloned(),
            roles: roles.to_owned(),
            ready: ready.into_iter().any(|one| one.type_ == "Ready" && one.status == "True"),
            votes: votes.filter(|_| controller),
            machine: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            current: is_current(found, pod),
        }
    }
}

/// Whether a pod has the revision that its set wants.
fn is_current(found: &Found, pod: &Pod) -> Option<bool> {
    let revision = |annotations: &serde_json::Value| {
        annotations.get("strimzi.io/revision").and_then(|text| text.as_str().map(str::to_owned))
    };
    let name = pod.name_any();
    let wanted = found.sets.iter().flat_map(|set| &set.spec.pods).find_map(|pod| {
        let metadata = pod.0.get("metadata")?;
        (metadata.get("name")?.as_str()? == name).then(|| revision(metadata.get("annotations")?))?
    });
    Some(pod.annotations().get("strimzi.io/revision") == Some(&wanted?))
}

impl View for ClusterView {
    fn table(&self, width: Option<u16>) -> String {
        let mut facts = Grid::new(&["CLUSTER", "NAMESPACE", "ID", "KAFKA", "METADATA"]);
        facts.row([
            self.name.clone(),
            self.namespace.clone(),
            optional(self.cluster_id.as_ref()),
            optional(self.kafka_version.as_ref()),
            optional(self.metadata_version.as_ref()),
        ]);
        let mut text = facts.take(width);
        let mut nodes =
            Grid::new(&["NODE", "POD", "ROLES", "READY", "VOTES", "CURRENT", "MACHINE"]);
        let word = |yes: bool| if yes { "yes" } else { "no" };
        for node in &self.nodes {
            nodes.row([
                optional(node.id),
                node.pod.clone(),
                node.roles.clone(),
                word(node.ready).to_owned(),
                optional(node.votes.map(word)),
                optional(node.current.map(word)),
                optional(node.machine.as_ref()),
            ]);
        }
        text.push('\n');
        text.push_str(&nodes.take(width));
        let mut said = Grid::new(&["LISTENER", "CLIENTS BEGIN AT"]);
        for (name, servers) in &self.listeners {
            said.row([name.clone(), servers.clone()]);
        }
        text.push('\n');
        text.push_str(&said.take(width));
        for line in &self.conditions {
            text.push('\n');
            text.push_str(&line.sentence());
        }
        text
    }
}
