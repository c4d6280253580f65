//! A plan in words, as JSON and as CSV.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use control::rebalance::load::Unknown;
use placement::{BrokerShare, Change, Finding, GoalState, Plan, Report, View, Wave, WaveLimits};
use serde::Serialize;

use crate::output::{Grid, terminal_width};

/// Goals and brokers, before and after.
pub(super) fn table(view: &View, plan: &Plan, report: &Report, took: Duration) -> String {
    let leaders = plan.changes.iter().filter(|change| change.is_leadership()).count();
    let mut text = String::new();
    let (before, after) = (report.before.balancedness, report.after.balancedness);
    let _ = writeln!(text, "Brokers:       {}", view.brokers().len());
    let _ =
        writeln!(text, "Replicas:      {} of {} partitions", view.replicas(), view.partitions());
    let _ = writeln!(text, "Balancedness:  {before:.1} -> {after:.1}");
    let moved = plan.changes.len() - leaders;
    let _ = writeln!(text, "Moves:         {moved} partitions, {} MB", plan.mb.round());
    let _ = writeln!(text, "Lower bound:   {} MB for the goals that hold", report.least_mb.round());
    let _ = writeln!(text, "Leadership:    {leaders} partitions change only their leader");
    let waves = plan.waves(WaveLimits::default());
    let largest = waves.iter().map(|wave| wave.mb).fold(0.0, f64::max).round();
    let _ = writeln!(text, "Waves:         {}, of up to {largest} MB", waves.len());
    let _ = writeln!(text, "Planned in:    {:.3} s\n", took.as_secs_f64());
    let mut goals = Grid::new(&["GOAL", "HARD", "BEFORE", "AFTER"]);
    for (before, after) in report.before.goals.iter().zip(&report.after.goals) {
        let state = |state: &GoalState| match state.findings {
            0 => "ok".to_owned(),
            count => format!("{count} violations"),
        };
        let hard = if after.goal.is_hard() { "yes" } else { "no" };
        goals.row([after.goal.to_string(), hard.to_owned(), state(before), state(after)]);
    }
    text += &goals.take(terminal_width());
    text.push('\n');
    let mut brokers =
        Grid::new(&["BROKER", "REPLICAS", "LEADERS", "DISK MB", "IN KB/S", "OUT KB/S", "CPU %"]);
    for (before, after) in report.brokers_before.iter().zip(&report.brokers_after) {
        let pair = |pick: fn(&BrokerShare) -> f64| {
            let (before, after) = (pick(before).round(), pick(after).round());
            if before.total_cmp(&after).is_eq() {
                format!("{after}")
            } else {
                format!("{before} -> {after}")
            }
        };
        brokers.row([
            after.broker.to_string(),
            pair(|share| f64::from(share.replicas)),
            pair(|share| f64::from(share.leaders)),
            pair(|share| share.disk_mb),
            pair(|share| share.network_in_kb),
            pair(|share| share.network_out_kb),
            pair(|share| share.cpu_percent),
        ]);
    }
    text + &brokers.take(terminal_width())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanJson {
    /// What Kafka's reassignment tool wants to see.
    version: u8,
    partitions: Vec<PartitionJson>,
    moved_mb: f64,
    /// What any plan moves for the goals that hold.
    least_mb: f64,
    balancedness_before: f64,
    balancedness_after: f64,
    goals: Vec<GoalJson>,
    waves: Vec<WaveJson>,
    /// What is not known of the cluster, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
}

#[derive(Serialize)]
struct WaveJson {
    partitions: usize,
    mb: f64,
}

#[derive(Serialize)]
struct PartitionJson {
    topic: String,
    partition: u32,
    replicas: Vec<i32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GoalJson {
    goal: &'static str,
    hard: bool,
    violations_before: usize,
    violations_after: usize,
}

pub(super) fn json(plan: &Plan, report: &Report, unknown: &[Unknown]) -> anyhow::Result<String> {
    let partition = |change: &Change| PartitionJson {
        topic: change.topic.as_str().to_owned(),
        partition: change.partition,
        replicas: change.after.iter().map(|id| id.get()).collect(),
    };
    let goal = |(before, after): (&GoalState, &GoalState)| GoalJson {
        goal: after.goal.name(),
        hard: after.goal.is_hard(),
        violations_before: before.findings,
        violations_after: after.findings,
    };
    let wave = |wave: &Wave| WaveJson { partitions: wave.changes.len(), mb: wave.mb };
    let shown = PlanJson {
        version: 1,
        partitions: plan.changes.iter().map(partition).collect(),
        moved_mb: plan.mb,
        least_mb: report.least_mb,
        balancedness_before: report.before.balancedness,
        balancedness_after: report.after.balancedness,
        goals: report.before.goals.iter().zip(&report.after.goals).map(goal).collect(),
        waves: plan.waves(WaveLimits::default()).iter().map(wave).collect(),
        unknown: unknown.iter().map(ToString::to_string).collect(),
    };
    Ok(serde_json::to_string_pretty(&shown).context("cannot write JSON")? + "\n")
}

pub(super) fn csv(view: &View, plan: &Plan) -> String {
    let mut text = String::from("topic,partition,replicas\n");
    for partition in 0..view.partitions() {
        let (topic, number) = view.partition_name(partition);
        let _ = write!(text, "{topic},{number},");
        for (at, broker) in plan.assignment[view.slots(partition)].iter().enumerate() {
            let separator = if at == 0 { "" } else { ";" };
            let _ = write!(text, "{separator}{}", view.brokers()[usize::from(*broker)].id);
        }
        text.push('\n');
    }
    text
}

/// Why there is no acceptable plan, and what would help.
pub(super) fn infeasible(view: &View, report: &Report) -> String {
    let hints: String = report.hints.iter().map(|hint| format!("\n  {hint}")).collect();
    why(view, report) + &hints
}

fn why(view: &View, report: &Report) -> String {
    if let Some(finding) = report.after.structure.first() {
        let count = report.after.structure.len();
        return format!(
            "{count} partitions do not fit on the remaining brokers; more brokers or racks are \
             needed (the first: {})",
            sentence(finding)
        );
    }
    let hard = report.after.goals.iter().find(|state| state.goal.is_hard() && state.findings > 0);
    let Some(state) = hard else { return "no plan was found".to_owned() };
    let example = state.example.as_ref().map(sentence).unwrap_or_default();
    let brokers = view.brokers().len();
    format!(
        "{} cannot be met with these {brokers} brokers ({} violations are left): {example}",
        state.goal, state.findings
    )
}

/// Goals that the plan does not meet.
pub(super) fn remarks(report: &Report) -> Vec<String> {
    let left = report.after.goals.iter().filter(|state| state.findings > 0);
    let left = left.map(|state| {
        let example = state.example.as_ref().map(sentence).unwrap_or_default();
        format!("{} is still violated {} times: {example}", state.goal, state.findings)
    });
    let rest = report.rest.map(|rest| {
        format!(
            "a balancedness of {:.1} would take {:.0} MB more; only leaving brokers are drained, \
             nothing else is moved",
            rest.balancedness, rest.mb
        )
    });
    left.chain(rest).collect()
}

fn sentence(finding: &Finding) -> String {
    match finding {
        Finding::Structure { topic, partition, what } => format!("{topic}-{partition} {what}"),
        Finding::SharedRack { topic, partition } => {
            format!("{topic}-{partition} has two replicas in one rack")
        }
        Finding::UnevenRacks { topic, partition } => {
            format!("{topic}-{partition} is not evenly spread over the racks")
        }
        Finding::Leader { topic, partition, broker } => {
            format!("{topic}-{partition} should be led by broker {broker}")
        }
        Finding::FewLeaders { topic, broker, count, low } => {
            format!(
                "broker {broker} leads {count} partitions of {topic}, at least {low} are asked for"
            )
        }
        Finding::Broker { broker, value, low, high } if value > high => {
            format!("broker {broker} has {value:.1}, at most {high:.1} is allowed (least {low:.1})")
        }
        Finding::Broker { broker, value, low, .. } => {
            format!("broker {broker} has {value:.1}, at least {low:.1} is asked for")
        }
        Finding::TopicOnBroker { topic, broker, count, low, high } => {
            format!("broker {broker} has {count} replicas of {topic}, {low} to {high} are allowed")
        }
    }
}
