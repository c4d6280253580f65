//! The order in which nodes are looked at.
//!
//! Controllers come first, since brokers need them to become ready; the active one last among them, so
//! that it changes once; and of each kind those that are not ready, since there is least to lose.

use model::NodeId;

use super::facts::NodeFacts;

/// What is restarted before what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Controllers and combined nodes that are not ready.
    UnreadyController,
    /// Controllers and combined nodes that follow.
    Follower,
    /// The active controller, be it a broker besides or not.
    ActiveController,
    /// Brokers that are not ready.
    UnreadyBroker,
    /// Brokers that are ready.
    ReadyBroker,
}

impl Class {
    /// Where a node belongs.
    #[must_use]
    pub fn of(node: &NodeFacts, leader: Option<NodeId>) -> Self {
        let ready = node.pod.is_ready();
        match (node.roles.is_controller(), ready) {
            // Also when it is not ready: while it leads, it leads.
            (true, _) if leader == Some(node.node) => Self::ActiveController,
            (true, false) => Self::UnreadyController,
            (true, true) => Self::Follower,
            (false, false) => Self::UnreadyBroker,
            (false, true) => Self::ReadyBroker,
        }
    }

    /// Whether it is one of controllers and combined nodes.
    #[must_use]
    pub const fn is_controller(self) -> bool {
        match self {
            Self::UnreadyController | Self::Follower | Self::ActiveController => true,
            Self::UnreadyBroker | Self::ReadyBroker => false,
        }
    }
}

/// The nodes by class; within a class as they were given.
#[must_use]
pub fn order(nodes: &[NodeFacts], leader: Option<NodeId>) -> Vec<(Class, &NodeFacts)> {
    let mut ordered: Vec<_> = nodes.iter().map(|node| (Class::of(node, leader), node)).collect();
    ordered.sort_by_key(|(class, _)| *class);
    ordered
}
