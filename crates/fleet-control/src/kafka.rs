//! The life of a Kafka, from the request to its removal.
//!
//! 1. A Kafka is deleted only because its deletion was requested: `deleting` is reached from `deprovision` alone.
//! 2. A deletion is final: no event leads back from `deprovision`.
//! 3. A Kafka without a place is `accepted` or `failed`; every other state has a data plane.

use std::fmt;
use std::str::FromStr;

/// Where a Kafka is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KafkaStatus {
    /// Requested, and not placed yet.
    Accepted,
    /// Placed; the agent creates it.
    Provisioning,
    /// Works.
    Ready,
    /// No place was found in time, or the agent could not create it.
    Failed,
    /// Deletion requested; the agent removes it.
    Deprovision,
    /// Removed by the agent.
    Deleting,
}

/// What happens to a Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KafkaEvent {
    /// A data plane was chosen for it.
    Placed,
    /// It waited for a place for longer than permitted.
    PatienceEnded,
    /// The agent reports it as ready.
    BecameReady,
    /// The agent reports an error.
    Broke,
    /// The agent rejects this placement; the same data plane gets another.
    Rejected,
    /// The data plane has no capacity for it after all.
    RejectedForCapacity,
    /// Its owner, or an administrator of the organisation, requests its deletion.
    DeletionRequested,
    /// The agent has removed it.
    Removed,
}

use KafkaEvent::{
    BecameReady, Broke, DeletionRequested, PatienceEnded, Placed, Rejected, RejectedForCapacity,
    Removed,
};
use KafkaStatus::{Accepted, Deleting, Deprovision, Failed, Provisioning, Ready};

/// The whole machine. A pair that is not listed is an error.
#[rustfmt::skip]
pub const KAFKA_TRANSITIONS: &[(KafkaStatus, KafkaEvent, KafkaStatus)] = &[
    (Accepted,     Placed,              Provisioning),
    (Accepted,     PatienceEnded,       Failed),
    (Accepted,     DeletionRequested,   Deprovision),
    (Provisioning, BecameReady,         Ready),
    (Provisioning, Broke,               Failed),
    (Provisioning, Rejected,            Provisioning),
    (Provisioning, RejectedForCapacity, Accepted),
    (Provisioning, DeletionRequested,   Deprovision),
    (Ready,        Broke,               Failed),
    (Ready,        DeletionRequested,   Deprovision),
    (Failed,       BecameReady,         Ready),
    (Failed,       Broke,               Failed),      // with another message
    (Failed,       DeletionRequested,   Deprovision),
    (Deprovision,  Removed,             Deleting),
];

/// All states, in the order of a life.
const ALL: [KafkaStatus; 6] = [Accepted, Provisioning, Ready, Failed, Deprovision, Deleting];

/// What an agent reports of a Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentWord {
    /// It works.
    Ready,
    /// The agent cannot tell.
    Unknown,
    /// It is being created or changed.
    Installing,
    /// It is removed.
    Deleted,
    /// It cannot be created.
    Error,
    /// This placement is rejected.
    Rejected,
    /// The data plane has no capacity for it.
    RejectedForCapacity,
}

/// What a report of the agent means in the light of the status; nothing if it changes nothing.
#[must_use]
pub fn read_agent(status: KafkaStatus, word: AgentWord) -> Option<KafkaEvent> {
    let event = match word {
        AgentWord::Ready => BecameReady,
        AgentWord::Deleted => Removed,
        AgentWord::Error => Broke,
        AgentWord::Rejected => Rejected,
        AgentWord::RejectedForCapacity => RejectedForCapacity,
        AgentWord::Unknown | AgentWord::Installing => return None,
    };
    status.after(event).is_ok().then_some(event)
}

impl KafkaStatus {
    /// The name that is stored and served.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Accepted => "accepted",
            Provisioning => "provisioning",
            Ready => "ready",
            Failed => "failed",
            Deprovision => "deprovision",
            Deleting => "deleting",
        }
    }

    /// All states, in the order of a life.
    #[must_use]
    pub fn all() -> &'static [KafkaStatus] {
        &ALL
    }

    /// Whether its deletion was requested.
    #[must_use]
    pub fn is_going(self) -> bool {
        matches!(self, Deprovision | Deleting)
    }

    /// Whether it is listed for the agent of its data plane. A failed Kafka may exist all the same, with its data.
    #[must_use]
    pub fn is_listed(self) -> bool {
        match self {
            Provisioning | Ready | Failed | Deprovision => true,
            Accepted | Deleting => false,
        }
    }

    /// The status after an event.
    ///
    /// # Errors
    /// If the pair is not in [`KAFKA_TRANSITIONS`].
    pub fn after(self, event: KafkaEvent) -> Result<KafkaStatus, IllegalKafkaEvent> {
        let row = KAFKA_TRANSITIONS.iter().find(|(from, on, _)| (*from, *on) == (self, event));
        row.map(|(_, _, to)| *to).ok_or(IllegalKafkaEvent { status: self, event })
    }
}

/// An event that cannot happen in this status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} is not possible for a Kafka that is {status}")]
pub struct IllegalKafkaEvent {
    /// The status.
    pub status: KafkaStatus,
    /// The event.
    pub event: KafkaEvent,
}

/// A name that no status has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a status of a Kafka")]
pub struct UnknownKafkaStatus(pub String);

impl FromStr for KafkaStatus {
    type Err = UnknownKafkaStatus;

    fn from_str(text: &str) -> Result<Self, UnknownKafkaStatus> {
        let found = ALL.into_iter().find(|status| status.name() == text);
        found.ok_or_else(|| UnknownKafkaStatus(text.to_owned()))
    }
}

impl fmt::Display for KafkaStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [KafkaEvent; 8] = [
        Placed,
        PatienceEnded,
        BecameReady,
        Broke,
        Rejected,
        RejectedForCapacity,
        DeletionRequested,
        Removed,
    ];
    const WORDS: [AgentWord; 7] = [
        AgentWord::Ready,
        AgentWord::Unknown,
        AgentWord::Installing,
        AgentWord::Deleted,
        AgentWord::Error,
        AgentWord::Rejected,
        AgentWord::RejectedForCapacity,
    ];

    #[test]
    fn names_are_parsed_as_they_are_written() {
        for status in ALL {
            assert_eq!(status.name().parse(), Ok(status));
        }
        assert!("Ready".parse::<KafkaStatus>().is_err());
    }

    #[test]
    fn no_pair_is_listed_twice_and_unlisted_pairs_are_errors() {
        for status in ALL {
            for event in EVENTS {
                let rows = KAFKA_TRANSITIONS.iter().filter(|row| (row.0, row.1) == (status, event));
                let rows: Vec<_> = rows.collect();
                assert!(rows.len() <= 1, "{status} {event:?}");
                let expected = rows.first().map(|row| row.2);
                let error = IllegalKafkaEvent { status, event };
                assert_eq!(status.after(event), expected.ok_or(error));
            }
        }
    }

    #[test]
    fn only_a_requested_deletion_removes_a_kafka_and_it_is_final() {
        for (from, event, to) in KAFKA_TRANSITIONS {
            assert_eq!(*to == Deleting, (*from, *event) == (Deprovision, Removed));
            assert!(!from.is_going() || to.is_going(), "{from} {event:?} {to}");
        }
        for status in ALL.into_iter().filter(|status| !status.is_going()) {
            assert_eq!(status.after(DeletionRequested), Ok(Deprovision));
        }
        assert!(EVENTS.iter().all(|event| Deleting.after(*event).is_err()), "deleting is the end");
    }

    #[test]
    fn every_word_of_an_agent_is_read_in_every_status() {
        use AgentWord as Word;
        let rows: &[(KafkaStatus, Word, KafkaEvent, KafkaStatus)] = &[
            (Provisioning, Word::Ready, BecameReady, Ready),
            (Provisioning, Word::Error, Broke, Failed),
            (Provisioning, Word::Rejected, Rejected, Provisioning),
            (Provisioning, Word::RejectedForCapacity, RejectedForCapacity, Accepted),
            (Ready, Word::Error, Broke, Failed),
            (Failed, Word::Ready, BecameReady, Ready),
            (Failed, Word::Error, Broke, Failed),
            (Deprovision, Word::Deleted, Removed, Deleting),
        ];
        for status in ALL {
            for word in WORDS {
                let row = rows.iter().find(|row| (row.0, row.1) == (status, word));
                let event = read_agent(status, word);
                assert_eq!(event, row.map(|row| row.2), "{status} {word:?}");
                let after = event.map(|event| status.after(event));
                assert_eq!(after, row.map(|row| Ok(row.3)), "{status} {word:?}");
            }
        }
    }
}
