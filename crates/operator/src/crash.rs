//! Switches for tests, with which the process ends or pauses itself at its acts.
//!
//! Off, they do nothing at all. With one act per life, the process is gone, as by `kill -9`, right after each write that
//! changed something. A scenario that is lived so crosses every boundary at which a crash could hurt. With a pause, the
//! process stops right before one write is sent, after everything was checked: the worst moment for a leader.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

/// Whether this process has paused.
static PAUSED: AtomicBool = AtomicBool::new(false);

/// What the process does at its acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CrashSwitch {
    /// Nothing.
    #[default]
    Off,
    /// It ends after the first.
    OneActPerLife,
    /// It pauses once, as by `kill -STOP`, before a write that this file names by how it begins.
    PauseBefore(&'static Path),
}

impl CrashSwitch {
    /// Whether it ends after an act.
    #[must_use]
    pub fn is_on(self) -> bool {
        match self {
            CrashSwitch::Off | CrashSwitch::PauseBefore(_) => false,
            CrashSwitch::OneActPerLife => true,
        }
    }

    /// An act is about to be sent.
    pub fn sending(self, what: &str) {
        match self {
            CrashSwitch::Off | CrashSwitch::OneActPerLife => {}
            CrashSwitch::PauseBefore(file) => {
                let named = std::fs::read_to_string(file).unwrap_or_default();
                let named = named.trim();
                let is_meant = !named.is_empty() && what.starts_with(named);
                if is_meant && !PAUSED.swap(true, Ordering::Relaxed) {
                    pause(what);
                }
            }
        }
    }

    /// An act was done, or may have been done.
    pub fn acted(self, what: &str) {
        match self {
            CrashSwitch::Off | CrashSwitch::PauseBefore(_) => {}
            CrashSwitch::OneActPerLife => end(what),
        }
    }
}

fn pause(what: &str) {
    eprintln!("paused before: {what}");
    let _ = kill_process(getpid(), Signal::STOP);
    // Another thread may have taken the signal; this one does not go on until all have stopped.
    std::thread::sleep(Duration::from_millis(100));
}

fn end(what: &str) -> ! {
    // A test counts lives and reads what each was for; the line goes out whole before the end.
    eprintln!("one act per life: {what}");
    let _ = kill_process(getpid(), Signal::KILL);
    // The signal cannot be held off; this is for the compiler.
    std::process::abort()
}
