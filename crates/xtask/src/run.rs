//! Runs the steps of a task. Each step prints a line with the elapsed time, and the last line lists what each one took.
//!
//! The output of programs is passed through unchanged, so that the progress of a long build is visible.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fmt, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::group::Group;
use crate::results::{self, Case};
use crate::{root, skips};

/// A program with its arguments and environment; `Display` formats it as a shell command.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    env: Vec<(&'static str, String)>,
    program: String,
    args: Vec<String>,
    /// The folder to run it in, below the root of the repository.
    folder: Option<&'static str>,
}

impl Line {
    /// A program and its arguments, separated by spaces. No quoting: no argument of ours needs it.
    pub(crate) fn new(words: &str) -> Self {
        let mut words = words.split_whitespace().map(str::to_owned);
        Self {
            env: Vec::new(),
            program: words.next().unwrap_or_default(),
            args: words.collect(),
            folder: None,
        }
    }

    /// A program whose name may have spaces in it, such as a path.
    pub(crate) fn program(program: impl Into<String>) -> Self {
        Self { env: Vec::new(), program: program.into(), args: Vec::new(), folder: None }
    }

    /// Adds arguments, separated by spaces.
    pub(crate) fn words(self, words: &str) -> Self {
        words.split_whitespace().fold(self, Self::arg)
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

    /// Runs it in a folder below the root of the repository.
    pub(crate) fn within(mut self, folder: &'static str) -> Self {
        self.folder = Some(folder);
        self
    }

    /// The command to be run from the root of the repository, or from its folder.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let folder = self.folder.map_or_else(|| root().to_owned(), |folder| root().join(folder));
        command.args(self.args.iter().map(OsStr::new)).current_dir(folder);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(folder) = self.folder {
            write!(f, "cd {folder} && ")?;
        }
        for (name, value) in &self.env {
            write!(f, "{name}={} ", quoted(value))?;
        }
        write!(f, "{}", quoted(&self.program))?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(arg)))
    }
}

/// A word, quoted for the shell if necessary: the printed command can be pasted.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// What each step of a task takes with empty caches on two cores, in seconds.
pub(crate) type Estimates = &'static [(&'static str, u64)];

/// A running task.
pub(crate) struct Run {
    task: &'static str,
    estimates: Estimates,
    begun: Instant,
    done: Vec<(String, Duration)>,
    skipped: Vec<(String, String)>,
    cases: Vec<Case>,
    doc_tests: usize,
}

impl Run {
    /// Starts a task.
    pub(crate) fn new(task: &'static str) -> Self {
        Self::with_estimates(task, &[])
    }

    /// Starts a task whose steps show how much of a first run is left.
    pub(crate) fn with_estimates(task: &'static str, estimates: Estimates) -> Self {
        let (done, skipped, cases) = (Vec::new(), Vec::new(), Vec::new());
        Self { task, estimates, begun: Instant::now(), done, skipped, cases, doc_tests: 0 }
    }

    /// Runs a program and fails if it does.
    pub(crate) fn step(&mut self, name: &str, line: &Line) -> Result<()> {
        self.inline(name, &line.to_string(), || status(line))
    }

    /// Runs two programs concurrently and fails if one of them does. If the second one fails, the first one is killed
    /// with all its children.
    pub(crate) fn both(
        &mut self,
        (name, line): (&str, &Line),
        (second, second_line): (&str, &Line),
    ) -> Result<()> {
        self.say(name, &line.to_string());
        let begun = Instant::now();
        let failed = |error: anyhow::Error| {
            anyhow::anyhow!("the step `{name}` failed ({error:#}); to repeat it alone: {line}")
        };
        let group = Group::start(line.command()).context("cannot run it").map_err(failed)?;
        self.step(second, second_line)?;
        let status = group.wait().context("cannot wait for it").map_err(failed)?;
        if !status.success() {
            return Err(failed(anyhow::anyhow!("it exited with {status}")));
        }
        self.done.push((name.to_owned(), begun.elapsed()));
        Ok(())
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

    /// Runs tests with `cargo nextest` and collects their results, even if some fail.
    pub(crate) fn tests(&mut self, name: &str, line: &Line) -> Result<()> {
        let report = target()?.join("nextest/default/junit.xml");
        // A run that fails to compile writes no report, and an older one must not be read instead.
        remove_file(&report)?;
        let outcome = self.step(name, line);
        if let Ok(junit) = fs::read_to_string(&report) {
            self.cases.extend(results::parse(&junit)?);
        } else if outcome.is_ok() {
            bail!("the step `{name}` wrote no report to {report:?}");
        }
        outcome
    }

    /// Runs doc tests with `cargo test`. Ignored doc tests fail the step: they would be skipped silently.
    pub(crate) fn doc_tests(&mut self, name: &str, line: &Line) -> Result<()> {
        let mut passed = 0;
        self.inline(name, &line.to_string(), || {
            let output = line.command().stderr(Stdio::inherit()).output();
            let output = output.context("cannot run it")?;
            let text = String::from_utf8_lossy(&output.stdout);
            if !output.status.success() {
                print!("{text}");
                bail!("it exited with {}", output.status);
            }
            let (good, _, ignored) = results::summary(&text);
            ensure!(ignored == 0, "{ignored} doc tests are ignored");
            passed = good;
            Ok(())
        })?;
        self.doc_tests += passed;
        Ok(())
    }

    /// Skips a step, which fails the task unless the repository lists that skip.
    pub(crate) fn skip(&mut self, name: &str, why: &str) -> Result<()> {
        self.say(name, &format!("skipped: {why}"));
        ensure!(skips::is_listed(name), "{name} was skipped ({why}), which skips.rs does not list");
        self.skipped.push((name.to_owned(), why.to_owned()));
        Ok(())
    }

    /// The results of all tests so far.
    pub(crate) fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// Prints the last lines of a successful task: what each step took, then tests and skips.
    pub(crate) fn finish(self) {
        if self.done.is_empty() {
            return self.say(self.task, "nothing to do");
        }
        let steps: Vec<String> =
            self.done.iter().map(|(name, took)| format!("{name} {}", seconds(*took))).collect();
        self.say(self.task, &format!("passed ({})", steps.join(", ")));
        if !self.cases.is_empty() {
            println!("{}", self.counts());
        }
    }

    fn counts(&self) -> String {
        let run = self.cases.len() + self.doc_tests;
        let failed = self.cases.iter().filter(|case| !case.passed).count();
        let skips = self.skipped.iter().map(|(name, why)| format!("{name}: {why}"));
        let skips: Vec<_> = skips.collect();
        let why = if skips.is_empty() { String::new() } else { format!(" ({})", skips.join("; ")) };
        let (task, skipped) = (self.task, skips.len());
        format!("{task}: {run} tests run, {failed} failed, {skipped} skipped{why}")
    }

    fn say(&self, name: &str, what: &str) {
        println!("[{:>8}{}] {name}: {what}", seconds(self.begun.elapsed()), self.ahead(name));
    }

    /// The position of a step, and how long a first run takes from here on.
    fn ahead(&self, name: &str) -> String {
        let Some(at) = self.estimates.iter().position(|(step, _)| *step == name) else {
            return String::new();
        };
        let left: u64 = self.estimates[at..].iter().map(|(_, seconds)| seconds).sum();
        let (step, of, minutes) = (at + 1, self.estimates.len(), left.div_ceil(60));
        format!(", step {step} of {of}, first run: about {minutes} min left")
    }
}

/// Runs a program; an unsuccessful exit status is an error.
fn status(line: &Line) -> Result<()> {
    let status = line.command().status().context("cannot run it")?;
    ensure!(status.success(), "it exited with {status}");
    Ok(())
}

/// Removes a file of an earlier run, if there is one.
pub(crate) fn remove_file(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", file.display()))
        }
        _ => Ok(()),
    }
}

/// cargo's target directory.
pub(crate) fn target() -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find the path of this program")?;
    let target = own.ancestors().nth(2).context("this program is not in a target directory")?;
    Ok(target.to_owned())
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
    fn a_step_shows_how_much_of_a_first_run_is_left() {
        let run = Run::with_estimates("sample", &[("build", 90), ("tests", 31)]);
        assert_eq!(run.ahead("build"), ", step 1 of 2, first run: about 3 min left");
        assert_eq!(run.ahead("tests"), ", step 2 of 2, first run: about 1 min left");
        assert_eq!(run.ahead("other"), "");
    }

    #[test]
    fn of_two_programs_both_have_to_succeed() {
        let run = |first: &str, second: &str| {
            let (first, second) = (Line::new(first), Line::new(second));
            let done = Run::new("sample").both(("first", &first), ("second", &second));
            done.map_err(|error| error.to_string())
        };
        assert_eq!(run("true", "true"), Ok(()));
        assert!(run("false", "true").unwrap_err().starts_with("the step `first` failed"));
        assert!(run("no-such-program", "true").unwrap_err().contains("cannot run it"));
        // The first is killed when the second fails.
        assert!(run("sleep 600", "false").unwrap_err().starts_with("the step `second` failed"));
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failed_step() {
        let error = Run::new("sample").step("fail", &Line::new("no-such-program")).unwrap_err();
        assert!(error.to_string().contains("cannot run it"), "{error}");
    }

    #[test]
    fn only_listed_skips_are_allowed() {
        let mut run = Run::new("sample");
        run.skip("advisories", "no database").unwrap();
        let error = run.skip("everything", "no time").unwrap_err().to_string();
        assert!(error.starts_with("everything was skipped (no time)"), "{error}");
        assert_eq!(
            run.counts(),
            "sample: 0 tests run, 0 failed, 1 skipped (advisories: no database)"
        );
    }
}
