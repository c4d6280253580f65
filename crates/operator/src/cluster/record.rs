//! The record of a cluster in its ConfigMap. What it holds is [`control::cluster::record`].

use api::names::Names;
use control::cluster::record::Record;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use objects::owner_of;

use crate::metrics::Saved;
use crate::store::{self, StoreError, Unknown};
use crate::write::{WriteError, Writer};

/// The result of an attempt to save the record.
const fn outcome(saved: &Result<ConfigMap, StoreError>) -> Saved {
    match saved {
        Ok(_) => Saved::Yes,
        Err(StoreError::Write(WriteError::Conflict { .. } | WriteError::Exists { .. })) => {
            Saved::Conflict
        }
        Err(_) => Saved::No,
    }
}

/// The record as it is stored, to notice changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored {
    found: Option<ConfigMap>,
    record: Record,
    unknown: Unknown,
}

impl Stored {
    /// The record in a ConfigMap that was read. `None` if there is none.
    pub(crate) fn of(found: Option<&ConfigMap>) -> Result<Option<(Record, Self)>, StoreError> {
        let Some(found) = found else { return Ok(None) };
        let (record, unknown): (Record, _) = store::decode(found)?;
        Ok(Some((record.clone(), Self { found: Some(found.clone()), record, unknown })))
    }

    /// Writes the record if it has changed.
    pub(crate) async fn save(
        &mut self,
        writer: &Writer,
        api: &Api<ConfigMap>,
        (names, kafka): (&Names, &api::Kafka),
        record: &Record,
    ) -> Result<(), StoreError> {
        let is_owned = self.found.as_ref().is_some_and(|found| has_owner(found, kafka));
        if is_owned && self.record == *record {
            return Ok(());
        }
        let user = kafka.metadata.labels.clone().unwrap_or_default();
        let metadata = ObjectMeta {
            name: Some(names.record()),
            namespace: Some(names.namespace.clone()),
            labels: Some(names.labels(&user)),
            owner_references: Some(owner_of(kafka).into_iter().collect()),
            ..ObjectMeta::default()
        };
        let mut map = ConfigMap { metadata, ..ConfigMap::default() };
        let saved = match store::encode(&mut map, record, &self.unknown) {
            Ok(()) => store::write(writer, api, map, self.found.as_ref()).await,
            Err(error) => Err(error),
        };
        if !writer.is_looking() {
            writer.metrics().record_saved(names, outcome(&saved));
        }
        self.found = Some(saved?);
        self.record = record.clone();
        Ok(())
    }
}

/// Whether a ConfigMap belongs to this Kafka resource, and not to a former one of the same name. The garbage collector deletes
/// what belongs to a former one only.
fn has_owner(map: &ConfigMap, kafka: &api::Kafka) -> bool {
    let owners = map.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| Some(&owner.uid) == kafka.metadata.uid.as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_of_a_former_resource_is_written_with_its_new_owner() {
        let kafka = |uid: &str| -> api::Kafka {
            serde_json::from_value(json!({
                "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
                "metadata": { "name": "c", "uid": uid },
                "spec": { "kafka": { "listeners": [] } },
            }))
            .unwrap()
        };
        let mut map = ConfigMap::default();
        assert!(!has_owner(&map, &kafka("a")));
        map.metadata.owner_references = Some(owner_of(&kafka("a")).into_iter().collect());
        assert!(has_owner(&map, &kafka("a")));
        assert!(!has_owner(&map, &kafka("b")));
    }
}
