//! The crate table: the kind of each crate, and which of our crates it may depend on.
//!
//! A new crate starts with a row here. Rows are in dependency order, each below all crates that it may use,
//! so that cycles are impossible.

/// The kind of a crate, which decides what it may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Computes. No I/O, clock, environment, unseeded randomness or hash order.
    Pure,
    /// Converts external formats to pure types and back. No I/O.
    Edge,
    /// Reads and writes; makes no decisions.
    Io,
    /// The program.
    Binary,
    /// For development only; not shipped.
    Dev,
}

/// One of our crates.
#[derive(Debug)]
pub(crate) struct Crate {
    /// Name of the crate and of its directory in `crates/`.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Our crates that it may depend on.
    pub(crate) uses: &'static [&'static str],
    /// Our crates that its tests may depend on in addition.
    pub(crate) tests_use: &'static [&'static str],
}

use Kind::{Binary, Dev, Edge, Io, Pure};

/// All our crates. A crate without a row fails the check.
#[rustfmt::skip]
pub(crate) const CRATES: &[Crate] = &[
    row("model",       Pure,   &[],                                       &[]),
    row("placement",   Pure,   &["model"],                                &[]),
    row("control",     Pure,   &["model", "placement"],                   &[]),
    row("fleet-control", Pure, &[],                                       &[]),
    row("api",         Edge,   &["model", "control"],                     &[]),
    row("objects",     Edge,   &["model", "control", "api"],              &[]),
    row("sim",         Edge,   &["model", "placement", "control", "api", "objects"], &[]),
    // Three libraries that shells use; they are not shells themselves.
    row("host",        Io,     &[],                                       &[]),
    row("artifacts",   Io,     &["host"],                                 &[]),
    row("testkit",     Dev,    &["host", "artifacts"],                    &[]),
    row("kafka-admin", Io,     &["model"],                                &["testkit"]),
    // Shells depend on inner crates, and never on each other.
    row("node",        Io,     &["host", "model", "control", "api"],      &["testkit"]),
    row("operator",    Io,     &["host", "model", "placement", "control", "api", "objects", "kafka-admin"],
                                                                          &["testkit"]),
    row("local",       Io,     &["host", "model", "control", "api", "artifacts"], &["testkit"]),
    row("fleet",       Io,     &["host", "model", "control", "fleet-control", "api"], &["testkit"]),
    row("console",     Io,     &["host"],                                 &[]),
    row("gregor",      Binary, &["host", "model", "placement", "control", "sim", "fleet-control", "api",
                                 "artifacts", "kafka-admin", "node", "operator", "local", "fleet",
                                 "console"],
                                                                          &["testkit"]),
    row("xtask",       Dev,    &["host", "model", "placement", "control", "sim", "api", "artifacts",
                                 "testkit", "kafka-admin"],               &[]),
];

const fn row(
    name: &'static str,
    kind: Kind,
    uses: &'static [&'static str],
    tests_use: &'static [&'static str],
) -> Crate {
    Crate { name, kind, uses, tests_use }
}

/// Crates that use crates that are not pure, but follow the rules for pure code: a simulation must be
/// reproducible.
pub(crate) const AS_PURE: &[&str] = &["sim"];

/// The row of a crate.
pub(crate) fn find(name: &str) -> Option<&'static Crate> {
    CRATES.iter().find(|row| row.name == name)
}

/// External crates that pure crates may use, and why they stay pure.
#[rustfmt::skip]
pub(crate) const PURE_MAY_USE: &[(&str, &str)] = &[
    ("base64",      "Kafka writes its ids in base64; a function of bytes"),
    ("fixedbitset", "sets of dense indices, walked in order"),
    ("rayon",       "threads for the optimizer, whose answer must not depend on their number"),
    ("regex",       "expressions of users, matched in linear time; a function of texts"),
    ("rustc-hash",  "a hash without a random seed, for look-ups that are never walked"),
    ("serde",       "derives only; no format and no reader"),
    ("smallvec",    "short lists in place, such as the replicas of a partition"),
    ("thiserror",   "derives only"),
];

/// External crates that tests of pure crates may use in addition.
#[rustfmt::skip]
pub(crate) const PURE_TESTS_MAY_USE: &[(&str, &str)] = &[
    ("anyhow",     "tests may fail with any error"),
    ("proptest",   "generated input; a failure prints the seed"),
    ("serde_json", "cases and stored answers are written in it"),
    ("stateright", "walks every state of a machine with its partners; the order does not matter"),
];

/// External crates that an edge crate must not use: it would do more than convert.
pub(crate) const EDGE_MUST_NOT_USE: &[&str] = &[
    "async-std",
    "hyper",
    "rand",
    "reqwest",
    "rusqlite",
    "rustls",
    "sqlx",
    "tokio",
    "tokio-rustls",
];

/// A function or type that pure crates must not use, and why.
pub(crate) type Ban = (&'static str, &'static str);

const CLOCK: &str = "time is a parameter";
const SURROUNDINGS: &str = "the process environment is a parameter";
const THREADS: &str = "pure code neither waits nor starts threads";
const FILES: &str = "I/O belongs to the shells";
const NETWORK: &str = "networking belongs to the shells";
const ORDER: &str = "its order differs between runs; use a BTree collection";

/// Functions that pure crates must not call.
#[rustfmt::skip]
pub(crate) const BANNED_METHODS: &[Ban] = &[
    ("std::time::Instant::now",       CLOCK),
    ("std::time::Instant::elapsed",   CLOCK),
    ("std::time::SystemTime::now",    CLOCK),
    ("std::time::SystemTime::elapsed", CLOCK),
    ("std::env::args",                SURROUNDINGS),
    ("std::env::args_os",             SURROUNDINGS),
    ("std::env::current_dir",         SURROUNDINGS),
    ("std::env::current_exe",         SURROUNDINGS),
    ("std::env::temp_dir",            SURROUNDINGS),
    ("std::env::var",                 SURROUNDINGS),
    ("std::env::var_os",              SURROUNDINGS),
    ("std::env::vars",                SURROUNDINGS),
    ("std::env::vars_os",             SURROUNDINGS),
    ("std::process::abort",           THREADS),
    ("std::process::exit",            THREADS),
    ("std::process::id",              SURROUNDINGS),
    ("std::thread::available_parallelism", SURROUNDINGS),
    ("std::thread::sleep",            THREADS),
    ("std::thread::spawn",            THREADS),
    ("std::fs::canonicalize",         FILES),
    ("std::fs::copy",                 FILES),
    ("std::fs::create_dir",           FILES),
    ("std::fs::create_dir_all",       FILES),
    ("std::fs::exists",               FILES),
    ("std::fs::metadata",             FILES),
    ("std::fs::read",                 FILES),
    ("std::fs::read_dir",             FILES),
    ("std::fs::read_to_string",       FILES),
    ("std::fs::remove_dir",           FILES),
    ("std::fs::remove_dir_all",       FILES),
    ("std::fs::remove_file",          FILES),
    ("std::fs::rename",               FILES),
    ("std::fs::write",                FILES),
    ("std::path::Path::exists",       FILES),
    ("std::io::stderr",               FILES),
    ("std::io::stdin",                FILES),
    ("std::io::stdout",               FILES),
];

/// Types that pure crates must not use.
#[rustfmt::skip]
pub(crate) const BANNED_TYPES: &[Ban] = &[
    ("std::collections::HashMap",       ORDER),
    ("std::collections::HashSet",       ORDER),
    ("std::hash::RandomState",          ORDER),
    ("std::fs::File",                   FILES),
    ("std::fs::OpenOptions",            FILES),
    ("std::net::TcpListener",           NETWORK),
    ("std::net::TcpStream",             NETWORK),
    ("std::net::UdpSocket",             NETWORK),
    ("std::os::unix::net::UnixListener", NETWORK),
    ("std::os::unix::net::UnixStream",  NETWORK),
    ("std::process::Command",           THREADS),
];

/// Macros that pure crates must not use; they return values instead of printing.
#[rustfmt::skip]
pub(crate) const BANNED_MACROS: &[Ban] = &[
    ("std::eprint",   FILES),
    ("std::eprintln", FILES),
    ("std::print",    FILES),
    ("std::println",  FILES),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_points_only_at_rows_above_it() {
        for (index, row) in CRATES.iter().enumerate() {
            for used in row.uses.iter().chain(row.tests_use) {
                let above = CRATES[..index].iter().any(|other| other.name == *used);
                assert!(above, "{} points at {used}, which is not above it", row.name);
            }
        }
    }

    #[test]
    fn no_kind_points_at_one_that_may_do_more() {
        for row in CRATES {
            for used in row.uses {
                let kind = find(used).unwrap().kind;
                let fits = match row.kind {
                    Pure => kind == Pure,
                    Edge => matches!(kind, Pure | Edge),
                    Io => matches!(kind, Pure | Edge | Io),
                    Binary => kind != Dev,
                    Dev => true,
                };
                assert!(fits, "{} ({:?}) must not use {used} ({kind:?})", row.name, row.kind);
            }
        }
    }

    #[test]
    fn only_xtask_uses_the_testkit_outside_of_tests() {
        let users = CRATES.iter().filter(|row| row.uses.contains(&"testkit"));
        assert_eq!(users.map(|row| row.name).collect::<Vec<_>>(), ["xtask"]);
        let in_tests = CRATES.iter().filter(|row| row.tests_use.contains(&"testkit"));
        in_tests.for_each(|row| assert!(matches!(row.kind, Io | Binary), "{}", row.name));
    }

    #[test]
    fn shells_do_not_point_at_each_other() {
        let shells = ["node", "operator", "local", "fleet", "console"];
        for shell in shells {
            let row = find(shell).unwrap();
            assert!(!row.uses.iter().any(|used| shells.contains(used)), "{shell}");
        }
    }
}
