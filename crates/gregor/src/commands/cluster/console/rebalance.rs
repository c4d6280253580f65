//! Rebalances as pages show them: the KafkaRebalances, what their ConfigMaps say, and the moves in progress.

use std::collections::BTreeMap;

use api::Condition;
use api::KafkaRebalance;
use api::rebalance::RebalanceMode;
use console::page::{Load, Move, Moves, Proposal, Rebalance, Request, Wave};
use control::annotations::Annotation;
use control::rebalance::execution::{Job, Phase as Executed, Recorded, Task};
use control::rebalance::request::Phase;
use control::rolling::availability::PartitionFacts;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use model::{NodeId, TopicPartition};
use operator::rebalance::Executing;
use serde_json::Value;

/// As many partitions in flight are sent.
const IN_FLIGHT_MAX: usize = 100;
/// As many waves are sent; the last one has the moves of all later ones.
const WAVES_MAX: usize = 60;
/// Times that are foretold change with every observation; only those that differ by this much are sent.
const FORETOLD_MS: u64 = 5_000;
/// Bytes of a MB, as Cruise Control counts them.
const MB: u64 = 1 << 20;

/// What was read of rebalances besides the resources.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// The ConfigMaps of rebalances, by name; empty if they could not be read.
    pub(super) maps: BTreeMap<String, ConfigMap>,
    /// The moves of the cluster, and their job if it is still stored.
    pub(super) executing: Option<(Executing, Option<Job>)>,
}

/// The page of rebalances.
pub(super) fn rebalance(
    requests: Option<&[KafkaRebalance]>,
    read: &Read,
    partitions: Option<&[PartitionFacts]>,
    now_ms: u64,
) -> Rebalance {
    let requests = requests.map(|all| {
        let mut rows: Vec<_> = all.iter().map(|kr| request(kr, &read.maps)).collect();
        // Requests before templates, the newest state first.
        rows.sort_by(|a, b| {
            (a.is_template, &b.since, &a.name).cmp(&(b.is_template, &a.since, &b.name))
        });
        rows
    });
    let moves = read.executing.as_ref();
    let moves = moves.map(|(executing, job)| moves_of(executing, job.as_ref(), partitions, now_ms));
    Rebalance { requests, moves }
}

/// The condition whose type is the state of a request.
pub(super) fn state(kr: &KafkaRebalance) -> Option<&Condition> {
    let conditions = kr.status.as_ref()?.conditions.as_ref()?;
    let is_state = |one: &&Condition| one.kind.as_deref().is_some_and(|kind| kind != "Warning");
    conditions.iter().find(is_state)
}

/// The commands that the operator accepts from a request now.
pub(super) fn commands(kr: &KafkaRebalance) -> Vec<&'static str> {
    let phase = state(kr).and_then(|found| Phase::from_name(found.kind.as_deref()?));
    let all = phase.map(Phase::commands).unwrap_or_default();
    match is_template(kr) {
        true => Vec::new(),
        false => all.iter().map(|command| command.name()).collect(),
    }
}

fn is_template(kr: &KafkaRebalance) -> bool {
    annotation(kr, Annotation::RebalanceTemplate).is_some_and(|value| value == "true")
}

fn annotation(kr: &KafkaRebalance, one: Annotation) -> Option<&String> {
    kr.annotations().get(one.name())
}

fn request(kr: &KafkaRebalance, maps: &BTreeMap<String, ConfigMap>) -> Request {
    let found = state(kr);
    let status = kr.status.as_ref();
    let result = status.and_then(|status| status.optimization_result.as_ref());
    let result = result.and_then(|result| serde_json::to_value(result).ok());
    let data = maps.get(&kr.name_any()).and_then(|map| map.data.as_ref());
    let number = |name: &str| data.and_then(|data| data.get(name)?.parse().ok());
    let loads = data.and_then(|data| serde_json::from_str(data.get("brokerLoad.json")?).ok());
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let warning =
        |one: &Condition| one.message.clone().filter(|_| one.kind.as_deref() == Some("Warning"));
    let throttle = kr.spec.replication_throttle.and_then(|rate| u64::try_from(rate).ok());
    Request {
        name: kr.name_any(),
        state: found.and_then(|one| one.kind.clone()),
        message: found.and_then(|one| one.message.clone()),
        since: found.and_then(|one| one.last_transition_time.clone()),
        mode: mode(kr.spec.mode()).to_owned(),
        brokers: kr.spec.brokers.clone().unwrap_or_default(),
        is_template: is_template(kr),
        commands: commands(kr),
        pending: annotation(kr, Annotation::Rebalance).cloned(),
        throttle_bytes: throttle.filter(|rate| *rate > 0),
        proposal: result.as_ref().filter(|result| result.is_object()).map(proposal),
        loads: loads.as_ref().map(loads_of).unwrap_or_default(),
        percent: number("completedByteMovementPercentage"),
        minutes_left: number("estimatedTimeToCompletionInMinutes"),
        warnings: conditions.iter().filter_map(warning).collect(),
    }
}

const fn mode(mode: RebalanceMode) -> &'static str {
    match mode {
        RebalanceMode::Full => "full",
        RebalanceMode::AddBrokers => "add-brokers",
        RebalanceMode::RemoveBrokers => "remove-brokers",
        RebalanceMode::RemoveDisks => "remove-disks",
    }
}

fn proposal(result: &Value) -> Proposal {
    let number = |name: &str| result[name].as_u64();
    let moved = [number("dataToMoveMB"), number("intraBrokerDataToMoveMB")];
    Proposal {
        replicas: number("numReplicaMovements"),
        leaders: number("numLeaderMovements"),
        disks: number("numIntraBrokerReplicaMovements"),
        bytes: moved.into_iter().flatten().reduce(|a, b| a + b).map(|mb| mb * MB),
        score_before: result["onDemandBalancednessScoreBefore"].as_f64(),
        score_after: result["onDemandBalancednessScoreAfter"].as_f64(),
        recommendation: result["provisionRecommendation"]
            .as_str()
            .filter(|text| !text.is_empty())
            .map(str::to_owned),
    }
}

/// The load of brokers, by `brokerLoad.json`.
fn loads_of(all: &Value) -> Vec<Load> {
    let load = |(broker, resources): (&String, &Value)| {
        let pair = |one: &Value| Some((one["before"].as_f64()?, one["after"].as_f64()?));
        let resources = resources.as_object()?.iter();
        let resources = resources.filter_map(|(name, one)| Some((name.clone(), pair(one)?)));
        Some(Load { broker: broker.parse().ok()?, resources: resources.collect() })
    };
    let mut loads: Vec<_> = all.as_object().into_iter().flatten().filter_map(load).collect();
    loads.sort_by_key(|load| load.broker);
    loads
}

/// Where a task stands, by what Kafka says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Done,
    InFlight,
    Open,
}

fn standing(task: &Task, now: Option<&&PartitionFacts>) -> Standing {
    match now {
        Some(now) if !now.adding.is_empty() || !now.removing.is_empty() => Standing::InFlight,
        Some(now) if now.replicas == task.target => Standing::Done,
        Some(_) => Standing::Open,
        // Its topic is gone.
        None => Standing::Done,
    }
}

fn moves_of(
    executing: &Executing,
    job: Option<&Job>,
    partitions: Option<&[PartitionFacts]>,
    now_ms: u64,
) -> Moves {
    let recorded = &executing.recorded;
    let known: Option<BTreeMap<_, _>> =
        partitions.map(|all| all.iter().map(|one| (&one.partition, one)).collect());
    let waves = job.zip(known.as_ref()).map(|(job, known)| waves(job, known)).unwrap_or_default();
    let finished: u64 = match (job, &known) {
        (Some(job), Some(known)) => {
            let is_done =
                |task: &&Task| standing(task, known.get(&task.partition)) == Standing::Done;
            job.tasks.iter().filter(is_done).map(|task| task.bytes).sum()
        }
        _ => 0,
    };
    let total = job.map(|job| {
        let moved: u64 = job.tasks.iter().map(|task| task.bytes).sum();
        moved + job.disks.iter().map(|task| task.bytes).sum::<u64>()
    });
    let measured = recorded.measured.map_or(0, |(_, bytes)| bytes);
    let done = total.map(|total| finished.max(measured).min(total));
    let in_flight = in_flight(job, partitions.unwrap_or_default());
    Moves {
        by: executing.by.clone(),
        phase: format!("{:?}", recorded.phase),
        began_ms: recorded.began_ms,
        rate_bytes: recorded.rate_bytes,
        bytes_total: total,
        bytes_done: done,
        ends_ms: total.zip(done).and_then(|bytes| ends_ms(recorded, bytes, now_ms)),
        waves,
        in_flight_count: in_flight.len(),
        in_flight: in_flight.into_iter().take(IN_FLIGHT_MAX).collect(),
    }
}

/// When the rest is moved, if it goes on as it did.
fn ends_ms(recorded: &Recorded, (total, done): (u64, u64), now_ms: u64) -> Option<u64> {
    let elapsed = now_ms.saturating_sub(recorded.began_ms);
    if recorded.phase == Executed::Ended || done == 0 {
        return None;
    }
    let left = u128::from(total - done) * u128::from(elapsed) / u128::from(done);
    Some((now_ms + u64::try_from(left).ok()?).next_multiple_of(FORETOLD_MS))
}

/// The partitions that are being moved, with their sizes where the job knows them.
fn in_flight(job: Option<&Job>, partitions: &[PartitionFacts]) -> Vec<Move> {
    let sizes: BTreeMap<&TopicPartition, u64> = job
        .map(|job| job.tasks.iter().map(|task| (&task.partition, task.bytes)).collect())
        .unwrap_or_default();
    let ids = |nodes: &[NodeId]| nodes.iter().map(|id| id.get()).collect();
    let moving = partitions.iter().filter(|one| !one.adding.is_empty() || !one.removing.is_empty());
    moving
        .map(|one| Move {
            partition: one.partition.to_string(),
            from: ids(&one.removing),
            to: ids(&one.adding),
            bytes: sizes.get(&one.partition).copied(),
        })
        .collect()
}

/// The moves of a job in waves, in its order: no broker has more moves in a wave than it may have at once.
fn waves(job: &Job, known: &BTreeMap<&TopicPartition, &PartitionFacts>) -> Vec<Wave> {
    let limit = job.limits.moves_per_broker_max.max(1);
    let mut waves: Vec<Wave> = Vec::new();
    let mut taken: Vec<BTreeMap<NodeId, usize>> = Vec::new();
    // The first wave in which a broker has a free place.
    let mut open: BTreeMap<NodeId, usize> = BTreeMap::new();
    for task in &job.tasks {
        let at = task.target.iter().map(|id| open.get(id).copied().unwrap_or(0)).max();
        let at = at.unwrap_or(0).min(WAVES_MAX - 1);
        if waves.len() <= at {
            waves.resize_with(at + 1, Wave::default);
            taken.resize_with(at + 1, BTreeMap::new);
        }
        for id in &task.target {
            *taken[at].entry(*id).or_default() += 1;
            let first = open.entry(*id).or_default();
            while taken.get(*first).and_then(|wave| wave.get(id)).is_some_and(|n| *n >= limit) {
                *first += 1;
            }
        }
        let wave = &mut waves[at];
        wave.moves += 1;
        wave.bytes += task.bytes;
        match standing(task, known.get(&task.partition)) {
            Standing::Done => wave.done += 1,
            Standing::InFlight => wave.in_flight += 1,
            Standing::Open => {}
        }
    }
    waves
}

#[cfg(test)]
#[path = "rebalance_tests.rs"]
mod tests;
