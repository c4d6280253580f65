//! Whether the versions of the client, of operators and of records work together.
//!
//! 1. A record of a newer major format than an operator reads makes that operator leave the cluster alone; the finding names
//!    the cluster and says what to upgrade.
//! 2. A client of another version than the operator decides by other rules: what `plan` and `why` show may differ from what
//!    the operator does.
//! 3. An unknown version is reported as unknown, never as equal.

use std::fmt;
use std::str::FromStr;

use crate::cluster::record::FormatVersion;

/// A version of Gregor. Pre-releases are ordered by their numbers alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// Patch version.
    pub patch: u32,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A text that is not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a version such as 1.2.3")]
pub struct InvalidRelease(String);

impl FromStr for Release {
    type Err = InvalidRelease;

    fn from_str(text: &str) -> Result<Self, InvalidRelease> {
        let core = text.split(['-', '+']).next().unwrap_or_default();
        let mut numbers = core.split('.').map(str::parse);
        let release = match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch)), None) => {
                Some(Self { major, minor, patch })
            }
            _ => None,
        };
        release.ok_or_else(|| InvalidRelease(text.to_owned()))
    }
}

/// A program: its version and the format of the records that it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its version. `None` if it is unknown.
    pub release: Option<Release>,
    /// The format of its records. `None` if it is unknown.
    pub format: Option<FormatVersion>,
}

/// Facts about an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The client.
    pub client: Program,
    /// Operators that hold a Lease, by the name of the Lease.
    pub operators: Vec<(String, Program)>,
    /// Formats of the records, by cluster. `None` if the record cannot be read.
    pub records: Vec<(String, Option<FormatVersion>)>,
}

/// Versions that do not work together, or are unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The client is older than an operator.
    OlderClient {
        /// The operator.
        operator: String,
        /// Its version.
        release: Release,
    },
    /// The client is newer than an operator.
    NewerClient {
        /// The operator.
        operator: String,
        /// Its version.
        release: Release,
    },
    /// An operator does not publish its version.
    UnknownOperator {
        /// The operator.
        operator: String,
    },
    /// No operator reads the record of a cluster.
    RecordTooNew {
        /// The cluster.
        cluster: String,
        /// The format of its record.
        found: FormatVersion,
        /// What is too old for it.
        reader: Reader,
    },
    /// The format of a record is unknown.
    UnknownRecord {
        /// The cluster.
        cluster: String,
    },
}

/// A reader of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reader {
    /// This client.
    Client,
    /// An operator.
    Operator(String),
}

/// Compares all versions.
#[must_use]
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (operator, program) in &facts.operators {
        let operator = operator.clone();
        match (program.release, facts.client.release) {
            (None, _) => findings.push(Finding::UnknownOperator { operator }),
            (Some(release), Some(client)) if client < release => {
                findings.push(Finding::OlderClient { operator, release });
            }
            (Some(release), Some(client)) if client > release => {
                findings.push(Finding::NewerClient { operator, release });
            }
            (Some(_), Some(_) | None) => {}
        }
    }
    for (cluster, format) in &facts.records {
        let Some(found) = *format else {
            findings.push(Finding::UnknownRecord { cluster: cluster.clone() });
            continue;
        };
        let is_too_new =
            |program: &Program| program.format.is_some_and(|format| found.major > format.major);
        let operators = facts.operators.iter().filter(|(_, program)| is_too_new(program));
        let readers = operators.map(|(operator, _)| Reader::Operator(operator.clone()));
        let client = is_too_new(&facts.client).then_some(Reader::Client);
        findings.extend(readers.chain(client).map(|reader| Finding::RecordTooNew {
            cluster: cluster.clone(),
            found,
            reader,
        }));
    }
    findings
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OlderClient { operator, release } => write!(
                f,
                "the operator {operator} is newer ({release}) than this client: what plan and why show may differ from what \
                 the operator does; use gregor {release}"
            ),
            Self::NewerClient { operator, release } => write!(
                f,
                "the operator {operator} is older ({release}) than this client: what plan and why show may differ from what \
                 the operator does; use gregor {release}, or upgrade the operator"
            ),
            Self::UnknownOperator { operator } => write!(
                f,
                "the operator {operator} does not publish its version, so it is unknown whether it matches this client"
            ),
            Self::RecordTooNew { cluster, found, reader: Reader::Client } => write!(
                f,
                "this client cannot read the record of Kafka {cluster} (format {found}): use a newer gregor"
            ),
            Self::RecordTooNew { cluster, found, reader: Reader::Operator(operator) } => write!(
                f,
                "the operator {operator} cannot read the record of Kafka {cluster} (format {found}) and does not change the \
                 cluster: upgrade the operator"
            ),
            Self::UnknownRecord { cluster } => {
                write!(f, "the format of the record of Kafka {cluster} is unknown")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_three_numbers() {
        let release = |major, minor, patch| Some(Release { major, minor, patch });
        let rows = [
            ("0.1.0", release(0, 1, 0)),
            ("1.22.333", release(1, 22, 333)),
            ("2.0.0-rc.1", release(2, 0, 0)),
            ("2.0.0+abc", release(2, 0, 0)),
            ("2.0", None),
            ("2.0.0.0", None),
            ("v2.0.0", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }

    fn program(release: &str, format: &str) -> Program {
        Program { release: release.parse().ok(), format: format.parse().ok() }
    }

    #[test]
    fn other_versions_and_unknown_ones_are_reported() {
        let operator = || "ops/op".to_owned();
        let cluster = || "ns/c".to_owned();
        let release = |text: &str| text.parse::<Release>().unwrap();
        let too_new = |found: &str, reader| Finding::RecordTooNew {
            cluster: cluster(),
            found: found.parse().unwrap(),
            reader,
        };
        let newer = Finding::OlderClient { operator: operator(), release: release("0.3.0") };
        let older = Finding::NewerClient { operator: operator(), release: release("0.1.9") };
        // The operator's version and format, the record's format, and what is reported to a client 0.2.0 of format 1.3.
        let rows: [((&str, &str), &str, Vec<Finding>); 9] = [
            (("0.2.0", "1.3"), "1.3", vec![]),
            // Minor formats are compatible in both directions.
            (("0.2.0", "1.3"), "1.9", vec![]),
            (("0.2.0", "1.3"), "1.0", vec![]),
            (("0.3.0", "1.3"), "1.3", vec![newer.clone()]),
            (("0.1.9", "1.2"), "1.3", vec![older.clone()]),
            (("", ""), "1.3", vec![Finding::UnknownOperator { operator: operator() }]),
            (("0.3.0", "2.0"), "2.0", vec![newer, too_new("2.0", Reader::Client)]),
            (
                ("0.1.9", "1.0"),
                "2.1",
                vec![
                    older,
                    too_new("2.1", Reader::Operator(operator())),
                    too_new("2.1", Reader::Client),
                ],
            ),
            (("0.2.0", "1.3"), "?", vec![Finding::UnknownRecord { cluster: cluster() }]),
        ];
        for ((release, format), record, expected) in rows {
            let facts = Facts {
                client: program("0.2.0", "1.3"),
                operators: vec![(operator(), program(release, format))],
                records: vec![(cluster(), record.parse().ok())],
            };
            assert_eq!(findings(&facts), expected, "{release} {format} {record}");
        }
    }

    #[test]
    fn a_finding_names_who_has_to_change_what() {
        let found = FormatVersion { major: 2, minor: 0 };
        let cluster = "ns/c".to_owned();
        let reader = Reader::Operator("ops/op".to_owned());
        let text = Finding::RecordTooNew { cluster, found, reader }.to_string();
        assert!(text.contains("ops/op") && text.contains("ns/c") && text.contains("2.0"), "{text}");
        assert!(text.ends_with("upgrade the operator"), "{text}");
    }
}
