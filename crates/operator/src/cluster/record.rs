//! What the operator remembers of a cluster, in a ConfigMap of its own.
//!
//! The status of a resource is a copy for people: another operator's definitions would prune our fields
//! there, and a user may edit it. The record is written before anything is done that depends on it, and only
//! over the version that was read, so that two writers never overwrite each other.

use std::collections::{BTreeMap, BTreeSet};

use api::names::Names;
use control::node::Roles;
use control::quorum::QuorumRecord;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use model::NodeId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::resources::{Node, object, owner_of};
use crate::write::{WriteError, Writer};

/// The entry of the ConfigMap.
const ENTRY: &str = "record.json";

/// All that has to survive the process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Record {
    /// The id of the cluster in Kafka. Made once.
    pub(crate) cluster_id: Option<String>,
    pub(crate) quorum: QuorumRecord,
    /// The nodes of each pool, by id: `broker`, `controller` or `broker,controller`.
    pub(crate) pools: BTreeMap<String, BTreeMap<i32, String>>,
    /// The storage that the nodes of each pool were made with, as it was written.
    pub(crate) storage: BTreeMap<String, String>,
    /// Brokers that came after the cluster was made, and that nobody has moved replicas to yet. Who does
    /// takes them out; who leaves is taken out too.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) added_brokers: BTreeSet<NodeId>,
    /// Whether the cluster has ever been as it was asked for.
    pub(crate) was_ready: bool,
    /// What other parts of a pass remember, each under its own name.
    #[serde(flatten)]
    pub(crate) parts: BTreeMap<String, Value>,
}

impl Record {
    /// The nodes that are recorded, by id. A text that names no roles is one that we did not write.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        let of_pool = |(pool, nodes): (&String, &BTreeMap<i32, String>)| {
            let node = |(id, roles): (&i32, &String)| {
                Some(Node {
                    id: NodeId::new(*id)?,
                    pool: pool.clone(),
                    roles: roles.parse::<Roles>().ok()?,
                })
            };
            nodes.iter().filter_map(node).collect::<Vec<_>>()
        };
        let mut nodes: Vec<_> = self.pools.iter().flat_map(of_pool).collect();
        nodes.sort();
        nodes
    }

    /// What a part of the pass has remembered, or its beginning.
    pub(crate) fn part<T: Default + serde::de::DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<T, serde_json::Error> {
        self.parts.get(name).cloned().map_or_else(|| Ok(T::default()), serde_json::from_value)
    }

    /// Remembers something for a part of the pass.
    pub(crate) fn set_part<T: Serialize>(
        &mut self,
        name: &str,
        part: &T,
    ) -> Result<(), serde_json::Error> {
        self.parts.insert(name.to_owned(), serde_json::to_value(part)?);
        Ok(())
    }

    /// Forgets what a part of the pass has remembered.
    pub(crate) fn remove_part(&mut self, name: &str) {
        self.parts.remove(name);
    }
}

/// Why the record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error(
        "the ConfigMap {name} does not hold a record; it is left alone until someone repairs it"
    )]
    Unreadable {
        name: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("cannot write the record of the cluster")]
    Write(#[source] WriteError),
    #[error("cannot put the record into words")]
    Encode(#[source] serde_json::Error),
}

/// The record as it is stored, to notice changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored {
    found: Option<ConfigMap>,
    record: Record,
}

impl Stored {
    /// The record in a ConfigMap that was read. `None` if there is none.
    pub(crate) fn of(
        found: Option<&ConfigMap>,
        names: &Names,
    ) -> Result<Option<(Record, Self)>, RecordError> {
        let Some(found) = found else { return Ok(None) };
        let text = found.data.as_ref().and_then(|data| data.get(ENTRY));
        let record: Record = serde_json::from_str(text.map_or("", String::as_str))
            .map_err(|source| RecordError::Unreadable { name: names.record(), source })?;
        Ok(Some((record.clone(), Self { found: Some(found.clone()), record })))
    }

    /// Writes the record if it has changed.
    pub(crate) async fn save(
        &mut self,
        writer: &Writer,
        api: &Api<ConfigMap>,
        (names, kafka): (&Names, &api::Kafka),
        record: &Record,
    ) -> Result<(), RecordError> {
        if self.found.is_some() && self.record == *record {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(record).map_err(RecordError::Encode)?;
        let user = kafka.metadata.labels.clone().unwrap_or_default();
        let mut value = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": names.record(),
                "namespace": names.namespace,
                "labels": names.labels(&user),
                "ownerReferences": owner_of(kafka).into_iter().collect::<Vec<_>>(),
            },
            "data": { ENTRY: text },
        });
        let version = self.found.as_ref().and_then(|map| map.metadata.resource_version.clone());
        let written = match version {
            Some(version) => {
                value["metadata"]["resourceVersion"] = json!(version);
                let map: ConfigMap = object(value).map_err(RecordError::Encode)?;
                writer.replace(api, &map).await
            }
            None => {
                let map: ConfigMap = object(value).map_err(RecordError::Encode)?;
                writer.create(api, &map).await
            }
        };
        *self = Self { found: Some(written.map_err(RecordError::Write)?), record: record.clone() };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_as_it_was_written_with_the_parts_of_others() {
        let mut record = Record { cluster_id: Some("abc".to_owned()), ..Record::default() };
        record.pools.entry("broker".to_owned()).or_default().insert(4, "broker".to_owned());
        record.set_part("roll", &vec![1, 2]).unwrap();
        let text = serde_json::to_string(&record).unwrap();
        let back: Record = serde_json::from_str(&text).unwrap();
        assert_eq!(back, record);
        assert_eq!(back.part::<Vec<i32>>("roll").unwrap(), [1, 2]);
        assert_eq!(back.part::<Vec<i32>>("other").unwrap(), Vec::<i32>::new());
        assert_eq!(back.nodes()[0].roles, Roles::Broker);
    }
}
