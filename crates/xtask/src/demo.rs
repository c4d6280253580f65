//! `demo`: a demonstration on this machine, the first command for newcomers.
//!
//! The demonstration is `crates/gregor/examples/demo`. This program only builds and runs it, so that it need not be
//! linked with its dependencies.

use anyhow::Result;

use crate::run::{Estimates, Line, Run, target};

/// Measured on two cores.
const STEPS: Estimates =
    &[("build", 420), ("kafka", 25), ("kubernetes", 600), ("demonstration", 360)];

/// Runs the demonstration. With `keep` its cluster runs until Ctrl-C.
pub(crate) fn run(keep: bool) -> Result<()> {
    let mut run = Run::with_estimates("demo", STEPS);
    run.step("build", &Line::new("cargo build --package gregor --bins --example demo"))?;
    let gregor = target()?.join("debug/gregor").display().to_string();
    for program in ["kafka", "kubernetes"] {
        run.step(program, &Line::program(&gregor).arg("fetch").arg(program))?;
    }
    let demo = Line::new("cargo run --quiet --package gregor --example demo --");
    run.step("demonstration", &if keep { demo.arg("--keep") } else { demo })?;
    run.finish();
    Ok(())
}
