//! Restarts a component when it exits.
//!
//! Each component has a seat: its command line and its current process. A task waits for the exit of the
//! process and starts the next one, at once the first time and then with increasing delays. Components wait
//! for each other by themselves, so none is restarted because another one was.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::components::Component;
use super::error::Error;
use super::process::{CommandLine, Process};
use super::state::StateDir;
use super::{Event, Report};
use host::reaper::Reaper;

/// The first delay; doubled after each early exit.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// A person who repairs the cause should not wait much longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// A component that ran this long has not failed at its start.
const EARLY: Duration = Duration::from_secs(30);

/// Time limit for a graceful shutdown. The API server finishes its requests.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// The command line and current process of one component.
pub(super) struct Seat {
    pub(super) component: Component,
    pub(super) state: StateDir,
    pub(super) command_line: CommandLine,
    pub(super) reaper: Option<Arc<Reaper>>,
    pub(super) report: Report,
    process: Mutex<SeatState>,
    deaths: AtomicU32,
}

/// What is in a seat.
#[derive(Default)]
struct SeatState {
    process: Option<Process>,
    /// No process may be started any more; the current one was stopped by whoever closed the seat.
    closed: bool,
}

/// A supervised component.
pub(super) struct Watched {
    pub(super) seat: Arc<Seat>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Seat {
    pub(super) fn new(
        component: Component,
        state: &StateDir,
        command_line: CommandLine,
        reaper: Option<Arc<Reaper>>,
        report: Report,
    ) -> Arc<Self> {
        let state = state.clone();
        let (process, deaths) = (Mutex::default(), AtomicU32::new(0));
        Arc::new(Self { component, state, command_line, reaper, report, process, deaths })
    }

    /// Adopts the process of an earlier run or starts one, and supervises it.
    pub(super) fn take(self: &Arc<Self>, adopted: Option<Process>) -> Result<Watched, Error> {
        match adopted {
            Some(process) => {
                let (component, pid) = (self.component, process.id());
                (self.report)(Event::TakenOver { component, pid });
                self.state().process = Some(process);
            }
            None => self.start()?,
        }
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(Arc::clone(self).watch(stopped));
        Ok(Watched { seat: Arc::clone(self), stop, task })
    }

    /// Number of unexpected exits.
    pub(super) fn deaths(&self) -> u32 {
        self.deaths.load(Ordering::Relaxed)
    }

    /// Id of the current process.
    pub(super) fn pid(&self) -> Option<u32> {
        let mut state = self.state();
        let process = state.process.as_mut()?;
        process.is_alive().then(|| process.id())
    }

    fn state(&self) -> MutexGuard<'_, SeatState> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> Result<(), Error> {
        // Locked during the start: whoever closes the seat meanwhile finds the new process.
        let mut state = self.state();
        if state.closed {
            return Ok(());
        }
        let reaper = self.reaper.as_ref();
        let process = Process::start(&self.state, self.component, &self.command_line, reaper)?;
        let (component, pid) = (self.component, process.id());
        state.process = Some(process);
        drop(state);
        (self.report)(Event::Started { component, pid });
        Ok(())
    }

    async fn watch(self: Arc<Self>, mut stopped: oneshot::Receiver<()>) {
        let mut pause = PAUSE_FIRST;
        loop {
            let begun = Instant::now();
            let exited = self.state().process.as_ref().map(Process::exited);
            tokio::select! {
                () = wait(exited) => {}
                _ = &mut stopped => return,
            }
            self.collect();
            if begun.elapsed() > EARLY {
                pause = PAUSE_FIRST;
            }
            loop {
                (self.report)(Event::Died { component: self.component, pause });
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    _ = &mut stopped => return,
                }
                pause = (pause * 2).min(PAUSE_MAX);
                match self.start() {
                    Ok(()) => break,
                    Err(error) => {
                        tracing::warn!(component = %self.component, %error, "cannot start the component")
                    }
                }
            }
        }
    }

    /// Counts an exit, and reaps the child.
    fn collect(&self) {
        self.deaths.fetch_add(1, Ordering::Relaxed);
        if let Some(mut process) = self.state().process.take() {
            // Its exit was observed already.
            let _ = process.kill();
        }
    }

    /// Kills the process. No other one is started.
    pub(super) fn kill(&self) -> Result<(), Error> {
        let mut state = self.state();
        state.closed = true;
        state.process.take().map_or(Ok(()), |mut process| process.kill())
    }
}

impl Watched {
    /// Stops the component gracefully.
    pub(super) async fn end(self) -> Result<(), Error> {
        let seat = self.leave().await;
        let process = seat.state().process.take();
        match process {
            Some(mut process) => {
                (seat.report)(Event::Stopping { component: seat.component });
                process.end(PATIENCE).await
            }
            None => Ok(()),
        }
    }

    /// Stops supervising the component, which keeps running.
    pub(super) async fn leave(self) -> Arc<Seat> {
        let _ = self.stop.send(());
        // The task ends at its next await; a panic in it was reported already.
        let _ = self.task.await;
        self.seat
    }

    /// Stops supervising and kills the component, also outside of a runtime.
    pub(super) fn kill(self) -> Result<(), Error> {
        self.task.abort();
        self.seat.kill()
    }
}

/// Completes when the process has exited, or at once if there is none.
async fn wait(exited: Option<std::io::Result<oneshot::Receiver<()>>>) {
    match exited {
        Some(Ok(exited)) => {
            let _ = exited.await;
        }
        Some(Err(error)) => tracing::warn!(%error, "cannot wait for the exit of a component"),
        None => {}
    }
}
