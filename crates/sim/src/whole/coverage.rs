//! What simulations have gone through, so that a run can tell what it did not try.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<String, u64>);

impl Coverage {
    /// Counts something that happened.
    pub fn count(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    /// Adds what another simulation has gone through.
    pub fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what.clone()).or_default() += count;
        }
    }

    /// How often something happened.
    #[must_use]
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }

    /// The names that begin like this, without the beginning.
    pub fn names<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.keys().filter_map(move |name| name.strip_prefix(prefix))
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.0 {
            writeln!(f, "{count:>9} {what}")?;
        }
        Ok(())
    }
}
