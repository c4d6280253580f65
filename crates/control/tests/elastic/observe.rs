//! What a pass observes of the world.

use std::collections::BTreeMap;

use control::cluster::decide::needs;
use control::cluster::fact::{Fact, Why};
use control::cluster::record::Record;
use control::cluster::snapshot::{
    BrokerView, ClaimView, FeaturesView, Needs, NodeView, Partitions, PodView, RebalanceView,
    Snapshot,
};
use control::quorum::{QuorumView, Replica};
use control::rebalance::auto::{Partner, PerMode, Setting};
use control::registration::KafkaVersion;
use control::rolling::availability::PartitionFacts;
use control::rolling::facts::{Contact, Recovery};
use control::scaling::guard::Phase;
use model::{DirectoryId, NodeId, TopicName, TopicPartition};

use super::{Life, pod, revision, scope};

impl Life {
    /// The quorum; `None` if no voter runs.
    fn quorum(&self) -> Option<QuorumView> {
        let now = self.world.now_ms;
        let replica = |node: NodeId, disk: DirectoryId| {
            let runs = self.world.pods.contains_key(&node);
            let at = if runs { now } else { now - 600_000 };
            Replica {
                id: node,
                directory: Some(disk),
                log_end: Some(100),
                last_fetch_ms: Some(at),
                last_caught_up_ms: Some(at),
            }
        };
        let voters: Vec<Replica> =
            self.world.voters.iter().map(|(node, disk)| replica(*node, *disk)).collect();
        // Every node follows: brokers too.
        let follows = |node: &&NodeId| !self.world.voters.contains_key(node);
        let observers = self.world.pods.keys().filter(follows);
        let leads = |voter: &&Replica| self.world.pods.contains_key(&voter.id);
        Some(QuorumView {
            leader: voters.iter().find(leads)?.id,
            epoch: 1,
            high_watermark: Some(100),
            observers: observers.map(|node| replica(*node, self.world.disks[node])).collect(),
            voters,
            fetch_timeout_ms: 2000,
        })
    }

    fn pods(&self) -> BTreeMap<String, PodView> {
        let pods = self.world.pods.iter().map(|(node, roles)| {
            let view = PodView {
                node: Some(*node),
                uid: self.uid(*node),
                ready: true,
                roles: Some(*roles),
                kafka_version: Some(KafkaVersion::new(4, 3, 1)),
                pool: Some("p".to_owned()),
                dynamic_quorum: true,
                deleting: false,
                deletion_ms: None,
                created_ms: 0,
                waiting: None,
                unschedulable: false,
                revision: revision(*roles),
                restart: false,
                disk_replaced: false,
                exit_code: None,
            };
            (pod(*node), view)
        });
        pods.collect()
    }

    fn claims(&self) -> BTreeMap<String, ClaimView> {
        let claim = |node: &NodeId| {
            let (uid, name) = (node.to_string(), format!("data-{}", pod(*node)));
            let view = ClaimView {
                uid,
                ours: true,
                delete_with_node: true,
                deleting: false,
                resize_pending: false,
            };
            (name, view)
        };
        self.world.disks.keys().map(claim).collect()
    }

    /// What a pass observes.
    fn snapshot(&self, silent: bool) -> Snapshot {
        let world = &self.world;
        let now = world.now_ms;
        let node = |node: &control::cluster::record::Node| {
            let desired = world.desired.get(&node.id).copied();
            let current = self.record.roles_now(node, desired);
            let view = NodeView {
                pool: node.pool.clone(),
                pod: pod(node.id),
                host: pod(node.id),
                recorded: Some(node.roles),
                desired,
                current,
                revision: current.map(revision),
                settings: None,
            };
            (node.id, view)
        };
        let mut snapshot = Snapshot {
            now_ms: now,
            objects_ms: now,
            nodes: self.record.nodes().iter().map(node).collect(),
            ..Snapshot::default()
        };
        snapshot.pods = self.pods();
        snapshot.claims = self.claims();
        snapshot.desired.kafka_version = Some(KafkaVersion::new(4, 3, 1));
        snapshot.desired.pools = ["p".to_owned()].into();
        snapshot.desired.configured_dynamic = true;
        let drained = self.record.leaving.iter().filter(|(_, one)| one.phase == Phase::Draining);
        let held = |node: &NodeId| world.partitions.get(node).is_some_and(|count| *count > 0);
        let rebalance = RebalanceView {
            settings: PerMode { remove: Setting::Off, add: Setting::Off },
            partners: PerMode { remove: Partner::Missing, add: Partner::Missing },
            moving: drained.map(|(node, _)| *node).filter(held).collect(),
            unclaimed: false,
        };
        snapshot.rebalance = Fact::read(rebalance, now);
        let kafka = &mut snapshot.kafka;
        if silent {
            kafka.quorum = Fact::Unknown(Why::NoAnswer);
            kafka.brokers = Fact::Unknown(Why::NoAnswer);
            kafka.features = Fact::Unknown(Why::NoAnswer);
            return snapshot;
        }
        let quorum = self.quorum();
        kafka.quorum = quorum.map_or(Fact::Unknown(Why::NoAnswer), |view| Fact::read(view, now));
        let broker =
            |(node, fenced): (&NodeId, &bool)| (*node, BrokerView { fenced: *fenced, rack: None });
        kafka.brokers = Fact::read(world.registered.iter().map(broker).collect(), now);
        // Below 4.3 no broker can be closed.
        let level = if self.cordons { 30 } else { 29 };
        let features = FeaturesView { kraft_version: Some(1), metadata_version: Some(level) };
        kafka.features = Fact::read(features, now);
        snapshot.desired.metadata_version =
            Some(if self.cordons { "4.3-IV0" } else { "4.2-IV1" }.to_owned());
        snapshot
    }

    /// Reads what an area needs besides.
    fn read(&self, snapshot: &mut Snapshot, needs: &Needs, silent: bool) {
        fn fact<T>(value: T, now: u64, silent: bool) -> Fact<T> {
            if silent { Fact::Unknown(Why::NoAnswer) } else { Fact::read(value, now) }
        }
        let (world, now) = (&self.world, self.world.now_ms);
        let kafka = &mut snapshot.kafka;
        if needs.partitions {
            kafka.partitions = fact(self.partitions(), now, silent);
        }
        if needs.controllers {
            kafka.controllers = fact(world.voters.keys().copied().collect(), now, silent);
        }
        for node in &needs.directories {
            let disk = world.disks.get(node).filter(|_| world.pods.contains_key(node));
            let disk = disk.map_or(Fact::Unknown(Why::NoAnswer), |disk| Fact::read(*disk, now));
            kafka.directories.insert(*node, disk);
        }
        for node in &needs.servers {
            // Every node was started with a list of all controllers.
            let all = world.voters.keys().map(|voter| format!("{}:9090", pod(*voter)));
            let all = Some(all.collect::<Vec<_>>().join(","));
            kafka.servers.insert(*node, fact(all, now, silent));
        }
        for node in &needs.contacts {
            kafka.contacts.insert(*node, fact(Contact::Answers, now, silent));
        }
        for node in &needs.recoveries {
            kafka.recoveries.insert(*node, fact(Recovery::No, now, silent));
        }
        for node in &needs.cordons {
            kafka.cordons.insert(*node, fact(world.cordoned.contains(node), now, silent));
        }
    }

    fn partitions(&self) -> Partitions {
        let mut pods = self.world.pods.iter();
        let broker = pods.find(|(_, roles)| roles.is_broker()).map(|(node, _)| *node);
        let brokers = broker.into_iter().collect();
        let mut all = Partitions { brokers, ..Partitions::default() };
        for (node, count) in &self.world.partitions {
            for partition in 0..*count {
                let topic = TopicName::new(format!("t{node}")).unwrap();
                let number = i32::try_from(partition).unwrap();
                all.facts.push(PartitionFacts {
                    partition: TopicPartition::new(topic, number),
                    replicas: vec![*node],
                    isr: vec![*node],
                    adding: vec![],
                    removing: vec![],
                    min_isr: Some(1),
                });
            }
        }
        all
    }

    pub(super) fn observe(&self, record: &Record, silent: bool) -> Snapshot {
        let mut snapshot = self.snapshot(silent);
        for _ in 0..4 {
            let needs = needs(&snapshot, record, &scope());
            if needs.is_empty() {
                return snapshot;
            }
            self.read(&mut snapshot, &needs, silent);
        }
        panic!("seed {}: three rounds are not enough", self.seed);
    }
}
