//! What has been found out about mutants, in the target folder, so that nothing is tried twice.
//!
//! 1. An outcome holds while nothing changes in the crates that a mutant is made of and tested with. A survivor may be
//!    caught by a new test, and one that was caught may survive when a test has changed.
//! 2. cargo-mutants appends to its lists after each mutant. They are read at the end of a run, or at the beginning of
//!    the next if that one was interrupted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};
use host::file::{self, Survives};

use super::Mutant;

/// The crates that are mutated and those that they are made of.
const CRATES: [&str; 3] = ["control", "model", "placement"];

/// What was found out: outcome, digest of the crates, name of the mutant.
const OUTCOMES: &str = "outcomes.tsv";
/// The mutants of the run under way: digest of the crates, name.
const BEGUN: &str = "begun.tsv";
/// The folder of cargo-mutants, with its lists.
const LISTS: &str = "mutants.out";

/// What came of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A test failed.
    Caught,
    /// All tests passed: a survivor.
    Missed,
    /// The tests did not end in time.
    Timeout,
    /// It does not compile.
    Unviable,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Caught, Self::Missed, Self::Timeout, Self::Unviable];

    /// Its name in our file, and that of cargo-mutants' list.
    const fn name(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Missed => "missed",
            Self::Timeout => "timeout",
            Self::Unviable => "unviable",
        }
    }
}

/// The state of the crates, as a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sources(u64);

impl Sources {
    /// Reads the crates of a repository.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut paths = Vec::new();
        for name in CRATES {
            let folder = root.join("crates").join(name);
            files(&folder, &mut paths).with_context(|| format!("cannot read {folder:?}"))?;
        }
        paths.sort();
        let mut all = DefaultHasher::new();
        for path in paths {
            let bytes = fs::read(&path).with_context(|| format!("cannot read {path:?}"))?;
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            let mut one = DefaultHasher::new();
            one.write(&bytes);
            all.write(name.as_bytes());
            all.write_u64(one.finish());
        }
        Ok(Self(all.finish()))
    }
}

fn files(folder: &Path, into: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, into)?;
        } else {
            into.push(path);
        }
    }
    Ok(())
}

/// The outcomes that are known.
#[derive(Debug)]
pub(super) struct Outcomes {
    folder: PathBuf,
    /// By the name of the mutant, with the crates that it was tried in.
    known: BTreeMap<String, (Outcome, Sources)>,
}

impl Outcomes {
    /// Reads what is known, also what an interrupted run has left.
    pub(super) fn open(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {folder:?}"))?;
        let known = read(&folder.join(OUTCOMES))?.lines().filter_map(row).collect();
        let mut outcomes = Self { folder, known };
        outcomes.absorb()?;
        Ok(outcomes)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What came of a mutant, if that is known and still holds.
    pub(super) fn of(&self, mutant: &Mutant, now: Sources) -> Option<Outcome> {
        let (outcome, then) = *self.known.get(&mutant.name)?;
        (then == now).then_some(outcome)
    }

    /// Records which mutants are tried now. Lists of an earlier run would be taken for theirs, so they go.
    pub(super) fn begin(&self, batch: &[&Mutant], now: Sources) -> Result<()> {
        let lists = self.folder.join(LISTS);
        match fs::remove_dir_all(&lists) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {lists:?}"));
            }
            _ => {}
        }
        let mut text = String::new();
        for mutant in batch {
            let _ = writeln!(text, "{:016x}\t{}", now.0, mutant.name);
        }
        self.write(BEGUN, &text)
    }

    /// Stores the outcome of a mutant at once: whatever interrupts the run, nothing is tried twice.
    pub(super) fn keep(&mut self, mutant: &Mutant, outcome: Outcome, now: Sources) -> Result<()> {
        self.known.insert(mutant.name.clone(), (outcome, now));
        self.store()
    }

    /// Takes over what the lists of cargo-mutants say of the mutants that were begun.
    pub(super) fn absorb(&mut self) -> Result<()> {
        let text = read(&self.folder.join(BEGUN))?;
        let begun: BTreeMap<&str, Sources> = text.lines().filter_map(begun).collect();
        for outcome in Outcome::ALL {
            let list = self.folder.join(LISTS).join(format!("{}.txt", outcome.name()));
            for name in read(&list)?.lines() {
                if let Some(then) = begun.get(name) {
                    self.known.insert(name.to_owned(), (outcome, *then));
                }
            }
        }
        self.store()
    }

    fn store(&self) -> Result<()> {
        let mut text = String::new();
        for (name, (outcome, then)) in &self.known {
            let _ = writeln!(text, "{}\t{:016x}\t{name}", outcome.name(), then.0);
        }
        self.write(OUTCOMES, &text)
    }

    /// Writes a file as a whole: an interrupted run must not cut it.
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        file::write(&path, text.as_bytes(), file::PUBLIC, Survives::Process)
            .with_context(|| format!("cannot write {path:?}"))
    }
}

/// The text of a file; nothing if there is none.
fn read(path: &Path) -> Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        other => other.with_context(|| format!("cannot read {path:?}")),
    }
}

fn row(line: &str) -> Option<(String, (Outcome, Sources))> {
    let (word, rest) = line.split_once('\t')?;
    let outcome = Outcome::ALL.into_iter().find(|outcome| outcome.name() == word)?;
    let (name, then) = begun(rest)?;
    Some((name.to_owned(), (outcome, then)))
}

fn begun(line: &str) -> Option<(&str, Sources)> {
    let (digest, name) = line.split_once('\t')?;
    Some((name, Sources(u64::from_str_radix(digest, 16).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(line: u32) -> Mutant {
        Mutant::parse(&format!("crates/control/src/a.rs:{line}:5: replace f with ()")).unwrap()
    }

    /// A folder of its own, which is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("gregor-{name}-{}", std::process::id()));
            Self(folder)
        }

        /// As cargo-mutants does it.
        fn list(&self, name: &str, mutants: &[&Mutant]) {
            let lists = self.0.join(LISTS);
            fs::create_dir_all(&lists).unwrap();
            let text: String = mutants.iter().map(|mutant| format!("{}\n", mutant.name)).collect();
            fs::write(lists.join(name), text).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_interrupted_run_leaves_what_it_has_found_out() {
        let folder = Folder::new("mutants-interrupted");
        let (one, two, three) = (mutant(1), mutant(2), mutant(3));
        let now = Sources(1);
        let outcomes = Outcomes::open(folder.0.clone()).unwrap();
        outcomes.begin(&[&one, &two], now).unwrap();
        folder.list("caught.txt", &[&one]);
        // A list of an earlier run, of which nothing is known.
        folder.list("missed.txt", &[&three]);
        let outcomes = Outcomes::open(folder.0.clone()).unwrap();
        let of = |mutant: &Mutant| outcomes.of(mutant, now);
        assert_eq!((of(&one), of(&two), of(&three)), (Some(Outcome::Caught), None, None));
        // The next run does not take the lists of this one for its own.
        outcomes.begin(&[&one], Sources(2)).unwrap();
        let outcomes = Outcomes::open(folder.0.clone()).unwrap();
        assert_eq!(outcomes.of(&one, Sources(2)), None);
    }

    #[test]
    fn no_outcome_outlives_a_change_of_the_crates() {
        let mutant = mutant(1);
        for outcome in Outcome::ALL {
            let known = BTreeMap::from([(mutant.name.clone(), (outcome, Sources(1)))]);
            let outcomes = Outcomes { folder: PathBuf::new(), known };
            assert_eq!(outcomes.of(&mutant, Sources(1)), Some(outcome));
            assert_eq!(outcomes.of(&mutant, Sources(2)), None, "{outcome:?}");
        }
    }

    #[test]
    fn a_change_of_any_file_is_a_change_of_the_crates() {
        let root = Folder::new("mutants-sources");
        for name in CRATES {
            fs::create_dir_all(root.0.join("crates").join(name).join("tests")).unwrap();
        }
        let mut seen = vec![Sources::read(&root.0).unwrap()];
        for (file, text) in [
            ("crates/control/a.rs", "1"),
            ("crates/control/a.rs", "2"),
            ("crates/control/tests/a.rs", "1"),
            ("crates/model/a.rs", "1"),
        ] {
            fs::write(root.0.join(file), text).unwrap();
            let now = Sources::read(&root.0).unwrap();
            assert!(!seen.contains(&now), "{file} {text}");
            assert_eq!(Sources::read(&root.0).unwrap(), now);
            seen.push(now);
        }
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let line = "timeout\t00000000000000ff\ta.rs:1:2: replace x\twith y";
        let (name, known) = row(line).unwrap();
        let expected = ("a.rs:1:2: replace x\twith y", (Outcome::Timeout, Sources(255)));
        assert_eq!((name.as_str(), known), expected);
        assert_eq!(row("lost\t1\tname"), None);
        assert_eq!(row("caught\tz\tname"), None);
    }
}
