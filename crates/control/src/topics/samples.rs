//! Resources and topics for tests.

use std::collections::BTreeMap;

use model::NodeId;

use super::config::Setting;
use super::replicas::Partition;
use super::{Found, Resource, Spec, Status, Value};

pub(super) const ID: &str = "U3fHvCoMVWiCVYa2ri_K5w";
pub(super) const OTHER_ID: &str = "V3fHvCoMVWiCVYa2ri_K5w";

/// A resource that manages its topic, which is as it should be.
pub(super) fn resource(name: &str) -> Resource {
    Resource {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        created_s: 100,
        generation: 3,
        cluster: Some("c".to_owned()),
        is_deleting: false,
        has_finalizer: true,
        is_managed: true,
        is_paused: false,
        config_mode: None,
        spec: Some(Spec::default()),
        status: Status {
            topic_name: Some(name.to_owned()),
            topic_id: Some(ID.to_owned()),
            is_ready: true,
            failure: None,
            replicas_change: None,
        },
    }
}

/// The same, as its user wrote it.
pub(super) fn new(name: &str) -> Resource {
    Resource { has_finalizer: false, status: Status::default(), ..resource(name) }
}

pub(super) fn config(rows: &[(&str, &str)]) -> Option<BTreeMap<String, Value>> {
    let row = |(name, value): &(&str, &str)| ((*name).to_owned(), Value::Text((*value).to_owned()));
    Some(rows.iter().map(row).collect())
}

/// A partition on the first brokers, all in sync.
pub(super) fn partition(number: i32, replicas: i32) -> Partition {
    let brokers: Vec<_> = (0..replicas).filter_map(NodeId::new).collect();
    Partition {
        number,
        in_sync: brokers.iter().copied().collect(),
        leader: brokers.first().copied(),
        replicas: brokers,
        is_moving: false,
    }
}

/// A topic with two partitions of three replicas; settings with a star are inherited.
pub(super) fn found(settings: &[(&str, &str)]) -> Found {
    let setting = |(name, value): &(&str, &str)| {
        let is_override = !name.starts_with('*');
        let name = name.trim_start_matches('*').to_owned();
        (name, Setting { value: Some((*value).to_owned()), is_override })
    };
    Found {
        id: ID.parse().unwrap(),
        partitions: [0, 1].map(|number| partition(number, 3)).into(),
        config: settings.iter().map(setting).collect(),
    }
}
