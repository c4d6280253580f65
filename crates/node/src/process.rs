//! Determines from /proc what keeps Kafka's JVM from responding.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

/// With fewer free file descriptors than this a process has none for a connection at times.
const DESCRIPTORS_MIN: usize = 16;

/// A process.
#[derive(Debug, Clone)]
pub(crate) struct Process(PathBuf);

impl Process {
    /// The process with this id. It must not be reaped while it is inspected.
    pub(crate) fn of(pid: Pid) -> Self {
        Self(PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero())))
    }

    /// Whether a thread waits for storage, or no file descriptors are left. Runs on a blocking thread: there
    /// may be thousands of both.
    pub(crate) async fn is_blocked(&self) -> io::Result<bool> {
        let dir = self.0.clone();
        let read = move || Ok(any_waits(&dir.join("task"))? || is_exhausted(&dir)?);
        tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
    }
}

/// Whether all file descriptors are used. The exporter then serves no connection: it tries to accept a
/// waiting one before it reads from the others.
fn is_exhausted(dir: &Path) -> io::Result<bool> {
    let limits = fs::read_to_string(dir.join("limits"))?;
    let open = fs::read_dir(dir.join("fd"))?.count();
    Ok(descriptors_max(&limits).is_some_and(|max| open.saturating_add(DESCRIPTORS_MIN) >= max))
}

/// The limit of file descriptors; `None` if unlimited.
fn descriptors_max(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn any_waits(dir: &Path) -> io::Result<bool> {
    for thread in fs::read_dir(dir)? {
        match fs::read(thread?.path().join("stat")) {
            Ok(stat) if waits(&stat) => return Ok(true),
            Ok(_) => {}
            // The thread has exited. The kernel reports one or the other, depending on timing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(NO_SUCH_PROCESS) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Error number when the /proc file of an exited thread is read.
const NO_SUCH_PROCESS: i32 = rustix::io::Errno::SRCH.raw_os_error();

/// Whether the thread is in uninterruptible sleep (`D`). The state follows the name, which may contain
/// anything.
fn waits(stat: &[u8]) -> bool {
    let mut after_name = stat.rsplitn(2, |byte| *byte == b')');
    after_name.next().is_some_and(|rest| rest.starts_with(b" D "))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    #[test]
    fn only_the_state_of_a_thread_counts() {
        for (stat, expected) in [
            (&b"7 (java) S 1 7 7 0\n"[..], false),
            (b"7 (kafka-log-flush) D 1 7 7 0\n", true),
            (b"7 (odd) D name) R 1 7 7 0\n", false),
            (b"7 (odd) R name) D 1 7 7 0\n", true),
            (b"7 (G1 Conc#0) T 1 7 7 0\n", false),
            (b"", false),
        ] {
            assert_eq!(waits(stat), expected, "{}", String::from_utf8_lossy(stat));
        }
    }

    #[test]
    fn one_thread_of_many_is_found_and_one_that_has_ended_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let thread = |name: &str, stat: &str| {
            fs::create_dir_all(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("stat"), stat).unwrap();
        };
        thread("7", "7 (java) S 1\n");
        fs::create_dir(dir.path().join("8")).unwrap();
        assert!(!any_waits(dir.path()).unwrap());
        thread("9", "9 (java) D 1\n");
        assert!(any_waits(dir.path()).unwrap());
    }

    /// A process that waits for input.
    fn waiting(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    async fn becomes(process: &Process, is_blocked: bool) {
        while process.is_blocked().await.unwrap() != is_blocked {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn a_process_without_file_descriptors_is_blocked_and_one_that_has_ended_is_unknown() {
        let child = waiting("exec cat");
        let process = Process::of(Pid::from_child(&child));
        becomes(&process, false).await;
        end(child);
        process.is_blocked().await.unwrap_err();
        let child = waiting("ulimit -n 10; exec cat");
        becomes(&Process::of(Pid::from_child(&child)), true).await;
        end(child);
    }

    #[test]
    fn the_limit_that_holds_now_counts() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 4096                 files\n";
        assert_eq!(descriptors_max(limits), Some(1024));
        assert_eq!(descriptors_max("Max open files unlimited unlimited files\n"), None);
        assert_eq!(descriptors_max(""), None);
    }
}
