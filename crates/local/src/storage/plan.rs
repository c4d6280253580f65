//! Decides the next step for a claim or a volume. Pure.
//!
//! 1. A volume is provisioned only for a claim of one of our classes that was scheduled to one of our nodes,
//!    is not being deleted and has no volume yet.
//! 2. Data is removed only if its volume is `Released`, its policy is `Delete`, and we created the volume on
//!    one of our nodes.
//! 3. A volume never shrinks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    LocalVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectReference,
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;

use super::directory::{self, Mark};
use super::{NodeVolumes, PROVISIONER};
use crate::kubelet::quantity;

/// The annotation with the node that the scheduler chose.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The annotation with the provisioner; the volume controller leaves deletion to it.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Keeps the volume object until its data is removed, even if a person deletes the object first.
pub(crate) const FINALIZER: &str = "gregor.io/volume-data";

const HOSTNAME: &str = "kubernetes.io/hostname";

/// The next step for a claim.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClaimStep {
    /// Nothing to do, or not ours.
    Nothing,
    /// Create a directory and then a volume object.
    Provision(Box<NewVolume>),
    /// Unsupported request.
    Refuse(Refusal),
    /// It requests more than its volume's or its own status.
    Grow(Growth),
}

/// A volume to provision.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewVolume {
    /// Volume directory of the chosen node.
    pub(crate) volumes: PathBuf,
    /// The content of `volume.json`.
    pub(crate) mark: Mark,
    /// The object.
    pub(crate) object: PersistentVolume,
}

/// Why a claim cannot be provisioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A label selector.
    Selector,
    /// A block device.
    Block,
    /// Access from several nodes.
    SharedAccess,
    /// A data source, such as a snapshot.
    DataSource,
    /// No requested size.
    NoSize,
}

impl Refusal {
    /// The message of the Event.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Selector => "a claim with a selector cannot be provisioned; remove the selector",
            Self::Block => "only volumeMode Filesystem can be provisioned",
            Self::SharedAccess => {
                "the data is on one node, so only the access modes ReadWriteOnce and \
                 ReadWriteOncePod can be provisioned"
            }
            Self::DataSource => {
                "snapshots and clones cannot be provisioned; remove the data source"
            }
            Self::NoSize => "the claim does not request a size",
        }
    }
}

/// Additional capacity for a bound claim.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Growth {
    /// The volume, if its object must be changed too.
    pub(crate) volume: Option<String>,
    /// The new capacity.
    pub(crate) size: Quantity,
}

/// The next step for a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VolumeStep {
    /// Nothing to do, or not ours.
    Nothing,
    /// Remove the data, then the object.
    Remove(Doomed),
    /// The object is being deleted, and its data stays.
    LetGo,
}

/// A volume whose data is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doomed {
    /// Volume directory of its node.
    pub(crate) volumes: PathBuf,
    /// Uid of the claim that owned the data.
    pub(crate) uid: String,
}

/// Decides for one claim. `volume` is the volume that the claim is bound to, if any.
pub(crate) fn claim_step(
    claim: &PersistentVolumeClaim,
    class: Option<&StorageClass>,
    volume: Option<&PersistentVolume>,
    nodes: &[NodeVolumes],
) -> ClaimStep {
    if claim.metadata.deletion_timestamp.is_some() {
        return ClaimStep::Nothing;
    }
    let Some(spec) = &claim.spec else { return ClaimStep::Nothing };
    if spec.volume_name.as_ref().is_some_and(|name| !name.is_empty()) {
        return volume.map_or(ClaimStep::Nothing, |volume| growth(claim, volume, nodes));
    }
    let Some(class) = class.filter(|class| class.provisioner == PROVISIONER) else {
        return ClaimStep::Nothing;
    };
    let node = claim
        .annotations()
        .get(SELECTED_NODE)
        .and_then(|name| nodes.iter().find(|node| node.node == *name));
    let (Some(node), Some(uid)) = (node, claim.metadata.uid.as_deref()) else {
        return ClaimStep::Nothing;
    };
    match refusal(claim) {
        Some(refusal) => ClaimStep::Refuse(refusal),
        None => ClaimStep::Provision(Box::new(new_volume(claim, uid, class, node))),
    }
}

/// The volume name of a claim: deterministic, so that a repeated attempt finds the first.
pub(crate) fn volume_name(claim_uid: &str) -> String {
    format!("pvc-{claim_uid}")
}

fn refusal(claim: &PersistentVolumeClaim) -> Option<Refusal> {
    let spec = claim.spec.as_ref()?;
    let modes = spec.access_modes.as_deref().unwrap_or_default();
    if spec.selector.is_some() {
        Some(Refusal::Selector)
    } else if spec.volume_mode.as_deref() == Some("Block") {
        Some(Refusal::Block)
    } else if modes.iter().any(|mode| mode != "ReadWriteOnce" && mode != "ReadWriteOncePod") {
        Some(Refusal::SharedAccess)
    } else if spec.data_source.is_some() || spec.data_source_ref.is_some() {
        Some(Refusal::DataSource)
    } else if requested(claim).is_none() {
        Some(Refusal::NoSize)
    } else {
        None
    }
}

fn requested(claim: &PersistentVolumeClaim) -> Option<&Quantity> {
    claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?.get("storage")
}

fn new_volume(
    claim: &PersistentVolumeClaim,
    uid: &str,
    class: &StorageClass,
    node: &NodeVolumes,
) -> NewVolume {
    let name = volume_name(uid);
    let namespace = claim.namespace().unwrap_or_default();
    let size = requested(claim).cloned().unwrap_or_default();
    let mark = Mark {
        namespace: namespace.clone(),
        claim: claim.name_any(),
        uid: uid.to_owned(),
        size: size.0.clone(),
    };
    let claim_ref = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: Some(namespace),
        name: Some(claim.name_any()),
        uid: Some(uid.to_owned()),
        resource_version: claim.resource_version(),
        ..ObjectReference::default()
    };
    let spec = PersistentVolumeSpec {
        capacity: Some(BTreeMap::from([("storage".to_owned(), size)])),
        access_modes: claim.spec.as_ref().and_then(|spec| spec.access_modes.clone()),
        persistent_volume_reclaim_policy: Some(
            class.reclaim_policy.clone().unwrap_or_else(|| "Delete".to_owned()),
        ),
        storage_class_name: Some(class.name_any()),
        volume_mode: Some("Filesystem".to_owned()),
        claim_ref: Some(claim_ref),
        local: Some(LocalVolumeSource {
            path: directory::data(&node.volumes, &name).to_string_lossy().into_owned(),
            fs_type: None,
        }),
        node_affinity: Some(affinity(&node.node)),
        ..PersistentVolumeSpec::default()
    };
    let metadata = ObjectMeta {
        name: Some(name),
        annotations: Some(BTreeMap::from([(PROVISIONED_BY.to_owned(), PROVISIONER.to_owned())])),
        finalizers: Some(vec![FINALIZER.to_owned()]),
        ..ObjectMeta::default()
    };
    let object = PersistentVolume { metadata, spec: Some(spec), status: None };
    NewVolume { volumes: node.volumes.clone(), mark, object }
}

fn affinity(node: &str) -> VolumeNodeAffinity {
    let only = NodeSelectorRequirement {
        key: HOSTNAME.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    VolumeNodeAffinity {
        required: Some(NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm {
                match_expressions: Some(vec![only]),
                match_fields: None,
            }],
        }),
    }
}

fn growth(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    nodes: &[NodeVolumes],
) -> ClaimStep {
    let status = claim.status.as_ref();
    if home(volume, nodes).is_none()
        || claim_uid(volume) != claim.metadata.uid.as_deref()
        || status.and_then(|status| status.phase.as_deref()) != Some("Bound")
    {
        return ClaimStep::Nothing;
    }
    let size = requested(claim).and_then(|size| Some((size, quantity::parse_milli(&size.0)?)));
    let Some((size, wanted)) = size else { return ClaimStep::Nothing };
    let smaller = |capacity: Option<&BTreeMap<String, Quantity>>| {
        capacity
            .and_then(|capacity| quantity::parse_milli(&capacity.get("storage")?.0))
            .is_none_or(|present| present < wanted)
    };
    let volume_grows = smaller(volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()));
    let claim_grows = smaller(status.and_then(|status| status.capacity.as_ref()));
    if !volume_grows && !claim_grows {
        return ClaimStep::Nothing;
    }
    let volume = volume_grows.then(|| volume.name_any());
    ClaimStep::Grow(Growth { volume, size: size.clone() })
}

/// Decides for one volume.
pub(crate) fn volume_step(volume: &PersistentVolume, nodes: &[NodeVolumes]) -> VolumeStep {
    let Some(volumes) = home(volume, nodes) else { return VolumeStep::Nothing };
    let spec = volume.spec.as_ref();
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    let deleting = volume.metadata.deletion_timestamp.is_some();
    match (policy, phase, claim_uid(volume)) {
        (Some("Delete"), Some("Released"), Some(uid)) => {
            VolumeStep::Remove(Doomed { volumes: volumes.to_owned(), uid: uid.to_owned() })
        }
        (Some("Delete"), _, Some(_)) => VolumeStep::Nothing,
        // Retained or unbound: the object may be deleted when it is unused, the data stays.
        _ if deleting && phase != Some("Bound") && has_finalizer(volume) => VolumeStep::LetGo,
        _ => VolumeStep::Nothing,
    }
}

fn has_finalizer(volume: &PersistentVolume) -> bool {
    volume.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
}

/// The uid of the claim of a volume.
pub(crate) fn claim_uid(volume: &PersistentVolume) -> Option<&str> {
    volume.spec.as_ref()?.claim_ref.as_ref()?.uid.as_deref()
}

/// The volume directory that one of our volumes is in. Annotation, node and path must all be ours: a volume
/// that a person created, or one of another machine with the same paths, is never touched.
fn home<'a>(volume: &PersistentVolume, nodes: &'a [NodeVolumes]) -> Option<&'a Path> {
    if volume.annotations().get(PROVISIONED_BY).map(String::as_str) != Some(PROVISIONER) {
        return None;
    }
    let spec = volume.spec.as_ref()?;
    let path = Path::new(&spec.local.as_ref()?.path);
    let name = volume.name_any();
    nodes
        .iter()
        .filter(|node| spec.node_affinity.as_ref() == Some(&affinity(&node.node)))
        .find(|node| directory::data(&node.volumes, &name) == path)
        .map(|node| node.volumes.as_path())
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
