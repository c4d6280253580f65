//! Shows how a download goes, on stderr: stdout is for results.

use std::io::IsTerminal as _;
use std::time::Duration;

use artifacts::{Event, Progress};
use indicatif::ProgressBar;

/// A [`Progress`] that can be taken off the screen.
pub(crate) trait Finish: Progress {
    /// Nothing more will be reported.
    fn finish(&self);
}

/// A spinner for a person at a terminal, else plain lines for a log.
pub(crate) fn for_stderr() -> Box<dyn Finish> {
    if std::io::stderr().is_terminal() {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(100));
        Box::new(Spinner(bar))
    } else {
        Box::new(Lines)
    }
}

/// One line that changes. Dropping it takes it away, so that an error stands alone.
struct Spinner(ProgressBar);

impl Progress for Spinner {
    fn report(&self, event: Event<'_>) {
        match sentence(&event) {
            // Worth keeping on the screen: it is why this takes long.
            Some(text) if matches!(event, Event::Damaged { .. }) => self.0.println(text),
            Some(text) => self.0.set_message(text),
            None => {}
        }
    }
}

impl Finish for Spinner {
    fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A line for each thing that begins, and for every so many downloads.
struct Lines;

/// How many downloads make a line in a log: some hundred files are downloaded in all.
const DOWNLOADS_PER_LINE: usize = 50;

/// How many packages make a line in a log: Kubernetes has some thousands.
const PACKAGES_PER_LINE: usize = 200;

impl Progress for Lines {
    fn report(&self, event: Event<'_>) {
        match event {
            Event::Downloaded { count, .. } if count % DOWNLOADS_PER_LINE != 0 => return,
            Event::Building { packages, .. } if packages % PACKAGES_PER_LINE != 0 => return,
            _ => {}
        }
        if let Some(text) = sentence(&event) {
            eprintln!("{text}");
        }
    }
}

impl Finish for Lines {
    fn finish(&self) {}
}

fn sentence(event: &Event<'_>) -> Option<String> {
    Some(match event {
        Event::Waiting { what } => format!("Another process is downloading {what}; waiting for it"),
        Event::Damaged { root, reason } => {
            format!("{} is damaged ({reason}) and will be replaced", root.display())
        }
        Event::Resolving { version } => format!("Fetching Kafka {version} with Maven"),
        Event::Downloaded { count, file } => format!("Downloaded {count} files (now {file})"),
        Event::Building { program, number, of, packages, elapsed } => {
            let (minutes, seconds) = (elapsed.as_secs() / 60, elapsed.as_secs() % 60);
            format!(
                "Building {program} ({number} of {of}, {packages} packages, {minutes}:{seconds:02})"
            )
        }
        Event::Verifying { files } => format!("Checking {files} files"),
        // Whatever a later version reports is no reason to fail.
        _ => return None,
    })
}
