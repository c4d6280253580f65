//! Objects that are built from the spec: those that do not exist or differ are applied, in their order.

use crate::cluster::act::{Rule, What};
use crate::cluster::area::Area;
use crate::cluster::draft::{Draft, Flow};
use crate::cluster::snapshot::Snapshot;

/// ServiceAccounts, NetworkPolicies, PodDisruptionBudgets.
pub fn access(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    apply(snapshot, draft, Area::Access)
}

/// Services.
pub fn services(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    apply(snapshot, draft, Area::Services)
}

/// PersistentVolumeClaims.
pub fn claims(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    apply(snapshot, draft, Area::Claims)
}

/// The configuration of nodes.
pub fn configuration(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    apply(snapshot, draft, Area::Configuration)
}

/// Pod sets.
pub fn workload(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    apply(snapshot, draft, Area::Workload)
}

fn apply(snapshot: &Snapshot, draft: &mut Draft, area: Area) -> Flow {
    let Some(built) = snapshot.built.get(&area) else { return Flow::Go };
    draft.warnings.extend(built.warnings.iter().cloned());
    for (key, uid) in &built.outdated {
        let what = What::Delete { kind: key.kind, name: key.name.clone(), uid: uid.clone() };
        draft.act(what, Rule::ObjectIsOutdated);
    }
    for key in &built.changes {
        draft.act(What::Apply(key.clone()), Rule::ObjectDiffers);
    }
    for name in &built.orphans {
        draft.act(What::ShrinkPodSet { name: name.clone() }, Rule::PoolIsGone);
    }
    built.flow.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::areas::samples::{brief, settled};
    use crate::cluster::snapshot::{BuiltView, ObjectKey, ObjectKind};
    use crate::conditions::{Note, Reason};

    #[test]
    fn what_differs_is_applied_in_its_order_and_the_rest_is_left_alone() {
        let deciders: [(Area, fn(&Snapshot, &mut Draft) -> Flow); 5] = [
            (Area::Access, access),
            (Area::Services, services),
            (Area::Claims, claims),
            (Area::Configuration, configuration),
            (Area::Workload, workload),
        ];
        for (area, decide) in deciders {
            let (mut snapshot, record) = settled();
            assert_eq!(brief(decide, &snapshot, &record).0, "", "{area}");
            let key = |kind, name: &str| ObjectKey { kind, name: name.to_owned() };
            let built = BuiltView {
                outdated: vec![(key(ObjectKind::ClusterRoleBinding, "b"), "uid".to_owned())],
                changes: vec![key(ObjectKind::Service, "z"), key(ObjectKind::ConfigMap, "a")],
                orphans: vec!["c-old".to_owned()],
                warnings: vec![Note::new(Reason::InvalidJvmOptions, "no")],
                flow: Flow::Wait(Note::new(Reason::Creating, "soon")),
            };
            snapshot.built.insert(area, built);
            let (acts, flow, draft) = brief(decide, &snapshot, &record);
            let expected = "delete ClusterRoleBinding b; apply Service z; apply ConfigMap a; \
                            shrink StrimziPodSet c-old";
            assert_eq!((acts.as_str(), flow.as_str()), (expected, "wait Creating"), "{area}");
            assert_eq!(draft.warnings.len(), 1, "{area}");
        }
    }
}
