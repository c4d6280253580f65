//! PersistentVolumeClaims of all nodes. A claim never shrinks.

use std::collections::{BTreeMap, BTreeSet};

use control::cluster::quantity;
use control::cluster::spec::{Claim, Disk};
use control::cluster::storage::{ClaimFacts, Resize, layout, resize};
use control::conditions::{Note, Reason};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;

use super::Built;
use crate::claims::Origin;
use crate::found::Found;
use crate::{Blueprint, Node, claims};

/// StorageClasses by name; `None` if it does not exist.
pub type Classes = BTreeMap<String, Option<StorageClass>>;

/// StorageClasses of claims to grow: only these are read.
#[must_use]
pub fn needs(blueprint: &Blueprint, found: &Found) -> BTreeSet<String> {
    let classes = desired_claims(blueprint).into_iter().filter_map(|(node, volume, desired)| {
        let claim = found.claims.get(&blueprint.names.claim(&volume, &node.pool, node.id))?;
        let grows = bytes(requested(claim)?) < desired.size.bytes();
        class(claim).filter(|_| grows).cloned()
    });
    classes.collect()
}

/// Builds the claims. `classes` are those from [`needs`].
pub fn build(
    blueprint: &Blueprint,
    found: &Found,
    origin: Origin<'_>,
    classes: &Classes,
) -> Result<Built, serde_json::Error> {
    let mut built = Built::new(());
    for (node, volume, desired) in desired_claims(blueprint) {
        let name = blueprint.names.claim(&volume, &node.pool, node.id);
        let existing = found.claims.get(&name).and_then(|claim| Some((claim, requested(claim)?)));
        let size = match existing {
            None => desired.size.to_string(),
            Some((claim, requested)) => {
                let decision = resize(&desired.size, &facts(claim, requested, &desired, classes));
                let warning = decision.warning(&name);
                let note = |text| Note::new(Reason::PvcResizingWarning, text);
                built.warnings.extend(warning.map(note));
                size(decision, requested, &desired)
            }
        };
        let claim = claims::claim(blueprint, node, (&volume, &desired), (&size, origin))?;
        built.objects.push(claim.into());
    }
    Ok(built)
}

/// Desired claims: node, volume name, request.
fn desired_claims(blueprint: &Blueprint) -> Vec<(&Node, String, Claim)> {
    let mut all = Vec::new();
    for node in &blueprint.nodes {
        let pools = &blueprint.spec.pools;
        let Some(pool) = pools.iter().find(|pool| pool.name == node.pool) else { continue };
        for volume in layout(&pool.storage, node.id).volumes {
            if let Disk::Claim(desired) = volume.volume.disk {
                all.push((node, volume.name, desired));
            }
        }
    }
    all
}

/// The size to request.
fn size(decision: Resize, requested: &str, desired: &Claim) -> String {
    match decision {
        Resize::Grow(_) => desired.size.to_string(),
        Resize::Keep
        | Resize::WaitForVolume
        | Resize::WaitForResize
        | Resize::RestartPod
        | Resize::CannotShrink
        | Resize::CannotGrow
        | Resize::Unknown => requested.to_owned(),
    }
}

/// The requested size of an existing claim, as written.
fn requested(claim: &PersistentVolumeClaim) -> Option<&str> {
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    requests.get("storage").map(|quantity| quantity.0.as_str())
}

/// A size that cannot be parsed is never exceeded.
fn bytes(requested: &str) -> u64 {
    quantity::bytes(requested).unwrap_or(u64::MAX)
}

fn class(claim: &PersistentVolumeClaim) -> Option<&String> {
    claim.spec.as_ref()?.storage_class_name.as_ref()
}

fn facts(
    claim: &PersistentVolumeClaim,
    requested: &str,
    desired: &Claim,
    classes: &Classes,
) -> ClaimFacts {
    let requested_bytes = bytes(requested);
    let status = claim.status.as_ref();
    let is = |kind: &str| {
        let conditions = status.and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|one| one.type_ == kind && one.status == "True")
    };
    let can_grow = |class: &Option<StorageClass>| {
        class.as_ref().and_then(|class| class.allow_volume_expansion).unwrap_or(false)
    };
    let expandable = match class(claim) {
        Some(class) if requested_bytes < desired.size.bytes() => classes.get(class).map(can_grow),
        Some(_) | None => Some(false),
    };
    ClaimFacts {
        requested_bytes,
        bound: status.and_then(|status| status.phase.as_deref()) == Some("Bound"),
        resizing: is("Resizing"),
        file_system_pending: is("FileSystemResizePending"),
        expandable,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use control::quorum::format::QuorumMode;
    use serde_json::{Value, json};

    use super::*;
    use crate::samples::{blueprint, seen};
    use crate::{Object, object};

    const ORIGIN: Origin<'_> = Origin { cluster_id: "id", mode: QuorumMode::Dynamic };

    /// An existing claim of broker 0 that is bound, with 10Gi of the class `fast`.
    fn existing() -> Value {
        json!({
            "metadata": { "name": "data-my-broker-0" },
            "spec": {
                "storageClassName": "fast",
                "resources": { "requests": { "storage": "10Gi" } },
            },
            "status": { "phase": "Bound", "conditions": [] },
        })
    }

    fn condition(kind: &str) -> Value {
        json!([{ "type": kind, "status": "True" }])
    }

    fn classes(expandable: Value) -> Classes {
        let metadata = json!({ "name": "fast" });
        let class =
            json!({ "metadata": metadata, "provisioner": "p", "allowVolumeExpansion": expandable });
        [("fast".to_owned(), Some(object(class).unwrap()))].into()
    }

    /// The size that the claim of broker 0 asks for, with the warnings.
    fn asked(size: &str, claim: Option<Value>, classes: &Classes) -> (String, Vec<String>) {
        let pool = json!({ "storage": { "type": "persistent-claim", "size": size } });
        let mut found = Found::default();
        let named = claim.map(|claim| ("data-my-broker-0".to_owned(), object(claim).unwrap()));
        found.claims.extend(named);
        let built = build(&blueprint(json!({}), pool), &found, ORIGIN, classes).unwrap();
        seen(&built.warnings, &built.flow);
        let warnings = built.warnings.into_iter().map(|note| {
            assert_eq!(note.reason, Reason::PvcResizingWarning);
            note.message
        });
        let Object::PersistentVolumeClaim(claim) = &built.objects[0] else { panic!() };
        (requested(claim).unwrap().to_owned(), warnings.collect())
    }

    #[test]
    #[rustfmt::skip]
    pub(in crate::areas) fn a_claim_grows_if_it_can_and_never_shrinks() {
        let (yes, no) = (|| classes(json!(true)), || classes(json!(false)));
        let (silent, unread) = (|| classes(json!(null)), Classes::new);
        let absent = || Classes::from([("fast".to_owned(), None)]);
        // The size in the spec, the class, how the existing claim differs, the size that is asked for, the warning.
        let rows: [(&str, Classes, fn(&mut Value), &str, &str); 13] = [
            ("10Gi",    yes(),    |_| {}, "10Gi", ""),
            ("10240Mi", yes(),    |_| {}, "10Gi", ""),
            ("11Gi",    yes(),    |_| {}, "11Gi", ""),
            ("9Gi",     yes(),    |_| {}, "10Gi", "a claim cannot shrink; set its size back"),
            ("11Gi",    no(),     |_| {}, "10Gi", "its storage class does not allow volumes to grow"),
            ("11Gi",    silent(), |_| {}, "10Gi", "its storage class does not allow volumes to grow"),
            ("11Gi",    absent(), |_| {}, "10Gi", "its storage class does not allow volumes to grow"),
            ("11Gi",    unread(), |_| {}, "10Gi", "its storage class could not be read"),
            ("11Gi",    yes(),    |c| c["spec"]["storageClassName"] = json!(null), "10Gi", "its storage class does not allow volumes to grow"),
            ("11Gi",    yes(),    |c| c["status"]["phase"] = json!("Pending"), "10Gi", ""),
            ("12Gi",    yes(),    |c| c["status"]["conditions"] = condition("Resizing"), "10Gi", ""),
            ("10Gi",    yes(),    |c| c["status"]["conditions"] = condition("FileSystemResizePending"), "10Gi", ""),
            ("11Gi",    yes(),    |c| c["spec"]["resources"] = json!({}), "11Gi", ""),
        ];
        for (desired, classes, change, expected, warning) in rows {
            let mut claim = existing();
            change(&mut claim);
            let (size, warnings) = asked(desired, Some(claim.clone()), &classes);
            let warning = match warning {
                "" => Vec::new(),
                why => vec![format!("claim data-my-broker-0 is not resized: {why}")],
            };
            assert_eq!((size.as_str(), warnings), (expected, warning), "{desired} {claim}");
        }
    }

    #[test]
    fn a_claim_that_does_not_exist_asks_for_the_size_in_the_spec() {
        assert_eq!(asked("11Gi", None, &Classes::new()), ("11Gi".to_owned(), Vec::new()));
    }

    #[test]
    fn a_class_is_read_only_for_a_claim_that_should_grow() {
        let needed = |size: &str, claim: Value| {
            let pool = json!({ "storage": { "type": "persistent-claim", "size": size } });
            let mut found = Found::default();
            found.claims.insert("data-my-broker-0".to_owned(), object(claim).unwrap());
            needs(&blueprint(json!({}), pool), &found).into_iter().collect::<Vec<_>>()
        };
        let mut without = existing();
        without["spec"]["storageClassName"] = json!(null);
        assert_eq!(needed("11Gi", existing()), ["fast"]);
        assert_eq!(needed("10Gi", existing()), Vec::<String>::new());
        assert_eq!(needed("9Gi", existing()), Vec::<String>::new());
        assert_eq!(needed("11Gi", without), Vec::<String>::new());
    }

    #[test]
    fn every_volume_of_every_node_has_a_claim() {
        let volume = |id: u32, kind: &str| json!({ "id": id, "type": kind, "size": "1Gi" });
        let volumes = json!([
            volume(0, "persistent-claim"),
            { "id": 1, "type": "ephemeral" },
            volume(2, "persistent-claim"),
        ]);
        let pool = json!({ "storage": { "type": "jbod", "volumes": volumes } });
        let blueprint = blueprint(json!({}), pool);
        let built = build(&blueprint, &Found::default(), ORIGIN, &Classes::new()).unwrap();
        let names: Vec<_> = built.objects.iter().map(Object::name).collect();
        let expected = [
            "data-0-my-broker-0",
            "data-2-my-broker-0",
            "data-0-my-broker-1",
            "data-2-my-broker-1",
            "data-0-my-controller-2",
            "data-2-my-controller-2",
        ];
        assert_eq!(names, expected);
    }
}
