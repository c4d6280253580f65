//! Development tasks: `cargo xtask <task>`. The Makefile is the index; the logic is here.
//!
//! A task is a list of steps. Each step prints one line, and a failed one prints the command that repeats it.

mod areas;
mod book;
mod check;
mod console;
mod demo;
mod dist;
mod e2e;
#[cfg(test)]
mod grounds;
mod group;
mod images;
mod mutants;
mod rbac;
mod results;
mod run;
mod sbom;
mod skips;
mod small;
mod soak;
mod test;
mod tidy;
mod tools;
mod words;

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
    /// Run format, tidy, clippy, unit tests and dependency rules, which every commit must pass
    Check,
    /// Run `check`, all tests with real Kafka and Kubernetes, and a short fuzz run
    Test,
    /// Check structure and hygiene of the repository, without compiling
    Tidy {
        /// Write derived files instead of comparing them
        #[arg(long)]
        fix: bool,
    },
    /// List all strings that users read, one file per crate in docs/generated/words
    Words,
    /// Run a demonstration on this machine
    Demo {
        /// Leave the cluster running at the end, until Ctrl-C
        #[arg(long)]
        keep: bool,
    },
    /// Build the pages of `gregor console` for the next build of the program
    Console,
    /// Run all benchmarks
    Bench,
    /// Run a long test, or list them with the commit at which each last passed
    Soak {
        /// Name of the long test
        part: Option<String>,
    },
    /// Run tests in containers, on nodes with a kubelet and containerd; needs root
    E2e(e2e::E2e),
    /// Run mutation tests of the safety rules; continues an interrupted run
    Mutants {
        /// One shard of all mutants, such as 1/16
        shard: Option<mutants::Shard>,
    },
    /// Build the guide and the documentation of the crates
    Doc,
    /// Compare installed permissions with those that the tests used
    Rbac,
    /// Build the release program, and images from a base image that is pinned by digest
    Dist(dist::Dist),
    /// Remove all build results
    Clean,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Check => check::run(),
        Task::Test => test::run(),
        Task::Tidy { fix } => tidy::run(root(), fix),
        Task::Words => words::run(root()),
        Task::Demo { keep } => demo::run(keep),
        Task::Console => console::build(),
        Task::Bench => small::bench(),
        Task::Soak { part } => soak::run(part.as_deref()),
        Task::E2e(e2e) => e2e.run(),
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

/// The root of the repository, known at compile time, so that tasks run in any directory.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}
