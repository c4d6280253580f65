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
    #[serde(alias = "boot")]
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
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let handle = pidfd_open(pid, PidfdFlags::empty())?;
        // In this order: if it is the right process now, it was when the pidfd was opened.
        if Self::of(self.pid)? == *self { Ok(handle) } else { Err(gone()) }
    }

    /// Sends SIGTERM to this process only. A process that has exited is not an error.
    pub fn terminate(&self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Sends a signal to this process only. A process that has exited is not an error.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        match self.open().and_then(|handle| Ok(pidfd_send_signal(handle, signal)?)) {
            Err(_) if !self.is_alive() => Ok(()),
            result => result,
        }
    }

    /// An identity that no process has.
    pub(crate) fn nobody() -> Self {
        Self { pid: 0, start_ticks: 0, boot_id: String::new() }
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
    fn the_start_is_found_after_any_program_name() {
        let rest = (4..=52).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        for name in ["(sh)", "(a b)", "(a) S 1 (b)", "())"] {
            assert_eq!(parse(&format!("17 {name} S {rest}")), Some(('S', 22)), "{name}");
        }
        for cut in ["", "17", "17 (a", "17 (a) S 4"] {
            assert_eq!(parse(cut), None, "{cut}");
        }
    }

    #[test]
    fn a_signal_reaches_only_the_process_that_was_identified() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id()).unwrap();
        let other = ProcessIdentity { start_ticks: identity.start_ticks + 1, ..identity.clone() };
        assert!(!other.is_alive());
        other.signal(Signal::KILL).unwrap();
        assert!(identity.is_alive(), "the wrong process was killed");
        identity.signal(Signal::KILL).unwrap();
        child.wait().unwrap();
        assert!(!identity.is_alive());
        identity.signal(Signal::KILL).unwrap();
    }

    #[test]
    fn the_earlier_form_of_a_record_is_read() {
        let text = r#"{"pid":7,"start_ticks":22,"boot":"b"}"#;
        let expected = ProcessIdentity { pid: 7, start_ticks: 22, boot_id: "b".to_owned() };
        assert_eq!(serde_json::from_str::<ProcessIdentity>(text).unwrap(), expected);
    }

    #[test]
    fn this_process_is_alive_and_one_with_its_number_before_was_another() {
        let own = ProcessIdentity::own().unwrap();
        assert!(own.is_alive());
        assert!(!ProcessIdentity { start_ticks: own.start_ticks - 1, ..own.clone() }.is_alive());
        assert!(!ProcessIdentity { boot_id: "other".to_owned(), ..own }.is_alive());
    }
}
