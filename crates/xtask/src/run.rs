//! Running the steps of a task: one line for each with the time since the task began, and a last
//! line with what each step took.
//!
//! Output of the programs is passed through untouched: a long build must be seen to go on.

use std::ffi::OsStr;
use std::fmt;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::root;

/// A program with its arguments and environment, which can be shown as a line for the shell.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    env: Vec<(&'static str, String)>,
    program: String,
    args: Vec<String>,
}

impl Line {
    /// A program and its arguments, separated by spaces. No quoting: no argument of ours needs it.
    pub(crate) fn new(words: &str) -> Self {
        let mut words = words.split_whitespace().map(str::to_owned);
        Self { env: Vec::new(), program: words.next().unwrap_or_default(), args: words.collect() }
    }

    /// A program whose name may have spaces in it, such as a path.
    pub(crate) fn program(program: impl Into<String>) -> Self {
        Self { env: Vec::new(), program: program.into(), args: Vec::new() }
    }

    /// Adds an argument as it is.
    pub(crate) fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets an environment variable for this program.
    pub(crate) fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// The command to be run from the root of the repository.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.args.iter().map(OsStr::new)).current_dir(root());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={} ", quoted(value))?;
        }
        write!(f, "{}", quoted(&self.program))?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(arg)))
    }
}

/// A word as a shell would need it; the printed line is meant to be pasted.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A task under way.
pub(crate) struct Run {
    task: &'static str,
    begun: Instant,
    done: Vec<(String, Duration)>,
}

impl Run {
    /// Begins a task; the name is for the last line.
    pub(crate) fn new(task: &'static str) -> Self {
        Self { task, begun: Instant::now(), done: Vec::new() }
    }

    /// Runs a program and fails if it does.
    pub(crate) fn step(&mut self, name: &str, line: &Line) -> Result<()> {
        self.inline(name, &line.to_string(), || {
            let status = line.command().status().context("it could not be started")?;
            if !status.success() {
                bail!("it ended with {status}");
            }
            Ok(())
        })
    }

    /// Runs a step inside this program; `repeat` is the command that does the same alone.
    pub(crate) fn inline(
        &mut self,
        name: &str,
        repeat: &str,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.say(name, repeat);
        let begun = Instant::now();
        if let Err(error) = work() {
            bail!("the step `{name}` failed ({error:#}); to repeat it alone: {repeat}");
        }
        self.done.push((name.to_owned(), begun.elapsed()));
        Ok(())
    }

    /// Says that a step is left out and why. A step is never left out without a word.
    pub(crate) fn skip(&self, name: &str, why: &str) {
        self.say(name, &format!("skipped: {why}"));
    }

    /// The last line of a task that succeeded.
    pub(crate) fn finish(self) {
        if self.done.is_empty() {
            return self.say(self.task, "nothing to do");
        }
        let steps: Vec<String> =
            self.done.iter().map(|(name, took)| format!("{name} {}", seconds(*took))).collect();
        self.say(self.task, &format!("passed ({})", steps.join(", ")));
    }

    fn say(&self, name: &str, what: &str) {
        println!("[{:>8}] {name}: {what}", seconds(self.begun.elapsed()));
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_as_a_shell_reads_it() {
        let line = Line::new("cargo bench --bench").arg("*").env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(line.to_string(), "RUSTDOCFLAGS='-D warnings' cargo bench --bench '*'");
    }

    #[test]
    fn a_failed_step_is_named_with_the_command_that_repeats_it() {
        let error = Run::new("sample").step("fail", &Line::new("false --now")).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("the step `fail` failed"), "{text}");
        assert!(text.ends_with("to repeat it alone: false --now"), "{text}");
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failed_step() {
        let error = Run::new("sample").step("fail", &Line::new("no-such-program")).unwrap_err();
        assert!(error.to_string().contains("could not be started"), "{error}");
    }
}
