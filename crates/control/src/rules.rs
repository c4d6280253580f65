//! The rules by which a cluster is kept waiting, each in one sentence, for people who ask why.

use crate::quorum::plan::Step;
use crate::rolling::why;
use crate::scaling::guard;

/// The rule by which a node is not restarted now.
#[must_use]
pub const fn of_restart(hold: &why::Hold) -> &'static str {
    use why::Hold;
    match hold {
        Hold::UnderWay { .. } | Hold::Others { .. } | Hold::NextBatch => {
            "one batch at a time, and the next when the replicas of the last are in sync again"
        }
        Hold::NotReady | Hold::OthersNotReady { .. } => {
            "nothing is restarted while a node is starting"
        }
        Hold::LogRecovery { .. } | Hold::StateUnknown => {
            "a node that recovers its logs, or may, is waited for and never killed"
        }
        Hold::Terminating => "a pod is deleted once, and the others do not wait for it for ever",
        Hold::Stuck { .. } | Hold::NoPod | Hold::DidNotHelp | Hold::StoppedBy { .. } => {
            "a node that cannot start stops everything else: the others might go the same way"
        }
        Hold::Unreachable | Hold::PodsUnknown { .. } => "unknown facts never permit a change",
        Hold::QuorumUnknown | Hold::QuorumUnsettled | Hold::Quorum(_) => {
            "a controller is restarted only if the voters that have caught up are a majority without it"
        }
        Hold::MetadataLoss => {
            "a controller whose restart loses the metadata of the cluster is restarted only if the user accepts that"
        }
        Hold::ActiveControllerLast { .. } => {
            "the active controller is restarted last, so that the leader changes once"
        }
        Hold::PartitionsUnknown | Hold::MinIsr { .. } => {
            "a broker is restarted only if every partition that is available keeps \
             min.insync.replicas in sync without it"
        }
        Hold::LastCopy { .. } | Hold::CopiesUnknown => {
            "a node keeps its pod while data that is deleted with the pod may be the only copy"
        }
        Hold::ControllersFirst { .. } => {
            "controllers come first: brokers need them to become ready"
        }
        Hold::SettingsNotTaken { .. } => "a node is restarted once for the same settings",
    }
}

/// The rule by which a broker that is to go stays for now.
#[must_use]
pub const fn of_leaving(hold: &guard::Hold) -> &'static str {
    use guard::Hold;
    match hold {
        Hold::Partitions { .. } | Hold::PartitionsUnknown => {
            "a broker is stopped only when it is known to have no partitions"
        }
        Hold::Rebalance => "a broker of a running rebalance is not stopped before that has ended",
        Hold::LastBroker => "the last broker stays",
        Hold::Cordon => "a broker is checked again after it was cordoned",
        Hold::Quorum(_) => "a node that votes is not stopped",
        Hold::Process | Hold::Fence | Hold::Registration | Hold::Claims => {
            "only a broker that does not run, is fenced and has no partitions is unregistered, \
             and its claims are deleted after that"
        }
        Hold::Return => "a scale-down can be cancelled until the claims are deleted",
    }
}

/// The rule by which voters change, or do not.
#[must_use]
pub const fn of_voters(step: &Step) -> &'static str {
    match step {
        Step::Add { .. } | Step::Remove { .. } | Step::Settled => {
            "one voter at a time, additions first, and the quorum is described again after each"
        }
        Step::Wait(_) => {
            "only a controller that runs and has caught up becomes a voter, and unknown facts \
             never permit a change"
        }
        Step::Refuse(_) => "a majority of the remaining voters must have caught up",
        Step::QuorumLost(_) => {
            "lost metadata is never replaced by an empty log without an explicit request"
        }
        Step::StaticRefused { .. } => "the voters of a static quorum cannot be changed",
    }
}
