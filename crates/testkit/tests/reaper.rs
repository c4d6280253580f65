//! Processes die with their parent, however it dies. With `sleep` instead of a JVM.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use testkit::{Process, Reaper};

/// The working directory of the parent; set only in the process that plays the parent.
const OWNER_DIR: &str = "GREGOR_TESTKIT_OWNER_DIR";

#[test]
fn the_groups_of_an_owner_that_is_killed_are_killed() {
    let temp = tempfile::tempdir().unwrap();
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner"])
        .env(OWNER_DIR, temp.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let ids = temp.path().join("ids");
    wait_until("the owner has started its processes", || ids.exists());
    let ids: Vec<u32> =
        fs::read_to_string(ids).unwrap().lines().map(|id| id.parse().unwrap()).collect();
    // The sleep, the shell and the shell's own child.
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| is_alive(*id)));
    let lock = File::open(temp.path().join("lock")).unwrap();
    assert!(lock.try_lock().is_err());

    // One of them cannot even react.
    let frozen = rustix::process::Pid::from_raw(i32::try_from(ids[0]).unwrap()).unwrap();
    rustix::process::kill_process(frozen, rustix::process::Signal::STOP).unwrap();
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_until("they are dead", || ids.iter().all(|id| !is_alive(*id)));
    wait_until("the lock is free", || lock.try_lock().is_ok());
}

/// Not a test: the parent in the test above, which runs this program again.
#[test]
fn owner() {
    let Some(dir) = std::env::var_os(OWNER_DIR) else { return };
    let dir = Path::new(&dir);
    let lock = File::create(dir.join("lock")).unwrap();
    lock.lock().unwrap();
    let reaper = Arc::new(Reaper::start(Some(lock.try_clone().unwrap())).unwrap());
    let log = || File::create(dir.join("log")).unwrap();
    let child_file = dir.join("child").display().to_string();
    let script =
        format!("sleep 1000 & echo $! > {child_file}.new; mv {child_file}.new {child_file}; wait");
    let sleep = Process::spawn(&reaper, &["sleep", "1000"], log()).unwrap();
    let shell = Process::spawn(&reaper, &["sh", "-c", &script], log()).unwrap();
    // One that exited in order is no longer the reaper's responsibility.
    drop(Process::spawn(&reaper, &["sleep", "1000"], log()).unwrap());
    wait_until("the shell has a child", || dir.join("child").exists());
    let child = fs::read_to_string(dir.join("child")).unwrap();
    let ids = format!("{}\n{}\n{child}", sleep.id(), shell.id());
    fs::write(dir.join("ids.new"), ids).unwrap();
    fs::rename(dir.join("ids.new"), dir.join("ids")).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_dropped_process_is_dead_when_the_drop_returns() {
    let temp = tempfile::tempdir().unwrap();
    let reaper = Arc::new(Reaper::start(None).unwrap());
    let log = File::create(temp.path().join("log")).unwrap();
    let process = Process::spawn(&reaper, &["sleep", "1000"], log).unwrap();
    let id = process.id();
    assert!(is_alive(id));
    drop(process);
    assert!(!is_alive(id));
}

#[test]
fn nothing_starts_after_the_reaper_was_closed() {
    let temp = tempfile::tempdir().unwrap();
    let reaper = Arc::new(Reaper::start(None).unwrap());
    reaper.close();
    let log = File::create(temp.path().join("log")).unwrap();
    let touched = temp.path().join("touched").display().to_string();
    assert!(Process::spawn(&reaper, &["touch", &touched], log).is_err());
    assert!(!temp.path().join("touched").exists());
}

/// Whether the process is alive. A zombie is not: it runs nothing and waits for its parent.
fn is_alive(process: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"));
    stat.is_ok_and(|stat| {
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    })
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
