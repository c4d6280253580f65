//! A container of a pod: its spec, its runs, and the tasks of the current run.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::jiff::Timestamp;
use rustix::process::Signal;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::Mail;
use super::attempt::Attempt;
use super::decide::{ContainerFacts, Hold, Role};
use crate::kubelet::layout::PodDir;
use crate::kubelet::probe::ask::{self, Entrance};
use crate::kubelet::probe::{Action, Kind, Plan};
use crate::kubelet::shim;

/// Time limit for a shim to kill its container and report it.
const SHIM_PATIENCE: Duration = Duration::from_secs(10);

/// A container of a pod.
pub(crate) struct Slot {
    pub(crate) spec: Container,
    pub(crate) role: Role,
    /// Its path in the pod spec, for Events.
    pub(crate) field: String,
    pub(crate) current: Option<Attempt>,
    pub(crate) previous: Option<Attempt>,
    pub(crate) hold: Option<Hold>,
    /// Failed lookups of its image, and when to look again.
    pub(crate) image_failures: (u32, Timestamp),
    pub(crate) started: bool,
    pub(crate) ready: bool,
    /// Deadline of its termination.
    pub(crate) stop_by: Option<Instant>,
    /// Aborted with the run that they belong to.
    pub(crate) tasks: JoinSet<()>,
}

impl Slot {
    /// All containers of a pod with their recorded runs, init containers first.
    pub(crate) fn all(pod: &Pod, dir: &PodDir) -> Vec<Self> {
        let Some(spec) = &pod.spec else {
            return Vec::new();
        };
        let init = spec.init_containers.iter().flatten().map(|container| {
            let sidecar = container.restart_policy.as_deref() == Some("Always");
            (container, if sidecar { Role::Sidecar } else { Role::Init })
        });
        let main = spec.containers.iter().map(|container| (container, Role::Main));
        init.chain(main).map(|(container, role)| Self::load(container, role, pod, dir)).collect()
    }

    fn load(spec: &Container, role: Role, pod: &Pod, dir: &PodDir) -> Self {
        let mut attempts: Vec<Attempt> = dir
            .attempts(&spec.name)
            .into_iter()
            .filter_map(|number| Attempt::load(dir.attempt(&spec.name, number), number))
            .collect();
        let current = attempts.pop();
        let list = if role == Role::Main { "containers" } else { "initContainers" };
        let mut slot = Self {
            spec: spec.clone(),
            role,
            field: format!("spec.{list}{{{}}}", spec.name),
            current,
            previous: attempts.pop(),
            hold: None,
            image_failures: (0, Timestamp::UNIX_EPOCH),
            started: false,
            ready: false,
            stop_by: None,
            tasks: JoinSet::new(),
        };
        slot.remember(pod);
        slot
    }

    /// Restores probe results of a run that continues from the pod's status.
    fn remember(&mut self, pod: &Pod) {
        let Some(run) = self.current.as_ref().filter(|run| run.runs()).map(Attempt::run) else {
            return;
        };
        let status = pod.status.as_ref();
        let lists = status.map(|s| (&s.container_statuses, &s.init_container_statuses));
        let all = lists.into_iter().flat_map(|(a, b)| a.iter().flatten().chain(b.iter().flatten()));
        if let Some(known) = all.into_iter().find(|c| c.container_id.as_ref() == Some(&run.id)) {
            self.started = known.started == Some(true);
            self.ready = known.ready;
        }
    }

    pub(crate) fn facts(&self) -> ContainerFacts {
        ContainerFacts {
            name: self.spec.name.clone(),
            role: self.role,
            run: self.current.as_ref().map(Attempt::run),
            previous: self.previous.as_ref().map(Attempt::run),
            hold: self.hold.clone(),
            started: self.started,
            ready: self.ready,
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.current.as_ref().is_some_and(Attempt::runs)
    }

    /// Whether it was stopped only because the node stopped, and was not resumed yet.
    pub(crate) fn is_paused(&self) -> bool {
        self.current.as_ref().is_some_and(|run| !run.runs() && run.run().paused)
    }

    /// Reads the current state. Returns whether the run has just ended.
    pub(crate) fn refresh(&mut self) -> bool {
        let Some(current) = self.current.as_mut().filter(|current| current.runs()) else {
            return false;
        };
        current.refresh();
        if current.runs() {
            return false;
        }
        self.tasks.abort_all();
        (self.started, self.ready, self.stop_by) = (false, false, None);
        true
    }

    fn probe(&self, kind: Kind, pod_ip: &str) -> Option<Plan> {
        let probe = match kind {
            Kind::Startup => self.spec.startup_probe.as_ref(),
            Kind::Liveness => self.spec.liveness_probe.as_ref(),
            Kind::Readiness => self.spec.readiness_probe.as_ref(),
        };
        probe.map(|probe| Plan::of(probe, &self.spec, pod_ip))
    }

    /// Starts to supervise a run that was started or adopted.
    pub(crate) fn watch(&mut self, index: usize, around: &Around) {
        let Some(current) = self.current.as_ref().filter(|current| current.runs()) else {
            return;
        };
        let (ended, bell) = (current.clone().ended(), around.bell.clone());
        self.tasks.spawn(async move {
            ended.await;
            let _ = bell.send(Mail::Look);
        });
        if !self.started && self.probe(Kind::Startup, &around.pod_ip).is_some() {
            self.ask(Kind::Startup, index, around);
        } else {
            self.has_started(index, around);
        }
    }

    /// The startup probe has succeeded: the other probes start.
    pub(crate) fn has_started(&mut self, index: usize, around: &Around) {
        self.started = true;
        if self.spec.readiness_probe.is_none() {
            self.ready = true;
        }
        self.ask(Kind::Liveness, index, around);
        self.ask(Kind::Readiness, index, around);
    }

    fn ask(&mut self, kind: Kind, index: usize, around: &Around) {
        let plan = self.probe(kind, &around.pod_ip);
        let (Some(plan), Some(current)) = (plan, &self.current) else {
            return;
        };
        let number = current.run().number;
        let (bell, entrance) = (around.bell.clone(), around.entrance(current));
        self.tasks.spawn(ask::keep_asking(kind, plan, entrance, async move |report| {
            let _ = bell.send(Mail::Probe { index, number, kind, report });
        }));
    }

    /// Terminates the container, and kills it at the end of the grace period, which a second call does not
    /// extend. Returns whether this is the first call.
    pub(crate) fn stop(&mut self, grace: Duration, around: &Around) -> bool {
        let by = Instant::now() + grace;
        let first = self.stop_by.is_none();
        let Some(current) = self.current.clone().filter(Attempt::runs) else {
            return false;
        };
        if self.stop_by.is_some_and(|earlier| earlier <= by) {
            return false;
        }
        self.stop_by = Some(by);
        let hook = self.spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
        let hook = hook.filter(|_| first && self.started);
        let hook = hook.map(|hook| Action::of(hook, &self.spec, &around.pod_ip));
        let entrance = around.entrance(&current);
        self.tasks.spawn(async move {
            if let Some(hook) = hook {
                let _ = ask::ask(&hook, grace, &entrance).await;
            }
            if first {
                current.signal(shim::ASK);
            }
            sleep_until(by).await;
            current.signal(shim::KILL);
            // A shim that hangs cannot forward signals; when it dies, the kernel kills the container.
            sleep(SHIM_PATIENCE).await;
            current.signal(Signal::KILL);
        });
        first
    }
}

/// Context of a container's tasks.
#[derive(Clone)]
pub(crate) struct Around {
    pub(crate) bell: UnboundedSender<Mail>,
    pub(crate) pod_ip: String,
    pub(crate) shim: Vec<std::ffi::OsString>,
}

impl Around {
    fn entrance(&self, attempt: &Attempt) -> Entrance {
        Entrance { shim: self.shim.clone(), dir: attempt.dir.clone() }
    }
}
