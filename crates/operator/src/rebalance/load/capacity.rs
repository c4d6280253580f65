//! What brokers can take, as users have said it: in `spec.cruiseControl.brokerCapacity`, or by what their
//! containers get.

use std::collections::BTreeMap;

use api::kafka::cruise_control::BrokerCapacity;
use api::{Quantity, Resources};
use control::rebalance::load::Given;
use model::NodeId;

/// What a broker has of the processor by default, which is Strimzi's.
const CPU_CORES: f64 = 1.0;

/// What these brokers can take. Processor: what is said for the broker, else for all, else what its
/// container asks for, else what it may have, else one core. Network: only what is said, as a guess would make
/// goals that were not asked for. Disks: nothing, as Kafka knows the size of its volumes.
#[must_use]
pub fn capacities(
    said: Option<&BrokerCapacity>,
    brokers: &BTreeMap<NodeId, Option<&Resources>>,
) -> BTreeMap<NodeId, Given> {
    let of = |(id, resources): (&NodeId, &Option<&Resources>)| {
        let overrides = said.and_then(|said| said.overrides.as_ref()).into_iter().flatten();
        let own = overrides.into_iter().find(|one| one.brokers.contains(&i64::from(id.get())));
        let cpu = own
            .and_then(|own| own.cpu.as_deref())
            .or_else(|| said.and_then(|said| said.cpu.as_deref()))
            .and_then(cores)
            .or_else(|| resources.and_then(container_cores));
        let inbound = own
            .and_then(|own| own.inbound_network.as_deref())
            .or_else(|| said.and_then(|said| said.inbound_network.as_deref()));
        let outbound = own
            .and_then(|own| own.outbound_network.as_deref())
            .or_else(|| said.and_then(|said| said.outbound_network.as_deref()));
        let given = Given {
            cpu_cores: Some(cpu.unwrap_or(CPU_CORES)),
            network_in_kb: inbound.and_then(kb_a_second),
            network_out_kb: outbound.and_then(kb_a_second),
            disk_mb: None,
        };
        (*id, given)
    };
    brokers.iter().map(of).collect()
}

/// What the container of a broker asks for, or may have.
fn container_cores(resources: &Resources) -> Option<f64> {
    let cpu =
        |of: &Option<BTreeMap<String, Quantity>>| cores(&of.as_ref()?.get("cpu")?.to_string());
    cpu(&resources.requests).or_else(|| cpu(&resources.limits))
}

/// Cores out of a text such as `1.5` or `1500m`.
fn cores(text: &str) -> Option<f64> {
    let cores = match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse::<f64>().ok()? / 1_000.0,
        None => text.parse().ok()?,
    };
    (cores.is_finite() && cores > 0.0).then_some(cores)
}

/// KB a second out of a text such as `10000KiB/s`. Cruise Control's KB have 1024 bytes.
fn kb_a_second(text: &str) -> Option<f64> {
    let bytes = text.strip_suffix("B/s")?;
    let units = [
        ("Ki", 1_024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("K", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("", 1.0),
    ];
    let (number, unit) =
        units.iter().find_map(|(suffix, unit)| Some((bytes.strip_suffix(suffix)?, unit)))?;
    Some(number.parse::<u64>().ok()? as f64 * unit / 1_024.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_of_users_are_read_in_strimzi_s_order() {
        let said: BrokerCapacity = serde_json::from_value(json!({
            "cpu": "2", "inboundNetwork": "10000KiB/s",
            "overrides": [{ "brokers": [1], "cpu": "1500m", "outboundNetwork": "2MB/s" }],
        }))
        .unwrap();
        let resources: Resources = serde_json::from_value(json!({
            "requests": { "cpu": 3 }, "limits": { "cpu": "4" },
        }))
        .unwrap();
        let brokers: BTreeMap<NodeId, Option<&Resources>> =
            [(0, Some(&resources)), (1, None)].map(|(id, r)| (NodeId::new(id).unwrap(), r)).into();
        let given = |found: &BTreeMap<NodeId, Given>, id: i32| {
            let given = found[&NodeId::new(id).unwrap()];
            (given.cpu_cores, given.network_in_kb, given.network_out_kb)
        };
        let found = capacities(Some(&said), &brokers);
        assert_eq!(given(&found, 0), (Some(2.0), Some(10_000.0), None));
        assert_eq!(given(&found, 1), (Some(1.5), Some(10_000.0), Some(1_953.125)));
        let found = capacities(None, &brokers);
        assert_eq!(given(&found, 0), (Some(3.0), None, None));
        assert_eq!(given(&found, 1), (Some(1.0), None, None));
    }

    #[test]
    fn rates_have_units_of_both_kinds() {
        let rows = [
            ("1024B/s", Some(1.0)),
            ("1KiB/s", Some(1.0)),
            ("1024KB/s", Some(1_000.0)),
            ("1MiB/s", Some(1_024.0)),
            ("1GiB/s", Some(1_048_576.0)),
            ("1", None),
            ("xB/s", None),
        ];
        for (text, expected) in rows {
            assert_eq!(kb_a_second(text), expected, "{text}");
        }
    }
}
