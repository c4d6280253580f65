//! What goes with the pod of a node: what it serves, and what is on volumes that are deleted with the pod.

use super::facts::{Contact, NodeFacts, Recovery};
use super::pass::Pass;
use super::quorum;

impl Pass<'_> {
    /// Whether a vote is lost with the pod of a node, and no user has accepted that. It holds also for a pod that cannot
    /// run: its volumes are there as long as it is.
    pub(super) fn loses_vote(&self, node: &NodeFacts) -> bool {
        let votes = self.facts.voters.contains(&node.node);
        node.ephemeral && votes && !self.settings.accept_metadata_loss
    }

    /// Whether that vote is one without which the metadata of the cluster is lost.
    pub(super) fn loses_metadata(&self, node: &NodeFacts) -> bool {
        self.loses_vote(node) && quorum::needs_every_voter(self.facts.voters.len())
    }

    /// Whether data of partitions may be lost with the pod of a node, and no user has accepted that.
    pub(super) fn loses_data(&self, node: &NodeFacts) -> bool {
        node.roles.is_broker() && node.ephemeral_data && !self.is_loss_accepted(node)
    }

    /// Whether a user has accepted that the cluster is lost with the pod of a node that does not serve it any more:
    /// without the metadata the data of its partitions belongs to no topic.
    fn is_loss_accepted(&self, node: &NodeFacts) -> bool {
        let voters = &self.facts.voters;
        let takes_all = node.ephemeral
            && voters.contains(&node.node)
            && quorum::needs_every_voter(voters.len());
        let is_cut_off = self.stuck(node).is_some() || node.contact == Contact::RefusesCertificate;
        self.settings.accept_metadata_loss && takes_all && is_cut_off
    }

    /// Whether something is lost with the pod of a node that no other node may have.
    pub(super) fn loses_something(&self, node: &NodeFacts) -> bool {
        self.loses_vote(node) || self.loses_data(node)
    }

    /// Whether a node casts no vote, and has none to lose: its pod cannot start, or its JVM hangs. That it hangs is not
    /// enough while another leads and still hears of it.
    pub(super) fn casts_no_vote(&self, node: &NodeFacts) -> bool {
        if !node.pod.is_down() || self.loses_vote(node) {
            return false;
        }
        let is_lost = |quorum: &quorum::Facts| {
            quorum.leader.is_none() || quorum::is_behind(quorum, node.node)
        };
        let hangs = node.recovery == Recovery::Hung;
        self.stuck(node).is_some() || (hangs && self.facts.quorum.as_ref().is_none_or(is_lost))
    }

    /// Whether a node serves no partition, and has none to lose: its pod cannot start, its broker starts and is fenced
    /// until it has, or its JVM hangs and Kafka has fenced it.
    pub(super) fn serves_no_partition(&self, node: &NodeFacts) -> bool {
        if !node.pod.is_down() || self.loses_data(node) {
            return false;
        }
        let hangs = node.recovery == Recovery::Hung && node.fenced == Some(true);
        self.stuck(node).is_some() || node.recovery == Recovery::Starting || hangs
    }

    /// Whether a node serves nothing, so that deleting its pod takes nothing along.
    pub(super) fn serves_nothing(&self, node: &NodeFacts) -> bool {
        let as_broker = !node.roles.is_broker() || self.serves_no_partition(node);
        let as_controller = !node.roles.is_controller() || self.casts_no_vote(node);
        as_broker && as_controller
    }
}
