//! `mutants`: whether the tests notice when the code that decides is wrong.
//!
//! cargo-mutants lists changes of one thing each (an operator, a result, an arm of a match) in the modules that hold the
//! safety rules. The tests of their crate run with each of them. A change that no test notices is a survivor.
//!
//! 1. Survivors are listed and judged in `.config/mutants.tsv` ([`survivors`]). One that is not listed fails the task,
//!    and so does a row that no survivor needs any more: the list only shrinks.
//! 2. Outcomes are kept in the target folder ([`outcomes`]), so that a run that was interrupted goes on where it stopped,
//!    and shards add up. They are not committed: whoever doubts them removes the folder.
//! 3. Almost all are in one build, in which each is switched on by its number ([`sites`], [`together`]). cargo-mutants
//!    builds the others, one at a time.
//! 4. It is no part of `test`: some thousand runs of the tests take an hour.

mod outcomes;
mod sites;
mod survivors;
mod together;

use std::path::Path;
use std::str::FromStr;
use std::{fmt, fs};

use anyhow::{Context, Error, Result, bail, ensure};
use serde::Deserialize;

use crate::run::{Line, Run, target};
use crate::{root, tools};
use outcomes::{Outcome, Outcomes, Sources};
use sites::Wanted;

/// A crate of which modules are mutated.
struct Part {
    package: &'static str,
    /// The files, as globs.
    files: &'static [&'static str],
    /// The targets whose tests have to notice.
    tests: &'static [&'static str],
}

/// Two runs of cargo-mutants, as the targets of one crate are not those of the other.
const PARTS: [Part; 2] = [
    Part {
        package: "control",
        files: &[
            "crates/control/src/quorum/**/*.rs",
            "crates/control/src/rebalance/**/*.rs",
            "crates/control/src/registration/**/*.rs",
            "crates/control/src/rolling/**/*.rs",
            "crates/control/src/scaling/**/*.rs",
        ],
        tests: &[
            "--lib",
            "--test=machines",
            "--test=quorum_life",
            "--test=quorum_plan",
            "--test=rebalance_model",
            "--test=scale_down",
        ],
    },
    Part {
        package: "placement",
        files: &["crates/placement/src/check.rs"],
        tests: &["--lib", "--test=clusters", "--test=options"],
    },
];

/// Fewer mutants than these are not worth a build of all.
const ALONE_MAX: usize = 10;

/// Progress is printed with every so many mutants, besides each survivor.
const REPORT_EVERY: usize = 100;

/// The most mutants of one run of cargo-mutants. Each is named on its command line, and what has been found out is
/// read at the end of a run. A run begins with one build and one test of the unchanged crate, a minute or so.
const BATCH: usize = 200;

/// How long the tests of a mutant may take at least. Else it is five times what they take without a change. One that
/// takes longer loops: the runner of `make test` stops it and counts it as failed.
const TEST_SECONDS: &str = "60";
/// How long a build may take; some changes of constants keep the compiler busy for ever.
const BUILD_SECONDS: &str = "600";

/// One of several parts of all mutants, numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let words = text.split_once('/').context("write it as NUMBER/COUNT, such as 1/16")?;
        let number: usize = words.0.parse()?;
        let of: usize = words.1.parse()?;
        ensure!((1..=of).contains(&number), "the number is from 1 to the count");
        Ok(Self { number, of })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl Shard {
    /// Whether the mutant at this place of the list belongs to it. Neighbours belong to different shards, so that each
    /// shard is a sample of all files.
    fn has(self, at: usize) -> bool {
        at % self.of == self.number - 1
    }
}

/// A mutant, as cargo-mutants names it: `FILE:LINE:COLUMN: CHANGE`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mutant {
    name: String,
    file: String,
    /// Where the part begins that is replaced: line and column, both from 1.
    start: (usize, usize),
    /// What is changed, without the line: code that moves is still the same code.
    change: String,
    /// The kind of change.
    genre: String,
    replacement: String,
}

/// A mutant in the list that cargo-mutants writes.
#[derive(Debug, Deserialize)]
struct Listed {
    name: String,
    genre: String,
    replacement: String,
}

impl Mutant {
    fn parse(name: &str) -> Option<Self> {
        let (place, change) = name.split_once(": ")?;
        let (rest, column) = place.rsplit_once(':')?;
        let (file, line) = rest.rsplit_once(':')?;
        Some(Self {
            name: name.to_owned(),
            file: file.to_owned(),
            start: (line.parse().ok()?, column.parse().ok()?),
            change: change.to_owned(),
            genre: String::new(),
            replacement: String::new(),
        })
    }

    fn of(listed: Listed) -> Option<Self> {
        let Listed { name, genre, replacement } = listed;
        Some(Self { genre, replacement, ..Self::parse(&name)? })
    }

    /// It as a part of a file that holds all.
    fn wanted(&self, number: usize) -> Wanted {
        let (genre, replacement) = (self.genre.clone(), self.replacement.clone());
        Wanted { number, genre, start: self.start, replacement }
    }

    /// The beginning of the names of the unit tests that are closest to it: those of its folder.
    fn module(&self) -> String {
        let path = self.file.split_once("/src/").map_or("", |(_, path)| path);
        match path.rsplit_once('/') {
            Some((folder, _)) => format!("{}::", folder.replace('/', "::")),
            None => format!("{}::", path.trim_end_matches(".rs")),
        }
    }
}

/// Tries the mutants of a shard, or all, that have not been tried yet, and judges what is known of all.
pub(crate) fn run(shard: Option<Shard>) -> Result<()> {
    let list = fs::read_to_string(root().join(survivors::LIST)).context(survivors::LIST)?;
    let rows = survivors::parse(&list)?;
    let sources = Sources::read(root())?;
    let mut outcomes = Outcomes::open(target()?.join("mutants"))?;
    let mut all = Vec::new();
    for part in &PARTS {
        all.extend(part.list()?);
    }
    let mut run = Run::new("mutants");
    let words = shard.map(|shard| format!(" {shard}")).unwrap_or_default();
    let repeat = format!("cargo xtask mutants{words}");
    for part in &PARTS {
        let is_chosen = |(at, mutant): &(usize, &Mutant)| {
            part.has(mutant) && shard.is_none_or(|shard| shard.has(*at))
        };
        let chosen: Vec<(usize, &Mutant)> = all.iter().enumerate().filter(is_chosen).collect();
        let open = |outcomes: &Outcomes| -> Vec<(usize, &Mutant)> {
            let is_open = |(_, mutant): &&(usize, &Mutant)| outcomes.of(mutant, sources).is_none();
            chosen.iter().filter(is_open).copied().collect()
        };
        let some = open(&outcomes);
        println!("mutants: {} of {} to be tried", some.len(), part.package);
        if some.len() > ALONE_MAX {
            let name = format!("{}, together", part.package);
            let whole: Vec<(usize, &Mutant)> = all.iter().enumerate().collect();
            let test = || part.test_together(&whole, &some, sources, &mut outcomes);
            run.inline(&name, &repeat, test)?;
        }
        let open: Vec<&Mutant> = open(&outcomes).into_iter().map(|(_, mutant)| mutant).collect();
        for (number, batch) in open.chunks(BATCH).enumerate() {
            let name = format!("{}-{}", part.package, number + 1);
            run.inline(&name, &repeat, || part.test(batch, sources, &mut outcomes))?;
        }
    }
    let found: Vec<_> = all.iter().map(|mutant| (mutant, outcomes.of(mutant, sources))).collect();
    let verdict = survivors::judge(&rows, &found);
    print!("{verdict}");
    ensure!(verdict.is_good(), "see above; the list is {}", survivors::LIST);
    run.finish();
    Ok(())
}

impl Part {
    fn has(&self, mutant: &Mutant) -> bool {
        mutant.file.starts_with(&format!("crates/{}/", self.package))
    }

    /// What is common to all calls. There is no configuration elsewhere.
    fn line(&self) -> Result<Line> {
        let line =
            tools::mutants()?.words("--no-config --colors never --package").arg(self.package);
        Ok(self.files.iter().fold(line, |line, glob| line.arg("--file").arg(*glob)))
    }

    /// All mutants, in the order of the source.
    fn list(&self) -> Result<Vec<Mutant>> {
        let line = self.line()?.words("--list --json");
        let output = line.command().output().with_context(|| format!("cannot run {line}"))?;
        if !output.status.success() {
            bail!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let list: Vec<Listed> =
            serde_json::from_slice(&output.stdout).context("cannot read the list of mutants")?;
        let list: Option<Vec<Mutant>> = list.into_iter().map(Mutant::of).collect();
        let list = list.context("a mutant has another name than FILE:LINE:COLUMN: CHANGE")?;
        ensure!(
            !list.is_empty(),
            "{} has no mutants: do its files still have these names?",
            self.package
        );
        Ok(list)
    }

    /// Tries mutants in one build of all, and keeps each outcome at once. What cannot be built so stays open.
    fn test_together(
        &self,
        all: &[(usize, &Mutant)],
        open: &[(usize, &Mutant)],
        sources: Sources,
        outcomes: &mut Outcomes,
    ) -> Result<()> {
        let together = together::build(self, all, &outcomes.folder().join("together"))?;
        let (mut ready, mut unviable) = (Vec::new(), 0);
        for (number, mutant) in open {
            if together.unviable.contains(number) {
                outcomes.keep(mutant, Outcome::Unviable, sources)?;
                unviable += 1;
            } else if together.numbers.contains(number) {
                ready.push((*number, *mutant));
            }
        }
        let alone = open.len() - unviable - ready.len();
        println!("mutants: {} together, {alone} alone, {unviable} do not compile", ready.len());
        let mut done = 0;
        together.run(&ready, |mutant, outcome| {
            done += 1;
            if outcome == Outcome::Missed || done % REPORT_EVERY == 0 {
                println!("mutants: {done}/{}: {outcome:?}: {}", ready.len(), mutant.name);
            }
            outcomes.keep(mutant, outcome, sources)
        })
    }

    /// Tries some mutants, each in a build of its own, and keeps what was found out, also if the run fails.
    fn test(&self, batch: &[&Mutant], sources: Sources, outcomes: &mut Outcomes) -> Result<()> {
        outcomes.begin(batch, sources)?;
        let status = self.test_line(batch, outcomes.folder())?.command().status();
        let status = status.context("cannot start cargo-mutants")?;
        outcomes.absorb()?;
        match status.code() {
            // All were caught; some were missed; some took too long.
            Some(0 | 2 | 3) => Ok(()),
            Some(4) => bail!("the tests fail without any change"),
            _ => bail!("cargo-mutants ended with {status}"),
        }
    }

    fn check_words(&self) -> Vec<String> {
        ["check", "--lib", "--package", self.package].map(str::to_owned).to_vec()
    }

    fn test_words(&self) -> Vec<String> {
        let words = ["test", "--no-run", "--package", self.package].map(str::to_owned);
        words.into_iter().chain(self.tests.iter().map(|test| (*test).to_owned())).collect()
    }

    fn test_line(&self, batch: &[&Mutant], folder: &Path) -> Result<Line> {
        let line = self.line()?.words("--cap-lints=true --minimum-test-timeout").arg(TEST_SECONDS);
        let line = line.arg("--build-timeout").arg(BUILD_SECONDS);
        let line = line.arg("--output").arg(folder.display().to_string());
        let line =
            self.tests.iter().fold(line, |line, test| line.arg(format!("--cargo-arg={test}")));
        let named = |line: Line, mutant: &&Mutant| {
            line.arg("--re").arg(format!("^{}$", escaped(&mutant.name)))
        };
        // What others depend on is built once, and a mutant is not debugged.
        let built = folder.join("build").display().to_string();
        let line = batch.iter().fold(line, named).env("CARGO_TARGET_DIR", built);
        Ok(line.env("CARGO_PROFILE_DEV_DEBUG", "0"))
    }
}

/// A text as a regular expression that matches it alone. Other characters must not have a backslash: `\<` is the
/// beginning of a word.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Test programs of the crates that have nothing to notice here, or take too long for it.
    const LEFT_OUT: [(&str, &str); 4] = [
        ("annotations", "about a list in another module"),
        ("reasons", "about a page of the documentation"),
        // Twenty seconds for each survivor. It runs whole passes, and finds what two rules do together; a rule that
        // nothing else tests should be found to have no test.
        ("elastic", "a simulation of whole passes"),
        ("shapes", "a minute of searches for each survivor"),
    ];

    #[test]
    fn a_mutant_is_known_by_its_file_and_its_change() {
        let name = "crates/control/src/a.rs:12:5: replace read -> Option<Event> with None";
        let mutant = Mutant::parse(name).unwrap();
        assert_eq!(mutant.file, "crates/control/src/a.rs");
        assert_eq!(mutant.change, "replace read -> Option<Event> with None");
        assert!(PARTS[0].has(&mutant) && !PARTS[1].has(&mutant));
        assert_eq!(Mutant::parse("Found 12 mutants to test"), None);
    }

    #[test]
    fn shards_have_each_mutant_once() {
        let shards: Vec<Shard> = (1..=3).map(|n| format!("{n}/3").parse().unwrap()).collect();
        for at in 0..10 {
            assert_eq!(shards.iter().filter(|shard| shard.has(at)).count(), 1, "{at}");
        }
        for bad in ["0/3", "4/3", "0/0", "3", "a/b", ""] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_is_matched_as_it_is() {
        let name = "a.rs:1:2: replace f -> Vec<(u8, &str)> with vec![]";
        assert_eq!(escaped(name), r"a\.rs:1:2: replace f \-> Vec<\(u8, \&str\)> with vec!\[\]");
    }

    #[test]
    fn every_test_program_of_a_mutated_crate_is_run_or_left_out() {
        for part in &PARTS {
            let folder = root().join("crates").join(part.package).join("tests");
            let name = |entry: fs::DirEntry| {
                let name = entry.file_name().into_string().unwrap();
                name.trim_end_matches(".rs").to_owned()
            };
            let there = fs::read_dir(folder).unwrap().flatten().map(name);
            let run = part.tests.iter().filter_map(|test| test.strip_prefix("--test="));
            let run: BTreeSet<String> = run.map(str::to_owned).collect();
            let is_left_out = |name: &String| LEFT_OUT.iter().any(|(one, _)| one == name);
            let expected: BTreeSet<String> = there.filter(|name| !is_left_out(name)).collect();
            assert_eq!(run, expected, "{}", part.package);
        }
    }

    #[test]
    fn the_mutated_folders_exist() {
        for glob in PARTS.iter().flat_map(|part| part.files) {
            let path = glob.split("/**").next().unwrap_or(glob);
            assert!(root().join(path).exists(), "{glob}");
        }
    }
}
