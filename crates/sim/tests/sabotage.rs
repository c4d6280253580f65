//! For each invariant, wrong behaviour of the shell that breaks it, and a script in which the simulator finds it: a
//! simulator that finds nothing proves nothing. Without the wrong behaviour nothing is found in the same script.

use std::collections::BTreeSet;

use sim::whole::{Edit, Event, Invariant, Sabotage, Script, Shape, Upset, explain, run, shrink};

const CONTROLLERS: usize = 1;
const BROKERS: usize = 0;
const MINUTE: u64 = 60_000;

/// A cluster with this many controllers and three brokers, a machine for each, and a topic.
fn script(controllers: u32, events: &[(u64, Event)]) -> Script {
    let shape =
        Shape { controllers, brokers: 3, combined: 0, version: 2, rebalances: false, machines: 12 };
    let topic = (50_000, Event::Edit(Edit::Topic(6, 3, 2)));
    let events = std::iter::once(topic).chain(events.iter().map(|(s, event)| (s * 1_000, *event)));
    Script { seed: 1, shape, events: events.collect() }
}

/// An operator is paused after so many steps after an edit, and another one takes over.
fn paused(steps: u64) -> Script {
    let pause = Event::Upset(steps, Upset::Pause(2 * MINUTE));
    let wake = (300, Event::Edit(Edit::Topic(1, 3, 2)));
    script(3, &[(70, Event::Edit(Edit::Dynamic(2))), (70, pause), wake])
}

/// What the shell does wrong, the invariant that breaks, and scripts of which one finds it.
fn rows() -> Vec<(Sabotage, Invariant, Vec<Script>)> {
    use Event::{DiskReplaced, MachineDown, ProcessDies, SlowReplicas};
    let edit = Event::Edit;
    let (down_3, down_4) = (MachineDown(3, 3 * MINUTE), MachineDown(4, 3 * MINUTE));
    let restart = |pool: usize| edit(Edit::RestartPool(pool));
    let slow = SlowReplicas(40_000);
    let leave = edit(Edit::Scale(CONTROLLERS, 3));
    let rebalanced = |events: &[(u64, Event)]| {
        let mut script = script(3, events);
        script.shape.rebalances = true;
        script
    };
    #[rustfmt::skip]
    let rows = vec![
        (Sabotage::ReplicasInSync,  Invariant::RestartKeepsMinIsr,
         vec![script(3, &[(60, slow), (62, ProcessDies(0)), (64, restart(BROKERS)), (240, edit(Edit::TogglePause))])]),
        (Sabotage::VotersCaughtUp,  Invariant::MajorityHasCaughtUp,
         vec![script(5, &[(70, down_3), (70, down_4), (100, leave), (200, edit(Edit::Topic(1, 3, 2)))])]),
        (Sabotage::VotersCaughtUp,  Invariant::RestartKeepsMajority,
         vec![script(3, &[(70, down_3), (95, edit(Edit::RestartPod(4))), (200, edit(Edit::Topic(1, 3, 2)))])]),
        (Sabotage::NothingAssigned, Invariant::ReplicasKeepTheirBroker, vec![script(3, &[(70, edit(Edit::Scale(BROKERS, 2)))])]),
        (Sabotage::DeletesClaims,   Invariant::ReplicasKeepTheirDisk, vec![script(3, &[(70, edit(Edit::RestartPod(0)))])]),
        (Sabotage::Unregisters,     Invariant::RunningBrokersStayRegistered, vec![script(3, &[(70, edit(Edit::RestartPod(0)))])]),
        (Sabotage::VotersReleased,  Invariant::VotersAreNotStopped, vec![script(5, &[(70, leave)])]),
        (Sabotage::NoFence,         Invariant::OneOperatorActs, (17..19).map(paused).collect()),
        (Sabotage::NoVersions,      Invariant::SuccessorIsNotOverwritten, (4..6).map(paused).collect()),
        (Sabotage::ActsFirst,       Invariant::RecordComesFirst, vec![script(3, &[(70, restart(CONTROLLERS))])]),
        (Sabotage::ForgetsSeen,     Invariant::IdentityIsUsedOnce, vec![script(3, &[(70, DiskReplaced(3))])]),
        (Sabotage::BeginsAnew,      Invariant::IdsAreMadeOnce, vec![script(3, &[(70, edit(Edit::DeleteRecord))])]),
        (Sabotage::CreatesBoth, Invariant::OneRebalanceAtATime,
         vec![rebalanced(&[(60, slow), (70, edit(Edit::Scale(BROKERS, 5))), (100, edit(Edit::Scale(BROKERS, 4))), (400, slow)])]),
        (Sabotage::SendsNothing,    Invariant::Settles, vec![script(3, &[(70, restart(CONTROLLERS))])]),
        (Sabotage::SavesAlways,     Invariant::NothingIsWrittenForNothing, vec![script(3, &[])]),
    ];
    rows
}

fn found(sabotage: Sabotage, script: &Script) -> Option<Invariant> {
    run(script, sabotage, false).violations.first().map(|violation| violation.invariant)
}

#[test]
fn every_wrong_behaviour_is_found_and_nothing_is_without_it() {
    let mut missed = Vec::new();
    for (sabotage, invariant, scripts) in rows() {
        let finds = |script: &&Script| found(sabotage, script) == Some(invariant);
        match scripts.iter().find(finds) {
            None => missed.push((sabotage, invariant)),
            Some(script) => assert_eq!(explain(script, Sabotage::None), None, "{sabotage:?}"),
        }
    }
    assert_eq!(missed, []);
}

/// Committed metadata is lost only with disks, which other invariants hold before; that its loss is seen is a test of the
/// quorum itself.
#[test]
fn every_invariant_has_a_row() {
    let rows: BTreeSet<_> = rows().into_iter().map(|(_, invariant, _)| invariant).collect();
    let missing: Vec<_> = Invariant::ALL.iter().filter(|one| !rows.contains(one)).collect();
    assert_eq!(missing, [&Invariant::MetadataIsKept]);
}

#[test]
fn a_script_that_fails_becomes_smaller_and_fails_likewise() {
    let mut script = Script::new(3);
    script.events.push((script.end_ms() + 1_000, Event::Edit(Edit::DeleteRecord)));
    let (sabotage, invariant) = (Sabotage::BeginsAnew, Invariant::IdsAreMadeOnce);
    let smaller = shrink(&script, sabotage, invariant);
    assert_eq!(smaller.events.len(), 1, "{smaller:?}");
    let (one, other) = (run(&smaller, sabotage, false), run(&smaller, sabotage, false));
    assert_eq!(one.violations[0].invariant, invariant);
    assert_eq!(one.violations, other.violations, "a script is a reproduction");
}
