//! Which topics and groups have series: `spec.kafkaExporter`.
//!
//! Expressions match anywhere in a name, as those of Strimzi's exporter do. They are matched in linear time.

use regex::{Regex, RegexBuilder};

/// The longest compiled expression, in bytes. A user of the cluster writes it, and the operator holds it.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// The expressions, as a user wrote them. One that is unset or empty filters nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patterns {
    /// Topics that match have series.
    pub topics: Option<String>,
    /// Topics that match have none.
    pub topics_excluded: Option<String>,
    /// Groups that match have series.
    pub groups: Option<String>,
    /// Groups that match have none.
    pub groups_excluded: Option<String>,
    /// Whether all partitions of a topic that a group has committed to have series, and not only those that its members
    /// read now.
    pub shows_all_offsets: bool,
}

/// An expression that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is not a valid regular expression: {why}")]
pub struct InvalidRegex {
    /// The field that has it.
    pub field: &'static str,
    why: String,
}

/// Which topics and groups have series.
#[derive(Debug, Clone)]
pub struct Filter {
    topics: Option<Regex>,
    topics_excluded: Option<Regex>,
    groups: Option<Regex>,
    groups_excluded: Option<Regex>,
    /// See [`Patterns::shows_all_offsets`].
    pub shows_all_offsets: bool,
}

impl Filter {
    /// Reads the expressions.
    ///
    /// # Errors
    /// One of them is invalid, or too large.
    pub fn new(patterns: &Patterns) -> Result<Self, InvalidRegex> {
        Ok(Self {
            topics: read("topicRegex", patterns.topics.as_deref())?,
            topics_excluded: read("topicExcludeRegex", patterns.topics_excluded.as_deref())?,
            groups: read("groupRegex", patterns.groups.as_deref())?,
            groups_excluded: read("groupExcludeRegex", patterns.groups_excluded.as_deref())?,
            shows_all_offsets: patterns.shows_all_offsets,
        })
    }

    /// Whether a topic has series.
    #[must_use]
    pub fn wants_topic(&self, name: &str) -> bool {
        wants(name, self.topics.as_ref(), self.topics_excluded.as_ref())
    }

    /// Whether a group has series.
    #[must_use]
    pub fn wants_group(&self, id: &str) -> bool {
        wants(id, self.groups.as_ref(), self.groups_excluded.as_ref())
    }
}

fn wants(name: &str, included: Option<&Regex>, excluded: Option<&Regex>) -> bool {
    included.is_none_or(|regex| regex.is_match(name))
        && !excluded.is_some_and(|regex| regex.is_match(name))
}

/// Compiles an expression that a user wrote in a field; an empty one is none.
///
/// # Errors
/// It is invalid, or too large.
pub(crate) fn read(
    field: &'static str,
    pattern: Option<&str>,
) -> Result<Option<Regex>, InvalidRegex> {
    let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) else { return Ok(None) };
    let built = RegexBuilder::new(pattern).size_limit(COMPILED_BYTES_MAX).build();
    // The error of the parser has several lines, with the place of the fault in the last.
    let why = |error: regex::Error| {
        let text = error.to_string();
        text.lines().last().unwrap_or_default().trim().to_owned()
    };
    built.map(Some).map_err(|error| InvalidRegex { field, why: why(error) })
}
