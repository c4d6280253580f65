//! Storage of nodes that exist: which changes are followed, where things are on the disks, and when claims
//! grow.
//!
//! 1. A change that would lose data or that Kubernetes cannot follow is not made: the storage stays as it
//!    is and a Warning says so. Allowed are a larger size, `deleteClaim`, the attributes class, and volumes
//!    that come and go; all else is not. One thing that is not allowed keeps all of the old storage.
//! 2. **The metadata log of a node that exists stays where it is.** Strimzi computes its place from the spec
//!    (the volume with `kraftMetadata`, else the one with the lowest number), and its start script deletes
//!    the log that is then in another place. Here nothing is deleted on a disk, and Kafka does not start
//!    while it finds a metadata log elsewhere than it was told. So a new volume with a lower number moves
//!    nothing, and a change that moves it is refused.
//! 3. The volume with the metadata log of a controller does not go: the voter would lose its identity and
//!    its votes. Of a broker it may; it fetches the metadata again.
//! 4. Claims grow and never shrink, and only where their class lets them.
//!
//! Whether a volume that goes still has partitions is not known here: [`Decision::removed`] names it.

mod claims;
mod layout;

pub use claims::{ClaimFacts, Resize, resize};
pub use layout::{Layout, MountedVolume, jbod_log_dir, layout};

use super::spec::{Claim, Disk, Storage, Volume};
use crate::cluster::validate;
use crate::conditions::{Note, Reason};
use crate::node::Roles;

/// The answer to a change of the storage in the spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The storage to go on with. The volume with the metadata log is always marked.
    pub effective: Storage,
    /// The changes that are refused, and why.
    pub refused: Vec<String>,
    /// The numbers of volumes that come.
    pub added: Vec<u32>,
    /// The numbers of volumes that go.
    pub removed: Vec<u32>,
}

impl Decision {
    /// What to tell of it, under Strimzi's word for it.
    #[must_use]
    pub fn note(&self, pool: &str) -> Option<Note> {
        if self.refused.is_empty() {
            return None;
        }
        let message =
            format!("the storage of pool {pool} cannot be changed: {}", self.refused.join("; "));
        Some(Note::new(Reason::Spec(validate::Reason::KafkaStorage), message))
    }
}

/// The volume with the metadata log: the one that is marked, else the one with the lowest number.
#[must_use]
pub fn metadata_volume(storage: &Storage) -> Option<u32> {
    let volumes = storage.volumes();
    let marked = volumes.iter().find(|volume| volume.kraft_metadata);
    marked.map(|volume| volume.id).or_else(|| volumes.iter().map(|volume| volume.id).min())
}

/// Whether the metadata log is on a volume that is deleted with the pod.
#[must_use]
pub fn metadata_is_ephemeral(storage: &Storage) -> bool {
    let place = metadata_volume(storage);
    let is_there = |volume: &&Volume| Some(volume.id) == place;
    let mut volumes = storage.volumes().iter().filter(is_there);
    volumes.any(|volume| matches!(volume.disk, Disk::Ephemeral { .. }))
}

/// Storage of a pool that has no nodes yet: as it was asked for.
#[must_use]
pub fn first(new: &Storage) -> Decision {
    let added = ids(new);
    let place = metadata_volume(new);
    Decision { effective: marked(new, place), refused: Vec::new(), added, removed: Vec::new() }
}

/// Decides which changes of the storage of nodes with these roles are accepted.
#[must_use]
pub fn diff(old: &Storage, new: &Storage, roles: Roles) -> Decision {
    let (before, after) = (ids(old), ids(new));
    let place = metadata_volume(old);
    let mut refused = impossible(new);
    match (old, new) {
        (Storage::Single(have), Storage::Single(desired)) => {
            refused.extend(changes(have, desired, "the volume"));
        }
        (Storage::Jbod(have), Storage::Jbod(volumes)) => {
            for volume in have {
                let Some(desired) = volumes.iter().find(|desired| desired.id == volume.id) else {
                    continue;
                };
                refused.extend(changes(volume, desired, &format!("volume {}", volume.id)));
            }
            if let Some(gone) =
                place.filter(|place| roles.is_controller() && !after.contains(place))
            {
                refused.push(format!(
                    "volume {gone} has the metadata log of controllers and cannot go; make a \
                     new pool"
                ));
            }
        }
        (Storage::Single(_), Storage::Jbod(_)) | (Storage::Jbod(_), Storage::Single(_)) => {
            let message = "one volume cannot become several with numbers, nor the other way round";
            refused.push(message.to_owned());
        }
    }
    if !refused.is_empty() {
        let effective = marked(old, place);
        return Decision { effective, refused, added: Vec::new(), removed: Vec::new() };
    }
    // A broker that loses the volume with its metadata log has it where the spec says.
    let stays = place.filter(|place| after.contains(place));
    let asked = new.volumes().iter().find(|volume| volume.kraft_metadata).map(|volume| volume.id);
    if let (Some(stays), Some(asked)) = (stays, asked.filter(|asked| Some(*asked) != stays)) {
        refused.push(format!(
            "the metadata log is on volume {stays} and cannot move to volume {asked}; make a \
             new pool, or \
             set kraftMetadata there"
        ));
    }
    let effective = marked(new, stays.or_else(|| metadata_volume(new)));
    let added = after.iter().filter(|id| !before.contains(id)).copied().collect();
    let removed = before.iter().filter(|id| !after.contains(id)).copied().collect();
    Decision { effective, refused, added, removed }
}

fn ids(storage: &Storage) -> Vec<u32> {
    let mut ids: Vec<_> = storage.volumes().iter().map(|volume| volume.id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The same storage with the mark of the metadata log on this volume alone.
fn marked(storage: &Storage, place: Option<u32>) -> Storage {
    let mark =
        |volume: &Volume| Volume { kraft_metadata: Some(volume.id) == place, ..volume.clone() };
    match storage {
        Storage::Single(volume) => Storage::Single(mark(volume)),
        Storage::Jbod(volumes) => Storage::Jbod(volumes.iter().map(mark).collect()),
    }
}

/// What cannot be, whatever there was before.
fn impossible(new: &Storage) -> Vec<String> {
    let volumes = new.volumes();
    let mut wrong = Vec::new();
    if volumes.is_empty() {
        wrong.push("there would be no volume".to_owned());
    }
    if ids(new).len() != volumes.len() {
        wrong.push("several volumes have the same number".to_owned());
    }
    if volumes.iter().filter(|volume| volume.kraft_metadata).count() > 1 {
        wrong.push("several volumes have kraftMetadata".to_owned());
    }
    wrong
}

/// What is not allowed of a change of one volume.
fn changes(have: &Volume, desired: &Volume, name: &str) -> Vec<String> {
    match (&have.disk, &desired.disk) {
        (Disk::Ephemeral { size_limit: have }, Disk::Ephemeral { size_limit: desired }) => {
            let text = |limit: &Option<super::spec::Size>| {
                limit.as_ref().map_or("none".to_owned(), ToString::to_string)
            };
            let same = have == desired;
            let message = || {
                format!(
                    "the sizeLimit of {name} cannot change from {} to {}",
                    text(have),
                    text(desired)
                )
            };
            if same { Vec::new() } else { vec![message()] }
        }
        (Disk::Claim(have), Disk::Claim(desired)) => claim_changes(have, desired, name),
        (Disk::Ephemeral { .. }, Disk::Claim(_)) | (Disk::Claim(_), Disk::Ephemeral { .. }) => {
            let (have, desired) = (have.disk.kind(), desired.disk.kind());
            vec![format!("the type of {name} cannot change from {have} to {desired}")]
        }
    }
}

fn claim_changes(have: &Claim, desired: &Claim, name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if desired.size.bytes() < have.size.bytes() {
        wrong.push(format!("{name} cannot shrink from {} to {}", have.size, desired.size));
    }
    if desired.class != have.class {
        let text = |class: &Option<String>| class.clone().unwrap_or("the default".to_owned());
        wrong.push(format!(
            "the class of {name} cannot change from {} to {}",
            text(&have.class),
            text(&desired.class)
        ));
    }
    if desired.selector != have.selector {
        wrong.push(format!("the selector of {name} is immutable"));
    }
    wrong
}

#[cfg(test)]
mod tests;
