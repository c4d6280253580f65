//! Kills process groups when their parent exits, in any way.
//!
//! A small shell knows the groups and waits for end of file on a pipe that only our process can write to.
//! However our process ends, the kernel closes that pipe, and the shell kills the remaining groups.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Remembers the groups that it reads. At end of file it kills them and waits until they are gone, a few seconds at
/// most: a zombie whose parent does not wait for it counts as present.
const SCRIPT: &str = r#"
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
tries=50
for one in $groups; do
    while kill -s 0 -- "-$one" 2>/dev/null && [ "$tries" -gt 0 ]; do
        tries=$((tries - 1))
        sleep 0.1
    done
done
"#;

/// The shell; `None` after [`Reaper::close`].
#[derive(Debug)]
pub struct Reaper(Mutex<Option<(Child, ChildStdin)>>);

impl Reaper {
    /// Starts the shell. It holds `lock` open until every group that it knew is gone.
    ///
    /// # Errors
    /// If there is no shell.
    pub fn start(lock: Option<File>) -> io::Result<Self> {
        let mut child = Command::new("sh")
            .args(["-c", SCRIPT, "gregor-reaper"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Any stream can pass the file on; the script writes nothing.
            .stderr(lock.map_or_else(Stdio::null, Stdio::from))
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self(Mutex::new(Some((child, pipe)))))
    }

    /// From now on the group is killed when we exit.
    ///
    /// # Errors
    /// If the shell is gone or closed. The group would outlive us.
    pub fn add(&self, group: u32) -> io::Result<()> {
        self.tell("add", group)
    }

    /// The group has exited.
    pub fn remove(&self, group: u32) {
        // If the shell is gone it kills nothing.
        let _ = self.tell("remove", group);
    }

    /// Kills all groups that were not removed. No group can be added afterwards.
    pub fn close(&self) {
        if let Some((mut child, pipe)) = self.lock().take() {
            drop(pipe);
            let _ = child.wait();
        }
    }

    fn tell(&self, verb: &str, group: u32) -> io::Result<()> {
        let mut guard = self.lock();
        let (_, pipe) = guard.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        // One write: our death never truncates a line.
        pipe.write_all(format!("{verb} {group}\n").as_bytes())
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Child, ChildStdin)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").process_group(0).spawn().unwrap()
    }

    #[test]
    fn groups_are_killed_unless_they_were_removed() {
        let reaper = Reaper::start(None).unwrap();
        let (mut known, mut removed) = (sleeper(), sleeper());
        reaper.add(known.id()).unwrap();
        reaper.add(removed.id()).unwrap();
        reaper.remove(removed.id());
        // Waits for the killed process, so that it is not a zombie for which the shell waits.
        let wait = std::thread::spawn(move || known.wait().unwrap());
        reaper.close();
        assert!(!wait.join().unwrap().success());
        assert!(removed.try_wait().unwrap().is_none(), "a removed group was killed");
        assert!(reaper.add(removed.id()).is_err(), "a closed reaper accepts no group");
        removed.kill().unwrap();
        removed.wait().unwrap();
    }
}
