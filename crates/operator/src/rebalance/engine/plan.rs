//! A plan for a request: what the cluster carries, what `placement` makes of it, and how it is shown.
//!
//! What it must not do: move anything.

use std::collections::{BTreeMap, BTreeSet};

use api::names::CLUSTER_LABEL;
use api::{KafkaNodePool, KafkaRebalanceSpec, Resources};
use control::rebalance::execution::{Job, LimitSpec, Limits};
use control::rebalance::load::{LoadOptions, Loaded};
use control::rebalance::request::answers::Unmade;
use control::rebalance::request::planning::{
    Scope, Unloaded, check_disks, check_findings, problem,
};
use kafka_admin::Admin;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use model::{NodeId, TopicName};
use placement::{BrokerDisks, BrokerShare, DiskChange, DiskGoals, Plan, Report, View};
use regex::Regex;
use serde_json::{Value, json};

use crate::context::Context;
use crate::rebalance::RebalanceError;
use crate::rebalance::load::{self, LoadError, Nodes, Source};
use crate::rebalance::request;
use crate::rebalance::site::Site;
use crate::words::chain;

/// A plan that can be carried out.
pub(super) struct Good {
    pub(super) job: Job,
    /// By the names of Cruise Control.
    pub(super) summary: Value,
    pub(super) broker_load: Value,
    /// Those that it is about.
    pub(super) brokers: BTreeSet<NodeId>,
    /// What was not known.
    pub(super) unknown: Vec<String>,
}

/// Makes a plan for a spec.
pub(super) async fn make(
    ctx: &Context,
    site: &Site,
    spec: &KafkaRebalanceSpec,
) -> Result<Result<Good, Unmade>, RebalanceError> {
    let admin = site.access.as_ref().and_then(|access| access.brokers.as_ref());
    let Some(admin) = admin else { return Ok(Err(Unmade::unloaded(Unloaded::NoClients))) };
    let scope = match Scope::of(&request::spec(spec), named(spec), &site.brokers) {
        Ok(scope) => scope,
        Err(unmade) => return Ok(Err(unmade)),
    };
    match &scope {
        Scope::Disks(goals) => disks((ctx, admin), site, (spec, &scope), *goals).await,
        Scope::Replicas { .. } => replicas((ctx, admin), site, (spec, &scope)).await,
    }
}

/// The brokers that a spec names.
fn named(spec: &KafkaRebalanceSpec) -> BTreeSet<NodeId> {
    let ids = spec.brokers.iter().flatten();
    ids.filter_map(|id| NodeId::new(i32::try_from(*id).ok()?)).collect()
}

/// How much is done at once.
fn limits(spec: &KafkaRebalanceSpec) -> Limits {
    Limits::of(&LimitSpec {
        moves_per_broker: spec.concurrent_partition_movements_per_broker,
        leaders: spec.concurrent_leader_movements,
        shifts_per_broker: spec.concurrent_intra_broker_partition_movements,
        rate_bytes: spec.replication_throttle,
    })
}

/// What the cluster carries; else why that is unknown.
async fn carried(
    (ctx, admin): (&Context, &Admin),
    site: &Site,
    scope: &Scope,
    (removed_disks, excluded): (&BTreeSet<(NodeId, String)>, Option<&Regex>),
) -> Result<Result<Loaded, Unmade>, RebalanceError> {
    let resources = resources(ctx, site).await?;
    let said = site.kafka.spec.cruise_control.as_ref();
    let said = said.and_then(|cruise_control| cruise_control.broker_capacity.as_ref());
    let brokers = resources.iter().map(|(id, resources)| (*id, resources.as_ref())).collect();
    let pinned =
        |topic: &TopicName| excluded.is_some_and(|expression| expression.is_match(topic.as_str()));
    let (added, removed) = match scope {
        Scope::Replicas { added, removed } => (added.clone(), removed.clone()),
        Scope::Disks(_) => Default::default(),
    };
    let options = LoadOptions {
        capacities: load::capacities(said, &brokers),
        added,
        removed,
        // Who leaves gets nothing, whoever asks.
        closed: site.closed.clone(),
        removed_disks: removed_disks.clone(),
        pinned: &pinned,
    };
    let hosts = site.pods.iter().map(|(id, pod)| (*id, site.names.host(pod))).collect();
    let nodes = site.access.as_ref().and_then(|access| access.nodes.clone());
    let nodes = nodes.map(|client| Nodes::new(client, hosts));
    let source = Source { admin, nodes: nodes.as_ref() };
    let why = match load::collect(&source, &ctx.samples, &site.names, &options).await {
        Ok(loaded) => return Ok(scope.check_rates(&loaded.unknown).map(|()| loaded)),
        Err(error @ LoadError::View(_)) => Unloaded::Inconsistent(chain(&error)),
        Err(error) => {
            tracing::info!("{}/{}: {}", site.names.namespace, site.names.cluster, chain(&error));
            Unloaded::Unread(error.to_string())
        }
    };
    Ok(Err(Unmade::unloaded(why)))
}

/// What the containers of brokers get.
async fn resources(
    ctx: &Context,
    site: &Site,
) -> Result<BTreeMap<NodeId, Option<Resources>>, RebalanceError> {
    let api: Api<KafkaNodePool> = Api::namespaced(ctx.client.clone(), &site.names.namespace);
    let of_cluster = format!("{CLUSTER_LABEL}={}", site.names.cluster);
    let pools = api.list(&ListParams::default().labels(&of_cluster)).await;
    let pools = pools.map_err(|error| RebalanceError::Read(Box::new(error)))?;
    let of = |id: &NodeId| {
        let pod = site.pods.get(id)?;
        let pool = pools.iter().find(|pool| site.names.pod(&pool.name_any(), *id) == *pod)?;
        pool.spec.resources.clone()
    };
    Ok(site.brokers.iter().map(|id| (*id, of(id))).collect())
}

/// A plan for all replicas.
async fn replicas(
    (ctx, admin): (&Context, &Admin),
    site: &Site,
    (spec, scope): (&KafkaRebalanceSpec, &Scope),
) -> Result<Result<Good, Unmade>, RebalanceError> {
    let (expression, goals) = match (excluded(spec), request::spec(spec).goals()) {
        (Ok(expression), Ok(goals)) => (expression, goals),
        (Err(why), _) => return Ok(Err(Unmade::unusable(why))),
        (_, Err(error)) => return Ok(Err(Unmade::unusable(error.to_string()))),
    };
    let asked = (&BTreeSet::new(), expression.as_ref());
    let loaded = match carried((ctx, admin), site, scope, asked).await? {
        Ok(loaded) => loaded,
        Err(unmade) => return Ok(Err(unmade)),
    };
    let goals = goals.without(&loaded.unknown_rates());
    let running = loaded.running();
    let unknown = loaded.unknown.iter().map(ToString::to_string).collect();
    let view = loaded.view;
    // It computes for up to a second, which no other task should wait for.
    let work = tokio::task::spawn_blocking(move || {
        let (plan, report) = placement::plan(&view, &goals);
        (view, plan, report)
    });
    let (view, plan, report) = work.await.map_err(|error| RebalanceError::Plan(Box::new(error)))?;
    let stay = site.brokers.difference(&site.closed).copied().collect();
    if let Err(unmade) = scope.check_plan(problem(&report), &running, &stay) {
        return Ok(Err(unmade));
    }
    let targets = plan.changes.iter().flat_map(|change| change.after.iter().copied());
    let asked = scope.brokers().copied();
    Ok(Ok(Good {
        summary: summary(&plan, &report, spec.excluded_topics.as_deref()),
        broker_load: broker_load(&view, &report),
        brokers: targets.chain(asked).collect(),
        unknown,
        job: Job::of(&plan, limits(spec)),
    }))
}

/// The expression for topics that are left unchanged. It is to match their whole names.
fn excluded(spec: &KafkaRebalanceSpec) -> Result<Option<Regex>, String> {
    let Some(text) = spec.excluded_topics.as_deref().filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let expression = Regex::new(&format!("^(?:{text})$"));
    expression.map(Some).map_err(|error| format!("excludedTopics cannot be used: {error}"))
}

/// How a plan is told, by the names of Cruise Control.
fn summary(plan: &Plan, report: &Report, excluded: Option<&str>) -> Value {
    let leaders = plan.changes.iter().filter(|change| change.is_leadership()).count();
    let hints: Vec<String> = report.hints.iter().map(ToString::to_string).collect();
    let provision = if hints.is_empty() { "RIGHT_SIZED" } else { "UNDER_PROVISIONED" };
    json!({
        "numReplicaMovements": plan.changes.len() - leaders,
        "dataToMoveMB": plan.mb.round() as u64,
        "numIntraBrokerReplicaMovements": 0,
        "intraBrokerDataToMoveMB": 0,
        "numLeaderMovements": leaders,
        "recentWindows": 1,
        "monitoredPartitionsPercentage": 100.0,
        "excludedTopics": excluded.into_iter().collect::<Vec<_>>(),
        "excludedBrokersForLeadership": [],
        "excludedBrokersForReplicaMove": [],
        "onDemandBalancednessScoreBefore": report.before.balancedness,
        "onDemandBalancednessScoreAfter": report.after.balancedness,
        "provisionStatus": provision,
        "provisionRecommendation": hints.join("; "),
    })
}

/// What each broker has before and after, as Strimzi shows it.
fn broker_load(view: &View, report: &Report) -> Value {
    let mut all = serde_json::Map::new();
    for (at, (before, after)) in report.brokers_before.iter().zip(&report.brokers_after).enumerate()
    {
        let count = |pick: fn(&BrokerShare) -> u32| {
            let (before, after) = (i64::from(pick(before)), i64::from(pick(after)));
            json!({ "before": before, "after": after, "diff": after - before })
        };
        let amount = |pick: &dyn Fn(&BrokerShare) -> f64| {
            let (before, after) = (hundredths(pick(before)), hundredths(pick(after)));
            json!({ "before": before, "after": after, "diff": hundredths(after - before) })
        };
        let capacity = view.brokers()[at].capacity.disk_mb;
        let percent = |disk: f64| if capacity > 0.0 { disk * 100.0 / capacity } else { 0.0 };
        let load = json!({
            "leaders": count(|share| share.leaders),
            "replicas": count(|share| share.replicas),
            "cpuPercentage": amount(&|share| share.cpu_percent),
            "diskUsedPercentage": amount(&|share| percent(share.disk_mb)),
            "diskUsedMB": amount(&|share| share.disk_mb),
            "networkOutRateKB": amount(&|share| share.network_out_kb),
            "leaderNetworkInRateKB": amount(&|share| share.leader_in_kb),
            "followerNetworkInRateKB": amount(&|share| share.network_in_kb - share.leader_in_kb),
            "potentialMaxNetworkOutRateKB": amount(&|share| share.potential_out_kb),
        });
        all.insert(before.broker.to_string(), load);
    }
    Value::Object(all)
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// A plan for the disks of brokers.
async fn disks(
    (ctx, admin): (&Context, &Admin),
    site: &Site,
    (spec, scope): (&KafkaRebalanceSpec, &Scope),
    goals: DiskGoals,
) -> Result<Result<Good, Unmade>, RebalanceError> {
    let wanted = request::log_dirs(spec);
    let loaded = match carried((ctx, admin), site, scope, (&wanted, None)).await? {
        Ok(loaded) => loaded,
        Err(unmade) => return Ok(Err(unmade)),
    };
    if let Err(unmade) = check_disks(&wanted, &loaded.disks) {
        return Ok(Err(unmade));
    }
    let concerned = |broker: &&BrokerDisks| {
        goals == DiskGoals::Balance || wanted.iter().any(|(id, _)| *id == broker.broker)
    };
    let (mut changes, mut findings) = (Vec::new(), Vec::new());
    for broker in loaded.disks.iter().filter(concerned) {
        let (moved, left) = placement::plan_disks(broker, goals);
        changes.extend(moved);
        findings.extend(left);
    }
    Ok(check_findings(&findings).map(|()| disk_plan(&changes, limits(spec))))
}

fn disk_plan(changes: &[DiskChange], limits: Limits) -> Good {
    let mb: f64 = changes.iter().map(|change| change.mb).sum();
    Good {
        job: Job::of_disks(changes, limits),
        summary: json!({
            "numReplicaMovements": 0,
            "dataToMoveMB": 0,
            "numIntraBrokerReplicaMovements": changes.len(),
            "intraBrokerDataToMoveMB": mb.round() as u64,
            "numLeaderMovements": 0,
            "recentWindows": 1,
            "monitoredPartitionsPercentage": 100.0,
            "excludedTopics": [],
            "excludedBrokersForLeadership": [],
            "excludedBrokersForReplicaMove": [],
            "provisionStatus": "RIGHT_SIZED",
            "provisionRecommendation": "",
        }),
        broker_load: json!({}),
        brokers: changes.iter().map(|change| change.broker).collect(),
        unknown: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(value: Value) -> KafkaRebalanceSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn each_number_of_a_spec_limits_what_it_is_for() {
        let set = limits(&spec(json!({
            "concurrentPartitionMovementsPerBroker": 7, "concurrentLeaderMovements": 8,
            "concurrentIntraBrokerPartitionMovements": 3, "replicationThrottle": 1000,
        })));
        assert_eq!((set.moves_per_broker_max, set.leaders_max), (7, 8));
        assert_eq!((set.shifts_per_broker_max, set.rate_bytes_max), (3, Some(1_000)));
        assert_eq!(limits(&spec(json!({}))), Limits::default());
    }

    #[test]
    fn an_expression_excludes_whole_names() {
        let expression = excluded(&spec(json!({ "excludedTopics": "a|b.*" }))).unwrap().unwrap();
        let found = ["a", "ab", "b", "bc", "cb"].map(|name| expression.is_match(name));
        assert_eq!(found, [true, false, true, true, false]);
        assert!(excluded(&spec(json!({}))).unwrap().is_none());
        assert!(excluded(&spec(json!({ "excludedTopics": "(" }))).is_err());
    }
}
