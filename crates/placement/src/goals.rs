//! Goals: names, order, hardness, and thresholds.

use std::fmt;
use std::str::FromStr;

/// A resource or count is balanced up to this ratio to its mean; the margin keeps plans away from the limit.
pub(crate) const BALANCE: f64 = 1.10;
pub(crate) const MARGIN: f64 = 0.9;
/// The range around the mean: nine percent to either side.
pub(crate) const BAND: f64 = (BALANCE - 1.0) * MARGIN;
/// The same for the replicas of one topic, and the minimum and maximum excess of a broker.
pub(crate) const TOPIC_BAND: f64 = (3.0 - 1.0) * MARGIN;
pub(crate) const TOPIC_GAP_MIN: f64 = 2.0;
pub(crate) const TOPIC_GAP_MAX: f64 = 40.0;
/// Maximum utilization of a broker's capacity.
pub(crate) const DISK_SHARE: f64 = 0.8;
pub(crate) const NETWORK_SHARE: f64 = 0.8;
pub(crate) const CPU_SHARE: f64 = 0.7;
/// Maximum replicas of a broker.
pub(crate) const REPLICAS_MAX: f64 = 10_000.0;

/// Weights of a violated goal in the balancedness score: per priority step, and for hard goals.
const PRIORITY_WEIGHT: f64 = 1.1;
const STRICTNESS_WEIGHT: f64 = 1.5;

macro_rules! goals {
    ($($(#[$doc:meta])* $goal:ident = $name:literal, $hard:literal, $listed:literal;)*) => {
        /// An optimization goal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Goal {
            $($(#[$doc])* $goal,)*
        }

        impl Goal {
            /// All goals, in Cruise Control's order.
            pub const ALL: &[Goal] = &[$(Goal::$goal,)*];

            /// The name, as in a `KafkaRebalance`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Goal::$goal => $name,)* }
            }

            /// Whether it is in the default list.
            #[must_use]
            pub fn is_listed(self) -> bool {
                match self { $(Goal::$goal => $listed,)* }
            }

            /// Whether a plan that violates it is rejected.
            #[must_use]
            pub fn is_hard(self) -> bool {
                match self { $(Goal::$goal => $hard,)* }
            }
        }
    };
}

goals! {
    /// Replicas of a partition are in different racks.
    RackAware = "RackAwareGoal", true, true;
    /// Replicas of a partition are spread evenly over the racks.
    RackAwareDistribution = "RackAwareDistributionGoal", true, false;
    /// Every broker leads some partitions of certain topics. Satisfied if no topic is configured.
    MinTopicLeadersPerBroker = "MinTopicLeadersPerBrokerGoal", true, true;
    /// Replicas per broker are limited.
    ReplicaCapacity = "ReplicaCapacityGoal", true, true;
    /// Disk utilization is limited.
    DiskCapacity = "DiskCapacityGoal", true, true;
    /// Inbound traffic is limited.
    NetworkInboundCapacity = "NetworkInboundCapacityGoal", true, true;
    /// Outbound traffic is limited.
    NetworkOutboundCapacity = "NetworkOutboundCapacityGoal", true, true;
    /// CPU utilization is limited.
    CpuCapacity = "CpuCapacityGoal", true, true;
    /// Replicas are balanced.
    ReplicaDistribution = "ReplicaDistributionGoal", false, true;
    /// Outbound traffic would be within its limit if the broker led all its partitions.
    PotentialNwOut = "PotentialNwOutGoal", false, true;
    /// Disk utilization is balanced.
    DiskUsageDistribution = "DiskUsageDistributionGoal", false, true;
    /// Inbound traffic is balanced.
    NetworkInboundUsageDistribution = "NetworkInboundUsageDistributionGoal", false, true;
    /// Outbound traffic is balanced.
    NetworkOutboundUsageDistribution = "NetworkOutboundUsageDistributionGoal", false, true;
    /// CPU utilization is balanced.
    CpuUsageDistribution = "CpuUsageDistributionGoal", false, true;
    /// Replicas of each topic are balanced.
    TopicReplicaDistribution = "TopicReplicaDistributionGoal", false, true;
    /// Leaders are balanced.
    LeaderReplicaDistribution = "LeaderReplicaDistributionGoal", false, true;
    /// Inbound traffic from producers is balanced.
    LeaderBytesInDistribution = "LeaderBytesInDistributionGoal", false, true;
    /// Partitions are led by their preferred leader.
    PreferredLeaderElection = "PreferredLeaderElectionGoal", false, false;
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An invalid list of goals.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGoal {
    /// No such goal.
    #[error("\"{0}\" is not a goal")]
    Unknown(String),
    /// The same goal twice.
    #[error("{0} is listed twice")]
    Twice(Goal),
    /// Hard goals may be omitted only on request.
    #[error("hard goals are missing: {}; to omit them, skip the hard goal check", names(.0))]
    HardMissing(Vec<Goal>),
}

fn names(goals: &[Goal]) -> String {
    goals.iter().map(|goal| goal.name()).collect::<Vec<_>>().join(", ")
}

impl FromStr for Goal {
    type Err = InvalidGoal;
    /// Accepts the name with or without the suffix `Goal`, and with a Java package.
    fn from_str(text: &str) -> Result<Self, InvalidGoal> {
        let name = text.rsplit('.').next().unwrap_or(text);
        let same =
            |goal: &&Goal| goal.name() == name || goal.name().strip_suffix("Goal") == Some(name);
        Goal::ALL.iter().find(same).copied().ok_or_else(|| InvalidGoal::Unknown(text.to_owned()))
    }
}

impl Goal {
    /// Whether a custom list must contain it, unless the check is skipped. Two of the hard goals are
    /// optional.
    fn is_required(self) -> bool {
        let optional = matches!(self, Self::RackAwareDistribution | Self::MinTopicLeadersPerBroker);
        self.is_hard() && !optional
    }

    /// The rate that it depends on, if any.
    #[must_use]
    pub fn rate(self) -> Option<Rate> {
        match self {
            Self::NetworkInboundCapacity
            | Self::NetworkInboundUsageDistribution
            | Self::LeaderBytesInDistribution => Some(Rate::Inbound),
            Self::NetworkOutboundCapacity
            | Self::NetworkOutboundUsageDistribution
            | Self::PotentialNwOut => Some(Rate::Outbound),
            Self::CpuCapacity | Self::CpuUsageDistribution => Some(Rate::Cpu),
            Self::RackAware
            | Self::RackAwareDistribution
            | Self::MinTopicLeadersPerBroker
            | Self::ReplicaCapacity
            | Self::DiskCapacity
            | Self::ReplicaDistribution
            | Self::DiskUsageDistribution
            | Self::TopicReplicaDistribution
            | Self::LeaderReplicaDistribution
            | Self::PreferredLeaderElection => None,
        }
    }
}

/// A rate of partitions or brokers, which may be unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rate {
    /// Produced data.
    Inbound,
    /// Data sent to consumers and followers.
    Outbound,
    /// CPU time.
    Cpu,
}

/// A list of goals, most important first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goals(Vec<Goal>);

impl Default for Goals {
    fn default() -> Self {
        Self(Goal::ALL.iter().copied().filter(|goal| goal.is_listed()).collect())
    }
}

impl Goals {
    /// A custom list. It must contain all hard goals unless `skip_hard_goal_check`.
    pub fn new(goals: Vec<Goal>, skip_hard_goal_check: bool) -> Result<Self, InvalidGoal> {
        for (at, goal) in goals.iter().enumerate() {
            if goals[..at].contains(goal) {
                return Err(InvalidGoal::Twice(*goal));
            }
        }
        let missing: Vec<Goal> =
            Goal::ALL.iter().filter(|g| g.is_required() && !goals.contains(g)).copied().collect();
        if !missing.is_empty() && !skip_hard_goal_check {
            return Err(InvalidGoal::HardMissing(missing));
        }
        Ok(Self(goals))
    }

    /// The list without goals that depend on unknown rates.
    #[must_use]
    pub fn without(&self, unknown: &[Rate]) -> Self {
        let known = |goal: &&Goal| goal.rate().is_none_or(|rate| !unknown.contains(&rate));
        Self(self.0.iter().filter(known).copied().collect())
    }

    /// The goals in their order.
    #[must_use]
    pub fn list(&self) -> &[Goal] {
        &self.0
    }

    pub(crate) fn has(&self, goal: Goal) -> bool {
        self.0.contains(&goal)
    }

    /// 100 minus the weight of violated goals, as in Cruise Control.
    #[must_use]
    pub fn balancedness(&self, violated: &[Goal]) -> f64 {
        let (mut step, mut all, mut lost) = (1.0, 0.0, 0.0);
        for goal in self.0.iter().rev() {
            let weight = if goal.is_hard() { step * STRICTNESS_WEIGHT } else { step };
            all += weight;
            lost += if violated.contains(goal) { weight } else { 0.0 };
            step *= PRIORITY_WEIGHT;
        }
        if all > 0.0 { 100.0 - 100.0 * lost / all } else { 100.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_the_forms_that_people_use() {
        for name in ["RackAwareGoal", "RackAware", "com.example.analyzer.goals.RackAwareGoal"] {
            assert_eq!(name.parse(), Ok(Goal::RackAware));
        }
        assert!("NoGoal".parse::<Goal>().is_err());
    }

    #[test]
    fn hard_goals_are_not_left_out_unasked() {
        let soft = vec![Goal::DiskUsageDistribution];
        assert!(matches!(Goals::new(soft.clone(), false), Err(InvalidGoal::HardMissing(_))));
        assert!(Goals::new(soft, true).is_ok());
        let twice = vec![Goal::RackAware, Goal::RackAware];
        assert_eq!(Goals::new(twice, true), Err(InvalidGoal::Twice(Goal::RackAware)));
    }

    #[test]
    fn goals_about_rates_that_are_not_known_are_left_out() {
        assert_eq!(Goals::default().list().len(), 16);
        let disk_only = Goals::default().without(&[Rate::Inbound, Rate::Outbound, Rate::Cpu]);
        assert_eq!(disk_only.list().len(), 8);
        assert!(disk_only.has(Goal::DiskCapacity) && !disk_only.has(Goal::PotentialNwOut));
        // What Strimzi demands of a list of one's own is enough.
        let six = Goal::ALL.iter().copied().filter(|goal| goal.is_required()).collect::<Vec<_>>();
        assert_eq!((six.len(), Goals::new(six, false).is_ok()), (6, true));
    }

    #[test]
    fn balancedness_is_that_of_cruise_control() {
        let goals = Goals::default();
        assert!((goals.balancedness(&[]) - 100.0).abs() < 1e-9);
        // Two values that were recorded.
        let topic = goals.balancedness(&[Goal::TopicReplicaDistribution]);
        assert!((topic - 97.432_897_660).abs() < 1e-6, "{topic}");
        let both = [Goal::TopicReplicaDistribution, Goal::LeaderReplicaDistribution];
        assert!((goals.balancedness(&both) - 95.099_168_260).abs() < 1e-6);
    }
}
