//! Restarts of nodes that do not run what they should, and changes of settings that need no restart, as
//! [`crate::rolling`] decides.
//!
//! 1. A broker that is registered and not fenced answers, and so does a voter that has caught up. Only other nodes are
//!    asked themselves, so that a healthy cluster is asked nothing.
//! 2. The settings of a node are compared only until they were seen to be the desired ones.
//! 3. A node that is not ready is asked what it does instead, on a port that does not depend on Kafka.
//! 4. Partitions are read only if a broker is to be restarted or was restarted, and count only if the broker that tells
//!    them keeps up with the controllers ([`Snapshot::partitions`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{NodeId, TopicPartition};

use crate::annotations::Annotation;
use crate::cluster::act::{Rule, What};
use crate::cluster::draft::{Draft, Flow};
use crate::cluster::record::Record;
use crate::cluster::snapshot::{Needs, NodeView, Partitions, PodView, Snapshot};
use crate::conditions::{Note, Reason};
use crate::node::Roles;
use crate::quorum::bootstrap;
use crate::rolling::account::Account;
use crate::rolling::config::{self, Diff};
use crate::rolling::facts::{Contact, Facts, NodeFacts, Pod, PodFacts, Recovery, Settings};
use crate::rolling::pass::{self, Action, Decision, Standing};
use crate::rolling::quorum;
use crate::rolling::reasons;
use crate::rolling::why::Hold;

/// The annotation with the number of brokers that may be restarted at once.
pub const MAX_PARALLEL: &str = Annotation::MaxParallel.name();

/// The facts that the area requires.
#[must_use]
pub fn needs(snapshot: &Snapshot, draft: &Draft) -> Needs {
    let mut needs = Needs::default();
    for (id, node) in running(snapshot) {
        let is_ready = is_ready(snapshot, node);
        if !is_ready {
            needs.recoveries.insert(id);
        }
        if is_ready && must_ask(snapshot, draft, (id, node)) {
            needs.contacts.insert(id);
        }
        if is_ready && node.settings.is_some() && !is_confirmed(draft, id, node) {
            needs.settings.insert(id);
        }
    }
    let kafka = &snapshot.kafka;
    needs.recoveries.retain(|id| !kafka.recoveries.contains_key(id));
    needs.contacts.retain(|id| !kafka.contacts.contains_key(id));
    needs.settings.retain(|id| !kafka.settings.contains_key(id));
    if needs.is_empty() && kafka.partitions.is_unread() {
        let (settings, _) = settings(snapshot);
        let facts = facts(snapshot, draft);
        needs.partitions = pass::needs(&facts, &settings, snapshot.now_ms).partitions;
    }
    needs
}

/// Decides which nodes are restarted, and which settings are changed.
pub fn decide(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    let (settings, warnings) = settings(snapshot);
    for warning in warnings {
        draft.warn(Reason::InvalidAnnotation, warning);
    }
    let facts = facts(snapshot, draft);
    let decision = pass::decide(&facts, &settings, snapshot.now_ms);
    let account = Account::of(&decision, draft.record.roll_account.as_ref());
    for wait in account.iter().flat_map(|account| &account.waits) {
        if matches!(wait.hold, Hold::SettingsNotTaken { .. }) {
            draft.warn(Reason::SettingsNotTaken, wait.to_string());
        }
    }
    let told = account.as_ref().map(ToString::to_string).unwrap_or_default();
    draft.record.roll_account = account;
    draft.record.roll.clone_from(&decision.memory);
    draft.record.confirmed_settings = confirmed(snapshot, &facts);
    for action in &decision.actions {
        act(snapshot, draft, action);
    }
    if let Some(after_ms) = decision.wait_ms {
        draft.look_again(after_ms);
    }
    let flow = flow(&decision, told);
    draft.outputs.roll = Some(Arc::new((facts, decision)));
    flow
}

fn flow(decision: &Decision, told: String) -> Flow {
    match decision.standing {
        Standing::Settled => Flow::Go,
        Standing::Rolling | Standing::Waiting => Flow::Wait(Note::new(Reason::Rolling, told)),
        // The nodes that were given up are tried on, but what holds them back does not pass by itself.
        Standing::Failed => Flow::Fault(Note::new(Reason::RollFailed, told)),
        // No other node is restarted, but the one that cannot start may be one that leaves.
        Standing::Stopped => Flow::Fault(Note::new(Reason::RollStopped, told)),
    }
}

/// The limits of the roller, and what is wrong with the annotations that set them.
fn settings(snapshot: &Snapshot) -> (Settings, Vec<String>) {
    let (mut settings, desired) = (Settings::default(), &snapshot.desired);
    let mut warnings = Vec::new();
    let mut number = |of: &str, text: &str| match text.trim().parse::<usize>() {
        Ok(number) if number > 0 => Some(number),
        Ok(_) | Err(_) => {
            warnings.push(format!("{of}: {MAX_PARALLEL} is \"{text}\", not a number from 1 on"));
            None
        }
    };
    let whole = desired.max_parallel.as_deref().and_then(|text| number("Kafka", text));
    settings.parallel_max = whole.unwrap_or(settings.parallel_max);
    for (pool, text) in &desired.pool_max_parallel {
        if let Some(count) = number(pool, text) {
            settings.pool_parallel_max.insert(pool.clone(), count);
        }
    }
    settings.join_offline = desired.join_offline;
    settings.accept_metadata_loss = desired.accept_metadata_loss;
    settings.operation_timeout_ms =
        desired.operation_timeout_ms.unwrap_or(settings.operation_timeout_ms);
    (settings, warnings)
}

/// The nodes that should have a pod.
fn running(snapshot: &Snapshot) -> impl Iterator<Item = (NodeId, &NodeView)> {
    let nodes = snapshot.nodes.iter().filter(|(_, node)| node.current.is_some());
    nodes.map(|(id, node)| (*id, node))
}

fn is_ready(snapshot: &Snapshot, node: &NodeView) -> bool {
    snapshot.pod(node).is_some_and(|pod| pod.ready)
}

/// Whether a node was seen to run with the settings that it should have.
fn is_confirmed(draft: &Draft, id: NodeId, node: &NodeView) -> bool {
    draft.record.confirmed_settings.get(&id) == node.settings.as_ref()
}

/// Whether a ready node has to be asked whether it answers. Where no node at all answers, nothing is restarted for
/// that, so only a node that is to be restarted anyway is asked: it may be one that refuses the operator's certificate.
fn must_ask(snapshot: &Snapshot, draft: &Draft, (id, node): (NodeId, &NodeView)) -> bool {
    match is_well(snapshot, (id, node)) {
        Some(true) => false,
        Some(false) => true,
        None => {
            snapshot.desired.restart_pools.contains(&node.pool)
                || !reasons(snapshot, draft, (id, node)).is_empty()
        }
    }
}

/// Whether the other nodes report a node as well; `None` if they do not tell.
fn is_well(snapshot: &Snapshot, (id, node): (NodeId, &NodeView)) -> Option<bool> {
    if node.current.is_some_and(Roles::is_broker) {
        let brokers = snapshot.kafka.brokers.known()?;
        return Some(brokers.get(&id).is_some_and(|broker| !broker.fenced));
    }
    let facts = quorum(snapshot)?;
    let votes = facts.voters.iter().any(|(voter, _)| *voter == id);
    Some(votes && quorum::has_caught_up(&facts, id) == Some(true))
}

fn facts(snapshot: &Snapshot, draft: &Draft) -> Facts {
    let partitions = snapshot.partitions();
    let trailing = partitions.map(trailing);
    let nodes = running(snapshot).map(|(id, node)| {
        let leads = trailing.as_ref().map(|trailing| !trailing.contains(&id));
        NodeFacts { leads_preferred: leads, ..node_facts(snapshot, draft, (id, node)) }
    });
    Facts {
        nodes: nodes.collect(),
        quorum: quorum(snapshot),
        quorum_settled: draft.outputs.quorum_settled,
        voters: voters(snapshot, &draft.record),
        partitions: partitions.map(|partitions| partitions.facts.clone()),
        memory: draft.record.roll.clone(),
    }
}

fn node_facts(snapshot: &Snapshot, draft: &Draft, (id, node): (NodeId, &NodeView)) -> NodeFacts {
    let (pod, current) = (snapshot.pod(node), node.current.unwrap_or(Roles::Broker));
    let is_ready = is_ready(snapshot, node);
    let brokers = snapshot.kafka.brokers.known();
    NodeFacts {
        node: id,
        roles: pod.and_then(|pod| pod.roles).unwrap_or(current),
        pool: node.pool.clone(),
        // A broker that is down has not moved to another rack.
        rack: brokers.and_then(|brokers| brokers.get(&id)?.rack.clone()),
        ephemeral: snapshot.desired.ephemeral_pools.contains(&node.pool),
        ephemeral_data: has_ephemeral_data(snapshot, node),
        pod: pod.map_or(Pod::Absent, |pod| Pod::There(pod_facts(pod))),
        reasons: reasons(snapshot, draft, (id, node)),
        set_annotated: snapshot.desired.restart_pools.contains(&node.pool),
        recovery: match known(&snapshot.kafka.recoveries, id) {
            _ if is_ready => Recovery::No,
            Some(recovery) => recovery,
            None => Recovery::Unknown,
        },
        fenced: brokers.map(|brokers| brokers.get(&id).is_none_or(|broker| broker.fenced)),
        contact: match is_ready {
            true if is_well(snapshot, (id, node)) == Some(true) => Contact::Answers,
            true => known(&snapshot.kafka.contacts, id).unwrap_or_default(),
            false => Contact::Unknown,
        },
        config: is_ready.then(|| difference(snapshot, draft, (id, node))).flatten(),
        leads_preferred: None,
    }
}

/// Whether the pod of a node may have data of partitions on a volume that is deleted with it. One whose Kafka never ran
/// has none. Whether the cluster ever was ready does not matter: brokers serve also while another is still missing.
fn has_ephemeral_data(snapshot: &Snapshot, node: &NodeView) -> bool {
    let has_run = |pod: &PodView| {
        let waits = pod.unschedulable || pod.waiting.is_some();
        !waits || pod.exit_code.is_some()
    };
    let is_ephemeral = snapshot.desired.ephemeral_data_pools.contains(&node.pool);
    is_ephemeral && snapshot.pod(node).is_some_and(has_run)
}

fn known<T: Copy>(
    facts: &BTreeMap<NodeId, crate::cluster::fact::Fact<T>>,
    id: NodeId,
) -> Option<T> {
    facts.get(&id)?.known().copied()
}

fn pod_facts(pod: &PodView) -> PodFacts {
    PodFacts {
        uid: pod.uid.clone(),
        ready: pod.ready,
        deleting: pod.deleting,
        deletion_ms: pod.deletion_ms,
        created_ms: pod.created_ms,
        waiting: pod.waiting.clone(),
        unschedulable: pod.unschedulable,
    }
}

/// Why a pod should be restarted, as far as Kubernetes tells.
fn reasons(
    snapshot: &Snapshot,
    draft: &Draft,
    (id, node): (NodeId, &NodeView),
) -> BTreeSet<reasons::Reason> {
    use reasons::Reason;
    let mut found = BTreeSet::new();
    let Some(pod) = snapshot.pod(node) else { return found };
    if pod.restart {
        found.insert(Reason::ManualRollingUpdate);
    }
    if draft.outputs.outdated_bootstrap.contains(&id) {
        let keys = vec![bootstrap::SERVERS.to_owned()];
        found.insert(Reason::ConfigChangeRequiresRestart { keys });
    }
    let Some(desired) = &node.revision else { return found };
    let has = &pod.revision;
    // A node that runs is asked for its settings. A pod without the annotation is older than the annotation.
    let has_other_settings = has.settings.is_some() && has.settings != desired.settings;
    let has_other_ca =
        (&has.cluster_ca, &has.clients_ca) != (&desired.cluster_ca, &desired.clients_ca);
    let rules = [
        (has.pod != desired.pod, Reason::PodHasOldRevision),
        (!pod.ready && has_other_settings, Reason::PodHasOldSettings),
        (has_other_ca, Reason::CaCertHasOldGeneration),
        (has.cluster_ca_key != desired.cluster_ca_key, Reason::ClusterCaCertKeyReplaced),
        (has.certificate != desired.certificate, Reason::KafkaCertificatesChanged),
        (is_resize_pending(snapshot, node), Reason::FileSystemResizeNeeded),
    ];
    found.extend(rules.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| reason));
    found
}

fn is_resize_pending(snapshot: &Snapshot, node: &NodeView) -> bool {
    let suffix = format!("-{}", node.pod);
    let mut claims = snapshot.claims.iter().filter(|(name, _)| name.ends_with(&suffix));
    claims.any(|(_, claim)| claim.resize_pending)
}

/// How the settings of a running node differ from the desired ones; `None` if that is not known.
fn difference(snapshot: &Snapshot, draft: &Draft, (id, node): (NodeId, &NodeView)) -> Option<Diff> {
    node.settings.as_ref()?;
    if is_confirmed(draft, id, node) {
        return Some(Diff::default());
    }
    let settings = snapshot.kafka.settings.get(&id)?.known()?;
    let version = snapshot.desired.kafka_version?;
    let of = config::Node {
        roles: node.current?,
        version: (u32::from(version.major), u32::from(version.minor)),
    };
    Some(config::diff(of, &settings.desired, &settings.running))
}

/// The nodes that run with the desired settings. They are not asked again until those change.
fn confirmed(snapshot: &Snapshot, facts: &Facts) -> BTreeMap<NodeId, String> {
    let same = facts.nodes.iter().filter(|node| {
        node.config.as_ref().is_some_and(|diff| !diff.has_updates() && diff.restart.is_empty())
    });
    let fingerprint = |id: NodeId| snapshot.nodes.get(&id)?.settings.clone();
    same.filter_map(|node| Some((node.node, fingerprint(node.node)?))).collect()
}

/// The quorum, as the roller uses it.
fn quorum(snapshot: &Snapshot) -> Option<quorum::Facts> {
    let view = snapshot.kafka.quorum.known()?;
    let leader = view.leader_replica().and_then(|leader| leader.last_caught_up_ms);
    let fetched = view.voters.iter().filter_map(|voter| Some((voter.id, voter.last_fetch_ms?)));
    Some(quorum::Facts {
        leader: Some(view.leader),
        leader_caught_up_ms: leader,
        voters: view.voters.iter().map(|voter| (voter.id, voter.last_caught_up_ms)).collect(),
        fetched_ms: fetched.collect(),
        fetch_timeout_ms: view.fetch_timeout_ms,
    })
}

/// The voters when they were last known. A quorum whose controllers have been seen had voters, recorded or not.
fn voters(snapshot: &Snapshot, record: &Record) -> BTreeSet<NodeId> {
    if let Some(view) = snapshot.kafka.quorum.known() {
        return view.voters.iter().map(|voter| voter.id).collect();
    }
    if !record.voters.is_empty() {
        return record.voters.keys().copied().collect();
    }
    let had_voters =
        record.was_ready || record.quorum.static_seen || !record.quorum.seen.is_empty();
    snapshot.controllers().map(|(id, _)| id).filter(|_| had_voters).collect()
}

/// The brokers that do not lead a partition of which they are the preferred leader and an in-sync replica.
fn trailing(partitions: &Partitions) -> BTreeSet<NodeId> {
    let in_sync: BTreeMap<_, _> =
        partitions.facts.iter().map(|partition| (&partition.partition, &partition.isr)).collect();
    let leaders = partitions.leaders.iter().filter_map(|(partition, preferred, leader)| {
        let preferred = (*preferred)?;
        let could_lead = in_sync.get(partition).is_some_and(|isr| isr.contains(&preferred));
        (could_lead && *leader != Some(preferred)).then_some(preferred)
    });
    leaders.collect()
}

/// Asks for what the roller decided.
fn act(snapshot: &Snapshot, draft: &mut Draft, action: &Action) {
    match action {
        Action::Restart { node, uid, reasons } => {
            let Some(view) = snapshot.nodes.get(node) else { return };
            let what = What::RestartPod {
                id: *node,
                pod: view.pod.clone(),
                uid: uid.clone(),
                reasons: reasons.clone(),
            };
            draft.act(what, Rule::RestartIsSafe);
        }
        Action::UpdateNode { node, changes } => {
            let what = What::AlterNode { id: *node, changes: changes.clone() };
            draft.act(what, Rule::SettingsDiffer);
        }
        Action::UpdateCluster { changes } => {
            draft.act(What::AlterCluster { changes: changes.clone() }, Rule::SettingsDiffer);
        }
        Action::ElectPreferred { brokers } => {
            let Some(partitions) = snapshot.partitions() else { return };
            let partitions = led_by_others(partitions, brokers);
            if !partitions.is_empty() {
                draft.act(What::ElectPreferred { partitions }, Rule::RestartedLeadAgain);
            }
        }
        Action::ClearManual { pool } => {
            draft.act(What::ClearRestartRequest { pool: pool.clone() }, Rule::AllRestarted);
        }
    }
}

/// The partitions that other brokers lead than these, which are preferred.
fn led_by_others(partitions: &Partitions, brokers: &[NodeId]) -> Vec<TopicPartition> {
    let theirs = partitions.leaders.iter().filter(|(_, preferred, leader)| {
        preferred.is_some_and(|preferred| brokers.contains(&preferred)) && preferred != leader
    });
    theirs.map(|(partition, _, _)| partition.clone()).collect()
}

#[cfg(test)]
#[path = "roll_tests.rs"]
pub(in crate::cluster) mod tests;
