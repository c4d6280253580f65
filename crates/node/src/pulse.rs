//! Tracks liveness of Kafka's JVM and records hangs of this pod. [`control::node::liveness`] decides what
//! they mean.
//!
//! A hang is recorded before it is reported: the kubelet restarts the container soon after, and the next JVM
//! gets more time. The record is on the volume for temporary files, which lives as long as the pod. It is
//! removed when a JVM has responded for long enough.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use control::node::Roles;
use control::node::liveness::{self, Interval, Liveness};
use tokio::sync::Notify;

/// Liveness state of the JVM.
#[derive(Debug)]
pub(crate) struct Pulse {
    roles: Roles,
    has_answered: AtomicBool,
    has_served: AtomicBool,
    unanswered: AtomicU32,
    /// Intervals with a response since the JVM was started or hung.
    answered: AtomicU32,
    hangs_before: AtomicU32,
    /// Whether the current hang is recorded.
    is_recorded: AtomicBool,
    record: PathBuf,
    /// Notified when a hang begins.
    pub(crate) hangs: Notify,
}

impl Pulse {
    /// For a JVM that is about to start, in a pod with this record of hangs. If the record cannot be read,
    /// any number of hangs is assumed.
    pub(crate) fn new(roles: Roles, record: PathBuf) -> Self {
        let hangs_before = recorded(&record).unwrap_or_else(|error| {
            tracing::error!(%error, file = %record.display(), "cannot read the record of hangs");
            u32::MAX
        });
        Self {
            roles,
            has_answered: AtomicBool::new(false),
            has_served: AtomicBool::new(false),
            unanswered: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            hangs_before: AtomicU32::new(hangs_before),
            is_recorded: AtomicBool::new(false),
            record,
            hangs: Notify::new(),
        }
    }

    /// Notes that the broker is running, or has been since its start.
    pub(crate) fn serves(&self) {
        self.has_served.store(true, Ordering::Relaxed);
    }

    /// Whether the JVM makes progress. A hang that is not recorded is not reported.
    pub(crate) fn liveness(&self, stopping: bool) -> Liveness {
        match self.decide(stopping) {
            Liveness::Hung { .. } if !self.is_recorded.load(Ordering::Relaxed) => Liveness::Live,
            liveness => liveness,
        }
    }

    fn decide(&self, stopping: bool) -> Liveness {
        liveness::decide(&liveness::Facts {
            roles: self.roles,
            has_answered: self.has_answered.load(Ordering::Relaxed),
            has_served: self.has_served.load(Ordering::Relaxed),
            unanswered: self.unanswered.load(Ordering::Relaxed),
            hangs_before: self.hangs_before.load(Ordering::Relaxed),
            stopping,
        })
    }

    /// Enters the result of an interval. There is one writer.
    pub(crate) async fn enter(&self, interval: Interval, stopping: bool) {
        let unanswered = liveness::unanswered(self.unanswered.load(Ordering::Relaxed), interval);
        self.unanswered.store(unanswered, Ordering::Relaxed);
        if interval == Interval::Answered {
            self.revive();
            self.forget_if_cured().await;
            return;
        }
        let Liveness::Hung { unanswered } = self.decide(stopping) else { return };
        if self.is_recorded.load(Ordering::Relaxed) {
            return;
        }
        match self.record().await {
            Ok(()) => {
                tracing::error!(unanswered, "Kafka's JVM makes no progress");
                self.is_recorded.store(true, Ordering::Relaxed);
                self.hangs.notify_one();
            }
            // Retried after the next interval.
            Err(error) => tracing::error!(
                %error,
                file = %self.record.display(),
                "Kafka's JVM makes no progress; not reported, because the hang cannot be recorded"
            ),
        }
    }

    fn revive(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
        if self.is_recorded.swap(false, Ordering::Relaxed) {
            // A pause as long as this one can recur.
            let hangs = self.hangs_before.load(Ordering::Relaxed);
            self.hangs_before.store(hangs.saturating_add(1), Ordering::Relaxed);
            self.answered.store(0, Ordering::Relaxed);
            tracing::info!("Kafka's JVM makes progress again");
        }
    }

    /// Removes the record once the JVM has responded for long enough. Hangs that stay on record still count.
    async fn forget_if_cured(&self) {
        let answered = self.answered.load(Ordering::Relaxed).saturating_add(1);
        let is_cured = liveness::is_cured(answered);
        // Start over: a record that cannot be removed is not retried in every interval.
        self.answered.store(if is_cured { 0 } else { answered }, Ordering::Relaxed);
        if !is_cured || self.hangs_before.load(Ordering::Relaxed) == 0 {
            return;
        }
        match self.remove_record().await {
            Ok(()) => {
                self.hangs_before.store(0, Ordering::Relaxed);
                tracing::info!(
                    "Kafka's JVM has responded long enough; earlier hangs no longer count"
                );
            }
            Err(error) => {
                tracing::error!(%error, file = %self.record.display(), "cannot remove the record of hangs")
            }
        }
    }

    async fn remove_record(&self) -> io::Result<()> {
        let path = self.record.clone();
        let removed = tokio::task::spawn_blocking(move || match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        });
        removed.await.map_err(io::Error::other)?
    }

    /// Adds a hang to the record, on a blocking thread: the disk may hang too.
    async fn record(&self) -> io::Result<()> {
        let path = self.record.clone();
        let written = tokio::task::spawn_blocking(move || {
            OpenOptions::new().create(true).append(true).open(path)?.write_all(b"\n")
        });
        written.await.map_err(io::Error::other)?
    }
}

/// The number of recorded hangs, one byte each: unlike a number, bytes cannot be half written.
fn recorded(path: &PathBuf) -> io::Result<u32> {
    match fs::metadata(path) {
        Ok(file) => Ok(u32::try_from(file.len()).unwrap_or(u32::MAX)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The state for a broker that has been running, in a pod with this volume.
    async fn served(dir: &Path) -> Pulse {
        let pulse = Pulse::new(Roles::Broker, dir.join("hangs"));
        pulse.serves();
        pulse.enter(Interval::Answered, false).await;
        pulse
    }

    /// Intervals without a response until the JVM counts as hanging.
    async fn silence(pulse: &Pulse) -> u32 {
        for intervals in 1..1_000 {
            pulse.enter(Interval::Silent, false).await;
            if pulse.liveness(false) != Liveness::Live {
                return intervals;
            }
        }
        u32::MAX
    }

    #[tokio::test]
    async fn every_jvm_of_a_pod_is_given_more_time_than_the_last_and_a_new_pod_begins_anew() {
        let volume = tempfile::tempdir().unwrap();
        for intervals in [12, 24, 48] {
            assert_eq!(silence(&served(volume.path()).await).await, intervals);
        }
        // One that was only slow.
        let slow = served(volume.path()).await;
        assert_eq!(silence(&slow).await, 96);
        slow.enter(Interval::Answered, false).await;
        assert_eq!(slow.liveness(false), Liveness::Live);
        assert_eq!(silence(&slow).await, 192);
        assert_eq!(silence(&served(volume.path()).await).await, 384);
        let other = tempfile::tempdir().unwrap();
        assert_eq!(silence(&served(other.path()).await).await, 12);
    }

    #[tokio::test]
    async fn hangs_are_forgotten_after_an_hour_of_answers() {
        let volume = tempfile::tempdir().unwrap();
        for intervals in [12, 24] {
            assert_eq!(silence(&served(volume.path()).await).await, intervals);
        }
        let pulse = served(volume.path()).await;
        for _ in 2..liveness::CURED_AFTER {
            pulse.enter(Interval::Answered, false).await;
        }
        // One interval too short.
        assert_eq!(silence(&pulse).await, 48);
        for _ in 0..liveness::CURED_AFTER {
            pulse.enter(Interval::Answered, false).await;
        }
        assert_eq!(silence(&pulse).await, 12);
        // The next JVM of the pod does not find them either.
        assert_eq!(silence(&served(volume.path()).await).await, 24);
    }

    #[tokio::test]
    async fn hangs_that_cannot_be_forgotten_still_count() {
        let volume = tempfile::tempdir().unwrap();
        // A record that cannot be removed as a file, with an arbitrary size.
        fs::create_dir(volume.path().join("hangs")).unwrap();
        let pulse = served(volume.path()).await;
        let hangs = pulse.hangs_before.load(Ordering::Relaxed);
        for _ in 0..liveness::CURED_AFTER {
            pulse.enter(Interval::Answered, false).await;
        }
        assert_eq!(pulse.hangs_before.load(Ordering::Relaxed), hangs);
        assert_ne!(hangs, 0);
    }

    #[tokio::test]
    async fn storage_that_stalls_is_no_hang_however_long_it_takes() {
        let volume = tempfile::tempdir().unwrap();
        let pulse = served(volume.path()).await;
        for _ in 0..1_000 {
            pulse.enter(Interval::Blocked, false).await;
        }
        assert_eq!(pulse.liveness(false), Liveness::Live);
        assert_eq!(silence(&pulse).await, 12);
    }

    #[tokio::test]
    async fn a_hang_that_cannot_be_recorded_is_not_reported() {
        let volume = tempfile::tempdir().unwrap();
        let pulse = served(&volume.path().join("none")).await;
        assert_eq!(silence(&pulse).await, u32::MAX);
        // It is reported once it can be recorded.
        fs::create_dir(volume.path().join("none")).unwrap();
        assert_eq!(silence(&pulse).await, 1);
        // A record that cannot be read may be one of many hangs.
        let unreadable = Pulse::new(Roles::Broker, volume.path().join("none/hangs/record"));
        assert_eq!(unreadable.hangs_before.load(Ordering::Relaxed), u32::MAX);
    }

    #[tokio::test]
    async fn a_hang_is_notified_once() {
        let volume = tempfile::tempdir().unwrap();
        let pulse = served(volume.path()).await;
        assert_eq!(silence(&pulse).await, 12);
        pulse.hangs.notified().await;
        pulse.enter(Interval::Silent, false).await;
        tokio::select! {
            biased;
            () = pulse.hangs.notified() => panic!("twice"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(fs::read(volume.path().join("hangs")).unwrap().len(), 1);
    }
}
