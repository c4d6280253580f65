//! Kafka's error codes, and what they mean for a caller.

use std::fmt;

use kafka_protocol::ResponseError;

use crate::net::Outcome;

/// A code that Kafka answered with. Zero is success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub i16);

#[rustfmt::skip]
impl Code {
    /// Done.
    pub const NONE: Self = Self(0);
    /// The topic or partition is not there (or not known to the node asked, yet).
    pub const UNKNOWN_TOPIC_OR_PARTITION: Self = Self(3);
    /// The partition has no leader at the moment.
    pub const LEADER_NOT_AVAILABLE: Self = Self(5);
    /// The node asked is not the leader (of the partition, or of the quorum).
    pub const NOT_LEADER_OR_FOLLOWER: Self = Self(6);
    /// Not finished in time; it may finish later.
    pub const REQUEST_TIMED_OUT: Self = Self(7);
    /// A node that is needed is not there.
    pub const BROKER_NOT_AVAILABLE: Self = Self(8);
    /// The replica is not there.
    pub const REPLICA_NOT_AVAILABLE: Self = Self(9);
    /// The connection between nodes broke.
    pub const NETWORK_EXCEPTION: Self = Self(13);
    /// The coordinator of the group reads its log; it answers soon.
    pub const COORDINATOR_LOAD_IN_PROGRESS: Self = Self(14);
    /// The group has no coordinator at the moment.
    pub const COORDINATOR_NOT_AVAILABLE: Self = Self(15);
    /// The node asked does not coordinate the group.
    pub const NOT_COORDINATOR: Self = Self(16);
    /// The group does not have this member. It is also the answer to a commit from outside while the group has members.
    pub const UNKNOWN_MEMBER_ID: Self = Self(25);
    /// The client may not read or change the group.
    pub const GROUP_AUTHORIZATION_FAILED: Self = Self(30);
    /// The group has members.
    pub const NON_EMPTY_GROUP: Self = Self(68);
    /// No group has this id, or one of another type has it.
    pub const GROUP_ID_NOT_FOUND: Self = Self(69);
    /// The name is none that Kafka takes.
    pub const INVALID_TOPIC_EXCEPTION: Self = Self(17);
    /// The node does not serve the version.
    pub const UNSUPPORTED_VERSION: Self = Self(35);
    /// The topic is there already.
    pub const TOPIC_ALREADY_EXISTS: Self = Self(36);
    /// The setting does not exist, or not with this value.
    pub const INVALID_CONFIG: Self = Self(40);
    /// The node asked is not the active controller: nothing was done.
    pub const NOT_CONTROLLER: Self = Self(41);
    /// The request makes no sense to Kafka.
    pub const INVALID_REQUEST: Self = Self(42);
    /// `delete.topic.enable` is off.
    pub const TOPIC_DELETION_DISABLED: Self = Self(73);
    /// An election is not possible: no eligible replica is there.
    pub const ELIGIBLE_LEADERS_NOT_AVAILABLE: Self = Self(83);
    /// The partition has the leader it should have.
    pub const ELECTION_NOT_NEEDED: Self = Self(84);
    /// There is no reassignment to cancel.
    pub const NO_REASSIGNMENT_IN_PROGRESS: Self = Self(85);
    /// The level asked for cannot be had.
    pub const INVALID_UPDATE_VERSION: Self = Self(95);
    /// The quota for changes is used up; the request may be sent again later.
    pub const THROTTLING_QUOTA_EXCEEDED: Self = Self(89);
    /// No topic has this id.
    pub const UNKNOWN_TOPIC_ID: Self = Self(100);
    /// No broker of this id is registered.
    pub const BROKER_ID_NOT_REGISTERED: Self = Self(102);
    /// The cluster id is another.
    pub const INCONSISTENT_CLUSTER_ID: Self = Self(104);
    /// A broker was asked what only controllers serve, or the other way round.
    pub const MISMATCHED_ENDPOINT_TYPE: Self = Self(114);
    /// The id is in the voter set already, with this directory or another.
    pub const DUPLICATE_VOTER: Self = Self(126);
    /// The id with this directory is not in the voter set, or it is the last voter.
    pub const VOTER_NOT_FOUND: Self = Self(127);
    /// The user, resource or whatever was asked for is not there.
    pub const RESOURCE_NOT_FOUND: Self = Self(91);
}

impl Code {
    /// Whether it is success.
    #[must_use]
    pub fn is_ok(self) -> bool {
        self == Code::NONE
    }

    /// Whether the node asked did nothing because another is responsible: asking that one is always
    /// safe.
    pub(crate) fn elsewhere(self) -> bool {
        self == Code::NOT_CONTROLLER
    }

    /// Whether asking again, for something that only reads, may soon give a better answer.
    pub(crate) fn passing(self) -> bool {
        let passing = [
            Code::LEADER_NOT_AVAILABLE,
            Code::NOT_LEADER_OR_FOLLOWER,
            Code::REQUEST_TIMED_OUT,
            Code::BROKER_NOT_AVAILABLE,
            Code::NETWORK_EXCEPTION,
            Code::COORDINATOR_LOAD_IN_PROGRESS,
            Code::COORDINATOR_NOT_AVAILABLE,
        ];
        self.elsewhere() || passing.contains(&self)
    }
}

/// The name that Kafka's documentation has for the code, and the number that logs show.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ResponseError::try_from_code(self.0) {
            None => f.write_str("NONE"),
            Some(ResponseError::Unknown(code)) => write!(f, "error {code}"),
            Some(error) => write!(f, "{} ({})", screaming(&format!("{error:?}")), self.0),
        }
    }
}

/// `NotLeaderOrFollower` as `NOT_LEADER_OR_FOLLOWER`.
fn screaming(camel: &str) -> String {
    let mut out = String::new();
    for (at, letter) in camel.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            out.push('_');
        }
        out.push(letter.to_ascii_uppercase());
    }
    out
}

/// Kafka said no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}{}", message.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
pub struct Refusal {
    /// The code.
    pub code: Code,
    /// What Kafka said with it. Only for people: it differs between versions.
    pub message: Option<String>,
}

impl Refusal {
    /// Success, or the refusal that the answer holds.
    pub(crate) fn check(code: i16, message: Option<impl ToString>) -> Result<(), Self> {
        let code = Code(code);
        if code.is_ok() {
            return Ok(());
        }
        let message = message.map(|text| text.to_string()).filter(|text| !text.is_empty());
        Err(Self { code, message })
    }

    /// Whether what was refused may have happened all the same.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        /// Something broke inside Kafka; it does not say before or after.
        const UNKNOWN_SERVER_ERROR: Code = Code(-1);
        match self.code {
            Code::REQUEST_TIMED_OUT | Code::NETWORK_EXCEPTION | UNKNOWN_SERVER_ERROR => {
                Outcome::Unknown
            }
            _ => Outcome::NotDone,
        }
    }

    /// As [`check`](Self::check), for answers that carry no message.
    pub(crate) fn check_code(code: i16) -> Result<(), Self> {
        Self::check(code, None::<String>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_as_kafka_names_them() {
        assert_eq!(Code(41).to_string(), "NOT_CONTROLLER (41)");
        assert_eq!(Code(6).to_string(), "NOT_LEADER_OR_FOLLOWER (6)");
        assert_eq!(Code(126).to_string(), "DUPLICATE_VOTER (126)");
        assert_eq!(Code(0).to_string(), "NONE");
        assert_eq!(Code(9999).to_string(), "error 9999");
    }

    #[test]
    fn a_refusal_shows_code_and_message() {
        let refusal = Refusal::check(36, Some("Topic 'a' already exists.")).unwrap_err();
        assert_eq!(refusal.to_string(), "TOPIC_ALREADY_EXISTS (36): Topic 'a' already exists.");
        assert_eq!(
            Refusal::check(36, Some("")).unwrap_err().to_string(),
            "TOPIC_ALREADY_EXISTS (36)"
        );
        assert_eq!(Refusal::check_code(0), Ok(()));
    }

    #[test]
    fn a_refusal_for_lack_of_time_leaves_open_what_happened() {
        for (code, outcome) in
            [(7, Outcome::Unknown), (-1, Outcome::Unknown), (41, Outcome::NotDone)]
        {
            assert_eq!(Refusal::check_code(code).unwrap_err().outcome(), outcome, "{code}");
        }
    }
}
