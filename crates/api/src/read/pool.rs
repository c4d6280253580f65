//! Pools of nodes and their storage.

use control::cluster::quantity;
use control::cluster::spec::{Claim, Disk, JvmSettings, PoolSpec, Size, Storage, Volume};
use control::node::Roles;
use kube::ResourceExt as _;

use super::{Notes, Problem};
use crate::KafkaNodePool;
use crate::common::{JvmOptions, Resources};
use crate::node_pool::{self as api, KraftMetadata, Role, StorageType, VolumeType};

/// What a pool was asked to be; `shared` are the JVM options of the cluster.
pub(super) fn pool(
    pool: &KafkaNodePool,
    shared: Option<&JvmOptions>,
) -> Result<PoolSpec, Vec<Problem>> {
    let mut notes = Notes::of(format!("KafkaNodePool {}", pool.name_any()));
    match spec(pool, shared, &mut notes) {
        Some(spec) if notes.problems.is_empty() => Ok(spec),
        _ => Err(notes.problems),
    }
}

fn spec(pool: &KafkaNodePool, shared: Option<&JvmOptions>, notes: &mut Notes) -> Option<PoolSpec> {
    if pool.metadata.name.is_none() {
        notes.add("metadata.name", "is missing");
    }
    let spec = &pool.spec;
    let replicas = notes.number(spec.replicas, 0, "spec.replicas", "at least 0");
    let roles = roles(&spec.roles, notes);
    let storage = storage(&spec.storage, "spec.storage", notes);
    let memory_bytes = memory(spec.resources.as_ref(), notes);
    let jvm = jvm(spec.jvm_options.as_ref().or(shared), notes);
    Some(PoolSpec {
        name: pool.name_any(),
        roles: roles?,
        replicas: replicas?,
        storage: storage?,
        jvm: jvm?,
        memory_bytes: memory_bytes?,
    })
}

fn roles(roles: &[Role], notes: &mut Notes) -> Option<Roles> {
    match (roles.contains(&Role::Broker), roles.contains(&Role::Controller)) {
        (true, true) => Some(Roles::Combined),
        (true, false) => Some(Roles::Broker),
        (false, true) => Some(Roles::Controller),
        (false, false) => {
            notes.add("spec.roles", "is empty: name broker, controller or both");
            None
        }
    }
}

/// The limit of memory, else what is asked for; `None` if it cannot be read.
fn memory(resources: Option<&Resources>, notes: &mut Notes) -> Option<Option<u64>> {
    let Some(resources) = resources else { return Some(None) };
    let places = [("limits", &resources.limits), ("requests", &resources.requests)];
    for (name, amounts) in places {
        let Some(amount) = amounts.as_ref().and_then(|amounts| amounts.get("memory")) else {
            continue;
        };
        return match quantity::bytes(&amount.to_string()) {
            Ok(bytes) => Some(Some(bytes)),
            Err(invalid) => {
                notes.add(format!("spec.resources.{name}.memory"), format!("cannot be: {invalid}"));
                None
            }
        };
    }
    Some(None)
}

fn jvm(options: Option<&JvmOptions>, notes: &mut Notes) -> Option<JvmSettings> {
    let Some(options) = options else { return Some(JvmSettings::default()) };
    let mut system_properties = Vec::new();
    for (index, property) in options.java_system_properties.iter().flatten().enumerate() {
        let Some(name) = property.name.clone().filter(|name| !name.is_empty()) else {
            let path = format!("jvmOptions.javaSystemProperties[{index}].name");
            notes.add(path, "is missing");
            continue;
        };
        system_properties.push((name, property.value.clone().unwrap_or_default()));
    }
    Some(JvmSettings {
        heap_max: options.heap_max.clone(),
        heap_initial: options.heap_initial.clone(),
        xx: options.xx.clone().unwrap_or_default(),
        gc_logging: options.gc_logging_enabled.unwrap_or(false),
        system_properties,
    })
}

/// Storage that [`storage_text`] wrote, or Strimzi in its annotation `strimzi.io/storage`.
///
/// # Errors
/// Everything that cannot be read.
pub fn storage_from_text(text: &str, resource: &str) -> Result<Storage, Vec<Problem>> {
    let mut notes = Notes::of(resource.to_owned());
    let path = "recorded storage";
    let found = match serde_json::from_str(text) {
        Ok(written) => storage(&written, path, &mut notes),
        Err(error) => {
            notes.add(path, format!("cannot be read: {error}"));
            None
        }
    };
    match found {
        Some(storage) if notes.problems.is_empty() => Ok(storage),
        _ => Err(notes.problems),
    }
}

fn storage(storage: &api::Storage, path: &str, notes: &mut Notes) -> Option<Storage> {
    let kind = match storage.kind {
        StorageType::Ephemeral => VolumeType::Ephemeral,
        StorageType::PersistentClaim => VolumeType::PersistentClaim,
        StorageType::Jbod => return jbod(storage, path, notes),
    };
    volume(kind, &storage.disk, 0, path, notes).map(Storage::Single)
}

fn jbod(storage: &api::Storage, path: &str, notes: &mut Notes) -> Option<Storage> {
    let mut volumes = Vec::new();
    let mut whole = true;
    for (index, one) in storage.volumes.iter().flatten().enumerate() {
        let path = format!("{path}.volumes[{index}]");
        let id = match one.disk.id {
            Some(id) => notes.number(id, 0, &format!("{path}.id"), "at least 0"),
            None => {
                notes.add(format!("{path}.id"), "is missing: every volume of jbod has a number");
                None
            }
        };
        let found = volume(one.kind, &one.disk, id.unwrap_or_default(), &path, notes);
        whole &= id.is_some() && found.is_some();
        volumes.extend(found);
    }
    if storage.volumes.iter().flatten().next().is_none() {
        notes.add(format!("{path}.volumes"), "is empty: jbod has at least one volume");
        whole = false;
    }
    whole.then_some(Storage::Jbod(volumes))
}

fn volume(
    kind: VolumeType,
    disk: &api::Disk,
    id: u32,
    path: &str,
    notes: &mut Notes,
) -> Option<Volume> {
    let kraft_metadata = match disk.kraft_metadata {
        Some(KraftMetadata::Shared) => true,
        None => false,
    };
    let disk = match kind {
        VolumeType::Ephemeral => Disk::Ephemeral {
            size_limit: match &disk.size_limit {
                None => None,
                Some(text) => Some(size(text, &format!("{path}.sizeLimit"), notes)?),
            },
        },
        VolumeType::PersistentClaim => Disk::Claim(claim(disk, path, notes)?),
    };
    Some(Volume { id, kraft_metadata, disk })
}

fn claim(disk: &api::Disk, path: &str, notes: &mut Notes) -> Option<Claim> {
    let path = format!("{path}.size");
    let Some(text) = &disk.size else {
        notes.add(path, "is missing: a persistent-claim says how large it is");
        return None;
    };
    let found = size(text, &path, notes)?;
    if found.bytes() == 0 {
        notes.add(path, "is nothing: a persistent-claim is larger than that");
        return None;
    }
    Some(Claim {
        size: found,
        class: disk.class.clone(),
        attributes_class: disk.volume_attributes_class.clone(),
        selector: disk.selector.clone().unwrap_or_default(),
        delete: disk.deletes_claim(),
    })
}

fn size(text: &str, path: &str, notes: &mut Notes) -> Option<Size> {
    let size = Size::parse(text);
    if let Err(invalid) = &size {
        notes.add(path, format!("cannot be: {invalid}"));
    }
    size.ok()
}

/// Storage as a user would write it, in JSON: what is kept of a pool to compare a later spec with.
/// Strimzi keeps the same text in the annotation `strimzi.io/storage`.
#[must_use]
pub fn storage_text(storage: &Storage) -> String {
    let written = match storage {
        Storage::Single(volume) => {
            let kind = match volume.disk {
                Disk::Ephemeral { .. } => StorageType::Ephemeral,
                Disk::Claim(_) => StorageType::PersistentClaim,
            };
            api::Storage { kind, volumes: None, disk: written(volume, None) }
        }
        Storage::Jbod(volumes) => {
            let volumes = volumes.iter().map(|volume| api::Volume {
                kind: match volume.disk {
                    Disk::Ephemeral { .. } => VolumeType::Ephemeral,
                    Disk::Claim(_) => VolumeType::PersistentClaim,
                },
                disk: written(volume, Some(volume.id.into())),
            });
            let volumes = Some(volumes.collect());
            api::Storage { kind: StorageType::Jbod, volumes, disk: api::Disk::default() }
        }
    };
    // Plain texts, numbers and maps with texts as keys can always be written.
    serde_json::to_string(&written).unwrap_or_default()
}

fn written(volume: &Volume, id: Option<i64>) -> api::Disk {
    let mut disk = api::Disk {
        id,
        kraft_metadata: volume.kraft_metadata.then_some(KraftMetadata::Shared),
        ..api::Disk::default()
    };
    match &volume.disk {
        Disk::Ephemeral { size_limit } => {
            disk.size_limit = size_limit.as_ref().map(ToString::to_string);
        }
        Disk::Claim(claim) => {
            disk.size = Some(claim.size.to_string());
            disk.class = claim.class.clone();
            disk.volume_attributes_class = claim.attributes_class.clone();
            disk.selector = Some(claim.selector.clone()).filter(|selector| !selector.is_empty());
            disk.delete_claim = Some(claim.delete);
        }
    }
    disk
}
