//! Objects that a spec needs and that do not belong to the cluster: read from Kubernetes, or taken from a snapshot.
//!
//! 1. They are read only where the spec needs them, and what was read is kept for a snapshot.
//! 2. With a snapshot, Kubernetes is not asked. What is not part of it is unknown, and not absent.

use std::collections::{BTreeMap, BTreeSet};

use control::cluster::spec::ConfigMapEntry;
use control::conditions::{Note, Reason};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use objects::areas::claims::Classes;
use serde::{Deserialize, Serialize};

use super::error::PassError;
use super::pass::Work;

/// What was read of them. An object that does not exist is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Others {
    /// Whether this is a snapshot, so that no more requests are sent.
    #[serde(skip)]
    is_snapshot: bool,
    bindings: BTreeMap<String, Option<ClusterRoleBinding>>,
    /// The names of the entries of ConfigMaps that the spec refers to. Their values may be secret, and are left out.
    #[serde(alias = "metrics")]
    config_maps: BTreeMap<String, Option<BTreeSet<String>>>,
    /// Whether volumes of each StorageClass can grow; `None` if the classes could not be listed.
    classes: Option<BTreeMap<String, bool>>,
    /// The entries themselves, by ConfigMap. They are not written to a file.
    #[serde(skip)]
    texts: BTreeMap<String, BTreeMap<String, String>>,
}

impl Others {
    /// The same, as all that can be known.
    pub(crate) fn of_snapshot(self) -> Self {
        Self { is_snapshot: true, ..self }
    }

    /// Whether they come from a snapshot, which has no Secrets either.
    pub(crate) const fn is_snapshot(&self) -> bool {
        self.is_snapshot
    }

    /// Reads all StorageClasses: an edit may need any of them.
    pub(crate) async fn read_classes(&mut self, client: &Client) {
        let api: Api<StorageClass> = Api::all(client.clone());
        let listed = api.list(&ListParams::default()).await.ok();
        let can_grow = |class: &StorageClass| class.allow_volume_expansion.unwrap_or(false);
        let classes = |list: kube::api::ObjectList<StorageClass>| {
            list.iter().map(|class| (class.name_any(), can_grow(class))).collect()
        };
        self.classes = listed.map(classes);
    }

    /// The ClusterRoleBindings that exist.
    pub(crate) fn bindings(&self) -> BTreeMap<String, ClusterRoleBinding> {
        let existing = self.bindings.iter();
        existing.filter_map(|(name, one)| Some((name.clone(), one.clone()?))).collect()
    }

    /// Whether volumes of StorageClasses can grow, as far as that is known.
    pub(crate) fn can_grow(&self) -> BTreeMap<String, bool> {
        self.classes.clone().unwrap_or_default()
    }

    /// The ConfigMaps that the spec refers to, with the entries that were read.
    pub(crate) fn config_maps(&self) -> BTreeMap<String, ConfigMap> {
        let map = |data: &BTreeMap<String, String>| ConfigMap {
            data: Some(data.clone()),
            ..ConfigMap::default()
        };
        self.texts.iter().map(|(name, data)| (name.clone(), map(data))).collect()
    }

    fn keep(&mut self, entry: &ConfigMapEntry, text: Option<&String>) {
        if let Some(text) = text {
            let map = self.texts.entry(entry.config_map.clone()).or_default();
            map.insert(entry.key.clone(), text.clone());
        }
    }

    /// What is assumed of an entry that an edit refers to and that is not part of the snapshot.
    pub(crate) fn assumed(&self, entry: &ConfigMapEntry) -> Option<Note> {
        let (name, key) = (&entry.config_map, &entry.key);
        let is_unknown = self.is_snapshot && !self.config_maps.contains_key(name);
        let message = format!(
            "ConfigMap {name} is not part of the snapshot: assuming that it has the entry {key}"
        );
        is_unknown.then(|| Note::new(Reason::KubernetesUnreadable, message))
    }
}

/// A ClusterRoleBinding.
pub(crate) async fn binding(
    work: &mut Work,
    name: &str,
) -> Result<Option<ClusterRoleBinding>, PassError> {
    let others = &mut work.known.others;
    if others.is_snapshot {
        let known = others.bindings.get(name).cloned();
        return known.ok_or_else(|| PassError::NotInSnapshot(format!("ClusterRoleBinding {name}")));
    }
    let api: Api<ClusterRoleBinding> = Api::all(work.ctx.client.clone());
    let found = api.get_opt(name).await.map_err(|e| PassError::Get(Box::new(e)))?;
    others.bindings.insert(name.to_owned(), found.clone());
    Ok(found)
}

/// The StorageClasses of these names. One that is not part of a snapshot is left out.
pub(crate) async fn classes(work: &Work, names: BTreeSet<String>) -> Result<Classes, PassError> {
    let others = &work.known.others;
    if others.is_snapshot {
        let Some(known) = &others.classes else { return Ok(Classes::new()) };
        let class = |can_grow: &bool| StorageClass {
            allow_volume_expansion: Some(*can_grow),
            ..StorageClass::default()
        };
        let class = |name: String| (name.clone(), known.get(&name).map(class));
        return Ok(names.into_iter().map(class).collect());
    }
    let api: Api<StorageClass> = Api::all(work.ctx.client.clone());
    let mut classes = Classes::new();
    for name in names {
        let class = api.get_opt(&name).await.map_err(|e| PassError::Get(Box::new(e)))?;
        classes.insert(name, class);
    }
    Ok(classes)
}

/// An entry of a ConfigMap; `None` if it does not exist. That of a snapshot is a text that names it: the same for every
/// edit, as long as the edit names the same entry.
pub(crate) async fn entry(
    work: &mut Work,
    entry: Option<&ConfigMapEntry>,
) -> Result<Option<String>, PassError> {
    let Some(wanted) = entry else { return Ok(None) };
    let ConfigMapEntry { config_map: name, key } = wanted;
    if work.known.others.is_snapshot {
        let exists = match work.known.others.config_maps.get(name) {
            Some(entries) => entries.iter().flatten().any(|entry| entry == key),
            None => true,
        };
        let text = exists.then(|| format!("{name}/{key}"));
        work.known.others.keep(wanted, text.as_ref());
        return Ok(text);
    }
    let found = work.api::<ConfigMap>().get_opt(name).await;
    let found = found.map_err(|e| PassError::Get(Box::new(e)))?;
    let entries = found.as_ref().map(|map| map.data.iter().flat_map(BTreeMap::keys));
    let entries = entries.map(|entries| entries.cloned().collect());
    work.known.others.config_maps.insert(name.clone(), entries);
    let text = found.and_then(|map| map.data?.remove(key));
    work.known.others.keep(wanted, text.as_ref());
    Ok(text)
}
