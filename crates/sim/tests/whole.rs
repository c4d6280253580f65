//! Whole clusters under edits and faults: seeds that give scripts, and invariants after every event.
//!
//! A seed that fails is replayed, made smaller and told in full. `GREGOR_SIM_SEEDS=7` or `=0..10000` says which seeds to run.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "which seeds to run is told by the environment, and what was covered is printed"
)]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use sim::whole::{Coverage, Sabotage, Script, explain, run};

/// The seeds of `make test`.
const SEEDS: Range<u64> = 0..120;
/// From so many seeds on, also what is rare has to be covered.
const MANY: usize = 2_000;
/// What some hundred seeds cover: acts, rules, answers, reasons, phases and faults.
const COVERED: &[&str] = &[
    "act AddVoter",
    "act AlterCluster",
    "act Apply",
    "act ChangeMetadataVersion",
    "act ClearRestartRequest",
    "act Cordon",
    "act Delete",
    "act DeleteClaim",
    "act ElectPreferred",
    "act Rebalance",
    "act RemoveVoter",
    "act RestartPod",
    "act Uncordon",
    "act Unregister",
    "act dropped",
    "act not sent: the Lease expires",
    "answer Done",
    "answer Unknown",
    "auto-rebalance Idle -> RebalanceOnScaleDown",
    "auto-rebalance Idle -> RebalanceOnScaleUp",
    "disk replaced",
    "facts read again",
    "fault Act lost",
    "fault Answer lost",
    "fault ClockJumps",
    "fault Conflict lost",
    "fault CutOff",
    "fault KafkaSilent",
    "fault KubernetesSilent",
    "fault LeaderResigns",
    "fault MachineDown",
    "fault NotLeader lost",
    "fault ProcessDies",
    "fault ProcessHangs",
    "fault Refused lost",
    "fault Stale",
    "fault operator dies",
    "fault operator paused between passes",
    "fault operator paused in a pass",
    "leaving Cleaning -> -",
    "leaving Cordoned -> Stopping",
    "leaving Cordoning -> Cordoned",
    "leaving Draining -> Cordoning",
    "leaving Draining -> Returning",
    "leaving Returning -> Kept",
    "leaving Stopped -> Unregistering",
    "leaving Unregistering -> Cleaning",
    "log recovery",
    "pass failed Conflict",
    "pass failed Failed",
    "person moves replicas",
    "pool released",
    "reason AddingController",
    "reason AutoRebalanceAwaitsBrokers",
    "reason AutoRebalancing",
    "reason ControllerScaleDownRefused",
    "reason Creating",
    "reason DuplicateListenerName",
    "reason KafkaUnreachable",
    "reason KubernetesUnreadable",
    "reason KubernetesWriteFailed",
    "reason QuorumWaiting",
    "reason RemovingController",
    "reason RollStopped",
    "reason Rolling",
    "reason ScaleDownPreventionCheck",
    "reason ScalingDown",
    "reason StaleControllerRegistration",
    "rule AllRestarted",
    "rule AllSupport",
    "rule BrokersAreScaled",
    "rule LeavingIsCordoned",
    "rule NodeIsGone",
    "rule NothingNeedsIt",
    "rule ObjectDiffers",
    "rule RebalanceHasEnded",
    "rule RebalanceIsObsolete",
    "rule RegistrationIsStale",
    "rule RestartIsSafe",
    "rule RestartedLeadAgain",
    "rule SettingsDiffer",
    "rule StayingIsOpen",
    "rule VoterJoins",
    "rule VoterLeaves",
    "volume grown",
];
/// What only many seeds cover.
const RARE: &[&str] = &[
    "act AlterNode",
    "act ShrinkPodSet",
    "answer Duplicate",
    "answer NotFound",
    "auto-rebalance RebalanceOnScaleUp -> RebalanceOnScaleDown",
    "leaving Cordoning -> Returning",
    "leaving Stopping -> Returning",
    "reason QuorumChangeFailed",
    "reason UnregistrationFailed",
    "rule BrokersHaveChanged",
    "rule PoolIsGone",
];
/// The machine has two cores.
const THREADS: usize = 2;

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("GREGOR_SIM_SEEDS") else { return SEEDS };
    let number = |text: &str| text.parse::<u64>().expect("GREGOR_SIM_SEEDS is 7 or 0..10000");
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&text)..number(&text) + 1,
    }
}

/// Runs the seeds. What they covered, the simulated hours, and those that fail.
fn run_all(seeds: Range<u64>) -> (Coverage, f64, Vec<u64>) {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let (mut coverage, mut hours, mut failed) = (Coverage::default(), 0.0, Vec::new());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return (coverage, hours, failed);
            }
            let report = run(&Script::new(seed), Sabotage::None, false);
            coverage.add(&report.coverage);
            hours += f64::from(u32::try_from(report.simulated_ms / 1_000).unwrap()) / 3_600.0;
            if let Some(violation) = report.violations.first() {
                println!("seed {seed}: {violation:?}");
                failed.push(seed);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        let mut all = (Coverage::default(), 0.0, Vec::new());
        for thread in threads {
            let (coverage, hours, failed) = thread.join().unwrap();
            all.0.add(&coverage);
            all.1 += hours;
            all.2.extend(failed);
        }
        all
    })
}

#[test]
fn whatever_happens_the_invariants_hold_and_the_cluster_settles() {
    let (coverage, hours, mut failed) = run_all(seeds());
    println!("{coverage}{hours:.1} simulated hours, {} seeds", seeds().count());
    let rare = if seeds().count() >= MANY { RARE } else { &[] };
    let expected = COVERED.iter().chain(rare).filter(|what| coverage.of(what) == 0);
    let missing: Vec<_> = expected.filter(|_| seeds().count() >= SEEDS.count()).collect();
    failed.sort_unstable();
    if let Some(seed) = failed.first() {
        let story = explain(&Script::new(*seed), Sabotage::None).unwrap_or_default();
        panic!("{failed:?} fail; replay one with GREGOR_SIM_SEEDS={seed}\n{story}");
    }
    assert!(missing.is_empty(), "never happened: {missing:?}");
}
