//! The actor of a pod: observes, decides, acts and reports its status.
//!
//! There is one per pod, so that no pod waits for another. All of its state is on disk or in the API: after a
//! crash the next actor continues.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::sleep;

use super::attempt::Attempt;
use super::decide::{PodFacts, RestartPolicy, decide};
use super::report::{self, Written};
use super::slot::{Around, Slot};
use super::start::later;
use super::status::{PodSandbox, is_terminal, status};
use super::{Mail, hosts, orphan};
use crate::kubelet::events::Level;
use crate::kubelet::files;
use crate::kubelet::layout::{PodDir, PodRecord};
use crate::kubelet::probe::Kind;
use crate::kubelet::probe::ask::Report;
use crate::kubelet::shared::Shared;
use crate::kubelet::volume::{Volumes, remove_memory};

/// Default grace period.
const GRACE_SECONDS: u64 = 30;

/// Minimum time between SIGTERM and SIGKILL.
const GRACE_MIN: Duration = Duration::from_secs(1);

/// The API server truncates timestamps to whole seconds.
const CUT_OFF_MAX: Duration = Duration::from_secs(1);

/// Interval of passes without events: a safety net, not a clock.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// A pod on this node.
pub(crate) struct Actor {
    pub(super) shared: Arc<Shared>,
    pub(super) pod: Arc<Pod>,
    pub(super) dir: PodDir,
    pub(super) record: PodRecord,
    pub(super) slots: Vec<Slot>,
    pub(super) volumes: Volumes,
    mail: UnboundedReceiver<Mail>,
    bell: UnboundedSender<Mail>,
    mounted: bool,
    /// Whether the object was deleted.
    gone: bool,
    /// Whether the node stops.
    pausing: bool,
    finished_before: bool,
    written: Option<Value>,
    /// Deadline of the next pass.
    wake_at: Option<Timestamp>,
}

impl Actor {
    /// Adopts or accepts a pod.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        pod: Arc<Pod>,
        bell: UnboundedSender<Mail>,
        mail: UnboundedReceiver<Mail>,
    ) -> io::Result<Self> {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let dir = shared.layout.pod(&uid);
        let known: Option<PodRecord> = files::read_json(&dir.record())?;
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let finished_before = known.is_none() && is_terminal(phase);
        let record = match known {
            Some(record) => record,
            None => record_new(shared, &pod, &dir)?,
        };
        let slots = Slot::all(&pod, &dir);
        // If containers run, the volumes were created before.
        let mounted = slots.iter().any(Slot::runs);
        Ok(Self {
            shared: Arc::clone(shared),
            volumes: Volumes::new(shared, dir.clone(), &pod),
            pod,
            dir,
            record,
            slots,
            mail,
            bell,
            mounted,
            gone: false,
            pausing: false,
            finished_before,
            written: None,
            wake_at: None,
        })
    }

    /// Runs until the pod has ended.
    pub(crate) async fn run(mut self) {
        let around = self.around();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            slot.watch(index, &around);
        }
        let mut hosts = self.shared.hosts.clone();
        while self.pass().await.is_continue() {
            let now = Timestamp::now();
            let until = self.wake_at.map(|at| Duration::try_from(at.duration_since(now)));
            let wait = until.map_or(LOOK_EVERY, Result::unwrap_or_default).min(LOOK_EVERY);
            tokio::select! {
                mail = self.mail.recv() => match mail {
                    Some(mail) => self.take(mail),
                    None => return,
                },
                _ = hosts.changed() => {}
                () = sleep(wait) => {}
            }
            // One pass for all messages in the queue.
            while let Ok(mail) = self.mail.try_recv() {
                self.take(mail);
            }
        }
    }

    fn take(&mut self, mail: Mail) {
        match mail {
            Mail::Pod(pod) => self.pod = pod,
            Mail::Gone => self.gone = true,
            Mail::Look => {}
            Mail::Pause => self.pausing = true,
            Mail::Probe { index, number, kind, report } => {
                let slot = self.slots.get(index).filter(|slot| slot.runs());
                let current = slot.and_then(|slot| slot.current.as_ref());
                if current.is_some_and(|current| current.run().number == number) {
                    self.heard(index, kind, report);
                }
            }
        }
    }

    /// Handles a probe report of a running attempt.
    fn heard(&mut self, index: usize, kind: Kind, report: Report) {
        let name = self.slots[index].spec.name.clone();
        match (kind, report) {
            (_, Report::Failed(why)) => {
                let message = format!("{} probe failed: {why}", kind.name());
                self.say(index, Level::Warning, "Unhealthy", message);
            }
            (Kind::Readiness, Report::Verdict(ready)) => self.slots[index].ready = ready,
            (Kind::Startup, Report::Verdict(true)) => {
                let around = self.around();
                self.slots[index].has_started(index, &around);
            }
            (Kind::Liveness, Report::Verdict(true)) => {}
            (Kind::Startup | Kind::Liveness, Report::Verdict(false)) => {
                let kind_name = kind.name().to_lowercase();
                let message =
                    format!("Container {name} failed {kind_name} probe, will be restarted");
                self.say(index, Level::Normal, "Killing", message);
                let spec = &self.slots[index].spec;
                let probe = match kind {
                    Kind::Startup => spec.startup_probe.as_ref(),
                    Kind::Liveness | Kind::Readiness => spec.liveness_probe.as_ref(),
                };
                let own = probe.and_then(|probe| probe.termination_grace_period_seconds);
                let own = own.and_then(|seconds| u64::try_from(seconds).ok());
                let grace = own.map_or(self.grace_of_pod(), Duration::from_secs);
                let around = self.around();
                self.slots[index].stop(grace, &around);
            }
        }
    }

    /// One pass. Breaks when nothing is left to do for this pod.
    async fn pass(&mut self) -> ControlFlow<()> {
        self.wake_at = None;
        for slot in &mut self.slots {
            slot.refresh();
        }
        if self.is_ending() || self.finished_before {
            // Volumes do not change during termination.
        } else {
            self.sync_volumes().await;
        }
        let timing = self.shared.options.timing;
        let decision = decide(&self.facts(), &timing.restart);
        if let Some(at) = decision.wake_at {
            self.wake_by(at);
        }
        for index in decision.stop {
            self.stop(index);
        }
        let has_started = !decision.start.is_empty();
        for index in decision.start {
            self.start(index).await;
        }
        if has_started {
            // A start, successful or not, is observed before anything is waited for.
            let again = decide(&self.facts(), &timing.restart);
            if let Some(at) = again.wake_at {
                self.wake_by(at);
            }
        }
        self.warn_of_loops();
        self.report().await;
        if !decision.at_rest {
            return ControlFlow::Continue(());
        }
        self.rest().await
    }

    /// Finishes a pod of which nothing runs and nothing will run.
    async fn rest(&mut self) -> ControlFlow<()> {
        if self.gone {
            self.clean_up();
            return ControlFlow::Break(());
        }
        if self.pod.metadata.deletion_timestamp.is_some() {
            self.clean_up();
            return match report::remove(&self.shared, &self.pod).await {
                Written::Done | Written::Gone => ControlFlow::Break(()),
                Written::Failed => {
                    self.wake_by(later(self.shared.options.timing.retry));
                    ControlFlow::Continue(())
                }
            };
        }
        if self.pausing {
            remove_memory(&self.record.uid);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn clean_up(&self) {
        orphan::remove(&self.shared, &self.record);
    }

    fn is_ending(&self) -> bool {
        self.gone || self.pausing || self.pod.metadata.deletion_timestamp.is_some()
    }

    fn facts(&self) -> PodFacts {
        let spec = self.pod.spec.as_ref();
        let PodRecord { namespace, name, uid, .. } = &self.record;
        PodFacts {
            full_name: format!("{name}_{namespace}({uid})"),
            policy: RestartPolicy::parse(spec.and_then(|spec| spec.restart_policy.as_deref())),
            containers: self.slots.iter().map(Slot::facts).collect(),
            mounted: self.mounted,
            terminating: self.is_ending(),
            finished_before: self.finished_before,
            now: Timestamp::now(),
        }
    }

    async fn sync_volumes(&mut self) {
        let text =
            hosts::table(&self.pod, &self.record.ip.to_string(), &self.shared.hosts.borrow());
        if let Err(error) = hosts::write(&self.dir.hosts(), &text) {
            tracing::warn!(%error, pod = self.record.name, "cannot write the hosts file of a pod");
        }
        let context = self.context();
        let progress = self.volumes.sync(&self.pod, &context, &self.bell).await;
        if let Some(at) = progress.renew_at {
            self.wake_by(at);
        }
        if progress.troubles.is_empty() {
            self.mounted = true;
            return;
        }
        // Running containers keep their volumes; a failed update does not block them.
        for trouble in progress.troubles.iter().filter(|trouble| !trouble.brief) {
            let (volume, why) = (&trouble.volume, &trouble.message);
            let message = format!("MountVolume.SetUp failed for volume \"{volume}\" : {why}");
            self.shared.events.pod(&self.pod, Level::Warning, "FailedMount", message);
        }
        self.wake_by(later(self.shared.options.timing.retry));
    }

    fn stop(&mut self, index: usize) {
        let around = self.around();
        let grace = self.grace();
        let (pausing, gone) = (self.pausing, self.gone);
        let slot = &mut self.slots[index];
        let deleted = gone || self.pod.metadata.deletion_timestamp.is_some();
        if let Some(current) = slot.current.as_mut().filter(|_| pausing && !deleted) {
            current.pause();
        }
        let name = slot.spec.name.clone();
        if slot.stop(grace, &around) && !pausing {
            self.say(index, Level::Normal, "Killing", format!("Stopping container {name}"));
        }
    }

    /// Remaining grace period of the containers.
    fn grace(&self) -> Duration {
        let whole = self.grace_of_pod();
        // The deletion timestamp is the deadline, not the time of the request; it is truncated to whole
        // seconds, which must not shorten the containers' time.
        let until = self.pod.metadata.deletion_timestamp.as_ref();
        let left = until.map(|until| until.0.duration_since(Timestamp::now()));
        let left = left.map(|left| Duration::try_from(left).unwrap_or_default() + CUT_OFF_MAX);
        // A deletion request can override the grace period of the spec.
        let asked = self.pod.metadata.deletion_grace_period_seconds;
        let asked = asked.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        left.unwrap_or(whole).min(asked.unwrap_or(whole)).max(GRACE_MIN)
    }

    fn grace_of_pod(&self) -> Duration {
        Duration::from_secs(grace_seconds(&self.pod))
    }

    pub(super) fn around(&self) -> Around {
        Around {
            bell: self.bell.clone(),
            pod_ip: self.record.ip.to_string(),
            shim: self.shared.options.shim.clone(),
        }
    }

    /// Publishes Events for containers in back-off.
    fn warn_of_loops(&self) {
        let facts = self.facts();
        let backoff = &self.shared.options.timing.restart;
        for (index, container) in facts.containers.iter().enumerate() {
            let waits = super::decide::fate(container, &facts, backoff);
            let loops = matches!(waits, super::decide::Fate::WaitsUntil(_));
            if loops && container.hold.is_none() && container.run.is_some() && !facts.terminating {
                let (container, pod) = (&container.name, &facts.full_name);
                let message =
                    format!("Back-off restarting failed container {container} in pod {pod}");
                self.say(index, Level::Warning, "BackOff", message);
            }
        }
    }

    /// Writes the status if it has changed.
    async fn report(&mut self) {
        let nothing_known = self.slots.iter().all(|slot| slot.current.is_none());
        // An attempt that will be resumed is not reported as terminated; the API server would not accept that
        // it runs again.
        let continues = !self.is_ending() && self.slots.iter().any(Slot::is_paused);
        let silent = self.gone || self.pausing || self.finished_before || continues;
        if silent || (self.is_ending() && nothing_known) {
            return;
        }
        let sandbox = PodSandbox {
            pod_ip: Some(self.record.ip.to_string()),
            host_ip: self.shared.options.node_ip.to_string(),
            started_at: self.record.started_at,
        };
        let backoff = &self.shared.options.timing.restart;
        let status = status(&self.pod, &self.facts(), &sandbox, backoff);
        let Ok(status) = serde_json::to_value(status) else {
            return;
        };
        let theirs = serde_json::to_value(&self.pod.status).unwrap_or_default();
        let said = match &self.written {
            Some(written) => same_but_times(written, &status),
            None => report::is_part_of(&status, &theirs),
        };
        if said {
            return;
        }
        match report::patch(&self.shared, &self.pod, &status).await {
            Written::Done => self.written = Some(status),
            Written::Gone => {}
            Written::Failed => self.wake_by(later(self.shared.options.timing.retry)),
        }
    }

    fn wake_by(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // Tasks end with their sets; attempts continue by themselves.
        let running = self.slots.iter().filter_map(|slot| slot.current.as_ref());
        let running = running.filter(|attempt| Attempt::runs(attempt)).count();
        tracing::debug!(pod = self.record.name, running, "the actor of a pod ends");
    }
}

/// Ignores the transition times of conditions, which the next pass does not know until the object has come
/// back from the API server.
fn same_but_times(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| {
                    key == "lastTransitionTime"
                        || b.get(key).is_some_and(|other| same_but_times(value, other))
                })
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_but_times(a, b))
        }
        _ => one == other,
    }
}

fn grace_seconds(pod: &Pod) -> u64 {
    let seconds = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(GRACE_SECONDS)
}

/// Assigns an address to a pod and records it.
fn record_new(shared: &Shared, pod: &Pod, dir: &PodDir) -> io::Result<PodRecord> {
    let on_host = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
    let ip = if on_host { Some(shared.options.node_ip) } else { shared.take_address() };
    let full = || io::Error::other("all addresses of the node's range are in use");
    let record = PodRecord {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        ip: ip.ok_or_else(full)?,
        started_at: Timestamp::now(),
        grace_seconds: grace_seconds(pod),
    };
    fs::create_dir_all(dir.path())?;
    files::write_json(&dir.record(), &record)?;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_of_changes_are_no_change() {
        let with = |status: &str, time: u8| json!({ "conditions": [{ "status": status, "lastTransitionTime": time }] });
        assert!(same_but_times(&with("True", 1), &with("True", 2)));
        assert!(!same_but_times(&with("True", 1), &with("False", 1)));
        assert!(!same_but_times(&json!({ "a": 1 }), &json!({ "a": 1, "b": 2 })));
        assert!(!same_but_times(&json!([1]), &json!([1, 2])));
    }
}
