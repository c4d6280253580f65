//! How long a plan takes for a cluster of 1,000 brokers and 1,000,000 partitions.
//!
//! `cargo bench -p sim --bench plan`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock and prints"
)]

#[path = "../tests/large/mod.rs"]
mod large;

use std::time::Instant;

use large::{large, scale};
use serde_json::json;
use sim::whole::{Start, forward};

fn main() {
    let begun = Instant::now();
    let start = large(1_000, 1_000_000);
    println!("a cluster of 1,000 brokers and 1,000,000 partitions in {:.1?}", begun.elapsed());
    let mut more = start.clone();
    scale(&mut more, "broker", 1_003);
    plan("three brokers more", more);
    let mut rolled = start;
    rolled.kafka["spec"]["kafka"]["jvmOptions"] = json!({ "-Xmx": "256m" });
    rolled.kafka["metadata"]["annotations"]["gregor.io/max-parallel"] = json!("100");
    plan("a restart of all nodes, 100 at a time", rolled);
}

fn plan(name: &str, start: Start) {
    let begun = Instant::now();
    let plan = forward(start);
    let (lines, acts) = (plan.lines.len(), plan.acts.len());
    let (took, passes, end) = (begun.elapsed(), plan.passes, plan.end);
    println!("{name}: {lines} lines, {acts} acts, {passes} passes in {took:.1?} ({end:?})");
}
