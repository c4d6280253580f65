//! The `gregor` program: commands and terminal output. What they do is in the other crates.

mod commands;
mod failure;
mod output;
mod progress;

use std::process::ExitCode;

use clap::Parser;

/// An elastic control plane for Apache Kafka.
#[derive(Debug, Parser)]
#[command(name = "gregor", version, about)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The whole chain in one line: a person at a terminal sees what failed and why.
            output::note(&format!("{error:#}"));
            failure::exit_code(&error)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_commands_have_no_flags_that_contradict_each_other() {
        super::Cli::command().debug_assert();
    }
}
