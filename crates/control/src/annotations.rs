//! The annotations that Gregor reads and writes, each with the objects that carry it, who writes it, and its meaning.
//!
//! `docs/generated/annotations.md` is made from this list. `cargo xtask tidy` finds names that are written elsewhere.

use std::collections::BTreeMap;

/// Who writes an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A user, who asks for something.
    User,
    /// The operator, which keeps something.
    Operator,
    /// The agent of a fleet.
    Agent,
}

/// An annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Annotation {
    /// `strimzi.io/pause-reconciliation`.
    PauseReconciliation,
    /// `strimzi.io/manual-rolling-update`.
    ManualRollingUpdate,
    /// `gregor.io/max-parallel`.
    MaxParallel,
    /// `gregor.io/allow-offline-batches`.
    AllowOfflineBatches,
    /// `gregor.io/accept-metadata-loss`.
    AcceptMetadataLoss,
    /// `strimzi.io/skip-broker-scaledown-check`.
    SkipScaleDownCheck,
    /// `strimzi.io/kraft-quorum-migration`.
    QuorumMigration,
    /// `gregor.io/disk-replaced`.
    DiskReplaced,
    /// `strimzi.io/next-node-ids`.
    NextNodeIds,
    /// `strimzi.io/remove-node-ids`.
    RemoveNodeIds,
    /// `gregor.io/engine`.
    Engine,
    /// `gregor.io/cruise-control-url`.
    CruiseControlUrl,
    /// `strimzi.io/rebalance`.
    Rebalance,
    /// `strimzi.io/rebalance-template`.
    RebalanceTemplate,
    /// `strimzi.io/rebalance-auto-approval`.
    RebalanceAutoApproval,
    /// `strimzi.io/managed`.
    Managed,
    /// `gregor.io/topic-config`.
    TopicConfig,
    /// `gregor.io/user-key`.
    UserKey,
    /// `gregor.io/secret-metadata`.
    SecretMetadata,
    /// `strimzi.io/force-renew`.
    ForceRenew,
    /// `strimzi.io/force-replace`.
    ForceReplace,
    /// `gregor.io/auto-rebalance-round`.
    AutoRebalanceRound,
    /// `gregor.io/scram-credential`.
    ScramCredential,
    /// `strimzi.io/revision`.
    Revision,
    /// `gregor.io/settings`.
    Settings,
    /// `strimzi.io/configuration-hash`.
    ConfigurationHash,
    /// `strimzi.io/kafka-version`.
    KafkaVersion,
    /// `gregor.io/quorum`.
    Quorum,
    /// `strimzi.io/server-cert-hash`.
    ServerCertHash,
    /// `strimzi.io/custom-listener-cert-thumbprints`.
    ListenerCertThumbprints,
    /// `strimzi.io/cluster-ca-cert-generation`.
    ClusterCaCertGeneration,
    /// `strimzi.io/cluster-ca-key-generation`.
    ClusterCaKeyGeneration,
    /// `strimzi.io/clients-ca-cert-generation`.
    ClientsCaCertGeneration,
    /// `strimzi.io/clients-ca-key-generation`.
    ClientsCaKeyGeneration,
    /// `strimzi.io/ca-cert-generation`.
    CaCertGeneration,
    /// `strimzi.io/ca-key-generation`.
    CaKeyGeneration,
    /// `strimzi.io/delete-claim`.
    DeleteClaim,
    /// `gregor.io/cluster-id`.
    ClusterId,
    /// `gregor.io/roles`.
    Roles,
    /// `gregor.io/quorum-mode`.
    QuorumMode,
    /// `strimzi.io/storage`.
    Storage,
    /// `gregor.io/applied`.
    Applied,
    /// `strimzi.io/discovery`.
    Discovery,
    /// `gregor.io/namespace`.
    Namespace,
    /// `gregor.io/takes`.
    FleetCapacity,
    /// `gregor.io/version`.
    Version,
    /// `gregor.io/record-format`.
    RecordFormat,
    /// `gregor.io/kafka-versions`.
    KafkaVersions,
    /// `gregor.io/ignore-strimzi`.
    IgnoreStrimzi,
}

impl Annotation {
    /// All of them.
    #[rustfmt::skip]
    pub const ALL: [Self; 49] = [
        Self::PauseReconciliation, Self::ManualRollingUpdate, Self::MaxParallel, Self::AllowOfflineBatches,
        Self::AcceptMetadataLoss, Self::SkipScaleDownCheck, Self::QuorumMigration, Self::DiskReplaced,
        Self::NextNodeIds, Self::RemoveNodeIds, Self::Engine, Self::CruiseControlUrl, Self::Rebalance, Self::RebalanceTemplate, Self::RebalanceAutoApproval,
        Self::Managed, Self::TopicConfig, Self::UserKey, Self::SecretMetadata, Self::ForceRenew, Self::ForceReplace, Self::AutoRebalanceRound, Self::ScramCredential, Self::Revision,
        Self::Settings, Self::ConfigurationHash, Self::KafkaVersion, Self::Quorum, Self::ServerCertHash,
        Self::ListenerCertThumbprints, Self::ClusterCaCertGeneration, Self::ClusterCaKeyGeneration,
        Self::ClientsCaCertGeneration, Self::ClientsCaKeyGeneration, Self::CaCertGeneration,
        Self::CaKeyGeneration, Self::DeleteClaim, Self::ClusterId, Self::Roles, Self::QuorumMode, Self::Storage, Self::Applied,
        Self::Discovery, Self::Namespace, Self::FleetCapacity, Self::Version, Self::RecordFormat,
        Self::KafkaVersions, Self::IgnoreStrimzi,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// What is to be known of it.
    #[must_use]
    pub const fn row(self) -> Row {
        let (name, objects, writer, meaning) = ROWS[self as usize];
        Row { name, objects, writer, meaning }
    }
}

/// What is to be known of an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// The kinds of objects that carry it.
    pub objects: &'static str,
    /// Who writes it.
    pub writer: Writer,
    /// What it means.
    pub meaning: &'static str,
}

/// Name, objects, writer and meaning.
type Columns = (&'static str, &'static str, Writer, &'static str);

/// In the order of the enum.
#[rustfmt::skip]
const ROWS: [Columns; Annotation::ALL.len()] = {
    use Writer::{Agent, Operator, User};
    [
        ("strimzi.io/pause-reconciliation", "Kafka, KafkaRebalance, KafkaTopic, KafkaUser", User,
            "`true` stops all changes to the resource until the annotation is removed"),
        ("strimzi.io/manual-rolling-update", "Pod, StrimziPodSet", User,
            "`true` restarts the node, or all nodes of the pool, when the rules allow it; the operator removes it"),
        ("gregor.io/max-parallel", "Kafka, KafkaNodePool", User,
            "the greatest number of brokers that restart at the same time"),
        ("gregor.io/allow-offline-batches", "Kafka", User,
            "`true` lets brokers share a batch whose restarts take partitions offline in any case"),
        ("gregor.io/accept-metadata-loss", "Kafka", User,
            "`true` accepts that metadata is lost: controllers are restarted whose disks are deleted with their pods, and a \
            static quorum of which a majority has lost its disks gets a leader again"),
        ("strimzi.io/skip-broker-scaledown-check", "Kafka", User,
            "`true` removes brokers although partitions are assigned to them; they are not drained"),
        ("strimzi.io/kraft-quorum-migration", "Kafka", User,
            "starts the migration from a static quorum to a dynamic one; the operator removes it"),
        ("gregor.io/disk-replaced", "Pod", User,
            "`true` formats the empty disk of a controller of a static quorum, when enough other controllers have caught up"),
        ("strimzi.io/next-node-ids", "KafkaNodePool", User,
            "the ids that new nodes of the pool get, as a list of ids and ranges"),
        ("strimzi.io/remove-node-ids", "KafkaNodePool", User,
            "the ids of the nodes that are removed first, as a list of ids and ranges"),
        ("gregor.io/engine", "Kafka", User, "`cruise-control` has an existing Cruise Control carry out rebalances"),
        ("gregor.io/cruise-control-url", "Kafka", User, "the address of that Cruise Control"),
        ("strimzi.io/rebalance", "KafkaRebalance", User, "`approve`, `stop` or `refresh`; the operator removes it"),
        ("strimzi.io/rebalance-template", "KafkaRebalance", User,
            "`true` makes the resource a template for the rebalances that the cluster starts by itself"),
        ("strimzi.io/rebalance-auto-approval", "KafkaRebalance", User, "`true` approves every proposal"),
        ("strimzi.io/managed", "KafkaTopic", User, "`false` leaves the topic alone, also when the resource is deleted"),
        ("gregor.io/topic-config", "KafkaTopic", User,
            "`keep` keeps settings of the topic that a resource without `spec.config` does not have, `replace` resets them; \
             the operator writes `keep` if the topic existed before its resource"),
        ("gregor.io/user-key", "KafkaUser", User,
            "`rsa` issues the next certificate with an RSA key, for clients that cannot use other keys; `ec` is the default"),
        ("gregor.io/secret-metadata", "Secret", Operator,
            "the names of the labels and annotations that were copied from the KafkaUser to its Secret"),
        ("strimzi.io/force-renew", "Secret", User,
            "`true` renews the certificate of the authority, or the certificate or password of the user"),
        ("strimzi.io/force-replace", "Secret", User, "`true` replaces the key of the authority"),
        ("gregor.io/auto-rebalance-round", "KafkaRebalance", Operator,
            "the change of brokers that the rebalance was created for"),
        ("gregor.io/scram-credential", "Secret", Operator,
            "a salted fingerprint of the credential that Kafka has for the user"),
        ("strimzi.io/revision", "Pod", Operator, "a hash of the definition of the pod"),
        ("gregor.io/settings", "Pod", Operator, "a hash of the settings that the node was started with"),
        ("strimzi.io/configuration-hash", "Pod", Operator,
            "a hash of the settings that take effect at a restart only"),
        ("strimzi.io/kafka-version", "Pod, StrimziPodSet", Operator, "the version of Kafka that the node runs"),
        ("gregor.io/quorum", "Pod", Operator, "how the node finds the controllers"),
        ("strimzi.io/server-cert-hash", "Pod", Operator, "a hash of the certificate that the node was started with"),
        ("strimzi.io/custom-listener-cert-thumbprints", "Pod", Operator,
            "hashes of the certificates that users gave for listeners"),
        ("strimzi.io/cluster-ca-cert-generation", "Pod, Secret", Operator,
            "the generation of the certificate of the cluster CA that is trusted"),
        ("strimzi.io/cluster-ca-key-generation", "Pod, Secret", Operator,
            "the generation of the key of the cluster CA that signed"),
        ("strimzi.io/clients-ca-cert-generation", "Pod, Secret", Operator,
            "the generation of the certificate of the clients CA that is trusted"),
        ("strimzi.io/clients-ca-key-generation", "Pod, Secret", Operator,
            "the generation of the key of the clients CA that signed"),
        ("strimzi.io/ca-cert-generation", "Secret", Operator, "the generation of the certificate of the authority"),
        ("strimzi.io/ca-key-generation", "Secret", Operator, "the generation of the key of the authority"),
        ("strimzi.io/delete-claim", "PersistentVolumeClaim", Operator, "whether the claim is deleted with its node"),
        ("gregor.io/cluster-id", "PersistentVolumeClaim", Operator,
            "the id of the cluster whose data the claim holds"),
        ("gregor.io/roles", "PersistentVolumeClaim", Operator, "the roles of the node whose data the claim holds"),
        ("gregor.io/quorum-mode", "PersistentVolumeClaim", Operator,
            "`static` or `dynamic`: how the controllers find each other, for the case that the record is lost"),
        ("strimzi.io/storage", "StrimziPodSet", Operator, "the storage of the pool"),
        ("gregor.io/applied", "all objects of a cluster", Operator, "a hash of what the operator applied"),
        ("strimzi.io/discovery", "Service", Operator, "the listeners of the cluster, for clients that look for them"),
        ("gregor.io/namespace", "ClusterRoleBinding", Operator,
            "the namespace of the cluster that the binding belongs to"),
        ("gregor.io/takes", "Kafka", Agent, "the capacity that the fleet counts for the cluster"),
        ("gregor.io/version", "Lease", Operator, "the version of the operator that holds the Lease"),
        ("gregor.io/record-format", "Lease", Operator, "the format of the records that this operator writes"),
        ("gregor.io/kafka-versions", "Lease", Operator, "the Kafka versions that this operator can run"),
        ("gregor.io/ignore-strimzi", "Kafka", User,
            "`true` lets Gregor manage the cluster although a Strimzi cluster operator runs that may manage it, too"),
    ]
};

/// Annotations of Strimzi that ask for nothing here: what they ask for is always so.
const UNNEEDED: [(&str, &str); 2] =
    [("strimzi.io/kraft", "enabled"), ("strimzi.io/node-pools", "enabled")];

/// Annotations of Strimzi's users that Gregor does not support, on objects that also carry annotations of operators.
const UNSUPPORTED: [(&str, &str); 2] = [
    (
        "strimzi.io/delete-pod-and-pvc",
        "drain the broker, then delete its claim and its pod with kubectl",
    ),
    ("strimzi.io/delete-zookeeper-claim", "there is no ZooKeeper"),
];

/// Annotations of users on an object of this kind that have no effect, each with its name and what to do.
///
/// On `Kafka` and `KafkaNodePool` these are all of Strimzi and Gregor that are not listed for the kind, such as misspelled ones.
#[must_use]
pub fn without_effect(
    kind: &str,
    annotations: &BTreeMap<String, String>,
) -> Vec<(String, &'static str)> {
    let is_resource = matches!(kind, "Kafka" | "KafkaNodePool");
    let judge = |(name, value): (&String, &String)| {
        if let Some((_, remedy)) = UNSUPPORTED.iter().find(|(one, _)| one == name) {
            return Some((name.clone(), *remedy));
        }
        let is_ours = name.starts_with("strimzi.io/") || name.starts_with("gregor.io/");
        let is_unneeded = UNNEEDED.contains(&(name.as_str(), value.as_str()));
        if !is_resource || !is_ours || is_unneeded {
            return None;
        }
        let rows = || Annotation::ALL.into_iter().map(Annotation::row);
        match rows().find(|row| row.name == name) {
            Some(row) if row.objects.split(", ").any(|one| one == kind) => None,
            Some(_) if name == Annotation::Applied.name() => None,
            Some(_) => Some((name.clone(), "it has no effect on this kind of resource")),
            None => Some((name.clone(), "it is unknown")),
        }
    };
    annotations.iter().filter_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    #[rustfmt::skip]
    fn annotations_of_users_without_effect_are_found() {
        // The kind, the annotation, its value, and whether it is reported.
        let rows = [
            ("Kafka",         "strimzi.io/pause-reconciliation", "true",     false),
            ("KafkaNodePool", "strimzi.io/pause-reconciliation", "true",     true),
            ("KafkaNodePool", "strimzi.io/next-node-ids",        "[1]",      false),
            ("Kafka",         "strimzi.io/next-node-ids",        "[1]",      true),
            ("Kafka",         "gregor.io/max-paralel",           "2",        true),
            ("Kafka",         "strimzi.io/kraft",                "enabled",  false),
            ("Kafka",         "strimzi.io/kraft",                "migration", true),
            ("Kafka",         "strimzi.io/node-pools",           "enabled",  false),
            ("Kafka",         "example.org/strimzi.io",          "x",        false),
            ("Kafka",         "kubectl.kubernetes.io/x",         "x",        false),
            ("Pod",           "strimzi.io/delete-pod-and-pvc",   "true",     true),
            ("Pod",           "strimzi.io/revision",             "x",        false),
            // Operators of other versions write what this one does not know.
            ("Pod",           "strimzi.io/other-hash",           "x",        false),
        ];
        for (kind, name, value, expected) in rows {
            let annotations = [(name.to_owned(), value.to_owned())].into();
            let found = without_effect(kind, &annotations);
            assert_eq!(found.len(), usize::from(expected), "{kind} {name} {found:?}");
        }
    }

    #[test]
    fn every_annotation_is_listed_once_and_has_a_name_of_its_own() {
        let listed: BTreeSet<_> = Annotation::ALL.into_iter().collect();
        let names: BTreeSet<_> = Annotation::ALL.into_iter().map(Annotation::name).collect();
        assert_eq!((listed.len(), names.len()), (Annotation::ALL.len(), Annotation::ALL.len()));
        assert_eq!(
            Annotation::ALL.last(),
            Some(&Annotation::IgnoreStrimzi),
            "the last one is listed"
        );
    }
}
