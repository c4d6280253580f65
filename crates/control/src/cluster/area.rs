//! The areas of a reconciliation pass, in their order.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a pass takes care of. The order is the operator's behaviour: each area depends on those that its
/// documentation names, and an area that stops a pass skips all that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Area {
    /// Certificate authorities. Depends on nothing: keys come before what they sign.
    Authorities,
    /// ServiceAccounts, NetworkPolicies, PodDisruptionBudgets. Depends on nothing.
    Access,
    /// Services and their addresses. Depends on nothing.
    Services,
    /// Certificates of nodes. Depends on authorities, and on services for the addresses in them.
    Certificates,
    /// PersistentVolumeClaims. Depends on nothing: disks come before their pods.
    Claims,
    /// The configuration of nodes. Depends on services for the addresses in it.
    Configuration,
    /// Pod sets. Depends on everything above: it is what a pod is started with.
    Workload,
    /// The state of Kafka. Depends on workload: nodes exist before they are asked.
    Kafka,
    /// Migration to a dynamic quorum. Depends on Kafka for the mode of the quorum.
    Migration,
    /// Voters. Depends on migration: no voter changes during it.
    Quorum,
    /// Restarts. Depends on quorum: no restart while voters change.
    Roll,
    /// Automatic rebalancing. Depends on roll, and precedes scale-in, which must know the brokers that moves concern.
    Rebalance,
    /// Nodes that are removed. Depends on quorum, roll and rebalance.
    ScaleIn,
    /// Registrations of brokers and the metadata version. Depends on scale-in.
    Registration,
    /// Users with a password. Depends on Kafka.
    Users,
    /// Objects that nothing needs any more. Depends on roll.
    Leftovers,
}

impl Area {
    /// All areas in the order of a pass.
    pub const ALL: [Self; 16] = [
        Self::Authorities,
        Self::Access,
        Self::Services,
        Self::Certificates,
        Self::Claims,
        Self::Configuration,
        Self::Workload,
        Self::Kafka,
        Self::Migration,
        Self::Quorum,
        Self::Roll,
        Self::Rebalance,
        Self::ScaleIn,
        Self::Registration,
        Self::Users,
        Self::Leftovers,
    ];

    /// The name in logs and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Authorities => "authorities",
            Self::Access => "access",
            Self::Services => "services",
            Self::Certificates => "certificates",
            Self::Claims => "claims",
            Self::Configuration => "configuration",
            Self::Workload => "workload",
            Self::Kafka => "kafka",
            Self::Migration => "migration",
            Self::Quorum => "quorum",
            Self::Roll => "roll",
            Self::Rebalance => "rebalance",
            Self::ScaleIn => "scale-in",
            Self::Registration => "registration",
            Self::Users => "users",
            Self::Leftovers => "leftovers",
        }
    }

    /// Whether the area has something to say about a cluster that only an edit would create: what nodes would be made
    /// of. What becomes of voters and of nodes that leave takes more than one pass.
    #[must_use]
    pub const fn concerns_edits(self) -> bool {
        match self {
            Self::Authorities
            | Self::Access
            | Self::Services
            | Self::Certificates
            | Self::Claims
            | Self::Configuration
            | Self::Workload
            | Self::Roll => true,
            Self::Kafka
            | Self::Migration
            | Self::Quorum
            | Self::Rebalance
            | Self::ScaleIn
            | Self::Registration
            | Self::Users
            | Self::Leftovers => false,
        }
    }

    /// Whether the area reads keys, which people who use `gregor plan` may not be allowed to.
    #[must_use]
    pub const fn reads_keys(self) -> bool {
        matches!(self, Self::Authorities | Self::Certificates | Self::Kafka)
    }

    /// Whether what the area waits for says more than that of an earlier one: why a node is restarted says more
    /// than that it is not ready.
    #[must_use]
    pub fn explains(self, earlier: crate::conditions::Reason) -> bool {
        self == Self::Roll && earlier == crate::conditions::Reason::Creating
    }
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_the_order_of_the_declaration_and_complete() {
        assert!(Area::ALL.is_sorted());
        assert_eq!(Area::ALL.last(), Some(&Area::Leftovers));
        let mut names = Area::ALL.map(Area::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Area::ALL.len());
    }
}
