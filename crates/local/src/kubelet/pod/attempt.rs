//! One run of a container, observed through the files of its shim.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rustix::process::Signal;
use tokio::io::AsyncReadExt as _;
use tokio::io::unix::AsyncFd;
use tokio::process::Command;
use tokio::time::timeout;

use super::decide::Run;
use crate::kubelet::files;
use crate::kubelet::process::end_marked;
use crate::kubelet::shim::{self, AttemptDir, Exit, ExitKind, Spec, State};
use crate::process::ProcessIdentity;

/// Exit code of a killed or lost container, as in a shell for SIGKILL.
const LOST_CODE: i32 = 137;

/// Poll interval for a shim without a pidfd.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A shim reports within milliseconds whether the container runs. If it hangs, such as on a dead network
/// mount, the pod must still handle its deletion.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// One run of a container.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) dir: AttemptDir,
    number: u32,
    id: String,
    streak: u32,
    state: Option<State>,
    paused: bool,
}

impl Attempt {
    /// Records a run before it is started.
    pub(crate) fn record(dir: AttemptDir, number: u32, spec: &Spec) -> io::Result<Self> {
        fs::create_dir_all(dir.root())?;
        File::create(dir.message())?;
        if let Some(parent) = spec.log.path.parent() {
            fs::create_dir_all(parent)?;
        }
        files::write_json(&dir.spec(), spec)?;
        let (id, streak) = (spec.id.clone(), spec.streak);
        Ok(Self { dir, number, id, streak, state: None, paused: false })
    }

    /// A recorded run; `None` if the record is incomplete.
    pub(crate) fn load(dir: AttemptDir, number: u32) -> Option<Self> {
        let spec: Spec = files::read_json(&dir.spec()).ok().flatten()?;
        let paused = dir.paused().exists();
        let (id, streak) = (spec.id, spec.streak);
        let mut attempt = Self { dir, number, id, streak, state: None, paused };
        attempt.refresh();
        Some(attempt)
    }

    /// Starts the shim and waits until it has written the result.
    pub(crate) async fn start(&mut self, shim: &[OsString]) -> io::Result<()> {
        let mut words = shim.iter();
        let errors = File::create(self.dir.path().join("shim.log"))?;
        let mut child = Command::new(words.next().cloned().unwrap_or_default())
            .args(words)
            .arg(self.dir.spec())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()?;
        if let Some(mut stdout) = child.stdout.take() {
            let mut nothing = Vec::new();
            let _ = timeout(START_PATIENCE, stdout.read_to_end(&mut nothing)).await;
        }
        // It outlives us if we exit; while we run it must be reaped.
        tokio::spawn(async move { child.wait().await });
        self.refresh();
        Ok(())
    }

    /// Reads the current state.
    pub(crate) fn refresh(&mut self) {
        if self.exit().is_some() {
            return;
        }
        // In this order: a shim writes its final state before it releases the lock.
        let held = shim::is_held(&self.dir);
        self.state = files::read_json(&self.dir.state()).ok().flatten().or(self.state.take());
        if !held && self.exit().is_none() {
            self.declare_lost();
        }
    }

    /// The shim exited without a final state: kills remaining processes and writes that state.
    fn declare_lost(&mut self) {
        if !matches!(shim::give_up(&self.dir), Ok(true)) {
            return;
        }
        end_marked(&self.id);
        let began = self.state.as_ref().is_some_and(|state| state.process.is_some());
        let (kind, message) = if began {
            (ExitKind::Lost, "the container's shim was killed")
        } else {
            (ExitKind::NotStarted, "the container was abandoned before it was started")
        };
        let words = fs::read_to_string(self.dir.path().join("shim.log")).unwrap_or_default();
        let message = format!("{message}\n{words}").trim().to_owned();
        let exit = Exit { code: LOST_CODE, kind, message: Some(message), at: Timestamp::now() };
        let mut state = self.state.take().unwrap_or_else(|| State {
            shim: ProcessIdentity::nobody(),
            process: None,
            started_at: None,
            exit: None,
        });
        state.exit = Some(exit);
        if let Err(error) = files::write_json(&self.dir.state(), &state) {
            tracing::warn!(%error, id = self.id, "cannot persist the exit status of a container");
        }
        self.state = Some(state);
    }

    /// Marks that it is stopped only because the node stops.
    pub(crate) fn pause(&mut self) {
        if fs::write(self.dir.paused(), "").is_ok() {
            self.paused = true;
        }
    }

    /// Sends a signal to the shim.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(state) = &self.state {
            // A shim that has exited needs no signal.
            let _ = state.shim.signal(signal);
        }
    }

    /// Waits until the shim has exited.
    pub(crate) async fn ended(self) {
        let handle = self.state.as_ref().and_then(|state| state.shim.open().ok());
        if let Some(handle) = handle.and_then(watchable) {
            let _ = handle.readable().await;
        }
        while shim::is_held(&self.dir) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    pub(crate) fn exit(&self) -> Option<&Exit> {
        self.state.as_ref()?.exit.as_ref()
    }

    pub(crate) fn runs(&self) -> bool {
        self.exit().is_none()
    }

    pub(crate) fn run(&self) -> Run {
        Run {
            number: self.number,
            id: self.id.clone(),
            started_at: self.state.as_ref().and_then(|state| state.started_at),
            exit: self.exit().cloned(),
            streak: self.streak,
            paused: self.paused,
        }
    }
}

/// A pidfd becomes readable when the process has exited.
#[expect(deprecated, reason = "the new constructor is unsafe; what we own stays open as it asks")]
fn watchable(handle: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    AsyncFd::new(handle).ok()
}
