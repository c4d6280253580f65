//! What a plan costs and what it is worth, beside what Cruise Control's optimizer needed and reached on the
//! same clusters in its best recorded run.
//!
//! Our seconds of CPU are those of the whole program with reading its input; Cruise Control's are those of
//! its optimizer alone. The last cluster is made up here: a million replicas, for the memory.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking, in its helpers too")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// A cluster, and of Cruise Control on it: balancedness, MB moved, seconds of CPU.
const RIVAL: [(&str, f64, f64, f64); 4] = [
    ("small-skew", 95.099, 2_996_141.0, 0.239),
    ("mid-skew", 97.433, 7_316_079.0, 3.183),
    ("mid-add", 89.871, 3_803_270.0, 3.984),
    ("mid-remove", 95.099, 3_219_622.2, 2.935),
];

/// A plan shall take at most this part of Cruise Control's seconds.
const CPU_BAR: f64 = 50.0;

/// A million replicas shall be planned in so many MB.
const MEMORY_BAR_MB: f64 = 400.0;

const BROKERS: usize = 300;
const PARTITIONS: usize = 333_334;

/// Ticks in a second, as /proc counts CPU.
const TICKS: f64 = 100.0;

fn main() {
    println!("gregor balance beside Cruise Control (in parentheses)");
    println!("cluster      balancedness      MB moved                  CPU, part of its");
    for (name, balancedness, mb, seconds) in RIVAL {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/balancer").join(name);
        let run = Run::of(&from);
        println!(
            "{name:<12} {:>5.1} ({balancedness:>5.1})     {:>9.0} ({mb:>9.0})     1/{:.0} (bar 1/{CPU_BAR:.0})",
            run.balancedness,
            run.mb,
            seconds / run.cpu_seconds.max(1.0 / TICKS),
        );
    }
    let folder = tempfile::tempdir().unwrap();
    million(folder.path());
    let run = Run::of(folder.path());
    println!(
        "a million replicas on {BROKERS} brokers: balancedness {:.1}, {:.0} MB moved, {:.2} s of CPU, \
         {:.0} MB of memory (bar {MEMORY_BAR_MB:.0})",
        run.balancedness, run.mb, run.cpu_seconds, run.peak_mb
    );
}

/// What one run of the program came to.
struct Run {
    balancedness: f64,
    mb: f64,
    cpu_seconds: f64,
    peak_mb: f64,
}

impl Run {
    fn of(from: &Path) -> Self {
        let before = cpu_of_children();
        let mut gregor = Command::new(env!("CARGO_BIN_EXE_gregor"));
        gregor.args(["balance", "-o", "json", "--from"]).arg(from);
        let mut child = gregor.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let plan = thread::spawn(move || serde_json::from_reader::<_, Value>(stdout).unwrap());
        let peak_mb = peak(&mut child);
        let plan = plan.join().unwrap();
        Self {
            balancedness: plan["balancednessAfter"].as_f64().unwrap(),
            mb: plan["movedMb"].as_f64().unwrap(),
            cpu_seconds: cpu_of_children() - before,
            peak_mb,
        }
    }
}

/// Waits for the end of a process. The most memory that it had, in MB.
fn peak(child: &mut Child) -> f64 {
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut most = 0.0_f64;
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kb = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        most = most.max(kb.unwrap_or_default() / 1000.0);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return most;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The seconds of CPU of all children that have ended.
fn cpu_of_children() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    // The name of the program is in parentheses and may hold anything; times of children are 14 and 15 on.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[13..15].iter().map(|field| field.parse::<f64>().unwrap()).sum();
    ticks / TICKS
}

/// A cluster that is almost balanced: its racks are right, its loads are uneven by chance.
fn million(folder: &Path) {
    let mut brokers = String::from(
        "id,rack,cpu_capacity_pct,nw_in_capacity_kbps,nw_out_capacity_kbps,disk_capacity_mb,state\n",
    );
    for id in 0..BROKERS {
        let _ = writeln!(brokers, "{id},r{},1600,1000000,2000000,20000000,alive", id % 3);
    }
    fs::write(folder.join("brokers.csv"), brokers).unwrap();
    let mut text =
        String::from("topic,partition,replicas,cpu_pct,nw_in_kbps,nw_out_kbps,disk_mb\n");
    let mut chance: u64 = 42;
    let mut next = |below: usize| {
        chance =
            chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) as usize % below
    };
    for partition in 0..PARTITIONS {
        let rack = next(3);
        // The same step in each rack, so that three brokers of three racks hold each partition.
        let places: Vec<String> =
            (0..3).map(|at| (next(BROKERS / 3) * 3 + (rack + at) % 3).to_string()).collect();
        let kb = 1 + next(100);
        let (topic, number) = (partition / 100, partition % 100);
        let _ = writeln!(
            text,
            "t{topic:05},{number},{},{:.3},{kb},{},{}",
            places.join(";"),
            kb as f64 / 100.0,
            kb * 3,
            100 + next(2_000),
        );
    }
    fs::write(folder.join("partitions.csv"), text).unwrap();
}
