//! What pages show, as it is sent to the browser. `web/src/model.ts` has the same types.
//!
//! Numbers are plain and times are milliseconds since 1970: the browser writes them for people. What is unknown is
//! `null`, never 0.

mod rebalance;

use serde::Serialize;

pub use rebalance::{Load, Move, Moves, Proposal, Rebalance, Request, Wave};

/// All clusters in short.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The clusters, by namespace and name.
    pub clusters: Vec<ClusterRow>,
    /// What could not be read.
    pub unknown: Vec<String>,
}

/// How a cluster is, in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It matches its spec.
    Ready,
    /// The operator is changing it.
    Progressing,
    /// Something is wrong.
    NotReady,
    /// Reconciliation is paused.
    Paused,
    /// The operator has not reported on it.
    #[default]
    Unknown,
}

/// A cluster in short.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The version of Kafka.
    pub kafka_version: Option<String>,
    /// How it is.
    pub state: State,
    /// How many of its nodes are ready; `None` if the pods could not be read.
    pub ready: Option<usize>,
    /// How many nodes it has, likewise.
    pub nodes: Option<usize>,
    /// What it is waiting for, in one line.
    pub waits_for: Option<String>,
    /// How many warnings there are.
    pub warnings: usize,
    /// When the snapshot was taken, if it comes from a file.
    pub taken_ms: Option<u64>,
}

/// One cluster. Each field is a part that is sent when it has changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// What stands at the top of every page.
    pub summary: Summary,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The quorum; `None` if it could not be described.
    pub quorum: Option<Quorum>,
    /// The roll; `None` if nothing is to be restarted.
    pub roll: Option<Roll>,
    /// What the cluster is waiting for, and what comes next.
    pub why: Why,
    /// Rebalances: requests, proposals and moves.
    pub rebalance: Rebalance,
    /// The state machines, with what is in which state.
    pub machines: Vec<Machine>,
    /// What the user may change.
    pub rights: Rights,
}

/// What stands at the top of every page of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its id in Kafka.
    pub cluster_id: Option<String>,
    /// The version of Kafka.
    pub kafka_version: Option<String>,
    /// The metadata version.
    pub metadata_version: Option<String>,
    /// How it is.
    pub state: State,
    /// What the operator reported last, what matters most first.
    pub conditions: Vec<Condition>,
    /// The listeners.
    pub listeners: Vec<Listener>,
    /// The certificates, the one that ends first first.
    pub certificates: Vec<Certificate>,
    /// Whether the certificates could be read.
    pub certificates_known: bool,
    /// The health of partitions; `None` if they could not be described.
    pub partitions: Option<Partitions>,
    /// When the snapshot was taken, if it comes from a file.
    pub taken_ms: Option<u64>,
    /// What is unknown, and why.
    pub unknown: Vec<String>,
    /// Since when the operator has not renewed its Lease, if that is too long.
    pub operator_silent_since_ms: Option<u64>,
}

/// A condition of the Kafka resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its type.
    pub kind: String,
    /// Its reason.
    pub reason: Option<String>,
    /// Its message.
    pub message: Option<String>,
    /// When it became so.
    pub since: Option<String>,
}

/// A listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Its name.
    pub name: String,
    /// Its bootstrap addresses.
    pub bootstrap: String,
}

/// A certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// Whose it is.
    pub name: String,
    /// From when it is valid.
    pub starts_ms: i64,
    /// When it ends.
    pub ends_ms: i64,
}

/// The health of the partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Partitions {
    /// How many there are.
    pub all: usize,
    /// How many have fewer replicas in sync than replicas.
    pub under_replicated: usize,
    /// How many have fewer replicas in sync than `min.insync.replicas`.
    pub under_min_isr: usize,
    /// How many have no leader.
    pub leaderless: usize,
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its id.
    pub id: Option<i32>,
    /// Its pod.
    pub pod: String,
    /// Its pool.
    pub pool: Option<String>,
    /// Whether it is a broker.
    pub broker: bool,
    /// Whether it is a controller.
    pub controller: bool,
    /// Whether its pod is ready.
    pub ready: bool,
    /// Whether there is no pod.
    pub absent: bool,
    /// Whether its pod is being deleted.
    pub stopping: bool,
    /// What a container waits for, such as `CrashLoopBackOff`.
    pub waiting: Option<String>,
    /// The version of Kafka that it runs.
    pub kafka_version: Option<String>,
    /// Whether it leads the quorum.
    pub leads: bool,
    /// Whether it has a vote; `None` if it is no controller or that is unknown.
    pub votes: Option<bool>,
    /// How many records of the metadata it lacks.
    pub lag: Option<u64>,
    /// How many partitions have a replica on it.
    pub partitions: Option<usize>,
    /// How many partitions it leads.
    pub leaders: Option<usize>,
    /// The machine on which its pod runs.
    pub machine: Option<String>,
    /// Its rack: as Kafka knows it, else the zone of the machine.
    pub rack: Option<String>,
    /// Whether Kafka has fenced it.
    pub fenced: Option<bool>,
    /// Whether its pod has the revision that its pod set asks for.
    pub current: Option<bool>,
    /// Whether it is to leave the cluster.
    pub leaving: bool,
    /// Its log directories; empty if they are unknown.
    pub disks: Vec<Disk>,
}

/// A log directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Its path.
    pub path: String,
    /// The bytes of the logs on it.
    pub logs_bytes: u64,
    /// The bytes in use on the volume.
    pub used_bytes: Option<u64>,
    /// The size of the volume.
    pub total_bytes: Option<u64>,
}

/// The quorum.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Quorum {
    /// The leader.
    pub leader: i32,
    /// Its epoch.
    pub epoch: i32,
    /// Whether voters can be added and removed; `None` if that is unknown.
    pub dynamic: Option<bool>,
    /// How many voters are a majority.
    pub majority: usize,
    /// The voters.
    pub voters: Vec<Replica>,
    /// The observers.
    pub observers: Vec<Replica>,
    /// The next change of voters, if there is one.
    pub next: Option<Awaited>,
}

/// A replica of the metadata log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replica {
    /// The node.
    pub id: i32,
    /// The directory id of its disk.
    pub directory: Option<String>,
    /// How many records it lacks.
    pub lag: Option<u64>,
    /// Whether it has caught up with the leader.
    pub caught_up: bool,
}

/// A roll.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Roll {
    /// How it stands: `settled`, `rolling`, `waiting`, `failed` or `stopped`.
    pub standing: String,
    /// When it began; `None` if nothing has been restarted.
    pub started_ms: Option<u64>,
    /// How many restarts have ended.
    pub restarted: usize,
    /// The nodes that are being restarted.
    pub under_way: Vec<i32>,
    /// The nodes that are still to be restarted.
    pub left: Vec<i32>,
    /// The nodes that were given up.
    pub given_up: Vec<i32>,
    /// The nodes that stop everything else.
    pub stopping: Vec<i32>,
    /// The last batches that ended.
    pub batches: Vec<Batch>,
    /// When the batch under way began.
    pub batch_started_ms: Option<u64>,
    /// When the roll is expected to end, to the nearest five seconds.
    pub ends_ms: Option<u64>,
    /// The certificate of the batch under way.
    pub certificate: Option<BatchCertificate>,
    /// What nodes wait for.
    pub waits: Vec<Wait>,
}

/// A batch that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// How many nodes it had.
    pub nodes: u32,
    /// How long it took.
    pub took_ms: u64,
}

/// What a batch leaves of the partitions that it touches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchCertificate {
    /// The partitions with the fewest in-sync replicas to spare.
    pub tightest: Vec<Left>,
    /// Some of those that go offline in any case.
    pub offline: Vec<String>,
    /// How many of those there are.
    pub offline_count: usize,
}

/// What is left of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Left {
    /// The partition.
    pub partition: String,
    /// How many replicas stay in sync.
    pub in_sync: usize,
    /// How many must.
    pub min_isr: usize,
}

/// Nodes that wait for the same thing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// The nodes.
    pub nodes: Vec<i32>,
    /// Why they are to be restarted: the name and the sentence.
    pub reasons: Vec<(String, String)>,
    /// What they wait for.
    pub hold: String,
    /// The rule.
    pub rule: String,
    /// Whether they are being restarted.
    pub under_way: bool,
    /// Whether they were given up.
    pub given_up: bool,
}

/// What the cluster is waiting for, and what comes next.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// What the cluster is waiting for.
    pub awaited: Vec<Awaited>,
    /// Rebalances that have not ended.
    pub rebalances: Vec<Condition>,
    /// What is left to do until the cluster matches its spec, in order.
    pub plan: Vec<Line>,
    /// Warnings.
    pub warnings: Vec<Warning>,
}

/// Something that the cluster is waiting for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Awaited {
    /// What waits.
    pub about: String,
    /// For what.
    pub what: String,
    /// By which rule.
    pub rule: Option<String>,
    /// The partitions concerned: the first of them.
    pub partitions: Vec<String>,
    /// How many there are.
    pub partition_count: usize,
}

/// A line of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// The kind of step, as `gregor plan -o json` names it.
    pub kind: String,
    /// The nodes that it is about.
    pub nodes: Vec<i32>,
    /// The sentence.
    pub text: String,
}

/// A warning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// Its reason.
    pub reason: String,
    /// The sentence.
    pub message: String,
}

/// A state machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Its name: that of its drawing in the documentation.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its edges: from a state, by an event, to a state. The first one begins in the first state.
    pub edges: Vec<[String; 3]>,
    /// What is in which state.
    pub subjects: Vec<Subject>,
}

/// Something that is in a state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: String,
    /// Since when, if that is recorded.
    pub since_ms: Option<u64>,
}

/// What the user may change; `None` if that is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rights {
    /// Approve, stop and refresh rebalances.
    pub rebalance: Option<bool>,
    /// Apply changes of the Kafka and its pools.
    pub apply: Option<bool>,
}

/// A fleet.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    /// Its regions.
    pub regions: Vec<Region>,
    /// Its data planes.
    pub planes: Vec<Plane>,
    /// The last decisions, newest first.
    pub decisions: Vec<FleetDecision>,
}

/// A region of a fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Region {
    /// The cloud and the region.
    pub name: String,
    /// How many data planes it may have.
    pub planes_max: u64,
    /// How many Kafka clusters wait for a data plane.
    pub waiting: u64,
    /// Why it gets no more data planes.
    pub held: Option<String>,
}

/// A data plane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plane {
    /// Its id.
    pub id: String,
    /// The region that it is in.
    pub region: String,
    /// Whether its nodes are in several zones.
    pub multi_zone: bool,
    /// Its status.
    pub status: String,
    /// Why it has that status.
    pub reason: String,
    /// What needs a person.
    pub attention: Option<String>,
    /// How many nodes it has.
    pub nodes: Option<i64>,
    /// How many nodes it is to have.
    pub nodes_desired: Option<i64>,
    /// Connections that it can still take.
    pub free_connections: Option<u64>,
    /// Partitions that it can still take.
    pub free_partitions: Option<u64>,
    /// How many Kafka clusters it has.
    pub clusters: u64,
}

/// A decision of a fleet manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetDecision {
    /// When it was made.
    pub at: String,
    /// The data plane or the region that it is about.
    pub about: String,
    /// Its kind.
    pub kind: String,
    /// What it changed: the value before, and after.
    pub was: String,
    /// The value after.
    pub becomes: String,
    /// Why.
    pub reason: String,
}
