//! Why a node is restarted. The names are Strimzi's, so that dashboards and alerts on its events carry over.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a node is restarted. In the order in which they are shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub enum Reason {
    /// A person asked, by an annotation on the pod or on its pod set.
    ManualRollingUpdate,
    /// The pod was made from an older specification.
    PodHasOldRevision,
    /// The pod was made with other settings than it should have. It counts only for one that does not come
    /// up: one that runs is asked what it runs with. Strimzi has no name for this one.
    PodHasOldSettings,
    /// Settings that Kafka reads only when it starts, or that it did not take while it ran.
    ConfigChangeRequiresRestart {
        /// Their names.
        keys: Vec<String>,
    },
    /// The pod trusts an older generation of a CA.
    CaCertHasOldGeneration,
    /// The cluster CA has a new key.
    ClusterCaCertKeyReplaced,
    /// The server certificate on the disk is not the one that the node runs with.
    KafkaCertificatesChanged,
    /// A volume has grown, and its file system grows with a restart.
    FileSystemResizeNeeded,
    /// The pod cannot start, and has an old revision.
    PodStuck,
    /// Kafka does not answer.
    PodUnresponsive,
    /// The pod has not become ready in time. Strimzi has no name for this one.
    PodUnready,
    /// The node could not be checked, and this was the last attempt.
    PodForceRestartOnError,
}

impl Reason {
    /// The name in events.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ManualRollingUpdate => "ManualRollingUpdate",
            Self::PodHasOldRevision => "PodHasOldRevision",
            Self::PodHasOldSettings => "PodHasOldSettings",
            Self::ConfigChangeRequiresRestart { .. } => "ConfigChangeRequiresRestart",
            Self::CaCertHasOldGeneration => "CaCertHasOldGeneration",
            Self::ClusterCaCertKeyReplaced => "ClusterCaCertKeyReplaced",
            Self::KafkaCertificatesChanged => "KafkaCertificatesChanged",
            Self::FileSystemResizeNeeded => "FileSystemResizeNeeded",
            Self::PodStuck => "PodStuck",
            Self::PodUnresponsive => "PodUnresponsive",
            Self::PodUnready => "PodUnready",
            Self::PodForceRestartOnError => "PodForceRestartOnError",
        }
    }

    /// Whether it is about how the node is, and not about anything that a user has changed or asked for.
    #[must_use]
    pub const fn is_ailment(&self) -> bool {
        match self {
            Self::PodStuck
            | Self::PodUnresponsive
            | Self::PodUnready
            | Self::PodForceRestartOnError => true,
            Self::ManualRollingUpdate
            | Self::PodHasOldRevision
            | Self::PodHasOldSettings
            | Self::ConfigChangeRequiresRestart { .. }
            | Self::CaCertHasOldGeneration
            | Self::ClusterCaCertKeyReplaced
            | Self::KafkaCertificatesChanged
            | Self::FileSystemResizeNeeded => false,
        }
    }

    /// Whether the pod is out of date: a new one would be another one. Only then does it help to restart
    /// a pod that cannot start.
    #[must_use]
    pub const fn is_old_revision(&self) -> bool {
        matches!(self, Self::PodHasOldRevision | Self::PodHasOldSettings)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ManualRollingUpdate => "a restart was asked for",
            Self::PodHasOldRevision => "its pod has an old revision",
            Self::PodHasOldSettings => "its settings have changed since its pod was made",
            Self::ConfigChangeRequiresRestart { keys } => {
                return write!(f, "settings need a restart: {}", keys.join(", "));
            }
            Self::CaCertHasOldGeneration => "it trusts an older generation of a CA",
            Self::ClusterCaCertKeyReplaced => "the cluster CA has a new key",
            Self::KafkaCertificatesChanged => "its certificate has changed",
            Self::FileSystemResizeNeeded => "a volume has grown",
            Self::PodStuck => "its pod cannot start",
            Self::PodUnresponsive => "it does not answer",
            Self::PodUnready => "it has not become ready in time",
            Self::PodForceRestartOnError => "it cannot be checked",
        })
    }
}

/// Some reasons in one line.
#[must_use]
pub fn list(reasons: &[Reason]) -> String {
    let texts: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_name_is_the_name_in_events() {
        let config = Reason::ConfigChangeRequiresRestart { keys: vec!["a".into()] };
        let stored = serde_json::to_string(&config).unwrap();
        assert_eq!(stored, r#"{"ConfigChangeRequiresRestart":{"keys":["a"]}}"#);
        for reason in [Reason::PodStuck, Reason::CaCertHasOldGeneration, Reason::PodUnready] {
            assert_eq!(serde_json::to_string(&reason).unwrap(), format!("{:?}", reason.name()));
        }
    }

    #[test]
    fn reasons_are_listed_in_words() {
        let keys = vec!["log.dirs".into(), "process.roles".into()];
        let reasons = [Reason::ManualRollingUpdate, Reason::ConfigChangeRequiresRestart { keys }];
        let expected = "a restart was asked for; settings need a restart: log.dirs, process.roles";
        assert_eq!(list(&reasons), expected);
    }
}
