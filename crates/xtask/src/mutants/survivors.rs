//! The survivors that are known, and the verdict on those that were found.
//!
//! A row has no line, so that it outlives edits elsewhere in its file. A function may have several mutants of one
//! description: then there is a row for each survivor, and what counts is how many there are.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, bail, ensure};

use super::Mutant;
use super::outcomes::Outcome;

/// The committed list: file, change, judgement, reason, separated by tabs.
pub(super) const LIST: &str = ".config/mutants.tsv";

/// At least so many of a thousand mutants that compile must be caught.
const CAUGHT_PERMILLE_MIN: usize = 900;

/// A survivor that was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    file: String,
    change: String,
    judgement: Judgement,
}

/// What a survivor means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judgement {
    /// The code does the same with it: no test can notice.
    Equivalent,
    /// A test is missing.
    Open,
}

/// Reads the list.
pub(super) fn parse(text: &str) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        rows.push(row(line).with_context(|| format!("{LIST}, line {}", at + 1))?);
    }
    Ok(rows)
}

fn row(line: &str) -> Result<Row> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [file, change, judgement, reason] = fields[..] else {
        bail!("{} fields; there must be file, change, judgement and reason", fields.len());
    };
    let judgement = match judgement {
        "equivalent" => Judgement::Equivalent,
        "open" => Judgement::Open,
        other => bail!("`{other}` is not a judgement; write equivalent or open"),
    };
    ensure!(!reason.trim().is_empty(), "the reason is missing");
    Ok(Row { file: file.to_owned(), change: change.to_owned(), judgement })
}

/// What is said of all mutants.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    caught: usize,
    missed: usize,
    timed_out: usize,
    unviable: usize,
    untried: usize,
    /// Listed survivors, by judgement.
    equivalent: usize,
    open: usize,
    /// Survivors that are not listed.
    unlisted: Vec<Mutant>,
    /// Rows that no survivor needs.
    stale: Vec<Row>,
}

/// What is known of the mutants of one description.
#[derive(Default)]
struct Group<'a> {
    rows: Vec<&'a Row>,
    missed: Vec<&'a Mutant>,
    untried: usize,
}

/// Compares the list with all mutants, and what is known of them.
pub(super) fn judge(rows: &[Row], found: &[(&Mutant, Option<Outcome>)]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut groups: BTreeMap<(&str, &str), Group<'_>> = BTreeMap::new();
    for row in rows {
        groups.entry((row.file.as_str(), row.change.as_str())).or_default().rows.push(row);
        match row.judgement {
            Judgement::Equivalent => verdict.equivalent += 1,
            Judgement::Open => verdict.open += 1,
        }
    }
    for (mutant, outcome) in found {
        let group = groups.entry((mutant.file.as_str(), mutant.change.as_str())).or_default();
        match outcome {
            Some(Outcome::Caught) => verdict.caught += 1,
            Some(Outcome::Timeout) => verdict.timed_out += 1,
            Some(Outcome::Unviable) => verdict.unviable += 1,
            Some(Outcome::Missed) => {
                verdict.missed += 1;
                group.missed.push(mutant);
            }
            None => {
                verdict.untried += 1;
                group.untried += 1;
            }
        }
    }
    for group in groups.values() {
        if group.missed.len() > group.rows.len() {
            // Which of them is the new one cannot be told.
            verdict.unlisted.extend(group.missed.iter().copied().cloned());
        }
        let needed = group.missed.len() + group.untried;
        verdict.stale.extend(group.rows.iter().skip(needed).copied().cloned());
    }
    verdict
}

impl Verdict {
    /// How many of a thousand were caught, of those that compile and were tried. One that does not end is caught, as
    /// the runner of all tests stops it.
    fn permille(&self) -> usize {
        let caught = self.caught + self.timed_out;
        (caught * 1000).checked_div(caught + self.missed).unwrap_or(1000)
    }

    /// Whether too few were caught. That is not said of a part of them.
    fn has_too_few(&self) -> bool {
        self.untried == 0 && self.permille() < CAUGHT_PERMILLE_MIN
    }

    /// Whether there is nothing to be done.
    pub(super) fn is_good(&self) -> bool {
        self.unlisted.is_empty() && self.stale.is_empty() && !self.has_too_few()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.unlisted.is_empty() {
            writeln!(f, "survivors that are not listed; write a test, or judge each and list it:")?;
            for mutant in &self.unlisted {
                writeln!(f, "  {}", mutant.name)?;
            }
            writeln!(f, "rows for {LIST}, to which a reason must be added:")?;
            for mutant in &self.unlisted {
                writeln!(f, "{}\t{}\topen\t", mutant.file, mutant.change)?;
            }
        }
        if !self.stale.is_empty() {
            writeln!(f, "listed, but caught now or gone; remove from {LIST}:")?;
            for row in &self.stale {
                writeln!(f, "  {}: {}", row.file, row.change)?;
            }
        }
        let (whole, tenth) = (self.permille() / 10, self.permille() % 10);
        let Self { caught, missed, timed_out, unviable, untried, equivalent, open, .. } = self;
        writeln!(
            f,
            "mutants: {caught} caught, {missed} missed, {timed_out} timed out, {unviable} do not compile, \
             {untried} not tried yet; {whole}.{tenth} % caught; listed: {equivalent} equivalent, {open} open"
        )?;
        if self.has_too_few() {
            let (whole, tenth) = (CAUGHT_PERMILLE_MIN / 10, CAUGHT_PERMILLE_MIN % 10);
            writeln!(f, "at least {whole}.{tenth} % must be caught")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::root;

    fn mutant(line: u32, change: &str) -> Mutant {
        Mutant::parse(&format!("crates/control/src/a.rs:{line}:5: {change}")).unwrap()
    }

    const LISTED: &str = "# A comment.\n\
        crates/control/src/a.rs\treplace < with <= in f\tequivalent\tboth sides are never equal\n\
        crates/control/src/a.rs\treplace < with <= in f\topen\tno test has two brokers\n";

    /// What is said of two mutants of the description that is listed twice, and one of another.
    fn verdict(first: Option<Outcome>, second: Option<Outcome>, other: Option<Outcome>) -> Verdict {
        let same = "replace < with <= in f";
        let all = [mutant(1, same), mutant(2, same), mutant(3, "replace g with ()")];
        let outcomes = [first, second, other];
        let found: Vec<_> = all.iter().zip(outcomes).collect();
        judge(&parse(LISTED).unwrap(), &found)
    }

    #[test]
    #[rustfmt::skip]
    fn survivors_are_those_that_are_listed() {
        use Outcome::{Caught, Missed, Timeout};
        // The outcomes, how many are not listed, and how many rows nobody needs.
        let rows = [
            ([Some(Missed),  Some(Missed),  Some(Caught)],  0, 0),
            ([Some(Missed),  Some(Caught),  Some(Caught)],  0, 1),
            ([Some(Caught),  Some(Timeout), Some(Caught)],  0, 2),
            // What is not tried yet may need its row.
            ([Some(Caught),  None,          Some(Caught)],  0, 1),
            ([None,          None,          None],          0, 0),
            ([Some(Missed),  Some(Missed),  Some(Missed)],  1, 0),
            ([None,          None,          Some(Missed)],  1, 0),
        ];
        for ([first, second, other], unlisted, stale) in rows {
            let verdict = verdict(first, second, other);
            assert_eq!((verdict.unlisted.len(), verdict.stale.len()), (unlisted, stale), "{verdict}");
        }
    }

    #[test]
    fn of_all_that_compile_nine_in_ten_are_caught() {
        let of = |caught, missed, timed_out, untried| {
            let unviable = 5;
            Verdict { caught, missed, timed_out, unviable, untried, ..Verdict::default() }
        };
        assert!(of(90, 10, 0, 0).is_good());
        assert!(of(80, 10, 10, 0).is_good());
        assert!(!of(89, 11, 0, 0).is_good());
        assert!(of(0, 100, 0, 1).is_good(), "a part says nothing of the whole");
        assert!(of(0, 0, 0, 0).is_good());
        let text = of(89, 11, 0, 0).to_string();
        assert!(text.contains("89.0 % caught") && text.contains("at least 90.0 %"), "{text}");
    }

    #[test]
    fn every_row_is_judged() {
        for bad in ["a\tb\topen\t", "a\tb\topen", "a\tb\tmaybe\twhy", "a\tb\tc\topen\twhy"] {
            assert!(parse(&format!("{bad}\n")).is_err(), "{bad}");
        }
        assert_eq!(parse(LISTED).unwrap().len(), 2);
        parse(&fs::read_to_string(root().join(LIST)).unwrap()).unwrap();
    }

    #[test]
    fn what_is_to_be_listed_is_printed_as_a_row() {
        let text = verdict(None, None, Some(Outcome::Missed)).to_string();
        assert!(text.contains("\ncrates/control/src/a.rs\treplace g with ()\topen\t\n"), "{text}");
    }
}
