//! Whether Kafka answers on a node.
//!
//! What the others say of a node is enough where it is good: a broker that is registered and not fenced has
//! sent a heartbeat within seconds, a voter that is level has fetched. Only where they have nothing good to
//! say is the node itself asked, so that a healthy cluster is asked no more than before.

use std::time::Duration;

use control::rolling::facts::Contact;
use control::rolling::quorum;
use kafka_admin::{CallError, Endpoint};

use super::observe;
use crate::cluster::pass::Work;
use crate::cluster::resources::Node;
use crate::metrics::KafkaEffect;
use crate::words::chain;

/// A node that lives answers within milliseconds. A pass waits for the slowest.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whether Kafka answers on a node whose pod is ready (`is_up`). One that is not is not asked.
///
/// Where nobody at all answers nothing is restarted for that, so only a node that is to be restarted anyway
/// (`is_wanted`) is asked: it may be one that refuses our certificate.
pub(super) async fn of(work: &Work, node: &Node, (is_up, is_wanted): (bool, bool)) -> Contact {
    if !is_up {
        return Contact::Unknown;
    }
    match is_well(work, node) {
        Some(true) => return Contact::Answers,
        None if !is_wanted => return Contact::Unknown,
        Some(false) | None => {}
    }
    let Some(access) = &work.known.kafka.access else { return Contact::Unknown };
    let (admin, port) = match node.roles.is_broker() {
        true => (access.brokers.as_ref(), api::names::REPLICATION_PORT),
        false => (Some(&access.controllers), api::names::CONTROLLER_PORT),
    };
    let Some(admin) = admin else { return Contact::Unknown };
    let host = work.blueprint.names.host(&work.blueprint.pod(node));
    work.ctx.writer.metrics().kafka_call("reach", KafkaEffect::Read);
    let reached = admin.with_call_timeout(PATIENCE).reach(&Endpoint::new(host, port)).await;
    if let Err(error) = &reached {
        tracing::info!("node {} does not answer: {}", node.id, chain(error));
    }
    meaning(&reached)
}

/// Whether the others find a node well; none if they do not tell.
fn is_well(work: &Work, node: &Node) -> Option<bool> {
    if node.roles.is_broker() {
        let brokers = work.known.kafka.brokers.as_ref()?;
        let is_it = |broker: &&kafka_admin::ClusterNode| broker.id == node.id;
        return Some(brokers.nodes.iter().find(is_it).is_some_and(|broker| !broker.fenced));
    }
    let facts = observe::quorum(work)?;
    let votes = facts.voters.iter().any(|(voter, _)| *voter == node.id);
    Some(votes && quorum::has_caught_up(&facts, node.id) == Some(true))
}

/// A node that is reached but slow is found as silent as one that is not reached: nothing else can be
/// known of either, and both are asked ten times before anything is done about them.
fn meaning(reached: &Result<(), CallError>) -> Contact {
    match reached {
        Ok(()) => Contact::Answers,
        // It answers, if in another tongue than we hoped for.
        Err(CallError::Unsupported { .. } | CallError::Malformed { answered: true, .. }) => {
            Contact::Answers
        }
        Err(error) if error.is_distrust() => Contact::RefusesCertificate,
        Err(
            CallError::Connect { .. }
            | CallError::Expired { .. }
            | CallError::Lost { .. }
            | CallError::Malformed { .. }
            | CallError::Answer { .. }
            | CallError::NoSuchNode { .. }
            | CallError::Locate { .. }
            | CallError::NoLeader { .. },
        ) => Contact::Fails,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use kafka_admin::proto::ApiId;
    use kafka_admin::{ConnectError, LinkError};

    use super::*;

    fn endpoint() -> Endpoint {
        Endpoint::new("h", 1)
    }

    fn connect(source: ConnectError) -> CallError {
        CallError::Connect { api: api(), endpoint: endpoint(), source }
    }

    fn api() -> ApiId {
        ApiId { key: 60, name: "DescribeCluster" }
    }

    #[test]
    fn what_the_client_saw_is_told_apart() {
        let distrust =
            LinkError::Tls { message: "received fatal alert".to_owned(), distrust: true };
        let noise = LinkError::Tls { message: "corrupt message".to_owned(), distrust: false };
        let tcp = io::Error::from(io::ErrorKind::ConnectionRefused);
        let address = ([127, 0, 0, 1], 1).into();
        let waited = Duration::from_secs(3);
        let (api, at) = (api(), endpoint);
        let rows = [
            (Ok(()), Contact::Answers),
            (Err(connect(ConnectError::Handshake(distrust))), Contact::RefusesCertificate),
            (Err(connect(ConnectError::Handshake(noise))), Contact::Fails),
            (Err(connect(ConnectError::Tcp { address, source: tcp })), Contact::Fails),
            (Err(connect(ConnectError::NoAddress)), Contact::Fails),
            (Err(connect(ConnectError::Expired { waited })), Contact::Fails),
            (Err(CallError::Expired { api, endpoint: at(), waited }), Contact::Fails),
            (
                Err(CallError::Lost { api, endpoint: at(), source: LinkError::Closed }),
                Contact::Fails,
            ),
        ];
        for (reached, expected) in rows {
            assert_eq!(meaning(&reached), expected, "{reached:?}");
        }
    }
}
