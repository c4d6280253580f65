//! The simulated machines: pods are created from their sets, get a machine, and run Kafka on the disks of their claims.
//!
//! What decides is the code that ships: [`control::pod_set`] says which pods are created and deleted, and
//! [`control::quorum::format`] how a node formats its disk.

use std::collections::BTreeMap;
use std::rc::Rc;

use api::names::node_of_pod;
use control::node::Roles;
use control::pod_set::{self, Action, Listed, Owner, PodFacts};
use control::quorum::InitialControllers;
use control::quorum::format::{self, QuorumMode, Stamp, Voters, WAIT_EXIT_CODE};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use model::{ClusterId, DirectoryId, NodeId};
use objects::pods::REVISION;
use serde_json::{Value, json};

use super::file::properties;
use super::forward::Trace;
use super::invariants::Invariant;
use super::kafka::Process;
use super::world::World;

/// A machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Machine {
    /// Since when it is down, or was last.
    pub(crate) down_since_ms: u64,
    /// Until when it is down.
    pub(crate) down_until_ms: u64,
}

/// What a kubelet knows of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Runtime {
    /// The name of the pod.
    pub(crate) pod: String,
    /// The node.
    pub(crate) node: NodeId,
    /// Its machine.
    pub(crate) machine: usize,
    /// When a container that ended is started again.
    pub(crate) retry_ms: u64,
    /// The exit code of the last container that ended.
    pub(crate) exit_code: Option<i32>,
    /// Whether the process ended without a shutdown, so that logs are recovered.
    pub(crate) unclean: bool,
    /// Whether the broker has served since it was started.
    pub(crate) has_served: bool,
    /// When the pod began to end.
    pub(crate) ends_ms: Option<u64>,
    /// Whether it is reported ready.
    pub(crate) is_ready: bool,
    /// The status that was reported last.
    reported: Option<(bool, Option<&'static str>, Option<i32>)>,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Disk {
    /// Whose it is, once it is formatted.
    pub(crate) stamp: Option<Stamp>,
    /// Whether a node has run on it.
    pub(crate) used: bool,
}

/// How long a container that ended waits before it is started again.
const BACK_OFF_MS: u64 = 10_000;
/// How long logs are recovered after a process ended without a shutdown.
const RECOVERY_MS: u64 = 8_000;
/// After how long the pods of a machine that is down count as not ready.
const NOTICED_MS: u64 = 40_000;
/// The storage class of every claim.
pub(crate) const CLASS: &str = "fast";

impl World {
    /// Claims are bound, and volumes grow.
    pub(crate) fn provision(&mut self) {
        if self.provisioned == Some(self.kubernetes.version) {
            return;
        }
        let bound = |claim: &PersistentVolumeClaim| {
            claim.status.as_ref().is_some_and(|s| s.phase.is_some())
        };
        let fitting = &self.fitting;
        let grown = |claim: &PersistentVolumeClaim| {
            let fits = || fitting.get(&claim.name_any()) == Some(&requested(claim));
            requested(claim) == capacity(claim) || is_pending(claim) || fits()
        };
        let is_done = |claim: &PersistentVolumeClaim| bound(claim) && grown(claim);
        if self.kubernetes.found.claims.values().all(is_done) {
            self.provisioned = Some(self.kubernetes.version);
            return;
        }
        let version = self.kubernetes.version + 1;
        for claim in self.kubernetes.edit().claims.values_mut().filter(|claim| !is_done(claim)) {
            let is_new = !bound(claim);
            let size = if is_new { requested(claim) } else { capacity(claim) };
            let pending = json!([{ "type": "FileSystemResizePending", "status": "True" }]);
            let conditions = if is_new { json!([]) } else { pending };
            let status = json!({ "phase": "Bound", "capacity": { "storage": size }, "conditions": conditions });
            claim.status = serde_json::from_value(status).ok();
            if let Some(spec) = &mut claim.spec {
                spec.storage_class_name.get_or_insert_with(|| CLASS.to_owned());
            }
            claim.metadata.resource_version = Some(version.to_string());
        }
    }

    /// The controller of pod sets, which runs in the operator that leads.
    pub(crate) fn control_pods(&mut self) {
        if self.lease.holder.is_none() || self.now_ms >= self.lease.until_ms {
            return;
        }
        let version = self.kubernetes.version;
        if self.controlled == Some(version) {
            return;
        }
        let found = self.kubernetes.found.clone();
        for set in found.pod_sets.values() {
            let Some(uid) = set.metadata.uid.as_deref() else { continue };
            let listed: BTreeMap<String, &api::Verbatim> =
                set.spec.pods.iter().filter_map(named).collect();
            let revision = |pod: &api::Verbatim| {
                let annotations = pod.0.get("metadata")?.get("annotations")?;
                annotations.get(REVISION)?.as_str().map(str::to_owned)
            };
            let snapshot = pod_set::Snapshot {
                is_ending: set.metadata.deletion_timestamp.is_some(),
                listed: listed
                    .iter()
                    .map(|(name, pod)| Listed { name: name.clone(), revision: revision(pod) })
                    .collect(),
                pods: found.pods.iter().map(|(name, pod)| pod_facts(name, pod, uid)).collect(),
            };
            for action in pod_set::decide(&snapshot).actions {
                match action {
                    Action::Create(name) => {
                        let Some(definition) = listed.get(&name) else { continue };
                        self.create(definition, (&set.name_any(), uid));
                    }
                    Action::Remove(name) => {
                        self.check_stop(&name);
                        self.coverage.count("pod removed");
                        self.note(|| format!("pod set removes {name}"));
                        self.trace(|| Trace::Removed(name.clone()));
                        self.kubernetes.end_pod(&name);
                    }
                    Action::Replace(name) => self.kubernetes.end_pod(&name),
                    Action::Adopt(_) => {}
                }
            }
        }
        if self.kubernetes.version == version {
            self.controlled = Some(version);
        }
    }

    fn create(&mut self, definition: &api::Verbatim, (set, uid): (&str, &str)) {
        let Ok(mut pod) = serde_json::to_value(definition) else { return };
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet", "name": set, "uid": uid, "controller": true,
        }]);
        let Ok(pod) = serde_json::from_value::<Pod>(pod) else { return };
        self.note(|| format!("pod set creates {}", pod.name_any()));
        let pool = pod.labels().get(api::names::POOL_LABEL).cloned().unwrap_or_default();
        self.trace(|| Trace::Created { pod: pod.name_any(), pool });
        self.kubernetes.create_pod(pod);
    }

    /// Kubelets start and stop what pods ask for.
    pub(crate) fn run_pods(&mut self) {
        let found = self.kubernetes.found.clone();
        for (name, pod) in &found.pods {
            let (Some(uid), Some(node)) = (pod.uid(), node_of_pod(name)) else { continue };
            if pod.metadata.deletion_timestamp.is_some() {
                self.end(name, &uid, node);
            } else if self.stuck.contains(&uid) {
            } else if let Some(machine) = self.machine(&uid, node) {
                self.runtimes
                    .entry(uid.clone())
                    .or_insert_with(|| Runtime::new(name, node, machine));
                self.run(name, pod, &uid);
            }
        }
        let gone: Vec<String> = self
            .runtimes
            .iter()
            .filter(|(_, one)| !found.pods.contains_key(&one.pod))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in gone {
            self.runtimes.remove(&uid);
        }
    }

    /// The machine of a pod; `None` if there is none for it.
    fn machine(&self, uid: &str, node: NodeId) -> Option<usize> {
        if let Some(runtime) = self.runtimes.get(uid) {
            return Some(runtime.machine);
        }
        let first = usize::try_from(node.get()).unwrap_or_default();
        let all = (0..self.machines.len()).map(|index| (first + index) % self.machines.len());
        all.into_iter().find(|index| self.is_up(*index))
    }

    fn is_up(&self, machine: usize) -> bool {
        self.machines.get(machine).is_some_and(|one| self.now_ms >= one.down_until_ms)
    }

    /// A pod is asked to end.
    fn end(&mut self, name: &str, uid: &str, node: NodeId) {
        let now = self.now_ms;
        let up = self.runtimes.get(uid).is_none_or(|one| self.is_up(one.machine));
        if !up {
            self.kill(uid, node);
            return;
        }
        if let Some(runtime) = self.runtimes.get_mut(uid) {
            let since = *runtime.ends_ms.get_or_insert(now);
            runtime.is_ready = false;
            if now.saturating_sub(since) < self.pace.stop_ms {
                self.shut_down(uid, node);
                return;
            }
        }
        self.shut_down(uid, node);
        self.disks.remove(&format!("pod-{uid}"));
        self.runtimes.remove(uid);
        self.kubernetes.remove_pod(name);
        self.trace(|| Trace::Gone(name.to_owned()));
    }

    /// A process shuts down in order: its broker leaves what it leads.
    fn shut_down(&mut self, uid: &str, node: NodeId) {
        if self.kafka.processes.get(&node).is_none_or(|one| one.pod != uid) {
            return;
        }
        let hangs = self.kafka.processes.get(&node).is_some_and(|one| !one.is_well(self.now_ms));
        self.kafka.processes.remove(&node);
        if !hangs {
            self.kafka.fence(node);
        }
        if self.kafka.quorum.leader == Some(node) {
            self.kafka.quorum.resign();
        }
    }

    /// A process ends without a shutdown.
    pub(crate) fn kill(&mut self, uid: &str, node: NodeId) {
        if self.kafka.processes.get(&node).is_some_and(|one| one.pod == uid) {
            self.kafka.processes.remove(&node);
            let retry_ms = self.now_ms + BACK_OFF_MS;
            if let Some(runtime) = self.runtimes.get_mut(uid) {
                runtime.unclean = true;
                runtime.has_served = false;
                runtime.retry_ms = retry_ms;
                runtime.exit_code = Some(137);
            }
        }
    }

    fn run(&mut self, name: &str, pod: &Pod, uid: &str) {
        let Some(runtime) = self.runtimes.get(uid) else { return };
        let (node, machine, retry_ms) = (runtime.node, runtime.machine, runtime.retry_ms);
        if !self.is_up(machine) {
            self.kill(uid, node);
            return;
        }
        if self.kafka.processes.contains_key(&node) || self.now_ms < retry_ms {
            return;
        }
        let found = self.kubernetes.found.clone();
        let Some(files) = found.config_maps.get(name).and_then(|map| map.data.as_ref()) else {
            return;
        };
        let Some(disk) = self.disk_of(name, pod, uid) else { return };
        match self.format(node, files, (&disk, uid)) {
            Ok(directory) => self.start(node, pod, (files, &disk, directory), uid),
            Err(exit_code) => {
                self.coverage.count("node refuses to format");
                let retry_ms = self.now_ms + BACK_OFF_MS;
                if let Some(runtime) = self.runtimes.get_mut(uid) {
                    (runtime.retry_ms, runtime.exit_code) = (retry_ms, Some(exit_code));
                }
            }
        }
    }

    /// The key of the disk with the metadata log of a pod that runs.
    pub(crate) fn disk_key(&self, name: &str, pod: &Pod, uid: &str) -> Option<String> {
        let volumes = pod.spec.as_ref()?.volumes.as_ref()?;
        if !volumes.iter().any(|volume| volume.persistent_volume_claim.is_some()) {
            return Some(format!("pod-{uid}"));
        }
        let suffix = format!("-{name}");
        let mut claims = self.kubernetes.found.claims.iter();
        claims.find(|(claim, _)| claim.ends_with(&suffix)).and_then(|(_, claim)| claim.uid())
    }

    /// The disk with the metadata log of a pod; `None` if its claim does not exist.
    fn disk_of(&mut self, name: &str, pod: &Pod, uid: &str) -> Option<String> {
        let volumes = pod.spec.as_ref()?.volumes.as_ref()?;
        let has_claim = volumes.iter().any(|volume| volume.persistent_volume_claim.is_some());
        if !has_claim {
            let key = format!("pod-{uid}");
            self.disks.entry(key.clone()).or_default();
            return Some(key);
        }
        let suffix = format!("-{name}");
        let found = self.kubernetes.found.clone();
        let (claim_name, claim) =
            found.claims.iter().find(|(claim, _)| claim.ends_with(&suffix))?;
        if is_pending(claim) {
            // The file system grows when the pod starts.
            let claims = &mut self.kubernetes.edit().claims;
            if let Some(claim) = claims.get_mut(claim_name) {
                let size = requested(claim);
                let status =
                    json!({ "phase": "Bound", "capacity": { "storage": size }, "conditions": [] });
                claim.status = serde_json::from_value(status).ok();
            }
            self.coverage.count("volume grown");
        }
        let key = claim.uid()?;
        self.disks.entry(key.clone()).or_default();
        Some(key)
    }

    /// Formats the disk of a node as the node program decides. The exit code if the node must not start.
    fn format(
        &mut self,
        node: NodeId,
        files: &BTreeMap<String, String>,
        (disk, uid): (&str, &str),
    ) -> Result<DirectoryId, i32> {
        let facts = self.format_facts(node, files, (disk, uid)).ok_or(1)?;
        let known = facts.initial.get(node).map(|one| one.directory);
        let act = format::decide(&facts).act;
        let directory = match act {
            format::Act::Leave => {
                let stamp = self.disks.get(disk).and_then(|disk| disk.stamp.as_ref());
                return stamp.and_then(|stamp| stamp.directory).ok_or(1);
            }
            format::Act::Refuse(_) => return Err(i32::from(WAIT_EXIT_CODE)),
            format::Act::Format(how) => match how.voters {
                Voters::InitialControllers(initial) if facts.roles.is_controller() => {
                    let voters = initial.iter().map(|one| (one.node, one.directory)).collect();
                    self.kafka.quorum.begin(voters);
                    (self.kafka.kraft_level, self.kafka.catch_up_ms) = (1, self.pace.catch_up_ms);
                    known.unwrap_or_else(|| self.generate())
                }
                Voters::InitialControllers(_) | Voters::NoInitialControllers | Voters::Static => {
                    self.generate()
                }
            },
        };
        if self.kafka.metadata_level == 0 {
            let version = files.get("metadata.version").and_then(|text| text.trim().parse().ok());
            let level = version.and_then(control::registration::MetadataVersion::level);
            self.kafka.metadata_level = level.unwrap_or(30);
        }
        if !self.directories.insert(directory) {
            self.violate(
                Invariant::IdentityIsUsedOnce,
                format!("an empty disk of node {node} comes back as {directory}"),
            );
        }
        let stamp = Stamp { cluster: facts.cluster, node, directory: Some(directory) };
        self.disks.insert(disk.to_owned(), Disk { stamp: Some(stamp), used: false });
        self.copies.insert(disk.to_owned(), super::quorum::Copy::default());
        self.coverage.count("disk formatted");
        Ok(directory)
    }

    fn format_facts(
        &self,
        node: NodeId,
        files: &BTreeMap<String, String>,
        (disk, uid): (&str, &str),
    ) -> Option<format::Facts> {
        let disk = self.disks.get(disk)?;
        let file = |name: &str| files.get(name).map(|text| text.trim());
        let path = "/var/lib/kafka/data".to_owned();
        let metadata = match &disk.stamp {
            Some(stamp) => format::Disk::Formatted { stamp: stamp.clone(), used: disk.used },
            None => format::Disk::Empty,
        };
        Some(format::Facts {
            mode: match file("quorum.mode")? {
                "dynamic" => QuorumMode::Dynamic,
                "static" => QuorumMode::Static,
                _ => QuorumMode::Unknown,
            },
            roles: roles(&properties(files)),
            cluster: ClusterId::new(file("cluster.id")?).ok()?,
            node,
            initial: file("initial.controllers")
                .map_or_else(|| Some(InitialControllers::default()), |text| text.parse().ok())?,
            seen: file("controller.seen").and_then(|text| text.parse().ok()),
            replaced: file("controller.replaced") == Some(uid),
            metadata: format::LogDir { path, disk: metadata },
            others: Vec::new(),
        })
    }

    fn start(
        &mut self,
        node: NodeId,
        pod: &Pod,
        (files, disk, directory): (&BTreeMap<String, String>, &str, DirectoryId),
        uid: &str,
    ) {
        let now = self.now_ms;
        let file = properties(files);
        let unclean = self.runtimes.get(uid).is_some_and(|one| one.unclean);
        let version = pod.annotations().get(objects::areas::configuration::KAFKA_VERSION);
        let recovers = if unclean { RECOVERY_MS } else { 0 } + self.slow_start_ms;
        let process = Process {
            pod: uid.to_owned(),
            roles: roles(&file),
            version: objects::areas::configuration::major_minor(
                version.map_or("4.3.1", String::as_str),
            ),
            disk: disk.to_owned(),
            directory,
            file: Rc::new(file),
            listens_ms: now + self.pace.start_ms,
            recovers_until_ms: now + self.pace.start_ms + recovers,
            hangs_until_ms: 0,
            cut_off_until_ms: 0,
            stale: None,
        };
        if let Some(disk) = self.disks.get_mut(disk) {
            disk.used = true;
        }
        if let Some(runtime) = self.runtimes.get_mut(uid) {
            (runtime.unclean, runtime.has_served, runtime.exit_code) = (false, false, None);
        }
        if recovers > 0 {
            self.coverage.count("log recovery");
        }
        self.note(|| format!("node {node} starts as {:?}", process.roles));
        let roles = process.roles;
        self.trace(|| Trace::Started(node, roles));
        self.kafka.processes.insert(node, process);
    }

    /// Kubelets report what became of pods.
    pub(crate) fn report_pods(&mut self) {
        let now = self.now_ms;
        let mut changed = Vec::new();
        let machines = &self.machines;
        let is_down =
            |machine: usize| machines.get(machine).is_some_and(|one| now < one.down_until_ms);
        let is_noticed = |machine: usize| {
            machines.get(machine).is_some_and(|one| now >= one.down_since_ms + NOTICED_MS)
        };
        for (uid, runtime) in &mut self.runtimes {
            // A kubelet that is down reports nothing; after a while its pods count as not ready.
            if is_down(runtime.machine) {
                if is_noticed(runtime.machine) && runtime.is_ready {
                    (runtime.is_ready, runtime.reported) = (false, Some((false, None, None)));
                    changed.push((runtime.pod.clone(), (false, None, None)));
                }
                continue;
            }
            let process = self.kafka.processes.get(&runtime.node).filter(|one| one.pod == *uid);
            let fenced =
                self.kafka.metadata.brokers.get(&runtime.node).is_none_or(|one| one.fenced);
            runtime.has_served |= process.is_some() && !fenced;
            let serves = |one: &Process| match one.roles {
                Roles::Controller => true,
                Roles::Broker | Roles::Combined => runtime.has_served,
            };
            let is_ready = process.is_some_and(|one| one.answers(now) && serves(one))
                && runtime.ends_ms.is_none();
            let waiting =
                (process.is_none() && runtime.exit_code.is_some()).then_some("CrashLoopBackOff");
            let status = (is_ready, waiting, runtime.exit_code.filter(|_| process.is_none()));
            runtime.is_ready = is_ready;
            if runtime.reported != Some(status) {
                runtime.reported = Some(status);
                changed.push((runtime.pod.clone(), status));
            }
        }
        for (name, (ready, waiting, exit_code)) in changed {
            if let Some(node) = node_of_pod(&name).filter(|_| ready) {
                self.trace(|| Trace::Ready(node));
            }
            let status = status(ready, waiting, exit_code);
            self.kubernetes
                .change_pod(&name, |pod| pod.status = serde_json::from_value(status).ok());
        }
        // One that has no machine.
        let lost: Vec<String> = self
            .kubernetes
            .found
            .pods
            .iter()
            .filter(|(_, pod)| {
                pod.status.is_none()
                    && pod.uid().is_none_or(|uid| !self.runtimes.contains_key(&uid))
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in lost {
            let condition =
                json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" });
            let status = json!({ "phase": "Pending", "conditions": [condition] });
            self.kubernetes
                .change_pod(&name, |pod| pod.status = serde_json::from_value(status).ok());
        }
    }
}

impl Runtime {
    /// It runs, serves and is reported so already.
    pub(crate) fn adopt(&mut self) {
        (self.has_served, self.is_ready) = (true, true);
        self.reported = Some((true, None, None));
    }

    pub(crate) fn new(pod: &str, node: NodeId, machine: usize) -> Self {
        Self {
            pod: pod.to_owned(),
            node,
            machine,
            retry_ms: 0,
            exit_code: None,
            unclean: false,
            has_served: false,
            ends_ms: None,
            is_ready: false,
            reported: None,
        }
    }
}

fn named(pod: &api::Verbatim) -> Option<(String, &api::Verbatim)> {
    Some((pod.0.get("metadata")?.get("name")?.as_str()?.to_owned(), pod))
}

fn pod_facts(name: &str, pod: &Pod, set: &str) -> PodFacts {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let is_ours = owners.any(|owner| owner.uid == set);
    PodFacts {
        name: name.to_owned(),
        owner: if is_ours { Owner::ThisSet } else { Owner::Other },
        has_labels: true,
        is_ending: pod.metadata.deletion_timestamp.is_some(),
        is_over: false,
        is_ready: objects::pods::is_ready(pod),
        revision: pod.annotations().get(REVISION).cloned(),
    }
}

fn status(ready: bool, waiting: Option<&str>, exit_code: Option<i32>) -> Value {
    let condition = json!({ "type": "Ready", "status": if ready { "True" } else { "False" } });
    let state = match waiting {
        Some(reason) => json!({ "waiting": { "reason": reason } }),
        None => json!({ "running": {} }),
    };
    let last = exit_code.map(|code| json!({ "terminated": { "exitCode": code } }));
    let container = json!({
        "name": "kafka", "state": state, "lastState": last, "ready": ready, "restartCount": 0, "image": "", "imageID": "",
    });
    json!({ "phase": "Running", "conditions": [condition], "containerStatuses": [container] })
}

fn roles(properties: &BTreeMap<String, String>) -> Roles {
    let roles = properties.get("process.roles").map(String::as_str).unwrap_or_default();
    match (roles.contains("broker"), roles.contains("controller")) {
        (true, true) => Roles::Combined,
        (false, true) => Roles::Controller,
        (_, false) => Roles::Broker,
    }
}

pub(crate) fn requested(claim: &PersistentVolumeClaim) -> Option<String> {
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    requests.get("storage").map(|quantity| quantity.0.clone())
}

fn capacity(claim: &PersistentVolumeClaim) -> Option<String> {
    let capacity = claim.status.as_ref()?.capacity.as_ref()?;
    capacity.get("storage").map(|quantity| quantity.0.clone())
}

fn is_pending(claim: &PersistentVolumeClaim) -> bool {
    let conditions = claim.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|one| one.type_ == "FileSystemResizePending")
}
