//! What the result of a call means, in the terms of decisions. Nothing else reads an error of a write to Kafka or of a
//! change of a user.
//!
//! 1. A call that was not sent is [`Answer::NotSent`], and no attempt.
//! 2. A call of which no answer was read is [`Answer::Unknown`]: it may have been carried out.

use control::quorum::answer::Answer;
use kafka_admin::{Outcome, VoterChangeError};

use super::Answered;
use crate::users::{self, UsersError};
use crate::words::chain;
use crate::write::{KafkaWriteError, WriteError};

/// The answer to a call to Kafka. `of_error` is what an error of Kafka means.
pub(super) fn of_call<T, E: std::error::Error + 'static>(
    done: Result<T, KafkaWriteError<E>>,
    of_error: impl FnOnce(&E) -> Answer,
) -> Answered {
    match done {
        Ok(_) => (Answer::Done, None),
        Err(KafkaWriteError::Kafka { source, .. }) => (of_error(&source), Some(chain(&source))),
        Err(error @ KafkaWriteError::NotLeader { .. }) => (Answer::NotSent, Some(chain(&error))),
        Err(error @ KafkaWriteError::Expired { .. }) => (Answer::Unknown, Some(chain(&error))),
    }
}

/// The answer to a call that failed and whose error says no more than this.
pub(super) const fn of_outcome(outcome: Outcome) -> Answer {
    match outcome {
        Outcome::NotDone => Answer::Refused,
        Outcome::Unknown => Answer::Unknown,
    }
}

/// The answer to a change of the voters that failed.
pub(super) fn of_voter(error: &VoterChangeError) -> Answer {
    match error {
        VoterChangeError::Call(error) => of_outcome(error.outcome()),
        VoterChangeError::Unknown { .. } => Answer::Unknown,
        VoterChangeError::Duplicate => Answer::Duplicate,
        VoterChangeError::NotFound => Answer::NotFound,
        VoterChangeError::NotLeader => Answer::NotLeader,
        VoterChangeError::StaticQuorum { .. } => Answer::StaticQuorum,
        VoterChangeError::Invalid { .. } => Answer::Invalid,
        VoterChangeError::WrongCluster => Answer::WrongCluster,
        VoterChangeError::Refused(_) => Answer::Refused,
    }
}

/// The answer to a change of a user that failed.
pub(super) fn of_user(error: &UsersError) -> Answer {
    match error {
        UsersError::Change(KafkaWriteError::Kafka { source, .. }) => {
            of_outcome(users::outcome(source))
        }
        UsersError::Change(KafkaWriteError::NotLeader { .. })
        | UsersError::Secret(WriteError::NotLeader { .. }) => Answer::NotSent,
        UsersError::Change(KafkaWriteError::Expired { .. })
        | UsersError::Secret(WriteError::Expired { .. } | WriteError::Kubernetes { .. }) => {
            Answer::Unknown
        }
        UsersError::Secret(
            WriteError::Exists { .. }
            | WriteError::Missing { .. }
            | WriteError::Conflict { .. }
            | WriteError::Invalid { .. }
            | WriteError::Encode { .. },
        )
        | UsersError::Describe(_) => Answer::Refused,
    }
}

#[cfg(test)]
mod tests {
    use kafka_admin::proto::ApiId;
    use kafka_admin::{AlterScramError, CallError, Code, Endpoint, Refusal};

    use super::*;

    fn call(outcome: Outcome) -> CallError {
        let api = ApiId { key: 80, name: "AddRaftVoter" };
        let endpoint = Endpoint::new("controller", 9090);
        match outcome {
            Outcome::NotDone => CallError::NoLeader { api, what: "active controller" },
            Outcome::Unknown => {
                CallError::Expired { api, endpoint, waited: std::time::Duration::ZERO }
            }
        }
    }

    fn refusal() -> Refusal {
        Refusal { code: Code(42), message: None }
    }

    fn what() -> String {
        "change it".to_owned()
    }

    #[test]
    fn a_call_that_was_not_sent_is_no_attempt_and_one_without_an_answer_is_unknown() {
        type Done = Result<(), KafkaWriteError<CallError>>;
        let kafka = |outcome| KafkaWriteError::Kafka { what: what(), source: call(outcome) };
        let rows: [(Done, Answer, bool); 5] = [
            (Ok(()), Answer::Done, false),
            (Err(KafkaWriteError::NotLeader { what: what() }), Answer::NotSent, true),
            (Err(KafkaWriteError::Expired { what: what() }), Answer::Unknown, true),
            (Err(kafka(Outcome::NotDone)), Answer::Refused, true),
            (Err(kafka(Outcome::Unknown)), Answer::Unknown, true),
        ];
        for (done, expected, has_words) in rows {
            let text = format!("{done:?}");
            let (answer, message) = of_call(done, |error| of_outcome(error.outcome()));
            assert_eq!((answer, message.is_some()), (expected, has_words), "{text}");
        }
    }

    #[test]
    fn every_answer_to_a_change_of_voters_is_told_apart() {
        let message = || None;
        let rows = [
            (VoterChangeError::Call(call(Outcome::NotDone)), Answer::Refused),
            (VoterChangeError::Call(call(Outcome::Unknown)), Answer::Unknown),
            (VoterChangeError::Unknown { message: message() }, Answer::Unknown),
            (VoterChangeError::Duplicate, Answer::Duplicate),
            (VoterChangeError::NotFound, Answer::NotFound),
            (VoterChangeError::NotLeader, Answer::NotLeader),
            (VoterChangeError::StaticQuorum { message: message() }, Answer::StaticQuorum),
            (VoterChangeError::Invalid { message: message() }, Answer::Invalid),
            (VoterChangeError::WrongCluster, Answer::WrongCluster),
            (VoterChangeError::Refused(refusal()), Answer::Refused),
        ];
        for (error, expected) in rows {
            assert_eq!(of_voter(&error), expected, "{error:?}");
        }
    }

    #[test]
    fn every_error_of_a_change_of_a_user_has_an_answer() {
        let secret = UsersError::Secret;
        let change = |source| UsersError::Change(KafkaWriteError::Kafka { what: what(), source });
        let user = || "bob".to_owned();
        let kube = || Box::new(kube::Error::TlsRequired);
        let json = serde_json::from_str::<u8>("").unwrap_err();
        let rows = [
            (change(AlterScramError::NoRandomness), Answer::Refused),
            (change(AlterScramError::NotFound { user: user() }), Answer::Refused),
            (
                change(AlterScramError::Refused { user: user(), refusal: refusal() }),
                Answer::Refused,
            ),
            (
                change(AlterScramError::Call { user: user(), source: call(Outcome::Unknown) }),
                Answer::Unknown,
            ),
            (
                change(AlterScramError::Call { user: user(), source: call(Outcome::NotDone) }),
                Answer::Refused,
            ),
            (UsersError::Change(KafkaWriteError::NotLeader { what: what() }), Answer::NotSent),
            (UsersError::Change(KafkaWriteError::Expired { what: what() }), Answer::Unknown),
            (secret(WriteError::NotLeader { what: what() }), Answer::NotSent),
            (secret(WriteError::Expired { what: what() }), Answer::Unknown),
            (secret(WriteError::Kubernetes { what: what(), source: kube() }), Answer::Unknown),
            (secret(WriteError::Exists { what: what() }), Answer::Refused),
            (secret(WriteError::Missing { what: what() }), Answer::Refused),
            (secret(WriteError::Conflict { what: what() }), Answer::Refused),
            (secret(WriteError::Invalid { what: what(), reason: what() }), Answer::Refused),
            (secret(WriteError::Encode { what: what(), source: json }), Answer::Refused),
        ];
        for (error, expected) in rows {
            assert_eq!(of_user(&error), expected, "{error:?}");
        }
    }
}
