//! The objects of a cluster as data for a file, so that an edit can be planned on it.
//!
//! 1. Of Secrets, and of ConfigMaps other than the record, only the metadata: server properties may hold passwords.
//! 2. What objects were built from is in the file, so they are built again instead of being stored.
//! 3. Nothing is sent: the client of a stage for a file refuses every request.

use std::collections::BTreeMap;
use std::time::Duration;

use api::names::Names;
use api::{Kafka, StrimziPodSet, Verbatim};
use control::annotations::Annotation;
use control::cluster::fact::Fact;
use control::cluster::snapshot::{KafkaView, Snapshot};
use control::life::coexist::Selector;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use objects::Object;
use objects::desired::Refused;
use objects::found::{ByName, Found, FoundPool};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::edit::typed;
use super::{Extent, ForeseeError, Known, Observed, Stage, View, begin};
use crate::client;
use crate::cluster::error::PassError;
use crate::cluster::facts::KafkaFacts;
use crate::cluster::others::Others;
use crate::cluster::pass::Work;
use crate::cluster::{build, observe, steps};
use crate::context::{Context, OPERATION_TIMEOUT, Settings};
use crate::write::Writer;

/// What stands in a file for a value that may be secret.
pub const HIDDEN: &str = "(hidden)";
/// What stands for it in resources that objects are built from: a reference, which is not compared with what Kafka shows.
pub(super) const REFERENCE: &str = "${hidden}";

/// The objects of a cluster, without anything secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Saved {
    /// When they were read, in milliseconds since 1970.
    at_ms: u64,
    /// The `Kafka` and its pools, as they were written.
    kafka: Value,
    pools: Vec<Value>,
    unreadable_pools: Vec<(String, String)>,
    pod_sets: ByName<StrimziPodSet>,
    pods: ByName<Pod>,
    services: ByName<Service>,
    config_maps: ByName<ConfigMap>,
    claims: ByName<PersistentVolumeClaim>,
    accounts: ByName<ServiceAccount>,
    policies: ByName<NetworkPolicy>,
    budgets: ByName<PodDisruptionBudget>,
    /// Only the names, labels and uids.
    secrets: BTreeMap<String, ObjectMeta>,
    others: Others,
    /// How the operator was set up.
    kafka_images: BTreeMap<String, String>,
    cluster_domain: String,
}

impl Saved {
    /// Has there be an image for a version of Kafka, where the operator's images are not known.
    pub fn assume_version(&mut self, version: &str) {
        self.kafka_images.entry(version.to_owned()).or_default();
    }

    fn of(known: &Known, settings: &Settings) -> Self {
        let names = names_of(&known.kafka);
        let found = known.found.clone();
        let maps = found.config_maps.into_iter();
        Self {
            at_ms: found.at_ms,
            kafka: known.written.clone(),
            pools: found.pools.into_iter().map(|one| one.written).collect(),
            unreadable_pools: found.unreadable_pools,
            pod_sets: reduced(found.pod_sets, set_without_specs),
            pods: reduced(found.pods, |pod| pod.spec = None),
            services: found.services,
            config_maps: maps.map(|(name, map)| without_data(name, map, &names)).collect(),
            claims: found.claims,
            accounts: found.accounts,
            policies: found.policies,
            budgets: found.budgets,
            secrets: found
                .secrets
                .into_iter()
                .map(|(name, one)| (name, begin::reduced(one.metadata)))
                .collect(),
            others: known.others.clone(),
            kafka_images: settings.kafka_images.clone(),
            cluster_domain: settings.cluster_domain.clone(),
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            namespaces: Vec::new(),
            kafka_images: self.kafka_images.clone(),
            cluster_domain: self.cluster_domain.clone(),
            interval: Duration::ZERO,
            operation_timeout: OPERATION_TIMEOUT,
            watches_other_namespaces: false,
            selector: Selector::default(),
        }
    }

    /// The objects as they are found in a pass.
    fn found(self) -> Result<Found, ForeseeError> {
        let pool = |written: Value| -> Result<FoundPool, ForeseeError> {
            Ok(FoundPool { pool: typed(&written, "KafkaNodePool in the snapshot")?, written })
        };
        Ok(Found {
            at_ms: self.at_ms,
            pools: self.pools.into_iter().map(pool).collect::<Result<_, _>>()?,
            unreadable_pools: self.unreadable_pools,
            pod_sets: self.pod_sets,
            pods: self.pods,
            services: self.services,
            config_maps: self.config_maps,
            secrets: ByName::new(),
            claims: self.claims,
            accounts: self.accounts,
            policies: self.policies,
            budgets: self.budgets,
            bindings: ByName::new(),
        })
    }
}

/// Whether a file has only the metadata of objects of a kind.
pub(super) fn is_reduced(kind: &str) -> bool {
    matches!(kind, "ConfigMap" | "StrimziPodSet")
}

fn names_of(kafka: &Kafka) -> Names {
    Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any())
}

fn reduced<K>(mut all: ByName<K>, reduce: fn(&mut K)) -> ByName<K> {
    all.values_mut().for_each(reduce);
    all
}

/// Of the pods of a set only their metadata is used: what they should be is built again.
fn set_without_specs(set: &mut StrimziPodSet) {
    without_hash(&mut set.metadata);
    for Verbatim(pod) in &mut set.spec.pods {
        pod.retain(|field, _| field == "metadata");
    }
}

/// A hash of a secret would confirm guesses of it.
fn without_hash(metadata: &mut ObjectMeta) {
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(Annotation::Applied.name());
    }
}

fn without_data(name: String, mut map: ConfigMap, names: &Names) -> (String, ConfigMap) {
    if name != names.record() {
        without_hash(&mut map.metadata);
        (map.data, map.binary_data) = (None, None);
    }
    (name, map)
}

/// What was observed when the file was written, in place of what would be asked now.
#[derive(Debug, Clone)]
pub(super) struct Replay {
    now_ms: u64,
    kafka: KafkaView,
    pub(super) others: Others,
    pub(super) secrets: BTreeMap<String, ObjectMeta>,
}

impl Replay {
    /// When the file was written.
    pub(super) const fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The snapshot of a cluster as an edit would have it, with what Kafka said when it was asked.
    pub(super) fn snapshot(&self, work: &Work) -> Snapshot {
        let mut snapshot = observe::snapshot(work);
        snapshot.now_ms = self.now_ms;
        snapshot.kafka = self.kafka.clone();
        for (id, settings) in &mut snapshot.kafka.settings {
            let node = snapshot.nodes.get(id);
            let desired = node.and_then(|node| observe::desired_settings(work, *id, node));
            if let (Fact::Read { value, .. }, Some(desired)) = (settings, desired) {
                value.desired = desired;
            }
        }
        snapshot
    }
}

impl Stage {
    /// The objects of a cluster that was observed, for a file.
    #[must_use]
    pub fn saved(&self, view: &View) -> Option<Saved> {
        Some(Saved::of(view.known.as_ref()?, &self.ctx.settings))
    }

    /// The cluster in a file, as it was observed, and the stage for edits of it. Needs no Kubernetes and no Kafka.
    pub async fn restored(
        names: &Names,
        saved: Saved,
        observed: Observed,
    ) -> Result<(Self, View), ForeseeError> {
        let writer = Writer::closed(client::closed());
        let ctx = Context::new(writer, saved.settings(), "plan");
        let mut saved = saved;
        saved.pools.iter_mut().for_each(refer);
        refer(&mut saved.kafka);
        let (others, secrets) = (saved.others.clone().of_snapshot(), saved.secrets.clone());
        let written = saved.kafka.clone();
        let kafka: Kafka = typed(&written, "Kafka in the snapshot")?;
        if names_of(&kafka) != *names {
            return Err(ForeseeError::Mixed);
        }
        let mut found = saved.found()?;
        let facts = observed.snapshot.clone().unwrap_or_default();
        let replay = Replay {
            now_ms: facts.now_ms,
            kafka: facts.kafka.clone(),
            others: others.clone(),
            secrets,
        };
        let (mut view, decision) = View::of(observed, Extent::Present);
        let record = match view.refused {
            Some(_) => view.observed.stored.clone(),
            None => decision.record.clone(),
        };
        match steps::desired::begin(&ctx, kafka.clone(), &written, found.clone())? {
            Ok(mut work) if view.refused.is_none() => {
                work.record = view.observed.record.clone();
                work.known.others = others.clone();
                // What could not be built is part of what was observed.
                build::all(&mut work, true).await;
                adopt(&mut found, &work, &facts)?;
                view.finish(*work, &found, decision);
            }
            Err(Refused { note, .. }) if view.refused.is_none() => {
                return Err(ForeseeError::Refused(note.message));
            }
            Ok(_) | Err(_) => {}
        }
        let facts = KafkaFacts::default();
        let replay = Some(replay);
        view.known = Some(Known { kafka, written, found, record, facts, others, replay });
        Ok((Self { ctx, in_full: false }, view))
    }
}

/// Has ConfigMaps and pod sets that were as they should be hold what they should hold, so that an edit is compared with
/// it: the file has only their metadata.
fn adopt(found: &mut Found, work: &Work, facts: &Snapshot) -> Result<(), PassError> {
    let before = annotations(found);
    let pending: Vec<_> = facts.built.values().flat_map(|built| &built.changes).collect();
    for (object, compared) in &work.objects.changes {
        if pending.contains(&&object.key()) {
            continue;
        }
        match object {
            Object::ConfigMap(_) => complete(&mut found.config_maps, object, &compared.sent)?,
            Object::PodSet(_) => complete(&mut found.pod_sets, object, &compared.sent)?,
            Object::ServiceAccount(_)
            | Object::NetworkPolicy(_)
            | Object::PodDisruptionBudget(_)
            | Object::ClusterRoleBinding(_)
            | Object::Service(_)
            | Object::PersistentVolumeClaim(_) => {}
        }
    }
    adopt_annotations(found, &before);
    Ok(())
}

/// The annotations that pod sets give to their pods, by the name of the pod.
fn annotations(found: &Found) -> BTreeMap<String, BTreeMap<String, String>> {
    let pods = found.pod_sets.values().flat_map(|set| &set.spec.pods);
    let all = pods.filter_map(|Verbatim(pod)| {
        let metadata: ObjectMeta = serde_json::from_value(pod.get("metadata")?.clone()).ok()?;
        Some((metadata.name?, metadata.annotations.unwrap_or_default()))
    });
    all.collect()
}

/// Hashes of what the file hides differ from those that pods have: a pod that was made as its set wanted it then still is.
fn adopt_annotations(found: &mut Found, before: &BTreeMap<String, BTreeMap<String, String>>) {
    let after = annotations(found);
    for (name, pod) in &mut found.pods {
        let (Some(before), Some(after)) = (before.get(name), after.get(name)) else { continue };
        let Some(own) = &mut pod.metadata.annotations else { continue };
        for (key, value) in after {
            if before.get(key).is_some_and(|one| own.get(key) == Some(one)) {
                own.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Puts references in place of the values that a file hides.
fn refer(value: &mut Value) {
    match value {
        Value::String(text) if text == HIDDEN => REFERENCE.clone_into(text),
        Value::Array(all) => all.iter_mut().for_each(refer),
        Value::Object(all) => all.values_mut().for_each(refer),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn complete<K>(all: &mut ByName<K>, object: &Object, sent: &Value) -> Result<(), serde_json::Error>
where
    K: Serialize + DeserializeOwned,
{
    if let Some(existing) = all.get_mut(object.name()) {
        let mut whole = serde_json::to_value(&*existing)?;
        merge(&mut whole, sent);
        *existing = serde_json::from_value(whole)?;
    }
    Ok(())
}

fn merge(whole: &mut Value, sent: &Value) {
    match (whole, sent) {
        (Value::Object(whole), Value::Object(sent)) => {
            for (key, value) in sent {
                merge(whole.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (whole, sent) => *whole = sent.clone(),
    }
}

#[cfg(test)]
#[path = "saved_tests.rs"]
mod tests;
