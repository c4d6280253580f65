//! The outcomes of acts that later decisions depend on.
//!
//! 1. An act that a decision retries is entered before it is sent, with the answer [`Answer::Unknown`]: an operator
//!    that dies in between finds exactly what it knows.
//! 2. An act whose outcome is unknown is in the journal already and is sent again without another entry: an operator
//!    that dies after every write still gets to send it.
//! 3. The answer replaces that entry. An act that succeeded needs no entry: the next snapshot shows its effect.
//! 4. An entry belongs to one subject. A different subject, such as another directory id, starts from nothing.
//! 5. [`Entered`] has no new variants before the next major version of the record: an operator that is older than a
//!    variant cannot read any of the record. New acts have a journal of their own, in a field that it ignores.

use model::NodeId;
use serde::{Deserialize, Serialize};

use crate::quorum::answer::{self, Answer, Then, then};

/// The delay before an act whose outcome the next snapshot shows is sent again. A controller that has just
/// started needs some seconds to be found by the leader.
pub const RETRY_MS: u64 = 2_000;
/// The delay before an act that Kafka called invalid is sent again without a change of its subject.
pub const HOLD_MS: u64 = 300_000;

/// An act that can be entered.
pub trait Enter: Copy + PartialEq {
    /// Whether nothing is left to be done after this answer.
    fn is_success(self, answer: Answer) -> bool;

    /// The delay before it is sent again after so many answers in a row that were no success.
    fn retry_ms(self, _attempts: u32) -> u64 {
        RETRY_MS
    }
}

/// An act that is entered, and that operators of all minor versions know (5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Entered {
    /// Adding a voter.
    AddVoter(NodeId),
    /// Removing a voter.
    RemoveVoter(NodeId),
    /// Raising `kraft.version`.
    RaiseKraftVersion,
    /// Opening a broker for new replicas.
    Uncordon(NodeId),
}

impl Enter for Entered {
    fn is_success(self, answer: Answer) -> bool {
        answer::is_success(self, answer)
    }
}

/// Unregistering a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Unregistration(pub NodeId);

impl Enter for Unregistration {
    fn is_success(self, answer: Answer) -> bool {
        answer == Answer::Done
    }

    /// Doubles: every attempt writes the record, and a refusal seldom passes soon.
    fn retry_ms(self, attempts: u32) -> u64 {
        RETRY_MS.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(HOLD_MS)
    }
}

/// The last outcome of an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry<A = Entered> {
    /// The act.
    pub act: A,
    /// What exactly was asked for, such as the directory id of a voter.
    pub subject: String,
    /// Kafka's answer.
    pub answer: Answer,
    /// Kafka's words, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was entered or answered, in milliseconds since 1970.
    pub at_ms: u64,
    /// How many answers in a row were no success.
    pub attempts: u32,
}

/// The outcomes, one entry for each act and node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Journal<A = Entered> {
    entries: Vec<Entry<A>>,
}

impl<A> Default for Journal<A> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

/// Whether an act may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit<'a, A = Entered> {
    /// Now.
    Now,
    /// After a short delay.
    Later,
    /// Not before its subject changes, or a long delay is over: Kafka called it invalid.
    Held(&'a Entry<A>),
}

impl<A: Enter> Journal<A> {
    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entry of an act.
    #[must_use]
    pub fn get(&self, act: A) -> Option<&Entry<A>> {
        self.entries.iter().find(|entry| entry.act == act)
    }

    /// All entries, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<A>> {
        self.entries.iter()
    }

    /// Enters an act that is about to be sent.
    pub fn begin(&mut self, act: A, subject: &str, now_ms: u64) {
        let is_same = |entry: &Entry<A>| entry.act == act && entry.subject == subject;
        if self.entries.iter().any(|entry| is_same(entry) && entry.answer == Answer::Unknown) {
            return;
        }
        let before = self.take(act).filter(is_same);
        let attempts = before.map_or(0, |entry| entry.attempts);
        let subject = subject.to_owned();
        let entry =
            Entry { act, subject, answer: Answer::Unknown, message: None, at_ms: now_ms, attempts };
        self.entries.push(entry);
    }

    /// Enters the answer to an act.
    pub fn end(&mut self, act: A, answer: Answer, message: Option<String>, now_ms: u64) {
        if answer == Answer::NotSent {
            return;
        }
        if act.is_success(answer) {
            self.take(act);
        } else if let Some(entry) = self.entries.iter_mut().find(|entry| entry.act == act) {
            (entry.answer, entry.message, entry.at_ms) = (answer, message, now_ms);
            entry.attempts = entry.attempts.saturating_add(1);
        }
    }

    /// Drops the entry of an act whose effect was seen.
    pub fn clear(&mut self, act: A) {
        self.take(act);
    }

    /// Whether an act may be sent now.
    #[must_use]
    pub fn permit(&self, act: A, subject: &str, now_ms: u64) -> Permit<'_, A> {
        let Some(entry) = self.get(act).filter(|entry| entry.subject == subject) else {
            return Permit::Now;
        };
        // A clock that went back must not hold an act for ever.
        let since = now_ms.checked_sub(entry.at_ms).unwrap_or(HOLD_MS);
        match then(entry.answer) {
            Then::Hold if since < HOLD_MS => Permit::Held(entry),
            Then::DescribeAgain | Then::AskMode if since < act.retry_ms(entry.attempts) => {
                Permit::Later
            }
            Then::Hold | Then::DescribeAgain | Then::AskMode => Permit::Now,
        }
    }

    fn take(&mut self, act: A) -> Option<Entry<A>> {
        let at = self.entries.iter().position(|entry| entry.act == act)?;
        Some(self.entries.remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(id: i32) -> Entered {
        Entered::AddVoter(NodeId::new(id).unwrap())
    }

    #[test]
    fn an_act_that_was_begun_has_an_unknown_outcome_until_its_answer_is_entered() {
        let mut journal = Journal::default();
        journal.begin(add(3), "disk", 1_000);
        let text = serde_json::to_string(&journal).unwrap();
        // The operator dies here.
        let mut journal: Journal = serde_json::from_str(&text).unwrap();
        assert_eq!(journal.get(add(3)).unwrap().answer, Answer::Unknown);
        assert_eq!(journal.permit(add(3), "disk", 1_500), Permit::Later);
        assert_eq!(journal.permit(add(3), "disk", 3_000), Permit::Now);
        assert_eq!(journal.permit(add(3), "another disk", 1_500), Permit::Now);
        // It is sent without another entry, however often the operator dies.
        let before = journal.clone();
        journal.begin(add(3), "disk", 3_000);
        assert_eq!(journal, before);
        journal.end(add(3), Answer::NotLeader, None, 3_100);
        journal.begin(add(3), "disk", 6_000);
        let entry = journal.get(add(3)).unwrap();
        assert_eq!((entry.answer, entry.attempts, entry.at_ms), (Answer::Unknown, 1, 6_000));
        journal.begin(add(3), "another disk", 6_000);
        assert_eq!(journal.get(add(3)).unwrap().attempts, 0);
        journal.end(add(3), Answer::Done, None, 6_100);
        assert!(journal.is_empty());
    }

    #[test]
    #[rustfmt::skip]
    fn what_may_be_sent_again_and_when() {
        // The answer, and whether the act may be sent after 1 s, 3 s and 300 s.
        let rows = [
            (Answer::Unknown,      "later", "now",  "now"),
            (Answer::NotLeader,    "later", "now",  "now"),
            (Answer::NotFound,     "later", "now",  "now"),
            (Answer::Refused,      "later", "now",  "now"),
            (Answer::StaticQuorum, "later", "now",  "now"),
            (Answer::Invalid,      "held",  "held", "now"),
            (Answer::WrongCluster, "held",  "held", "now"),
            (Answer::Duplicate,    "now",   "now",  "now"),
            (Answer::Done,         "now",   "now",  "now"),
        ];
        for (answer, soon, later, at_last) in rows {
            let mut journal = Journal::default();
            journal.begin(add(3), "disk", 10_000);
            journal.end(add(3), answer, None, 10_000);
            for (at_ms, expected) in [(11_000, soon), (13_000, later), (310_000, at_last)] {
                let found = match journal.permit(add(3), "disk", at_ms) {
                    Permit::Now => "now",
                    Permit::Later => "later",
                    Permit::Held(_) => "held",
                };
                assert_eq!(found, expected, "{answer:?} at {at_ms}");
            }
            assert_eq!(journal.permit(add(3), "disk", 9_000), Permit::Now, "{answer:?}, the clock went back");
        }
    }

    #[test]
    fn an_unregistration_that_fails_is_sent_less_and_less_often() {
        let act = Unregistration(NodeId::new(3).unwrap());
        let mut journal = Journal::default();
        let mut delays_ms = Vec::new();
        for _ in 0..12 {
            journal.begin(act, "", 10_000);
            journal.end(act, Answer::Refused, None, 10_000);
            let is_sent = |ms: &u64| journal.permit(act, "", 10_000 + ms) == Permit::Now;
            delays_ms.extend((0..=HOLD_MS).step_by(1_000).find(is_sent));
        }
        assert_eq!(delays_ms.get(..4).unwrap(), [2_000, 4_000, 8_000, 16_000]);
        assert_eq!(delays_ms.last(), Some(&HOLD_MS));
    }

    #[test]
    fn what_was_not_sent_is_no_attempt() {
        let mut journal = Journal::default();
        journal.begin(add(3), "disk", 1);
        let before = journal.clone();
        journal.end(add(3), Answer::NotSent, Some("this process does not lead".to_owned()), 2);
        assert_eq!(journal, before);
    }

    /// What operators of format 1.2 know. One more here is a record that they cannot read.
    #[test]
    fn an_older_operator_knows_every_act_of_the_journal() {
        let id = NodeId::new(3).unwrap();
        let known = [
            (Entered::AddVoter(id), r#"{"addVoter":3}"#),
            (Entered::RemoveVoter(id), r#"{"removeVoter":3}"#),
            (Entered::RaiseKraftVersion, r#""raiseKraftVersion""#),
            (Entered::Uncordon(id), r#"{"uncordon":3}"#),
        ];
        for (act, text) in known {
            // No other variant.
            let (Entered::AddVoter(_)
            | Entered::RemoveVoter(_)
            | Entered::RaiseKraftVersion
            | Entered::Uncordon(_)) = act;
            assert_eq!(serde_json::to_string(&act).unwrap(), text);
        }
    }
}
