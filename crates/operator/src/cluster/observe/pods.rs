//! What nodes that are not ready say of themselves.

use control::cluster::fact::{Fact, Why};
use control::cluster::snapshot::NodeView;
use control::node::Roles;
use control::node::readiness;
use control::rolling::facts::Recovery;

use crate::cluster::nodes::{AskError, BrokerState, NodeClient};
use crate::cluster::pass::Work;
use crate::time::now_ms;
use crate::words::chain;

/// What a node that is not ready says of itself.
pub(super) async fn recovery(work: &Work, node: &NodeView) -> Fact<Recovery> {
    let Some(client) = &work.known.kafka.nodes else { return Fact::Unknown(Why::NobodyToAsk) };
    let at_ms = now_ms();
    match ask(client, node).await {
        Ok(recovery) => Fact::read(recovery, at_ms),
        Err(error) => {
            tracing::debug!("the state of {} is unknown: {}", node.pod, chain(&error));
            Fact::Unknown(Why::NoAnswer)
        }
    }
}

/// A JVM that hangs is known to its node program, which does not have to ask it.
async fn ask(client: &NodeClient, node: &NodeView) -> Result<Recovery, AskError> {
    if client.hangs(&node.host).await? {
        return Ok(Recovery::Hung);
    }
    if !node.current.is_some_and(Roles::is_broker) {
        return Ok(Recovery::No);
    }
    Ok(meaning(&client.broker_state(&node.host).await?))
}

/// What the state of a broker means. `RECOVERY` says that the active controller has acknowledged the broker as caught up, which
/// may be before or after the logs are loaded. So what remains shows whether it recovers them, not the name of the state.
fn meaning(state: &BrokerState) -> Recovery {
    use readiness::BrokerState as Kafka;
    let number = i32::try_from(state.number).unwrap_or(i32::MAX);
    let (logs, segments) = (state.remaining_logs_to_recover, state.remaining_segments_to_recover);
    match Kafka::from_number(number) {
        Kafka::NotRunning | Kafka::Starting | Kafka::Recovery => match (logs, segments) {
            (Some(0), Some(0)) => Recovery::Starting,
            (None | Some(0), None | Some(0)) => Recovery::Unknown,
            (logs, segments) => Recovery::Yes {
                logs: logs.unwrap_or_default(),
                segments: segments.unwrap_or_default(),
            },
        },
        Kafka::Running | Kafka::PendingControlledShutdown | Kafka::ShuttingDown => Recovery::No,
        Kafka::Unknown(_) => Recovery::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::nodes::tests::hostile;
    use crate::hostile::Manner;

    #[tokio::test]
    async fn a_hung_jvm_is_known_from_its_node_whatever_its_role() {
        let unwell = "503 Service Unavailable";
        for roles in [Roles::Broker, Roles::Controller, Roles::Combined] {
            let node = NodeView {
                pool: "broker".to_owned(),
                pod: "c-broker-0".to_owned(),
                host: "c-broker-0.c-kafka-brokers.ns.svc".to_owned(),
                recorded: Some(roles),
                desired: Some(roles),
                current: Some(roles),
                revision: None,
                settings: None,
            };
            let (client, _peer) = hostile(Manner::status(unwell)).await;
            assert_eq!(ask(&client, &node).await.ok(), Some(Recovery::Hung), "{roles:?}");
            // The JVM makes progress: a controller has no log directories to recover, and a broker is asked.
            let (client, _peer) = hostile(Manner::status("200 OK")).await;
            let expected = (roles == Roles::Controller).then_some(Recovery::No);
            assert_eq!(ask(&client, &node).await.ok(), expected, "{roles:?}");
        }
    }

    #[test]
    fn what_a_broker_says_is_told_apart() {
        let yes = |logs: u64, segments: u64| Recovery::Yes { logs, segments };
        let meaning = |number: i64, logs: Option<u64>, segments: Option<u64>| {
            meaning(&BrokerState {
                number,
                remaining_logs_to_recover: logs,
                remaining_segments_to_recover: segments,
            })
        };
        for number in [0, 1, 2] {
            let rows = [
                (Some(7), Some(9), yes(7, 9)),
                (Some(7), Some(0), yes(7, 0)),
                (Some(0), Some(9), yes(0, 9)),
                (Some(7), None, yes(7, 0)),
                (Some(0), Some(0), Recovery::Starting),
                // Strimzi's agent reports what remains in one state only.
                (Some(0), None, Recovery::Unknown),
                (None, None, Recovery::Unknown),
            ];
            for (logs, segments, expected) in rows {
                assert_eq!(meaning(number, logs, segments), expected, "{number} {logs:?}");
            }
        }
        // One that shuts down may still lead. A state of a later Kafka may be anything.
        let unknown = [127, -1, 4, i64::MAX].map(|number| (number, Recovery::Unknown));
        for (number, expected) in
            [3, 6, 7].map(|number| (number, Recovery::No)).iter().chain(&unknown)
        {
            assert_eq!(meaning(*number, Some(0), Some(0)), *expected, "{number}");
        }
    }
}
