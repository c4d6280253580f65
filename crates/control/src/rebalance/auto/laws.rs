//! What holds for auto-rebalancing whatever the facts are.

use proptest::prelude::*;

use super::*;
use crate::rebalance::request::{Failure, Phase as Said};

fn any_brokers() -> impl Strategy<Value = Brokers> {
    prop::collection::btree_set((0..6).prop_map(|id| NodeId::new(id).unwrap()), 0..4)
}

fn any_setting() -> impl Strategy<Value = Setting> {
    prop::sample::select(vec![
        Setting::Off,
        Setting::Plain,
        Setting::Unmarked,
        Setting::Template(None),
        Setting::Template(Some(false)),
        Setting::Template(Some(true)),
    ])
}

fn any_partner() -> impl Strategy<Value = Option<Partner>> {
    let phase = prop::option::of(prop::sample::select(&Said::ALL[..]));
    let flags = any::<[bool; 4]>();
    let present = (prop::option::of(0_u64..3), any_brokers(), flags, phase).prop_map(
        |(round, brokers, [deleting, stopping, outdated, final_], phase)| {
            let failure = Failure::Final("no goal".to_owned());
            let recorded = phase.map(|phase| request::Recorded {
                phase,
                failure: final_.then_some(failure),
                ..Default::default()
            });
            Partner::Present(Request { round, brokers, deleting, stopping, outdated, recorded })
        },
    );
    prop_oneof![
        1 => Just(None),
        2 => Just(Some(Partner::Missing)),
        1 => Just(Some(Partner::Foreign)),
        5 => present.prop_map(Some),
    ]
}

prop_compose! {
    fn any_facts()(
        sets in prop::array::uniform5(prop::option::weighted(0.9, any_brokers())), waived: bool,
        remove in any_setting(), add in any_setting(),
        drainer in any_partner(), filler in any_partner(), now_ms in 0_u64..10_000_000,
    ) -> Facts {
        let [brokers, leaving, holding, running, moving] = sets;
        let settings = PerMode { remove, add };
        let partners = PerMode { remove: drainer, add: filler };
        Facts { brokers, leaving, holding, running, moving, waived, settings, partners, now_ms }
    }
}

prop_compose! {
    fn any_recorded()(
        phase in prop::sample::select(vec![Idle, RebalanceOnScaleDown, RebalanceOnScaleUp]),
        round in 0_u64..3, seen: bool, remove in any_brokers(), add in any_brokers(),
        known in any_brokers(),
    ) -> Recorded {
        let remove = if phase == RebalanceOnScaleDown { remove } else { Brokers::new() };
        Recorded { phase, round, seen, remove, add, known, ..Recorded::default() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_facts_raise_a_pair_that_is_not_listed(recorded in any_recorded(), facts in any_facts()) {
        let decision = decide(Some(&recorded), &facts);
        let Some(new) = decision.recorded else { return Ok(()) };
        let expected = decision.event.map_or(Some(recorded.phase), |event| next(recorded.phase, event));
        prop_assert_eq!(Some(new.phase), expected);
    }

    #[test]
    fn a_request_is_made_only_when_no_other_of_ours_is_there(
        recorded in any_recorded(), facts in any_facts(),
    ) {
        for act in decide(Some(&recorded), &facts).acts {
            if let Act::Create { mode, brokers, .. } = act {
                prop_assert_eq!(facts.partners.get(mode), &Some(Partner::Missing));
                let other = facts.partners.get(mode.other());
                prop_assert!(matches!(other, Some(Partner::Missing | Partner::Foreign)));
                prop_assert!(!brokers.is_empty());
            }
        }
    }

    #[test]
    fn a_user_who_waives_the_check_gets_no_drain(
        recorded in any_recorded(), facts in any_facts(),
    ) {
        let facts = Facts { waived: true, ..facts };
        let decision = decide(Some(&recorded), &facts);
        let Some(new) = decision.recorded else { return Ok(()) };
        prop_assert!(new.remove.is_empty() && new.phase != RebalanceOnScaleDown);
        for act in decision.acts {
            let drains = matches!(
                act,
                Act::Create { mode: RemoveBrokers, .. } | Act::Refresh { mode: RemoveBrokers, .. }
            );
            prop_assert!(!drains);
        }
    }

    #[test]
    fn nothing_that_may_run_is_let_go(recorded in any_recorded(), facts in any_facts()) {
        for act in decide(Some(&recorded), &facts).acts {
            if let Act::Release(mode) = act {
                let Some(Partner::Present(request)) = facts.partners.get(mode) else {
                    return Err(TestCaseError::fail("there is nothing to release"));
                };
                prop_assert!(request.deleting && !request.may_run());
            }
        }
    }

    #[test]
    fn no_broker_leaves_the_fill_queue_without_a_reason(
        recorded in any_recorded(), facts in any_facts(),
    ) {
        let decision = decide(Some(&recorded), &facts);
        let Some(new) = decision.recorded else { return Ok(()) };
        for broker in recorded.add.difference(&new.add) {
            let gone = facts.brokers.as_ref().is_some_and(|all| !all.contains(broker));
            let off = facts.settings.add == Setting::Off;
            let done = decision.event == Some(Done) && recorded.phase == RebalanceOnScaleUp;
            let told = new.setbacks.add.as_ref().is_some_and(|s| s.brokers.contains(broker));
            prop_assert!(gone || off || done || told, "{broker}");
        }
    }
}
