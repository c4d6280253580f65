//! Log lines: one event is one line.
//!
//! Names that users choose and messages of peers are part of events. A line break in one of them would
//! begin a line that looks like an event of ours, so control characters are escaped.

mod json;
mod otlp;

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};

use clap::ValueEnum;
use operator::trace;
use tracing::Level;
use tracing_subscriber::filter::{Directive, Targets};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

pub(crate) use otlp::Traces;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// A JSON object in each line, with the cluster, the pass and the act
    Json,
}

/// Logs to stdout in this format, and sends traces.
pub(crate) fn to_stdout_as(format: Format, filter: EnvFilter, traces: Option<Traces>) {
    let (text, json) = match format {
        Format::Text => {
            let ansi = io::stdout().is_terminal();
            let lines = Lines { make: io::stdout, ansi };
            let text = fmt::layer().with_ansi(ansi).with_target(false).with_writer(lines);
            // Lines for people name the object themselves.
            (Some(text.with_filter(with_passes(filter, "off"))), None)
        }
        Format::Json => {
            let json = json::Objects::new(io::stdout);
            (None, Some(json.with_filter(with_passes(filter, "info"))))
        }
    };
    let spans = Targets::new().with_default(Level::WARN).with_target(trace::TARGET, Level::INFO);
    let traces = traces.map(|traces| traces.with_filter(spans));
    // A second call is one of a test.
    let _ = tracing_subscriber::registry().with(text).with(json).with(traces).try_init();
}

/// A filter that lets spans of passes and acts through from this level on.
fn with_passes(filter: EnvFilter, level: &str) -> EnvFilter {
    match format!("{}={level}", trace::TARGET).parse::<Directive>() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    }
}

/// Logs to stdout, where container logs are read.
pub(crate) fn to_stdout(filter: EnvFilter) {
    let ansi = io::stdout().is_terminal();
    init(filter, ansi, Lines { make: io::stdout, ansi });
}

/// Logs to stderr, beside what a command prints.
pub(crate) fn to_stderr(filter: EnvFilter) {
    let ansi = io::stderr().is_terminal();
    init(filter, ansi, Lines { make: io::stderr, ansi });
}

fn init<W: Write + 'static>(
    filter: EnvFilter,
    ansi: bool,
    lines: Lines<impl Fn() -> W + Send + Sync + 'static>,
) {
    // A second call is one of a test.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(ansi)
        .with_target(false)
        .with_writer(lines)
        .try_init();
}

/// A text in one line: control characters are escaped.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    escape(text, false)
}

/// Makes writers that write one line each.
struct Lines<F> {
    make: F,
    /// Whether the formatter colours what it writes.
    ansi: bool,
}

impl<W: Write, F: Fn() -> W> MakeWriter<'_> for Lines<F> {
    type Writer = Line<W>;

    fn make_writer(&self) -> Line<W> {
        Line { inner: (self.make)(), ansi: self.ansi }
    }
}

/// Writes one event, which comes in one piece with a line break at its end.
struct Line<W> {
    inner: W,
    ansi: bool,
}

impl<W: Write> Write for Line<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let (line, end) = match text.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (&*text, ""),
        };
        // In one piece, so that lines of other processes are not in the middle of it.
        let line = format!("{}{end}", escape(line, self.ansi));
        self.inner.write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn escape(text: &str, ansi: bool) -> Cow<'_, str> {
    // Line and paragraph separators end lines for some readers.
    let odd = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if !text.contains(odd) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for (at, c) in text.char_indices() {
        match c {
            _ if !odd(c) => escaped.push(c),
            '\u{1b}' if ansi && begins_colour(&text[at..]) => escaped.push(c),
            '\t' => escaped.push_str("\\t"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            _ => escaped.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
    Cow::Owned(escaped)
}

/// Whether a text begins with a colour, and not with another sequence that a terminal obeys.
fn begins_colour(text: &str) -> bool {
    let rest = text.strip_prefix("\u{1b}[").unwrap_or_default();
    rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;

    use super::*;

    /// A writer that keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged for an event with this name and this message of a peer.
    fn logged(name: &str, message: &str, ansi: bool) -> String {
        let kept = Kept::default();
        let writer = {
            let kept = kept.clone();
            move || kept.clone()
        };
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(ansi)
            .with_writer(Lines { make: writer, ansi })
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(name, error = %message, "cannot reach {message}");
        });
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_line_break_in_a_name_begins_no_line() {
        let forged = "x\n2026-01-01T00:00:00Z ERROR all is lost\r\u{85}\u{2028}\u{1b}[2J\0";
        for ansi in [false, true] {
            let line = logged(forged, forged, ansi);
            assert_eq!(line.lines().count(), 1, "{line:?}");
            assert!(line.ends_with('\n') && line.contains("x\\n2026"), "{line:?}");
            assert!(!line.contains(['\r', '\u{85}', '\u{2028}', '\0']), "{line:?}");
            assert!(!line.contains("\u{1b}[2J"), "{line:?}");
        }
    }

    #[test]
    fn ordinary_texts_stay_as_they_are() {
        assert!(matches!(one_line("größe: 3 (\"x\" \\n)"), Cow::Borrowed(_)));
        assert_eq!(one_line("a\tb\nc\u{7f}"), "a\\tb\\nc\\u{7f}");
    }

    proptest! {
        #[test]
        fn every_event_is_one_line(name in any::<String>(), message in any::<String>()) {
            let line = logged(&name, &message, false);
            prop_assert!(line.ends_with('\n'));
            let line = line.trim_end_matches('\n');
            prop_assert!(!line.contains(|c: char| c.is_control()));
        }
    }
}
