//! Scenarios by rows, and the invariants for generated ones.

use proptest::prelude::*;

use super::*;

fn ids(numbers: &[i32]) -> BTreeSet<NodeId> {
    numbers.iter().map(|id| NodeId::new(*id).unwrap()).collect()
}

/// A pool: its name, the ids recorded for it, how many it should have, and its two annotations.
type Row<'a> = (&'a str, &'a [i32], u32, &'a str, &'a str);

fn facts(row: &Row<'_>) -> PoolFacts {
    let (name, recorded, replicas, next, remove) = row;
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    PoolFacts {
        name: (*name).to_owned(),
        recorded: ids(recorded),
        replicas: *replicas,
        next: text(next),
        remove: text(remove),
    }
}

/// Kept, added and removed ids of each pool.
#[track_caller]
fn check(pools: &[Row<'_>], expected: &[(&[i32], &[i32], &[i32])]) {
    let pools: Vec<_> = pools.iter().map(facts).collect();
    let found = assign(&pools, &BTreeSet::new()).unwrap();
    let found: Vec<_> = found.into_iter().map(|p| (p.kept, p.added, p.removed)).collect();
    let expected: Vec<_> = expected.iter().map(|(k, a, r)| (ids(k), ids(a), ids(r))).collect();
    assert_eq!(found, expected, "{pools:?}");
}

#[test]
fn new_pools_are_numbered_one_after_the_other() {
    check(
        &[("broker", &[], 3, "", ""), ("controller", &[], 3, "", "")],
        &[(&[], &[0, 1, 2], &[]), (&[], &[3, 4, 5], &[])],
    );
}

#[test]
fn nothing_changes_when_nothing_changed() {
    check(
        &[("a", &[5, 1], 2, "[7]", "[5]"), ("b", &[0], 1, "", "")],
        &[(&[1, 5], &[], &[]), (&[0], &[], &[])],
    );
}

#[test]
fn a_growing_pool_fills_the_gaps_of_the_cluster() {
    check(
        &[("a", &[0, 2], 4, "", ""), ("b", &[3], 2, "", "")],
        &[(&[0, 2], &[1, 4], &[]), (&[3], &[5], &[])],
    );
}

#[test]
fn a_growing_pool_takes_the_ids_that_it_was_told() {
    check(
        &[("a", &[0], 4, "[100-101]", "")],
        // When the list is used up, the lowest that is free.
        &[(&[0], &[1, 100, 101], &[])],
    );
    check(&[("a", &[0], 3, "[12-10]", "")], &[(&[0], &[11, 12], &[])]);
    // Ids that somebody has are passed over.
    check(
        &[("a", &[10], 2, "[10-12]", ""), ("b", &[], 2, "[10-20]", "")],
        &[(&[10], &[11], &[]), (&[], &[12, 13], &[])],
    );
}

#[test]
fn a_shrinking_pool_gives_up_the_highest() {
    check(&[("a", &[0, 1, 2, 9], 2, "", "")], &[(&[0, 1], &[], &[2, 9])]);
    check(&[("a", &[0, 1], 0, "", "")], &[(&[], &[], &[0, 1])]);
}

#[test]
fn a_shrinking_pool_gives_up_what_it_was_told_first() {
    check(&[("a", &[0, 1, 2, 3], 2, "", "[1]")], &[(&[0, 2], &[], &[1, 3])]);
    check(&[("a", &[0, 1, 2, 3], 3, "", "[0-3]")], &[(&[1, 2, 3], &[], &[0])]);
    check(&[("a", &[0, 1, 2, 3], 3, "", "[2-0]")], &[(&[0, 1, 3], &[], &[2])]);
    check(&[("a", &[0, 1, 2, 3], 3, "", "[99]")], &[(&[0, 1, 2], &[], &[3])]);
}

#[test]
fn an_id_that_is_being_given_up_is_given_to_nobody() {
    check(
        &[("a", &[0, 1, 2], 1, "", ""), ("b", &[], 2, "[1-2]", "")],
        &[(&[0], &[], &[1, 2]), (&[], &[3, 4], &[])],
    );
    // Not even when the pool that gives it up comes later.
    check(
        &[("a", &[], 1, "[5]", ""), ("b", &[5], 0, "", "")],
        &[(&[], &[0], &[]), (&[], &[], &[5])],
    );
}

#[test]
fn ids_of_nodes_without_a_pool_are_given_to_nobody() {
    let pools = [facts(&("a", &[], 2, "[1]", ""))];
    let found = assign(&pools, &ids(&[0, 1, 3])).unwrap();
    assert_eq!(found[0].added, ids(&[2, 4]));
    assert_eq!(found[0].desired(), ids(&[2, 4]));
}

#[test]
fn a_bad_list_is_not_followed_and_said() {
    let pools = [facts(&("a", &[], 1, "7", "x")), facts(&("b", &[3, 4], 1, "y", "[3"))];
    let found = assign(&pools, &BTreeSet::new()).unwrap();
    assert_eq!((&found[0].added, &found[1].removed), (&ids(&[0]), &ids(&[4])));
    let warnings = found.iter().flat_map(|pool| &pool.warnings).map(ToString::to_string);
    let no = "is not a list of ids and ranges such as [0, 5-9, 30-20]";
    let expected = [
        format!("strimzi.io/next-node-ids is not followed: \"7\" {no}"),
        format!("strimzi.io/remove-node-ids is not followed: \"[3\" {no}"),
    ];
    assert_eq!(warnings.collect::<Vec<_>>(), expected);
}

#[test]
fn an_id_of_two_pools_stops_everything() {
    let pools = [
        facts(&("a", &[0, 1], 2, "", "")),
        facts(&("b", &[1, 2], 2, "", "")),
        facts(&("c", &[1], 1, "", "")),
    ];
    let found = assign(&pools, &BTreeSet::new()).unwrap_err();
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].to_string(),
        "node id 1 is recorded in the status of the pools a, b, c: remove it from all but one"
    );
}

fn some_range() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "\\[[0-9]{1,2}(-[0-9]{1,2})?(, ?[0-9]{1,2}){0,2}\\]",
        "\\PC{0,5}",
    ]
}

prop_compose! {
    /// Pools with ids that are apart.
    fn some_pools()(
        owners in proptest::collection::vec(0usize..6, 0..24),
        rows in proptest::collection::vec((0u32..9, some_range(), some_range()), 1..5),
    ) -> Vec<PoolFacts> {
        let mut pools: Vec<PoolFacts> = rows
            .into_iter()
            .enumerate()
            .map(|(index, (replicas, next, remove))| PoolFacts {
                name: format!("p{index}"),
                recorded: BTreeSet::new(),
                replicas,
                next: Some(next),
                remove: Some(remove),
            })
            .collect();
        for (id, owner) in owners.into_iter().enumerate() {
            if let Some(pool) = pools.get_mut(owner) {
                pool.recorded.insert(NodeId::new(i32::try_from(id).unwrap()).unwrap());
            }
        }
        pools
    }
}

proptest! {
    #[test]
    fn ids_are_unique_and_as_many_as_asked_for(
        pools in some_pools(),
        taken in proptest::collection::btree_set(0i32..40, 0..8),
    ) {
        let taken: BTreeSet<_> = taken.into_iter().filter_map(NodeId::new).collect();
        let found = assign(&pools, &taken).unwrap();
        prop_assert_eq!(&found, &assign(&pools, &taken).unwrap());
        let mut seen = BTreeSet::new();
        let recorded: BTreeSet<_> = pools.iter().flat_map(|p| p.recorded.clone()).collect();
        for (pool, ids) in pools.iter().zip(&found) {
            prop_assert_eq!(u32::try_from(ids.desired().len()).unwrap(), pool.replicas);
            // What was there is kept or removed, and never both.
            let both: BTreeSet<_> = ids.kept.union(&ids.removed).copied().collect();
            prop_assert_eq!(&both, &pool.recorded);
            prop_assert!(ids.kept.is_disjoint(&ids.removed));
            prop_assert!(ids.added.is_empty() || ids.removed.is_empty());
            for id in &ids.added {
                prop_assert!(!recorded.contains(id) && !taken.contains(id), "{id} is taken");
            }
            for id in ids.desired() {
                prop_assert!(seen.insert(id), "{id} twice");
            }
        }
    }

    #[test]
    fn once_recorded_nothing_changes_any_more(pools in some_pools()) {
        let found = assign(&pools, &BTreeSet::new()).unwrap();
        let mut recorded = pools.clone();
        for (pool, ids) in recorded.iter_mut().zip(&found) {
            pool.recorded = ids.desired();
        }
        for (before, again) in found.iter().zip(assign(&recorded, &BTreeSet::new()).unwrap()) {
            prop_assert_eq!(before.desired(), again.kept);
            prop_assert!(again.added.is_empty() && again.removed.is_empty());
        }
    }

    #[test]
    fn while_nodes_are_going_the_same_ones_go(pools in some_pools()) {
        // The ids of nodes that are being drained stay recorded until they are gone.
        let found = assign(&pools, &BTreeSet::new()).unwrap();
        let mut recorded = pools.clone();
        for (pool, ids) in recorded.iter_mut().zip(&found) {
            pool.recorded.extend(&ids.added);
        }
        for (before, again) in found.iter().zip(assign(&recorded, &BTreeSet::new()).unwrap()) {
            prop_assert_eq!(&before.removed, &again.removed);
        }
    }
}
