//! What the decoders make of bytes that are no answers, of answers that were tampered with, and of
//! genuine ones that are large. The first two must end in a value, not in a panic or an abort; the
//! last must not be taken for an attack.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

#[expect(dead_code, reason = "no connection is made here")]
mod support;

use bytes::Bytes;
use kafka_admin::proto::{ApiId, probe, table};
use kafka_protocol::messages as m;
use kafka_protocol::messages::describe_topic_partitions_response as topics;
use kafka_protocol::protocol::StrBytes;
use proptest::prelude::*;

/// Lengths that lie, as varints, and bytes that put a reader of varints out of step.
const LIES: &[&[u8]] = &[
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0x07],
    &[0x80, 0x80, 0x80, 0x80, 0x08],
    &[0xff, 0xff, 0xff, 0xff, 0xff],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x07],
    &[0x80, 0xff, 0xff, 0xff, 0xff, 0x07],
    &[0xff, 0xff, 0x7f],
    &[0xff, 0x7f],
    &[0x7f],
    &[0x80],
];

fn every_version() -> Vec<(ApiId, i16)> {
    let each = |(id, versions): (ApiId, std::ops::RangeInclusive<i16>)| {
        versions.map(move |version| (id, version))
    };
    table().into_iter().flat_map(each).collect()
}

/// Ends in a value. Which one is for the other tests.
fn survives(key: i16, version: i16, body: impl Into<Bytes>) {
    let _ = probe(key, version, body.into()).expect("the key is in the table");
}

#[test]
fn lengths_that_lie_at_any_position_are_survived() {
    for (key, version, body) in support::recorded() {
        for at in 0..=body.len() {
            for lie in LIES {
                let inserted = [&body[..at], lie, &body[at..]].concat();
                survives(key, version, inserted);
                let end = body.len().min(at + lie.len());
                let replaced = [&body[..at], lie, &body[end..]].concat();
                survives(key, version, replaced);
            }
        }
    }
}

#[test]
fn any_one_byte_changed_to_any_other_is_survived() {
    for (key, version, mut body) in support::recorded() {
        for at in 0..body.len() {
            let was = body[at];
            for byte in [0, 1, 2, 0x40, 0x7f, 0x80, 0x81, 0xc0, 0xfe, 0xff] {
                body[at] = byte;
                survives(key, version, body.clone());
            }
            body[at] = was;
        }
    }
}

#[test]
fn a_request_that_we_do_not_speak_has_no_answer() {
    assert_eq!(probe(0, 9, Bytes::new()), None);
    assert_eq!(probe(-1, 0, Bytes::new()), None);
}

#[test]
fn a_version_that_we_do_not_speak_is_an_error() {
    for (id, _) in table() {
        for version in [-1, i16::MAX] {
            assert!(probe(id.key, version, Bytes::from_static(&[0; 64])).unwrap().is_err());
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_are_survived(body in proptest::collection::vec(any::<u8>(), 0..512)) {
        for (id, version) in every_version() {
            survives(id.key, version, body.clone());
        }
    }

    /// Small numbers read as lengths that are true more often, so more is decoded before it fails.
    #[test]
    fn random_small_numbers_are_survived(body in proptest::collection::vec(0_u8..6, 0..512)) {
        for (id, version) in every_version() {
            survives(id.key, version, body.clone());
        }
    }

    #[test]
    fn answers_that_were_tampered_with_are_survived(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        doubled in any::<prop::sample::Index>(),
    ) {
        for (key, version, mut body) in support::recorded() {
            for (at, byte) in &edits {
                let at = at.index(body.len());
                body[at] = *byte;
            }
            let (cut, doubled) = (cut.index(body.len()), doubled.index(body.len()));
            let spliced = [&body[..cut], &body[doubled..]].concat();
            survives(key, version, body);
            survives(key, version, spliced);
        }
    }
}

fn accepted<A: kafka_protocol::protocol::Encodable>(key: i16, version: i16, answer: &A) {
    let body = support::encode(answer, version);
    assert_eq!(probe(key, version, body), Some(Ok(())), "key {key} v{version}");
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

#[test]
fn a_cluster_of_a_hundred_thousand_partitions_is_read() {
    let replicas = || (0..3).map(m::BrokerId).collect::<Vec<_>>();
    let partition = |index| {
        topics::DescribeTopicPartitionsResponsePartition::default()
            .with_partition_index(index)
            .with_replica_nodes(replicas())
            .with_isr_nodes(replicas())
    };
    let topic = |index| {
        topics::DescribeTopicPartitionsResponseTopic::default()
            .with_name(Some(m::TopicName(text(&format!("t{index}")))))
            .with_partitions((0..100).map(partition).collect())
    };
    let answer = m::DescribeTopicPartitionsResponse::default();
    accepted(75, 0, &answer.with_topics((0..1000).map(topic).collect()));

    let partition = |index| {
        m::metadata_response::MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_replica_nodes(replicas())
            .with_isr_nodes(replicas())
    };
    let topic = |index| {
        m::metadata_response::MetadataResponseTopic::default()
            .with_name(Some(m::TopicName(text(&format!("t{index}")))))
            .with_partitions((0..1000).map(partition).collect())
    };
    let topics = (0..100).map(topic).collect();
    accepted(3, 13, &m::MetadataResponse::default().with_topics(topics));
}

#[test]
fn the_smallest_elements_in_large_numbers_are_read() {
    use m::alter_replica_log_dirs_response::AlterReplicaLogDirTopicResult;
    let topic = |_| AlterReplicaLogDirTopicResult::default().with_topic_name(name("t"));
    let answer = m::AlterReplicaLogDirsResponse::default();
    accepted(34, 2, &answer.with_results((0..100_000).map(topic).collect()));

    use m::elect_leaders_response::ReplicaElectionResult;
    let topic = |_| ReplicaElectionResult::default().with_topic(name("t"));
    let answer = m::ElectLeadersResponse::default();
    accepted(43, 2, &answer.with_replica_election_results((0..100_000).map(topic).collect()));

    use m::create_acls_response::AclCreationResult;
    let result = |_| AclCreationResult::default().with_error_message(None);
    let answer = m::CreateAclsResponse::default();
    accepted(30, 3, &answer.with_results((0..100_000).map(result).collect()));

    // Numbers alone: one partition with very many replicas.
    use m::list_partition_reassignments_response as moves;
    let partition = moves::OngoingPartitionReassignment::default()
        .with_replicas((0..100_000).map(m::BrokerId).collect());
    let topic = moves::OngoingTopicReassignment::default().with_partitions(vec![partition]);
    let answer = m::ListPartitionReassignmentsResponse::default().with_topics(vec![topic]);
    accepted(46, 0, &answer);
}

fn name(name: &str) -> m::TopicName {
    m::TopicName(text(name))
}

#[test]
fn the_longest_texts_are_read() {
    use m::describe_configs_response::{DescribeConfigsResourceResult, DescribeConfigsResult};
    let long = text(&"x".repeat(0x7fff));
    let entry = |_| {
        DescribeConfigsResourceResult::default()
            .with_name(long.clone())
            .with_value(Some(long.clone()))
            .with_documentation(None)
    };
    let result = DescribeConfigsResult::default().with_configs((0..100).map(entry).collect());
    accepted(32, 4, &m::DescribeConfigsResponse::default().with_results(vec![result]));
}

#[test]
fn tagged_fields_that_a_newer_kafka_may_add_are_passed_over() {
    let tag = || [(100, Bytes::from_static(b"news"))].into_iter().collect();
    let partition = |index| {
        topics::DescribeTopicPartitionsResponsePartition::default()
            .with_partition_index(index)
            .with_replica_nodes(vec![m::BrokerId(1)])
            .with_unknown_tagged_fields(tag())
    };
    let topic = topics::DescribeTopicPartitionsResponseTopic::default()
        .with_partitions((0..10_000).map(partition).collect())
        .with_unknown_tagged_fields(tag());
    let answer = m::DescribeTopicPartitionsResponse::default().with_topics(vec![topic]);
    accepted(75, 0, &answer.with_unknown_tagged_fields(tag()));
}

#[test]
fn hundreds_of_features_are_read() {
    use m::api_versions_response::{FinalizedFeatureKey, SupportedFeatureKey};
    let feature = |index: i32| text(&format!("some.feature.{index}"));
    let supported = (0..100).map(|i| SupportedFeatureKey::default().with_name(feature(i)));
    let finalized = (0..100).map(|i| FinalizedFeatureKey::default().with_name(feature(i)));
    let answer = m::ApiVersionsResponse::default()
        .with_supported_features(supported.collect())
        .with_finalized_features(finalized.collect())
        .with_finalized_features_epoch(7);
    accepted(18, 4, &answer);
}
