//! Builds all mutants of a crate into the same test programs, and runs these once for each mutant.
//!
//! 1. A mutant is tried with the tests that cargo-mutants would run, in an order that finds the one that fails soon: those
//!    of its own module, then the other unit tests, then the test programs.
//! 2. A test that does not end is stopped by the CPU time that it takes, not by the clock: a busy machine must not look
//!    like a caught mutant.
//! 3. A mutant whose replacement does not compile has no build, as alone. One that is in the way of others is left to
//!    cargo-mutants.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::outcomes::Outcome;
use super::sites::{self, Fragment, Kind, Wanted};
use super::{Mutant, Part};
use crate::root;

/// Which mutant is on.
pub(super) const VARIABLE: &str = "GREGOR_MUTANT";
/// What the crate root gets: the function that `sites` calls.
pub(super) const SWITCH: &str = r#"
static MUTANT: std::sync::LazyLock<Option<usize>> =
    std::sync::LazyLock::new(|| std::env::var("GREGOR_MUTANT").ok()?.parse().ok());
#[inline]
pub(crate) fn mutant_is_on(number: usize) -> bool { *MUTANT == Some(number) }
"#;
/// More attempts to compile than this are no progress: each leaves out what did not compile in the one before.
const ATTEMPTS_MAX: usize = 25;
/// The CPU seconds that a test program may take at least, and how often what it takes without a mutant.
const CPU_SECONDS_MIN: u64 = 30;
const CPU_FACTOR: u64 = 10;
/// In KiB. A mutant that collects without end must not take the machine along.
const MEMORY_MAX: u64 = 4_000_000;
/// The signal that ends a process which has used its CPU time.
const SIGXCPU: i32 = 24;
const SIGKILL: i32 = 9;

/// The test programs with the mutants of a crate.
pub(super) struct Together {
    programs: Vec<Program>,
    /// The mutants that can be switched on.
    pub(super) numbers: BTreeSet<usize>,
    /// The mutants whose replacement does not compile.
    pub(super) unviable: BTreeSet<usize>,
}

struct Program {
    path: PathBuf,
    folder: PathBuf,
    is_unit: bool,
    cpu_seconds: u64,
}

/// The mutants of one file.
type Files<'a> = BTreeMap<&'a str, Vec<Wanted>>;

/// Builds the test programs. `folder` is kept, so that the next build is quick.
pub(super) fn build(part: &Part, all: &[(usize, &Mutant)], folder: &Path) -> Result<Together> {
    let source = folder.join("source");
    copy(&source)?;
    let mut files: Files<'_> = BTreeMap::new();
    for (number, mutant) in all.iter().filter(|(_, mutant)| part.has(mutant)) {
        files.entry(&mutant.file).or_default().push(mutant.wanted(*number));
    }
    let (mut left_out, mut unviable, mut constant) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for _ in 0..ATTEMPTS_MAX {
        let mut fragments = BTreeMap::new();
        let mut numbers = BTreeSet::new();
        for (file, wanted) in &files {
            let is_in = |one: &&Wanted| !left_out.contains(&one.number);
            let wanted: Vec<Wanted> = wanted.iter().filter(is_in).cloned().collect();
            let text = fs::read_to_string(root().join(file)).context(file.to_string())?;
            let mutated = sites::mutate(&text, &wanted, &constant).context(file.to_string())?;
            write(&source.join(file), mutated.text.as_bytes())?;
            fragments.insert(*file, mutated.fragments);
            numbers.extend(mutated.numbers);
        }
        let crate_root = Path::new("crates").join(part.package).join("src/lib.rs");
        let text = fs::read_to_string(root().join(&crate_root)).context("src/lib.rs")?;
        write(&source.join(&crate_root), (text + SWITCH).as_bytes())?;
        let (check, is_good) = cargo(&source, folder, &part.check_words())?;
        if is_good {
            let (messages, is_good) = cargo(&source, folder, &part.test_words())?;
            ensure!(is_good, "the tests do not compile:\n{}", rendered(&messages));
            let programs = programs(&messages, &source.join("crates").join(part.package));
            let mut together = Together { programs, numbers, unviable };
            together.measure()?;
            return Ok(together);
        }
        let before = (left_out.len(), constant.len());
        constant.extend(constants(&check));
        for (mutants, is_replacement) in guilty(&check, &fragments) {
            if is_replacement {
                unviable.extend(mutants.iter().copied());
            }
            left_out.extend(mutants);
        }
        let is_progress = (left_out.len(), constant.len()) != before;
        ensure!(is_progress, "no mutant is to blame:\n{}", rendered(&check));
    }
    bail!("it does not compile after {ATTEMPTS_MAX} attempts")
}

/// Copies what git knows or would add, without touching what is the same.
fn copy(to: &Path) -> Result<()> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .context("cannot start git")?;
    ensure!(output.status.success(), "git ls-files: {}", output.status);
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        // One that was removed and not yet committed.
        if let Ok(bytes) = fs::read(root().join(name)) {
            write(&to.join(name), &bytes)?;
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let folder = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {folder:?}"))?;
    fs::write(path, bytes).with_context(|| format!("cannot write {path:?}"))
}

/// Runs cargo and returns its messages, and whether it succeeded.
fn cargo(source: &Path, folder: &Path, words: &[String]) -> Result<(Vec<Value>, bool)> {
    let output = Command::new("cargo")
        .args(words)
        .arg("--message-format=json")
        .current_dir(source)
        .env("CARGO_TARGET_DIR", folder.join("build"))
        // Optimized, as it is built once and run thousands of times; overflows are found as in other tests.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("RUSTFLAGS", "--cap-lints=allow")
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    let text = String::from_utf8(output.stdout).context("cargo's messages are not UTF-8")?;
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Ok((messages, output.status.success()))
}

/// The errors of the compiler.
fn errors(messages: &[Value]) -> impl Iterator<Item = &Value> {
    let errors = messages.iter().filter(|one| one["reason"] == "compiler-message");
    errors.map(|one| &one["message"]).filter(|message| message["level"] == "error")
}

fn rendered(messages: &[Value]) -> String {
    errors(messages).filter_map(|message| message["rendered"].as_str()).take(3).collect()
}

/// The functions that have to be evaluated by the compiler: those that errors name because they cannot be any more.
fn constants(messages: &[Value]) -> Vec<String> {
    let name = |error: &Value| {
        let is_it = error["code"]["code"] == "E0015";
        let path = error["message"].as_str().filter(|_| is_it)?.split('`').nth(1)?;
        Some(path.rsplit("::").next()?.to_owned())
    };
    errors(messages).filter_map(name).collect()
}

/// The mutants that errors are about, and whether their replacements are what is wrong.
fn guilty(
    messages: &[Value],
    fragments: &BTreeMap<&str, Vec<Fragment>>,
) -> Vec<(Vec<usize>, bool)> {
    let fragment = |error: &Value, span: &Value| {
        let at = usize::try_from(span["byte_start"].as_u64()?).ok()?;
        let here = fragments.get(span["file_name"].as_str()?)?;
        // A `match` that is not exhaustive is named by what it is about.
        let is_match = error["code"]["code"] == "E0004";
        let here = here.iter().filter(|fragment| fragment.range.contains(&at));
        let here = here.filter(|fragment| (fragment.kind == Kind::Match) == is_match);
        let inner = here.min_by_key(|fragment| fragment.range.len())?;
        Some((inner.mutants.clone(), inner.kind == Kind::Replacement))
    };
    let mut all = Vec::new();
    for error in errors(messages) {
        let spans = || error["spans"].as_array().into_iter().flatten();
        let primary = spans().filter(|span| span["is_primary"] == true);
        let before = all.len();
        all.extend(primary.filter_map(|span| fragment(error, span)));
        if all.len() == before {
            // A replacement beside the original moves what is used after both. Alone it may compile.
            let found = spans().filter_map(|span| fragment(error, span));
            all.extend(found.map(|(mutants, _)| (mutants, false)));
        }
    }
    all
}

/// The test programs that cargo built: unit tests first.
fn programs(messages: &[Value], folder: &Path) -> Vec<Program> {
    let program = |message: &Value| {
        let path = PathBuf::from(message["executable"].as_str()?);
        let is_unit = message["target"]["kind"][0] == "lib";
        Some(Program { path, folder: folder.to_owned(), is_unit, cpu_seconds: CPU_SECONDS_MIN })
    };
    let mut programs: Vec<Program> = messages.iter().filter_map(program).collect();
    programs.sort_by_key(|program| !program.is_unit);
    programs
}

/// The result of a run of a test program.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Passed,
    Failed,
    TooLong,
}

impl Program {
    fn run(&self, mutant: Option<usize>, words: &[String]) -> Result<Ended> {
        let limits = format!(
            "ulimit -t {} && ulimit -v {MEMORY_MAX} && ulimit -c 0 && exec \"$0\" \"$@\"",
            self.cpu_seconds
        );
        let mut command = Command::new("sh");
        command.args(["-c", &limits]).arg(&self.path).args(words);
        // One failure is enough. The option is not stable, which the variable allows.
        command.args(["--test-threads=1", "-Zunstable-options", "--fail-fast"]);
        command.current_dir(&self.folder).env("RUSTC_BOOTSTRAP", "1").env("RUST_BACKTRACE", "0");
        if let Some(number) = mutant {
            command.env(VARIABLE, number.to_string());
        }
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = status.status().with_context(|| format!("cannot start {:?}", self.path))?;
        Ok(match status.signal() {
            Some(SIGXCPU | SIGKILL) => Ended::TooLong,
            _ if status.success() => Ended::Passed,
            _ => Ended::Failed,
        })
    }
}

/// The CPU seconds of the processes that this one has waited for.
fn cpu_seconds() -> Result<u64> {
    let mut text = String::new();
    let mut file = fs::File::open("/proc/self/stat").context("/proc/self/stat")?;
    file.read_to_string(&mut text).context("/proc/self/stat")?;
    // After the name: state is the first field, user and system time of children are the 14th and 15th.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(13).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    // A tick is a hundredth of a second on every Linux.
    Ok(ticks / 100)
}

impl Together {
    /// Runs everything without a mutant, which has to pass, and measures what it takes.
    fn measure(&mut self) -> Result<()> {
        ensure!(self.programs.iter().any(|program| program.is_unit), "there are no unit tests");
        for program in &mut self.programs {
            program.cpu_seconds = 3600;
            let before = cpu_seconds()?;
            let ended = program.run(None, &[])?;
            ensure!(ended == Ended::Passed, "{:?} fails without a mutant: {ended:?}", program.path);
            let took = cpu_seconds()? - before;
            program.cpu_seconds = CPU_SECONDS_MIN.max((took + 1) * CPU_FACTOR);
        }
        Ok(())
    }

    fn test(&self, number: usize, mutant: &Mutant) -> Result<Outcome> {
        let own = mutant.module();
        for program in &self.programs {
            let runs = match program.is_unit {
                true => vec![vec![own.clone()], vec!["--skip".to_owned(), own.clone()]],
                false => vec![Vec::new()],
            };
            for words in runs {
                match program.run(Some(number), &words)? {
                    Ended::Passed => {}
                    Ended::Failed => return Ok(Outcome::Caught),
                    Ended::TooLong => return Ok(Outcome::Timeout),
                }
            }
        }
        Ok(Outcome::Missed)
    }

    /// Tries mutants, and reports each as soon as it is known.
    pub(super) fn run(
        &self,
        open: &[(usize, &Mutant)],
        report: impl FnMut(&Mutant, Outcome) -> Result<()> + Send,
    ) -> Result<()> {
        let next = AtomicUsize::new(0);
        let report = Mutex::new(report);
        let work = || -> Result<()> {
            while let Some((number, mutant)) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = self.test(*number, mutant)?;
                let mut report = report.lock().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
                report(mutant, outcome)?;
            }
            Ok(())
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let mut ended = all.into_iter().map(|one| one.join());
            ended.try_for_each(|one| one.unwrap_or_else(|_| bail!("a thread panicked")))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn program(path: &str, cpu_seconds: u64) -> Program {
        Program { path: path.into(), folder: std::env::temp_dir(), is_unit: true, cpu_seconds }
    }

    #[test]
    fn a_test_program_passes_fails_or_takes_too_long() {
        assert_eq!(program("true", 60).run(None, &[]).unwrap(), Ended::Passed);
        assert_eq!(program("false", 60).run(Some(1), &[]).unwrap(), Ended::Failed);
        let script = std::env::temp_dir().join(format!("gregor-loop-{}", std::process::id()));
        fs::write(&script, "while :; do :; done\n").unwrap();
        let words = [script.display().to_string()];
        let ended = program("sh", 1).run(Some(1), &words);
        fs::remove_file(&script).unwrap();
        assert_eq!(ended.unwrap(), Ended::TooLong);
    }

    #[test]
    fn an_error_is_put_down_to_the_innermost_part_that_it_is_in() {
        let fragment =
            |range, mutants: &[usize], kind| Fragment { range, mutants: mutants.to_vec(), kind };
        let all = vec![
            fragment(10..90, &[1, 2], Kind::Site),
            fragment(20..30, &[1], Kind::Replacement),
            fragment(40..50, &[3], Kind::Site),
            fragment(35..80, &[4, 5], Kind::Match),
        ];
        let fragments = BTreeMap::from([("a.rs", all)]);
        let error = |code: &str, file: &str, at: usize| {
            let spans = json!([{ "file_name": file, "byte_start": at, "is_primary": true }]);
            let message = json!({ "level": "error", "spans": spans, "code": { "code": code } });
            vec![json!({ "reason": "compiler-message", "message": message })]
        };
        let rows: [(&str, &str, usize, Vec<(Vec<usize>, bool)>); 6] = [
            ("E0308", "a.rs", 25, vec![(vec![1], true)]),
            ("E0308", "a.rs", 45, vec![(vec![3], false)]),
            ("E0308", "a.rs", 60, vec![(vec![1, 2], false)]),
            ("E0004", "a.rs", 45, vec![(vec![4, 5], false)]),
            ("E0308", "a.rs", 95, vec![]),
            ("E0308", "b.rs", 25, vec![]),
        ];
        for (code, file, at, expected) in rows {
            assert_eq!(guilty(&error(code, file, at), &fragments), expected, "{code} {file} {at}");
        }
        // What is used after it was moved, with where that was.
        let mut moved = error("E0382", "a.rs", 95);
        let spans = moved[0]["message"]["spans"].as_array_mut().unwrap();
        spans.push(json!({ "file_name": "a.rs", "byte_start": 25, "is_primary": false }));
        assert_eq!(guilty(&moved, &fragments), [(vec![1], false)]);
    }

    #[test]
    fn a_function_that_a_constant_calls_stays_constant() {
        let error = |code: &str, text: &str| {
            let message = json!({ "level": "error", "message": text, "code": { "code": code } });
            vec![json!({ "reason": "compiler-message", "message": message })]
        };
        let text = "cannot call non-const associated function `quorum::Mode::name` in constants";
        assert_eq!(constants(&error("E0015", text)), ["name"]);
        assert!(constants(&error("E0308", text)).is_empty());
    }
}
