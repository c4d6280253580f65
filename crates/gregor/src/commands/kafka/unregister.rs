//! `gregor kafka unregister-broker`: makes Kafka forget a broker that is gone for good.

use anyhow::{anyhow, bail};
use clap::Args;
use kafka_admin::{Cluster, NodeKind};
use model::NodeId;
use serde::Serialize;

use super::after_change;
use super::connection::Session;
use crate::failure::Usage;
use crate::output::{Out, View, note};

/// A broker.
#[derive(Debug, Args)]
pub(super) struct UnregisterBroker {
    /// Node id of the broker
    #[arg(value_name = "ID")]
    id: NodeId,
    /// Also unregister a broker that is running, or whose state is unknown. Kafka would remove even the only
    /// replica of a partition without a warning
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct UnregisteredView {
    id: i32,
    unregistered: bool,
}

impl UnregisterBroker {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        let id = self.id;
        if self.force {
            note("--force: not checking whether the broker is alive");
        } else {
            if !session.asks_brokers {
                return Err(Usage::error(format!(
                    "controllers do not report whether broker {id} is alive: name brokers with \
                     --bootstrap instead, or use --force if you are sure"
                )));
            }
            let cluster = session.admin.describe_cluster().await?;
            check(&cluster, id)?;
            note(&format!("broker {id} is registered and fenced"));
        }
        session.admin.unregister_broker(id).await.map_err(|error| {
            let outcome = error.outcome();
            after_change(anyhow!(error), outcome, &format!("broker {id} is still registered"))
        })?;
        out.view(&UnregisteredView { id: id.get(), unregistered: true })
    }
}

/// Checks that the broker may be unregistered; the error says what was observed.
fn check(cluster: &Cluster, id: NodeId) -> anyhow::Result<()> {
    debug_assert_eq!(cluster.kind, NodeKind::Brokers);
    let Some(node) = cluster.nodes.iter().find(|node| node.id == id) else {
        bail!("broker {id} is not registered");
    };
    if node.fenced {
        return Ok(());
    }
    let at = node.endpoint.as_ref().map(|endpoint| format!(" at {endpoint}")).unwrap_or_default();
    bail!(
        "broker {id} is registered{at} and not fenced, so it is alive: Kafka would unregister it \
         all the same, with every replica that it has. Stop it first, or use --force"
    );
}

impl View for UnregisteredView {
    fn table(&self, _: Option<u16>) -> String {
        format!("broker {} is unregistered\n", self.id)
    }
}

#[cfg(test)]
mod tests {
    use kafka_admin::{ClusterNode, Endpoint};
    use model::ClusterId;

    use super::*;

    #[test]
    fn only_a_broker_that_is_fenced_may_be_forgotten() {
        let id = |id| NodeId::new(id).unwrap();
        let node = |number, fenced| {
            let endpoint = Some(Endpoint::new("b", 9092));
            ClusterNode { id: id(number), endpoint, rack: None, fenced }
        };
        let cluster = Cluster {
            id: ClusterId::new("abc").unwrap(),
            kind: NodeKind::Brokers,
            active_controller: None,
            nodes: vec![node(100, false), node(101, true)],
        };
        let error = |number| check(&cluster, id(number)).unwrap_err().to_string();
        assert!(error(100).starts_with("broker 100 is registered at b:9092 and not fenced"));
        assert!(check(&cluster, id(101)).is_ok());
        assert_eq!(error(102), "broker 102 is not registered");
    }
}
