//! Decisions about claims and volumes, as tables.

use serde_json::{Value, json};

use super::*;

fn nodes() -> Vec<NodeVolumes> {
    ["a", "b"].map(|name| NodeVolumes::new(name, Path::new("/state").join(name))).to_vec()
}

fn claim(changes: &Value) -> PersistentVolumeClaim {
    let mut object = json!({
        "metadata": {"name": "data-0", "namespace": "ns", "uid": "u1", "resourceVersion": "7",
                     "annotations": {SELECTED_NODE: "a"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "gregor-local",
                 "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    });
    merge(&mut object, changes);
    serde_json::from_value(object).unwrap()
}

fn volume(changes: &Value) -> PersistentVolume {
    let mut object = json!({
        "metadata": {"name": "pvc-u1", "annotations": {PROVISIONED_BY: PROVISIONER},
                     "finalizers": [FINALIZER]},
        "spec": {"capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Delete",
                 "claimRef": {"uid": "u1", "name": "data-0", "namespace": "ns"},
                 "local": {"path": "/state/a/volumes/pvc-u1/data"},
                 "nodeAffinity": affinity("a")},
        "status": {"phase": "Bound"},
    });
    merge(&mut object, changes);
    serde_json::from_value(object).unwrap()
}

fn merge(into: &mut Value, changes: &Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(into.entry(key).or_insert(Value::Null), change);
            }
        }
        (into, change) => *into = change.clone(),
    }
}

fn class(provisioner: &str, policy: &str) -> StorageClass {
    serde_json::from_value(json!({
        "metadata": {"name": "gregor-local"}, "provisioner": provisioner, "reclaimPolicy": policy,
    }))
    .unwrap()
}

fn step(changes: &Value) -> ClaimStep {
    claim_step(&claim(changes), Some(&class(PROVISIONER, "Delete")), None, &nodes())
}

#[test]
fn a_claim_gets_a_volume_only_when_all_is_known_and_ours() {
    assert!(matches!(step(&json!({})), ClaimStep::Provision(_)));
    let rows = [
        json!({"metadata": {"annotations": {SELECTED_NODE: "elsewhere"}}}),
        json!({"metadata": {"annotations": null}}),
        json!({"metadata": {"deletionTimestamp": "2026-11-15T00:00:00Z"}}),
        json!({"spec": {"volumeName": "mine-already"}}),
    ];
    for row in rows {
        assert_eq!(step(&row), ClaimStep::Nothing, "{row}");
    }
    let foreign = class("someone.else/disk", "Delete");
    assert_eq!(claim_step(&claim(&json!({})), Some(&foreign), None, &nodes()), ClaimStep::Nothing);
    assert_eq!(claim_step(&claim(&json!({})), None, None, &nodes()), ClaimStep::Nothing);
}

#[test]
fn the_volume_is_bound_to_its_claim_and_node() {
    let claim = claim(&json!({"metadata": {"annotations": {SELECTED_NODE: "b"}}}));
    let class = class(PROVISIONER, "Retain");
    let ClaimStep::Provision(new) = claim_step(&claim, Some(&class), None, &nodes()) else {
        panic!("a volume is expected");
    };
    assert_eq!(new.volumes, Path::new("/state/b/volumes"));
    assert_eq!((new.mark.uid.as_str(), new.mark.size.as_str()), ("u1", "1Gi"));
    let object = serde_json::to_value(&new.object).unwrap();
    assert_eq!(object["metadata"]["name"], "pvc-u1");
    assert_eq!(object["metadata"]["annotations"][PROVISIONED_BY], PROVISIONER);
    assert_eq!(object["spec"]["local"]["path"], "/state/b/volumes/pvc-u1/data");
    assert_eq!(object["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(object["spec"]["claimRef"]["uid"], "u1");
    assert_eq!(object["spec"]["capacity"]["storage"], "1Gi");
    let term = &object["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0];
    assert_eq!(term["matchExpressions"][0]["values"], json!(["b"]));
}

#[test]
fn what_cannot_be_had_is_refused() {
    let rows = [
        (json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}), Refusal::Selector),
        (json!({"spec": {"volumeMode": "Block"}}), Refusal::Block),
        (json!({"spec": {"accessModes": ["ReadWriteMany"]}}), Refusal::SharedAccess),
        (
            json!({"spec": {"dataSource": {"kind": "VolumeSnapshot", "name": "s"}}}),
            Refusal::DataSource,
        ),
        (json!({"spec": {"resources": null}}), Refusal::NoSize),
    ];
    for (changes, expected) in rows {
        assert_eq!(step(&changes), ClaimStep::Refuse(expected), "{changes}");
        assert!(!expected.words().contains("  "));
    }
}

#[test]
fn a_claim_and_its_volume_grow_and_never_shrink() {
    // (requested, the volume's capacity, the claim's capacity) -> (volume changes, claim changes)
    let rows = [
        ("1Gi", "1Gi", "1Gi", None),
        ("2Gi", "1Gi", "1Gi", Some(true)),
        ("2Gi", "2Gi", "1Gi", Some(false)),
        ("1Gi", "2Gi", "2Gi", None),
        ("1024Mi", "1Gi", "1Gi", None),
    ];
    for (requested, of_volume, of_claim, expected) in rows {
        let claim = claim(&json!({
            "spec": {"volumeName": "pvc-u1", "resources": {"requests": {"storage": requested}}},
            "status": {"phase": "Bound", "capacity": {"storage": of_claim}},
        }));
        let volume = volume(&json!({"spec": {"capacity": {"storage": of_volume}}}));
        let expected = expected.map_or(ClaimStep::Nothing, |volume_grows| {
            ClaimStep::Grow(Growth {
                volume: volume_grows.then(|| "pvc-u1".to_owned()),
                size: Quantity(requested.to_owned()),
            })
        });
        let found = claim_step(&claim, None, Some(&volume), &nodes());
        assert_eq!(found, expected, "{requested} {of_volume} {of_claim}");
    }
}

#[test]
fn data_is_removed_only_when_released_with_delete_and_ours() {
    let doomed =
        VolumeStep::Remove(Doomed { volumes: "/state/a/volumes".into(), uid: "u1".to_owned() });
    let deleted = "2026-11-15T00:00:00Z";
    let released = json!({"status": {"phase": "Released"}});
    assert_eq!(volume_step(&volume(&released), &nodes()), doomed);
    // Another directory, and the same directory on another machine.
    for elsewhere in [NodeVolumes::new("a", "/state/c"), NodeVolumes::new("c", "/state/a")] {
        assert_eq!(volume_step(&volume(&released), &[elsewhere]), VolumeStep::Nothing);
    }
    let rows = [
        (json!({}), VolumeStep::Nothing),
        (json!({"metadata": {"deletionTimestamp": deleted}}), VolumeStep::Nothing),
        (
            json!({"metadata": {"annotations": {PROVISIONED_BY: "x"}}, "status": {"phase": "Released"}}),
            VolumeStep::Nothing,
        ),
        (
            json!({"spec": {"local": {"path": "/elsewhere/precious"}}, "status": {"phase": "Released"}}),
            VolumeStep::Nothing,
        ),
        (
            json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}, "status": {"phase": "Released"}}),
            VolumeStep::Nothing,
        ),
        (
            json!({"metadata": {"deletionTimestamp": deleted},
                "spec": {"persistentVolumeReclaimPolicy": "Retain"}, "status": {"phase": "Released"}}),
            VolumeStep::LetGo,
        ),
        (
            json!({"metadata": {"deletionTimestamp": deleted},
                "spec": {"persistentVolumeReclaimPolicy": "Retain"}}),
            VolumeStep::Nothing,
        ),
        (
            json!({"metadata": {"deletionTimestamp": deleted}, "status": {"phase": "Released"}}),
            doomed,
        ),
    ];
    for (changes, expected) in rows {
        assert_eq!(volume_step(&volume(&changes), &nodes()), expected, "{changes}");
    }
}
