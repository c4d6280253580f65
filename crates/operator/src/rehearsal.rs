//! Writes that are only noted down, so that a pass can be gone through and nothing changes.
//!
//! What a step would write it finds again afterwards, as if it had been written: what the API server would
//! add, such as the address of a Service that is not there yet, is missing, and is so to the steps as well.

use std::sync::{Arc, Mutex, PoisonError};

use kube::ResourceExt as _;
use serde_json::Value;

use crate::write::Object;

/// Something that would be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// The kind of object.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether there is such an object.
    pub exists: bool,
}

/// What would be written, in order. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    lines: Arc<Mutex<Vec<Written>>>,
}

impl Script {
    /// Notes an object that would be applied, and returns what would be there.
    pub(crate) fn apply<K: Object>(
        &self,
        name: &str,
        desired: &Value,
        before: Option<&K>,
    ) -> Result<K, serde_json::Error> {
        self.note::<K>(name, before.is_some());
        let stored = before.map(serde_json::to_value).transpose()?;
        serde_json::from_value(match stored {
            Some(stored) => laid_over(stored, desired),
            None => desired.clone(),
        })
    }

    /// Notes an object that would be written whole.
    pub(crate) fn write<K: Object>(&self, object: &K) -> K {
        self.note::<K>(&object.name_any(), object.meta().resource_version.is_some());
        object.clone()
    }

    /// All that was noted so far.
    pub(crate) fn take(&self) -> Vec<Written> {
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note<K: Object>(&self, name: &str, exists: bool) {
        let line = Written { kind: K::kind(&()).into_owned(), name: name.to_owned(), exists };
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

/// The stored object with what is desired in it. Fields that nobody desires stay, as those that others, or
/// the API server, have written.
fn laid_over(stored: Value, desired: &Value) -> Value {
    let (Value::Object(mut stored), Value::Object(desired)) = (stored, desired) else {
        return desired.clone();
    };
    for (key, value) in desired {
        let before = stored.remove(key).unwrap_or(Value::Null);
        let after = match (before, value) {
            // The API server has given each port of a Service its number.
            (Value::Array(before), Value::Array(after))
                if key == "ports" && before.len() == after.len() =>
            {
                before.into_iter().zip(after).map(|(one, other)| laid_over(one, other)).collect()
            }
            (before, after) => laid_over(before, after),
        };
        stored.insert(key.clone(), after);
    }
    Value::Object(stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Service;
    use serde_json::json;

    #[test]
    fn what_the_api_server_has_added_stays() {
        let stored: Service = serde_json::from_value(json!({
            "metadata": { "name": "a", "uid": "1", "resourceVersion": "7" },
            "spec": { "clusterIP": "10.0.0.1", "ports": [{ "port": 9092, "nodePort": 30001 }] },
        }))
        .unwrap();
        let desired = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a" },
            "spec": { "type": "NodePort", "ports": [{ "port": 9094 }] },
        });
        let script = Script::default();
        let after: Service = script.apply("a", &desired, Some(&stored)).unwrap();
        let after = serde_json::to_value(after).unwrap();
        assert_eq!(after["metadata"]["uid"], "1");
        let spec = json!({
            "clusterIP": "10.0.0.1", "type": "NodePort",
            "ports": [{ "port": 9094, "nodePort": 30001 }],
        });
        assert_eq!(after["spec"], spec);
        let line = Written { kind: "Service".into(), name: "a".into(), exists: true };
        assert_eq!(script.take(), [line]);
        assert_eq!(script.take(), []);
    }

    #[test]
    fn other_lists_are_the_desired_ones() {
        let stored = json!({ "pods": [{ "a": 1 }], "kept": true });
        let after = laid_over(stored, &json!({ "pods": [{ "b": 2 }] }));
        assert_eq!(after, json!({ "pods": [{ "b": 2 }], "kept": true }));
    }
}
