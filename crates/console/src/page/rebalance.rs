//! What the page of rebalances shows.

use std::collections::BTreeMap;

use serde::Serialize;

/// Rebalances of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rebalance {
    /// The KafkaRebalances of the cluster; `None` if they could not be listed.
    pub requests: Option<Vec<Request>>,
    /// The moves in progress, or the last ones.
    pub moves: Option<Moves>,
}

/// A KafkaRebalance.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Its name.
    pub name: String,
    /// Its state; `None` before the operator has seen it.
    pub state: Option<String>,
    /// The message of its state.
    pub message: Option<String>,
    /// Since when it is in that state.
    pub since: Option<String>,
    /// Which brokers it is about: `full`, `add-brokers`, `remove-brokers` or `remove-disks`.
    pub mode: String,
    /// The brokers that it names.
    pub brokers: Vec<i64>,
    /// Whether it is a template.
    pub is_template: bool,
    /// The commands that the operator accepts in this state: `approve`, `stop`, `refresh`.
    pub commands: Vec<&'static str>,
    /// The command that the operator has not executed yet.
    pub pending: Option<String>,
    /// Bytes per second that a broker may use for moves; `None` if that is not limited.
    pub throttle_bytes: Option<u64>,
    /// What its proposal would do.
    pub proposal: Option<Proposal>,
    /// The load of each broker before and after.
    pub loads: Vec<Load>,
    /// The part of the bytes that has been moved, in percent.
    pub percent: Option<u64>,
    /// How many minutes the moves may still take.
    pub minutes_left: Option<u64>,
    /// Warnings of the operator.
    pub warnings: Vec<String>,
}

/// What a proposal would do.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// Replicas that move between brokers.
    pub replicas: Option<u64>,
    /// Leaders that change.
    pub leaders: Option<u64>,
    /// Replicas that move between disks of a broker.
    pub disks: Option<u64>,
    /// Bytes that are copied.
    pub bytes: Option<u64>,
    /// The balancedness before.
    pub score_before: Option<f64>,
    /// The balancedness after.
    pub score_after: Option<f64>,
    /// What the cluster lacks.
    pub recommendation: Option<String>,
}

/// The load of a broker, before and after, by resource: the names are those of `brokerLoad.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// The broker.
    pub broker: i32,
    /// Each resource: before and after.
    pub resources: BTreeMap<String, (f64, f64)>,
}

/// The moves of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moves {
    /// The request that they are for.
    pub by: String,
    /// Their phase.
    pub phase: String,
    /// When they began.
    pub began_ms: u64,
    /// Bytes per second that a broker may use for them.
    pub rate_bytes: Option<u64>,
    /// Bytes to be copied; `None` if the plan is not stored any more.
    pub bytes_total: Option<u64>,
    /// Bytes that have been copied.
    pub bytes_done: Option<u64>,
    /// When they are expected to end, to the nearest five seconds.
    pub ends_ms: Option<u64>,
    /// The waves, in order.
    pub waves: Vec<Wave>,
    /// The partitions that are being moved: the first of them.
    pub in_flight: Vec<Move>,
    /// How many those are.
    pub in_flight_count: usize,
}

/// Moves that run at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// How many partitions are moved in it.
    pub moves: usize,
    /// How many of them are where they belong.
    pub done: usize,
    /// How many are being moved.
    pub in_flight: usize,
    /// Bytes that it copies.
    pub bytes: u64,
}

/// A partition that is being moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// The partition.
    pub partition: String,
    /// The brokers that it leaves.
    pub from: Vec<i32>,
    /// The brokers that it comes to.
    pub to: Vec<i32>,
    /// Bytes that are copied; `None` if that is unknown.
    pub bytes: Option<u64>,
}
