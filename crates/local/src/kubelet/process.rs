//! Processes of containers, identified so that reuse of an id cannot confuse them.
//!
//! A process is killed only if it certainly is ours: by a pidfd whose process was verified after it was
//! opened.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// The environment variable that marks all processes of a container, in any process group.
pub(crate) const MARK: &str = "GREGOR_CONTAINER_ID";

/// Killing a container's processes races with their forks; after this many rounds something else is wrong.
const ROUNDS_MAX: usize = 20;

/// A process, unique across reuse of its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The number of the process.
    pub pid: i32,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
    /// Id of the boot.
    pub boot: String,
}

impl Identity {
    /// The process that has this id now; `None` if there is none.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Self { pid, start_ticks: start_ticks(&stat)?, boot: boot() })
    }

    /// An identity that no process has.
    pub(crate) fn nobody() -> Self {
        Self { pid: 0, start_ticks: 0, boot: String::new() }
    }

    /// Whether the process runs. A zombie does not.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        start_ticks(&stat) == Some(self.start_ticks) && !is_zombie(&stat) && self.boot == boot()
    }

    /// A pidfd; `None` if the process has exited.
    pub(crate) fn open(&self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // In this order: if it is the right process now, it was when the pidfd was opened.
        self.is_alive().then_some(handle)
    }

    /// Sends a signal to this process only, unless it has exited.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(handle) = self.open() {
            let _ = pidfd_send_signal(handle, signal);
        }
    }
}

/// Kills every process with the mark of this container.
pub(crate) fn end_marked(container_id: &str) {
    for _ in 0..ROUNDS_MAX {
        if !marked(container_id).into_iter().fold(false, |any, pid| kill(pid, container_id) | any) {
            return;
        }
    }
}

/// Returns whether there was a process to kill.
fn kill(pid: i32, container_id: &str) -> bool {
    let handle = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let Some(handle) = handle.filter(|_| is_marked(pid, container_id)) else {
        return false;
    };
    pidfd_send_signal(handle, Signal::KILL).is_ok()
}

fn marked(container_id: &str) -> Vec<i32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_marked(*pid, container_id)).collect()
}

fn is_marked(pid: i32, container_id: &str) -> bool {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let wanted = format!("{MARK}={container_id}");
    environ.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// Field 22 of `/proc/PID/stat`. The second field is a name that may contain spaces and parentheses.
fn start_ticks(stat: &str) -> Option<u64> {
    after_name(stat).nth(19)?.parse().ok()
}

fn is_zombie(stat: &str) -> bool {
    after_name(stat).next() == Some("Z")
}

fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_start_is_found_behind_any_name() {
        let rest = (4..=52).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        for name in ["(sh)", "(a b)", "(a) S 1 (b)", "())"] {
            assert_eq!(start_ticks(&format!("17 {name} S {rest}")), Some(22), "{name}");
        }
        assert!(is_zombie(&format!("17 (a) Z {rest}")));
        for cut in ["", "17", "17 (a", "17 (a) S 4"] {
            assert_eq!(start_ticks(cut), None, "{cut}");
        }
    }

    #[test]
    fn a_process_is_alive_until_it_ends_and_another_start_is_another_process() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let identity = Identity::of(pid).unwrap();
        assert!(identity.is_alive());
        let other = Identity { start_ticks: identity.start_ticks + 1, ..identity.clone() };
        assert!(!other.is_alive());
        other.signal(Signal::KILL);
        assert!(identity.is_alive(), "the wrong process was killed");
        identity.signal(Signal::KILL);
        child.wait().unwrap();
        assert!(!identity.is_alive());
    }

    #[test]
    fn processes_are_ended_by_their_mark_wherever_they_went() {
        let id = format!("test://{}/end-marked", std::process::id());
        let start = |mark: &str| {
            Command::new("setsid").args(["sleep", "60"]).env(MARK, mark).spawn().unwrap()
        };
        let (mut ours, mut other) = (start(&id), start("test://another"));
        while marked(&id).is_empty() {
            std::thread::yield_now();
        }
        end_marked(&id);
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
