//! What is printed: results to stdout, remarks to stderr.
//!
//! Tables are plain aligned columns that can be cut and grepped. Rendering is apart from printing, so
//! that tests compare texts.

use std::io::{self, Write as _};

use anyhow::Context as _;
use clap::ValueEnum;
use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width};
use serde::Serialize;

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables
    Table,
    /// JSON
    Json,
}

/// Standard output, in one of the formats.
///
/// A closed pipe (`| head`) is no error: further output is dropped, so that a command that changes something
/// still completes and reports its result by exit code.
#[derive(Debug)]
pub(crate) struct Out {
    /// The output format.
    pub(crate) format: Format,
    reader_gone: bool,
}

impl Out {
    /// Prints to standard output.
    pub(crate) fn new(format: Format) -> Self {
        Self { format, reader_gone: false }
    }

    /// Whether the reader has closed the pipe.
    pub(crate) fn reader_gone(&self) -> bool {
        self.reader_gone
    }

    /// Prints a text unchanged.
    pub(crate) fn text(&mut self, text: &str) -> anyhow::Result<()> {
        if self.reader_gone || text.is_empty() {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.reader_gone = true;
                Ok(())
            }
            result => result.context("cannot write to stdout"),
        }
    }

    /// Prints a view in the output format.
    pub(crate) fn view(&mut self, view: &impl View) -> anyhow::Result<()> {
        let text = match self.format {
            Format::Json => json(view)?,
            Format::Table => view.table(terminal_width()),
        };
        self.text(&text)
    }
}

/// A remark that is not part of the result.
pub(crate) fn note(text: &str) {
    // There is no output left on which to report a failure.
    let lines: Vec<_> = text.lines().map(clean).collect();
    let _ = writeln!(io::stderr(), "gregor: {}", lines.join("\n"));
}

/// A result that can be printed in both formats.
pub(crate) trait View: Serialize {
    /// As text; `width` is that of the terminal, if there is one.
    fn table(&self, width: Option<u16>) -> String;
}

pub(crate) fn json(view: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(view).context("cannot write JSON")? + "\n")
}

/// Width of the terminal, if standard output is one.
pub(crate) fn terminal_width() -> Option<u16> {
    Table::new().width()
}

/// A table that can be printed in parts: later parts keep the column widths.
#[derive(Debug)]
pub(crate) struct Grid {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// The column whose cells may be wrapped. All others stay intact for copying.
    wrapping: Option<usize>,
    widths: Vec<u16>,
    header_printed: bool,
}

/// Minimum width of a wrapped column; otherwise the terminal wraps lines.
const WRAPPED_WIDTH_MIN: u16 = 24;

/// Space between columns.
const GAP: u16 = 2;

impl Grid {
    /// A table with these headers.
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self {
            header: header.to_vec(),
            rows: Vec::new(),
            wrapping: None,
            widths: vec![0; header.len()],
            header_printed: false,
        }
    }

    /// Allows to wrap the cells of this column if the terminal is narrow.
    pub(crate) fn wrap(mut self, column: usize) -> Self {
        self.wrapping = Some(column);
        self
    }

    /// Adds a row; an empty cell is shown as a dash, so that every row has the same number of words.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.header.len());
        let shown = |cell: String| if cell.is_empty() { "-".to_owned() } else { clean(&cell) };
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    /// All rows since the last call, with the header on the first call.
    pub(crate) fn take(&mut self, terminal: Option<u16>) -> String {
        let mut table = Table::new();
        table.load_style(NOTHING);
        // Also where it is not printed it has its part in the widths.
        table.set_header(self.header.clone());
        table.add_rows(std::mem::take(&mut self.rows));
        let natural = table.column_max_content_widths();
        for (width, natural) in self.widths.iter_mut().zip(natural) {
            *width = natural.max(*width);
        }
        let wrapped = terminal.and_then(|terminal| self.wrapped(terminal));
        if let Some((_, _, terminal)) = wrapped {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(terminal);
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            let width = match wrapped {
                Some((wrapping, width, _)) if wrapping == index => width,
                _ => self.widths[index],
            };
            column.set_padding((0, GAP));
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width + GAP)));
        }
        let skipped = usize::from(self.header_printed);
        self.header_printed = true;
        table.lines().skip(skipped).map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    /// The column to wrap and its width, if the rows do not fit otherwise.
    fn wrapped(&self, terminal: u16) -> Option<(usize, u16, u16)> {
        let wrapping = self.wrapping?;
        let gaps = GAP * u16::try_from(self.widths.len()).unwrap_or(u16::MAX);
        let all = self.widths.iter().fold(gaps, |sum, width| sum.saturating_add(*width));
        let others = all - self.widths[wrapping];
        let left = terminal.checked_sub(others)?;
        (all > terminal && left >= WRAPPED_WIDTH_MIN).then_some((wrapping, left, terminal))
    }
}

/// Colour of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// Failed or refused.
    Red,
    /// Needs attention.
    Yellow,
    /// Healthy.
    Green,
}

/// Colours a text if standard output is a terminal and NO_COLOR is not set.
pub(crate) fn painted(text: &str, colour: Option<Colour>, terminal: Option<u16>) -> String {
    let text = clean(text);
    let plain = terminal.is_none() || std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    match colour.filter(|_| !plain) {
        None => text,
        Some(Colour::Red) => format!("\u{1b}[31m{text}\u{1b}[0m"),
        Some(Colour::Yellow) => format!("\u{1b}[33m{text}\u{1b}[0m"),
        Some(Colour::Green) => format!("\u{1b}[32m{text}\u{1b}[0m"),
    }
}

/// Bullets below a title, after an empty line; nothing if there are none.
pub(crate) fn bullets(
    title: &str,
    lines: &[String],
    colour: Option<Colour>,
    terminal: Option<u16>,
) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let line = |line: &String| format!("  - {}\n", painted(line, colour, terminal));
    format!("\n{title}:\n{}", lines.iter().map(line).collect::<String>())
}

/// Removes control characters, which a terminal would interpret.
fn clean(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    text.chars().map(shown).collect()
}

/// Bytes with a unit.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    // Three digits are shown, so what a float cannot hold is not seen.
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Age of a time.
pub(crate) fn age(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..10 => format!("{}.{} s ago", seconds, milliseconds % 1000 / 100),
        10..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// A value, or a dash.
pub(crate) fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Several values in one cell.
pub(crate) fn list<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

/// Yes or no.
pub(crate) fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

/// Seconds since 1970, formatted.
pub(crate) fn moment(seconds: i64) -> String {
    use time::format_description::well_known::Rfc3339;
    let time = time::OffsetDateTime::from_unix_timestamp(seconds).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_columns() -> Grid {
        let mut grid = Grid::new(&["ID", "WORDS", "LAST"]).wrap(1);
        grid.row(["1".to_owned(), "one two ".repeat(5), String::new()]);
        grid.row(["2".to_owned(), "ä\u{1b}[31m\n".to_owned(), "z".to_owned()]);
        grid
    }

    #[test]
    fn cells_stay_whole_where_there_is_no_terminal_or_it_is_too_narrow() {
        let expected = "ID  WORDS                                     LAST\n\
                        1   one two one two one two one two one two   -\n\
                        2   ä\\u{1b}[31m\\n                             z\n";
        assert_eq!(two_columns().take(None), expected);
        assert_eq!(two_columns().take(Some(20)), expected);
        assert_eq!(two_columns().take(Some(200)), expected);
    }

    #[test]
    fn on_a_terminal_only_the_column_that_may_be_is_broken() {
        let expected = "ID  WORDS                       LAST\n\
                        1   one two one two one two     -\n    one two one two\n\
                        2   ä\\u{1b}[31m\\n               z\n";
        assert_eq!(two_columns().take(Some(38)), expected);
    }

    #[test]
    fn later_parts_have_no_header_and_keep_to_the_columns() {
        let mut grid = Grid::new(&["NAME", "N"]);
        grid.row(["a-long-name".to_owned(), "1".to_owned()]);
        assert_eq!(grid.take(None), "NAME         N\na-long-name  1\n");
        grid.row(["b".to_owned(), "2".to_owned()]);
        assert_eq!(grid.take(None), "b            2\n");
    }

    #[test]
    fn colours_are_for_terminals() {
        assert_eq!(painted("a\u{1b}", Some(Colour::Red), None), "a\\u{1b}");
        assert_eq!(painted("a", None, Some(80)), "a");
        assert_eq!(bullets("T", &[], None, None), "");
        assert_eq!(bullets("T", &["a".to_owned()], Some(Colour::Green), None), "\nT:\n  - a\n");
    }

    #[test]
    fn numbers_are_readable() {
        let sizes = [0, 1023, 1024, 1536, 10 << 30, u64::MAX].map(bytes);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "10.0 GiB", "16384.0 PiB"]);
        let ages = [0, 449, 9999, 10_000, 119_999, 120_000, 7_200_000, 200_000_000].map(age);
        let expected = ["0.0 s", "0.4 s", "9.9 s", "10 s", "119 s", "2 min", "2 h", "2 days"];
        assert_eq!(ages, expected.map(|age| format!("{age} ago")));
    }
}
