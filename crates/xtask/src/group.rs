//! A program in its own process group, which is killed on drop or when this process exits.
//!
//! A step starts compilers and other programs. Killing only its first process would leave them running.

use std::io::{Result, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Kills the process group `$1` if its input ends without a line. The group does not receive Ctrl-C from the
/// terminal, and this process does not survive one, so another process has to kill the group.
const REAPER: &str = r#"trap '' HUP INT TERM; read -r done || kill -s KILL -- "-$1""#;

/// A running process group.
#[derive(Debug)]
pub(crate) struct Group {
    leader: Child,
    reaper: Option<Child>,
}

impl Group {
    /// Starts a program as the leader of a new process group.
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        // A background group that reads from the terminal would be stopped.
        let leader = command.stdin(Stdio::null()).process_group(0).spawn()?;
        let mut group = Self { leader, reaper: None };
        let reaper = Command::new("sh")
            .args(["-c", REAPER, "xtask-reaper", &group.leader.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Out of reach of signals to our own group.
            .process_group(0)
            .spawn()?;
        group.reaper = Some(reaper);
        Ok(group)
    }

    /// Waits for the leader. The group is not killed afterwards: its id may belong to another one by then.
    pub(crate) fn wait(mut self) -> Result<ExitStatus> {
        let status = self.leader.wait()?;
        if let Some(mut reaper) = self.reaper.take() {
            // A reaper that has exited kills nothing.
            let _ = reaper.stdin.take().map(|mut pipe| pipe.write_all(b"done\n"));
            let _ = reaper.wait();
        }
        Ok(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(mut reaper) = self.reaper.take() {
            // Waiting closes its input.
            let _ = reaper.wait();
        }
        // Without a reaper at least the leader is killed, unless it has exited.
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead as _, BufReader};
    use std::time::{Duration, Instant};

    use super::*;

    /// Whether a process has exited; a zombie counts.
    fn is_gone(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, state)| state.trim_start().starts_with(['Z', 'X']))
    }

    /// A shell that waits for a child, and the child's process id.
    fn parent_and_child() -> (Group, String) {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped());
        let mut group = Group::start(command).unwrap();
        let mut line = String::new();
        BufReader::new(group.leader.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (group, line.trim().to_owned())
    }

    #[test]
    fn dropping_a_group_kills_the_children_of_its_leader() {
        let (group, child) = parent_and_child();
        assert!(!is_gone(&child));
        drop(group);
        let begun = Instant::now();
        while !is_gone(&child) {
            assert!(begun.elapsed() < Duration::from_secs(10), "process {child} still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn the_end_of_this_process_kills_the_group() {
        let (mut group, _child) = parent_and_child();
        // The kernel closes the pipes of a process that exits.
        drop(group.reaper.as_mut().unwrap().stdin.take());
        assert!(!group.leader.wait().unwrap().success());
    }

    #[test]
    fn the_status_of_the_leader_is_returned() {
        let run = |program: &str| Group::start(Command::new(program)).unwrap().wait().unwrap();
        assert!(run("true").success());
        assert_eq!(run("false").code(), Some(1));
    }
}
