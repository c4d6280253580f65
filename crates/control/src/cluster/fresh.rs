//! How old the facts behind an act may be when it is sent.
//!
//! 1. An act that can hurt names every fact that allows it. If one of them is older than [`MAX_AGE_MS`], everything is
//!    read and decided again before the act is sent ([`super::execute`]).
//! 2. An act that cannot hurt names none: it is safe to repeat, and the next pass corrects it.
//! 3. A fact that is unknown has no age. Where it is required, the decision did not ask for the act.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::act::What;
use super::fact::Fact;
use super::snapshot::Snapshot;

/// The greatest age of the facts behind an act that can hurt. A pass takes a second or two; one that waited longer
/// reads them again.
pub const MAX_AGE_MS: u64 = 10_000;

/// A fact that an act is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// Kubernetes objects: pods, claims, Secrets and the like.
    Objects,
    /// The quorum.
    Quorum,
    /// The registered brokers.
    Brokers,
    /// The finalized features.
    Features,
    /// The registered controllers.
    Controllers,
    /// All partitions.
    Partitions,
    /// The directory ids of controllers.
    Directories,
    /// Whether brokers are cordoned.
    Cordons,
    /// Whether Kafka answers on nodes.
    Contacts,
    /// What nodes that are not ready report.
    Recoveries,
    /// The users that have a SCRAM credential.
    ScramUsers,
    /// `KafkaRebalance` resources and moves.
    Rebalance,
}

use Source::{
    Brokers, Contacts, Controllers, Cordons, Directories, Features, Objects, Partitions, Quorum,
    Rebalance, Recoveries, ScramUsers,
};

/// How old the facts behind an act may be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Freshness {
    /// The facts that must not be older than [`MAX_AGE_MS`].
    pub facts: BTreeSet<Source>,
}

impl Freshness {
    /// What an act requires, whatever it was decided for.
    #[must_use]
    pub fn of(what: &What) -> Self {
        let facts: &[Source] = match what {
            What::AddVoter { .. } | What::RemoveVoter { .. } => &[Objects, Quorum, Directories],
            What::RaiseKraftVersion { .. } => &[Objects, Quorum, Features],
            What::Unregister { .. } => &[Objects, Brokers, Partitions],
            What::Cordon { .. } => &[Objects, Brokers, Partitions, Cordons],
            // Also the disks of controllers that were released.
            What::DeleteClaim { .. } => &[Objects, Quorum, Brokers, Partitions],
            What::RestartPod { .. } => {
                &[Objects, Quorum, Brokers, Partitions, Contacts, Recoveries]
            }
            What::ShrinkPodSet { .. } => return Self::of_stop(),
            What::ChangeMetadataVersion { .. } => &[Objects, Brokers, Features, Controllers],
            What::DeleteCredential { .. } => &[Objects, ScramUsers],
            What::Delete { .. } => &[Objects],
            What::Rebalance(_) => &[Objects, Brokers, Rebalance],
            What::StopUnclaimedMoves => &[Rebalance],
            What::Uncordon { .. }
            | What::RemoveMigrationAnnotation
            | What::AlterNode { .. }
            | What::AlterCluster { .. }
            | What::ElectPreferred { .. }
            | What::ClearRestartRequest { .. }
            | What::Apply(_)
            | What::ChangeAuthority { .. }
            | What::PublishTrust
            | What::StoreOperatorCertificate
            | What::StoreCertificate { .. }
            | What::RememberCredential { .. }
            | What::SetCredential { .. }
            | What::ReleaseUser { .. } => &[],
        };
        Self { facts: facts.iter().copied().collect() }
    }

    /// What the removal of a pod from its set requires, which stops the node.
    #[must_use]
    pub fn of_stop() -> Self {
        Self { facts: [Objects, Quorum, Brokers, Partitions].into() }
    }

    /// Whether a fact is too old at this time.
    #[must_use]
    pub fn is_stale(&self, snapshot: &Snapshot, now_ms: u64) -> bool {
        self.facts.iter().filter_map(|fact| fact.age_ms(snapshot, now_ms)).any(is_old)
    }
}

/// Whether a fact of this age is too old for an act that can hurt.
#[must_use]
pub const fn is_old(age_ms: u64) -> bool {
    age_ms > MAX_AGE_MS
}

impl Source {
    /// How old the fact is, or the oldest where there is one for each node; `None` if it is unknown.
    fn age_ms(self, snapshot: &Snapshot, now_ms: u64) -> Option<u64> {
        let kafka = &snapshot.kafka;
        match self {
            Objects => Some(now_ms.saturating_sub(snapshot.objects_ms)),
            Quorum => kafka.quorum.age_ms(now_ms),
            Brokers => kafka.brokers.age_ms(now_ms),
            Features => kafka.features.age_ms(now_ms),
            Controllers => kafka.controllers.age_ms(now_ms),
            Partitions => kafka.partitions.age_ms(now_ms),
            Directories => oldest_ms(&kafka.directories, now_ms),
            Cordons => oldest_ms(&kafka.cordons, now_ms),
            Contacts => oldest_ms(&kafka.contacts, now_ms),
            Recoveries => oldest_ms(&kafka.recoveries, now_ms),
            ScramUsers => kafka.scram_users.age_ms(now_ms),
            Rebalance => snapshot.rebalance.age_ms(now_ms),
        }
    }
}

fn oldest_ms<K, T>(facts: &BTreeMap<K, Fact<T>>, now_ms: u64) -> Option<u64> {
    facts.values().filter_map(|fact| fact.age_ms(now_ms)).max()
}

#[cfg(test)]
#[path = "fresh_tests.rs"]
mod tests;
