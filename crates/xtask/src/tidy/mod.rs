//! Tidy: rules of the repository that no compiler enforces. They are also a test.
//!
//! A check is a function of the [`Repository`] in memory and returns all findings. The rules about crates
//! come from [`table`].

mod clippy;
mod dead;
mod direction;
mod docs;
mod names;
mod phrases;
pub(crate) mod repository;
pub(crate) mod rust;
mod shell;
mod size;
mod source;
pub(crate) mod table;
mod text;

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use repository::Repository;

/// A violation, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1; 0 if the finding is about the whole file.
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Returns all violations of one rule.
type Check = fn(&Repository) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    dead::check,
    direction::check,
    shell::check,
    names::check,
    clippy::check,
    source::check,
    size::check,
    text::check,
    docs::check_links,
    docs::check_decisions,
    phrases::check,
];

/// Runs all checks on the repository at `root`; with `fix`, writes derived files first.
pub(crate) fn run(root: &Path, fix: bool) -> Result<()> {
    let mut repository = Repository::read(root)?;
    if fix {
        let derived = clippy::expected(&repository).into_iter();
        for (path, text) in derived.chain(phrases::expected(&repository)) {
            fs::write(root.join(&path), &text).with_context(|| format!("writing {path}"))?;
            repository.insert(path, text);
        }
    }
    let findings = findings(&repository);
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("tidy has one finding"),
        count => bail!("tidy has {count} findings"),
    }
}

fn findings(repository: &Repository) -> Vec<Finding> {
    let mut findings: Vec<_> = CHECKS.iter().flat_map(|check| check(repository)).collect();
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let repository = Repository::read(crate::root()).unwrap();
        let findings: Vec<_> = findings(&repository).iter().map(Finding::to_string).collect();
        assert!(findings.is_empty(), "\n{}", findings.join("\n"));
    }

    #[test]
    fn a_finding_names_file_and_line() {
        assert_eq!(Finding::new("a.rs", 3, "odd").to_string(), "a.rs:3: odd");
        assert_eq!(Finding::new("a.rs", 0, "odd").to_string(), "a.rs: odd");
    }
}
