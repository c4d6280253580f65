//! What a backup has.

use anyhow::{Context as _, ensure};
use api::names::Names;
use control::cluster::record::FormatVersion;
use control::life::restore::{Id, Kind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The content of a backup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Content {
    /// The version of Gregor that wrote it.
    pub(super) gregor: String,
    /// When, in milliseconds since 1970.
    pub(super) taken_ms: u64,
    pub(super) namespace: String,
    pub(super) cluster: String,
    /// The format of the record, if there is one.
    pub(super) record_format: Option<String>,
    /// Portable objects.
    pub(super) objects: Vec<Value>,
}

impl Content {
    pub(super) fn from_slice(bytes: &[u8]) -> anyhow::Result<Self> {
        let content: Self = serde_json::from_slice(bytes).context("the backup is damaged")?;
        for object in &content.objects {
            ensure!(
                id(object).is_some(),
                "the backup has an object of an unknown kind: use a newer gregor"
            );
        }
        Ok(content)
    }

    pub(super) fn names(&self) -> Names {
        Names::new(&self.namespace, &self.cluster)
    }

    pub(super) fn format(&self) -> Option<FormatVersion> {
        self.record_format.as_ref()?.parse().ok()
    }
}

/// The kind and the name of an object. `None` if backups have no such objects.
pub(super) fn id(object: &Value) -> Option<Id> {
    let kind = Kind::named(object["kind"].as_str()?)?;
    Some(Id { kind, name: object["metadata"]["name"].as_str()?.to_owned() })
}

/// Whether an object is of no use without the data of the cluster.
pub(super) fn is_of_data(id: &Id, names: &Names) -> bool {
    match id.kind {
        Kind::Volume | Kind::Claim => true,
        Kind::ConfigMap => [names.record(), names.moves(), names.users()].contains(&id.name),
        Kind::Secret | Kind::Topic | Kind::User | Kind::Rebalance | Kind::Pool | Kind::Kafka => {
            false
        }
    }
}
