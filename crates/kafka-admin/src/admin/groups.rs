//! Consumer groups: listing, describing and deleting them.
//!
//! A broker answers for the groups that it coordinates. Groups are listed broker by broker; everything else finds the
//! coordinators first and asks each of them for all of its groups at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_protocol::messages::consumer_group_describe_response::{
    DescribedGroup as ConsumerGroup, Member,
};
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest,
    FindCoordinatorRequest, GroupId, ListGroupsRequest,
};
use model::{NodeId, TopicName, TopicPartition};

use super::{Admin, plain_error, wire};
use crate::code::{Code, Refusal};
use crate::net::{CallError, Effect, Route};
use crate::proto::{Api, assigned};

/// Keys of this type are groups; transactions have coordinators as well.
const KEY_TYPE_GROUP: i8 = 0;

/// Groups in one request, so that an answer with all their members or offsets stays below the longest that is read.
const GROUPS_MAX: usize = 500;

/// How often coordinators are looked up again when some have moved meanwhile, and the pause before.
const LOOK_UPS_MAX: usize = 3;
const LOOK_UP_PAUSE: Duration = Duration::from_millis(200);

/// The protocol type of classic groups of consumers. Kafka Connect and Schema Registry have groups of other types.
const CONSUMERS: &str = "consumer";

/// A type of group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// Members assign partitions among themselves.
    Classic,
    /// The coordinator assigns partitions (KIP-848).
    Consumer,
    /// Members share partitions (KIP-932).
    Share,
    /// Kafka Streams with assignments by the coordinator (KIP-1071).
    Streams,
    /// A type that this client does not know.
    Other,
}

impl GroupKind {
    fn of(text: &str) -> Self {
        match text {
            "classic" | "Classic" => Self::Classic,
            "consumer" | "Consumer" => Self::Consumer,
            "share" | "Share" => Self::Share,
            "streams" | "Streams" => Self::Streams,
            _ => Self::Other,
        }
    }

    /// The name, in lower case as Kafka's tools write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Share => "share",
            Self::Streams => "streams",
            Self::Other => "other",
        }
    }
}

/// A group in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupListing {
    /// Its id.
    pub id: String,
    /// Its type.
    pub kind: GroupKind,
    /// What its members speak among themselves: `consumer`, `connect`, or whatever a client chose. Empty if no member was
    /// ever a member.
    pub protocol_type: String,
    /// Its state, as Kafka names it.
    pub state: String,
    /// The broker that coordinates it.
    pub coordinator: NodeId,
}

/// A group with its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its id.
    pub id: String,
    /// Its type: classic or consumer.
    pub kind: GroupKind,
    /// Its state, as Kafka names it.
    pub state: String,
    /// The assignor in use; empty without members.
    pub assignor: String,
    /// The broker that coordinates it.
    pub coordinator: NodeId,
    /// Its members.
    pub members: Vec<GroupMember>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// Its id.
    pub id: String,
    /// Its name across restarts, if it has one.
    pub instance: Option<String>,
    /// The client id.
    pub client: String,
    /// The address that it connects from.
    pub host: String,
    /// The partitions that it reads; `None` if the group is not one of consumers, or its assignment cannot be read.
    pub assigned: Option<BTreeSet<TopicPartition>>,
}

plain_error!(
    /// Why groups were not listed.
    ListGroupsError,
    "list the groups"
);

/// Why groups could not be described.
#[derive(Debug, thiserror::Error)]
#[error("cannot describe groups")]
pub struct DescribeGroupsError(#[from] CallError);

/// Why groups were not deleted, or may not have been.
#[derive(Debug, thiserror::Error)]
#[error("cannot delete groups")]
pub struct DeleteGroupsError(#[from] CallError);

impl DeleteGroupsError {
    /// Whether it may have happened all the same.
    #[must_use]
    pub fn outcome(&self) -> crate::net::Outcome {
        self.0.outcome()
    }
}

/// What the coordinators said of each group.
pub(super) type OfGroups<T> = BTreeMap<String, Result<T, Refusal>>;

impl Admin {
    /// The groups that a broker coordinates.
    pub async fn list_groups(&self, broker: NodeId) -> Result<Vec<GroupListing>, ListGroupsError> {
        let request = ListGroupsRequest::default();
        let code = |answer: &<ListGroupsRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Node(broker), Effect::Reads, &request, code).await?;
        Refusal::check_code(answer.error_code)?;
        let listing =
            |group: kafka_protocol::messages::list_groups_response::ListedGroup| GroupListing {
                id: group.group_id.0.to_string(),
                kind: GroupKind::of(&group.group_type),
                protocol_type: group.protocol_type.to_string(),
                state: group.group_state.to_string(),
                coordinator: broker,
            };
        Ok(answer.groups.into_iter().map(listing).collect())
    }

    /// Groups with their members. Groups of shares and streams are `GROUP_ID_NOT_FOUND`.
    pub async fn describe_groups(
        &self,
        groups: &BTreeSet<String>,
    ) -> Result<OfGroups<Group>, DescribeGroupsError> {
        let ask = |node, ids| self.describe_at(node, ids);
        Ok(self.at_coordinators(groups, Effect::Reads, ask).await?)
    }

    /// Deletes groups with their offsets. A group with members is refused with `NON_EMPTY_GROUP`.
    pub async fn delete_groups(
        &self,
        groups: &BTreeSet<String>,
    ) -> Result<OfGroups<()>, DeleteGroupsError> {
        let ask = |node, ids: Vec<String>| async move {
            let request = DeleteGroupsRequest::default().with_groups_names(wire_ids(&ids));
            let route = Route::Node(node);
            let answer = self.client.call(route, Effect::Changes, &request, |_| Code::NONE).await?;
            let result =
                |group: kafka_protocol::messages::delete_groups_response::DeletableGroupResult| {
                    (group.group_id.0.to_string(), Refusal::check_code(group.error_code))
                };
            Ok(answer.results.into_iter().map(result).collect())
        };
        Ok(self.at_coordinators(groups, Effect::Changes, ask).await?)
    }

    /// Consumer groups first; those that are none may be classic ones.
    async fn describe_at(
        &self,
        node: NodeId,
        ids: Vec<String>,
    ) -> Result<OfGroups<Group>, CallError> {
        let api = ConsumerGroupDescribeRequest::ID;
        let request = ConsumerGroupDescribeRequest::default().with_group_ids(wire_ids(&ids));
        let code = |answer: &<ConsumerGroupDescribeRequest as Api>::Answer| {
            loading(answer.groups.iter().map(|group| group.error_code))
        };
        let answer = self.client.call(Route::Node(node), Effect::Reads, &request, code).await?;
        let mut found = OfGroups::new();
        for group in answer.groups {
            let id = group.group_id.0.to_string();
            let checked = Refusal::check(group.error_code, group.error_message.clone());
            let read = match checked {
                Ok(()) => Ok(consumer_group(api, node, group)?),
                Err(refusal) => Err(refusal),
            };
            found.insert(id, read);
        }
        let is_other = |result: &Result<Group, Refusal>| matches!(result, Err(refusal) if refusal.code == Code::GROUP_ID_NOT_FOUND);
        let others: Vec<_> =
            found.iter().filter(|(_, one)| is_other(one)).map(|(id, _)| id.clone()).collect();
        if !others.is_empty() {
            found.extend(self.describe_classic_at(node, &others).await?);
        }
        Ok(found)
    }

    async fn describe_classic_at(
        &self,
        node: NodeId,
        ids: &[String],
    ) -> Result<OfGroups<Group>, CallError> {
        let request = DescribeGroupsRequest::default().with_groups(wire_ids(ids));
        let code = |answer: &<DescribeGroupsRequest as Api>::Answer| {
            loading(answer.groups.iter().map(|group| group.error_code))
        };
        let answer = self.client.call(Route::Node(node), Effect::Reads, &request, code).await?;
        let group = |group: DescribedGroup| {
            let id = group.group_id.0.to_string();
            let checked = Refusal::check(group.error_code, group.error_message.clone());
            (id, checked.map(|()| classic_group(node, group)))
        };
        Ok(answer.groups.into_iter().map(group).collect())
    }

    /// Asks the coordinator of each group, for many groups at once. Groups whose coordinator moves meanwhile are asked for
    /// again, if nothing was done certainly.
    pub(super) async fn at_coordinators<T, F>(
        &self,
        groups: &BTreeSet<String>,
        effect: Effect,
        ask: impl Fn(NodeId, Vec<String>) -> F,
    ) -> Result<OfGroups<T>, CallError>
    where
        F: Future<Output = Result<OfGroups<T>, CallError>>,
    {
        let mut found = OfGroups::new();
        let mut open = groups.clone();
        for look_up in 0..LOOK_UPS_MAX {
            if open.is_empty() {
                break;
            }
            if look_up > 0 {
                tokio::time::sleep(LOOK_UP_PAUSE).await;
            }
            let mut by_node: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
            for (id, coordinator) in self.coordinators(&open).await? {
                match coordinator {
                    Ok(node) => by_node.entry(node).or_default().push(id),
                    Err(refusal) => drop(found.insert(id, Err(refusal))),
                }
            }
            open.clear();
            for (node, ids) in by_node {
                for some in ids.chunks(GROUPS_MAX) {
                    let mut answers = ask(node, some.to_vec()).await?;
                    for id in some {
                        let answer = answers.remove(id).unwrap_or_else(|| Err(no_answer()));
                        if answer.as_ref().is_err_and(|refusal| has_moved(refusal, effect)) {
                            open.insert(id.clone());
                        }
                        found.insert(id.clone(), answer);
                    }
                }
            }
        }
        Ok(found)
    }

    /// The broker that coordinates each group.
    async fn coordinators(&self, groups: &BTreeSet<String>) -> Result<OfGroups<NodeId>, CallError> {
        let api = FindCoordinatorRequest::ID;
        let request = FindCoordinatorRequest::default()
            .with_key_type(KEY_TYPE_GROUP)
            .with_coordinator_keys(groups.iter().map(|id| wire::text(id)).collect());
        // The first group of a cluster creates the topic of all groups, which takes a moment.
        let code = |answer: &<FindCoordinatorRequest as Api>::Answer| {
            let codes = answer.coordinators.iter().map(|one| Code(one.error_code));
            codes.into_iter().find(|code| code.passing()).unwrap_or(Code::NONE)
        };
        let answer = self.client.call(Route::Any, Effect::Reads, &request, code).await?;
        let mut found = OfGroups::new();
        for one in answer.coordinators {
            let checked = Refusal::check(one.error_code, one.error_message);
            let node = match checked {
                Ok(()) => Ok(wire::node_id(api, one.node_id)?),
                Err(refusal) => Err(refusal),
            };
            found.insert(one.key.to_string(), node);
        }
        Ok(found)
    }
}

/// Whether another broker may answer, or this one soon. A change that a coordinator could not write may still be written:
/// it says `COORDINATOR_NOT_AVAILABLE` then.
fn has_moved(refusal: &Refusal, effect: Effect) -> bool {
    match refusal.code {
        Code::NOT_COORDINATOR | Code::COORDINATOR_LOAD_IN_PROGRESS => true,
        Code::COORDINATOR_NOT_AVAILABLE => effect == Effect::Reads,
        _ => false,
    }
}

fn no_answer() -> Refusal {
    let message = Some("no answer for this group".to_owned());
    Refusal { code: Code::COORDINATOR_NOT_AVAILABLE, message }
}

/// The code of an answer in which a group is still being loaded: the same broker answers soon.
pub(super) fn loading(mut codes: impl Iterator<Item = i16>) -> Code {
    let loads = codes.any(|code| Code(code) == Code::COORDINATOR_LOAD_IN_PROGRESS);
    if loads { Code::COORDINATOR_LOAD_IN_PROGRESS } else { Code::NONE }
}

pub(super) fn wire_id(id: &str) -> GroupId {
    GroupId(wire::text(id))
}

fn wire_ids(ids: &[String]) -> Vec<GroupId> {
    ids.iter().map(|id| wire_id(id)).collect()
}

fn consumer_group(
    api: crate::proto::ApiId,
    coordinator: NodeId,
    group: ConsumerGroup,
) -> Result<Group, CallError> {
    let member = |member: Member| {
        let mut assigned = BTreeSet::new();
        for topic in member.assignment.topic_partitions {
            for number in topic.partitions {
                assigned.insert(wire::partition(api, &topic.topic_name, number)?);
            }
        }
        Ok(GroupMember {
            id: member.member_id.to_string(),
            instance: member.instance_id.map(|id| id.to_string()),
            client: member.client_id.to_string(),
            host: member.client_host.to_string(),
            assigned: Some(assigned),
        })
    };
    Ok(Group {
        id: group.group_id.0.to_string(),
        kind: GroupKind::Consumer,
        state: group.group_state.to_string(),
        assignor: group.assignor_name.to_string(),
        coordinator,
        members: group.members.into_iter().map(member).collect::<Result<_, CallError>>()?,
    })
}

fn classic_group(coordinator: NodeId, group: DescribedGroup) -> Group {
    let is_consumers = group.protocol_type.as_str() == CONSUMERS;
    let member = |member: DescribedGroupMember| GroupMember {
        id: member.member_id.to_string(),
        instance: member.group_instance_id.map(|id| id.to_string()),
        client: member.client_id.to_string(),
        host: member.client_host.to_string(),
        assigned: is_consumers.then(|| classic_assignment(member.member_assignment)).flatten(),
    };
    Group {
        id: group.group_id.0.to_string(),
        kind: GroupKind::Classic,
        state: group.group_state.to_string(),
        assignor: group.protocol_data.to_string(),
        coordinator,
        members: group.members.into_iter().map(member).collect(),
    }
}

/// Another client wrote it, so what cannot be read is its matter.
fn classic_assignment(bytes: bytes::Bytes) -> Option<BTreeSet<TopicPartition>> {
    let mut all = BTreeSet::new();
    for (name, partitions) in assigned(bytes).ok()? {
        let name = TopicName::new(name).ok()?;
        all.extend(partitions.into_iter().map(|number| TopicPartition::new(name.clone(), number)));
    }
    Some(all)
}
