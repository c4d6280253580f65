//! Validates the spec as a whole before anything acts on it.
//!
//! 1. A spec that is refused changes nothing: the cluster that runs is left as it is.
//! 2. All findings are given at once, in the order of this file, so that the same spec gives the same text.
//! 3. A message says what is wrong and what to do about it.
//! 4. The words of Strimzi's warnings are Strimzi's. Only controllers that do not survive a restart have a reason of their
//!    own: the operator does not restart them by itself.
//!
//! It looks at the spec and at versions, and at nothing else of the world: whether disks or nodes can follow
//! is decided elsewhere.

mod config;
mod listeners;
mod names;
pub mod templates;
mod values;
mod versions;

use std::collections::BTreeMap;

pub use versions::{Versions, resolve};

use crate::annotations::Annotation;
use crate::cluster::spec::{ClusterSpec, Disk, PoolSpec};
use crate::cluster::storage::metadata_is_ephemeral;
use crate::conditions::{self, Note};
use crate::lag::Filter;
use crate::node::Roles;
use crate::quorum::plan::Warning;
use crate::registration::{KafkaVersion, MetadataVersion};
use crate::rolling::quorum;

/// More nodes than anybody runs in one cluster: a slip of the pen, which must not cost the memory of the
/// operator.
pub const NODES_MAX: u64 = 10_000;

/// The versions of Kafka that can be run, each with the newest metadata version that it has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known(pub BTreeMap<KafkaVersion, MetadataVersion>);

impl Known {
    /// These versions of Kafka. One that has no metadata version that we know cannot be run.
    #[must_use]
    pub fn of(versions: impl IntoIterator<Item = KafkaVersion>) -> Self {
        let pairs = versions.into_iter().map(|one| Some((one, one.newest_metadata()?)));
        Self(pairs.flatten().collect())
    }

    /// The version that runs when the user names none: the newest.
    #[must_use]
    pub fn newest(&self) -> Option<KafkaVersion> {
        self.0.keys().next_back().copied()
    }
}

/// What a cluster that exists is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Current {
    /// The metadata version that its nodes agree on; `None` if it could not be asked for.
    pub metadata: Option<MetadataVersion>,
}

/// A finding about the spec that the user has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind.
    pub reason: Reason,
    /// What is wrong and what to do.
    pub message: String,
}

impl Finding {
    /// What follows from it.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        self.reason.severity()
    }

    /// As it is told in a condition.
    #[must_use]
    pub fn note(&self) -> Note {
        Note::new(conditions::Reason::Spec(self.reason), self.message.clone())
    }
}

/// What follows from a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The spec is not acted on.
    Refused,
    /// They are acted on, and somebody is told.
    Warning,
}

/// Declares the reasons once: their names, severities and documentation.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident => $severity:ident,)*) => {
        /// The kinds of findings.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
        )]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The word in conditions.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What follows from it.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)* }
            }
        }
    };
}

reasons! {
    /// The name of the cluster or of a pool makes names that Kubernetes does not take.
    InvalidName => Refused,
    /// There is no pool with a node.
    NoNodePools => Refused,
    /// No pool has brokers.
    NoBroker => Refused,
    /// No pool has controllers.
    NoController => Refused,
    /// More nodes than anybody runs.
    TooManyNodes => Refused,
    /// A Kafka that we do not have.
    UnsupportedKafkaVersion => Refused,
    /// Not a metadata version, or none that fits.
    InvalidMetadataVersion => Refused,
    /// An older Kafka could not read the metadata that the cluster has.
    KafkaVersionDowngrade => Refused,
    /// No listener at all.
    NoListener => Refused,
    /// A name that is none for a listener.
    InvalidListenerName => Refused,
    /// A port that a listener cannot have.
    InvalidListenerPort => Refused,
    /// Two listeners with one name.
    DuplicateListenerName => Refused,
    /// Two listeners on one port.
    DuplicateListenerPort => Refused,
    /// Client certificates without TLS.
    TlsAuthenticationWithoutTls => Refused,
    /// A certificate without TLS.
    CertificateWithoutTls => Refused,
    /// Replicas that there are not enough brokers for.
    ReplicationFactorTooHigh => Refused,
    /// A value that Kafka would not start with.
    InvalidConfiguration => Refused,
    /// A config provider with a name of ours.
    ReservedConfigProvider => Refused,
    /// Two volumes with one number.
    DuplicateVolume => Refused,
    /// More than one place for the metadata log.
    SeveralMetadataVolumes => Refused,
    /// A label or annotation of ours.
    ReservedLabel => Refused,
    /// Certificates that would be renewed all the time.
    CertificateRenewal => Refused,
    /// A volume that reaches beyond the namespace, or is the node's own.
    ForbiddenVolume => Refused,
    /// A mount that would hide a directory of the node.
    ForbiddenVolumeMount => Refused,
    /// A security context that the Pod Security profile `restricted` does not permit.
    ForbiddenSecurityContext => Refused,
    /// An environment variable from a source that is not supported.
    ForbiddenEnvironment => Refused,
    /// A text that would mean something else where it is written to.
    InvalidValue => Refused,
    /// Expressions of the metrics of topics and groups that cannot be read.
    InvalidExporterRegex => Warning,
    /// Resources of topics or users in a namespace that the operator may not work in.
    WatchedNamespaceNotAllowed => Warning,
    /// Environment variables that the operator sets.
    IgnoredEnvironment => Warning,
    /// Settings that are ours to make.
    ForbiddenConfiguration => Warning,
    /// Topics have one replica unless they say otherwise.
    KafkaDefaultReplicationFactor => Warning,
    /// Writes are acknowledged by one replica unless a topic says otherwise.
    KafkaMinInsyncReplicas => Warning,
    /// Data that does not outlive a restart.
    KafkaStorage => Warning,
    /// Controllers whose restart loses the metadata of the cluster.
    EphemeralController => Warning,
    /// An even number of controllers.
    KafkaKRaftControllerNodeCount => Warning,
    /// A metadata version older than Kafka.
    KafkaMetadataVersion => Warning,
    /// A setting that Kafka no longer has.
    KafkaInterBrokerProtocolVersionInKRaft => Warning,
    /// A setting that Kafka no longer has.
    KafkaLogMessageFormatVersionInKRaft => Warning,
}

/// All findings about a spec. `current` is the cluster as it is; `None` if there is none yet.
#[must_use]
pub fn validate(spec: &ClusterSpec, known: &Known, current: Option<&Current>) -> Vec<Finding> {
    let mut findings = Findings(Vec::new());
    names::check(spec, &mut findings);
    nodes(spec, &mut findings);
    versions::check(spec, known, current, &mut findings);
    listeners::check(&spec.listeners, &mut findings);
    config::check(spec, &mut findings);
    values::check(spec, &mut findings);
    templates::check(spec, &mut findings);
    spec.pools.iter().for_each(|pool| volumes(pool, &mut findings));
    authorities(spec, &mut findings);
    storage(spec, &mut findings);
    exporter(spec, &mut findings);
    findings.0
}

/// What is to be said of resources in another namespace. `is_allowed` says whether the operator may work there: whoever
/// may edit a `Kafka` would have it write to resources of others.
#[must_use]
pub fn watched_namespaces(spec: &ClusterSpec, is_allowed: bool) -> Vec<Finding> {
    let halves = [
        ("topicOperator", "KafkaTopics", &spec.topics_namespace),
        ("userOperator", "KafkaUsers", &spec.users_namespace),
    ];
    let finding = |(field, resources, watched): (&str, &str, &Option<String>)| {
        let watched = watched.as_ref().filter(|watched| **watched != spec.namespace)?;
        let message = format!(
            "spec.entityOperator.{field}.watchedNamespace: {resources} in namespace {watched} are not managed, because \
             the operator was started without --watched-namespace-enabled=true. Start it with that option, or remove \
             watchedNamespace to manage the {resources} in namespace {}",
            spec.namespace
        );
        Some(Finding { reason: Reason::WatchedNamespaceNotAllowed, message })
    };
    let findings = halves.into_iter().filter_map(finding);
    if is_allowed { Vec::new() } else { findings.collect() }
}

/// Whether a spec with these findings may be acted on.
#[must_use]
pub fn is_refused(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity() == Severity::Refused)
}

struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, reason: Reason, message: impl Into<String>) {
        self.0.push(Finding { reason, message: message.into() });
    }
}

fn nodes(spec: &ClusterSpec, findings: &mut Findings) {
    let total: u64 = spec.pools.iter().map(|pool| u64::from(pool.replicas)).sum();
    if total == 0 {
        findings.add(
            Reason::NoNodePools,
            format!(
                "there is no KafkaNodePool with a node: create one with replicas above 0 and the \
                 label strimzi.io/cluster: {}",
                spec.name
            ),
        );
        return;
    }
    if total > NODES_MAX {
        let message = format!("{total} nodes are requested, and at most {NODES_MAX} are supported");
        findings.add(Reason::TooManyNodes, message);
    }
    let missing = [
        (spec.brokers(), Reason::NoBroker, "broker"),
        (spec.controllers(), Reason::NoController, "controller"),
    ];
    for (count, reason, role) in missing {
        if count == 0 {
            let message = format!(
                "no node has the role {role}: give it to a KafkaNodePool with replicas above 0"
            );
            findings.add(reason, message);
        }
    }
    let controllers = spec.controllers();
    if controllers != 0 && controllers.is_multiple_of(2) {
        // In the words of the quorum's planner, which says it too: it is told once.
        let even = Warning::EvenCount(usize::try_from(controllers).unwrap_or(usize::MAX));
        findings.add(Reason::KafkaKRaftControllerNodeCount, even.to_string());
    }
}

fn volumes(pool: &PoolSpec, findings: &mut Findings) {
    let volumes = pool.storage.volumes();
    let mut ids: Vec<_> = volumes.iter().map(|volume| volume.id).collect();
    ids.sort_unstable();
    let mut repeated: Vec<_> =
        ids.windows(2).filter(|two| two[0] == two[1]).map(|two| two[0]).collect();
    repeated.dedup();
    for id in repeated {
        let message = format!(
            "pool {} has several volumes with the number {id}: give each volume its own",
            pool.name
        );
        findings.add(Reason::DuplicateVolume, message);
    }
    if volumes.iter().filter(|volume| volume.kraft_metadata).count() > 1 {
        let message = format!(
            "several volumes of pool {} have kraftMetadata: the metadata log is in one place",
            pool.name
        );
        findings.add(Reason::SeveralMetadataVolumes, message);
    }
}

fn authorities(spec: &ClusterSpec, findings: &mut Findings) {
    let both = [("clusterCa", spec.cluster_ca), ("clientsCa", spec.clients_ca)];
    for (name, authority) in both {
        if authority.renewal_days >= authority.validity_days {
            let message = format!(
                "spec.{name}: certificates are valid for {} days and are renewed {} days before \
                 they expire, so permanently: make renewalDays smaller than validityDays",
                authority.validity_days, authority.renewal_days
            );
            findings.add(Reason::CertificateRenewal, message);
        }
    }
}

/// Expressions that cannot be read: there are no metrics then.
fn exporter(spec: &ClusterSpec, findings: &mut Findings) {
    let Some(patterns) = &spec.exporter else { return };
    if let Err(error) = Filter::new(patterns) {
        let message = format!(
            "spec.kafkaExporter.{error}. No metrics of topics and consumer groups are served until it is corrected"
        );
        findings.add(Reason::InvalidExporterRegex, message);
    }
}

/// Nodes that lose what nobody else has when they restart.
fn storage(spec: &ClusterSpec, findings: &mut Findings) {
    let pools = |has_role: fn(Roles) -> bool| {
        spec.pools.iter().filter(move |pool| pool.replicas > 0 && has_role(pool.roles))
    };
    let is_ephemeral = |pool: &PoolSpec| {
        pool.storage.volumes().iter().any(|one| matches!(one.disk, Disk::Ephemeral { .. }))
    };
    if spec.brokers() == 1 && pools(Roles::is_broker).any(is_ephemeral) {
        let message = "A Kafka cluster with a single broker node and ephemeral storage will lose topic messages after \
                       any restart or rolling update: use persistent-claim, or more nodes";
        findings.add(Reason::KafkaStorage, message);
    }
    let controllers = usize::try_from(spec.controllers()).unwrap_or(usize::MAX);
    let mut pools = pools(Roles::is_controller);
    if quorum::needs_every_voter(controllers)
        && pools.any(|pool| metadata_is_ephemeral(&pool.storage))
    {
        let nodes =
            if controllers == 1 { "a single controller node" } else { "two controller nodes" };
        let message = format!(
            "A Kafka cluster with {nodes} and ephemeral storage does not survive a restart of a controller: use \
             persistent-claim, or three controllers. Such a controller is restarted only with the annotation \
             {}: \"true\" on the Kafka resource",
            Annotation::AcceptMetadataLoss.name()
        );
        findings.add(Reason::EphemeralController, message);
    }
}

#[cfg(test)]
mod tests;
