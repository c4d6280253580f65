//! Topics and their partitions: reading them page by page, making and deleting them.

use std::collections::{BTreeMap, VecDeque};

use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::describe_topic_partitions_response::{
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use kafka_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest,
    DescribeTopicPartitionsRequest, MetadataRequest,
};
use model::{NodeId, PartitionId, TopicId, TopicName};

use super::reassignments::{ListReassignmentsError, Reassignment};
use super::{Admin, plain_error, wire};
use crate::code::{Code, Refusal};
use crate::net::{CallError, Effect, Route};
use crate::proto::{Api, ApiId};

/// How many partitions a page has at the most; brokers give no more than 2,000 by default either.
const PAGE_PARTITIONS: i32 = 2000;

/// A topic in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicListing {
    /// Its name.
    pub name: TopicName,
    /// Its id.
    pub id: TopicId,
    /// Whether it is Kafka's own.
    pub internal: bool,
    /// How many partitions it has.
    pub partitions: usize,
}

/// A topic with its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: TopicName,
    /// Its id.
    pub id: TopicId,
    /// Whether it is Kafka's own.
    pub internal: bool,
    /// Its partitions, by number.
    pub partitions: Vec<Partition>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its number.
    pub id: PartitionId,
    /// The leader; none if it has none at the moment.
    pub leader: Option<NodeId>,
    /// How many leaders there were before.
    pub leader_epoch: i32,
    /// The brokers that should have it, preferred leader first. During a move both the old and the
    /// new ones.
    pub replicas: Vec<NodeId>,
    /// Those of them that are in sync.
    pub isr: Vec<NodeId>,
    /// Those of them that are not there.
    pub offline: Vec<NodeId>,
    /// Those that are out of sync and yet may lead without loss.
    pub eligible_leaders: Vec<NodeId>,
    /// Those that a move in flight adds; empty if moves were not read ([`TopicPages::without_moves`]).
    pub adding: Vec<NodeId>,
    /// Those that a move in flight takes away; empty if moves were not read.
    pub removing: Vec<NodeId>,
}

/// Some topics, all of them whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicPage {
    /// The topics of this page.
    pub topics: Vec<Topic>,
    /// Topics that were asked for by name and that Kafka does not show.
    pub refused: Vec<(TopicName, Refusal)>,
}

/// A topic to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: TopicName,
    /// Its partitions.
    pub layout: Layout,
    /// Its settings.
    pub configs: BTreeMap<String, String>,
}

impl NewTopic {
    /// A topic with so many partitions and replicas and no settings of its own.
    #[must_use]
    pub fn new(name: TopicName, partitions: i32, replicas: i16) -> Self {
        let layout = Layout::Counts { partitions: Some(partitions), replicas: Some(replicas) };
        Self { name, layout, configs: BTreeMap::new() }
    }

    /// With this setting.
    #[must_use]
    pub fn with_config(mut self, name: &str, value: &str) -> Self {
        self.configs.insert(name.to_owned(), value.to_owned());
        self
    }
}

/// How the partitions of a new topic are laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// Kafka chooses the brokers; where a number is missing, also that.
    Counts {
        /// How many partitions.
        partitions: Option<i32>,
        /// How many replicas of each.
        replicas: Option<i16>,
    },
    /// For each partition its brokers, preferred leader first.
    Assigned(Vec<Vec<NodeId>>),
}

plain_error!(
    /// Why the topics could not be listed.
    ListTopicsError,
    "list the topics"
);

/// Why the topics could not be described.
#[derive(Debug, thiserror::Error)]
pub enum DescribeTopicsError {
    /// No answer came.
    #[error("cannot describe the topics")]
    Call(#[from] CallError),
    /// The moves in flight could not be read, without which the replicas mean little.
    #[error("cannot read the moves in flight")]
    Reassignments(#[from] ListReassignmentsError),
}

/// Why topics were not created, or may not have been.
#[derive(Debug, thiserror::Error)]
#[error("cannot create topics")]
pub struct CreateTopicsError(#[from] CallError);

/// Why topics were not deleted, or may not have been.
#[derive(Debug, thiserror::Error)]
#[error("cannot delete topics")]
pub struct DeleteTopicsError(#[from] CallError);

/// Why a topic got no more partitions, or may not have.
#[derive(Debug, thiserror::Error)]
pub enum CreatePartitionsError {
    /// No answer came.
    #[error("cannot add partitions to {topic}")]
    Call {
        /// The topic.
        topic: TopicName,
        /// Why not.
        #[source]
        source: CallError,
    },
    /// Kafka said no.
    #[error("Kafka refused to add partitions to {topic}")]
    Refused {
        /// The topic.
        topic: TopicName,
        /// What Kafka said.
        #[source]
        refusal: Refusal,
    },
}

/// The topics, a page at a time.
#[derive(Debug)]
pub struct TopicPages {
    admin: Admin,
    names: Vec<TopicRequest>,
    page_partitions: i32,
    with_moves: bool,
    cursor: Option<Cursor>,
    /// The topic that the last page ended within: it goes on with the next.
    begun: Option<Topic>,
    finished: bool,
}

impl TopicPages {
    /// Pages of this many partitions at the most. A topic is never split, so one with more makes a
    /// longer page.
    #[must_use]
    pub fn with_page_partitions(mut self, partitions: i32) -> Self {
        self.page_partitions = partitions.clamp(1, PAGE_PARTITIONS);
        self
    }

    /// Does not read the moves in flight, which else are read once for each page.
    #[must_use]
    pub fn without_moves(mut self) -> Self {
        self.with_moves = false;
        self
    }

    /// The next page; none after the last.
    pub async fn next(&mut self) -> Result<Option<TopicPage>, DescribeTopicsError> {
        while !self.finished {
            let page = self.fetch().await?;
            if !page.topics.is_empty() || !page.refused.is_empty() {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    async fn fetch(&mut self) -> Result<TopicPage, DescribeTopicsError> {
        let request = DescribeTopicPartitionsRequest::default()
            .with_topics(self.names.clone())
            .with_response_partition_limit(self.page_partitions)
            .with_cursor(self.cursor.clone());
        let client = &self.admin.client;
        let answer = client.call(Route::Any, Effect::Reads, &request, |_| Code::NONE).await?;
        let moves =
            if self.with_moves { self.admin.list_reassignments().await? } else { Moves::new() };
        let mut page = TopicPage::default();
        let mut topics = VecDeque::from(self.begun.take().map_or(vec![], |topic| vec![topic]));
        for topic in answer.topics {
            match read_topic(topic, &moves)? {
                Ok(topic) => append(&mut topics, topic),
                Err(refused) => page.refused.push(refused),
            }
        }
        self.cursor = answer.next_cursor.map(|cursor| {
            Cursor::default()
                .with_topic_name(cursor.topic_name)
                .with_partition_index(cursor.partition_index)
        });
        match &self.cursor {
            None => self.finished = true,
            Some(cursor) => {
                let goes_on = |topic: &Topic| topic.name.as_str() == cursor.topic_name.0.as_str();
                if topics.back().is_some_and(goes_on) {
                    self.begun = topics.pop_back();
                }
            }
        }
        page.topics = topics.into();
        Ok(page)
    }
}

impl Admin {
    /// The names of all topics.
    pub async fn list_topics(&self) -> Result<Vec<TopicListing>, ListTopicsError> {
        let request = MetadataRequest::default().with_topics(None);
        let code = |answer: &<MetadataRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Any, Effect::Reads, &request, code).await?;
        Refusal::check_code(answer.error_code)?;
        let mut topics = Vec::with_capacity(answer.topics.len());
        for topic in answer.topics {
            Refusal::check_code(topic.error_code)?;
            topics.push(TopicListing {
                name: wire::topic_name(MetadataRequest::ID, &topic.name.unwrap_or_default())?,
                id: wire::topic_id(MetadataRequest::ID, topic.topic_id)?,
                internal: topic.is_internal,
                partitions: topic.partitions.len(),
            });
        }
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    /// All topics with their partitions in one request, as the broker that is asked knows them. Moves in flight and
    /// replicas that are eligible to lead are not read.
    pub async fn all_topics(&self) -> Result<TopicPage, ListTopicsError> {
        let api = MetadataRequest::ID;
        let request = MetadataRequest::default().with_topics(None);
        let code = |answer: &<MetadataRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Any, Effect::Reads, &request, code).await?;
        Refusal::check_code(answer.error_code)?;
        let mut page = TopicPage::default();
        for topic in answer.topics {
            let name = wire::topic_name(api, &topic.name.unwrap_or_default())?;
            if let Err(refusal) = Refusal::check_code(topic.error_code) {
                page.refused.push((name, refusal));
                continue;
            }
            let partition = |one| read_metadata(api, &one);
            let mut partitions: Vec<_> =
                topic.partitions.into_iter().map(partition).collect::<Result<_, CallError>>()?;
            partitions.sort_by_key(|one| one.id);
            let id = wire::topic_id(api, topic.topic_id)?;
            page.topics.push(Topic { name, id, internal: topic.is_internal, partitions });
        }
        page.topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(page)
    }

    /// The topics of these names, or all if there are none, page by page. What a page shows is true of
    /// the moment that it was read.
    #[must_use]
    pub fn topic_pages(&self, names: &[TopicName]) -> TopicPages {
        let request = |name| TopicRequest::default().with_name(wire::topic(name));
        TopicPages {
            admin: self.clone(),
            names: names.iter().map(request).collect(),
            page_partitions: PAGE_PARTITIONS,
            with_moves: true,
            cursor: None,
            begun: None,
            finished: false,
        }
    }

    /// The topics of these names, or all if there are none, in one.
    pub async fn describe_topics(
        &self,
        names: &[TopicName],
    ) -> Result<TopicPage, DescribeTopicsError> {
        let mut all = TopicPage::default();
        let mut pages = self.topic_pages(names);
        while let Some(page) = pages.next().await? {
            all.topics.extend(page.topics);
            all.refused.extend(page.refused);
        }
        Ok(all)
    }

    /// Creates topics, or only says whether it could. A topic that was created has its id in the answer.
    pub async fn create_topics(
        &self,
        topics: &[NewTopic],
        validate_only: bool,
    ) -> Result<BTreeMap<TopicName, Result<Option<TopicId>, Refusal>>, CreateTopicsError> {
        let request = CreateTopicsRequest::default()
            .with_topics(topics.iter().map(creatable).collect())
            .with_timeout_ms(self.client.server_timeout_ms())
            .with_validate_only(validate_only);
        let code = |answer: &<CreateTopicsRequest as Api>::Answer| {
            Code(answer.topics.first().map_or(0, |topic| topic.error_code))
        };
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await?;
        let mut results = BTreeMap::new();
        for topic in answer.topics {
            let name = wire::topic_name(CreateTopicsRequest::ID, &topic.name)?;
            let result = Refusal::check(topic.error_code, topic.error_message);
            // With `validate_only` Kafka answers with the id of a topic that it does not create.
            let id = TopicId::from_bytes(topic.topic_id.into_bytes()).filter(|_| !validate_only);
            results.insert(name, result.map(|()| id));
        }
        Ok(results)
    }

    /// Deletes topics with all that is in them.
    pub async fn delete_topics(
        &self,
        names: &[TopicName],
    ) -> Result<BTreeMap<TopicName, Result<(), Refusal>>, DeleteTopicsError> {
        let topic = |name| DeleteTopicState::default().with_name(Some(wire::topic(name)));
        let mut results = BTreeMap::new();
        for topic in self.delete(names.iter().map(topic).collect()).await? {
            let name = topic.name.unwrap_or_default();
            let name = wire::topic_name(DeleteTopicsRequest::ID, &name)?;
            results.insert(name, Refusal::check(topic.error_code, topic.error_message));
        }
        Ok(results)
    }

    /// Deletes the topics that have these ids. A topic that was created again under the same name has another id
    /// and stays; the answer for the former one is `UNKNOWN_TOPIC_ID`.
    pub async fn delete_topics_by_id(
        &self,
        ids: &[TopicId],
    ) -> Result<BTreeMap<TopicId, Result<(), Refusal>>, DeleteTopicsError> {
        let topic =
            |id: &TopicId| DeleteTopicState::default().with_name(None).with_topic_id(wire::id(*id));
        let mut results = BTreeMap::new();
        for topic in self.delete(ids.iter().map(topic).collect()).await? {
            let id = wire::topic_id(DeleteTopicsRequest::ID, topic.topic_id)?;
            results.insert(id, Refusal::check(topic.error_code, topic.error_message));
        }
        Ok(results)
    }

    async fn delete(
        &self,
        topics: Vec<DeleteTopicState>,
    ) -> Result<Vec<DeletableTopicResult>, CallError> {
        let request = DeleteTopicsRequest::default()
            .with_topics(topics)
            .with_timeout_ms(self.client.server_timeout_ms());
        let code = |answer: &<DeleteTopicsRequest as Api>::Answer| {
            Code(answer.responses.first().map_or(0, |topic| topic.error_code))
        };
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await?;
        Ok(answer.responses)
    }

    /// Brings several topics to the given numbers of partitions in one request; Kafka chooses the brokers.
    pub async fn create_partitions_of(
        &self,
        totals: &BTreeMap<TopicName, i32>,
    ) -> Result<BTreeMap<TopicName, Result<(), Refusal>>, CallError> {
        if totals.is_empty() {
            return Ok(BTreeMap::new());
        }
        let wanted = |(name, total): (&TopicName, &i32)| {
            CreatePartitionsTopic::default()
                .with_name(wire::topic(name))
                .with_count(*total)
                .with_assignments(None)
        };
        let request = CreatePartitionsRequest::default()
            .with_topics(totals.iter().map(wanted).collect())
            .with_timeout_ms(self.client.server_timeout_ms());
        let code = |answer: &<CreatePartitionsRequest as Api>::Answer| {
            Code(answer.results.first().map_or(0, |topic| topic.error_code))
        };
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await?;
        let mut results = BTreeMap::new();
        for topic in answer.results {
            let name = wire::topic_name(CreatePartitionsRequest::ID, &topic.name)?;
            results.insert(name, Refusal::check(topic.error_code, topic.error_message));
        }
        Ok(results)
    }

    /// Brings a topic to `total` partitions; the brokers of each new one may be given.
    pub async fn create_partitions(
        &self,
        topic: &TopicName,
        total: i32,
        assignments: Option<&[Vec<NodeId>]>,
    ) -> Result<(), CreatePartitionsError> {
        let assignment = |brokers: &Vec<NodeId>| {
            CreatePartitionsAssignment::default().with_broker_ids(wire::nodes(brokers))
        };
        let wanted = CreatePartitionsTopic::default()
            .with_name(wire::topic(topic))
            .with_count(total)
            .with_assignments(assignments.map(|all| all.iter().map(assignment).collect()));
        let request = CreatePartitionsRequest::default()
            .with_topics(vec![wanted])
            .with_timeout_ms(self.client.server_timeout_ms());
        let code = |answer: &<CreatePartitionsRequest as Api>::Answer| {
            Code(answer.results.first().map_or(0, |topic| topic.error_code))
        };
        let named = || topic.clone();
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await;
        let answer =
            answer.map_err(|source| CreatePartitionsError::Call { topic: named(), source })?;
        let mut results = answer.results.into_iter();
        results
            .try_for_each(|result| Refusal::check(result.error_code, result.error_message))
            .map_err(|refusal| CreatePartitionsError::Refused { topic: named(), refusal })
    }
}

fn creatable(topic: &NewTopic) -> CreatableTopic {
    let config = |(name, value): (&String, &String)| {
        CreatableTopicConfig::default()
            .with_name(wire::text(name))
            .with_value(Some(wire::text(value)))
    };
    let wanted = CreatableTopic::default()
        .with_name(wire::topic(&topic.name))
        .with_configs(topic.configs.iter().map(config).collect());
    match &topic.layout {
        Layout::Counts { partitions, replicas } => wanted
            .with_num_partitions(partitions.unwrap_or(-1))
            .with_replication_factor(replicas.unwrap_or(-1)),
        Layout::Assigned(partitions) => {
            let assignment = |(index, brokers): (i32, &Vec<NodeId>)| {
                CreatableReplicaAssignment::default()
                    .with_partition_index(index)
                    .with_broker_ids(wire::nodes(brokers))
            };
            wanted
                .with_num_partitions(-1)
                .with_replication_factor(-1)
                .with_assignments((0..).zip(partitions).map(assignment).collect())
        }
    }
}

type Moves = BTreeMap<model::TopicPartition, Reassignment>;

fn read_metadata(api: ApiId, one: &MetadataResponsePartition) -> Result<Partition, CallError> {
    Ok(Partition {
        id: PartitionId(one.partition_index),
        leader: NodeId::new(one.leader_id.0),
        leader_epoch: one.leader_epoch,
        replicas: wire::node_ids(api, &one.replica_nodes)?,
        isr: wire::node_ids(api, &one.isr_nodes)?,
        offline: wire::node_ids(api, &one.offline_replicas)?,
        eligible_leaders: Vec::new(),
        adding: Vec::new(),
        removing: Vec::new(),
    })
}

/// A topic, or the refusal to show it.
fn read_topic(
    topic: DescribeTopicPartitionsResponseTopic,
    moves: &Moves,
) -> Result<Result<Topic, (TopicName, Refusal)>, CallError> {
    let api = DescribeTopicPartitionsRequest::ID;
    let name = wire::topic_name(api, &topic.name.unwrap_or_default())?;
    if let Err(refusal) = Refusal::check_code(topic.error_code) {
        return Ok(Err((name, refusal)));
    }
    let mut partitions = topic
        .partitions
        .into_iter()
        .map(|partition| read_partition(&name, partition, moves))
        .collect::<Result<Vec<_>, _>>()?;
    partitions.sort_by_key(|partition| partition.id);
    let id = wire::topic_id(api, topic.topic_id)?;
    Ok(Ok(Topic { name, id, internal: topic.is_internal, partitions }))
}

fn read_partition(
    topic: &TopicName,
    partition: DescribeTopicPartitionsResponsePartition,
    moves: &Moves,
) -> Result<Partition, CallError> {
    let api = DescribeTopicPartitionsRequest::ID;
    let ids = |nodes: &[kafka_protocol::messages::BrokerId]| wire::node_ids(api, nodes);
    let key = model::TopicPartition::new(topic.clone(), partition.partition_index);
    let in_flight = moves.get(&key);
    Ok(Partition {
        id: key.partition,
        leader: NodeId::new(partition.leader_id.0),
        leader_epoch: partition.leader_epoch,
        replicas: ids(&partition.replica_nodes)?,
        isr: ids(&partition.isr_nodes)?,
        offline: ids(&partition.offline_replicas)?,
        eligible_leaders: ids(&partition.eligible_leader_replicas.unwrap_or_default())?,
        adding: in_flight.map(|m| m.adding.clone()).unwrap_or_default(),
        removing: in_flight.map(|m| m.removing.clone()).unwrap_or_default(),
    })
}

/// A topic that began on the page before goes on where it ended.
fn append(topics: &mut VecDeque<Topic>, topic: Topic) {
    match topics.back_mut() {
        Some(last) if last.name == topic.name => last.partitions.extend(topic.partitions),
        _ => topics.push_back(topic),
    }
}
