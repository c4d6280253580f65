//! The example manifests, read as the operator reads them.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::fs;
use std::path::Path;

use api::compat::{Kind, unhonoured};
use api::node_pool::Role;
use api::{Kafka, KafkaNodePool, KafkaRebalance, KafkaTopic, KafkaUser};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// An example, and its pools with how many nodes they have and what these do.
type Example = (&'static str, &'static [(&'static str, i64, &'static [Role])]);

const SEPARATE: &[(&str, i64, &[Role])] =
    &[("controller", 3, &[Role::Controller]), ("broker", 3, &[Role::Broker])];

const EXAMPLES: &[Example] = &[
    ("kafka-ephemeral.yaml", SEPARATE),
    ("kafka-persistent.yaml", SEPARATE),
    ("kafka-jbod.yaml", SEPARATE),
    ("kafka-single-node.yaml", &[("dual-role", 1, &[Role::Controller, Role::Broker])]),
    ("kafka-dual-role.yaml", &[("dual-role", 3, &[Role::Controller, Role::Broker])]),
];

fn read(name: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    serde_saphyr::from_multiple(&fs::read_to_string(folder.join(name)).unwrap()).unwrap()
}

#[track_caller]
fn typed<T: Serialize + DeserializeOwned>(object: &Value) -> T {
    let typed: T = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&typed).unwrap(), object, "nothing is lost");
    typed
}

#[test]
fn nothing_of_an_example_is_lost_and_its_pools_are_as_the_name_says() {
    for (name, pools) in EXAMPLES {
        let objects = read(name);
        let found: Vec<KafkaNodePool> = objects
            .iter()
            .filter(|object| object["kind"] == "KafkaNodePool")
            .map(typed::<KafkaNodePool>)
            .collect();
        assert_eq!(found.len(), pools.len(), "{name}");
        for (pool, (title, replicas, roles)) in found.iter().zip(*pools) {
            assert_eq!(pool.metadata.name.as_deref(), Some(*title), "{name}");
            assert_eq!((pool.spec.replicas, &pool.spec.roles[..]), (*replicas, *roles), "{name}");
        }
        let kafka: Kafka = typed(objects.last().unwrap());
        assert_eq!(kafka.spec.kafka.listeners.len(), 2, "{name}");
    }
}

#[test]
fn every_field_of_the_examples_is_honoured() {
    for (name, _) in EXAMPLES {
        for object in read(name) {
            let kind = Kind::of(object["kind"].as_str().unwrap()).unwrap();
            let found: Vec<_> = unhonoured(&object, kind)
                .into_iter()
                .map(|finding| (finding.path, finding.verdict))
                .collect();
            assert_eq!(found, [], "{name}");
        }
    }
}

#[test]
fn the_examples_are_valid() {
    for (name, pools) in EXAMPLES {
        let objects = read(name);
        let (pool_objects, kafka) = objects.split_at(objects.len() - 1);
        let pool_objects: Vec<KafkaNodePool> = pool_objects.iter().map(typed).collect();
        let spec = api::read::cluster(&typed(&kafka[0]), &pool_objects).unwrap();
        assert_eq!(spec.kafka_version.as_deref(), Some("4.3.1"), "{name}");
        assert_eq!(
            spec.config["min.insync.replicas"].parse::<u32>().ok().map(|n| n > 0),
            Some(true)
        );
        let count = |role| {
            let with_role = pools.iter().filter(|(_, _, roles)| roles.contains(&role));
            with_role.map(|(_, replicas, _)| u64::try_from(*replicas).unwrap()).sum::<u64>()
        };
        assert_eq!(spec.brokers(), count(Role::Broker), "{name}");
        assert_eq!(spec.controllers(), count(Role::Controller), "{name}");
        for pool in &spec.pools {
            assert!(pool.storage.volumes().iter().any(|volume| volume.kraft_metadata), "{name}");
        }
    }
}

/// The objects in the YAML blocks of the documentation that name their kind, with page and line.
fn documented() -> Vec<(String, Value)> {
    let mut objects = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                let text = fs::read_to_string(&path).unwrap();
                for (at, after) in text.match_indices("```yaml\n") {
                    let block = text[at + after.len()..].split("```").next().unwrap();
                    let line = text[..at].lines().count() + 1;
                    let read: Vec<Value> = serde_saphyr::from_multiple(block)
                        .unwrap_or_else(|error| panic!("{}:{line}: {error}", path.display()));
                    let whole = read.into_iter().filter(|object| object["kind"].is_string());
                    objects
                        .extend(whole.map(|object| (format!("{}:{line}", path.display()), object)));
                }
            }
        }
    }
    objects
}

#[test]
fn docs_show_only_resources_whose_fields_are_honoured() {
    let mut count = 0;
    for (place, object) in documented() {
        let kind = object["kind"].as_str().unwrap();
        match kind {
            "Kafka" => drop(typed::<Kafka>(&object)),
            "KafkaNodePool" => drop(typed::<KafkaNodePool>(&object)),
            "KafkaRebalance" => drop(typed::<KafkaRebalance>(&object)),
            "KafkaTopic" => drop(typed::<KafkaTopic>(&object)),
            "KafkaUser" => drop(typed::<KafkaUser>(&object)),
            _ => continue,
        }
        let found: Vec<_> = unhonoured(&object, Kind::of(kind).unwrap())
            .into_iter()
            .map(|finding| (finding.path, finding.verdict))
            .collect();
        assert_eq!(found, [], "{place}");
        count += 1;
    }
    assert!(count >= 5, "only {count} resources were found");
}
