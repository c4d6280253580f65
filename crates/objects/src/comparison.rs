//! Compares desired objects with existing ones, to predict the effect of applying them. The only place that
//! does so.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::same::{self, APPLIED};

/// How a desired object differs from the existing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No object has this name.
    Missing,
    /// Applying the desired object would change the existing one.
    Differs,
    /// Applying the desired object would change nothing.
    Same,
}

/// A desired object in the form in which it is sent, with the result of the comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// How they differ.
    pub state: State,
    /// The desired object without nulls and status, with its hash.
    pub sent: Value,
}

impl Compared {
    /// Compares a desired object with the existing one.
    ///
    /// # Errors
    /// If one of them cannot be serialized.
    pub fn new<K: Serialize>(desired: &K, existing: Option<&K>) -> Result<Self, serde_json::Error> {
        let sent = with_hash(serde_json::to_value(desired)?);
        let state = match existing.map(serde_json::to_value).transpose()? {
            None => State::Missing,
            Some(stored) if has_hash_of(&stored, &sent) && same::contains(&stored, &sent) => {
                State::Same
            }
            Some(_) => State::Differs,
        };
        Ok(Self { state, sent })
    }
}

/// The object as it is sent: without nulls and status, with its hash.
fn with_hash(mut desired: Value) -> Value {
    remove_nulls(&mut desired);
    let Value::Object(fields) = &mut desired else { return desired };
    fields.remove("status");
    let hash = same::hash(&Value::Object(fields.clone()));
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(metadata) = metadata {
        let annotations =
            metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(annotations) = annotations {
            annotations.insert(APPLIED.to_owned(), hash.into());
        }
    }
    desired
}

fn has_hash_of(stored: &Value, desired: &Value) -> bool {
    let hash = |object: &Value| {
        let annotations = object.get("metadata")?.get("annotations")?;
        annotations.get(APPLIED)?.as_str().map(str::to_owned)
    };
    hash(desired).is_some_and(|wanted| hash(stored) == Some(wanted))
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found::Found;
    use crate::{Object, compare, object};
    use serde_json::json;

    #[test]
    fn the_hash_is_of_the_object_without_the_hash() {
        let object = json!({
            "metadata": { "name": "a", "creationTimestamp": null },
            "spec": { "x": 1 },
            "status": { "y": 2 },
        });
        let sent = with_hash(object);
        assert_eq!(sent["metadata"].as_object().map(Map::len), Some(2));
        assert_eq!(sent.get("status"), None);
        let other = with_hash(json!({ "metadata": { "name": "a" }, "spec": { "x": 1 } }));
        assert!(has_hash_of(&sent, &other));
        let other = with_hash(json!({ "metadata": { "name": "a" }, "spec": {} }));
        assert!(!has_hash_of(&sent, &other));
        assert!(!has_hash_of(&json!({ "metadata": { "name": "a" } }), &other));
    }

    #[test]
    #[rustfmt::skip]
    fn an_object_is_the_same_if_it_was_sent_before_and_all_of_it_is_still_there() {
        let desired = Object::ConfigMap(object(map("a", json!({ "x": "1" }))).unwrap());
        // As sent, as the API server stored it.
        let stored = compare(&desired, &Found::default()).unwrap().sent;
        // Name of the row, the change of the existing object, the result.
        let rows: [(&str, fn(&mut Value), State); 5] = [
            ("as it was sent",         |_| {}, State::Same),
            ("with more of others",    |v| v["metadata"]["labels"] = json!({ "theirs": "x" }), State::Same),
            ("changed by others",      |v| v["data"]["x"] = json!("2"), State::Differs),
            ("sent with another hash", |v| v["metadata"]["annotations"][APPLIED] = json!("0"), State::Differs),
            ("by another name",        |v| v["metadata"]["name"] = json!("b"), State::Missing),
        ];
        for (what, change, expected) in rows {
            let mut existing = stored.clone();
            change(&mut existing);
            let name = existing["metadata"]["name"].as_str().unwrap().to_owned();
            let mut found = Found::default();
            found.config_maps.insert(name, object(existing).unwrap());
            assert_eq!(compare(&desired, &found).unwrap().state, expected, "{what}");
        }
    }

    fn map(name: &str, data: Value) -> Value {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data })
    }
}
