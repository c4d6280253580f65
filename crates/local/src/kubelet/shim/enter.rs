//! Runs an additional program in a running container: in its file system, with its environment.

use std::convert::Infallible;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;

use nix::sched::{CloneFlags, setns};

use super::view::exec;
use super::{AttemptDir, Error, Spec, State};
use crate::kubelet::files;

/// Replaces this process with `command` in the container whose files are in `dir`.
///
/// # Errors
/// If the container is not running or the program cannot be started; otherwise it does not return.
pub fn enter(dir: &AttemptDir, command: &[String]) -> Result<Infallible, Error> {
    let spec: Spec = files::read_json(&dir.spec())
        .map_err(Error::file(&dir.spec()))?
        .ok_or_else(|| Error::NoSpec(dir.spec()))?;
    let state: Option<State> = files::read_json(&dir.state()).map_err(Error::file(&dir.state()))?;
    let not_running = || Error::NotRunning(dir.path().to_owned());
    let process = state.and_then(|state| state.process).ok_or_else(not_running)?;
    let open = |name: &str| {
        let path = format!("/proc/{}/ns/{name}", process.pid);
        File::open(&path).map_err(Error::file(path.as_ref()))
    };
    let (user, mount, uts) = (open("user")?, open("mnt")?, open("uts")?);
    // After the files were opened: now they are known to be the container's.
    if !process.is_alive() {
        return Err(not_running());
    }
    let number = |file: &File| file.metadata().map(|metadata| metadata.ino()).ok();
    let own = File::open("/proc/self/ns/user").ok();
    // Root creates no user namespace, and a process cannot enter its own namespace.
    if own.as_ref().and_then(number) != number(&user) {
        setns(user, CloneFlags::CLONE_NEWUSER)
            .map_err(Error::system("enter the container's user namespace"))?;
    }
    setns(uts, CloneFlags::CLONE_NEWUTS).map_err(Error::system("take the container's name"))?;
    setns(mount, CloneFlags::CLONE_NEWNS)
        .map_err(Error::system("enter the container's mount namespace"))?;
    exec(command, &spec.env, spec.working_dir.as_deref())
}
