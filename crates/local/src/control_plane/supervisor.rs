//! Keeps one component running.
//!
//! Each component has a seat: its command line and the process that is there now. A task waits for the
//! process's end and starts the next one, at once the first time and then with growing pauses. The
//! components wait for each other by themselves, so none is restarted because another was.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::components::Component;
use super::error::Error;
use super::process::{CommandLine, Process};
use super::reaper::Reaper;
use super::state::StateDir;
use super::{Event, Report};

/// The first pause; doubled after each early end.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// A person who repairs the cause should not wait much longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// A component that ran this long has not failed at its start.
const EARLY: Duration = Duration::from_secs(30);

/// How long a component may take to end in order. The API server finishes the requests it has.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// The place of one component.
pub(super) struct Seat {
    pub(super) component: Component,
    pub(super) state: StateDir,
    pub(super) command_line: CommandLine,
    pub(super) reaper: Option<Arc<Reaper>>,
    pub(super) report: Report,
    process: Mutex<Place>,
    deaths: AtomicU32,
}

/// What is in a seat.
#[derive(Default)]
struct Place {
    process: Option<Process>,
    /// Nothing may be started any more: whoever closed it has ended what was there.
    closed: bool,
}

/// A component that is looked after.
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

    /// Puts the process of an earlier run into the seat, or starts one, and looks after it.
    pub(super) fn take(self: &Arc<Self>, adopted: Option<Process>) -> Result<Watched, Error> {
        match adopted {
            Some(process) => {
                let (component, pid) = (self.component, process.id());
                (self.report)(Event::TakenOver { component, pid });
                self.place().process = Some(process);
            }
            None => self.start()?,
        }
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(Arc::clone(self).watch(stopped));
        Ok(Watched { seat: Arc::clone(self), stop, task })
    }

    /// How often the process has ended by itself.
    pub(super) fn deaths(&self) -> u32 {
        self.deaths.load(Ordering::Relaxed)
    }

    /// The number of the process that is there now.
    pub(super) fn pid(&self) -> Option<u32> {
        let mut place = self.place();
        let process = place.process.as_mut()?;
        process.is_alive().then(|| process.id())
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> Result<(), Error> {
        // Held over the start: who closes the seat meanwhile finds what was started.
        let mut place = self.place();
        if place.closed {
            return Ok(());
        }
        let reaper = self.reaper.as_ref();
        let process = Process::start(&self.state, self.component, &self.command_line, reaper)?;
        let (component, pid) = (self.component, process.id());
        place.process = Some(process);
        drop(place);
        (self.report)(Event::Started { component, pid });
        Ok(())
    }

    async fn watch(self: Arc<Self>, mut stopped: oneshot::Receiver<()>) {
        let mut pause = PAUSE_FIRST;
        loop {
            let begun = Instant::now();
            let exited = self.place().process.as_ref().map(Process::exited);
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
                    Err(error) => tracing::warn!(component = %self.component, %error, "no start"),
                }
            }
        }
    }

    /// Counts a death. A child is collected by asking whether it lives.
    fn collect(&self) {
        self.deaths.fetch_add(1, Ordering::Relaxed);
        if let Some(mut process) = self.place().process.take() {
            // Its end was seen, so this is only to be sure.
            let _ = process.kill();
        }
    }

    /// Ends the process without a word. No other is started.
    pub(super) fn kill(&self) -> Result<(), Error> {
        let mut place = self.place();
        place.closed = true;
        place.process.take().map_or(Ok(()), |mut process| process.kill())
    }
}

impl Watched {
    /// Ends the component in order.
    pub(super) async fn end(self) -> Result<(), Error> {
        let seat = self.leave().await;
        let process = seat.place().process.take();
        match process {
            Some(mut process) => {
                (seat.report)(Event::Stopping { component: seat.component });
                process.end(PATIENCE).await
            }
            None => Ok(()),
        }
    }

    /// Stops looking after the component, which goes on.
    pub(super) async fn leave(self) -> Arc<Seat> {
        let _ = self.stop.send(());
        // It ends at its next await; a panic in it has been shown already.
        let _ = self.task.await;
        self.seat
    }

    /// Stops looking after it and ends it without a word, also outside of a runtime.
    pub(super) fn kill(self) -> Result<(), Error> {
        self.task.abort();
        self.seat.kill()
    }
}

/// Completes when the process has ended, or at once if there is none to wait for.
async fn wait(exited: Option<std::io::Result<oneshot::Receiver<()>>>) {
    match exited {
        Some(Ok(exited)) => {
            let _ = exited.await;
        }
        Some(Err(error)) => tracing::warn!(%error, "cannot wait for a component's end"),
        None => {}
    }
}
