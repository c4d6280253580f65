//! The pages of a cluster: what `status`, `why` and `plan` print, and what they leave out for want of room.

use std::collections::BTreeMap;

use api::Kafka;
use console::page::{
    Awaited, Batch, BatchCertificate, Certificate, Cluster, ClusterRow, Condition, Disk, Left,
    Line, Listener, Node, Partitions, Quorum, Replica, Rights, Roll, State, Summary, Wait, Warning,
    Why,
};
use control::certificates::{Entry, Stored, Validity};
use control::cluster::snapshot::{AuthorityView, Partitions as SeenPartitions, Snapshot};
use control::quorum::{QuorumView, Replica as SeenReplica};
use control::rolling::account::{Account, Margin};
use control::rolling::pass::Standing;
use control::rolling::why::Hold;
use control::rules;
use k8s_openapi::api::core::v1::Pod;
use kafka_admin::LogDir;
use kube::ResourceExt as _;
use model::NodeId;
use operator::cluster::foresee::View as Seen;

use super::super::Looked;
use super::super::status::{ClusterView, NodeView};
use super::super::why::{self, Line as Said, WhyView};
use super::{machines, rebalance};

/// As many partitions are sent for each entry.
const PARTITIONS_MAX: usize = 50;
/// Times that are foretold change with every observation; only those that differ by this much are sent.
const FORETOLD_MS: u64 = 5_000;

/// What is shown besides what was observed for decisions.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// The zones of machines.
    pub(super) zones: BTreeMap<String, String>,
    /// The log directories of brokers.
    pub(super) disks: BTreeMap<NodeId, Vec<LogDir>>,
    /// What is left to do.
    pub(super) plan: Vec<Line>,
    /// When the snapshot was taken, if it comes from a file.
    pub(super) taken_ms: Option<u64>,
    /// What was read of rebalances.
    pub(super) rebalances: rebalance::Read,
    /// What the user may change.
    pub(super) rights: Rights,
    /// Since when the operator has not renewed its Lease, if that is too long.
    pub(super) operator_silent_since_ms: Option<u64>,
}

/// A cluster in short, from Kubernetes alone.
pub(super) fn row(kafka: &Kafka, pods: Option<&[&Pod]>) -> ClusterRow {
    let conditions = why::conditions(kafka);
    let is_ready = |pod: &&&Pod| why::is_ready(pod);
    let waits =
        conditions.iter().find(|line| line.kind == "NotReady" || line.kind == "Progressing");
    ClusterRow {
        namespace: kafka.namespace().unwrap_or_default(),
        name: kafka.name_any(),
        kafka_version: kafka.status.as_ref().and_then(|status| status.kafka_version.clone()),
        state: state(&conditions),
        ready: pods.map(|pods| pods.iter().filter(is_ready).count()),
        nodes: pods.map(<[_]>::len),
        waits_for: waits.and_then(|line| line.message.clone().or_else(|| line.reason.clone())),
        warnings: conditions.iter().filter(|line| line.kind == "Warning").count(),
        taken_ms: None,
    }
}

fn state(conditions: &[Said]) -> State {
    let has = |kind: &str| conditions.iter().any(|line| line.kind == kind);
    match conditions {
        _ if has("NotReady") => State::NotReady,
        _ if has("ReconciliationPaused") => State::Paused,
        _ if has("Progressing") => State::Progressing,
        _ if has("Ready") => State::Ready,
        _ => State::Unknown,
    }
}

/// All parts of the pages of a cluster.
pub(super) fn cluster(looked: &Looked, beside: &Beside, now_ms: u64) -> Cluster {
    let seen = &looked.seen;
    let status = ClusterView::new(looked, now_ms);
    let why = WhyView::of(looked, now_ms);
    let node = |view: NodeView| node(view, looked, beside);
    let snapshot = seen.observed.snapshot.as_ref();
    let requests = looked.found.rebalances.as_deref();
    Cluster {
        summary: summary(&status, looked, beside),
        nodes: status.nodes.into_iter().map(node).collect(),
        quorum: seen
            .quorum
            .as_ref()
            .map(|view| quorum(view, status.quorum.and_then(|q| q.dynamic), seen)),
        roll: why::account(seen).as_ref().map(|account| roll(account, now_ms)),
        why: Why {
            awaited: why.awaited.iter().map(awaited).collect(),
            rebalances: why.rebalances.into_iter().map(condition).collect(),
            plan: beside.plan.clone(),
            warnings: warnings(seen),
        },
        rebalance: rebalance::rebalance(
            requests,
            &beside.rebalances,
            snapshot.and_then(Snapshot::partitions).map(|all| all.facts.as_slice()),
            now_ms,
        ),
        machines: machines::machines(&seen.observed.stored, requests.unwrap_or_default()),
        rights: beside.rights,
    }
}

fn warnings(seen: &Seen) -> Vec<Warning> {
    let mut notes = seen.warnings.clone();
    notes.sort();
    notes.dedup();
    let warning = |note: control::conditions::Note| Warning {
        reason: note.reason.name().to_owned(),
        message: note.message,
    };
    notes.into_iter().map(warning).collect()
}

fn summary(status: &ClusterView, looked: &Looked, beside: &Beside) -> Summary {
    let snapshot = looked.seen.observed.snapshot.as_ref();
    let certificates = snapshot.map(certificates).unwrap_or_default();
    let listener = |(name, bootstrap): &(String, String)| Listener {
        name: name.clone(),
        bootstrap: bootstrap.clone(),
    };
    Summary {
        namespace: status.namespace.clone(),
        name: status.name.clone(),
        cluster_id: status.cluster_id.clone(),
        kafka_version: status.kafka_version.clone(),
        metadata_version: status.metadata_version.clone(),
        state: state(&status.conditions),
        conditions: why::conditions(&looked.found.kafka).into_iter().map(condition).collect(),
        listeners: status.listeners.iter().map(listener).collect(),
        certificates_known: !certificates.is_empty(),
        certificates,
        partitions: snapshot.and_then(Snapshot::partitions).map(partitions),
        taken_ms: beside.taken_ms,
        unknown: looked.unknown.clone(),
        operator_silent_since_ms: beside.operator_silent_since_ms,
    }
}

fn condition(line: Said) -> Condition {
    Condition { kind: line.kind, reason: line.reason, message: line.message, since: line.since }
}

fn awaited(one: &why::Awaited) -> Awaited {
    Awaited {
        about: one.about.clone(),
        what: one.what.clone(),
        rule: one.rule.map(str::to_owned),
        partitions: one.partitions.iter().take(PARTITIONS_MAX).cloned().collect(),
        partition_count: one.partitions.len(),
    }
}

fn partitions(all: &SeenPartitions) -> Partitions {
    let count = |is: &dyn Fn(&control::rolling::availability::PartitionFacts) -> bool| {
        all.facts.iter().filter(|one| is(one)).count()
    };
    Partitions {
        all: all.facts.len(),
        under_replicated: count(&|one| one.isr.len() + one.adding.len() < one.replicas.len()),
        under_min_isr: count(&|one| one.min_isr.is_some_and(|min| one.isr.len() < min)),
        leaderless: all.leaders.iter().filter(|(_, _, leader)| leader.is_none()).count(),
    }
}

fn certificates(snapshot: &Snapshot) -> Vec<Certificate> {
    let mut all = Vec::new();
    if let Some(authorities) = snapshot.authorities.known() {
        let mut add = |name: &str, view: &AuthorityView| {
            if let Stored::Present(stored) = &view.facts.certificates
                && let Entry::Read(found) = &stored.current
            {
                all.push(certificate(name, found.validity));
            }
        };
        add("cluster CA", &authorities.cluster);
        add("clients CA", &authorities.clients);
        if let Entry::Read(found) = &authorities.operator.found {
            all.push(certificate("operator", found.validity));
        }
    }
    for (id, view) in snapshot.certificates.known().map(|all| &all.nodes).into_iter().flatten() {
        if let Entry::Read(found) = &view.found {
            all.push(certificate(&format!("node {id}"), found.validity));
        }
    }
    // Those with the same end stay in the order in which they depend on each other.
    all.sort_by_key(|one| one.ends_ms);
    all
}

fn certificate(name: &str, validity: Validity) -> Certificate {
    Certificate {
        name: name.to_owned(),
        starts_ms: validity.not_before.saturating_mul(1000),
        ends_ms: validity.not_after.saturating_mul(1000),
    }
}

fn node(view: NodeView, looked: &Looked, beside: &Beside) -> Node {
    let id = view.id.and_then(NodeId::new);
    let snapshot = looked.seen.observed.snapshot.as_ref();
    let registered = snapshot.and_then(|one| one.kafka.brokers.known());
    let broker = id.and_then(|id| registered?.get(&id));
    let pod = snapshot.and_then(|one| one.pods.get(&view.pod));
    let recorded = id.and_then(|id| snapshot?.nodes.get(&id));
    let zone = view.machine.as_ref().and_then(|machine| beside.zones.get(machine));
    let leaders = id.zip(snapshot.and_then(Snapshot::partitions));
    let leads = |(id, all): (NodeId, &SeenPartitions)| {
        all.leaders.iter().filter(|(_, _, leader)| *leader == Some(id)).count()
    };
    let is_broker = view.roles.contains("broker");
    Node {
        id: view.id,
        broker: is_broker,
        controller: view.roles.contains("controller"),
        ready: view.ready,
        absent: !looked.found.pods.iter().any(|pod| pod.name_any() == view.pod),
        stopping: pod.is_some_and(|pod| pod.deleting),
        waiting: pod.and_then(|pod| match pod.unschedulable {
            true => Some("Unschedulable".to_owned()),
            false => pod.waiting.clone(),
        }),
        kafka_version: pod.and_then(|pod| pod.kafka_version.as_ref()).map(ToString::to_string),
        leads: view.leads,
        votes: view.votes,
        lag: view.lag,
        partitions: view.partitions,
        leaders: leaders.filter(|_| is_broker).map(leads),
        rack: broker.and_then(|broker| broker.rack.clone()).or_else(|| zone.cloned()),
        machine: view.machine,
        fenced: broker.map(|broker| broker.fenced),
        current: view.current,
        leaving: recorded.is_some_and(|node| node.desired.is_none()),
        disks: id.and_then(|id| beside.disks.get(&id)).into_iter().flatten().map(disk).collect(),
        pool: view.pool,
        pod: view.pod,
    }
}

fn disk(dir: &LogDir) -> Disk {
    Disk {
        path: dir.path.clone(),
        logs_bytes: dir.replicas.iter().map(|replica| replica.size_bytes).sum(),
        used_bytes: dir
            .total_bytes
            .zip(dir.usable_bytes)
            .map(|(all, free)| all.saturating_sub(free)),
        total_bytes: dir.total_bytes,
    }
}

fn quorum(view: &QuorumView, dynamic: Option<bool>, seen: &Seen) -> Quorum {
    let replica = |one: &SeenReplica| Replica {
        id: one.id.get(),
        directory: one.directory.as_ref().map(ToString::to_string),
        lag: view.lag(one),
        caught_up: view.has_caught_up(one),
    };
    Quorum {
        leader: view.leader.get(),
        epoch: view.epoch,
        dynamic,
        majority: view.voters.len() / 2 + 1,
        voters: view.voters.iter().map(replica).collect(),
        observers: view.observers.iter().map(replica).collect(),
        next: why::voters(seen).as_ref().map(awaited),
    }
}

fn roll(account: &Account, now_ms: u64) -> Roll {
    let numbers = |nodes: &[NodeId]| nodes.iter().map(|id| id.get()).collect::<Vec<_>>();
    let memory = account.roll.as_ref();
    let batch = |one: &control::rolling::memory::BatchMemory| Batch {
        nodes: one.nodes,
        took_ms: one.took_ms,
    };
    Roll {
        standing: match account.standing {
            Standing::Settled => "settled",
            Standing::Rolling => "rolling",
            Standing::Waiting => "waiting",
            Standing::Failed => "failed",
            Standing::Stopped => "stopped",
        }
        .to_owned(),
        started_ms: memory.map(|roll| roll.started_ms),
        restarted: account.restarted(),
        under_way: numbers(&account.under_way),
        left: numbers(&account.left),
        given_up: numbers(&account.given_up),
        stopping: numbers(&account.stopping),
        batches: memory.map(|roll| roll.batches.iter().map(batch).collect()).unwrap_or_default(),
        batch_started_ms: memory.and_then(|roll| roll.batch_started_ms),
        ends_ms: account.estimate(now_ms).map(|one| one.end_ms.next_multiple_of(FORETOLD_MS)),
        certificate: account.margin.as_ref().map(certificate_of_batch),
        waits: account
            .waits
            .iter()
            .map(|wait| Wait {
                nodes: numbers(&wait.nodes),
                reasons: wait
                    .reasons
                    .iter()
                    .map(|one| (one.name().to_owned(), one.to_string()))
                    .collect(),
                hold: wait.hold.to_string(),
                rule: rules::of_restart(&wait.hold).to_owned(),
                under_way: matches!(wait.hold, Hold::UnderWay { .. }),
                given_up: wait.given_up,
            })
            .collect(),
    }
}

fn certificate_of_batch(margin: &Margin) -> BatchCertificate {
    let left = |one: &control::rolling::account::Left| Left {
        partition: one.partition.to_string(),
        in_sync: one.in_sync,
        min_isr: one.min_isr,
    };
    BatchCertificate {
        tightest: margin.tightest.iter().map(left).collect(),
        offline: margin.offline.iter().map(ToString::to_string).collect(),
        offline_count: margin.offline_count,
    }
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
