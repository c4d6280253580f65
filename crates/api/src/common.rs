//! What several resources are made of.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The fields of an object that its type does not know, kept as they were written.
///
/// Flattened into every object. It makes the schema keep unknown fields too, so that a field reaches
/// the operator, which then reports it, instead of being pruned by the API server.
pub type Rest = BTreeMap<String, Value>;

/// An object that is passed on as it was written and of which we look at nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Verbatim(pub BTreeMap<String, Value>);

impl JsonSchema for Verbatim {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Verbatim".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
    }
}

/// A volume of a pod that is passed on as it was written, unless its source reaches beyond the namespace.
///
/// The schema keeps unknown fields, and so it cannot list what is allowed: a structural schema has no way to
/// forbid all other fields without dropping them in silence. It forbids every source that Kubernetes has and
/// Strimzi's schema does not. `control::cluster::validate` allows only the sources of Strimzi's schema.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AdditionalVolume(pub Verbatim);

/// The sources of volumes that Kubernetes has and Strimzi's schema does not.
#[rustfmt::skip]
pub const FORBIDDEN_VOLUME_SOURCES: &[&str] = &[
    "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "downwardAPI", "ephemeral", "fc",
    "flexVolume", "flocker", "gcePersistentDisk", "gitRepo", "glusterfs", "hostPath", "iscsi", "nfs",
    "photonPersistentDisk", "portworxVolume", "projected", "quobyte", "rbd", "scaleIO", "storageos",
    "vsphereVolume",
];

impl JsonSchema for AdditionalVolume {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AdditionalVolume".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let forbidden = FORBIDDEN_VOLUME_SOURCES.iter();
        let forbidden: Vec<_> =
            forbidden.map(|source| serde_json::json!({ "required": [source] })).collect();
        json_schema!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "not": { "anyOf": forbidden },
        })
    }
}

/// An amount of a resource, such as `2`, `500m` or `4Gi`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// Written as a number.
    Number(i64),
    /// Written as a text.
    Text(String),
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Quantity::Number(number) => number.fmt(f),
            Quantity::Text(text) => text.fmt(f),
        }
    }
}

impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // The pattern is for the textual form; that it is a number or a text the marker says.
        json_schema!({
            "pattern": concat!(
                r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
                r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
            ),
            "x-kubernetes-int-or-string": true,
        })
    }
}

/// What a container asks for and may have at most.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// The most that it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, Quantity>>,
    /// What it is guaranteed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<BTreeMap<String, Quantity>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How the Java virtual machine is started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JvmOptions {
    /// Options that begin with `-XX:`, by name.
    #[serde(rename = "-XX", skip_serializing_if = "Option::is_none")]
    pub xx: Option<BTreeMap<String, String>>,
    /// The largest heap.
    #[serde(rename = "-Xmx", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+[mMgG]?$"))]
    pub heap_max: Option<String>,
    /// The heap at the start.
    #[serde(rename = "-Xms", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+[mMgG]?$"))]
    pub heap_initial: Option<String>,
    /// Whether the garbage collector writes a log; not if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gc_logging_enabled: Option<bool>,
    /// System properties (`-D`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub java_system_properties: Option<Vec<SystemProperty>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A system property of Java.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemProperty {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The name of an object in the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reference {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Labels and annotations that a generated object gets besides its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectTemplate {
    /// Labels by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What can be said of a generated object: its labels and annotations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceTemplate {
    /// Labels and annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectTemplate>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Something that holds of a resource, or does not.
///
/// Everything is optional because others write conditions too, and a status that cannot be read
/// would hide the resource.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What holds: `Ready`, `NotReady`, `Warning`, …
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Whether it holds: `True`, `False` or `Unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Since when, as `yyyy-MM-ddTHH:mm:ssZ`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Why, as one word in CamelCase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people: the object, the rule, and who must act.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}
