//! Which nodes are restarted now, and what each of the others waits for.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;

use super::availability::{ByBroker, PartitionFacts};
use super::batch::{self, Candidate, Certificate, Limits};
use super::facts::{Contact, NodeFacts, Pod, Recovery};
use super::memory::Ailment;
use super::node::{Event, Phase};
use super::order::{Class, order};
use super::pass::{Action, Pass};
use super::quorum;
use super::reasons::Reason;
use super::stuck;
use super::why::Hold;

/// How many partitions of a certificate are shown. The rest have no less to spare.
const TIGHTEST_SHOWN: usize = 10;

/// The nodes that are restarted now.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// Which.
    pub(super) nodes: Vec<NodeId>,
    /// Whether nobody could tell whether it is safe.
    pub(super) forced: bool,
    /// What is left of the partitions that they touch.
    pub(super) certificate: Certificate,
}

impl Chosen {
    fn one(node: NodeId, forced: bool, index: Option<&ByBroker<'_>>) -> Self {
        let nodes = vec![node];
        let down = BTreeSet::from([node]);
        let certificate = index.map(|index| index.certify_tightest(&down, TIGHTEST_SHOWN));
        Self { nodes, forced, certificate: certificate.unwrap_or_default() }
    }
}

/// That a node may be restarted.
enum Go {
    /// It is safe.
    Safe,
    /// Nobody can tell, and there is no other way.
    Forced,
}

impl Pass<'_> {
    /// The restarts that are recorded but whose pods are untouched: they are repeated if they are safe
    /// now, and else canceled. If that is unknown nothing is done, and it is canceled after a while.
    pub(super) fn recheck(&mut self, index: Option<&ByBroker<'_>>) -> Vec<Action> {
        let facts = self.facts;
        let untouched = |node: &&NodeFacts| {
            let memory = self.of(node.node);
            let there = node.pod.there().filter(|pod| !pod.deleting);
            memory.phase == Phase::Restarting && there.map(|pod| &pod.uid) == memory.uid.as_ref()
        };
        let nodes: Vec<&NodeFacts> = facts.nodes.iter().filter(untouched).collect();
        // Those that are ready go down together; each of the others is down already.
        let brokers: BTreeSet<NodeId> = nodes
            .iter()
            .filter(|node| node.roles.is_broker() && !node.pod.is_down())
            .map(|node| node.node)
            .collect();
        let bear = index.map(|index| index.holds(&brokers).is_empty());
        let timeout_ms = self.settings.operation_timeout_ms;
        let mut actions = Vec::new();
        for node in nodes {
            let memory = self.of(node.node);
            let broker = match brokers.contains(&node.node) {
                true => both(bear, self.is_borne(&self.copies_bear(node, index))),
                false => self.is_borne(&self.partitions_bear(node, index)),
            };
            // It has begun to recover its logs since.
            let recovers = matches!(node.recovery, Recovery::Yes { .. });
            let safe = match recovers || self.loses_metadata(node) {
                true => Some(false),
                false => both(broker, self.is_borne(&self.quorum_bears(node))),
            };
            // Nothing that is known permits it, and the others wait for it.
            let age_ms = self.now_ms.saturating_sub(memory.since_ms);
            let safe = safe.or((!memory.forced && age_ms >= timeout_ms).then_some(false));
            match (safe, memory.uid) {
                (Some(true), Some(uid)) => {
                    actions.push(Action::Restart { node: node.node, uid, reasons: memory.reasons });
                }
                (None, Some(uid)) if memory.forced => {
                    actions.push(Action::Restart { node: node.node, uid, reasons: memory.reasons });
                }
                (Some(false), _) => {
                    self.apply(node, Event::Unsafe);
                    // Why it is to be restarted is found anew in the next pass.
                    self.work.remove(&node.node);
                }
                (None | Some(true), _) => {}
            }
        }
        actions
    }

    /// What a verdict is worth for a restart that is recorded; none if nobody knows.
    fn is_borne(&self, verdict: &Result<(), Hold>) -> Option<bool> {
        match verdict {
            Ok(()) => Some(true),
            Err(Hold::QuorumUnknown | Hold::PartitionsUnknown | Hold::CopiesUnknown) => None,
            Err(Hold::QuorumUnsettled) => self.facts.quorum_settled.map(|_| false),
            Err(_) => Some(false),
        }
    }

    /// Chooses, and says of all others what they wait for.
    pub(super) fn choose(&mut self, index: Option<&ByBroker<'_>>) -> Chosen {
        let facts = self.facts;
        let leader = facts.quorum.as_ref().and_then(|quorum| quorum.leader);
        let ordered = order(&facts.nodes, leader);
        let nodes = self.choose_stuck(&ordered, index);
        if !nodes.is_empty() {
            self.hold_rest(&nodes, &Hold::Others { nodes: nodes.clone() });
            return Chosen { nodes, ..Chosen::default() };
        }
        let is_alone = self.on_the_way().is_empty();
        let ordered = match self.everything_waits() {
            // A node that serves nothing has nothing to lose, and the one that does not come up may need it.
            Some(hold @ Hold::StoppedBy { .. }) if is_alone => {
                let idle: Vec<(Class, &NodeFacts)> =
                    ordered.into_iter().filter(|(_, node)| self.serves_nothing(node)).collect();
                let nodes: Vec<NodeId> = idle.iter().map(|(_, node)| node.node).collect();
                self.hold_rest(&nodes, &hold);
                idle
            }
            Some(hold) => {
                self.hold_rest(&[], &hold);
                return Chosen::default();
            }
            None => ordered,
        };
        let (controllers, brokers): (Vec<_>, Vec<_>) =
            ordered.into_iter().partition(|(class, _)| class.is_controller());
        let controllers: Vec<&NodeFacts> = controllers.into_iter().map(|(_, node)| node).collect();
        let chosen = self.choose_controller(&controllers, leader, index);
        let chosen = match chosen {
            Some(chosen) => chosen,
            None => match self.controllers_first(&controllers) {
                Some(hold) => {
                    self.hold_rest(&[], &hold);
                    return Chosen::default();
                }
                None => self.choose_brokers(&brokers, index),
            },
        };
        let nodes = chosen.nodes.clone();
        let rest = if nodes.is_empty() { Hold::NextBatch } else { Hold::Others { nodes } };
        self.hold_rest(&chosen.nodes, &rest);
        chosen
    }

    /// The pods that cannot start and are out of date. They do not wait for others: in a cluster that was misconfigured as a
    /// whole, none of them becomes ready before the others. Those with which something is lost go one by one, and only
    /// if it is known that others have it.
    fn choose_stuck(
        &mut self,
        ordered: &[(Class, &NodeFacts)],
        index: Option<&ByBroker<'_>>,
    ) -> Vec<NodeId> {
        let is_stuck = |node: &&NodeFacts| {
            let old = self.work.get(&node.node).is_some_and(stuck::is_worth_restart);
            self.phase(node.node) == Phase::Stuck && old
        };
        let stuck = ordered.iter().map(|(_, node)| *node).filter(is_stuck);
        let (lossy, others): (Vec<_>, Vec<_>) = stuck.partition(|node| self.loses_something(node));
        let is_awaited = |node: &NodeId| self.phase(*node) != Phase::Stuck;
        let is_known = self.facts.nodes.iter().all(|node| node.pod != Pod::Unknown);
        let is_free = is_known && !self.on_the_way().iter().any(is_awaited);
        let mut first = None;
        for node in lossy {
            match self.cluster_bears(node, index) {
                Err(hold) => self.hold(node.node, hold),
                Ok(()) => first = first.or(Some(node.node).filter(|_| is_free)),
            }
        }
        match others.is_empty() {
            true => first.into_iter().collect(),
            false => others.into_iter().map(|node| node.node).collect(),
        }
    }

    /// What all nodes wait for, whatever their kind.
    fn everything_waits(&self) -> Option<Hold> {
        let unknown = |node: &&NodeFacts| node.pod == Pod::Unknown;
        let nodes = self.facts.nodes.iter();
        let unknown: Vec<NodeId> = nodes.filter(unknown).map(|node| node.node).collect();
        if !unknown.is_empty() {
            return Some(Hold::PodsUnknown { nodes: unknown });
        }
        if let Some(node) = self.stopping().first() {
            return Some(Hold::StoppedBy { node: *node });
        }
        let nodes = self.on_the_way();
        (!nodes.is_empty()).then_some(Hold::Others { nodes })
    }

    /// The nodes that were restarted, are not well yet, and do not stop everything.
    fn on_the_way(&self) -> Vec<NodeId> {
        let stopping = self.stopping();
        let on_the_way = |node: &NodeId| match self.phase(*node) {
            Phase::Restarting | Phase::Awaited | Phase::Healing | Phase::Electing => true,
            // It may take hours, but it is one of as many as may be down at once. One that recovers its
            // logs by itself is not among these, and the others go on as far as it lets them.
            Phase::Recovering => true,
            Phase::Stuck => !stopping.contains(node) && !self.of(*node).given_up,
            Phase::Serving | Phase::Late => false,
        };
        self.under_way().into_iter().filter(on_the_way).collect()
    }

    /// The nodes that stop everything: stuck without an old revision, or restarted and not come up.
    pub(super) fn stopping(&self) -> BTreeSet<NodeId> {
        let stops = |node: &&NodeFacts| match self.phase(node.node) {
            // Of the pod that comes after it nothing is known yet.
            _ if node.pod.is_deleting() => false,
            Phase::Stuck => !self.work.get(&node.node).is_some_and(stuck::is_worth_restart),
            Phase::Late => !self.work.contains_key(&node.node) && !self.is_incurable(node.node),
            Phase::Serving
            | Phase::Restarting
            | Phase::Awaited
            | Phase::Recovering
            | Phase::Healing
            | Phase::Electing => false,
        };
        self.facts.nodes.iter().filter(stops).map(|node| node.node).collect()
    }

    /// Whether a node was restarted because it was not ready, and still is not. It was ill before, so what it was
    /// restarted with says nothing of the others: it is given up, and they go on.
    pub(super) fn is_incurable(&self, node: NodeId) -> bool {
        let memory = self.of(node);
        let is_late = memory.phase == Phase::Late && !self.work.contains_key(&node);
        is_late && memory.tried == Some(Ailment::Unready) && memory.deleting_ms.is_none()
    }

    /// The nodes of a kind that are not ready yet, and may be soon.
    fn awaited<'n>(&self, nodes: impl Iterator<Item = &'n NodeFacts>) -> Vec<NodeId> {
        let awaited = nodes.filter(|node| self.phase(node.node) == Phase::Awaited);
        awaited.map(|node| node.node).collect()
    }

    /// The first controller or combined node that may be restarted.
    fn choose_controller(
        &mut self,
        nodes: &[&NodeFacts],
        leader: Option<NodeId>,
        index: Option<&ByBroker<'_>>,
    ) -> Option<Chosen> {
        let awaited = self.awaited(nodes.iter().copied());
        let open = |pass: &Self, node: &NodeFacts| {
            pass.work.contains_key(&node.node) && !pass.of(node.node).given_up
        };
        for node in nodes {
            if !self.work.contains_key(&node.node) {
                continue;
            }
            let others = nodes.iter().filter(|other| other.node != node.node && open(self, other));
            let others: Vec<NodeId> = others.map(|other| other.node).collect();
            let verdict = match self.waits_for_itself(node) {
                Some(hold) => Err(hold),
                None if self.phase(node.node) == Phase::Serving && !awaited.is_empty() => {
                    Err(self.others_not_ready(node, &awaited))
                }
                None if Some(node.node) == leader && !others.is_empty() => {
                    Err(Hold::ActiveControllerLast { others })
                }
                None => self.may_restart(node, index),
            };
            match verdict {
                Ok(go) => return Some(Chosen::one(node.node, matches!(go, Go::Forced), index)),
                Err(hold) => self.hold(node.node, hold),
            }
        }
        None
    }

    /// What a controller waits for while others are not ready. What the quorum lacks says more than that
    /// somebody is down.
    fn others_not_ready(&self, node: &NodeFacts, awaited: &[NodeId]) -> Hold {
        let quorum = self.facts.quorum.as_ref();
        match quorum.map(|quorum| quorum::may_restart(quorum, node.node)) {
            Some(Err(hold)) => Hold::Quorum(hold),
            Some(Ok(())) | None => Hold::OthersNotReady { nodes: awaited.to_vec() },
        }
    }

    /// What brokers wait for while there are controllers to be restarted or to come up. Those that were
    /// given up are not waited for. While voters change no controller is restarted, and a broker that becomes a controller
    /// may be what the change waits for.
    fn controllers_first(&self, controllers: &[&NodeFacts]) -> Option<Hold> {
        let awaited = self.awaited(controllers.iter().copied());
        if !awaited.is_empty() {
            return Some(Hold::OthersNotReady { nodes: awaited });
        }
        if self.facts.quorum_settled == Some(false) {
            return None;
        }
        let open =
            |node: &&&NodeFacts| self.work.contains_key(&node.node) && !self.of(node.node).given_up;
        let nodes: Vec<NodeId> = controllers.iter().filter(open).map(|node| node.node).collect();
        (!nodes.is_empty()).then_some(Hold::ControllersFirst { nodes })
    }

    /// The brokers that are restarted together: one of those that are not ready if there are such, else of one
    /// group of pools as many as may be.
    fn choose_brokers(
        &mut self,
        brokers: &[(Class, &NodeFacts)],
        index: Option<&ByBroker<'_>>,
    ) -> Chosen {
        let awaited = self.awaited(brokers.iter().map(|(_, node)| *node));
        let mut groups: BTreeMap<(Class, Option<&str>), Vec<&NodeFacts>> = BTreeMap::new();
        for (class, node) in brokers {
            if !self.work.contains_key(&node.node) {
                continue;
            }
            let waits = self.phase(node.node) == Phase::Serving && !awaited.is_empty();
            let verdict = match self.waits_for_itself(node) {
                Some(hold) => Err(hold),
                // What a partition lacks says more than that somebody is down.
                None => self.may_restart(node, index).and_then(|go| match waits {
                    true => Err(Hold::OthersNotReady { nodes: awaited.clone() }),
                    false => Ok(go),
                }),
            };
            match verdict {
                // Whoever is forced goes alone, and at once: there will be no better moment.
                Ok(Go::Forced) => return Chosen::one(node.node, true, index),
                Ok(Go::Safe) => {
                    let own = self.settings.pool_parallel_max.contains_key(&node.pool);
                    let group = own.then_some(node.pool.as_str());
                    groups.entry((*class, group)).or_default().push(node);
                }
                Err(hold) => self.hold(node.node, hold),
            }
        }
        let Some(((class, pool), nodes)) = groups.into_iter().next() else {
            return Chosen::default();
        };
        let parallel_max = pool.and_then(|pool| self.settings.pool_parallel_max.get(pool));
        let parallel_max = parallel_max.copied().unwrap_or(self.settings.parallel_max);
        // One by one in the given order; zero is taken for one, since a roll has to end. Of those that are not ready
        // one goes at a time: a restart that does not cure the first may not cure the others.
        let one_by_one = parallel_max <= 1 || class == Class::UnreadyBroker;
        match (nodes.first(), index) {
            (Some(node), _) if one_by_one => Chosen::one(node.node, false, index),
            (_, Some(index)) => self.choose_batch(&nodes, index, parallel_max),
            (_, None) => Chosen::default(),
        }
    }

    fn choose_batch(
        &self,
        nodes: &[&NodeFacts],
        index: &ByBroker<'_>,
        parallel_max: usize,
    ) -> Chosen {
        let candidate =
            |node: &&NodeFacts| Candidate { broker: node.node, rack: node.rack.clone() };
        let candidates: Vec<Candidate> = nodes.iter().map(candidate).collect();
        // Together they would delete what each may delete alone, while the other has it.
        let is_lossy = nodes.iter().any(|node| node.ephemeral_data);
        let join_offline = self.settings.join_offline && !is_lossy;
        let limits = Limits { parallel_max, join_offline };
        let brokers = batch::choose_brokers(&candidates, index, limits);
        let certificate = index.certify_tightest(&brokers, TIGHTEST_SHOWN);
        Chosen { nodes: brokers.into_iter().collect(), forced: false, certificate }
    }

    /// What a node waits for by itself, whatever the others do.
    fn waits_for_itself(&self, node: &NodeFacts) -> Option<Hold> {
        match self.phase(node.node) {
            Phase::Serving | Phase::Late => None,
            Phase::Recovering => Hold::recovery(node.recovery).or(Some(Hold::StateUnknown)),
            Phase::Awaited => Some(Hold::NotReady),
            phase @ (Phase::Restarting | Phase::Stuck | Phase::Healing | Phase::Electing) => {
                // Why a pod that cannot start is not deleted is known by now.
                self.holds.get(&node.node).cloned().or(Some(Hold::UnderWay { phase }))
            }
        }
    }

    /// Whether a node may be restarted as far as it alone is concerned.
    fn may_restart(&self, node: &NodeFacts, index: Option<&ByBroker<'_>>) -> Result<Go, Hold> {
        let memory = self.of(node.node);
        // It cannot become ready before there is a leader, and a restart would not change that.
        if memory.phase == Phase::Late && !memory.ours && self.is_leaderless(node) {
            return Err(Hold::NotReady);
        }
        let due = memory.backoff_until_ms.is_none_or(|until_ms| self.now_ms >= until_ms);
        let last = due && memory.attempts + 1 >= self.settings.attempts_max;
        // It may be recovering its logs, and would begin anew: once, as it is restarted once because it is unready.
        if memory.phase == Phase::Late && node.recovery == Recovery::Unknown && !last {
            return Err(Hold::StateUnknown);
        }
        let fails = match node.contact {
            Contact::Fails | Contact::RefusesCertificate => true,
            Contact::Unknown | Contact::Answers => false,
        };
        if memory.phase == Phase::Serving && fails && !last {
            return Err(Hold::Unreachable);
        }
        let refuses = node.contact == Contact::RefusesCertificate && !node.reasons.is_empty();
        let refuses = refuses && !self.loses_something(node);
        match self.cluster_bears(node, index) {
            Err(Hold::QuorumUnknown | Hold::PartitionsUnknown) if refuses && last => Ok(Go::Forced),
            Err(hold) => Err(hold),
            Ok(()) => Ok(Go::Safe),
        }
    }

    /// Whether the quorum and the partitions bear that a node is restarted.
    fn cluster_bears(&self, node: &NodeFacts, index: Option<&ByBroker<'_>>) -> Result<(), Hold> {
        if self.loses_metadata(node) {
            return Err(Hold::MetadataLoss);
        }
        match self.quorum_bears(node) {
            // Without the annotation it would wait for ever: it may be one of those that the quorum lacks.
            Err(Hold::QuorumUnknown | Hold::Quorum(quorum::Hold::NoLeader))
                if self.loses_vote(node) && self.stuck(node).is_some() =>
            {
                Err(Hold::MetadataLoss)
            }
            Err(hold) => Err(hold),
            Ok(()) => self.partitions_bear(node, index),
        }
    }

    /// Whether the quorum bears that a node is restarted.
    fn quorum_bears(&self, node: &NodeFacts) -> Result<(), Hold> {
        if !node.roles.is_controller() || self.casts_no_vote(node) {
            return Ok(());
        }
        let quorum = self.facts.quorum.as_ref().ok_or(Hold::QuorumUnknown)?;
        // A vote that is lost is missed later, however far behind the voter is now.
        let is_missed = !node.pod.is_down() || self.loses_vote(node);
        if is_missed || !quorum::is_behind(quorum, node.node) {
            quorum::may_restart(quorum, node.node).map_err(Hold::Quorum)?;
        }
        match self.facts.quorum_settled {
            Some(true) => Ok(()),
            // A pod that cannot start may be what the change of the voters waits for.
            _ if self.stuck(node).is_some() => Ok(()),
            // So may one that is not ready and does not vote: it is what is to join.
            Some(false) if node.pod.is_down() && !is_voter(quorum, node.node) => Ok(()),
            Some(false) | None => Err(Hold::QuorumUnsettled),
        }
    }

    /// Whether the partitions bear that a node is restarted.
    fn partitions_bear(&self, node: &NodeFacts, index: Option<&ByBroker<'_>>) -> Result<(), Hold> {
        if !node.roles.is_broker() || self.serves_no_partition(node) {
            return Ok(());
        }
        let told = self.facts.partitions.as_deref();
        let (index, told) = index.zip(told).ok_or_else(|| self.unknown_partitions(node))?;
        let holds = match node.pod.is_down() {
            true => index.holds_unready(node.node, told),
            false => index.holds_alone(node.node),
        };
        let count = holds.len();
        if let Some(partition) = holds.into_iter().next() {
            return Err(Hold::MinIsr { partition, count });
        }
        self.copies_bear(node, Some(index))
    }

    /// Whether others have what is deleted with the pod of a node. A single replica is lost with any restart, so it
    /// holds back only those that no user has asked for, and those of a node that is down.
    fn copies_bear(&self, node: &NodeFacts, index: Option<&ByBroker<'_>>) -> Result<(), Hold> {
        if !self.loses_data(node) {
            return Ok(());
        }
        let index = index.ok_or_else(|| self.unknown_partitions(node))?;
        let reasons = self.work.get(&node.node);
        let is_asked = reasons.is_some_and(|reasons| reasons.iter().any(|one| !one.is_ailment()));
        let is_accepted = is_asked && !node.pod.is_down();
        let is_lost = |facts: &&PartitionFacts| facts.replicas.len() > 1 || !is_accepted;
        let lost: Vec<_> = index.only_on(node.node).filter(is_lost).collect();
        let partition = lost.first().map(|facts| facts.partition.clone());
        let hold = |partition| Err(Hold::LastCopy { partition, count: lost.len() });
        partition.map_or(Ok(()), hold)
    }

    fn unknown_partitions(&self, node: &NodeFacts) -> Hold {
        match self.loses_data(node) {
            true => Hold::CopiesUnknown,
            false => Hold::PartitionsUnknown,
        }
    }

    fn hold(&mut self, node: NodeId, hold: Hold) {
        self.holds.insert(node, hold);
    }

    /// All that have something to be done and are not chosen wait for this, where they wait for nothing
    /// of their own.
    fn hold_rest(&mut self, chosen: &[NodeId], hold: &Hold) {
        let rest: Vec<NodeId> =
            self.work.keys().filter(|node| !chosen.contains(node)).copied().collect();
        for node in rest {
            self.holds.entry(node).or_insert_with(|| hold.clone());
        }
    }

    /// Begins the restarts that were chosen.
    pub(super) fn begin(&mut self, chosen: &Chosen) -> Vec<Action> {
        let facts = self.facts;
        let mut actions = Vec::new();
        for node in facts.nodes.iter().filter(|node| chosen.nodes.contains(&node.node)) {
            let mut reasons = self.work.get(&node.node).cloned().unwrap_or_default();
            if chosen.forced {
                reasons.push(Reason::PodForceRestartOnError);
            }
            let has = |reason: Reason| reasons.contains(&reason);
            let unresponsive = has(Reason::PodUnresponsive).then_some(Ailment::Unresponsive);
            let tried = unresponsive.or(has(Reason::PodUnready).then_some(Ailment::Unready));
            let before = self.of(node.node);
            let config = node.config.as_ref();
            let digest = config.and_then(|diff| self.settings_to_restart_for(diff, &before));
            self.apply(node, Event::Chosen);
            let memory = self.of_mut(node.node);
            memory.reasons = reasons.clone();
            memory.forced = chosen.forced;
            memory.tried = tried.or(memory.tried);
            memory.config_tried = digest.map(|(_, digest)| digest);
            memory.update = None;
            if let Some(uid) = memory.uid.clone() {
                actions.push(Action::Restart { node: node.node, uid, reasons });
            }
        }
        if let Some(roll) = self.memory.roll.as_mut().filter(|_| !actions.is_empty()) {
            roll.begin_batch(actions.len(), self.now_ms);
        }
        actions
    }
}

fn is_voter(quorum: &quorum::Facts, node: NodeId) -> bool {
    quorum.voters.iter().any(|(voter, _)| *voter == node)
}

/// Both, as far as is known: a single "no" is enough to know.
fn both(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        (None, _) | (_, None) => None,
    }
}
