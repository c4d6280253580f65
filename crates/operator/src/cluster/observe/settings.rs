//! The settings of running nodes.

use std::collections::BTreeMap;

use control::cluster::fact::{Fact, Why};
use control::cluster::snapshot::{NodeView, SettingsView};
use control::node::Roles;
use control::rolling::config::{self, Described, Source};
use kafka_admin::{ConfigEntry, ConfigResource, ConfigSource};
use model::NodeId;
use objects::areas::configuration::major_minor;

use crate::cluster::pass::Work;
use crate::metrics::KafkaEffect;
use crate::time::now_ms;
use crate::words::chain;

/// The settings that a node should run with, and those that it runs with.
pub(super) async fn of(work: &Work, id: NodeId, node: &NodeView) -> Fact<SettingsView> {
    let (Some(desired), Some(roles)) = (desired(work, id, node), node.current) else {
        return Fact::Unknown(Why::Unreachable);
    };
    let access = work.known.kafka.access.as_ref();
    let admin = access.and_then(|access| match roles {
        Roles::Broker | Roles::Combined => access.brokers.as_ref(),
        Roles::Controller => Some(&access.controllers),
    });
    let Some(admin) = admin else { return Fact::Unknown(Why::Unreachable) };
    let at_ms = now_ms();
    work.ctx.writer.metrics().kafka_call("describe configs", KafkaEffect::Read);
    match admin.describe_configs(&ConfigResource::Node(id), None).await {
        Ok(entries) => {
            let running = entries.into_iter().map(|(name, entry)| (name, described(entry)));
            Fact::read(SettingsView { desired, running: running.collect() }, at_ms)
        }
        Err(error) => {
            tracing::info!("the settings of node {id} are unknown: {}", chain(&error));
            Fact::Unknown(Why::NoAnswer)
        }
    }
}

/// The settings that a node should run with, as far as Kafka shows them; `None` if they could not be built.
pub(crate) fn desired(
    work: &Work,
    id: NodeId,
    node: &NodeView,
) -> Option<BTreeMap<String, String>> {
    let configuration = &work.known.configuration;
    let desired = configuration.properties.get(&id)?;
    let version = major_minor(&configuration.kafka_version);
    let of = config::Node { roles: node.current?, version };
    Some(config::shown(of, desired.iter().cloned().collect()))
}

fn described(entry: ConfigEntry) -> Described {
    let source = |source: ConfigSource| match source {
        ConfigSource::DynamicNode => Source::DynamicNode,
        ConfigSource::DynamicDefault => Source::DynamicCluster,
        ConfigSource::StaticNode => Source::File,
        ConfigSource::Default => Source::Default,
        ConfigSource::Topic | ConfigSource::Other(_) => Source::Other,
    };
    Described {
        value: entry.value,
        source: source(entry.source),
        read_only: entry.read_only,
        sensitive: entry.sensitive,
        synonyms: entry.synonyms.into_iter().map(|(from, value)| (source(from), value)).collect(),
    }
}
