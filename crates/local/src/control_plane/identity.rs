//! Which process is meant: its number alone may belong to another one later.

use std::os::fd::OwnedFd;
use std::{fs, io};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process, for as long as the machine runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Its number.
    pub pid: u32,
    /// When it was started, in ticks since the machine was.
    pub start_ticks: u64,
    /// The start of the machine that both are of.
    pub boot_id: String,
}

impl ProcessIdentity {
    /// The process that has this number now.
    pub fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let Some((_, start_ticks)) = parse(&stat) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "/proc is not as expected"));
        };
        Ok(Self { pid, start_ticks, boot_id: boot_id.trim().to_owned() })
    }

    /// A handle that stays with the process, whoever gets its number later. Also of one that is about to
    /// end.
    pub(super) fn open(&self) -> io::Result<OwnedFd> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let handle = pidfd_open(pid, PidfdFlags::empty())?;
        // In this order: if it is the right one now, it was when the handle was opened.
        if Self::of(self.pid)? == *self { Ok(handle) } else { Err(gone()) }
    }

    /// Tells the process, and no other, to end in order. One that is gone already is no error.
    pub fn terminate(&self) -> io::Result<()> {
        match self.open().and_then(|handle| Ok(pidfd_send_signal(handle, Signal::TERM)?)) {
            Err(_) if !self.is_alive() => Ok(()),
            result => result,
        }
    }

    /// This process.
    pub fn own() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// Whether it still runs. One that has ended and that nobody has collected does not, and neither does
    /// one whose first thread has ended, although others may still hold its ports for a moment.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let running = parse(&stat).is_some_and(|(state, start_ticks)| {
            !matches!(state, 'Z' | 'X') && start_ticks == self.start_ticks
        });
        running && Self::of(self.pid).is_ok_and(|now| now == *self)
    }
}

/// The state and the start time in `/proc/PID/stat`. The name of the program, which is in brackets, may
/// have brackets and spaces itself.
fn parse(stat: &str) -> Option<(char, u64)> {
    /// Fields after the name; the state is the first of them.
    const START_TIME: usize = 19;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(START_TIME - 1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strange_name_of_a_program_does_not_confuse() {
        let fields: Vec<_> = (4..=52).map(|n| n.to_string()).collect();
        let stat = format!("7 (a) b) S {}", fields.join(" "));
        assert_eq!(parse(&stat), Some(('S', 22)));
        assert_eq!(parse("7 (a"), None);
    }

    #[test]
    fn this_process_is_alive_and_one_with_its_number_before_was_another() {
        let own = ProcessIdentity::own().unwrap();
        assert!(own.is_alive());
        assert!(!ProcessIdentity { start_ticks: own.start_ticks - 1, ..own.clone() }.is_alive());
        assert!(!ProcessIdentity { boot_id: "other".to_owned(), ..own }.is_alive());
    }
}
