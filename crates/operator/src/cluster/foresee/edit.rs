//! A cluster as an edit would have it.

use api::KafkaNodePool;
use api::names::Names;
use kube::ResourceExt as _;
use objects::found::{Found, FoundPool};
use serde_json::{Value, json};

use super::saved::REFERENCE;
use super::{Edit, ForeseeError};

impl Edit {
    /// The `Kafka` as it would be: what was written replaces the spec, and is added to labels and
    /// annotations.
    pub(super) fn kafka_of(&self, names: &Names, stored: Option<&Value>) -> Value {
        let written = self.kafka.as_ref();
        merged(stored, written, (&names.cluster, &names.namespace))
    }

    /// The same edit on a file that hides values: where it has a value of its own for one, that is taken as unchanged.
    /// Returns the fields too.
    pub(super) fn with_hidden(&self, kafka: &Value, pools: &[FoundPool]) -> (Self, Vec<String>) {
        let (mut edit, mut hidden) = (self.clone(), Vec::new());
        if let Some(written) = &mut edit.kafka {
            hide_alike(&kafka["spec"], &mut written["spec"], "Kafka: spec", &mut hidden);
        }
        for (name, written) in &mut edit.pools {
            let stored = pools.iter().find(|one| one.pool.name_any() == *name);
            let path = format!("KafkaNodePool {name}: spec");
            if let Some(stored) = stored {
                hide_alike(&stored.written["spec"], &mut written["spec"], &path, &mut hidden);
            }
        }
        (edit, hidden)
    }

    /// Replaces, adds and deletes pools.
    pub(super) fn change_pools(
        &self,
        names: &Names,
        found: &mut Found,
    ) -> Result<(), ForeseeError> {
        for (name, written) in &self.pools {
            let at = found.pools.iter().position(|one| one.pool.name_any() == *name);
            let stored = at.map(|at| found.pools.remove(at).written);
            found.unreadable_pools.retain(|(other, _)| other != name);
            let written = merged(stored.as_ref(), Some(written), (name, &names.namespace));
            let pool: KafkaNodePool = typed(&written, &format!("KafkaNodePool {name}"))?;
            found.pools.push(FoundPool { pool, written });
        }
        // As the API server would list them.
        found.pools.sort_by_key(|one| one.pool.name_any());
        for one in &mut found.pools {
            if self.deleted_pools.contains(&one.pool.name_any()) {
                one.written["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
                let resource = format!("KafkaNodePool {}", one.pool.name_any());
                one.pool = typed(&one.written, &resource)?;
            }
        }
        Ok(())
    }
}

/// A resource as its type.
pub(super) fn typed<K: serde::de::DeserializeOwned>(
    written: &Value,
    resource: &str,
) -> Result<K, ForeseeError> {
    let unreadable = |source| ForeseeError::Unreadable { resource: resource.to_owned(), source };
    if !written.is_object() {
        // A type would also be read from the list of its fields.
        return Err(unreadable(serde::de::Error::custom("it is not an object")));
    }
    serde_json::from_value(written.clone()).map_err(unreadable)
}

/// Hides the values of an edit that are hidden in what it replaces.
fn hide_alike(stored: &Value, written: &mut Value, path: &str, hidden: &mut Vec<String>) {
    match (stored, written) {
        (Value::String(text), written) if text == REFERENCE && !written.is_null() => {
            *written = json!(REFERENCE);
            hidden.push(path.to_owned());
        }
        (Value::Object(stored), Value::Object(written)) => {
            for (key, stored) in stored {
                if let Some(written) = written.get_mut(key) {
                    hide_alike(stored, written, &format!("{path}.{key}"), hidden);
                }
            }
        }
        (Value::Array(stored), Value::Array(written)) => {
            for (index, stored) in stored.iter().enumerate() {
                let name = stored["name"].as_str();
                // What has a name may have moved.
                let same = match name {
                    Some(_) => written.iter_mut().find(|one| one["name"] == stored["name"]),
                    None => written.get_mut(index),
                };
                if let Some(written) = same {
                    let name = name.map_or(index.to_string(), str::to_owned);
                    hide_alike(stored, written, &format!("{path}.{name}"), hidden);
                }
            }
        }
        (_, _) => {}
    }
}

fn merged(
    stored: Option<&Value>,
    written: Option<&Value>,
    (name, namespace): (&str, &str),
) -> Value {
    let mut all = stored.or(written).cloned().unwrap_or_else(|| json!({}));
    if let (Some(_), Some(written)) = (stored, written) {
        all["spec"] = written.get("spec").cloned().unwrap_or(Value::Null);
        for field in ["labels", "annotations"] {
            let new = written.get("metadata").and_then(|metadata| metadata.get(field));
            for (key, value) in new.and_then(Value::as_object).into_iter().flatten() {
                all["metadata"][field][key] = value.clone();
            }
        }
    }
    all["metadata"]["name"] = json!(name);
    all["metadata"]["namespace"] = json!(namespace);
    all
}
