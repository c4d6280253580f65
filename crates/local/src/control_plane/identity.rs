//! Identifies a process: its id alone may be reused.

use std::os::fd::OwnedFd;
use std::{fs, io};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process, unique until the machine reboots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
    /// Id of the boot.
    pub boot_id: String,
}

impl ProcessIdentity {
    /// The process that has this id now.
    pub fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let Some((_, start_ticks)) = parse(&stat) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected format of /proc"));
        };
        Ok(Self { pid, start_ticks, boot_id: boot_id.trim().to_owned() })
    }

    /// A pidfd, which never refers to another process that reused the id.
    pub(super) fn open(&self) -> io::Result<OwnedFd> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let handle = pidfd_open(pid, PidfdFlags::empty())?;
        // In this order: if it is the right process now, it was when the pidfd was opened.
        if Self::of(self.pid)? == *self { Ok(handle) } else { Err(gone()) }
    }

    /// Sends SIGTERM to this process only. A process that has exited is not an error.
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

    /// Whether it still runs. A zombie does not, and neither does a process whose first thread has exited,
    /// although other threads may hold its ports for a moment.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let running = parse(&stat).is_some_and(|(state, start_ticks)| {
            !matches!(state, 'Z' | 'X') && start_ticks == self.start_ticks
        });
        running && Self::of(self.pid).is_ok_and(|now| now == *self)
    }
}

/// State and start time in `/proc/PID/stat`. The program's name, in parentheses, may itself contain
/// parentheses and spaces.
fn parse(stat: &str) -> Option<(char, u64)> {
    /// Index among the fields after the name; the first one is the state.
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
