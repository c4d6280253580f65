//! Equality of objects, as tables.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[track_caller]
fn same(stored: Value, desired: Value) {
    assert!(contains(&stored, &desired), "{desired} is in {stored}");
}

#[track_caller]
fn differs(stored: Value, desired: Value) {
    assert!(!contains(&stored, &desired), "{desired} is not in {stored}");
}

#[test]
fn what_the_server_adds_is_no_difference() {
    let stored = json!({
        "metadata": { "name": "a", "uid": "1", "labels": { "a": "b", "theirs": "c" } },
        "spec": { "clusterIP": "10.0.0.1", "ports": [{ "port": 1, "protocol": "TCP" }] },
    });
    same(
        stored.clone(),
        json!({
            "metadata": { "name": "a", "labels": { "a": "b" } },
            "spec": { "ports": [{ "port": 1 }] },
        }),
    );
    differs(stored.clone(), json!({ "metadata": { "labels": { "a": "x" } } }));
    differs(stored.clone(), json!({ "metadata": { "labels": { "b": "b" } } }));
    differs(stored.clone(), json!({ "spec": { "ports": [{ "port": 1 }, { "port": 2 }] } }));
    differs(stored, json!({ "spec": { "ports": [] } }));
}

#[test]
fn nothing_is_nothing_in_all_its_forms() {
    let desired = json!({ "spec": { "a": null, "b": [], "c": {}, "d": "", "e": { "f": null } } });
    same(json!({ "spec": {} }), desired.clone());
    same(json!({}), desired);
    same(json!({ "spec": { "a": null } }), json!({ "spec": { "a": [] } }));
    differs(json!({ "spec": {} }), json!({ "spec": { "replicas": 0 } }));
    differs(json!({ "spec": {} }), json!({ "spec": { "automount": false } }));
    same(json!({ "spec": {} }), json!({ "spec": { "hostNetwork": false } }));
    differs(
        json!({ "spec": { "hostNetwork": true } }),
        json!({ "spec": { "hostNetwork": false } }),
    );
}

#[test]
fn amounts_are_compared_by_value_where_values_are_amounts() {
    let resources =
        |memory: Value| json!({ "spec": { "resources": { "requests": { "m": memory } } } });
    for (a, b) in [
        ("1Gi", "1024Mi"),
        ("1", "1000m"),
        ("0.5", "500m"),
        ("1e3", "1k"),
        ("1.5Gi", "1536Mi"),
        ("+2", "2"),
        ("100u", "0.1m"),
    ] {
        same(resources(json!(a)), resources(json!(b)));
        same(resources(json!(b)), resources(json!(a)));
    }
    same(resources(json!("2")), resources(json!(2)));
    for (a, b) in [("1Gi", "1G"), ("1", "1001m"), ("1", "x"), ("", "0"), (".", "0"), ("1z", "1")] {
        differs(resources(json!(a)), resources(json!(b)));
    }
    same(json!({ "spec": { "sizeLimit": "1Gi" } }), json!({ "spec": { "sizeLimit": "1024Mi" } }));
    // Elsewhere texts are compared as texts.
    differs(json!({ "data": { "size": "1Gi" } }), json!({ "data": { "size": "1024Mi" } }));
    let labels = |value: &str| json!({ "metadata": { "labels": { "requests": value } } });
    differs(labels("1"), labels("1000m"));
}

#[test]
fn a_secret_is_stored_in_base64() {
    let stored = json!({ "data": { "a": "eHk=", "b": "eg==" } });
    same(stored.clone(), json!({ "stringData": { "a": "xy" } }));
    differs(stored.clone(), json!({ "stringData": { "a": "xx" } }));
    differs(stored, json!({ "stringData": { "c": "" } }));
}

#[test]
fn others_may_own_and_finalize_too() {
    let stored = json!({ "metadata": {
        "finalizers": ["theirs", "ours"],
        "ownerReferences": [{ "uid": "1" }, { "uid": "2", "controller": true }],
    } });
    same(stored.clone(), json!({ "metadata": { "finalizers": ["ours"] } }));
    same(stored.clone(), json!({ "metadata": { "ownerReferences": [{ "uid": "2" }] } }));
    differs(stored, json!({ "metadata": { "ownerReferences": [{ "uid": "3" }] } }));
}

#[test]
fn the_hash_is_of_what_is_said_and_not_of_how() {
    assert_eq!(hash(&json!({ "a": 1, "b": null })), hash(&json!({ "a": 1 })));
    assert_ne!(hash(&json!({ "a": 1 })), hash(&json!({ "a": "1" })));
    assert_ne!(hash(&json!(["a", "b"])), hash(&json!(["a,b"])));
    assert_ne!(hash(&json!({ "a": { "b": 1 } })), hash(&json!({ "a": {}, "b": 1 })));
    // Stored in annotations: it must not change with a release.
    assert_eq!(hash(&json!({ "a": [1, "x"] })), "f4849afb2ac2f73e");
}

#[test]
fn a_status_is_left_alone_if_only_the_clock_moved() {
    let status = |time: &str, status: &str| {
        json!({ "conditions": [
            { "type": "Ready", "status": status, "lastTransitionTime": time, "reason": "x" },
        ] })
    };
    assert_eq!(status_patch(Some(&status("1", "True")), &status("2", "True")), None);
    let patch = status_patch(Some(&status("1", "True")), &status("2", "False"));
    assert_eq!(patch, Some(status("2", "False")));
    // The reason changed and the status did not: the transition time stays.
    let mut other = status("2", "True");
    other["conditions"][0]["reason"] = json!("y");
    let patch = status_patch(Some(&status("1", "True")), &other).unwrap();
    assert_eq!(patch["conditions"][0]["lastTransitionTime"], "1");
    assert_eq!(patch["conditions"][0]["reason"], "y");
}

#[test]
fn a_status_becomes_the_desired_one_whole() {
    let before = json!({ "a": 1, "b": { "c": 1, "d": 2 }, "e": [1], "gone": { "x": 1 } });
    let desired = json!({ "a": 1, "b": { "c": 3 }, "e": [1, 2], "none": [] });
    assert_eq!(
        status_patch(Some(&before), &desired),
        Some(json!({ "b": { "c": 3, "d": null }, "e": [1, 2], "gone": null }))
    );
    assert_eq!(status_patch(None, &json!({ "a": 1 })), Some(json!({ "a": 1 })));
    assert_eq!(status_patch(None, &json!({})), None);
}

#[test]
fn a_merge_patch_that_changes_nothing_is_known() {
    let stored = json!({ "metadata": { "annotations": { "a": "b" }, "finalizers": ["f"] } });
    let idle = json!({ "metadata": { "annotations": { "a": "b", "c": null } } });
    assert!(merges_to_itself(&stored, &idle));
    let gone = json!({ "metadata": { "annotations": { "a": null } } });
    assert!(!merges_to_itself(&stored, &gone));
    let none = json!({ "metadata": { "finalizers": [] } });
    assert!(!merges_to_itself(&stored, &none));
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (-9i64..9).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The API server's merge.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else { return *target = patch.clone() };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        let map = target.as_object_mut().unwrap();
        if value.is_null() {
            map.remove(name);
        } else {
            merge(map.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

proptest! {
    #[test]
    fn every_object_contains_itself(value in tree()) {
        let object = json!({ "spec": value });
        prop_assert!(contains(&object, &object));
    }

    #[test]
    fn a_status_patch_leads_to_the_desired_status(a in tree(), b in tree()) {
        let (before, desired) = (json!({ "x": a }), json!({ "x": b }));
        let mut result = before.clone();
        if let Some(patch) = status_patch(Some(&before), &desired) {
            merge(&mut result, &patch);
            prop_assert!(contains(&result, &desired), "{} is not {}", result, desired);
            prop_assert_eq!(status_patch(Some(&result), &desired), None);
        } else {
            prop_assert!(contains(&before, &desired));
        }
    }
}
