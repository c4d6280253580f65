//! Plans for clusters of all shapes, drawn by seed, beside what a slow search finds.
//!
//! `GREGOR_SHAPES=1000..1200 cargo test -p placement --test shapes others -- --nocapture` draws others.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "seeds are given by the environment, and figures are printed"
)]

mod build;
mod draw;
mod random;
mod reference;

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use model::NodeId;
use placement::{Goal, Judgement, Plan, Wave, WaveLimits, check, plan};

use draw::Shape;

/// Shapes of so many replicas are compared with the slow search.
const REPLICAS: RangeInclusive<usize> = 20..=20_000;

/// Of the shapes of one test, plans that are worse than what the slow search finds.
const WORSE_MAX: usize = 2;

/// The result of one shape.
struct Figures {
    text: String,
    faults: Vec<String>,
    /// What the slow search does better.
    worse: Vec<String>,
    /// MB beside the lower bound.
    ratio: f64,
}

fn soft(judgement: &Judgement) -> Vec<Goal> {
    judgement.violated().into_iter().filter(|goal| !goal.is_hard()).collect()
}

fn figures(seed: u64) -> Figures {
    let shape = Shape::draw(seed, REPLICAS);
    let (view, goals) = build::build(&shape);
    let (found, report) = plan(&view, &goals);
    let mut faults = Vec::new();
    let mut fault = |holds: bool, what: String| {
        if !holds {
            faults.push(what);
        }
    };
    let hard = report.after.violated().into_iter().filter(|goal| goal.is_hard());
    let hard: Vec<&str> = hard.map(Goal::name).collect();
    fault(report.after.structure.is_empty(), "replicas have no place".to_owned());
    fault(hard.is_empty(), format!("broken: {hard:?}"));
    fault(found.mb >= report.least_mb * (1.0 - 1e-9), "fewer MB than the bound".to_owned());
    fault(report.after == check(&view, &goals, &found.assignment), "another verdict".to_owned());
    if seed.is_multiple_of(8) {
        fault(plan(&view, &goals).0 == found, "another plan in another run".to_owned());
    }
    let slow = reference::search(&view, &goals, seed);
    let (judged, slow_mb) = (check(&view, &goals, &slow), view.moved_mb(&slow));
    let (ours, theirs) = (soft(&report.after), soft(&judged));
    let is_fit = judged.is_acceptable();
    let missed: Vec<&str> = ours
        .iter()
        .filter(|goal| is_fit && !theirs.contains(goal))
        .map(|goal| goal.name())
        .collect();
    // Goals may contradict each other: those that weigh more count.
    let mut worse = Vec::new();
    if !missed.is_empty() && report.after.balancedness <= judged.balancedness {
        worse.push(format!("met by the slow search: {missed:?}"));
    }
    // Fewer violations of the same goals may cost more.
    let count = |judgement: &Judgement| -> usize {
        judgement.goals.iter().map(|state| state.findings).sum()
    };
    let is_alike = is_fit && ours == theirs && count(&report.after) >= count(&judged);
    if is_alike && found.mb > slow_mb * (1.0 + 1e-9) {
        worse.push(format!("{:.0} MB, with the slow search {slow_mb:.0}", found.mb));
    }
    let waves = found.waves(WaveLimits::default());
    let time: f64 = waves.iter().map(|wave| wave.busiest_mb).sum();
    fault(time >= found.busiest_mb() * (1.0 - 1e-9), "waves are faster than a broker".to_owned());
    fault(is_within_limits(&found, &waves), "a wave with too many moves of a broker".to_owned());
    let ratio = found.mb / report.least_mb.max(1e-9);
    let text = format!(
        "{ratio:>6.2} x bound, slow {:>5.2}, waves {:>4.2}, left {} ({}) | {shape}",
        slow_mb / found.mb.max(1e-9),
        time / found.busiest_mb().max(1e-9),
        ours.len(),
        theirs.len(),
    );
    Figures { text, faults, worse, ratio: if found.mb > 0.0 { ratio } else { 0.0 } }
}

/// Whether waves are the plan, and no broker takes part in too many moves at once.
fn is_within_limits(plan: &Plan, waves: &[Wave]) -> bool {
    let mut seen: Vec<usize> = waves.iter().flat_map(|wave| wave.changes.clone()).collect();
    seen.sort_unstable();
    let most = WaveLimits::default().per_broker_max;
    let is_small = |wave: &Wave| {
        let mut moves: BTreeMap<NodeId, usize> = BTreeMap::new();
        let changes = wave.changes.iter().map(|at| &plan.changes[*at]);
        for change in changes.filter(|change| !change.is_leadership()) {
            let added = change.after.iter().filter(|broker| !change.before.contains(broker));
            change.before[..1].iter().chain(added).for_each(|broker| {
                *moves.entry(*broker).or_default() += 1;
            });
        }
        moves.values().all(|moves| *moves <= most)
    };
    seen == (0..plan.changes.len()).collect::<Vec<_>>() && waves.iter().all(is_small)
}

/// Prints the figures, worst first, and fails if a shape has a fault or too many plans are worse than what the
/// slow search finds.
fn run(seeds: Range<u64>) {
    let mut all: Vec<Figures> = seeds.map(figures).collect();
    let badness = |figures: &Figures| (figures.faults.len(), figures.worse.len());
    all.sort_by(|a, b| badness(b).cmp(&badness(a)).then(b.ratio.total_cmp(&a.ratio)));
    for Figures { text, faults, worse, .. } in &all {
        println!("{text} {} {}", faults.join("; "), worse.join("; "));
    }
    let faults = all.iter().filter(|figures| !figures.faults.is_empty()).count();
    let worse = all.iter().filter(|figures| !figures.worse.is_empty()).count();
    assert_eq!(faults, 0, "of {} shapes", all.len());
    assert!(
        worse <= WORSE_MAX,
        "{worse} of {} plans are worse than those of the slow search",
        all.len()
    );
}

macro_rules! parts {
    ($($name:ident = $seeds:expr;)*) => {
        $(#[test] fn $name() { run($seeds) })*
    };
}

// Parts, so that they run side by side.
parts! {
    seeds_from_0 = 0..30;
    seeds_from_30 = 30..60;
    seeds_from_60 = 60..90;
    seeds_from_90 = 90..120;
    seeds_from_120 = 120..150;
    seeds_from_150 = 150..180;
    seeds_from_180 = 180..210;
}

/// Other seeds on request; without one, a single shape.
#[test]
fn others() {
    let text = std::env::var("GREGOR_SHAPES").unwrap_or_else(|_| "210..211".to_owned());
    let (begin, end) = text.split_once("..").unwrap();
    run(begin.parse().unwrap()..end.parse().unwrap());
}
