//! The world as the snapshot of a real cluster shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use control::cluster::record::Record;
use control::cluster::snapshot::{KafkaView, PodView, Snapshot};
use control::node::Roles;
use control::quorum::format::Stamp;
use control::rebalance::auto::Partner;
use control::rolling::config::Source;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use model::{ClusterId, DirectoryId, NodeId};
use objects::found::Found;
use objects::pods::MARKS;
use objects::views;
use serde_json::Value;

use super::super::build::Surroundings;
use super::super::file::properties;
use super::super::kafka::{CORDON, Kafka, Metadata, Partition, Process, Registration};
use super::super::keys::Keys;
use super::super::kubelet::{Disk, Runtime, requested};
use super::super::kubernetes::Kubernetes;
use super::super::quorum::{Copy, Quorum};
use super::super::rebalance::Kr;
use super::super::world::World;
use super::Start;

/// The versions of objects that the simulated server writes begin here, where no real ones are.
const VERSIONS: u64 = 1 << 50;

/// What containers wait for that are about to start.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The roles that nodes run with.
pub(super) fn roles(start: &Start) -> BTreeMap<NodeId, Roles> {
    let pods = views::pods(&start.found);
    pods.values().filter_map(|pod| Some((pod.node?, pod.roles?))).collect()
}

/// The world.
pub(super) fn world(start: Start) -> World {
    let now_ms = start.snapshot.now_ms;
    let mut found = start.found;
    complete_pods(&mut found);
    let names = api::names::Names::new(
        start.kafka["metadata"]["namespace"].as_str().unwrap_or_default(),
        start.kafka["metadata"]["name"].as_str().unwrap_or_default(),
    );
    if let Some(record) = &start.record {
        store(&mut found, &names.record(), record);
    }
    let surroundings = Surroundings {
        images: start.images,
        domain: start.domain,
        classes: start.classes,
        metrics: start.metrics,
        operation_timeout_ms: start.snapshot.desired.operation_timeout_ms,
    };
    let keys = keys(&start.snapshot, &found, start.marks);
    let fitting = fitting(&found);
    let server = Kubernetes::adopted(start.kafka, found, (&names.record(), VERSIONS), now_ms);
    let mut world = World::new(server, now_ms);
    world.surroundings = Rc::new(surroundings);
    world.fitting = fitting;
    world.keys = Some(keys);
    world.trace = Some(Vec::new());
    world.pace = start.pace.expected;
    world.kafka = kafka(&start.snapshot.kafka);
    world.kafka.catch_up_ms = start.pace.expected.catch_up_ms;
    world.kafka.move_bytes_per_s = start.pace.expected.move_bytes_per_s;
    world.kafka.sizes = start.sizes;
    let is_new = start.record.is_none() && is_without_nodes(&world.kubernetes.found);
    if start.snapshot.kafka.quorum.known().is_none() && !is_new {
        // The operator would not be told more either.
        world.silent_until_ms = u64::MAX;
    }
    world.kafka.partitions_unknown &= !is_new;
    // Ids are generated that no disk has.
    world.generated = VERSIONS;
    if let Some(rebalance) = start.snapshot.rebalance.known() {
        let kr = |partner: &Partner| match partner {
            Partner::Present(request) => Some(Kr::of(request, now_ms)),
            Partner::Missing | Partner::Foreign => None,
        };
        world.rebalances.remove = kr(&rebalance.partners.remove);
        world.rebalances.add = kr(&rebalance.partners.add);
    }
    world.adopt_nodes(&start.snapshot, start.record.as_ref());
    world
}

fn is_without_nodes(found: &Found) -> bool {
    found.pods.is_empty() && found.pod_sets.is_empty()
}

/// A snapshot has no specifications of pods; those of their sets are the same.
fn complete_pods(found: &mut Found) {
    let sets = found.pod_sets.values().flat_map(|set| &set.spec.pods);
    let templates: BTreeMap<String, Value> = sets
        .filter_map(|pod| {
            let name = pod.0.get("metadata")?["name"].as_str()?.to_owned();
            Some((name, serde_json::to_value(pod).ok()?))
        })
        .collect();
    for (name, pod) in found.pods.iter_mut().filter(|(_, pod)| pod.spec.is_none()) {
        let template: Option<Pod> =
            templates.get(name).and_then(|one| serde_json::from_value(one.clone()).ok());
        pod.spec = template.and_then(|template| template.spec);
    }
}

/// What claims request that are not about to grow.
fn fitting(found: &Found) -> BTreeMap<String, Option<String>> {
    let status = |claim: &PersistentVolumeClaim| claim.status.clone().unwrap_or_default();
    let is_at_rest = |claim: &PersistentVolumeClaim| {
        let status = status(claim);
        status.phase.as_deref() == Some("Bound")
            && status.conditions.is_none_or(|all| all.is_empty())
    };
    let all = found.claims.iter().filter(|(_, claim)| is_at_rest(claim));
    all.map(|(name, claim)| (name.clone(), requested(claim))).collect()
}

/// Stores the record in the form of the simulation.
fn store(found: &mut Found, name: &str, record: &Record) {
    let map: &mut ConfigMap = found.config_maps.entry(name.to_owned()).or_default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.resource_version.get_or_insert_with(|| "1".to_owned());
    map.binary_data = None;
    map.data = serde_json::to_string(record).ok().map(|text| [("record".to_owned(), text)].into());
}

/// The certificates. Pods have the marks that they are to have, or else those that they have.
fn keys(
    snapshot: &Snapshot,
    found: &Found,
    mut marks: BTreeMap<NodeId, BTreeMap<String, String>>,
) -> Keys {
    for (name, pod) in &found.pods {
        let Some(node) = api::names::node_of_pod(name) else { continue };
        let all = pod.annotations().iter().filter(|(key, _)| MARKS.contains(&key.as_str()));
        let all: BTreeMap<_, _> = all.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !all.is_empty() {
            marks.entry(node).or_insert(all);
        }
    }
    let views = snapshot.authorities.known().zip(snapshot.certificates.known());
    let views =
        views.map(|(authorities, certificates)| (authorities.clone(), certificates.clone()));
    Keys { views, marks, stored: 0 }
}

/// What Kafka knows.
fn kafka(view: &KafkaView) -> Kafka {
    let mut kafka = Kafka {
        metadata_level: view.metadata_level().unwrap_or_default(),
        kraft_level: view.kraft_version().unwrap_or_default(),
        partitions_unknown: view.partitions.known().is_none(),
        ..Kafka::default()
    };
    if let Some(quorum) = view.quorum.known() {
        kafka.fetch_timeout_ms = quorum.fetch_timeout_ms;
        kafka.controllers = match view.controllers.known() {
            Some(controllers) => controllers.clone(),
            None => quorum.voters.iter().map(|voter| voter.id).collect(),
        };
    }
    let mut metadata = Metadata::default();
    for (id, broker) in view.brokers.known().into_iter().flatten() {
        let one = Registration { fenced: broker.fenced, heard_ms: 0, rack: broker.rack.clone() };
        metadata.brokers.insert(*id, one);
    }
    if let Some(partitions) = view.partitions.known() {
        let leaders: BTreeMap<_, _> =
            partitions.leaders.iter().map(|(name, _, leader)| (name, *leader)).collect();
        for one in &partitions.facts {
            let isr: BTreeSet<NodeId> = one.isr.iter().copied().collect();
            let leader = leaders.get(&one.partition).copied().flatten();
            let leader = leader.or_else(|| one.isr.first().copied());
            let partition = Partition {
                replicas: one.replicas.clone(),
                isr,
                leader,
                adding: one.adding.iter().copied().collect(),
                removing: one.removing.iter().copied().collect(),
                created_ms: 0,
                min_isr: one.min_isr.unwrap_or(1),
                behind: BTreeMap::new(),
            };
            metadata.edit().insert(one.partition.clone(), partition);
        }
    }
    kafka.metadata = Rc::new(metadata);
    for (id, settings) in &view.settings {
        let Some(settings) = settings.known() else { continue };
        let of = |wanted: Source| {
            let set = settings.running.iter().filter(move |(_, one)| one.source == wanted);
            set.filter_map(|(key, one)| Some((key.clone(), one.value.clone()?)))
        };
        kafka.of_nodes.entry(*id).or_default().extend(of(Source::DynamicNode));
        kafka.of_cluster.extend(of(Source::DynamicCluster));
        kafka.described.insert(*id, settings.running.clone());
    }
    for (id, closed) in &view.cordons {
        if closed.known() == Some(&true) {
            kafka.of_nodes.entry(*id).or_default().insert(CORDON.to_owned(), "*".to_owned());
        }
    }
    kafka
}

impl World {
    /// Nodes run on their disks, or have been there.
    fn adopt_nodes(&mut self, snapshot: &Snapshot, record: Option<&Record>) {
        let now = self.now_ms;
        let cluster = record.and_then(|record| ClusterId::new(record.cluster_id.as_ref()?).ok());
        let found = self.kubernetes.found.clone();
        let directories = directories(snapshot, record);
        // A snapshot of a spec that is refused has none.
        let views = views::pods(&found);
        for (name, pod) in &found.pods {
            let Some(view) = views.get(name) else { continue };
            let (Some(node), Some(uid)) = (view.node, pod.uid()) else { continue };
            let mut runtime = Runtime::new(name, node, 0);
            let waiting = view.waiting.as_deref().is_some_and(|why| !STARTING.contains(&why));
            let is_stuck = view.unschedulable || waiting || view.exit_code.is_some();
            if is_stuck && !view.ready {
                self.stuck.insert(uid.clone());
            }
            let Some(disk) = self.disk_key(name, pod, &uid) else { continue };
            if let Some(cluster) = cluster.clone().filter(|_| view.ready || !is_stuck) {
                let directory = directories.get(&node).copied().unwrap_or_else(|| self.generate());
                self.directories.insert(directory);
                let stamp = Stamp { cluster, node, directory: Some(directory) };
                self.disks.insert(disk.clone(), Disk { stamp: Some(stamp), used: true });
                let runs = view.ready && !view.deleting;
                if runs {
                    let files = found.config_maps.get(name).and_then(|map| map.data.as_ref());
                    let file = self.running_file(node, files);
                    let process = process((&uid, &disk, directory), view, file, now);
                    self.kafka.processes.insert(node, process);
                    runtime.adopt();
                }
            }
            self.runtimes.insert(uid, runtime);
        }
        self.adopt_quorum(snapshot, &directories);
        let metadata = Rc::make_mut(&mut self.kafka.metadata);
        metadata.brokers.values_mut().for_each(|one| one.heard_ms = now);
        self.adopt_disks(&found, cluster, &directories);
    }

    /// The settings in the file that a node was started with.
    fn running_file(
        &self,
        node: NodeId,
        files: Option<&BTreeMap<String, String>>,
    ) -> BTreeMap<String, String> {
        let mut file = files.map(properties).unwrap_or_default();
        let Some(described) = self.kafka.described.get(&node) else { return file };
        for (key, one) in described {
            let set = one.synonyms.iter().find(|(source, _)| *source == Source::File);
            let own = (one.source == Source::File).then_some(&one.value);
            match set.map(|(_, value)| value).or(own) {
                Some(Some(value)) => drop(file.insert(key.clone(), value.clone())),
                // Its value is hidden.
                Some(None) => {}
                None => drop(file.remove(key)),
            }
        }
        file
    }

    fn adopt_quorum(&mut self, snapshot: &Snapshot, directories: &BTreeMap<NodeId, DirectoryId>) {
        let Some(view) = snapshot.kafka.quorum.known() else { return };
        let end = view.leader_replica().and_then(|leader| leader.log_end);
        let end = end.or(view.high_watermark).unwrap_or(1).max(1);
        let voters = view.voters.iter().filter_map(|voter| {
            let known = voter.directory.or_else(|| directories.get(&voter.id).copied());
            let process = || Some(self.kafka.processes.get(&voter.id)?.directory);
            Some((voter.id, known.or_else(process)?))
        });
        self.kafka.quorum = Quorum::adopted(view.leader, view.epoch, end, voters.collect());
        let ends: BTreeMap<NodeId, u64> = view
            .voters
            .iter()
            .chain(&view.observers)
            .filter_map(|one| Some((one.id, one.log_end?)))
            .collect();
        for (id, process) in &self.kafka.processes {
            let end = ends.get(id).copied().unwrap_or(end);
            self.copies.insert(process.disk.clone(), Copy { end, epoch: view.epoch });
        }
    }

    /// Disks of nodes whose pods do not run.
    fn adopt_disks(
        &mut self,
        found: &Found,
        cluster: Option<ClusterId>,
        directories: &BTreeMap<NodeId, DirectoryId>,
    ) {
        for (name, claim) in &found.claims {
            let (Some(node), Some(uid)) = (api::names::node_of_pod(name), claim.uid()) else {
                continue;
            };
            let known = (cluster.clone(), directories.get(&node).copied());
            if let (Some(cluster), Some(directory)) = known {
                self.directories.insert(directory);
                let stamp = Stamp { cluster, node, directory: Some(directory) };
                let disk = Disk { stamp: Some(stamp), used: true };
                self.disks.entry(uid).or_insert(disk);
            }
        }
    }
}

/// The directory ids of nodes, as far as they are known.
fn directories(snapshot: &Snapshot, record: Option<&Record>) -> BTreeMap<NodeId, DirectoryId> {
    let mut all = record.map(|record| record.voters.clone()).unwrap_or_default();
    let quorum = snapshot.kafka.quorum.known();
    let replicas = quorum.into_iter().flat_map(|view| view.voters.iter().chain(&view.observers));
    all.extend(replicas.filter_map(|one| Some((one.id, one.directory?))));
    let asked = snapshot.kafka.directories.iter();
    all.extend(asked.filter_map(|(id, fact)| Some((*id, *fact.known()?))));
    all
}

fn process(
    (uid, disk, directory): (&str, &str, DirectoryId),
    view: &PodView,
    file: BTreeMap<String, String>,
    now_ms: u64,
) -> Process {
    let version = view.kafka_version.map_or((4, 3), |one| (one.major.into(), one.minor.into()));
    Process {
        pod: uid.to_owned(),
        roles: view.roles.unwrap_or(Roles::Broker),
        version,
        disk: disk.to_owned(),
        directory,
        file: Rc::new(file),
        listens_ms: now_ms,
        recovers_until_ms: now_ms,
        hangs_until_ms: 0,
        cut_off_until_ms: 0,
        stale: None,
    }
}
