//! Whether the API server would take a resource, by its definition, for those who ask before they send it.
//!
//! Types, values, limits and required fields are checked, at their paths. Patterns are not, nor is what
//! [`read`](crate::read) and `control::cluster::validate` say of a resource that can be read.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::crds;
use crate::read::Problem;

/// The schemas by kind and version.
static SCHEMAS: LazyLock<BTreeMap<(String, String), Value>> = LazyLock::new(|| {
    let mut schemas = BTreeMap::new();
    for definition in crds::crds() {
        let manifest = crds::manifest(&definition);
        let kind = definition.spec.names.kind.clone();
        for version in manifest["spec"]["versions"].as_array().into_iter().flatten() {
            let name = version["name"].as_str().unwrap_or_default().to_owned();
            schemas.insert((kind.clone(), name), version["schema"]["openAPIV3Schema"].clone());
        }
    }
    schemas
});

/// What is wrong with a resource of ours; a kind or a version that is not ours is.
#[must_use]
pub fn problems(resource: &Value) -> Vec<Problem> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&resource["kind"]);
    let name = format!("{kind} {}", text(&resource["metadata"]["name"]));
    let mut found = Vec::new();
    let version = text(&resource["apiVersion"]);
    let group = match kind.as_str() {
        "StrimziPodSet" => "core.strimzi.io",
        _ => "kafka.strimzi.io",
    };
    let schema = version
        .strip_prefix(group)
        .and_then(|rest| rest.strip_prefix('/'))
        .and_then(|version| SCHEMAS.get(&(kind.clone(), version.to_owned())));
    match schema {
        Some(schema) => check(schema, resource, &mut Vec::new(), &mut found),
        None => found.push((
            "apiVersion".to_owned(),
            format!("is \"{version}\": {kind} is known in {group}/v1 and {group}/v1beta2"),
        )),
    }
    let problem = |(path, message)| Problem { resource: name.trim_end().to_owned(), path, message };
    found.into_iter().map(problem).collect()
}

type Found = Vec<(String, String)>;

fn check(schema: &Value, value: &Value, path: &mut Vec<String>, found: &mut Found) {
    // The API server drops a null that is not expected.
    if value.is_null() {
        return;
    }
    let mut tell = |message: String| found.push((written(path), message));
    if let Some(wanted) = schema["type"].as_str()
        && !is_a(wanted, value)
    {
        return tell(format!("is {}: it has to be {}", shown(value), article(wanted)));
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        let all: Vec<_> = values.iter().map(shown).collect();
        tell(format!("is {}: it has to be one of {}", shown(value), all.join(", ")));
    }
    if let (Some(least), Some(number)) = (schema["minimum"].as_f64(), value.as_f64())
        && number < least
    {
        tell(format!("is {number}: it has to be at least {least}"));
    }
    if let (Some(least), Some(items)) = (schema["minItems"].as_u64(), value.as_array())
        && (items.len() as u64) < least
    {
        tell(format!("has {} entries: it has to have at least {least}", items.len()));
    }
    let forbidden = schema["not"]["anyOf"].as_array().into_iter().flatten();
    for field in forbidden.filter_map(|one| one["required"][0].as_str()) {
        if value.get(field).is_some() {
            path.push(field.to_owned());
            found.push((written(path), "is forbidden".to_owned()));
            path.pop();
        }
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for field in required.filter(|_| value.is_object()) {
        if value.get(field).is_none_or(Value::is_null) {
            path.push(field.to_owned());
            found.push((written(path), "is missing".to_owned()));
            path.pop();
        }
    }
    children(schema, value, path, found);
}

fn children(schema: &Value, value: &Value, path: &mut Vec<String>, found: &mut Found) {
    for (key, one) in value.as_object().into_iter().flatten() {
        let of_key = schema["properties"].get(key);
        let of_all = Some(&schema["additionalProperties"]).filter(|schema| schema.is_object());
        if let Some(schema) = of_key.or(of_all) {
            path.push(key.clone());
            check(schema, one, path, found);
            path.pop();
        }
    }
    for (index, one) in value.as_array().into_iter().flatten().enumerate() {
        if schema["items"].is_object() {
            path.push(format!("[{index}]"));
            check(&schema["items"], one, path, found);
            path.pop();
        }
    }
}

fn is_a(wanted: &str, value: &Value) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => true,
    }
}

fn article(wanted: &str) -> String {
    match wanted {
        "object" => "a map".to_owned(),
        "array" => "a list".to_owned(),
        "string" => "a text".to_owned(),
        "boolean" => "true or false".to_owned(),
        "integer" => "a whole number".to_owned(),
        other => format!("a {other}"),
    }
}

/// A value, if it is short enough to be read.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "a map".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

fn written(path: &[String]) -> String {
    path.join(".").replace(".[", "[")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(resource: Value, expected: &[&str]) {
        let found: Vec<_> = problems(&resource).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn fields_are_named_by_their_paths() {
        check(
            json!({
                "apiVersion": "kafka.strimzi.io/v1",
                "kind": "KafkaNodePool",
                "metadata": { "name": "b" },
                "spec": {
                    "replicas": "three",
                    "roles": ["broker", "boss"],
                    "storage": { "type": "persistent-claim", "deleteClaim": "yes" },
                    "resources": { "limits": { "memory": 1 } },
                },
            }),
            &[
                "KafkaNodePool b: spec.replicas is \"three\": it has to be a whole number",
                "KafkaNodePool b: spec.roles[1] is \"boss\": it has to be one of \"controller\", \
                 \"broker\"",
                "KafkaNodePool b: spec.storage.deleteClaim is \"yes\": it has to be true or false",
            ],
        );
        check(
            json!({
                "apiVersion": "kafka.strimzi.io/v1",
                "kind": "KafkaNodePool",
                "metadata": { "name": "b" },
                "spec": {
                    "replicas": -1, "roles": ["broker"], "mine": 1,
                    "template": { "pod": { "volumes": [{ "name": "v", "hostPath": {} }] } },
                },
            }),
            &[
                "KafkaNodePool b: spec.storage is missing",
                "KafkaNodePool b: spec.replicas is -1: it has to be at least 0",
                "KafkaNodePool b: spec.template.pod.volumes[0].hostPath is forbidden",
            ],
        );
    }

    #[test]
    fn a_kind_that_is_not_ours_is_told() {
        check(
            json!({ "apiVersion": "kafka.strimzi.io/v2", "kind": "Kafka", "metadata": { "name": "a" } }),
            &["Kafka a: apiVersion is \"kafka.strimzi.io/v2\": Kafka is known in \
               kafka.strimzi.io/v1 and kafka.strimzi.io/v1beta2"],
        );
    }
}
