//! Objects that are built from the spec: those that do not exist or differ are applied, in their order.
//!
//! A pod set that loses a pod stops a node. That it may be stopped is recorded, by an earlier pass. What this pass reads
//! can only take that back: the set is left unchanged, and a later pass builds it with the pod.

use std::collections::BTreeMap;

use model::NodeId;

use crate::cluster::act::{Act, Rule, What};
use crate::cluster::area::Area;
use crate::cluster::draft::{Draft, Flow};
use crate::cluster::record::Record;
use crate::cluster::snapshot::{Needs, Snapshot};
use crate::conditions::Note;
use crate::node::Roles;
use crate::scaling::guard::Phase;

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

/// The facts that pod sets require: partitions, if a broker is to be stopped.
#[must_use]
pub fn workload_needs(snapshot: &Snapshot, draft: &Draft) -> Needs {
    let stops = snapshot.built.get(&Area::Workload).map(|built| &built.stops);
    let mut stopped = stops.into_iter().flat_map(BTreeMap::values).flatten();
    let is_stopping = stopped.any(|id| is_stopping(&draft.record, *id));
    Needs { partitions: is_stopping && snapshot.kafka.partitions.is_unread(), ..Needs::default() }
}

fn is_stopping(record: &Record, id: NodeId) -> bool {
    record.leaving.get(&id).is_some_and(|one| one.phase == Phase::Stopping)
}

/// Whether a node that is about to be stopped must run after all: the user asks for it again, replicas were assigned to
/// it, or it votes. Unknown facts do not count: that it may be stopped is recorded.
fn is_needed(snapshot: &Snapshot, record: &Record, id: NodeId) -> bool {
    let desired = snapshot.nodes.get(&id).and_then(|node| node.desired);
    let has_replicas = || {
        let all = snapshot.partitions();
        !snapshot.desired.skip_partition_check
            && all.is_some_and(|all| all.assigned().contains_key(&id))
    };
    let votes = || {
        let quorum = snapshot.kafka.quorum.known();
        quorum.is_some_and(|one| one.leader == id || one.voters.iter().any(|it| it.id == id))
    };
    let as_broker =
        is_stopping(record, id) && (desired.is_some_and(Roles::is_broker) || has_replicas());
    as_broker || (record.released_controllers.contains(&id) && votes())
}

/// How a pass goes on after an area whose objects could not be built. A guest, who has fewer rights than the operator,
/// may be denied what only the access of nodes needs; nothing else depends on that.
#[must_use]
pub fn unbuilt(area: Area, why: Note, is_guest: bool) -> Flow {
    if is_guest && area == Area::Access { Flow::Wait(why) } else { Flow::Hold(why) }
}

fn apply(snapshot: &Snapshot, draft: &mut Draft, area: Area) -> Flow {
    let Some(built) = snapshot.built.get(&area) else { return Flow::Go };
    draft.warnings.extend(built.warnings.iter().cloned());
    for (key, uid) in &built.outdated {
        let what = What::Delete { kind: key.kind, name: key.name.clone(), uid: uid.clone() };
        draft.act(what, Rule::ObjectIsOutdated);
    }
    let is_needed = |name: &String| {
        let stops = built.stops.get(name);
        stops.is_some_and(|ids| ids.iter().any(|id| is_needed(snapshot, &draft.record, *id)))
    };
    let mut acts = Vec::new();
    for key in built.changes.iter().filter(|key| !is_needed(&key.name)) {
        let what = What::Apply(key.clone());
        acts.push(match built.stops.contains_key(&key.name) {
            true => Act::stopping(what, Rule::ObjectDiffers),
            false => Act::new(what, Rule::ObjectDiffers),
        });
    }
    for name in built.orphans.iter().filter(|name| !is_needed(name)) {
        acts.push(Act::new(What::ShrinkPodSet { name: name.clone() }, Rule::PoolIsGone));
    }
    draft.acts.extend(acts);
    built.flow.clone()
}

#[cfg(test)]
pub(in crate::cluster) mod tests {
    use model::{TopicName, TopicPartition};

    use super::*;
    use crate::cluster::areas::samples::{asked, brief, empty, id, settled};
    use crate::cluster::fact::Fact;
    use crate::cluster::fresh::Freshness;
    use crate::cluster::snapshot::{BuiltView, ObjectKey, ObjectKind};
    use crate::conditions::Reason;
    use crate::rolling::availability::PartitionFacts;
    use crate::scaling::leaving::{Kind, Leaving};

    type Decide = fn(&Snapshot, &mut Draft) -> Flow;

    /// The areas, and a reason that each gives.
    const AREAS: [(Area, Decide, Reason); 5] = [
        (Area::Access, access, Reason::InvalidTemplate),
        (Area::Services, services, Reason::AwaitingAddresses),
        (Area::Claims, claims, Reason::PvcResizingWarning),
        (Area::Configuration, configuration, Reason::InvalidJvmOptions),
        (Area::Workload, workload, Reason::Creating),
    ];

    /// The rows with the acts of an area.
    pub(in crate::cluster) fn rows(area: Area) {
        for row in AREAS.into_iter().filter(|(of, ..)| *of == area) {
            applies_what_differs(row);
        }
    }

    fn applies_what_differs((area, decide, reason): (Area, Decide, Reason)) {
        let (mut snapshot, record) = settled();
        assert_eq!(brief(decide, &snapshot, &record).0, "", "{area}");
        let key = |kind, name: &str| ObjectKey { kind, name: name.to_owned() };
        let mut built = BuiltView {
            changes: vec![key(ObjectKind::Service, "z"), key(ObjectKind::ConfigMap, "a")],
            warnings: vec![Note::new(reason, "no")],
            flow: Flow::Wait(Note::new(reason, "soon")),
            ..BuiltView::default()
        };
        let mut expected = "apply Service z; apply ConfigMap a".to_owned();
        if area == Area::Access {
            built.outdated = vec![(key(ObjectKind::ClusterRoleBinding, "b"), "uid".to_owned())];
            expected.insert_str(0, "delete ClusterRoleBinding b; ");
        }
        if area == Area::Workload {
            built.orphans = vec!["c-old".to_owned()];
            expected.push_str("; shrink StrimziPodSet c-old");
        }
        snapshot.built.insert(area, built);
        let (acts, flow, draft) = brief(decide, &snapshot, &record);
        assert_eq!((acts, flow), (expected, format!("wait {reason}")), "{area}");
        assert_eq!(draft.warnings.len(), 1, "{area}");
    }

    #[test]
    fn what_differs_is_applied_in_its_order_and_the_rest_is_left_alone() {
        AREAS.into_iter().for_each(applies_what_differs);
    }

    #[test]
    fn what_cannot_be_built_holds_the_pass_up_but_not_for_a_guest_without_rights() {
        let why = || Note::new(Reason::KubernetesUnreadable, "no");
        for (area, ..) in AREAS {
            assert_eq!(unbuilt(area, why(), false), Flow::Hold(why()), "{area}");
            let expected = match area == Area::Access {
                true => Flow::Wait(why()),
                false => Flow::Hold(why()),
            };
            assert_eq!(unbuilt(area, why(), true), expected, "{area}");
        }
    }

    /// A cluster whose broker 5 is to be stopped, or whose controller 2 is, with the pod set that says so.
    fn stopping(node: i32) -> (Snapshot, Record) {
        let (mut snapshot, mut record) = settled();
        empty(&mut snapshot);
        snapshot.nodes.get_mut(&id(node)).unwrap().desired = None;
        let name = if node == 2 { "c-controller" } else { "c-broker" };
        let key = ObjectKey { kind: ObjectKind::PodSet, name: name.to_owned() };
        let stops = [(name.to_owned(), [id(node)].into())].into();
        let built = BuiltView { changes: vec![key], stops, ..BuiltView::default() };
        snapshot.built.insert(Area::Workload, built);
        if node == 2 {
            record.released_controllers.insert(id(2));
            let Fact::Read { value, .. } = &mut snapshot.kafka.quorum else { panic!("unknown") };
            value.voters.retain(|voter| voter.id != id(2));
        } else {
            let (kind, pool) = (Kind::Node, "broker".to_owned());
            record.leaving.insert(id(5), Leaving { phase: Phase::Stopping, kind, pool });
        }
        (snapshot, record)
    }

    fn assign(snapshot: &mut Snapshot, node: i32) {
        let Fact::Read { value, .. } = &mut snapshot.kafka.partitions else { panic!("unread") };
        value.facts.push(PartitionFacts {
            partition: TopicPartition::new(TopicName::new("t").unwrap(), 0),
            replicas: vec![id(node)],
            isr: vec![id(node)],
            adding: Vec::new(),
            removing: Vec::new(),
            min_isr: Some(1),
        });
    }

    type Change = fn(&mut Snapshot, &mut Record);

    #[test]
    #[rustfmt::skip]
    fn a_node_that_is_needed_again_is_not_stopped() {
        let rows: [(&str, i32, Change, bool); 9] = [
            ("a broker without partitions",        5, |_, _| {}, true),
            ("replicas were assigned to it",       5, |s, _| assign(s, 5), false),
            ("to another one",                     5, |s, _| assign(s, 4), true),
            ("the user waives the check",          5, |s, _| { assign(s, 5); s.desired.skip_partition_check = true; }, true),
            ("partitions are unknown",             5, |s, _| s.kafka.partitions = Fact::default(), true),
            ("the user asks for it again",         5, |s, _| s.nodes.get_mut(&id(5)).unwrap().desired = Some(Roles::Broker), false),
            ("a controller that was released",     2, |_, _| {}, true),
            ("it leads",                           2, |s, _| { let Fact::Read { value, .. } = &mut s.kafka.quorum else { panic!() }; value.leader = id(2); }, false),
            ("it votes again",                     2, |s, _| s.kafka.quorum = settled().0.kafka.quorum, false),
        ];
        for (name, node, change, is_applied) in rows {
            let (mut snapshot, mut record) = stopping(node);
            change(&mut snapshot, &mut record);
            let (acts, _, draft) = brief(workload, &snapshot, &record);
            assert_eq!(!acts.is_empty(), is_applied, "{name}: {acts}");
            // Its facts have to be fresh.
            assert!(draft.acts.iter().all(|act| act.fresh == Freshness::of_stop()), "{name}");
        }
        let (mut snapshot, record) = stopping(5);
        let built = snapshot.built.get_mut(&Area::Workload).unwrap();
        built.changes.clear();
        built.orphans.push("c-broker".to_owned());
        assert_eq!(brief(workload, &snapshot, &record).0, "shrink StrimziPodSet c-broker");
        assign(&mut snapshot, 5);
        assert_eq!(brief(workload, &snapshot, &record).0, "");
    }

    #[test]
    fn partitions_are_read_before_a_broker_is_stopped() {
        for (node, expected) in [(5, true), (2, false)] {
            let (mut snapshot, record) = stopping(node);
            assert!(asked(workload_needs, &snapshot, &record).is_empty());
            snapshot.kafka.partitions = Fact::default();
            assert_eq!(asked(workload_needs, &snapshot, &record).partitions, expected, "{node}");
        }
    }
}
