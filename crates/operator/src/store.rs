//! Versioned JSON in ConfigMaps: the record of a cluster, and what is recorded of rebalances.
//!
//! 1. A value is only written over the version that was read, so that two writers never overwrite each other.
//! 2. Within one major version fields are added and never change their meaning. A value of a newer major version is not
//!    read, and fields of a newer minor version are kept as they are.
//! 3. A value that is too large to be read by people is packed: an object may have a MiB.

use std::borrow::Cow;
use std::io::{Read as _, Write as _};

use control::cluster::record::{FormatVersion, InvalidFormatVersion};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};
use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Map, Value};

use crate::write::{WriteError, Writer};

/// The entry of a value.
const ENTRY: &str = "record.json";
/// The entry of a value that is packed.
pub(crate) const PACKED: &str = "record.json.gz";
/// The field with the version of the form.
const FORMAT_VERSION: &str = "formatVersion";
/// Fields of former operators that nothing reads any more.
const DROPPED: &[&str] = &["addedBrokers"];

/// A value larger than this is packed.
const PLAIN_BYTES_MAX: usize = 256 * 1024;
/// No value unpacks to more: a million moves are a tenth of it.
const UNPACKED_BYTES_MAX: u64 = 2 << 30;

/// Why a value could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("cannot read the ConfigMap {name}")]
    Read {
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("the ConfigMap {name} exists and was not created by Gregor")]
    Taken { name: String },
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
    #[error("cannot unpack the ConfigMap {name}")]
    Unpack {
        name: String,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot pack the record")]
    Pack(#[source] std::io::Error),
    #[error("cannot serialize the record")]
    Encode(#[source] serde_json::Error),
    #[error("the resource that the record belongs to has no uid")]
    NoOwner,
    #[error("cannot write the record")]
    Write(#[from] WriteError),
}

/// Fields that this operator does not know.
pub(crate) type Unknown = Map<String, Value>;

/// The value in a ConfigMap, and the fields in it that this operator does not know.
pub(crate) fn decode<T: DeserializeOwned>(map: &ConfigMap) -> Result<(T, Unknown), StoreError> {
    let name = map.name_any();
    let bytes = bytes(map).map_err(|source| StoreError::Unpack { name: name.clone(), source })?;
    parse(&bytes, &name)
}

/// The version of the form of the value in a ConfigMap, whether or not this operator reads that form. `None` if the
/// ConfigMap holds no value.
#[must_use]
pub fn format_version(map: &ConfigMap) -> Option<FormatVersion> {
    let fields: Unknown = serde_json::from_slice(&bytes(map).ok()?).ok()?;
    match fields.get(FORMAT_VERSION) {
        None => Some(FormatVersion::default()),
        Some(version) => version.as_str()?.parse().ok(),
    }
}

/// The value in a ConfigMap, unpacked; empty if there is none.
fn bytes(map: &ConfigMap) -> Result<Cow<'_, [u8]>, std::io::Error> {
    let plain = map.data.as_ref().and_then(|data| data.get(ENTRY));
    let packed = map.binary_data.as_ref().and_then(|data| data.get(PACKED));
    Ok(match (plain, packed) {
        (Some(plain), _) => Cow::Borrowed(plain.as_bytes()),
        (None, Some(packed)) => Cow::Owned(unpack(&packed.0)?),
        (None, None) => Cow::Borrowed(b"".as_slice()),
    })
}

fn parse<T: DeserializeOwned>(bytes: &[u8], name: &str) -> Result<(T, Unknown), StoreError> {
    let unreadable = |source| StoreError::Unreadable { name: name.to_owned(), source };
    let mut fields: Unknown = serde_json::from_slice(bytes).map_err(unreadable)?;
    let version = match fields.remove(FORMAT_VERSION) {
        None => FormatVersion::default(),
        Some(Value::String(version)) => version
            .parse()
            .map_err(|source| StoreError::Version { name: name.to_owned(), source })?,
        Some(other) => {
            let error = format!("{FORMAT_VERSION} is not a text: {other}");
            return Err(unreadable(serde_json::Error::custom(error)));
        }
    };
    if !version.is_readable() {
        return Err(StoreError::TooNew { name: name.to_owned(), found: version });
    }
    let mut unknown = Vec::new();
    let whole = Value::Object(fields.clone());
    let value = serde_ignored::deserialize(whole, |path| unknown.push(path.to_string()));
    let value = value.map_err(unreadable)?;
    fields.retain(|field, _| unknown.contains(field) && !DROPPED.contains(&field.as_str()));
    Ok((value, fields))
}

/// Puts a value into a ConfigMap, with the version of its form first.
pub(crate) fn encode<T: Serialize>(
    map: &mut ConfigMap,
    value: &T,
    unknown: &Unknown,
) -> Result<(), StoreError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Form<'a, T> {
        format_version: String,
        #[serde(flatten)]
        value: &'a T,
        #[serde(flatten)]
        unknown: &'a Unknown,
    }
    let format_version = FormatVersion::CURRENT.to_string();
    let form = Form { format_version, value, unknown };
    let text = serde_json::to_string_pretty(&form).map_err(StoreError::Encode)?;
    if text.len() <= PLAIN_BYTES_MAX {
        map.data = Some([(ENTRY.to_owned(), text)].into());
    } else {
        let packed = pack(text.as_bytes())?;
        map.binary_data = Some([(PACKED.to_owned(), ByteString(packed))].into());
    }
    Ok(())
}

/// Creates the ConfigMap, or replaces the version of it that was read.
pub(crate) async fn write(
    writer: &Writer,
    api: &Api<ConfigMap>,
    mut map: ConfigMap,
    found: Option<&ConfigMap>,
) -> Result<ConfigMap, StoreError> {
    map.metadata.resource_version = found.and_then(kube::ResourceExt::resource_version);
    Ok(match map.metadata.resource_version {
        Some(_) => writer.replace(api, &map).await?,
        None => writer.create(api, &map).await?,
    })
}

/// Compresses bytes.
pub(crate) fn pack(bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).map_err(StoreError::Pack)?;
    encoder.finish().map_err(StoreError::Pack)
}

/// Decompresses bytes, up to a limit.
pub(crate) fn unpack(packed: &[u8]) -> Result<Vec<u8>, std::io::Error> {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).take(UNPACKED_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use control::cluster::record::Record;
    use control::node::Roles;
    use model::NodeId;
    use serde_json::json;

    use super::*;

    fn text(map: &ConfigMap) -> &str {
        &map.data.as_ref().unwrap()[ENTRY]
    }

    fn read(text: &str) -> Result<(Record, Unknown), StoreError> {
        parse(text.as_bytes(), "c")
    }

    #[test]
    fn a_value_is_read_back_as_it_was_written_whether_it_is_small_or_large() {
        for nodes in [1, 20_000] {
            let mut record = Record { cluster_id: Some("abc".to_owned()), ..Record::default() };
            for id in (0..nodes).filter_map(NodeId::new) {
                record.pools.entry("broker".to_owned()).or_default().insert(id, Roles::Broker);
                record.confirmed_settings.insert(id, "settings".to_owned());
            }
            let mut map = ConfigMap::default();
            encode(&mut map, &record, &Unknown::new()).unwrap();
            assert_eq!(map.binary_data.is_some(), nodes > 1);
            if nodes == 1 {
                let text = text(&map);
                assert!(text.starts_with("{\n  \"formatVersion\": \"1.4\",\n"), "{text}");
            }
            assert_eq!(decode::<Record>(&map).unwrap(), (record, Unknown::new()));
        }
        assert!(decode::<Record>(&ConfigMap::default()).is_err());
    }

    #[test]
    fn fields_of_a_newer_minor_version_are_kept_and_dropped_ones_are_not() {
        let newer = r#"{ "formatVersion": "1.99", "wasReady": true, "newer": { "a": [1] }, "addedBrokers": [1] }"#;
        let (record, unknown) = read(newer).unwrap();
        assert!(record.was_ready);
        let mut map = ConfigMap::default();
        encode(&mut map, &record, &unknown).unwrap();
        let fields: Unknown = serde_json::from_str(text(&map)).unwrap();
        assert_eq!(fields["newer"], json!({ "a": [1] }));
        assert!(!fields.contains_key("addedBrokers"));
    }

    #[test]
    fn the_version_of_any_form_is_known() {
        let map = |text: &str| ConfigMap {
            data: Some([(ENTRY.to_owned(), text.to_owned())].into()),
            ..ConfigMap::default()
        };
        let rows = [
            (r#"{ "wasReady": true }"#, Some("1.0")),
            (r#"{ "formatVersion": "1.3" }"#, Some("1.3")),
            (r#"{ "formatVersion": "2.0", "x": 1 }"#, Some("2.0")),
            (r#"{ "formatVersion": 2 }"#, None),
            ("", None),
        ];
        for (text, expected) in rows {
            let found = format_version(&map(text)).map(|version| version.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        let mut packed = ConfigMap::default();
        let text = pack(br#"{ "formatVersion": "3.1" }"#).unwrap();
        packed.binary_data = Some([(PACKED.to_owned(), ByteString(text))].into());
        assert_eq!(format_version(&packed).unwrap().to_string(), "3.1");
    }

    #[test]
    fn a_value_that_cannot_be_read_says_why() {
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
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
