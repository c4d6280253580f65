//! Processes of containers, found by a mark in their environment.
//!
//! A process is killed only if it certainly is ours: by a pidfd whose process was verified after it was
//! opened.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The environment variable that marks all processes of a container, in any process group.
pub(crate) const MARK: &str = "GREGOR_CONTAINER_ID";

/// Killing a container's processes races with their forks; after this many rounds something else is wrong.
const ROUNDS_MAX: usize = 20;

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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

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
