//! Our schemas beside Strimzi's: nothing is lost, and nothing is checked more strictly.

use std::collections::{BTreeMap, BTreeSet};

use crate::{random, strimzi};
use api::compat::{Kind, Verdict, fields};
use api::crds::{crds, manifest};
use api::{Kafka, KafkaNodePool, KafkaRebalance, KafkaTopic, KafkaUser, StrimziPodSet};
use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

const KEEPS: &str = "x-kubernetes-preserve-unknown-fields";

/// What a server does with a field, by our schema.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate<'a> {
    /// It has a schema.
    Typed(&'a Value),
    /// It is in an object that is passed on as it is.
    PassedOn,
    /// It is kept beside fields that have a schema.
    Kept,
    /// It is taken out.
    Lost,
}

/// Our schemas of the stored version, by kind.
fn ours() -> BTreeMap<String, Value> {
    crds()
        .iter()
        .map(|crd| {
            let schema = manifest(crd)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
            (crd.spec.names.kind.clone(), schema)
        })
        .collect()
}

fn fate<'a>(schema: &'a Value, steps: &[String]) -> Fate<'a> {
    let [first, rest @ ..] = steps else { return Fate::Typed(schema) };
    let next = match first.as_str() {
        "[]" => schema.get("items"),
        "{}" => schema.get("additionalProperties"),
        name => schema.get("properties").and_then(|properties| properties.get(name)),
    };
    match next {
        Some(next) => fate(next, rest),
        None if schema[KEEPS] != true => Fate::Lost,
        None if schema.get("properties").is_none() => Fate::PassedOn,
        None => Fate::Kept,
    }
}

fn type_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "int-or-string".into();
    }
    schema["type"].as_str().unwrap_or_default().into()
}

fn constraints(schema: &Value) -> Vec<String> {
    let simple = ["minimum", "maximum", "minItems", "pattern"].into_iter().filter_map(|name| {
        let value = schema.get(name)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(format!("{name}={text}"))
    });
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    let rules = rules.map(|rule| format!("cel={}", rule["rule"].as_str().unwrap()));
    simple.chain(rules).collect()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn no_field_of_strimzi_is_lost() {
    let ours = ours();
    for row in strimzi::rows() {
        assert_ne!(fate(&ours[&row.kind], &row.steps()), Fate::Lost, "{} {}", row.kind, row.path);
    }
}

#[test]
fn every_honoured_field_is_in_our_types() {
    let ours = ours();
    for field in fields().filter(|field| field.verdict == Verdict::Honoured) {
        let fate = fate(&ours[field.kind.name()], &strimzi::steps(field.path));
        assert!(matches!(fate, Fate::Typed(_) | Fate::PassedOn), "{} {fate:?}", field.path);
    }
}

#[test]
fn a_field_that_has_a_schema_has_the_same_as_in_strimzi() {
    let ours = ours();
    let mut typed = 0;
    for row in strimzi::rows() {
        let steps = row.steps();
        let Fate::Typed(schema) = fate(&ours[&row.kind], &steps) else { continue };
        typed += 1;
        let of = format!("{} {}", row.kind, row.path);
        assert_eq!(type_of(schema), row.of_type.trim_end_matches('*'), "{of}");
        assert_eq!(texts(&schema["enum"]), row.values, "{of}");
        let mut theirs = row.constraints.clone();
        theirs.sort();
        let mut ours_sorted = constraints(schema);
        ours_sorted.sort();
        assert_eq!(ours_sorted, theirs, "{of}");
        let (name, above) = steps.split_last().unwrap();
        let Fate::Typed(above) = fate(&ours[&row.kind], above) else { unreachable!() };
        // The list of paths does not say it of the spec itself; the definitions do.
        let required = row.required || row.path == "spec";
        assert_eq!(texts(&above["required"]).contains(name), required, "{of}");
    }
    assert!(typed > 400, "only {typed} fields have a schema");
}

#[test]
fn what_we_add_is_in_the_status_only() {
    let known: Vec<_> = strimzi::rows().into_iter().map(|row| (row.kind, row.path)).collect();
    let mut added = Vec::new();
    for (kind, schema) in ours() {
        for path in paths(&schema, String::new()) {
            if !known.contains(&(kind.clone(), path.clone())) {
                added.push(format!("{kind} {path}"));
            }
        }
    }
    assert_eq!(
        added,
        [
            "Kafka status.autoRebalance.lastError",
            "Kafka status.controllers",
            "Kafka status.controllers[]",
            "Kafka status.controllers[].directoryId",
            "Kafka status.controllers[].id",
            "Kafka status.initialControllers",
            "Kafka status.nodeIds",
            "Kafka status.nodeIds[]",
        ]
    );
}

fn paths(schema: &Value, at: String) -> Vec<String> {
    let mut found = Vec::new();
    if !at.is_empty() {
        found.push(at.clone());
    }
    let dot = if at.is_empty() { "" } else { "." };
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        found.extend(paths(below, format!("{at}{dot}{name}")));
    }
    for (mark, name) in [("[]", "items"), ("{}", "additionalProperties")] {
        if let Some(below) = schema.get(name) {
            found.extend(paths(below, format!("{at}{mark}")));
        }
    }
    found
}

#[test]
fn every_object_keeps_what_it_does_not_know() {
    fn check(schema: &Value, at: &str) {
        let is_map = schema.get("additionalProperties").is_some();
        if schema["type"] == "object" && !is_map && !at.is_empty() {
            assert_eq!(schema[KEEPS], true, "{at}");
        }
        for (name, below) in schema["properties"].as_object().into_iter().flatten() {
            check(below, &format!("{at}.{name}"));
        }
        schema.get("items").into_iter().for_each(|below| check(below, &format!("{at}[]")));
    }
    ours().values().for_each(|schema| check(schema, ""));
}

#[track_caller]
fn round_trip<T: Serialize + DeserializeOwned>(object: &Value) {
    let typed: T = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(&serde_json::to_value(typed).unwrap(), object);
}

#[track_caller]
fn round_trip_as(kind: Kind, object: &Value) {
    match kind {
        Kind::Kafka => round_trip::<Kafka>(object),
        Kind::KafkaNodePool => round_trip::<KafkaNodePool>(object),
        Kind::KafkaRebalance => round_trip::<KafkaRebalance>(object),
        Kind::KafkaTopic => round_trip::<KafkaTopic>(object),
        Kind::KafkaUser => {
            round_trip::<KafkaUser>(object);
            let user: KafkaUser = serde_json::from_value(object.clone()).unwrap();
            let _ = api::read::user(&user, true);
        }
        Kind::StrimziPodSet => round_trip::<StrimziPodSet>(object),
    }
}

#[test]
fn the_object_with_every_field_has_every_field() {
    fn written(value: &Value, at: String, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                written(value, format!("{at}{{}}"), found);
                written(value, format!("{at}.{name}"), found);
            }),
            Value::Array(items) => {
                items.iter().for_each(|item| written(item, format!("{at}[]"), found));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        found.push(at);
    }
    for kind in Kind::ALL {
        let object = random::object(kind.name(), random::EVERYTHING);
        let mut found = Vec::new();
        for part in ["spec", "status"] {
            written(&object[part], part.into(), &mut found);
        }
        let found: BTreeSet<String> = found.into_iter().collect();
        for row in strimzi::rows().into_iter().filter(|row| row.kind == kind.name()) {
            assert!(found.contains(&row.path), "{} {}", row.kind, row.path);
        }
        round_trip_as(kind, &object);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_in_our_types(seed: u64) {
        for kind in Kind::ALL {
            round_trip_as(kind, &random::object(kind.name(), seed));
        }
    }

    #[test]
    fn a_field_that_nobody_knows_is_kept_and_found(seed: u64) {
        let mut object = random::object("Kafka", seed);
        object["spec"]["kafka"]["listeners"][0]["no.such"] = "field".into();
        round_trip_as(Kind::Kafka, &object);
        let found = api::compat::unhonoured(&object, Kind::Kafka);
        let wanted = "spec.kafka.listeners[0].no.such";
        prop_assert!(found.iter().any(|finding| finding.path == wanted));
    }

    #[test]
    fn an_object_of_strimzi_has_no_unknown_field(seed: u64) {
        for kind in Kind::ALL {
            let found = api::compat::unhonoured(&random::object(kind.name(), seed), kind);
            let mut unknown = found.iter().filter(|finding| finding.verdict == Verdict::Unknown);
            prop_assert_eq!(unknown.next(), None);
        }
    }
}
