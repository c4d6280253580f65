//! What Cruise Control is asked: a method and a path with its query, and nothing else. Bodies are empty.

use std::fmt::Write as _;

use api::KafkaRebalanceSpec;
use api::rebalance::RebalanceMode;

use crate::rebalance::request;

/// Where its resources are.
const BASE: &str = "/kafkacruisecontrol";

/// Characters that mean something in a query, or are not ASCII, are written as their bytes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b',' | b'/') {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// A question: whether it changes something, and its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) post: bool,
    pub(super) path: String,
}

/// A plan, or with `execute` the moves themselves.
pub(super) fn rebalance(spec: &KafkaRebalanceSpec, execute: bool) -> Ask {
    let mode = spec.mode();
    let endpoint = match mode {
        RebalanceMode::Full => "rebalance",
        RebalanceMode::AddBrokers => "add_broker",
        RebalanceMode::RemoveBrokers => "remove_broker",
        RebalanceMode::RemoveDisks => "remove_disks",
    };
    let mut path = format!("{BASE}/{endpoint}?json=true&dryrun={}", !execute);
    if mode == RebalanceMode::RemoveDisks {
        let _ = write!(path, "&brokerid_and_logdirs={}", escape(&log_dirs(spec)));
        return Ask { post: true, path };
    }
    let skip = spec.skip_hard_goal_check.unwrap_or(false);
    // Not verbose: that would add every proposal to the answer, of which only the summary is used.
    let _ = write!(path, "&verbose=false&skip_hard_goal_check={skip}");
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = write!(path, "&{name}={}", escape(&value));
        }
    };
    let number = |value: Option<i64>| value.filter(|n| *n > 0).map(|n| n.to_string());
    let list = |value: &Option<Vec<String>>| value.as_ref().map(|all| all.join(","));
    add("excluded_topics", spec.excluded_topics.clone());
    add("replica_movement_strategies", list(&spec.replica_movement_strategies));
    let moves = number(spec.concurrent_partition_movements_per_broker);
    add("concurrent_partition_movements_per_broker", moves);
    add("concurrent_leader_movements", number(spec.concurrent_leader_movements));
    add("replication_throttle", number(spec.replication_throttle));
    add("goals", list(&spec.goals).filter(|goals| !goals.is_empty()));
    if mode == RebalanceMode::Full {
        add("rebalance_disk", Some(spec.rebalance_disk.unwrap_or(false).to_string()));
        let shifts = number(spec.concurrent_intra_broker_partition_movements);
        add("concurrent_intra_broker_partition_movements", shifts);
    } else {
        let ids = spec.brokers.iter().flatten().map(ToString::to_string).collect::<Vec<_>>();
        add("brokerid", Some(ids.join(",")));
    }
    Ask { post: true, path }
}

/// The log directories to be emptied, each after its broker.
fn log_dirs(spec: &KafkaRebalanceSpec) -> String {
    let all = request::log_dirs(spec).into_iter();
    all.map(|(broker, path)| format!("{broker}-{path}")).collect::<Vec<_>>().join(",")
}

/// How a task is.
pub(super) fn task(id: &str) -> Ask {
    let path = format!(
        "{BASE}/user_tasks?json=true&fetch_completed_task=true&user_task_ids={}",
        escape(id)
    );
    Ask { post: false, path }
}

/// To stop what it does.
pub(super) fn stop() -> Ask {
    Ask { post: true, path: format!("{BASE}/stop_proposal_execution?json=true") }
}

/// What its executor does. The other parts of the state are not asked for: they grow with the cluster.
pub(super) fn state() -> Ask {
    Ask { post: false, path: format!("{BASE}/state?substates=executor&verbose=false&json=true") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: &str) -> KafkaRebalanceSpec {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    #[rustfmt::skip]
    fn requests_are_those_of_strimzi_without_the_proposals() {
        let rows = [
            (r#"{}"#, "rebalance?json=true&dryrun=true&verbose=false&skip_hard_goal_check=false&rebalance_disk=false"),
            (r#"{"mode":"add-brokers","brokers":[3,4],"goals":["RackAwareGoal","DiskCapacityGoal"],"skipHardGoalCheck":true}"#,
             "add_broker?json=true&dryrun=true&verbose=false&skip_hard_goal_check=true&goals=RackAwareGoal,DiskCapacityGoal&brokerid=3,4"),
            (r#"{"mode":"remove-brokers","brokers":[4],"concurrentLeaderMovements":0,"replicationThrottle":1000,"concurrentPartitionMovementsPerBroker":7,"rebalanceDisk":true}"#,
             "remove_broker?json=true&dryrun=true&verbose=false&skip_hard_goal_check=false&concurrent_partition_movements_per_broker=7&replication_throttle=1000&brokerid=4"),
            (r#"{"excludedTopics":"a|b.*&c","rebalanceDisk":true,"concurrentIntraBrokerPartitionMovements":3}"#,
             "rebalance?json=true&dryrun=true&verbose=false&skip_hard_goal_check=false&excluded_topics=a%7Cb.%2A%26c&rebalance_disk=true&concurrent_intra_broker_partition_movements=3"),
            (r#"{"mode":"remove-disks","moveReplicasOffVolumes":[{"brokerId":0,"volumeIds":[1,2]},{"brokerId":3,"volumeIds":[0]}],"goals":["RackAwareGoal"]}"#,
             "remove_disks?json=true&dryrun=true&brokerid_and_logdirs=0-/var/lib/kafka/data-1/kafka-log0,0-/var/lib/kafka/data-2/kafka-log0,3-/var/lib/kafka/data-0/kafka-log3"),
        ];
        for (json, expected) in rows {
            let ask = rebalance(&spec(json), false);
            assert_eq!(ask, Ask { post: true, path: format!("/kafkacruisecontrol/{expected}") });
        }
        assert!(rebalance(&spec("{}"), true).path.contains("dryrun=false"));
    }
}
