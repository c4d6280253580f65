//! The snapshot of a cluster: what a pass knows, as data that can be written to a file and read again.
//!
//! 1. Every fact is read once in a pass, except the quorum, which is described again after brokers
//!    have answered. Expensive ones are read only if an area [`Needs`] them.
//! 2. Kubernetes objects are reduced to what decisions use. Nothing in a snapshot is secret.
//! 3. A part of a view is no view: a fact that could be read only in part is unknown.
//! 4. What a broker says counts only if the active controller sees it keep up ([`super::witness`]).

use std::collections::{BTreeMap, BTreeSet};

use model::{DirectoryId, NodeId, TopicPartition};
use serde::{Deserialize, Serialize};

use super::area::Area;
use super::draft::Flow;
use super::fact::Fact;
use crate::certificates::{Entry, Timing, authority, leaf};
use crate::conditions::Note;
use crate::node::Roles;
use crate::quorum::{Mark, QuorumView};
use crate::rebalance::auto::{Brokers, Partner, PerMode, Setting};
use crate::registration::KafkaVersion;
use crate::rolling::availability::PartitionFacts;
use crate::rolling::config::Described;
use crate::rolling::facts::{Contact, Recovery};
use crate::users::User;

/// Everything that a pass knows, besides the record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Snapshot {
    /// The time, in milliseconds since 1970.
    pub now_ms: u64,
    /// When the Kubernetes objects were read, likewise.
    pub objects_ms: u64,
    /// Every recorded node.
    pub nodes: BTreeMap<NodeId, NodeView>,
    /// Nodes that should be controllers and are not created, because the quorum is static.
    pub refused: BTreeSet<NodeId>,
    /// The pods of the cluster, by name.
    pub pods: BTreeMap<String, PodView>,
    /// The claims of the cluster, by name.
    pub claims: BTreeMap<String, ClaimView>,
    /// Other objects that belong to one node, pool or listener.
    pub objects: Vec<ObjectView>,
    /// What the user asks for.
    pub desired: Desired,
    /// What Kafka says.
    pub kafka: KafkaView,
    /// The certificate authorities.
    pub authorities: Fact<AuthoritiesView>,
    /// The certificates of the nodes.
    pub certificates: Fact<CertificatesView>,
    /// `KafkaRebalance` resources and moves of replicas.
    pub rebalance: Fact<RebalanceView>,
    /// Users whose Secret holds a password.
    pub users: Vec<User>,
    /// The objects that areas build, by area.
    pub built: BTreeMap<Area, BuiltView>,
}

/// The objects that an area builds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BuiltView {
    /// Existing objects that have to be deleted before others can be created.
    pub outdated: Vec<(ObjectKey, String)>,
    /// Objects that do not exist or differ, in the order in which they are applied.
    pub changes: Vec<ObjectKey>,
    /// Pod sets of removed pools that hold pods that have to go.
    pub orphans: Vec<String>,
    /// The nodes whose pods a pod set has and is to lose, by the name of the set.
    pub stops: BTreeMap<String, BTreeSet<NodeId>>,
    /// What people should know.
    pub warnings: Vec<Note>,
    /// How the pass goes on.
    pub flow: Flow,
}

/// Which object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectKey {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name.
    pub name: String,
}

/// `KafkaRebalance` resources and moves of replicas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RebalanceView {
    /// How the modes of automatic rebalancing are set, and whether their templates exist.
    pub settings: PerMode<Setting>,
    /// The `KafkaRebalance` that the cluster makes for itself in each mode.
    pub partners: PerMode<Partner>,
    /// Brokers of moves that run or are approved.
    pub moving: Brokers,
    /// Whether moves run whose `KafkaRebalance` is gone.
    pub unclaimed: bool,
}

/// The certificate authorities. Keys are known by fingerprints of their public halves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthoritiesView {
    /// The authority that signs for nodes and for the operator.
    pub cluster: AuthorityView,
    /// The authority that signs for users.
    pub clients: AuthorityView,
    /// Whether the trust bundle of the nodes has the certificates of both.
    pub published: bool,
    /// The certificate of the operator.
    pub operator: CertificateView,
}

/// A certificate authority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorityView {
    /// What the user asks for.
    pub settings: authority::Settings,
    /// What is stored.
    pub facts: authority::Facts,
    /// Whether it has a certificate that can be trusted.
    pub trusted: bool,
}

/// The certificates of the nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificatesView {
    /// The certificate of each node.
    pub nodes: BTreeMap<NodeId, CertificateView>,
    /// What is missing of a certificate that the user supplies for a listener.
    pub missing: Option<String>,
}

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateView {
    /// The name of its entries in its Secret.
    pub entry: String,
    /// What is stored.
    pub found: Entry<leaf::Found>,
    /// What it should be.
    pub wanted: leaf::Wanted,
    /// The time, and when it is renewed.
    pub timing: Timing,
    /// Whether another key has taken the place of the one that signed it, under the same generation.
    pub unannounced: bool,
    /// Whether its Secret lacks the generations of an authority that may sign.
    pub unmarked: bool,
    /// Whether its Secret has other certificates for listeners than the user supplies.
    pub incomplete: bool,
}

/// What the user asks for, as far as decisions about a running cluster use it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Desired {
    /// The version of Kafka.
    pub kafka_version: Option<KafkaVersion>,
    /// The metadata version, as the user wrote it.
    pub metadata_version: Option<String>,
    /// Whether the user waives the check for partitions (`strimzi.io/skip-broker-scaledown-check`).
    pub skip_partition_check: bool,
    /// The pools.
    pub pools: BTreeSet<String>,
    /// The names of the Services; `None` if they are not known.
    pub services: Option<BTreeSet<String>>,
    /// Whether the user asks for a migration to a dynamic quorum.
    pub migration: bool,
    /// Whether the annotation for it exists, with whatever value.
    pub migration_annotated: bool,
    /// Whether the configuration of the nodes was built for a dynamic quorum.
    pub configured_dynamic: bool,
    /// How many brokers may be restarted at once (`gregor.io/max-parallel`), as the user wrote it.
    pub max_parallel: Option<String>,
    /// The same for single pools.
    pub pool_max_parallel: BTreeMap<String, String>,
    /// Whether brokers whose partitions go offline in any case may be restarted together
    /// (`gregor.io/allow-offline-batches`).
    pub join_offline: bool,
    /// The pools whose nodes have their metadata log on a volume that is deleted with the pod.
    pub ephemeral_pools: BTreeSet<String>,
    /// The pools whose nodes have any volume that is deleted with the pod.
    pub ephemeral_data_pools: BTreeSet<String>,
    /// Whether the user accepts that the metadata is lost (`gregor.io/accept-metadata-loss`).
    pub accept_metadata_loss: bool,
    /// The pools all of whose nodes the user asks to restart (`strimzi.io/manual-rolling-update` on the pod set).
    pub restart_pools: BTreeSet<String>,
    /// The maintenance windows.
    pub windows: Vec<String>,
    /// How long a pod may take to become ready, as the operator was set up; `None` for the default.
    pub operation_timeout_ms: Option<u64>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// Its pool.
    pub pool: String,
    /// The name of its pod.
    pub pod: String,
    /// Its host name.
    pub host: String,
    /// The roles in the record.
    pub recorded: Option<Roles>,
    /// The roles that the user asks for; `None` if the node is to leave.
    pub desired: Option<Roles>,
    /// The roles that its pod is to have in this pass; `None` if it is to have no pod.
    pub current: Option<Roles>,
    /// The revision that its pod set asks for; `None` if it has none.
    pub revision: Option<Revision>,
    /// The fingerprint of the settings that it should run with; `None` if they could not be built.
    pub settings: Option<String>,
}

/// What a pod is started with and keeps until it is restarted, from its annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Revision {
    /// The hash of its specification.
    pub pod: Option<String>,
    /// The fingerprint of its settings.
    pub settings: Option<String>,
    /// The generation of the certificate of the cluster CA.
    pub cluster_ca: Option<String>,
    /// The generation of the key of the cluster CA.
    pub cluster_ca_key: Option<String>,
    /// The generation of the certificate of the clients CA.
    pub clients_ca: Option<String>,
    /// The fingerprint of its certificate.
    pub certificate: Option<String>,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    /// The node that it runs.
    pub node: Option<NodeId>,
    /// Its pool.
    pub pool: Option<String>,
    /// Its uid.
    pub uid: String,
    /// Whether the kubelet reports it ready and nobody deletes it.
    pub ready: bool,
    /// The roles that it was started with, from its labels.
    pub roles: Option<Roles>,
    /// The version of Kafka that it runs, from its annotations.
    pub kafka_version: Option<KafkaVersion>,
    /// Whether it was started with `controller.quorum.bootstrap.servers`.
    pub dynamic_quorum: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// When its grace period ends, if it is being deleted (`metadata.deletionTimestamp`).
    #[serde(default)]
    pub deletion_ms: Option<u64>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// What a container waits for, in the word of Kubernetes, such as `CrashLoopBackOff`.
    pub waiting: Option<String>,
    /// Whether the scheduler finds no machine for it.
    pub unschedulable: bool,
    /// What it was started with.
    pub revision: Revision,
    /// Whether the user asks to restart it (`strimzi.io/manual-rolling-update`).
    pub restart: bool,
    /// Whether the user says that its metadata disk was replaced (`gregor.io/disk-replaced`).
    #[serde(default)]
    pub disk_replaced: bool,
    /// The exit code with which Kafka's container ended last, if it does not run.
    #[serde(default)]
    pub exit_code: Option<i32>,
}

/// An object that belongs to one node, pool or listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectView {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether it was created for the Kafka nodes of this cluster.
    pub ours: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The pod that it belongs to.
    pub pod: Option<String>,
    /// The pool that it belongs to.
    pub pool: Option<String>,
}

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ObjectKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
    /// A Service.
    Service,
    /// A StrimziPodSet.
    PodSet,
    /// A ServiceAccount.
    ServiceAccount,
    /// A NetworkPolicy.
    NetworkPolicy,
    /// A PodDisruptionBudget.
    PodDisruptionBudget,
    /// A ClusterRoleBinding.
    ClusterRoleBinding,
    /// A PersistentVolumeClaim.
    PersistentVolumeClaim,
}

/// A claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimView {
    /// Its uid.
    pub uid: String,
    /// Whether it was created for the Kafka nodes of this cluster.
    pub ours: bool,
    /// Whether it is deleted together with its node.
    pub delete_with_node: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether its volume has grown, and a restart of the pod grows the file system.
    pub resize_pending: bool,
}

/// What Kafka says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KafkaView {
    /// The quorum, as its leader describes it.
    pub quorum: Fact<QuorumView>,
    /// The addresses of the voters, as Kafka knows them.
    pub endpoints: BTreeMap<NodeId, (String, u16)>,
    /// A place in the leader's log from an earlier pass. Without it a decision waits for one pass more.
    pub earlier: Option<Mark>,
    /// The registered brokers.
    pub brokers: Fact<BTreeMap<NodeId, BrokerView>>,
    /// The broker that listed them.
    pub brokers_from: Option<NodeId>,
    /// The finalized features.
    pub features: Fact<FeaturesView>,
    /// The registered controllers.
    pub controllers: Fact<BTreeSet<NodeId>>,
    /// All partitions.
    pub partitions: Fact<Partitions>,
    /// The directory id of the metadata disk of controllers that do not fetch, from their agents.
    pub directories: BTreeMap<NodeId, Fact<DirectoryId>>,
    /// `controller.quorum.bootstrap.servers` of running nodes.
    pub servers: BTreeMap<NodeId, Fact<Option<String>>>,
    /// Whether brokers are closed for new replicas.
    pub cordons: BTreeMap<NodeId, Fact<bool>>,
    /// Whether Kafka answers on nodes that the others do not report as well.
    pub contacts: BTreeMap<NodeId, Fact<Contact>>,
    /// What nodes that are not ready say of themselves.
    pub recoveries: BTreeMap<NodeId, Fact<Recovery>>,
    /// The settings of running nodes.
    pub settings: BTreeMap<NodeId, Fact<SettingsView>>,
    /// The users that have a SCRAM credential.
    pub scram_users: Fact<BTreeSet<String>>,
}

/// The settings of a running node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingsView {
    /// Those that it should run with. Values that Kafka does not show are left out
    /// ([`crate::rolling::config::shown`]).
    pub desired: BTreeMap<String, String>,
    /// Those that it runs with.
    pub running: BTreeMap<String, Described>,
}

impl KafkaView {
    /// The finalized level of `kraft.version`.
    #[must_use]
    pub fn kraft_version(&self) -> Option<i16> {
        self.features.known()?.kraft_version
    }

    /// The finalized level of `metadata.version`.
    #[must_use]
    pub fn metadata_level(&self) -> Option<i16> {
        self.features.known()?.metadata_version
    }
}

/// A registered broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokerView {
    /// Whether Kafka has fenced it.
    pub fenced: bool,
    /// Its rack.
    pub rack: Option<String>,
}

/// The finalized features. `None` where the node that answered does not know the agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeaturesView {
    /// The level of `kraft.version`.
    pub kraft_version: Option<i16>,
    /// The level of `metadata.version`.
    pub metadata_version: Option<i16>,
}

/// All partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Partitions {
    /// Replicas and in-sync replicas of each.
    pub facts: Vec<PartitionFacts>,
    /// Each partition with its preferred leader and its leader.
    pub leaders: Vec<(TopicPartition, Option<NodeId>, Option<NodeId>)>,
    /// The brokers that described them.
    #[serde(default)]
    pub brokers: BTreeSet<NodeId>,
}

impl Partitions {
    /// To how many partitions each broker is assigned; one that is missing has none.
    #[must_use]
    pub fn assigned(&self) -> BTreeMap<NodeId, usize> {
        let mut counts = BTreeMap::new();
        for partition in &self.facts {
            for node in &partition.replicas {
                *counts.entry(*node).or_default() += 1;
            }
        }
        counts
    }
}

/// Facts that a decision requires and that have not been read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// All partitions.
    pub partitions: bool,
    /// The registered controllers.
    pub controllers: bool,
    /// The directory ids of these controllers, from their agents.
    pub directories: BTreeSet<NodeId>,
    /// `controller.quorum.bootstrap.servers` of these nodes.
    pub servers: BTreeSet<NodeId>,
    /// Whether these brokers are closed for new replicas.
    pub cordons: BTreeSet<NodeId>,
    /// Whether Kafka answers on these nodes.
    pub contacts: BTreeSet<NodeId>,
    /// The certificate authorities.
    pub authorities: bool,
    /// The certificates of the nodes.
    pub certificates: bool,
    /// What these nodes say of themselves.
    pub recoveries: BTreeSet<NodeId>,
    /// The settings of these nodes.
    pub settings: BTreeSet<NodeId>,
    /// `KafkaRebalance` resources and moves of replicas.
    pub rebalance: bool,
    /// The users that have a SCRAM credential.
    pub scram_users: bool,
}

impl Needs {
    /// Whether nothing is missing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what another area needs.
    pub fn extend(&mut self, other: Self) {
        self.partitions |= other.partitions;
        self.controllers |= other.controllers;
        self.directories.extend(other.directories);
        self.servers.extend(other.servers);
        self.cordons.extend(other.cordons);
        self.contacts.extend(other.contacts);
        self.authorities |= other.authorities;
        self.certificates |= other.certificates;
        self.recoveries.extend(other.recoveries);
        self.settings.extend(other.settings);
        self.rebalance |= other.rebalance;
        self.scram_users |= other.scram_users;
    }
}

impl Snapshot {
    /// The pod of a node.
    #[must_use]
    pub fn pod(&self, node: &NodeView) -> Option<&PodView> {
        self.pods.get(&node.pod)
    }

    /// Whether the pod of a node is ready and was started as a controller.
    #[must_use]
    pub fn runs_as_controller(&self, node: &NodeView) -> bool {
        let is_controller = |pod: &PodView| pod.roles.is_some_and(Roles::is_controller);
        self.pod(node).is_some_and(|pod| pod.ready && is_controller(pod))
    }

    /// Whether there may be a pod of this node that runs as a broker: one that was started as a controller only is
    /// none, whatever it was before.
    #[must_use]
    pub fn may_run_as_broker(&self, node: &NodeView) -> bool {
        self.pod(node).is_some_and(|pod| pod.roles.is_none_or(Roles::is_broker))
    }

    /// The nodes whose pods are to be controllers in this pass.
    pub fn controllers(&self) -> impl Iterator<Item = (NodeId, &NodeView)> {
        let is_controller = |node: &NodeView| node.current.is_some_and(Roles::is_controller);
        self.nodes.iter().filter(move |(_, node)| is_controller(node)).map(|(id, node)| (*id, node))
    }

    /// The claims that are deleted together with a node.
    pub fn claims_of(&self, node: &NodeView) -> impl Iterator<Item = (&String, &ClaimView)> {
        let suffix = format!("-{}", node.pod);
        let theirs =
            move |name: &str, claim: &ClaimView| claim.delete_with_node && name.ends_with(&suffix);
        self.claims.iter().filter(move |(name, claim)| theirs(name, claim))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebalance::auto::Request;
    use crate::rebalance::request;
    use crate::users;

    #[test]
    fn a_snapshot_survives_a_file() {
        let node = NodeId::new(3).unwrap();
        let mut snapshot = Snapshot { now_ms: 5, ..Snapshot::default() };
        let view = NodeView {
            pool: "broker".to_owned(),
            pod: "c-broker-3".to_owned(),
            host: "c-broker-3.c-kafka-brokers.n.svc".to_owned(),
            recorded: Some(Roles::Broker),
            desired: None,
            current: Some(Roles::Broker),
            revision: Some(Revision { pod: Some("a".to_owned()), ..Revision::default() }),
            settings: None,
        };
        snapshot.nodes.insert(node, view);
        snapshot.kafka.cordons.insert(node, Fact::read(true, 4));
        snapshot.kafka.contacts.insert(node, Fact::read(Contact::Fails, 4));
        let recovery = Recovery::Yes { logs: 1, segments: 2 };
        snapshot.kafka.recoveries.insert(node, Fact::read(recovery, 4));
        let described = Described {
            value: None,
            source: crate::rolling::config::Source::File,
            read_only: true,
            sensitive: true,
            synonyms: Vec::new(),
        };
        let running = [("a".to_owned(), described)].into();
        let settings = SettingsView { desired: [].into(), running };
        snapshot.kafka.settings.insert(node, Fact::read(settings, 4));
        let key = ObjectKey { kind: ObjectKind::PodSet, name: "c-broker".to_owned() };
        let built = BuiltView {
            changes: vec![key],
            flow: Flow::Wait(Note::new(crate::conditions::Reason::Creating, "soon")),
            ..BuiltView::default()
        };
        snapshot.built.insert(Area::Workload, built);
        let request = Request {
            round: Some(1),
            brokers: [node].into(),
            deleting: false,
            stopping: true,
            outdated: false,
            recorded: Some(request::Recorded::default()),
        };
        let rebalance = RebalanceView {
            settings: PerMode { remove: Setting::Off, add: Setting::Template(Some(true)) },
            partners: PerMode { remove: Partner::Foreign, add: Partner::Present(request) },
            moving: [node].into(),
            unclaimed: true,
        };
        snapshot.rebalance = Fact::read(rebalance, 4);
        let mark = users::Mark::Setting("fingerprint".to_owned());
        let (name, wanted) = ("bob".to_owned(), None);
        snapshot.users.push(User { name, ours: true, deleting: false, wanted, mark });
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
        // A file of an operator that knew less is read with those facts unknown.
        let older: Snapshot = serde_json::from_str(r#"{ "nowMs": 5 }"#).unwrap();
        assert!(older.kafka.partitions.is_unread() && older.rebalance.is_unread());
    }
}
