//! Whether Kafka answers on a node, asked of the node itself.

use std::time::Duration;

use control::cluster::fact::{Fact, Why};
use control::cluster::snapshot::NodeView;
use control::node::Roles;
use control::rolling::facts::Contact;
use kafka_admin::{CallError, Endpoint};

use crate::cluster::pass::Work;
use crate::metrics::KafkaEffect;
use crate::time::now_ms;
use crate::words::chain;

/// A node that works answers within milliseconds. A pass waits for the slowest.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Asks a node. `roles` are those that its pod was started with: a controller that is to become a broker does not
/// listen as one yet.
pub(super) async fn of(work: &Work, node: &NodeView, roles: Option<Roles>) -> Fact<Contact> {
    let access = work.known.kafka.access.as_ref();
    let (admin, port) = match roles.or(node.current).is_some_and(Roles::is_broker) {
        true => (access.and_then(|access| access.brokers.as_ref()), api::names::REPLICATION_PORT),
        false => (access.map(|access| &access.controllers), api::names::CONTROLLER_PORT),
    };
    let Some(admin) = admin else { return Fact::Unknown(Why::Unreachable) };
    let at_ms = now_ms();
    work.ctx.writer.metrics().kafka_call("reach", KafkaEffect::Read);
    let endpoint = Endpoint::new(node.host.clone(), port);
    let reached = admin.with_call_timeout(TIMEOUT).reach(&endpoint).await;
    if let Err(error) = &reached {
        tracing::info!("{} does not answer: {}", node.pod, chain(error));
    }
    Fact::read(meaning(&reached), at_ms)
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
