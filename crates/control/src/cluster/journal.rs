//! The outcomes of acts that later decisions depend on.
//!
//! 1. An act that a decision retries is entered before it is sent, with the answer [`Answer::Unknown`]: an operator
//!    that dies in between finds exactly what it knows.
//! 2. An act whose outcome is unknown is in the journal already and is sent again without another entry: an operator
//!    that dies after every write still gets to send it.
//! 3. The answer replaces that entry. An act that succeeded needs no entry: the next snapshot shows its effect.
//! 4. An entry belongs to one subject. A different subject, such as another directory id, starts from nothing.

use model::NodeId;
use serde::{Deserialize, Serialize};

use crate::quorum::answer::{Answer, Then, is_success, then};

/// The delay before an act whose outcome the next snapshot shows is sent again. A controller that has just
/// started needs some seconds to be found by the leader.
pub const RETRY_MS: u64 = 2_000;
/// The delay before an act that Kafka called invalid is sent again without a change of its subject.
pub const HOLD_MS: u64 = 300_000;
/// An act that is entered.
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
    /// Unregistering a broker.
    Unregister(NodeId),
}

/// The last outcome of an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The act.
    pub act: Entered,
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Journal {
    entries: Vec<Entry>,
}

/// Whether an act may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit<'a> {
    /// Now.
    Now,
    /// After a short delay.
    Later,
    /// Not before its subject changes, or a long delay is over: Kafka called it invalid.
    Held(&'a Entry),
}

impl Journal {
    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entry of an act.
    #[must_use]
    pub fn get(&self, act: Entered) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.act == act)
    }

    /// All entries, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Enters an act that is about to be sent.
    pub fn begin(&mut self, act: Entered, subject: &str, now_ms: u64) {
        let is_same = |entry: &Entry| entry.act == act && entry.subject == subject;
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
    pub fn end(&mut self, act: Entered, answer: Answer, message: Option<String>, now_ms: u64) {
        if answer == Answer::NotSent {
            return;
        }
        if is_success(act, answer) {
            self.take(act);
        } else if let Some(entry) = self.entries.iter_mut().find(|entry| entry.act == act) {
            (entry.answer, entry.message, entry.at_ms) = (answer, message, now_ms);
            entry.attempts = entry.attempts.saturating_add(1);
        }
    }

    /// Drops the entry of an act whose effect was seen.
    pub fn clear(&mut self, act: Entered) {
        self.take(act);
    }

    /// Whether an act may be sent now.
    #[must_use]
    pub fn permit(&self, act: Entered, subject: &str, now_ms: u64) -> Permit<'_> {
        let Some(entry) = self.get(act).filter(|entry| entry.subject == subject) else {
            return Permit::Now;
        };
        // A clock that went back must not hold an act for ever.
        let since = now_ms.checked_sub(entry.at_ms).unwrap_or(HOLD_MS);
        match then(entry.answer) {
            Then::Hold if since < HOLD_MS => Permit::Held(entry),
            Then::DescribeAgain | Then::AskMode if since < RETRY_MS => Permit::Later,
            Then::Hold | Then::DescribeAgain | Then::AskMode => Permit::Now,
        }
    }

    fn take(&mut self, act: Entered) -> Option<Entry> {
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
    fn what_was_not_sent_is_no_attempt() {
        let mut journal = Journal::default();
        journal.begin(add(3), "disk", 1);
        let before = journal.clone();
        journal.end(add(3), Answer::NotSent, Some("this process does not lead".to_owned()), 2);
        assert_eq!(journal, before);
    }
}
