//! Electing leaders.

use std::collections::BTreeMap;

use kafka_protocol::messages::ElectLeadersRequest;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use model::TopicPartition;

use super::{Admin, plain_error, wire};
use crate::code::{Code, Refusal};
use crate::net::{Effect, Route};
use crate::proto::Api;

/// Who may be elected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Election {
    /// The first replica of the list, if it is in sync.
    Preferred,
    /// Any replica that is there, if no other way is left. Records are lost.
    Unclean,
}

/// What became of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElectionOutcome {
    /// It has a new leader.
    Elected,
    /// It has the leader that it should have.
    NotNeeded,
    /// No replica that may lead is there.
    NoEligibleLeader {
        /// What Kafka said.
        refusal: Refusal,
    },
    /// Kafka said no for another reason.
    Refused(Refusal),
}

plain_error!(
    /// Why leaders were not elected, or may not have been.
    ElectLeadersError,
    "elect leaders"
);

impl Admin {
    /// Elects leaders for these partitions, or for all.
    pub async fn elect_leaders(
        &self,
        election: Election,
        partitions: Option<&[TopicPartition]>,
    ) -> Result<BTreeMap<TopicPartition, ElectionOutcome>, ElectLeadersError> {
        let api = ElectLeadersRequest::ID;
        let topic =
            |(name, numbers)| TopicPartitions::default().with_topic(name).with_partitions(numbers);
        let topics = partitions.map(|all| wire::numbers_by_topic(all).map(topic).collect());
        let request = ElectLeadersRequest::default()
            .with_election_type(match election {
                Election::Preferred => 0,
                Election::Unclean => 1,
            })
            .with_topic_partitions(topics)
            .with_timeout_ms(self.client.server_timeout_ms());
        let code = |answer: &<ElectLeadersRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await?;
        Refusal::check_code(answer.error_code)?;
        let mut outcomes = BTreeMap::new();
        for topic in answer.replica_election_results {
            for result in topic.partition_result {
                let key = wire::partition(api, &topic.topic, result.partition_id)?;
                let result = Refusal::check(result.error_code, result.error_message);
                outcomes.insert(key, outcome(result));
            }
        }
        Ok(outcomes)
    }
}

fn outcome(result: Result<(), Refusal>) -> ElectionOutcome {
    /// The preferred replica is not in sync.
    const PREFERRED_LEADER_NOT_AVAILABLE: Code = Code(80);
    match result {
        Ok(()) => ElectionOutcome::Elected,
        Err(refusal) => match refusal.code {
            Code::ELECTION_NOT_NEEDED => ElectionOutcome::NotNeeded,
            Code::ELIGIBLE_LEADERS_NOT_AVAILABLE | PREFERRED_LEADER_NOT_AVAILABLE => {
                ElectionOutcome::NoEligibleLeader { refusal }
            }
            _ => ElectionOutcome::Refused(refusal),
        },
    }
}
