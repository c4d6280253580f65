//! Whatever Strimzi's schema accepts as a `KafkaTopic`, decisions take: each gets a status or is left unchanged, and none panics.

use std::collections::BTreeMap;

use api::{KafkaTopic, read};
use control::topics::config::Setting;
use control::topics::replicas::Partition;
use control::topics::{
    Answers, Found, Ownership, Problem, Report, Settings, Triage, View, plan, triage,
};
use model::NodeId;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::random;

/// Any value that a setting may be written with.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(".{0,6}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

fn any_metadata() -> impl Strategy<Value = Value> {
    let flag = || prop_oneof!["true", "false", "True", ".{0,6}"];
    let mode = prop_oneof!["keep", "replace", ".{0,6}"];
    (any::<bool>(), any::<bool>(), flag(), flag(), mode, any::<i64>()).prop_map(
        |(is_deleting, has_finalizer, managed, paused, mode, generation)| {
            json!({
                "namespace": "n", "generation": generation,
                "labels": { "strimzi.io/cluster": "c" },
                "finalizers": if has_finalizer { json!(["strimzi.io/topic-operator"]) } else { json!([]) },
                "deletionTimestamp":
                    if is_deleting { json!("2026-01-01T00:00:00Z") } else { Value::Null },
                "annotations": {
                    "strimzi.io/managed": managed, "strimzi.io/pause-reconciliation": paused,
                    "gregor.io/topic-config": mode,
                },
            })
        },
    )
}

/// A topic with partitions whose numbers of replicas differ.
fn any_found() -> impl Strategy<Value = Found> {
    let partitions = prop::collection::vec((0_i32..5, any::<bool>()), 0..6);
    let settings = prop::collection::hash_map("[a-z.]{1,12}", (".{0,8}", any::<bool>()), 0..4);
    (partitions, settings, any::<[u8; 16]>()).prop_filter_map("ids are not zero", |parts| {
        let (partitions, settings, id) = parts;
        let partition = |(number, (count, is_moving)): (i32, (i32, bool))| {
            let brokers: Vec<_> = (0..count).filter_map(NodeId::new).collect();
            Partition {
                number,
                in_sync: brokers.iter().copied().collect(),
                leader: brokers.first().copied(),
                replicas: brokers,
                is_moving,
            }
        };
        let config = settings.into_iter().map(|(name, (value, is_override))| {
            (name, Setting { value: Some(value), is_override })
        });
        Some(Found {
            id: model::TopicId::from_bytes(id)?,
            partitions: (0..).zip(partitions).map(partition).collect(),
            config: config.collect(),
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_topic_that_strimzi_accepts_panics_or_stays_without_an_answer(
        seed: u64,
        metadata in any_metadata(),
        config in prop::option::of(prop::collection::hash_map(".{0,10}", any_value(), 0..5)),
        name in prop::option::of(".{0,12}"),
        found in any_found(),
    ) {
        let mut object = random::object("KafkaTopic", seed);
        for (field, value) in metadata.as_object().unwrap() {
            object["metadata"][field] = value.clone();
        }
        if let Some(config) = config {
            object["spec"]["config"] = json!(config);
        }
        if let Some(name) = name {
            object["spec"]["topicName"] = name.into();
        }
        let topic: KafkaTopic = serde_json::from_value(object).unwrap();
        let resource = read::topic(&topic, true);
        let ownership = Ownership::of([&resource]);
        let says = |report: &Report| !report.conditions.is_empty();
        match triage(&resource, &ownership) {
            Triage::Ignore | Triage::Release | Triage::Delete { .. } => {
                prop_assert!(resource.is_deleting);
            }
            Triage::Report(report) => prop_assert!(says(&report)),
            Triage::Reconcile { topic } => {
                prop_assert!(!resource.is_deleting);
                prop_assert_eq!(topic.as_str(), resource.topic());
                let refused = View::Refused(Problem::kafka(29, "no"));
                for view in [View::Absent, View::Found(found), refused] {
                    let plan = plan(&resource, &view, &Settings::default());
                    let is_refused = matches!(view, View::Refused(_));
                    let changes = plan.create.is_some() || !plan.config.is_empty()
                        || plan.partitions.is_some() || plan.replicas.is_some();
                    prop_assert!(!(is_refused && changes), "what is not shown is not changed");
                    prop_assert!(says(&plan.report(&resource, Answers::default())));
                }
            }
        }
    }
}

#[test]
fn a_namespace_of_bad_resources_has_one_owner_for_each_topic() {
    let resources: Vec<_> = (0..50_u64)
        .map(|seed| {
            let mut object = random::object("KafkaTopic", seed);
            object["spec"]["topicName"] = format!("t{}", seed % 7).into();
            object["status"] = json!({});
            let topic: KafkaTopic = serde_json::from_value(object).unwrap();
            read::topic(&topic, true)
        })
        .collect();
    let ownership = Ownership::of(&resources);
    let mut owners = BTreeMap::new();
    for resource in &resources {
        if let Triage::Reconcile { topic } = triage(resource, &ownership) {
            assert!(owners.insert(topic, &resource.name).is_none(), "two owners");
        }
    }
    assert_eq!(owners.len(), 7);
}
