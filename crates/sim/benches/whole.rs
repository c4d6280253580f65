//! How many hours of a simulated cluster a minute of CPU time buys: whole clusters under edits and faults.
//!
//! `cargo bench -p sim --bench whole`.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark reads the clock and prints"
)]

use std::time::Instant;

use sim::whole::{Sabotage, Script, run};

const SEEDS: u64 = 200;

fn main() {
    let begun = Instant::now();
    let (mut simulated_ms, mut passes) = (0, 0);
    for seed in 0..SEEDS {
        let report = run(&Script::new(seed), Sabotage::None, false);
        simulated_ms += report.simulated_ms;
        passes += report.coverage.of("pass");
    }
    // One thread, so that this is CPU time on a machine that is idle otherwise.
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let hours = std::time::Duration::from_millis(simulated_ms).as_secs_f64() / 3_600.0;
    println!(
        "{SEEDS} clusters, {hours:.1} simulated hours, {passes} passes in {minutes:.2} minutes"
    );
    println!("{:.0} cluster-hours per CPU minute", hours / minutes);
}
