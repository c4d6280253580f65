//! What Kafka says of a job and of the cluster around it.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use control::rebalance::execution::{
    Disk, DiskNow, Facts, Job, MoveSeen, PartitionNow, PartitionSeen, Phase, Recorded, Subject,
    Values, is_gone,
};
use futures::future::join_all;
use kafka_admin::{Admin, LogDir, Reassignment, ThrottleValues, Topic};
use model::{NodeId, TopicName, TopicPartition};

use super::{Instructions, Reach};
use crate::metrics::KafkaEffect;
use crate::words::chain;

type Moves = BTreeMap<TopicPartition, Reassignment>;

/// What was read.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// For the decision.
    pub facts: Facts,
    /// What could not be read, for people.
    pub unread: Vec<String>,
}

/// Reads everything that a decision rests on, but for settings that were not touched yet.
pub(super) async fn observe(
    reach: &Reach<'_>,
    job: &Job,
    recorded: &Recorded,
    instructions: &Instructions,
) -> Observed {
    let mut observed = Observed::default();
    observed.facts.claimed = instructions.claimed;
    observed.facts.stop = instructions.stop;
    observed.facts.hold = instructions.hold;
    observed.facts.closed.clone_from(&instructions.closed);
    observed.facts.now_ms = instructions.now_ms;
    if recorded.phase == Phase::Ended {
        return observed;
    }
    observed.read_brokers(reach).await;
    observed.read_partitions(reach, job, recorded.measures(instructions.now_ms)).await;
    observed.read_disks(reach, job, recorded.phase).await;
    let former = recorded.former.keys().cloned().collect();
    observed.read_settings(reach, recorded, &former).await;
    observed
}

impl Observed {
    fn missing(&mut self, what: &str, error: &(dyn Error + 'static)) {
        self.unread.push(format!("{what}: {}", chain(error)));
    }

    fn is_live(&self, broker: NodeId) -> bool {
        self.facts.live.as_ref().is_some_and(|live| live.contains(&broker))
    }

    async fn read_brokers(&mut self, reach: &Reach<'_>) {
        count(reach, "describe cluster");
        match reach.brokers.describe_cluster().await {
            Ok(cluster) => {
                let live = cluster.nodes.iter().filter(|node| !node.fenced).map(|node| node.id);
                self.facts.live = Some(live.collect());
                self.facts.brokers = cluster.nodes.iter().map(|node| node.id).collect();
            }
            Err(error) => self.missing("the brokers are not known", &error),
        }
    }

    /// Reads the partitions of the job, or all if `everything`, which tells whether others fall behind.
    async fn read_partitions(&mut self, reach: &Reach<'_>, job: &Job, everything: bool) {
        count(reach, "list reassignments");
        let moves = match reach.brokers.list_reassignments().await {
            Ok(moves) => moves,
            Err(error) => return self.missing("the moves in flight are not known", &error),
        };
        let tasks: BTreeSet<&TopicPartition> =
            job.tasks.iter().map(|task| &task.partition).collect();
        self.facts.see_moves(job, moves.iter().map(|(which, moving)| (which, seen(moving))));
        let names: BTreeSet<&TopicName> = tasks.iter().map(|task| &task.topic).collect();
        let names: Vec<TopicName> = names.into_iter().cloned().collect();
        let mut topics = Vec::new();
        if everything || !names.is_empty() {
            count(reach, "describe topics");
            let instructions = if everything { &[][..] } else { &names };
            let page = match reach.brokers.describe_topics(instructions).await {
                Ok(page) => page,
                Err(error) => return self.missing("the partitions are not known", &error),
            };
            // A topic that does not exist is gone; any other refusal is a hole in what we see.
            if let Some((_, refusal)) = page.refused.iter().find(|(_, it)| !is_gone(it.code.0)) {
                return self.missing("some topics are not known", refusal);
            }
            topics = page.topics;
        }
        if everything {
            let all = topics.iter().flat_map(|topic| &topic.partitions);
            self.facts.see_partitions(all.map(|partition| PartitionSeen {
                replicas: &partition.replicas,
                isr: &partition.isr,
                is_moving: !(partition.adding.is_empty() && partition.removing.is_empty()),
            }));
        }
        let mut partitions = partitions(&topics, &moves, &tasks);
        self.read_arrived(reach, &mut partitions).await;
        self.facts.partitions = Some(partitions);
    }

    /// What has arrived where partitions are being added. What is not known counts as nothing.
    async fn read_arrived(
        &mut self,
        reach: &Reach<'_>,
        partitions: &mut BTreeMap<TopicPartition, PartitionNow>,
    ) {
        let adding: BTreeSet<NodeId> = partitions
            .values()
            .flat_map(|now| now.adding.iter().copied())
            .filter(|broker| self.is_live(*broker))
            .collect();
        for (broker, dirs) in log_dirs(reach, &adding).await {
            let dirs = match dirs {
                Ok(dirs) => dirs,
                Err(why) => {
                    self.unread.push(why);
                    continue;
                }
            };
            for replica in dirs.iter().flat_map(|dir| &dir.replicas) {
                if let Some(now) = partitions.get_mut(&replica.partition)
                    && now.adding.contains(&broker)
                {
                    now.arrived_bytes += replica.size_bytes;
                }
            }
        }
    }

    /// On which disks the replicas of the job are.
    async fn read_disks(&mut self, reach: &Reach<'_>, job: &Job, phase: Phase) {
        let over = !matches!(phase, Phase::Moving | Phase::Shifting);
        if job.disks.is_empty() || over {
            return;
        }
        let wanted: BTreeSet<&Disk> = job.disks.iter().map(|task| &task.replica).collect();
        let brokers: BTreeSet<NodeId> = wanted.iter().map(|replica| replica.broker).collect();
        let mut disks = BTreeMap::new();
        for (broker, dirs) in log_dirs(reach, &brokers).await {
            match dirs {
                Ok(dirs) => on_disks(broker, &dirs, &wanted, &mut disks),
                Err(why) => {
                    self.unread.push(why);
                    self.facts.silent.insert(broker);
                }
            }
        }
        self.facts.disks = Some(disks);
    }

    /// Reads what is set on these subjects, as far as that was not read before. Whether it found
    /// anything that was not known.
    pub(super) async fn read_settings(
        &mut self,
        reach: &Reach<'_>,
        recorded: &Recorded,
        subjects: &BTreeSet<Subject>,
    ) -> bool {
        let known = self.facts.settings.len();
        let mut topics = BTreeSet::new();
        for subject in subjects {
            if self.facts.settings.contains_key(subject) {
                continue;
            }
            match subject {
                Subject::Topic(topic) => drop(topics.insert(topic.clone())),
                Subject::Broker(broker) if self.is_live(*broker) => {
                    count(reach, "describe configs");
                    match reach.brokers.broker_throttle(*broker).await {
                        Ok(found) => {
                            self.facts.settings.insert(subject.clone(), values(found));
                        }
                        Err(error) => self.missing("a throttle is not known", &error),
                    }
                }
                // It is away, and no other node knows.
                Subject::Broker(_) => {}
            }
        }
        // One broker may hear of a change later than another, and what it still tells of a throttle that was
        // taken back would be taken for a setting of the user.
        self.read_topic_settings(reach.controllers, recorded, &topics).await;
        self.facts.settings.len() > known
    }

    async fn read_topic_settings(
        &mut self,
        admin: &Admin,
        recorded: &Recorded,
        topics: &BTreeSet<TopicName>,
    ) {
        if topics.is_empty() {
            return;
        }
        let found = match admin.topic_throttles(topics).await {
            Ok(found) => found,
            Err(error) => return self.missing("the throttles of topics are not known", &error),
        };
        for (topic, found) in found {
            let subject = Subject::Topic(topic);
            match found {
                Ok(found) => drop(self.facts.settings.insert(subject, values(found))),
                Err(refusal) => {
                    if !self.facts.see_refused(recorded, &subject, refusal.code.0) {
                        self.missing("the throttle of a topic is not known", &refusal);
                    }
                }
            }
        }
    }
}

fn count(reach: &Reach<'_>, call: &str) {
    reach.writer.metrics().kafka_call(call, KafkaEffect::Read);
}

fn values(found: ThrottleValues) -> Values {
    Values { leader: found.leader, follower: found.follower }
}

/// The log directories of several brokers at once.
async fn log_dirs(
    reach: &Reach<'_>,
    brokers: &BTreeSet<NodeId>,
) -> Vec<(NodeId, Result<Vec<LogDir>, String>)> {
    let ask = async |broker: NodeId| {
        count(reach, "describe log dirs");
        let why = |error| format!("the disks of broker {broker} are not known: {}", chain(&error));
        (broker, reach.brokers.describe_log_dirs(broker).await.map_err(why))
    };
    join_all(brokers.iter().map(|broker| ask(*broker))).await
}

fn on_disks(
    broker: NodeId,
    dirs: &[LogDir],
    wanted: &BTreeSet<&Disk>,
    disks: &mut BTreeMap<Disk, DiskNow>,
) {
    let mut futures = BTreeMap::new();
    for dir in dirs {
        for replica in &dir.replicas {
            let at = Disk { partition: replica.partition.clone(), broker };
            if !wanted.contains(&at) {
                continue;
            }
            if replica.future {
                futures.insert(at, dir.path.clone());
            } else {
                disks.insert(at, DiskNow { path: dir.path.clone(), future: None });
            }
        }
    }
    for (at, path) in futures {
        if let Some(now) = disks.get_mut(&at) {
            now.future = Some(path);
        }
    }
}

/// The partitions of the job. A move is as the controller lists it: brokers hear of it a little later.
fn partitions(
    topics: &[Topic],
    moves: &Moves,
    tasks: &BTreeSet<&TopicPartition>,
) -> BTreeMap<TopicPartition, PartitionNow> {
    let mut all = BTreeMap::new();
    for topic in topics {
        for partition in &topic.partitions {
            let name = TopicPartition { topic: topic.name.clone(), partition: partition.id };
            if !tasks.contains(&name) {
                continue;
            }
            let mut now = PartitionNow {
                replicas: partition.replicas.clone(),
                isr: partition.isr.clone(),
                leader: partition.leader,
                ..PartitionNow::default()
            };
            if let Some(moving) = moves.get(&name) {
                now.replicas.clone_from(&moving.replicas);
                now.adding.clone_from(&moving.adding);
                now.removing.clone_from(&moving.removing);
            }
            all.insert(name, now);
        }
    }
    all
}

fn seen(moving: &Reassignment) -> MoveSeen<'_> {
    MoveSeen { replicas: &moving.replicas, adding: &moving.adding }
}
