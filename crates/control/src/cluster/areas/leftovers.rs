//! Objects of nodes, pools and listeners that are gone.
//!
//! Only objects with the labels of this cluster are deleted, only of kinds that say which node, pool or listener they
//! belong to, and only by uid. Claims are kept unless they are to be deleted with their node.

use std::collections::BTreeSet;

use crate::cluster::act::{Rule, What};
use crate::cluster::draft::{Draft, Flow};
use crate::cluster::snapshot::{ObjectKind, ObjectView, Snapshot};

/// Decides which objects are deleted.
pub fn decide(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    let leftover = snapshot.objects.iter().filter(|object| is_leftover(snapshot, object));
    for object in leftover.filter(|object| !object.deleting) {
        let (kind, name, uid) = (object.kind, object.name.clone(), object.uid.clone());
        draft.act(What::Delete { kind, name, uid }, Rule::NothingNeedsIt);
    }
    // A recorded node may come back, whether it runs or not: its claims are for the guard of its removal.
    let recorded = snapshot.nodes.values().map(|node| node.pod.as_str());
    let pods: BTreeSet<&str> = recorded.chain(snapshot.pods.keys().map(String::as_str)).collect();
    let is_named = |name: &str| pods.iter().any(|pod| name.ends_with(&format!("-{pod}")));
    for (name, claim) in &snapshot.claims {
        if claim.ours && claim.delete_with_node && !claim.deleting && !is_named(name) {
            let (name, uid) = (name.clone(), claim.uid.clone());
            draft.act(What::DeleteClaim { name, uid }, Rule::NothingNeedsIt);
        }
    }
    Flow::Go
}

fn is_leftover(snapshot: &Snapshot, object: &ObjectView) -> bool {
    let current = || snapshot.nodes.values().filter(|node| node.current.is_some());
    match object.kind {
        // A node whose pod exists is not gone, whatever was decided.
        ObjectKind::ConfigMap | ObjectKind::Secret => object.pod.as_ref().is_some_and(|pod| {
            !current().any(|node| node.pod == *pod) && !snapshot.pods.contains_key(pod)
        }),
        ObjectKind::Service => {
            let services = snapshot.desired.services.as_ref();
            object.ours && services.is_some_and(|names| !names.contains(&object.name))
        }
        ObjectKind::PodSet => object.pool.as_ref().is_some_and(|pool| {
            let has_pods = snapshot.pods.values().any(|pod| pod.pool.as_ref() == Some(pool));
            object.ours && !current().any(|node| node.pool == *pool) && !has_pods
        }),
        // There is one for the cluster; a claim belongs to a node, and is decided on as such.
        ObjectKind::ServiceAccount
        | ObjectKind::NetworkPolicy
        | ObjectKind::PodDisruptionBudget
        | ObjectKind::ClusterRoleBinding
        | ObjectKind::PersistentVolumeClaim => false,
    }
}

#[cfg(test)]
pub(in crate::cluster) mod tests {
    use super::*;
    use crate::cluster::areas::samples::{brief, id, settled};

    fn object(kind: ObjectKind, name: &str) -> ObjectView {
        let view = ObjectView {
            kind,
            name: name.to_owned(),
            uid: "u".to_owned(),
            ours: true,
            deleting: false,
            pod: None,
            pool: None,
        };
        match kind {
            ObjectKind::ConfigMap | ObjectKind::Secret => {
                ObjectView { pod: Some(name.to_owned()), ..view }
            }
            ObjectKind::PodSet => ObjectView { pool: Some(name.to_owned()), ..view },
            ObjectKind::Service
            | ObjectKind::ServiceAccount
            | ObjectKind::NetworkPolicy
            | ObjectKind::PodDisruptionBudget
            | ObjectKind::ClusterRoleBinding
            | ObjectKind::PersistentVolumeClaim => view,
        }
    }

    type Change = fn(&mut Snapshot, &mut ObjectView);

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        use ObjectKind::{ConfigMap, PodSet, Secret, Service};
        // An object, what differs from a settled cluster with it, whether it is deleted.
        let rows: [(&str, ObjectKind, &str, Change, bool); 14] = [
            ("of a node",                    ConfigMap, "c-broker-3", |_, _| {}, false),
            ("of a node that is gone",       ConfigMap, "c-broker-9", |_, _| {}, true),
            ("of a node that is gone",       Secret,    "c-broker-9", |_, _| {}, true),
            ("which is being deleted",       Secret,    "c-broker-9", |_, o| o.deleting = true, false),
            ("of no node",                   Secret,    "c-ca",       |_, o| o.pod = None, false),
            ("of a node without its pod",    Secret,    "c-broker-3", |s, _| { s.pods.remove("c-broker-3"); }, false),
            ("of one that is stopped",       Secret,    "c-broker-3", |s, _| { s.pods.remove("c-broker-3"); s.nodes.get_mut(&id(3)).unwrap().current = None; }, true),
            ("of one whose pod still runs",  Secret,    "c-broker-3", |s, _| s.nodes.get_mut(&id(3)).unwrap().current = None, false),
            ("of a listener",                Service,   "c-outside",  |s, _| s.desired.services = Some(["c-outside".to_owned()].into()), false),
            ("of a listener that is gone",   Service,   "c-outside",  |_, _| {}, true),
            ("of listeners that are unknown", Service,  "c-outside",  |s, _| s.desired.services = None, false),
            ("of another owner",             Service,   "c-mine",     |_, o| o.ours = false, false),
            ("of a pool",                    PodSet,    "broker",     |_, _| {}, false),
            ("of a pool that is gone",       PodSet,    "old",        |_, _| {}, true),
        ];
        for (name, kind, of, change, expected) in rows {
            let (mut snapshot, record) = settled();
            let mut object = object(kind, of);
            change(&mut snapshot, &mut object);
            snapshot.objects.push(object);
            let (acts, flow, _) = brief(decide, &snapshot, &record);
            assert_eq!((!acts.is_empty(), flow.as_str()), (expected, "go"), "{kind:?} {name}: {acts}");
        }
    }

    #[test]
    fn a_claim_is_deleted_only_if_it_is_to_go_with_a_node_that_is_not_recorded() {
        let (mut snapshot, record) = settled();
        assert_eq!(brief(decide, &snapshot, &record).0, "");
        let claim = snapshot.claims["data-c-broker-3"].clone();
        snapshot.claims.insert("data-c-broker-13".to_owned(), claim);
        assert_eq!(
            brief(decide, &snapshot, &record).0,
            "delete PersistentVolumeClaim data-c-broker-13"
        );
        let differences: [fn(&mut crate::cluster::snapshot::ClaimView); 3] = [
            |claim| claim.ours = false,
            |claim| claim.delete_with_node = false,
            |claim| claim.deleting = true,
        ];
        for difference in differences {
            let mut snapshot = snapshot.clone();
            difference(snapshot.claims.get_mut("data-c-broker-13").unwrap());
            assert_eq!(brief(decide, &snapshot, &record).0, "");
        }
        // A pod that exists is not gone, whatever is recorded.
        let pod = snapshot.pods["c-broker-3"].clone();
        snapshot.pods.insert("c-broker-13".to_owned(), pod);
        assert_eq!(brief(decide, &snapshot, &record).0, "");
    }

    /// The rows with the acts and the reasons of the area.
    pub(in crate::cluster) fn rows() {
        the_rows_hold();
        a_claim_is_deleted_only_if_it_is_to_go_with_a_node_that_is_not_recorded();
    }
}
