//! The allowed skips. A skip that is not listed fails the run.

/// Steps and tests that may be skipped, and when.
#[rustfmt::skip]
const LISTED: &[(&str, &str)] = &[
    ("advisories", "the advisory database is not in a package registry; GREGOR_ADVISORY_DB can point to a checkout"),
    ("first-process-of-a-container", "the machine does not permit unprivileged user namespaces"),
];

/// Whether a skip is allowed.
pub(crate) fn is_listed(name: &str) -> bool {
    LISTED.iter().any(|(listed, _)| *listed == name)
}

/// Parses the skips that tests reported: name and reason per line, separated by a tab. A line without a
/// reason is a skip too.
pub(crate) fn parse(file: &str) -> Vec<(String, String)> {
    let pair = |line: &str| {
        let (name, why) = line.split_once('\t').unwrap_or((line, "no reason given"));
        (name.to_owned(), why.to_owned())
    };
    file.lines().filter(|line| !line.is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_of_tests_have_a_name_and_a_reason() {
        let file = "first\tno namespaces\nsecond\n\n";
        let expected = [("first", "no namespaces"), ("second", "no reason given")];
        assert_eq!(parse(file), expected.map(|(name, why)| (name.to_owned(), why.to_owned())));
    }
}
