//! What a pass observes of the world: the facts that the operator reads, as the nodes that it asks know them.

use std::collections::BTreeMap;

use control::cluster::area::Area;
use control::cluster::begin::{Asking, Nodes, asking};
use control::cluster::fact::{Fact, Why};
use control::cluster::snapshot::{
    BrokerView, FeaturesView, KafkaView, Needs, Partitions, SettingsView, Snapshot,
};
use control::cluster::witness::{Candidate, PARTITION_WITNESSES};
use control::quorum::{QuorumView, Replica, bootstrap};
use control::rolling::availability::PartitionFacts;
use control::rolling::config::{self, Described, Source};
use control::rolling::facts::{Contact, Recovery};
use model::NodeId;
use objects::areas::configuration::major_minor;
use objects::areas::workload;
use objects::pods::is_ready;
use objects::views;

use super::kafka::{Metadata, Process};
use super::operator::Work;
use super::sabotage::Sabotage;
use super::world::World;

/// Who observes: with which clock, and what is wrong with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observer {
    /// The time by its clock.
    pub(crate) now_ms: u64,
    /// What it does wrong.
    pub(crate) sabotage: Sabotage,
}

fn answer<T>(value: Option<T>, at_ms: u64) -> Fact<T> {
    value.map_or(Fact::Unknown(Why::NoAnswer), |value| Fact::read(value, at_ms))
}

impl World {
    /// What is known without asking for more.
    #[must_use]
    pub(crate) fn snapshot(&self, work: &Work, observer: Observer) -> Snapshot {
        let (blueprint, found) = (&work.blueprint, &work.found);
        let configured = (&work.record, &*work.configuration);
        let mut snapshot = Snapshot {
            now_ms: observer.now_ms,
            objects_ms: work.read_ms,
            nodes: views::nodes(blueprint, found, configured, &work.objects.pod_sets),
            refused: blueprint.refused.clone(),
            pods: views::pods(found),
            claims: views::claims(&blueprint.names, found),
            objects: views::objects(&blueprint.names, found),
            desired: views::desired(
                blueprint,
                found,
                configured,
                work.surroundings.operation_timeout_ms,
            ),
            kafka: self.ask(work, observer),
            built: work.objects.views.clone(),
            ..Snapshot::default()
        };
        // What was built may be older than the pods.
        if let Some(view) = snapshot.built.get_mut(&Area::Workload) {
            view.flow = workload::awaited(blueprint, found);
        }
        snapshot
    }

    /// Asks Kafka how it is, if there is anybody to ask.
    fn ask(&self, work: &Work, observer: Observer) -> KafkaView {
        let pods = || work.blueprint.nodes.iter().map(|node| (node, work.blueprint.pod(node)));
        let any_ready = pods().any(|(_, pod)| work.found.pods.get(&pod).is_some_and(is_ready));
        let controllers = pods().filter(|(node, _)| node.roles.is_controller());
        let any_runs = controllers.into_iter().any(|(_, pod)| work.found.pods.contains_key(&pod));
        let quorum = self.quorum_view(work, observer);
        let was_ready = work.record.was_ready;
        match asking(Nodes { any_ready, controller_runs: any_runs, was_ready }) {
            Asking::Yes => {}
            Asking::Hoping if quorum.is_some() => {}
            Asking::Hoping | Asking::No => return KafkaView::default(),
        }
        let at_ms = observer.now_ms;
        let features = quorum.as_ref().map(|_| FeaturesView {
            kraft_version: Some(self.kafka.kraft_level),
            metadata_version: Some(self.kafka.metadata_level),
        });
        let brokers = quorum.as_ref().and_then(|view| self.registered(work, view));
        let is_broker = |(node, _): (&objects::Node, String)| node.roles.is_broker();
        let has_brokers = pods().any(is_broker);
        let view = |metadata: &Metadata| {
            let of = |(id, one): (&NodeId, &super::kafka::Registration)| {
                (*id, BrokerView { fenced: one.fenced, rack: one.rack.clone() })
            };
            metadata.brokers.iter().map(of).collect()
        };
        KafkaView {
            endpoints: BTreeMap::new(),
            earlier: work.mark.clone(),
            brokers_from: brokers.as_ref().map(|(id, _)| *id),
            brokers: match has_brokers {
                true => answer(brokers.map(|(_, metadata)| view(metadata)), at_ms),
                false => Fact::Unknown(Why::Unreachable),
            },
            features: answer(features, at_ms),
            quorum: answer(quorum, at_ms),
            ..KafkaView::default()
        }
    }

    /// The registered brokers, as one that keeps up knows them.
    fn registered(&self, work: &Work, view: &QuorumView) -> Option<(NodeId, &Metadata)> {
        let candidates = work.blueprint.brokers().filter_map(|node| {
            let pod = work.found.pods.get(&work.blueprint.pod(node))?;
            Some(Candidate { id: node.id, ready: is_ready(pod), fenced: false })
        });
        view.witnesses(candidates).into_iter().find_map(|id| Some((id, self.metadata_of(id)?)))
    }

    /// What a broker answers; `None` if it does not.
    fn metadata_of(&self, id: NodeId) -> Option<&Metadata> {
        let process = self.process(id).filter(|one| one.roles.is_broker())?;
        Some(process.stale.as_deref().unwrap_or(&self.kafka.metadata))
    }

    /// A process that answers.
    fn process(&self, id: NodeId) -> Option<&Process> {
        let is_silent = self.now_ms < self.silent_until_ms;
        self.kafka.processes.get(&id).filter(|one| one.answers(self.now_ms) && !is_silent)
    }

    /// The quorum, as its leader describes it.
    fn quorum_view(&self, work: &Work, observer: Observer) -> Option<QuorumView> {
        let quorum = &self.kafka.quorum;
        let leader = quorum.leader.filter(|id| self.process(*id).is_some())?;
        let now = self.now_ms;
        let replica = |id: NodeId, directory: model::DirectoryId| {
            let seen = quorum.seen.get(&(id, directory));
            let is_current = id == leader || observer.sabotage == Sabotage::VotersCaughtUp;
            let caught_up =
                if is_current { Some(now) } else { seen.and_then(|seen| seen.caught_up_ms) };
            Replica {
                id,
                directory: (self.kafka.kraft_level > 0).then_some(directory),
                log_end: if id == leader { Some(quorum.end) } else { seen.map(|seen| seen.end) },
                last_fetch_ms: if id == leader {
                    Some(now)
                } else {
                    seen.map(|seen| seen.fetched_ms)
                },
                last_caught_up_ms: caught_up,
            }
        };
        let mut voters = quorum.voters();
        if observer.sabotage == Sabotage::VotersReleased {
            voters.retain(|id, _| *id == leader || work.blueprint.desired.contains_key(id));
        }
        let observers = quorum.seen.keys().filter(|(id, directory)| {
            voters.get(id) != Some(directory) && quorum.voters().get(id) != Some(directory)
        });
        let observers = observers.map(|(id, directory)| replica(*id, *directory)).collect();
        Some(QuorumView {
            leader,
            epoch: quorum.epoch,
            high_watermark: quorum.high_watermark,
            voters: voters.iter().map(|(id, directory)| replica(*id, *directory)).collect(),
            observers,
            fetch_timeout_ms: self.kafka.fetch_timeout_ms.max(2_000),
        })
    }

    /// Reads what a decision needs besides.
    pub(crate) fn read(
        &self,
        work: &Work,
        snapshot: &mut Snapshot,
        needs: &Needs,
        observer: Observer,
    ) {
        let at_ms = observer.now_ms;
        if needs.authorities {
            let views = self.keys.as_ref().and_then(|keys| keys.views.as_ref());
            snapshot.authorities = answer(views.map(|(authorities, _)| authorities.clone()), at_ms);
        }
        if needs.certificates {
            let keys = self.keys.as_ref();
            let view = keys.and_then(|keys| keys.certificates(&work.blueprint));
            snapshot.certificates = answer(view, at_ms);
        }
        if needs.rebalance {
            let view = self.rebalance_view(&work.kafka);
            snapshot.rebalance = Fact::read(view, at_ms);
        }
        for id in &needs.contacts {
            let contact =
                if self.process(*id).is_some() { Contact::Answers } else { Contact::Fails };
            snapshot.kafka.contacts.insert(*id, Fact::read(contact, at_ms));
        }
        for id in &needs.recoveries {
            snapshot.kafka.recoveries.insert(*id, answer(self.recovery(*id), at_ms));
        }
        for id in &needs.settings {
            let settings = self.settings(work, *id);
            snapshot.kafka.settings.insert(*id, answer(settings, at_ms));
        }
        if needs.partitions {
            self.read_partitions(work, snapshot, observer);
        }
        if needs.controllers {
            let controllers = snapshot.kafka.quorum.known().map(|_| self.kafka.controllers.clone());
            snapshot.kafka.controllers = answer(controllers, at_ms);
        }
        for id in &needs.directories {
            let directory = self.kafka.processes.get(id).map(|one| one.directory);
            snapshot.kafka.directories.insert(*id, answer(directory, at_ms));
        }
        for id in &needs.servers {
            let servers = self.process(*id).map(|one| one.file.get(bootstrap::SERVERS).cloned());
            snapshot.kafka.servers.insert(*id, answer(servers, at_ms));
        }
        for id in &needs.cordons {
            let closed = self.process(*id).map(|_| !self.kafka.is_open(*id));
            snapshot.kafka.cordons.insert(*id, answer(closed, at_ms));
        }
    }

    /// What a node that is not ready says of itself.
    fn recovery(&self, id: NodeId) -> Option<Recovery> {
        let process = self.kafka.processes.get(&id)?;
        let now = self.now_ms;
        Some(if now < process.hangs_until_ms {
            Recovery::Hung
        } else if !process.roles.is_broker() {
            Recovery::No
        } else if now < process.recovers_until_ms {
            Recovery::Yes { logs: 1, segments: (process.recovers_until_ms - now) / 1_000 }
        } else if self.runtimes.get(&process.pod).is_some_and(|one| one.has_served) {
            Recovery::No
        } else {
            Recovery::Starting
        })
    }

    /// The settings of a running node.
    fn settings(&self, work: &Work, id: NodeId) -> Option<SettingsView> {
        let process = self.process(id)?;
        let properties = work.configuration.properties.get(&id)?;
        let version = major_minor(&work.configuration.kafka_version);
        let node = work.blueprint.nodes.iter().find(|node| node.id == id)?;
        let of = config::Node { roles: node.roles, version };
        let desired = config::shown(of, properties.iter().cloned().collect());
        // What Kafka said of settings, of this node or of another one.
        let known = self.kafka.described.get(&id).or_else(|| self.kafka.described.values().next());
        let of_key = |key: &String| known.and_then(|known| known.get(key));
        let default = |key: &String| {
            let synonyms = of_key(key).map(|one| one.synonyms.as_slice()).unwrap_or_default();
            let found = synonyms.iter().find(|(source, _)| *source == Source::Default);
            found.map_or_else(|| Some("default".to_owned()), |(_, value)| value.clone())
        };
        let described = |key: &String, value: Option<String>, source: Source| Described {
            value,
            source,
            read_only: of_key(key).is_some_and(|one| one.read_only),
            sensitive: of_key(key).is_some_and(|one| one.sensitive),
            synonyms: match (source, process.file.get(key)) {
                (Source::Default, _) => vec![(Source::Default, default(key))],
                (_, Some(file)) => vec![(Source::File, Some(file.clone()))],
                (_, None) => Vec::new(),
            },
        };
        let is_shown = |key: &String| known.is_none() || of_key(key).is_some();
        let file = process.file.iter().filter(|(key, _)| is_shown(key)).map(|(key, value)| {
            let is_hidden = of_key(key).is_some_and(|one| one.sensitive);
            let value = (!is_hidden).then(|| value.clone());
            (key.clone(), described(key, value, Source::File))
        });
        let mut running: BTreeMap<String, Described> = file.collect();
        // Kafka describes every setting that it knows, also one that is nowhere set.
        for key in desired.keys().filter(|key| !process.file.contains_key(*key)) {
            if is_shown(key) {
                running.insert(key.clone(), described(key, default(key), Source::Default));
            }
        }
        for (key, value) in &self.kafka.of_cluster {
            let value = Some(value.clone());
            running.insert(key.clone(), described(key, value, Source::DynamicCluster));
        }
        for (key, value) in self.kafka.of_nodes.get(&id).into_iter().flatten() {
            let value = Some(value.clone());
            running.insert(key.clone(), described(key, value, Source::DynamicNode));
        }
        Some(SettingsView { desired, running })
    }

    /// All partitions, from brokers that keep up, and the quorum after that.
    fn read_partitions(&self, work: &Work, snapshot: &mut Snapshot, observer: Observer) {
        let witnesses = snapshot.witnesses();
        if witnesses.is_empty() {
            snapshot.kafka.partitions = Fact::Unknown(Why::Unreachable);
            return;
        }
        if self.kafka.partitions_unknown {
            snapshot.kafka.partitions = Fact::Unknown(Why::NoAnswer);
            return;
        }
        let answers = witnesses.into_iter().filter_map(|id| Some((id, self.metadata_of(id)?)));
        // What happens without faults the second broker says too.
        let count = if self.trace.is_some() { 1 } else { PARTITION_WITNESSES };
        let answers = answers.take(count);
        let answers = answers.map(|(id, metadata)| partitions(id, metadata, observer.sabotage));
        let answers: Vec<Partitions> = answers.collect();
        let quorum = answer(self.quorum_view(work, observer), observer.now_ms);
        snapshot.kafka.accept_answers(answers, observer.now_ms, quorum);
        if observer.sabotage == Sabotage::NothingAssigned {
            let leaving = |id: &NodeId| {
                !work.blueprint.desired.get(id).is_some_and(|roles| roles.is_broker())
            };
            if let Fact::Read { value, .. } = &mut snapshot.kafka.partitions {
                value.facts.iter_mut().for_each(|one| one.replicas.retain(|id| !leaving(id)));
            }
        }
    }
}

fn partitions(id: NodeId, metadata: &Metadata, sabotage: Sabotage) -> Partitions {
    let mut all = Partitions { brokers: [id].into(), ..Partitions::default() };
    for (name, one) in metadata.partitions.iter() {
        let isr = if sabotage == Sabotage::ReplicasInSync {
            one.replicas.clone()
        } else {
            one.isr.iter().copied().collect()
        };
        all.leaders.push((name.clone(), one.replicas.first().copied(), one.leader));
        all.facts.push(PartitionFacts {
            partition: name.clone(),
            replicas: one.replicas.clone(),
            isr,
            adding: one.adding.iter().copied().collect(),
            removing: one.removing.iter().copied().collect(),
            min_isr: Some(one.min_isr),
        });
    }
    all
}
