//! The requests that this client speaks: one table.
//!
//! A new admin call begins here, with a line in the table; then it gets its typed form in
//! `crate::admin`.

use std::fmt;
use std::ops::RangeInclusive;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages as m;
use kafka_protocol::protocol::{Decodable, Encodable};

use super::Malformed;
use super::bounded::Bounded;

/// The key and the name of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiId {
    /// The key, as Kafka numbers them.
    pub key: i16,
    /// The name, as Kafka's documentation has it.
    pub name: &'static str,
}

impl fmt::Display for ApiId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A request with its answer.
pub(crate) trait Api: Send + Sync {
    /// Key and name.
    const ID: ApiId;
    /// The versions that we speak. All of them are flexible versions: [`Bounded`] relies on it, and
    /// so do the headers.
    const VERSIONS: RangeInclusive<i16>;
    /// The longest answer that is accepted, in bytes.
    const ANSWER_MAX: usize;
    /// The answer.
    type Answer: Send;

    /// Writes the request in this version.
    fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), Malformed>;
    /// Reads the answer in this version; all of the bytes must be used.
    fn decode(version: i16, body: Bytes) -> Result<Self::Answer, Malformed>;
}

/// Answers that do not grow with the cluster, or are paged.
const SMALL: usize = 1 << 20;

/// Answers that list partitions. A hundred thousand of them need some tens of megabytes.
const BULK: usize = 64 << 20;

/// The one answer whose header has no tagged fields, so that it can be read before anything is known.
pub(super) const API_VERSIONS_KEY: i16 = 18;

macro_rules! apis {
    ($($request:ident => $answer:ident, $key:literal $name:literal, $versions:expr, $max:expr;)*) => {
        $(impl Api for m::$request {
            const ID: ApiId = ApiId { key: $key, name: $name };
            const VERSIONS: RangeInclusive<i16> = $versions;
            const ANSWER_MAX: usize = $max;
            type Answer = m::$answer;

            fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), Malformed> {
                encode(self, $name, version, out)
            }
            fn decode(version: i16, body: Bytes) -> Result<Self::Answer, Malformed> {
                decode($name, version, body)
            }
        })*

        /// For tests that hold for every request: key, versions, and whether a version's header is
        /// that of a flexible one; and what the decoder of its answer makes of some bytes.
        #[cfg(test)]
        pub(super) fn all() -> Vec<ApiFacts> {
            use kafka_protocol::protocol::HeaderVersion;
            vec![$(ApiFacts {
                id: <m::$request as Api>::ID,
                versions: $versions,
                request_header: m::$request::header_version,
                answer_header: m::$answer::header_version,
            },)*]
        }

        /// Decodes `body` as the answer to the request with this key. `None` if it is not in the
        /// table. For fuzzing and property tests: it says only whether the bytes were an answer.
        #[doc(hidden)]
        #[must_use]
        pub fn probe(key: i16, version: i16, body: Bytes) -> Option<Result<(), Malformed>> {
            match key {
                $($key => Some(<m::$request as Api>::decode(version, body).map(drop)),)*
                _ => None,
            }
        }

        /// The keys and versions of the table.
        #[doc(hidden)]
        #[must_use]
        pub fn table() -> Vec<(ApiId, RangeInclusive<i16>)> {
            vec![$((<m::$request as Api>::ID, $versions),)*]
        }
    };
}

// The lower end of each range is its first flexible version, or the first that does what we need.
#[rustfmt::skip]
apis! {
    MetadataRequest => MetadataResponse,                                       3 "Metadata",                    10..=13, BULK;
    ListOffsetsRequest => ListOffsetsResponse,                                 2 "ListOffsets",                  7..=10, BULK;
    OffsetCommitRequest => OffsetCommitResponse,                               8 "OffsetCommit",                 8..=9,  BULK;
    OffsetFetchRequest => OffsetFetchResponse,                                 9 "OffsetFetch",                  8..=9,  BULK;
    FindCoordinatorRequest => FindCoordinatorResponse,                        10 "FindCoordinator",              4..=6,  BULK;
    DescribeGroupsRequest => DescribeGroupsResponse,                          15 "DescribeGroups",               6..=6,  BULK;
    ListGroupsRequest => ListGroupsResponse,                                  16 "ListGroups",                   5..=5,  BULK;
    ApiVersionsRequest => ApiVersionsResponse,                                18 "ApiVersions",                  3..=4,  SMALL;
    CreateTopicsRequest => CreateTopicsResponse,                              19 "CreateTopics",                 7..=7,  BULK;
    DeleteTopicsRequest => DeleteTopicsResponse,                              20 "DeleteTopics",                 6..=6,  BULK;
    DescribeAclsRequest => DescribeAclsResponse,                              29 "DescribeAcls",                 2..=3,  BULK;
    CreateAclsRequest => CreateAclsResponse,                                  30 "CreateAcls",                   2..=3,  BULK;
    DeleteAclsRequest => DeleteAclsResponse,                                  31 "DeleteAcls",                   2..=3,  BULK;
    DescribeConfigsRequest => DescribeConfigsResponse,                        32 "DescribeConfigs",              4..=4,  BULK;
    AlterReplicaLogDirsRequest => AlterReplicaLogDirsResponse,                34 "AlterReplicaLogDirs",          2..=2,  BULK;
    DescribeLogDirsRequest => DescribeLogDirsResponse,                        35 "DescribeLogDirs",              4..=4,  BULK;
    SaslAuthenticateRequest => SaslAuthenticateResponse,                      36 "SaslAuthenticate",             2..=2,  SMALL;
    CreatePartitionsRequest => CreatePartitionsResponse,                      37 "CreatePartitions",             2..=3,  BULK;
    DeleteGroupsRequest => DeleteGroupsResponse,                              42 "DeleteGroups",                 2..=2,  BULK;
    ElectLeadersRequest => ElectLeadersResponse,                              43 "ElectLeaders",                 2..=2,  BULK;
    IncrementalAlterConfigsRequest => IncrementalAlterConfigsResponse,        44 "IncrementalAlterConfigs",      1..=1,  BULK;
    AlterPartitionReassignmentsRequest => AlterPartitionReassignmentsResponse, 45 "AlterPartitionReassignments", 0..=1,  BULK;
    ListPartitionReassignmentsRequest => ListPartitionReassignmentsResponse,  46 "ListPartitionReassignments",   0..=0,  BULK;
    DescribeClientQuotasRequest => DescribeClientQuotasResponse,              48 "DescribeClientQuotas",         1..=1,  BULK;
    AlterClientQuotasRequest => AlterClientQuotasResponse,                    49 "AlterClientQuotas",            1..=1,  BULK;
    DescribeUserScramCredentialsRequest => DescribeUserScramCredentialsResponse, 50 "DescribeUserScramCredentials", 0..=0, BULK;
    AlterUserScramCredentialsRequest => AlterUserScramCredentialsResponse,    51 "AlterUserScramCredentials",    0..=0,  BULK;
    DescribeQuorumRequest => DescribeQuorumResponse,                          55 "DescribeQuorum",               2..=2,  SMALL;
    UpdateFeaturesRequest => UpdateFeaturesResponse,                          57 "UpdateFeatures",               1..=2,  SMALL;
    DescribeClusterRequest => DescribeClusterResponse,                        60 "DescribeCluster",              2..=2,  SMALL;
    UnregisterBrokerRequest => UnregisterBrokerResponse,                      64 "UnregisterBroker",             0..=0,  SMALL;
    ConsumerGroupDescribeRequest => ConsumerGroupDescribeResponse,            69 "ConsumerGroupDescribe",        0..=1,  BULK;
    DescribeTopicPartitionsRequest => DescribeTopicPartitionsResponse,        75 "DescribeTopicPartitions",      0..=0,  BULK;
    AddRaftVoterRequest => AddRaftVoterResponse,                              80 "AddRaftVoter",                 0..=0,  SMALL;
    RemoveRaftVoterRequest => RemoveRaftVoterResponse,                        81 "RemoveRaftVoter",              0..=0,  SMALL;
}

#[cfg(test)]
pub(super) struct ApiFacts {
    pub(super) id: ApiId,
    pub(super) versions: RangeInclusive<i16>,
    pub(super) request_header: fn(i16) -> i16,
    pub(super) answer_header: fn(i16) -> i16,
}

fn encode<R: Encodable>(
    request: &R,
    name: &'static str,
    version: i16,
    out: &mut BytesMut,
) -> Result<(), Malformed> {
    request.encode(out, version).map_err(|error| Malformed::new(name, error))
}

pub(super) fn decode<A: Decodable>(
    name: &'static str,
    version: i16,
    body: Bytes,
) -> Result<A, Malformed> {
    let mut body = Bounded::new(body);
    let answer = A::decode(&mut body, version).map_err(|error| Malformed::new(name, error))?;
    if body.has_remaining() {
        return Err(Malformed::new(name, format!("{} bytes too many", body.remaining())));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_in_the_table_is_a_flexible_one() {
        for api in all() {
            for version in api.versions.clone() {
                assert_eq!((api.request_header)(version), 2, "{} v{version}", api.id);
                let answer = if api.id.key == API_VERSIONS_KEY { 0 } else { 1 };
                assert_eq!((api.answer_header)(version), answer, "{} v{version}", api.id);
            }
        }
    }

    #[test]
    fn keys_and_names_are_those_of_the_protocol() {
        for api in all() {
            let key = m::ApiKey::try_from(api.id.key).unwrap();
            assert_eq!(format!("{key:?}"), api.id.name);
            let known = key.valid_versions();
            assert!(known.min <= *api.versions.start() && *api.versions.end() <= known.max);
        }
    }

    #[test]
    fn an_array_length_that_lies_is_an_error_and_reserves_nothing() {
        // A Metadata answer of eleven bytes that claims two billion brokers.
        let body = Bytes::from_static(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0]);
        assert!(<m::MetadataRequest as Api>::decode(13, body).is_err());
    }

    #[test]
    fn bytes_behind_an_answer_are_an_error() {
        let body = Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 0, 9]);
        let error = <m::UnregisterBrokerRequest as Api>::decode(0, body).unwrap_err();
        assert_eq!(error.to_string(), "malformed UnregisterBroker: 1 bytes too many");
    }
}
