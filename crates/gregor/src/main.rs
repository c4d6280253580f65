//! The `gregor` program: commands and terminal output. What they do is in the other crates.

mod commands;
#[cfg(test)]
mod docs_tests;
mod failure;
mod log;
mod machine;
mod output;
mod progress;

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use failure::Said;

/// An elastic control plane for Apache Kafka.
#[derive(Debug, Parser)]
#[command(name = "gregor", version, about)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

/// Program name when kubectl runs it as a plugin.
const PLUGIN: &str = "kubectl gregor";

/// Exit code of an invalid command line.
const USAGE: u8 = 2;
/// The same for `plan`, where 2 means that something would change.
const USAGE_OF_PLAN: u8 = 1;

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().collect();
    let cli = match command(words.first()).try_get_matches_from(&words) {
        Ok(matches) => Cli::from_arg_matches(&matches),
        Err(error) => Err(error),
    };
    let cli = match cli {
        Ok(cli) => cli,
        Err(error) => {
            // There is no output left on which to report a failure.
            let _ = error.print();
            let is_plan = words.get(1).is_some_and(|word| word == "plan");
            return match (error.use_stderr(), is_plan) {
                (false, _) => ExitCode::SUCCESS,
                (true, true) => ExitCode::from(USAGE_OF_PLAN),
                (true, false) => ExitCode::from(USAGE),
            };
        }
    };
    match cli.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<Said>() {
            Some(Said(code)) => ExitCode::from(*code),
            None => {
                // The whole chain in one line: a person at a terminal sees what failed and why.
                output::note(&format!("{error:#}"));
                failure::exit_code(&error)
            }
        },
    }
}

/// The command line, with the name by which it was called.
fn command(program: Option<&OsString>) -> clap::Command {
    let name = program.and_then(|program| Path::new(program).file_stem()?.to_str());
    match name {
        Some("kubectl-gregor") => Cli::command().bin_name(PLUGIN),
        Some(_) | None => Cli::command(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_have_no_flags_that_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn as_a_plugin_it_is_called_as_kubectl_calls_it() {
        let usage = |program: &str| {
            let program = OsString::from(program);
            let error = command(Some(&program)).try_get_matches_from([program, "why".into()]);
            error.unwrap_err().to_string()
        };
        assert!(usage("/usr/bin/kubectl-gregor").contains("Usage: kubectl gregor why"));
        assert!(usage("/usr/bin/gregor").contains("Usage: gregor why"));
    }
}
