//! What an answer to a change of voters means.
//!
//! 1. Whatever the answer is, the quorum is described before the next step.
//! 2. Code 7 has a dozen causes and never means that nothing happened.
//! 3. That a voter is there already, or is not, is as good as done: it is what the next description says.
//! 4. An addition that failed fails nothing: it is tried again. A removal that failed ends the pass, so that
//!    nobody is stopped who may still vote.

use serde::{Deserialize, Serialize};

use crate::cluster::journal::Entered;

/// What Kafka answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// It is done.
    Done,
    /// Code 7, or no answer: it may have happened, or may yet happen.
    Unknown,
    /// Code 126: the id votes already, with this disk or with another.
    Duplicate,
    /// Code 127: no voter has this id and disk, or it is the last one.
    NotFound,
    /// Codes 6 and 8: the node that was asked does not lead, or stopped to.
    NotLeader,
    /// Code 35: the quorum is static.
    StaticQuorum,
    /// Code 42: the request makes no sense, such as a listener that is missing.
    Invalid,
    /// Code 104: it is another cluster.
    WrongCluster,
    /// It was certainly not carried out, for another reason.
    Refused,
    /// It was not sent: this process does not lead, or there is no node to send it to.
    NotSent,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Describe the quorum and decide again.
    DescribeAgain,
    /// Ask for `kraft.version` again: the record is wrong.
    AskMode,
    /// Not to be tried again before something changes: it is a mistake of ours or of the configuration.
    Hold,
}

/// What comes after this answer.
#[must_use]
pub const fn then(answer: Answer) -> Then {
    match answer {
        Answer::Done
        | Answer::Unknown
        | Answer::Duplicate
        | Answer::NotFound
        | Answer::NotLeader
        | Answer::Refused
        | Answer::NotSent => Then::DescribeAgain,
        Answer::StaticQuorum => Then::AskMode,
        Answer::Invalid | Answer::WrongCluster => Then::Hold,
    }
}

/// Whether the pass ends with this answer and stops nobody (4).
#[must_use]
pub const fn ends_pass(act: Entered, answer: Answer) -> bool {
    match (act, answer) {
        (Entered::AddVoter(_) | Entered::Uncordon(_), _)
        | (Entered::RemoveVoter(_), Answer::Done) => false,
        // The quorum is, or may be, another one now. Where Kafka refused, something else in this pass, such as a
        // restart, may be what it takes.
        (Entered::RaiseKraftVersion, answer) => {
            matches!(answer, Answer::Done | Answer::Unknown | Answer::NotSent)
        }
        (
            Entered::RemoveVoter(_),
            Answer::Unknown
            | Answer::Duplicate
            | Answer::NotFound
            | Answer::NotLeader
            | Answer::StaticQuorum
            | Answer::Invalid
            | Answer::WrongCluster
            | Answer::Refused
            | Answer::NotSent,
        ) => true,
    }
}

/// Whether nothing is left to be done after this answer.
#[must_use]
pub const fn is_success(act: Entered, answer: Answer) -> bool {
    match (act, answer) {
        (_, Answer::Done) | (Entered::AddVoter(_), Answer::Duplicate) => true,
        (
            _,
            Answer::Unknown
            | Answer::Duplicate
            | Answer::NotFound
            | Answer::NotLeader
            | Answer::StaticQuorum
            | Answer::Invalid
            | Answer::WrongCluster
            | Answer::Refused
            | Answer::NotSent,
        ) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Answer::{
        Done, Duplicate, Invalid, NotFound, NotLeader, Refused, StaticQuorum, Unknown, WrongCluster,
    };
    use Then::{AskMode, DescribeAgain, Hold};

    /// The rows are the checks that Kafka makes, in its order.
    #[test]
    #[rustfmt::skip]
    fn every_check_of_kafka_has_an_answer_to_it() {
        // What Kafka found, its code, what comes next, whether a removal ends the pass.
        let rows = [
            ("1  another cluster",                       WrongCluster, Hold,          true),
            ("2  not the leader, or shutting down",      NotLeader,    DescribeAgain, true),
            ("3  no id, no directory, no listener",      Invalid,      Hold,          true),
            ("4  another change is pending",             Unknown,      DescribeAgain, true),
            ("5  no high watermark yet",                 Unknown,      DescribeAgain, true),
            ("6  kraft.version 0",                       StaticQuorum, AskMode,       true),
            ("7  the last change is not committed",      Unknown,      DescribeAgain, true),
            ("A8 votes already",                         Duplicate,    DescribeAgain, true),
            ("A9 the new voter cannot be reached",       Unknown,      DescribeAgain, true),
            ("A10 it answered with an error",            Unknown,      DescribeAgain, true),
            ("A11 it does not support kraft.version",    Invalid,      Hold,          true),
            ("A12 it has not caught up",                 Unknown,      DescribeAgain, true),
            ("A13 written, not committed in time",       Unknown,      DescribeAgain, true),
            ("R8 no such voter, or the last one",        NotFound,     DescribeAgain, true),
            ("R9 written, not committed in time",        Unknown,      DescribeAgain, true),
            ("-  leadership lost meanwhile",             NotLeader,    DescribeAgain, true),
            ("-  it worked",                             Done,         DescribeAgain, false),
            ("-  anything else",                         Refused,      DescribeAgain, true),
        ];
        let node = model::NodeId::new(3).unwrap();
        for (name, answer, expected, ends) in rows {
            assert_eq!(then(answer), expected, "{name}");
            assert_eq!(ends_pass(Entered::RemoveVoter(node), answer), ends, "{name}");
            assert!(!ends_pass(Entered::AddVoter(node), answer), "{name}");
        }
    }

    #[test]
    fn an_addition_of_a_voter_that_votes_already_is_a_success_and_its_removal_is_not() {
        let node = model::NodeId::new(3).unwrap();
        for answer in
            [Done, Unknown, Duplicate, NotFound, NotLeader, StaticQuorum, Invalid, Refused]
        {
            let (add, remove) = (Entered::AddVoter(node), Entered::RemoveVoter(node));
            assert_eq!(is_success(add, answer), matches!(answer, Done | Duplicate), "{answer:?}");
            assert_eq!(is_success(remove, answer), answer == Done, "{answer:?}");
        }
    }
}
