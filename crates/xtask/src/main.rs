//! Development tasks: `cargo xtask <task>`. The Makefile is the index to them, the logic is here.
//!
//! A task is a list of steps. Each step says in one line what it does, and a failed one says which
//! command repeats it alone.

mod areas;
mod check;
mod demo;
mod dist;
mod group;
mod mutants;
mod rbac;
mod results;
mod run;
mod skips;
mod small;
mod soak;
mod test;
mod tidy;
mod tools;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Development tasks of Gregor.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Format, tidy, clippy, unit tests and dependency rules: what every commit must pass
    Check,
    /// Everything of `check`, then all tests, with real Kafka, and a short fuzz run
    Test,
    /// The structure and hygiene of the repository, without compiling it
    Tidy {
        /// Write the files that are derived from the crate table instead of comparing them
        #[arg(long)]
        fix: bool,
    },
    /// A short demonstration on this machine
    Demo {
        /// Leave the cluster running at the end, until Ctrl-C
        #[arg(long)]
        keep: bool,
    },
    /// All benchmarks
    Bench,
    /// Run one of the long tests, or list them with the commit at which each last passed
    Soak {
        /// The part to run
        part: Option<String>,
    },
    /// Change the code that decides, one thing at a time, and see whether its tests notice; goes on where it stopped
    Mutants {
        /// One part of all mutants, such as 1/16
        shard: Option<mutants::Shard>,
    },
    /// The documentation of our crates
    Doc,
    /// Compare the rights that are installed with those that the tests used
    Rbac,
    /// The release program, and the images from bases that are named by digests
    Dist(dist::Dist),
    /// Remove everything that was built here
    Clean,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Check => check::run(),
        Task::Test => test::run(),
        Task::Tidy { fix } => tidy::run(root(), fix),
        Task::Demo { keep } => demo::run(keep),
        Task::Bench => small::bench(),
        Task::Soak { part } => soak::run(part.as_deref()),
        Task::Mutants { shard } => mutants::run(shard),
        Task::Doc => small::doc(),
        Task::Rbac => rbac::run(),
        Task::Dist(dist) => dist.run(),
        Task::Clean => small::clean(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository. Known when this program is compiled, so it works from any folder.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}
