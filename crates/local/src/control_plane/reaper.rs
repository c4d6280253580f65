//! Kills processes when their parent exits, in any way.
//!
//! A small shell knows the process groups and waits for end of file on a pipe that only our process can write
//! to. However our process ends, the kernel closes that pipe, and the shell kills the remaining groups. This
//! is for tests, which must leave nothing behind; otherwise components outlive us on purpose.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

const REAPER: &str = r#"
trap '' HUP INT TERM
groups=
while read -r verb group; do
    case $verb in
        add) groups="$groups $group" ;;
        remove)
            rest=
            for one in $groups; do [ "$one" = "$group" ] || rest="$rest $one"; done
            groups=$rest ;;
    esac
done
for one in $groups; do kill -s KILL -- "-$one" 2>/dev/null; done
"#;

/// The shell.
#[derive(Debug)]
pub(super) struct Reaper(Mutex<Option<(Child, ChildStdin)>>);

impl Reaper {
    pub(super) fn start() -> io::Result<Self> {
        let mut child = Command::new("sh")
            .args(["-c", REAPER, "gregor-reaper"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self(Mutex::new(Some((child, pipe)))))
    }

    /// From now on the group is killed when we exit.
    pub(super) fn add(&self, group: u32) -> io::Result<()> {
        self.tell("add", group)
    }

    /// The group has exited.
    pub(super) fn remove(&self, group: u32) {
        // If the shell is gone it kills nothing.
        let _ = self.tell("remove", group);
    }

    fn tell(&self, verb: &str, group: u32) -> io::Result<()> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, pipe) = guard.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        // One write: our death never truncates a line.
        pipe.write_all(format!("{verb} {group}\n").as_bytes())
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((mut child, pipe)) = guard.take() {
            drop(pipe);
            let _ = child.wait();
        }
    }
}
