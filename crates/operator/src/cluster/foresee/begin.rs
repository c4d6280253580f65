//! What a plan begins with: the objects with an edit of the resources, and what was observed of Kafka.
//!
//! Nothing in it is secret beyond what users wrote into their resources: Secrets have only their metadata.

use std::collections::BTreeMap;

use api::Kafka;
use api::names::Names;
use control::cluster::record::Record;
use control::cluster::snapshot::Snapshot;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use objects::found::{ByName, Found};
use objects::pods::Marks;
use serde_json::Value;

use super::edit::typed;
use super::{Extent, ForeseeError, Known, Stage, Start, View};
use crate::cluster::build;
use crate::time::now_ms;

/// What a plan begins with.
#[derive(Debug, Clone, Default)]
pub struct Beginning {
    /// The `Kafka` as it would be.
    pub kafka: Value,
    /// The objects that exist, with the pools as they would be.
    pub found: Found,
    /// The stored record.
    pub record: Option<Record>,
    /// What was observed.
    pub snapshot: Snapshot,
    /// The annotations that pods get because of certificates, as far as they are known.
    pub marks: Marks,
    /// The images of Kafka nodes, by version.
    pub images: BTreeMap<String, String>,
    /// The DNS domain.
    pub domain: String,
    /// Whether volumes of StorageClasses can grow.
    pub classes: BTreeMap<String, bool>,
    /// The ConfigMaps that the spec refers to, with the entries that it refers to.
    pub config_maps: BTreeMap<String, ConfigMap>,
}

impl Stage {
    /// What a plan for an edited cluster begins with. `present` is the cluster as it is, if there is one; `None` if
    /// `edited` is no view of a cluster.
    ///
    /// # Errors
    /// Kubernetes could not be read.
    pub async fn beginning(
        &self,
        present: Option<&View>,
        edited: &View,
    ) -> Result<Option<Beginning>, ForeseeError> {
        let Some(known) = &edited.known else { return Ok(None) };
        let snapshot = self.observed(present, known).await?;
        let names =
            Names::new(&known.kafka.namespace().unwrap_or_default(), &known.kafka.name_any());
        let mut found = known.found.clone();
        found.bindings = known.others.bindings();
        found.secrets = match present.and_then(|view| view.known.as_ref()?.replay.as_ref()) {
            Some(replay) => secrets(replay.secrets.clone()),
            None => without_data(found.secrets),
        };
        let has_record = found.config_maps.contains_key(&names.record());
        let record = present.filter(|_| has_record).map(|view| view.observed.stored.clone());
        let settings = &self.ctx.settings;
        Ok(Some(Beginning {
            kafka: known.written.clone(),
            marks: build::marks_of(&found.pod_sets),
            found,
            record,
            snapshot,
            images: settings.kafka_images.clone(),
            domain: settings.cluster_domain.clone(),
            classes: known.others.can_grow(),
            config_maps: known.others.config_maps(),
        }))
    }

    /// What was observed of Kafka. A spec that is refused now was not observed, so the edited one is.
    async fn observed(
        &self,
        present: Option<&View>,
        edited: &Known,
    ) -> Result<Snapshot, ForeseeError> {
        let operation_timeout_ms =
            u64::try_from(self.ctx.settings.operation_timeout.as_millis()).ok();
        let nothing = || {
            let mut snapshot = Snapshot { now_ms: now_ms(), ..Snapshot::default() };
            snapshot.desired.operation_timeout_ms = operation_timeout_ms;
            snapshot
        };
        let Some(present) = present else { return Ok(nothing()) };
        let known = present.known.as_ref();
        if let Some(snapshot) = &present.observed.snapshot {
            return Ok(snapshot.clone());
        }
        if let Some(replay) = known.and_then(|known| known.replay.as_ref()) {
            return Ok(Snapshot { now_ms: replay.now_ms(), ..nothing() });
        }
        let start =
            Start { secrets_readable: present.secrets_readable, ..Start::of(edited.found.clone()) };
        let kafka: Kafka = typed(&edited.written, "Kafka")?;
        let view = self.go((kafka, &edited.written), start, Extent::Present).await?;
        Ok(view.observed.snapshot.unwrap_or_else(nothing))
    }
}

/// Secrets of which only the metadata is known.
fn secrets(all: BTreeMap<String, ObjectMeta>) -> ByName<Secret> {
    let secret = |(name, metadata)| (name, Secret { metadata, ..Secret::default() });
    all.into_iter().map(secret).collect()
}

fn without_data(all: ByName<Secret>) -> ByName<Secret> {
    secrets(all.into_iter().map(|(name, one)| (name, reduced(one.metadata))).collect())
}

/// What tells an object from others, and whose it is.
pub(super) fn reduced(metadata: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        labels: metadata.labels,
        owner_references: metadata.owner_references,
        deletion_timestamp: metadata.deletion_timestamp,
        ..ObjectMeta::default()
    }
}
