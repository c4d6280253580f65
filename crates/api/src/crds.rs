//! The definitions of the custom resources, as they are installed.
//!
//! `v1` is stored. `v1beta2` is served for the manifests that people still have; its schema differs
//! by the few values that only it knows. There is no conversion: whatever one version does not know
//! it keeps, so that an object is the same in both.

pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinitionVersion, JSON, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::{Number, Value};

use crate::{Kafka, KafkaNodePool, KafkaRebalance, KafkaTopic, KafkaUser, StrimziPodSet};

/// The older version, served but not stored.
pub const OLD_VERSION: &str = "v1beta2";

/// Values that only the older version has: kind, path, value.
const OLD_VALUES: &[(&str, &[&str], &str)] = &[
    ("Kafka", &["spec", "kafka", "listeners", "[]", "authentication", "type"], "oauth"),
    ("Kafka", &["spec", "kafka", "authorization", "type"], "opa"),
    ("Kafka", &["spec", "kafka", "authorization", "type"], "keycloak"),
];

/// Fields that only the newer version requires: kind, path, name.
const NEWLY_REQUIRED: &[(&str, &[&str], &str)] =
    &[("KafkaUser", &["spec", "authorization", "acls", "[]"], "operations")];

/// All definitions, in the order in which they are best read.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let kinds = [
        Kafka::crd(),
        KafkaNodePool::crd(),
        KafkaRebalance::crd(),
        KafkaTopic::crd(),
        KafkaUser::crd(),
        StrimziPodSet::crd(),
    ];
    kinds.into_iter().map(definition).collect()
}

/// A definition as it is written in a file, with whole numbers where a number is whole.
pub fn manifest(definition: &CustomResourceDefinition) -> Value {
    let mut value = serde_json::to_value(definition).expect("a definition can be written");
    make_whole(&mut value);
    value
}

fn definition(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    crd.spec.conversion =
        Some(CustomResourceConversion { strategy: "None".into(), ..Default::default() });
    for version in &mut crd.spec.versions {
        if let Some(schema) = schema_mut(version) {
            clean(schema);
        }
    }
    let old: Vec<_> =
        crd.spec.versions.iter().map(|new| older(new, &crd.spec.names.kind)).collect();
    crd.spec.versions.extend(old);
    crd
}

fn schema_mut(version: &mut CustomResourceDefinitionVersion) -> Option<&mut JSONSchemaProps> {
    version.schema.as_mut()?.open_api_v3_schema.as_mut()
}

/// Removes what the derivation adds and Strimzi's schemas do not have.
///
/// - `nullable`: the API server drops a null that is not expected, which is what a user who left a
///   value empty wants; expected nulls would be stored.
/// - `format`: there the numbers are plain integers, and a narrower range would reject some.
fn clean(schema: &mut JSONSchemaProps) {
    schema.title = None;
    schema.nullable = None;
    schema.format = None;
    if let Some(values) = &mut schema.enum_ {
        values.retain(|value| !value.0.is_null());
    }
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        clean(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &mut schema.items {
        clean(item);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &mut schema.additional_properties {
        clean(value);
    }
}

fn older(new: &CustomResourceDefinitionVersion, kind: &str) -> CustomResourceDefinitionVersion {
    let mut old = new.clone();
    old.name = OLD_VERSION.into();
    old.storage = false;
    if let Some(schema) = schema_mut(&mut old) {
        // There, an object without a spec is accepted.
        schema.required = None;
        for (_, path, name) in NEWLY_REQUIRED.iter().filter(|(of, _, _)| *of == kind) {
            if let Some(required) = at_mut(schema, path).and_then(|at| at.required.as_mut()) {
                required.retain(|field| field != name);
            }
        }
        for (_, path, value) in OLD_VALUES.iter().filter(|(of, _, _)| *of == kind) {
            if let Some(values) = at_mut(schema, path).and_then(|found| found.enum_.as_mut()) {
                values.push(JSON((*value).into()));
            }
        }
    }
    old
}

fn at_mut<'a>(schema: &'a mut JSONSchemaProps, path: &[&str]) -> Option<&'a mut JSONSchemaProps> {
    let [first, rest @ ..] = path else { return Some(schema) };
    let next = match *first {
        "[]" => match &mut schema.items {
            Some(JSONSchemaPropsOrArray::Schema(item)) => item.as_mut(),
            Some(JSONSchemaPropsOrArray::Schemas(_)) | None => return None,
        },
        name => schema.properties.as_mut()?.get_mut(name)?,
    };
    at_mut(next, rest)
}

/// Whether a definition goes by a name: its own, its kind, its plural, singular or short names.
pub fn is_called(definition: &CustomResourceDefinition, name: &str) -> bool {
    let names = &definition.spec.names;
    definition.metadata.name.as_deref() == Some(name)
        || [names.kind.as_str(), names.plural.as_str()].contains(&name)
        || names.singular.as_deref() == Some(name)
        || names.short_names.iter().flatten().any(|short| short == name)
}

/// `9092.0` is how the type keeps the limit of a port; people write `9092`.
fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e15);
            if let (true, Some(float)) = (number.is_f64(), whole) {
                *number = Number::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(fields) => fields.values_mut().for_each(make_whole),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(kind: &str) -> Value {
        let all = crds();
        manifest(all.iter().find(|crd| crd.spec.names.kind == kind).unwrap())
    }

    #[test]
    fn v1_is_stored_and_both_versions_are_served_without_conversion() {
        for crd in crds() {
            let versions: Vec<_> = crd
                .spec
                .versions
                .iter()
                .map(|version| (version.name.as_str(), version.served, version.storage))
                .collect();
            assert_eq!(versions, [("v1", true, true), ("v1beta2", true, false)]);
            assert_eq!(crd.spec.conversion.unwrap().strategy, "None");
        }
    }

    #[test]
    fn names_are_those_that_people_type() {
        let names: Vec<_> = crds()
            .into_iter()
            .map(|crd| {
                let names = crd.spec.names;
                (crd.metadata.name.unwrap(), names.short_names.unwrap(), names.categories.unwrap())
            })
            .map(|(name, short, categories)| format!("{name} {short:?} {categories:?}"))
            .collect();
        assert_eq!(
            names,
            [
                r#"kafkas.kafka.strimzi.io ["k"] ["strimzi"]"#,
                r#"kafkanodepools.kafka.strimzi.io ["knp"] ["strimzi"]"#,
                r#"kafkarebalances.kafka.strimzi.io ["kr"] ["strimzi"]"#,
                r#"kafkatopics.kafka.strimzi.io ["kt"] ["strimzi"]"#,
                r#"kafkausers.kafka.strimzi.io ["ku"] ["strimzi"]"#,
                r#"strimzipodsets.core.strimzi.io ["sps"] ["strimzi"]"#,
            ]
        );
    }

    #[test]
    fn a_pool_can_be_scaled_and_every_resource_has_a_status() {
        let pool = crd("KafkaNodePool");
        assert_eq!(
            pool["spec"]["versions"][0]["subresources"]["scale"],
            serde_json::json!({
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.labelSelector",
            })
        );
        for crd in crds() {
            let crd = manifest(&crd);
            assert!(crd["spec"]["versions"][0]["subresources"]["status"].is_object());
        }
    }

    #[test]
    fn only_the_older_version_knows_oauth() {
        let kafka = crd("Kafka");
        let mechanisms = |version: usize| {
            let path = "/schema/openAPIV3Schema/properties/spec/properties/kafka/properties\
                        /listeners/items/properties/authentication/properties/type/enum";
            kafka["spec"]["versions"][version].pointer(path).unwrap().to_string()
        };
        assert_eq!(mechanisms(0), r#"["tls","scram-sha-512","custom"]"#);
        assert_eq!(mechanisms(1), r#"["tls","scram-sha-512","custom","oauth"]"#);
    }

    #[test]
    fn only_the_newer_version_requires_a_list_of_operations() {
        let user = crd("KafkaUser");
        let required = |version: usize| {
            let path = "/schema/openAPIV3Schema/properties/spec/properties/authorization/properties\
                        /acls/items/required";
            user["spec"]["versions"][version].pointer(path).unwrap().to_string()
        };
        assert_eq!(required(0), r#"["operations","resource"]"#);
        assert_eq!(required(1), r#"["resource"]"#);
    }

    #[test]
    fn whole_numbers_are_written_whole() {
        let text = crd("Kafka").to_string();
        assert!(text.contains(r#""minimum":9092"#));
        assert!(!text.contains("9092.0"));
    }
}
