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
    let Some(client) = &work.known.kafka.nodes else { return Fact::Unknown(Why::Unreachable) };
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

/// What a broker says of itself.
fn meaning(state: &BrokerState) -> Recovery {
    let number = i32::try_from(state.number).unwrap_or(i32::MAX);
    let (logs, segments) = (state.remaining_logs_to_recover, state.remaining_segments_to_recover);
    Recovery::of_broker(readiness::BrokerState::from_number(number), logs, segments)
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
    fn a_number_that_kafka_does_not_have_is_an_unknown_state() {
        for number in [i64::MAX, i64::MIN, i64::from(i32::MAX) + 4] {
            let (logs, segments) = (Some(0), Some(0));
            let state = BrokerState {
                number,
                remaining_logs_to_recover: logs,
                remaining_segments_to_recover: segments,
            };
            assert_eq!(meaning(&state), Recovery::Unknown, "{number}");
        }
    }
}
