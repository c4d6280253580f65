//! The files of the repository, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// Build results; only needed if git cannot list the files.
const NOT_SOURCE: &[&str] = &[".git", "target", "fuzz/target", "fuzz/corpus", "fuzz/artifacts"];

/// Crates that are not shipped.
const DEVELOPMENT: [&str; 3] = ["crates/testkit/", "crates/xtask/", "crates/sim/"];

/// What is shipped of them: the simulation of `gregor plan`.
const SHIPPED: &str = "crates/sim/src/whole/forward/";

/// Modules that are compiled only for tests.
const TEST_FILES: [&str; 4] = ["tests.rs", "samples.rs", "laws.rs", "sim.rs"];

/// All files, by their path from the root.
#[derive(Debug, Default)]
pub(crate) struct Repository {
    paths: BTreeSet<String>,
    texts: BTreeMap<String, String>,
}

impl Repository {
    /// Reads all files that are tracked, or would be if they were added.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            // A source archive has no history, and git rejects a directory of another user.
            None => walked(root)?,
        };
        let mut repository = Self::default();
        for path in paths {
            let file = root.join(&path);
            // A tracked file that was deleted but not committed, or a dangling link.
            if !file.is_file() {
                continue;
            }
            let bytes = fs::read(&file).with_context(|| format!("reading {path}"))?;
            match String::from_utf8(bytes) {
                Ok(text) if !text.contains('\0') => repository.insert(path, text),
                _ => _ = repository.paths.insert(path),
            }
        }
        Ok(repository)
    }

    /// Adds or replaces a text file.
    pub(crate) fn insert(&mut self, path: String, text: String) {
        self.paths.insert(path.clone());
        self.texts.insert(path, text);
    }

    /// The content of a text file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// All text files, sorted by path.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// All Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// Rust files of the shipped crates, without their tests.
    pub(crate) fn production(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rust().filter(|(path, _)| is_production(path)).map(|(path, text)| {
            let tests = text.find("#[cfg(test)]\nmod tests {");
            (path, &text[..tests.unwrap_or(text.len())])
        })
    }

    /// All files, text or not.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    /// Whether there is such a file, or a directory with a file in it. The root is the empty path.
    pub(crate) fn has(&self, path: &str) -> bool {
        path.is_empty()
            || self.paths.contains(path)
            || self.paths().any(|p| p.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    }

    /// A repository for tests.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut repository = Self::default();
        for (path, text) in files {
            repository.insert((*path).to_owned(), (*text).to_owned());
        }
        repository
    }
}

/// Whether a file is part of a shipped program.
fn is_production(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    path.starts_with("crates/")
        && path.contains("/src/")
        && (path.starts_with(SHIPPED) || !DEVELOPMENT.iter().any(|dev| path.starts_with(dev)))
        && !file.ends_with("_tests.rs")
        && !TEST_FILES.contains(&file)
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    let names = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<_> = names.split_terminator('\0').map(str::to_owned).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn walked(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder));
        for entry in entries.with_context(|| format!("listing {folder}"))? {
            let entry = entry.with_context(|| format!("listing {folder}"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match is_folder {
                true if NOT_SOURCE.contains(&path.as_str()) => {}
                true => folders.push(path),
                false => paths.push(path),
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_git_the_same_source_files_are_found() {
        let walked = walked(crate::root()).unwrap();
        assert!(walked.contains(&"crates/xtask/src/main.rs".to_owned()));
        assert!(!walked.iter().any(|path| path.starts_with("target/")));
    }

    #[test]
    fn a_folder_is_there_when_a_file_is_in_it() {
        let repository = Repository::of(&[("docs/a/b.md", "")]);
        assert!(repository.has("docs/a") && repository.has("docs/a/b.md") && repository.has(""));
        assert!(!repository.has("doc") && !repository.has("docs/a/b"));
    }
}
