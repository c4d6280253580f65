//! The effects of the simulated API server: objects with uids and versions, and writes that are tied to a version.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use control::cluster::record::Record;
use control::cluster::snapshot::ObjectKind;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use objects::found::{ByName, Found, FoundPool};
use objects::{Compared, Kind, Object};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Why a write was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Another writer has changed the object.
    Conflict,
    /// The server did not answer, or refused.
    Failed,
}

/// The objects of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct Kubernetes {
    /// The `Kafka` resource, as its user wrote it; `None` once it is deleted.
    pub(crate) kafka: Rc<Value>,
    /// Everything else.
    pub(crate) found: Rc<Found>,
    /// The number of writes.
    pub(crate) version: u64,
    /// The number of writes to anything but pods and the record.
    pub(crate) objects_version: u64,
    /// The number of writes of operators.
    pub(crate) writes: u64,
    /// The name of the ConfigMap with the record.
    pub(crate) record_name: String,
    uids: u64,
    now_ms: u64,
    /// The record that was read last, with its version: it is read far more often than it changes.
    read: RefCell<Option<(String, Record)>>,
}

/// What uids begin with here.
const UID: &str = "uid-";

impl Kubernetes {
    /// A server with these resources, as users write them.
    #[must_use]
    pub(crate) fn new(kafka: Value, record_name: &str, now_ms: u64) -> Self {
        Self {
            kafka: Rc::new(kafka),
            found: Rc::new(Found::default()),
            version: 1,
            objects_version: 0,
            writes: 0,
            record_name: record_name.to_owned(),
            uids: 0,
            now_ms,
            read: RefCell::default(),
        }
    }

    /// The same with the objects of a real server. Versions begin at `version`, where it has none.
    #[must_use]
    pub(crate) fn adopted(
        kafka: Value,
        found: Found,
        (record_name, version): (&str, u64),
        now_ms: u64,
    ) -> Self {
        let meta = found.pods.values().map(|one| &one.metadata);
        let meta = meta.chain(found.claims.values().map(|one| &one.metadata));
        let meta = meta.chain(found.config_maps.values().map(|one| &one.metadata));
        let meta = meta.chain(found.pod_sets.values().map(|one| &one.metadata));
        let meta: Vec<&ObjectMeta> = meta.collect();
        let versions =
            meta.iter().filter_map(|one| one.resource_version.as_ref()?.parse::<u64>().ok());
        // They may come from a simulation themselves.
        let uids =
            meta.iter().filter_map(|one| one.uid.as_ref()?.strip_prefix(UID)?.parse::<u64>().ok());
        let (version, uids) = (versions.max().unwrap_or(0).max(version), uids.max().unwrap_or(0));
        Self { found: Rc::new(found), version, uids, ..Self::new(kafka, record_name, now_ms) }
    }

    /// Time passes.
    pub(crate) const fn tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// The objects, to be changed.
    pub(crate) fn edit(&mut self) -> &mut Found {
        self.version += 1;
        self.objects_version += 1;
        Rc::make_mut(&mut self.found)
    }

    /// A pod is gone.
    pub(crate) fn remove_pod(&mut self, name: &str) {
        self.version += 1;
        Rc::make_mut(&mut self.found).pods.remove(name);
    }

    fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("{UID}{}", self.uids)
    }

    /// The time as objects have it.
    #[must_use]
    pub(crate) fn time(ms: u64) -> Option<Time> {
        let ms = i64::try_from(ms).ok()?;
        Timestamp::from_millisecond(ms).ok().map(Time)
    }

    /// Marks an object that is created or changed.
    fn stamp(&mut self, meta: &mut ObjectMeta) {
        if meta.uid.is_none() {
            meta.uid = Some(self.next_uid());
            meta.creation_timestamp = Self::time(self.now_ms);
        }
        self.version += 1;
        meta.resource_version = Some(self.version.to_string());
    }

    /// Applies an object as the version that was read. Without `tied` it is applied whatever the version is. Returns whether
    /// it replaces another version than the one that was read.
    pub(crate) fn apply(
        &mut self,
        (object, compared): (&Object, &Compared),
        before: &Found,
        tied: bool,
    ) -> Result<bool, Denied> {
        use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service, ServiceAccount};
        use k8s_openapi::api::networking::v1::NetworkPolicy;
        use k8s_openapi::api::policy::v1::PodDisruptionBudget;
        use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
        let name = object.name();
        let sent = &compared.sent;
        match object {
            Object::ServiceAccount(_) => {
                self.apply_one::<ServiceAccount>(name, sent, (before, tied))
            }
            Object::NetworkPolicy(_) => self.apply_one::<NetworkPolicy>(name, sent, (before, tied)),
            Object::PodDisruptionBudget(_) => {
                self.apply_one::<PodDisruptionBudget>(name, sent, (before, tied))
            }
            Object::ClusterRoleBinding(_) => {
                self.apply_one::<ClusterRoleBinding>(name, sent, (before, tied))
            }
            Object::Service(_) => self.apply_one::<Service>(name, sent, (before, tied)),
            Object::PersistentVolumeClaim(_) => {
                self.apply_one::<PersistentVolumeClaim>(name, sent, (before, tied))
            }
            Object::ConfigMap(_) => self.apply_one::<ConfigMap>(name, sent, (before, tied)),
            Object::PodSet(_) => self.apply_one::<api::StrimziPodSet>(name, sent, (before, tied)),
        }
    }

    fn apply_one<K>(
        &mut self,
        name: &str,
        sent: &Value,
        (before, tied): (&Found, bool),
    ) -> Result<bool, Denied>
    where
        K: Kind + Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let current = K::all(&self.found).get(name);
        let version = |one: Option<&K>| one.and_then(|one| one.meta().resource_version.clone());
        let differs = version(current) != version(K::all(before).get(name));
        if tied && differs {
            return Err(Denied::Conflict);
        }
        let mut next = sent.clone();
        if let Some(current) = current {
            let old = serde_json::to_value(current).map_err(|_| Denied::Failed)?;
            keep_fields_of_others(&mut next, &old);
        }
        let mut next: K = serde_json::from_value(next).map_err(|_| Denied::Failed)?;
        self.stamp(next.meta_mut());
        self.writes += 1;
        self.objects_version += 1;
        K::all_mut(Rc::make_mut(&mut self.found)).insert(name.to_owned(), next);
        Ok(differs)
    }

    /// Deletes an object with this uid, as the version that was read.
    pub(crate) fn delete(
        &mut self,
        kind: ObjectKind,
        (name, uid): (&str, &str),
        before: &Found,
    ) -> Result<(), Denied> {
        fn remove<K: Resource<DynamicType = ()>>(
            (now, before): (&ByName<K>, &ByName<K>),
            (name, uid): (&str, &str),
        ) -> Result<bool, Denied> {
            let Some(one) = now.get(name).filter(|one| one.meta().uid.as_deref() == Some(uid))
            else {
                return Ok(false);
            };
            let read = before.get(name).and_then(|one| one.meta().resource_version.clone());
            match one.meta().resource_version == read {
                true => Ok(true),
                false => Err(Denied::Conflict),
            }
        }
        let now = self.found.clone();
        let of = (name, uid);
        let exists = match kind {
            ObjectKind::ConfigMap => remove((&now.config_maps, &before.config_maps), of)?,
            ObjectKind::Secret => remove((&now.secrets, &before.secrets), of)?,
            ObjectKind::Service => remove((&now.services, &before.services), of)?,
            ObjectKind::PodSet => remove((&now.pod_sets, &before.pod_sets), of)?,
            ObjectKind::ServiceAccount => remove((&now.accounts, &before.accounts), of)?,
            ObjectKind::NetworkPolicy => remove((&now.policies, &before.policies), of)?,
            ObjectKind::PodDisruptionBudget => remove((&now.budgets, &before.budgets), of)?,
            ObjectKind::ClusterRoleBinding => remove((&now.bindings, &before.bindings), of)?,
            ObjectKind::PersistentVolumeClaim => remove((&now.claims, &before.claims), of)?,
        };
        drop(now);
        if exists {
            self.writes += 1;
            self.forget(kind, name);
        }
        Ok(())
    }

    fn forget(&mut self, kind: ObjectKind, name: &str) {
        let found = self.edit();
        match kind {
            ObjectKind::ConfigMap => drop(found.config_maps.remove(name)),
            ObjectKind::Secret => drop(found.secrets.remove(name)),
            ObjectKind::Service => drop(found.services.remove(name)),
            ObjectKind::PodSet => drop(found.pod_sets.remove(name)),
            ObjectKind::ServiceAccount => drop(found.accounts.remove(name)),
            ObjectKind::NetworkPolicy => drop(found.policies.remove(name)),
            ObjectKind::PodDisruptionBudget => drop(found.budgets.remove(name)),
            ObjectKind::ClusterRoleBinding => drop(found.bindings.remove(name)),
            ObjectKind::PersistentVolumeClaim => drop(found.claims.remove(name)),
        }
    }

    /// Begins to delete a pod with this uid, as the version that was read.
    pub(crate) fn delete_pod(
        &mut self,
        (name, uid): (&str, &str),
        before: &Found,
        tied: bool,
    ) -> Result<(), Denied> {
        let version = |pod: &Pod| pod.metadata.resource_version.clone();
        let now = self.found.pods.get(name).filter(|pod| pod.metadata.uid.as_deref() == Some(uid));
        let Some(pod) = now else { return Ok(()) };
        if tied && Some(version(pod)) != before.pods.get(name).map(version) {
            return Err(Denied::Conflict);
        }
        self.end_pod(name);
        self.writes += 1;
        Ok(())
    }

    /// Asks a pod to end, with a grace period of 30 s.
    pub(crate) fn end_pod(&mut self, name: &str) {
        let at = Self::time(self.now_ms + 30_000);
        self.change_pod(name, |pod| {
            if pod.metadata.deletion_timestamp.is_none() {
                pod.metadata.deletion_timestamp = at;
            }
        });
    }

    /// Changes a pod and marks it as changed.
    pub(crate) fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        self.version += 1;
        let version = self.version.to_string();
        if let Some(pod) = Rc::make_mut(&mut self.found).pods.get_mut(name) {
            change(pod);
            pod.metadata.resource_version = Some(version);
        }
    }

    /// Creates a pod.
    pub(crate) fn create_pod(&mut self, mut pod: Pod) {
        self.stamp(&mut pod.metadata);
        let name = pod.metadata.name.clone().unwrap_or_default();
        Rc::make_mut(&mut self.found).pods.insert(name, pod);
    }

    /// The stored record and the version of its ConfigMap.
    #[must_use]
    pub(crate) fn record(&self, found: &Found) -> Option<(Record, String)> {
        let map = found.config_maps.get(&self.record_name)?;
        let text = map.data.as_ref()?.get("record")?;
        let version = map.metadata.resource_version.clone()?;
        let mut read = self.read.borrow_mut();
        if let Some((_, record)) = read.as_ref().filter(|(known, _)| *known == version) {
            return Some((record.clone(), version));
        }
        let record: Record = serde_json::from_str(text).ok()?;
        *read = Some((version.clone(), record.clone()));
        Some((record, version))
    }

    /// Stores the record over the version that was read. Returns the new version, and whether it
    /// replaces another version than the one that was read.
    pub(crate) fn save(
        &mut self,
        record: &Record,
        read: Option<&str>,
        tied: bool,
    ) -> Result<(String, bool), Denied> {
        let name = self.record_name.clone();
        let current = self.found.config_maps.get(&name);
        let version = current.and_then(|map| map.metadata.resource_version.as_deref());
        let differs = version != read;
        if tied && differs {
            return Err(Denied::Conflict);
        }
        let mut map = current.cloned().unwrap_or_default();
        map.metadata.name = Some(name.clone());
        let text = serde_json::to_string(record).map_err(|_| Denied::Failed)?;
        map.data = Some(BTreeMap::from([("record".to_owned(), text)]));
        self.stamp(&mut map.metadata);
        self.writes += 1;
        let version = map.metadata.resource_version.clone().unwrap_or_default();
        Rc::make_mut(&mut self.found).config_maps.insert(name, map);
        Ok((version, differs))
    }

    /// The user writes the `Kafka` resource.
    pub(crate) fn write_kafka(&mut self, kafka: Value) {
        self.version += 1;
        let mut kafka = kafka;
        kafka["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.kafka = Rc::new(kafka);
    }

    /// A pool as it was written; one that cannot be read is left out.
    #[must_use]
    pub(crate) fn pool(written: Value) -> Option<FoundPool> {
        let pool = serde_json::from_value(written.clone()).ok()?;
        Some(FoundPool { pool, written })
    }
}

/// What the server and other writers keep in an object: its identity, its status, and their labels and annotations.
fn keep_fields_of_others(next: &mut Value, old: &Value) {
    for field in ["uid", "creationTimestamp", "deletionTimestamp"] {
        if !old["metadata"][field].is_null() {
            next["metadata"][field] = old["metadata"][field].clone();
        }
    }
    for field in ["annotations", "labels"] {
        let Some(all) = old["metadata"][field].as_object() else { continue };
        for (name, value) in all {
            if next["metadata"][field][name].is_null() {
                next["metadata"][field][name] = value.clone();
            }
        }
    }
    if !old["status"].is_null() {
        next["status"] = old["status"].clone();
    }
    // The class is what the server has set.
    if !old["spec"]["storageClassName"].is_null() {
        next["spec"]["storageClassName"] = old["spec"]["storageClassName"].clone();
    }
}
