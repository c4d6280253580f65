//! What the fleet manager counts while it runs, and the numbers of the fleet that are read from its store for each scrape.
//!
//! Counting must never change what is done: nothing here fails or waits but the reading of the store. No label is the name
//! of a Kafka, an organisation or a person.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::store::{Store, StoreError, now_ms};

/// The names of all series.
pub const NAMES: [&str; 10] = [
    "gregor_fleet_data_planes",
    "gregor_fleet_decisions_total",
    "gregor_fleet_kafkas_waiting",
    "gregor_fleet_nodes",
    "gregor_fleet_provider_calls_total",
    "gregor_fleet_queue_age_seconds",
    "gregor_fleet_region_held",
    "gregor_fleet_reports_total",
    "gregor_fleet_waiting_connections",
    "gregor_fleet_waiting_partitions",
];

/// What is counted. Clones share the numbers.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    reports: Family<OutcomeLabels, Counter>,
    provider_calls: Family<CallLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RegionLabels {
    cloud_provider: String,
    region: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PlaneLabels {
    cloud_provider: String,
    region: String,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NodeLabels {
    cloud_provider: String,
    region: String,
    count: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    kind: &'static str,
    reason: &'static str,
}

/// Decisions, by kind and reason. Clones share the numbers.
#[derive(Debug, Clone, Default)]
pub struct DecisionCounts(Family<DecisionLabels, Counter>);

impl DecisionCounts {
    /// Counts decisions that are on disk.
    pub(crate) fn count(&self, decided: &[(&'static str, &'static str)]) {
        for (kind, reason) in decided {
            self.0.get_or_create(&DecisionLabels { kind, reason }).inc();
        }
    }
}

type OfRegion = Family<RegionLabels, Gauge<f64, AtomicU64>>;

impl Counters {
    /// What became of a report.
    pub(crate) fn report(&self, outcome: &'static str) {
        self.reports.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// What became of a request to a provider, or to the identity provider, by the kind of work.
    pub(crate) fn provider_call(&self, kind: &'static str, outcome: &'static str) {
        self.provider_calls.get_or_create(&CallLabels { kind, outcome }).inc();
    }

    /// All numbers, as Prometheus reads them.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn encode(&self, store: &Store) -> Result<String, StoreError> {
        let mut registry = Registry::with_prefix("gregor_fleet");
        registry.register("reports", "Reports of agents by outcome", self.reports.clone());
        registry.register(
            "provider_calls",
            "Requests to providers of data planes by kind and outcome",
            self.provider_calls.clone(),
        );
        registry.register(
            "decisions",
            "Decisions of this replica, by kind and reason",
            store.decision_counts().0,
        );
        planes(&mut registry, store).await?;
        demand(&mut registry, store).await?;
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &registry);
        Ok(text)
    }
}

fn labels(cloud_provider: &str, region: &str) -> RegionLabels {
    RegionLabels { cloud_provider: cloud_provider.to_owned(), region: region.to_owned() }
}

async fn planes(registry: &mut Registry, store: &Store) -> Result<(), StoreError> {
    let (states, nodes) =
        (Family::<PlaneLabels, Gauge>::default(), Family::<NodeLabels, Gauge>::default());
    for one in store.plane_counts().await? {
        let (cloud_provider, region) = (one.cloud_provider.clone(), one.region.clone());
        let labels = PlaneLabels { cloud_provider, region, status: one.state.name() };
        states.get_or_create(&labels).inc_by(signed(one.planes));
        for (count, number) in ["wanted", "desired", "actual"].into_iter().zip(one.nodes) {
            let (cloud_provider, region) = (one.cloud_provider.clone(), one.region.clone());
            let labels = NodeLabels { cloud_provider, region, count };
            nodes.get_or_create(&labels).inc_by(signed(number));
        }
    }
    registry.register("data_planes", "Data planes, by status", states);
    registry.register(
        "nodes",
        "Nodes: desired by the manager, and desired and actual at the provider",
        nodes,
    );
    Ok(())
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

async fn demand(registry: &mut Registry, store: &Store) -> Result<(), StoreError> {
    let (held, waiting) = (OfRegion::default(), OfRegion::default());
    let age = OfRegion::default();
    for region in store.held_regions().await? {
        held.get_or_create(&labels(&region.cloud_provider, &region.region)).set(1.0);
    }
    let (connections, partitions) = (OfRegion::default(), OfRegion::default());
    let now = now_ms();
    for one in store.demand_by_region().await? {
        let labels = labels(&one.cloud_provider, &one.region);
        waiting.get_or_create(&labels).set(one.kafkas as f64);
        connections.get_or_create(&labels).set(one.connections as f64);
        partitions.get_or_create(&labels).set(one.partitions as f64);
        age.get_or_create(&labels).set((now - one.oldest).max(0) as f64 / 1000.0);
    }
    registry.register("region_held", "Regions that need a data plane and may not get one", held);
    registry.register("kafkas_waiting", "Kafkas that wait for capacity", waiting);
    registry.register(
        "waiting_connections",
        "Connections of the Kafkas that wait for capacity",
        connections,
    );
    registry.register(
        "waiting_partitions",
        "Partitions of the Kafkas that wait for capacity",
        partitions,
    );
    registry.register(
        "queue_age_seconds",
        "Time that the oldest Kafka has waited for capacity",
        age,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_documented() {
        let document = include_str!("../../../docs/fleet.md");
        for name in NAMES {
            assert!(document.contains(&format!("`{name}`")), "{name}");
        }
    }
}
