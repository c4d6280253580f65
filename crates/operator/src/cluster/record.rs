//! The record of a cluster in its ConfigMap.
//!
//! The record is written before any act that depends on it, and only over the version that was read, so that
//! two writers never overwrite each other. What it holds is [`control::cluster::record`].

use api::names::Names;
use control::cluster::record::{FormatVersion, InvalidFormatVersion, Record};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use objects::{object, owner_of};
use serde_json::{Map, Value, json};

use crate::write::{WriteError, Writer};

/// The entry of the ConfigMap.
const ENTRY: &str = "record.json";
/// The field that says in which form the rest is.
const FORMAT_VERSION: &str = "formatVersion";
/// Fields of former operators that nothing reads any more.
const DROPPED: &[&str] = &["addedBrokers"];

/// Why the record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error(
        "the ConfigMap {name} does not hold a record; nothing is done until someone repairs it"
    )]
    Unreadable {
        name: String,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "the ConfigMap {name} does not hold a record; nothing is done until someone repairs it"
    )]
    Version {
        name: String,
        #[source]
        source: InvalidFormatVersion,
    },
    #[error(
        "the ConfigMap {name} was written by a newer operator (formatVersion {found}, this operator reads up to \
         {major}.x); nothing is done until the operator is upgraded",
        major = FormatVersion::CURRENT.major
    )]
    TooNew { name: String, found: FormatVersion },
    #[error("cannot write the record of the cluster")]
    Write(#[source] WriteError),
    #[error("cannot serialize the record of the cluster")]
    Encode(#[source] serde_json::Error),
}

/// The record as it is stored, to notice changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored {
    found: Option<ConfigMap>,
    record: Record,
    /// Fields of a newer minor version, which are kept as they are.
    unknown: Map<String, Value>,
}

impl Stored {
    /// The record in a ConfigMap that was read. `None` if there is none.
    pub(crate) fn of(
        found: Option<&ConfigMap>,
        names: &Names,
    ) -> Result<Option<(Record, Self)>, RecordError> {
        let Some(found) = found else { return Ok(None) };
        let text = found.data.as_ref().and_then(|data| data.get(ENTRY));
        let (record, unknown) = decode(text.map_or("", String::as_str), &names.record())?;
        Ok(Some((record.clone(), Self { found: Some(found.clone()), record, unknown })))
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
        let text = encode(record, &self.unknown).map_err(RecordError::Encode)?;
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
        self.found = Some(written.map_err(RecordError::Write)?);
        self.record = record.clone();
        Ok(())
    }
}

/// Reads a record, and the fields in it that this operator does not know.
fn decode(text: &str, name: &str) -> Result<(Record, Map<String, Value>), RecordError> {
    let unreadable = |source| RecordError::Unreadable { name: name.to_owned(), source };
    let mut fields: Map<String, Value> = serde_json::from_str(text).map_err(unreadable)?;
    let version = match fields.remove(FORMAT_VERSION) {
        None => FormatVersion::default(),
        Some(Value::String(version)) => version
            .parse()
            .map_err(|source| RecordError::Version { name: name.to_owned(), source })?,
        Some(other) => {
            let error = format!("{FORMAT_VERSION} is not a text: {other}");
            return Err(unreadable(serde::de::Error::custom(error)));
        }
    };
    if !version.is_readable() {
        return Err(RecordError::TooNew { name: name.to_owned(), found: version });
    }
    let mut unknown = Vec::new();
    let whole = Value::Object(fields.clone());
    let record = serde_ignored::deserialize(whole, |path| unknown.push(path.to_string()));
    let record = record.map_err(unreadable)?;
    fields.retain(|field, _| unknown.contains(field) && !DROPPED.contains(&field.as_str()));
    Ok((record, fields))
}

/// The text of a record, with the version of its form first.
fn encode(record: &Record, unknown: &Map<String, Value>) -> Result<String, serde_json::Error> {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Form<'a> {
        format_version: String,
        #[serde(flatten)]
        record: &'a Record,
        #[serde(flatten)]
        unknown: &'a Map<String, Value>,
    }
    let format_version = FormatVersion::CURRENT.to_string();
    serde_json::to_string_pretty(&Form { format_version, record, unknown })
}

#[cfg(test)]
mod tests {
    use control::node::Roles;
    use model::NodeId;

    use super::*;

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        let mut record = Record { cluster_id: Some("abc".to_owned()), ..Record::default() };
        let id = NodeId::new(4).unwrap();
        record.pools.entry("broker".to_owned()).or_default().insert(id, Roles::Broker);
        record.confirmed_settings.insert(id, "settings".to_owned());
        let text = encode(&record, &Map::new()).unwrap();
        assert!(text.starts_with("{\n  \"formatVersion\": \"1.2\",\n"), "{text}");
        assert_eq!(decode(&text, "c").unwrap(), (record, Map::new()));
    }

    #[test]
    fn fields_of_a_newer_minor_version_are_kept_and_dropped_ones_are_not() {
        let text = r#"{ "formatVersion": "1.99", "wasReady": true, "newer": { "a": [1] }, "addedBrokers": [1] }"#;
        let (record, unknown) = decode(text, "c").unwrap();
        assert!(record.was_ready);
        let text = encode(&record, &unknown).unwrap();
        let fields: Map<String, Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(fields["newer"], json!({ "a": [1] }));
        assert!(!fields.contains_key("addedBrokers"));
    }

    #[test]
    fn a_record_that_cannot_be_read_says_why() {
        let rows = [
            ("", "the ConfigMap c does not hold a record"),
            ("[]", "the ConfigMap c does not hold a record"),
            (r#"{ "wasReady": "perhaps" }"#, "the ConfigMap c does not hold a record"),
            (r#"{ "formatVersion": "next" }"#, "the ConfigMap c does not hold a record"),
            (r#"{ "formatVersion": 2 }"#, "the ConfigMap c does not hold a record"),
            (
                r#"{ "formatVersion": "2.0", "x": 1 }"#,
                "was written by a newer operator (formatVersion 2.0",
            ),
        ];
        for (text, expected) in rows {
            let error = decode(text, "c").unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
