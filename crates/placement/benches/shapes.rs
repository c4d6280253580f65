//! Plans for large clusters of all shapes, drawn by seed: what is left, MB beside their lower bound, CPU, and the
//! time of the waves beside their lower bound. Worst first.
//!
//! `cargo bench -p placement --bench shapes -- 1000 1100` draws other seeds. A broken hard goal fails it; CPU
//! above the bar is marked.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking, in its helpers too")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark reads files of the system and prints"
)]

#[path = "../tests/shapes/build.rs"]
mod build;
#[path = "../tests/shapes/draw.rs"]
mod draw;
#[path = "../tests/shapes/random.rs"]
mod random;

use std::fs;
use std::ops::Range;
use std::process::ExitCode;

use placement::{Plan, Report, WaveLimits, plan};

use draw::{Shape, Start};

/// Seconds of CPU for so many replicas.
const CPU_BAR: f64 = 1.0;
const CPU_REPLICAS: f64 = 200_000.0;

/// The largest cluster: seconds of CPU and MB of memory.
const LARGEST_CPU_BAR: f64 = 15.0;
const LARGEST_MB_BAR: f64 = 1_000.0;

/// Shapes with so many replicas are drawn from these seeds.
const SEEDS: Range<u64> = 0..24;
const REPLICAS: (usize, usize) = (20_000, 600_000);

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().filter_map(|text| text.parse().ok()).collect();
    let seeds = if let [begin, end] = numbers[..] { begin..end } else { SEEDS };
    let mut shapes: Vec<Shape> =
        seeds.clone().map(|seed| Shape::draw(seed, REPLICAS.0..=REPLICAS.1)).collect();
    // Two that were hard: far from balance with a heavy tail, and removed brokers.
    for seed in seeds.take(2) {
        shapes.push(Shape::ten_racks(seed, 600_000, 200, Start::Far));
        for start in [Start::Near(0.25), Start::Grown, Start::Far] {
            let shape = Shape::ten_racks(seed, 150_000, 100, start);
            shapes.push(Shape { removed: 7, ..shape });
        }
    }
    let mut runs: Vec<Run> = shapes.iter().map(Run::of).collect();
    runs.sort_by(|a, b| b.badness().total_cmp(&a.badness()));
    println!(
        "Plans for {} shapes, worst first. CPU: bar {CPU_BAR} s per 200,000 replicas.",
        runs.len()
    );
    println!("left = violated soft goals: violations, of as many before");
    runs.iter().for_each(|run| println!("{run}"));
    let most = runs.iter().map(Run::cpu_share).fold(0.0, f64::max);
    println!("worst CPU {most:.2} s per 200,000 replicas");
    println!("6M replicas, 1,000 brokers: bars {LARGEST_CPU_BAR} s, {LARGEST_MB_BAR} MB");
    for start in [Start::Near(0.25), Start::Grown, Start::Far] {
        let shape = Shape::ten_racks(7, 6_000_000, 1_000, start);
        let run = Run::of(&Shape { partitions_max: 10_000, ..shape });
        println!("{run}, {:.0} MB of memory", run.peak_mb);
        runs.push(run);
    }
    let broken = runs.iter().filter(|run| !run.is_acceptable).count();
    println!("{broken} plans break a hard goal");
    if broken > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// A plan for a shape, and its figures.
struct Run {
    name: String,
    replicas: usize,
    seconds: f64,
    peak_mb: f64,
    is_acceptable: bool,
    before: usize,
    left: String,
    violations: usize,
    moved: f64,
    ratio: f64,
    waves: usize,
    wave_ratio: f64,
}

impl Run {
    fn of(shape: &Shape) -> Self {
        let (view, goals) = build::build(shape);
        // Forgets the peak, so that only the plan counts.
        let _ = fs::write("/proc/self/clear_refs", "5");
        let begun = cpu_seconds();
        let (plan, report) = plan(&view, &goals);
        let seconds = cpu_seconds() - begun;
        let peak_mb = peak_mb();
        let all = (0..view.partitions()).map(|p| view.partition_mb(p) * view.slots(p).len() as f64);
        let all: f64 = all.sum();
        Self { peak_mb, moved: plan.mb / all, ..Self::judged(shape, &plan, &report, seconds) }
    }

    fn judged(shape: &Shape, plan: &Plan, report: &Report, seconds: f64) -> Self {
        let waves = plan.waves(WaveLimits::default());
        let time: f64 = waves.iter().map(|wave| wave.busiest_mb).sum();
        let count = |judgement: &placement::Judgement| -> usize {
            judgement.goals.iter().map(|state| state.findings).sum()
        };
        let left = report.after.goals.iter().filter(|state| state.findings > 0);
        let left: Vec<String> = left
            .map(|state| {
                format!("{} {}", state.goal.name().trim_end_matches("Goal"), state.findings)
            })
            .collect();
        Self {
            name: shape.to_string(),
            replicas: plan.assignment.len(),
            seconds,
            peak_mb: 0.0,
            is_acceptable: report.after.is_acceptable(),
            before: count(&report.before),
            violations: count(&report.after),
            left: left.join(", "),
            moved: 0.0,
            ratio: ratio(plan.mb, report.least_mb),
            waves: waves.len(),
            wave_ratio: ratio(time, plan.busiest_mb()),
        }
    }

    fn cpu_share(&self) -> f64 {
        self.seconds / self.replicas as f64 * CPU_REPLICAS
    }

    fn badness(&self) -> f64 {
        let hard = if self.is_acceptable { 0.0 } else { 1e9 };
        hard + self.violations as f64 * 1e3 + self.ratio
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.cpu_share() > CPU_BAR { " ABOVE THE BAR" } else { "" };
        write!(
            f,
            "{}: {:.2} s ({:.2} s/200k{mark}), moved {:.1} % = {:.2} x bound, {} waves {:.2} x bound, \
             left {} of {} [{}]",
            self.name,
            self.seconds,
            self.cpu_share(),
            self.moved * 100.0,
            self.ratio,
            self.waves,
            self.wave_ratio,
            self.violations,
            self.before,
            self.left,
        )
    }
}

/// How many times its lower bound something is.
fn ratio(is: f64, least: f64) -> f64 {
    if is > 0.0 { is / least } else { 1.0 }
}

/// CPU of this thread; the kernel counts nanoseconds.
fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn peak_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<f64>().unwrap() / 1000.0
}
