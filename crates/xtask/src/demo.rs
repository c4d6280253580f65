//! `demo`: a short demonstration on this machine, which a newcomer runs first.
//!
//! The story is `crates/gregor/examples/demo.rs`; here it is only built and run, so that this program
//! need not be linked with all that the story needs.

use anyhow::Result;

use crate::run::{Line, Run};

/// Runs the demonstration. With `keep` its cluster stays until Ctrl-C.
pub(crate) fn run(keep: bool) -> Result<()> {
    let mut run = Run::new("demo");
    run.step("build", &Line::new("cargo build --quiet --package gregor --bins --example demo"))?;
    let story = Line::new("cargo run --quiet --package gregor --example demo --");
    run.step("story", &if keep { story.arg("--keep") } else { story })?;
    run.finish();
    Ok(())
}
