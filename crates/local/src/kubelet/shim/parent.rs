//! Runs one container: starts it, copies its output, records its exit.

use std::fs::{self, File};
use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use nix::sys::signal::{SigSet, Signal as NixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::log::{Log, Stream};
use super::{AttemptDir, Error, Exit, ExitKind, Spec, State};
use crate::kubelet::files;
use crate::kubelet::process::end_marked;
use crate::process::ProcessIdentity;

/// How long to wait for output after all processes have exited. Data in the pipes is available at once; only
/// a process without the mark could still write.
const OUTPUT_AFTER_END: Duration = Duration::from_secs(2);

/// Kubernetes' limit of a termination message.
const MESSAGE_BYTES_MAX: u64 = 4096;

/// Exit code of a container whose program could not be started, as in container runtimes.
const NOT_STARTED_CODE: i32 = 128;

/// Runs a container from start to exit.
///
/// To start a shim: `gregor shim SPEC`, with a pipe as standard output. End of file on that pipe means that
/// the state is written.
///
/// # Errors
/// If the run must not start, or its files cannot be read or written.
pub fn run(spec_file: &Path) -> Result<(), Error> {
    let dir = AttemptDir::new(spec_file.parent().unwrap_or(Path::new("/")).to_owned());
    // Detach from the terminal, whose signals are for the kubelet. Fails if we lead a group already.
    let _ = rustix::process::setsid();
    let _lock = lock(&dir)?;
    let spec: Spec = files::read_json(&dir.spec())
        .map_err(Error::file(&dir.spec()))?
        .ok_or_else(|| Error::NoSpec(dir.spec()))?;
    let signals = signals()?;
    let shim = own_identity()?;
    let mut state = State { shim, process: None, started_at: None, exit: None };
    let write =
        |state: &State| files::write_json(&dir.state(), state).map_err(Error::file(&dir.state()));
    write(&state)?;
    let mut container = match Container::start(&dir, &spec)? {
        Ok(container) => container,
        Err(message) => {
            state.exit = Some(Exit {
                code: NOT_STARTED_CODE,
                kind: ExitKind::NotStarted,
                message: Some(message),
                at: Timestamp::now(),
            });
            return write(&state);
        }
    };
    state.process = u32::try_from(container.pid.as_raw_nonzero().get())
        .ok()
        .and_then(|pid| ProcessIdentity::of(pid).ok());
    state.started_at = Some(Timestamp::now());
    // Without this file the kubelet could not find the container: better to kill it.
    if let Err(error) = write(&state) {
        container.kill(Signal::KILL);
        return Err(error);
    }
    say_ready();
    let exit = container.watch(&signals, &spec)?;
    state.exit = Some(exit);
    // A full disk must not lose an exit code: it is written as soon as there is space.
    while write(&state).is_err() {
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

fn own_identity() -> Result<ProcessIdentity, Error> {
    ProcessIdentity::own().map_err(|source| Error::System { action: "read /proc", source })
}

/// Locks the directory of this run, unless it was abandoned.
fn lock(dir: &AttemptDir) -> Result<File, Error> {
    let path = dir.lock();
    let file = File::create(&path).map_err(Error::file(&path))?;
    // The kubelet may hold it for a moment to check whether we run.
    let until = Instant::now() + Duration::from_secs(5);
    while rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() > until {
            return Err(Error::Locked(dir.path().to_owned()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    if dir.given_up().exists() || dir.state().exists() {
        return Err(Error::Used(dir.path().to_owned()));
    }
    Ok(file)
}

/// Closes our end of the pipe to the kubelet.
fn say_ready() {
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

/// Signals that are read instead of being delivered. The container unblocks them before it executes the
/// program.
fn signals() -> Result<SignalFd, Error> {
    let mut set = SigSet::empty();
    let ours = [NixSignal::SIGTERM, NixSignal::SIGUSR1, NixSignal::SIGCHLD];
    // Signals of a terminal or a careless script are read too, and ignored.
    let ignored = [NixSignal::SIGINT, NixSignal::SIGHUP, NixSignal::SIGQUIT, NixSignal::SIGPIPE];
    ours.into_iter().chain(ignored).for_each(|signal| set.add(signal));
    set.thread_block().map_err(Error::system("block signals"))?;
    SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .map_err(Error::system("read signals"))
}

/// The container, from its parent's perspective.
#[derive(Debug)]
struct Container {
    child: Child,
    pid: Pid,
    outputs: Vec<Output>,
    log: Log,
}

#[derive(Debug)]
struct Output {
    pipe: PipeReader,
    stream: Stream,
}

impl Container {
    /// Starts it; the inner error says why the program could not be started.
    fn start(dir: &AttemptDir, spec: &Spec) -> Result<Result<Self, String>, Error> {
        let pipe = || io::pipe().map_err(Error::system("make a pipe"));
        let log = Log::open(spec.log.clone()).map_err(Error::file(&spec.log.path))?;
        let ((mut word, say), (out, out_writer), (err, err_writer)) = (pipe()?, pipe()?, pipe()?);
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("gregor")
            .args(["shim".as_ref(), "--inner".as_ref(), dir.path().as_os_str()])
            .env_clear()
            .stdin(Stdio::from(say))
            .stdout(Stdio::from(out_writer))
            .stderr(Stdio::from(err_writer))
            .process_group(0);
        let mut child = command.spawn().map_err(Error::system("start a process"))?;
        // Drops our copies of the writing ends; otherwise the pipes would never end.
        drop(command);
        let mut text = Vec::new();
        word.read_to_end(&mut text).map_err(Error::system("read the container's status"))?;
        if text != [0] {
            let _ = child.wait();
            let text = String::from_utf8_lossy(&text).trim_start_matches('\0').to_owned();
            let silent = "the container's first process exited before it started the program";
            return Ok(Err(if text.is_empty() { silent.to_owned() } else { text }));
        }
        let outputs = vec![
            Output { pipe: out, stream: Stream::new("stdout") },
            Output { pipe: err, stream: Stream::new("stderr") },
        ];
        Ok(Ok(Self { pid: Pid::from_child(&child), child, outputs, log }))
    }

    /// Copies output and forwards signals until the container and all its processes have exited.
    fn watch(&mut self, signals: &SignalFd, spec: &Spec) -> Result<Exit, Error> {
        let status = loop {
            self.wait_for_anything(Some(signals.as_fd()), None)?;
            while let Ok(Some(signal)) = signals.read_signal() {
                match NixSignal::try_from(i32::try_from(signal.ssi_signo).unwrap_or(0)) {
                    Ok(NixSignal::SIGTERM) => self.kill(Signal::TERM),
                    Ok(NixSignal::SIGUSR1) => self.kill(Signal::KILL),
                    _ => {}
                }
            }
            if self.has_ended()? {
                // Before it is reaped: until then its id and its group are certainly its own.
                self.kill(Signal::KILL);
                end_marked(&spec.id);
                break self.child.wait().map_err(Error::system("wait for the container"))?;
            }
        };
        let at = Timestamp::now();
        let until = Instant::now() + OUTPUT_AFTER_END;
        while !self.outputs.is_empty() && Instant::now() < until {
            self.wait_for_anything(None, Some(Duration::from_millis(100)))?;
        }
        let code = exit_code(status);
        Ok(Exit { code, kind: ExitKind::Ended, message: self.message(spec, code), at })
    }

    /// Waits for output, for one of `also` or for the time to pass, and copies the output.
    fn wait_for_anything(
        &mut self,
        also: Option<BorrowedFd<'_>>,
        time: Option<Duration>,
    ) -> Result<(), Error> {
        let outputs = self.outputs.iter().map(|output| output.pipe.as_fd());
        let mut fds: Vec<_> =
            outputs.chain(also).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        match poll(&mut fds, time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::system("wait for the container")(error)),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut buffer = [0; 16 * 1024];
        let (log, mut index) = (&mut self.log, 0);
        self.outputs.retain_mut(|output| {
            let is_ready = ready.get(index).copied().unwrap_or(false);
            index += 1;
            if !is_ready {
                return true;
            }
            match output.pipe.read(&mut buffer) {
                Ok(0) | Err(_) => {
                    log.end(&mut output.stream);
                    false
                }
                Ok(length) => {
                    log.write(&mut output.stream, &buffer[..length]);
                    true
                }
            }
        });
        Ok(())
    }

    /// Whether the first process has exited. It is not reaped yet.
    fn has_ended(&self) -> Result<bool, Error> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(self.pid), options);
        ended.map(|status| status.is_some()).map_err(Error::system("wait for the container"))
    }

    fn kill(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    fn message(&self, spec: &Spec, code: i32) -> Option<String> {
        let mut bytes = Vec::new();
        if let Ok(file) = File::open(&spec.message_file) {
            let _ = file.take(MESSAGE_BYTES_MAX).read_to_end(&mut bytes);
        }
        let own = String::from_utf8_lossy(&bytes).into_owned();
        if own.is_empty() && spec.message_from_log && code != 0 {
            return Some(self.log.tail()).filter(|tail| !tail.is_empty());
        }
        Some(own).filter(|own| !own.is_empty())
    }
}

fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255)
}

/// Whether a shim holds the directory of this run.
pub(crate) fn is_held(dir: &AttemptDir) -> bool {
    let Ok(file) = fs::File::open(dir.lock()) else {
        return false;
    };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

/// Prevents a run that has not started from ever starting; returns whether that succeeded, which requires
/// that no shim holds the directory.
pub(crate) fn give_up(dir: &AttemptDir) -> io::Result<bool> {
    let file = File::create(dir.lock())?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(false);
    }
    fs::write(dir.given_up(), "")?;
    Ok(true)
}
