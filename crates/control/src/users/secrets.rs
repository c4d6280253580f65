//! Which passwords of users are set in Kafka, and which are deleted.
//!
//! A user is a Secret that holds a password, and our finalizer on it says that we are to bring it to
//! Kafka. Kafka never tells what a password is, only whose it has one; so a mark on the Secret
//! remembers what Kafka was given.
//!
//! 1. Nothing is sent when nothing changed.
//! 2. Only a credential that we made is ever changed or deleted: the mark is written before the first
//!    change in Kafka, and without it a credential in Kafka is somebody else's.
//! 3. A Secret is let go of only when its credential is gone.
//! 4. Every list of acts can be broken off anywhere and is continued by the next pass.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What a Secret remembers of what Kafka was given. Fingerprints are of the password and the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mark {
    /// Nothing was ever given.
    None,
    /// This password was about to be given; it may have been.
    Setting(String),
    /// This password was given.
    Set(String),
}

/// A Secret with a user's password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// The name of the Secret, and of the user.
    pub name: String,
    /// Whether our finalizer is on it.
    pub ours: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The fingerprint of the password in it; `None` if there is none to be read.
    pub wanted: Option<String>,
    /// What it remembers.
    pub mark: Mark,
}

/// What to do, in this order, and what to tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub acts: Vec<Act>,
    /// What a person should know.
    pub notes: Vec<Note>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Mark the Secret.
    Remember {
        /// The user.
        user: String,
        /// With what.
        mark: Mark,
    },
    /// Give Kafka the password.
    Set {
        /// The user.
        user: String,
    },
    /// Take the credential out of Kafka.
    Delete {
        /// The user.
        user: String,
    },
    /// Take our finalizer off the Secret.
    Release {
        /// The user.
        user: String,
    },
}

/// Something a person should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Kafka has a credential of that name that was not made from the Secret.
    Taken {
        /// The user.
        user: String,
    },
    /// The Secret has no password.
    NoPassword {
        /// The user.
        user: String,
    },
}

/// Decides what to do about the users of a cluster. `known` are those for whom Kafka has a credential; if
/// it could not be asked, nothing is decided.
#[must_use]
pub fn decide(users: &[User], known: Option<&BTreeSet<String>>) -> Decision {
    let mut decision = Decision::default();
    let Some(known) = known else { return decision };
    for user in users.iter().filter(|user| user.ours) {
        let is_known = known.contains(&user.name);
        match user.deleting {
            true => removed(user, is_known, &mut decision),
            false => kept(user, is_known, &mut decision),
        }
    }
    decision
}

fn removed(user: &User, is_known: bool, decision: &mut Decision) {
    let name = || user.name.clone();
    let made_by_us = match &user.mark {
        Mark::None => false,
        Mark::Setting(_) | Mark::Set(_) => true,
    };
    if made_by_us && is_known {
        decision.acts.push(Act::Delete { user: name() });
    }
    decision.acts.push(Act::Release { user: name() });
}

fn kept(user: &User, is_known: bool, decision: &mut Decision) {
    let name = || user.name.clone();
    let Some(wanted) = &user.wanted else {
        decision.notes.push(Note::NoPassword { user: name() });
        return;
    };
    let remember = |mark| Act::Remember { user: name(), mark };
    let remembered = match &user.mark {
        Mark::None if is_known => {
            decision.notes.push(Note::Taken { user: name() });
            return;
        }
        Mark::Set(given) if given == wanted && is_known => return,
        // Somebody has deleted it in Kafka.
        Mark::Set(given) if given == wanted => {
            decision.acts.push(Act::Set { user: name() });
            return;
        }
        Mark::Setting(given) => given == wanted,
        Mark::None | Mark::Set(_) => false,
    };
    if !remembered {
        decision.acts.push(remember(Mark::Setting(wanted.clone())));
    }
    decision.acts.push(Act::Set { user: name() });
    decision.acts.push(remember(Mark::Set(wanted.clone())));
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken { user } => write!(
                f,
                "Kafka has a SCRAM credential of {user} that was not made from the Secret {user}: it is \
                 left unchanged; delete it in Kafka, or the Secret"
            ),
            Self::NoPassword { user } => {
                write!(f, "the Secret of user {user} has no entry \"password\" with a text in it")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(mark: Mark) -> User {
        let wanted = Some("new".to_owned());
        User { name: "u".to_owned(), ours: true, deleting: false, wanted, mark }
    }

    fn set(text: &str) -> Mark {
        Mark::Set(text.to_owned())
    }

    fn setting(text: &str) -> Mark {
        Mark::Setting(text.to_owned())
    }

    fn known(is_known: bool) -> BTreeSet<String> {
        is_known.then(|| "u".to_owned()).into_iter().collect()
    }

    /// The acts by their letters: r(emember) setting, R(emember) set, S(et), D(elete), F(ree).
    fn acts(user: &User, is_known: bool) -> String {
        let letter = |act: &Act| match act {
            Act::Remember { mark: Mark::Set(_), .. } => 'R',
            Act::Remember { mark: Mark::Setting(_) | Mark::None, .. } => 'r',
            Act::Set { .. } => 'S',
            Act::Delete { .. } => 'D',
            Act::Release { .. } => 'F',
        };
        let decision = decide(std::slice::from_ref(user), Some(&known(is_known)));
        decision.acts.iter().map(letter).collect()
    }

    #[test]
    fn a_password_is_given_once_and_again_when_it_changes() {
        let rows = [
            (Mark::None, false, "rSR"),
            (Mark::None, true, ""),
            (setting("new"), false, "SR"),
            (setting("new"), true, "SR"),
            (setting("old"), true, "rSR"),
            (set("new"), true, ""),
            (set("new"), false, "S"),
            (set("old"), true, "rSR"),
            (set("old"), false, "rSR"),
        ];
        for (mark, is_known, expected) in rows {
            assert_eq!(acts(&user(mark.clone()), is_known), expected, "{mark:?} {is_known}");
        }
    }

    #[test]
    fn only_what_we_made_is_deleted_and_the_secret_goes_last() {
        let rows = [
            (Mark::None, true, "F"),
            (Mark::None, false, "F"),
            (setting("x"), true, "DF"),
            (setting("x"), false, "F"),
            (set("x"), true, "DF"),
            (set("x"), false, "F"),
        ];
        for (mark, is_known, expected) in rows {
            let deleting = User { deleting: true, wanted: None, ..user(mark.clone()) };
            assert_eq!(acts(&deleting, is_known), expected, "{mark:?} {is_known}");
            let theirs = User { ours: false, ..deleting };
            assert_eq!(acts(&theirs, is_known), "");
        }
    }

    #[test]
    fn nothing_is_decided_without_kafka() {
        let all = [user(Mark::None), User { deleting: true, ..user(set("x")) }];
        assert_eq!(decide(&all, None), Decision::default());
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        let note = |user: User, is_known| {
            let decision = decide(&[user], Some(&known(is_known)));
            assert_eq!(decision.acts, []);
            decision.notes.into_iter().map(|note| note.to_string()).collect::<String>()
        };
        assert!(note(user(Mark::None), true).contains("left unchanged"));
        let empty = User { wanted: None, ..user(set("x")) };
        assert!(note(empty, true).contains("no entry \"password\""));
    }

    /// Every prefix of the acts, and what the next pass does after it, ends where all acts end.
    #[test]
    fn a_list_that_is_broken_off_is_continued() {
        for stop in 0..=3 {
            let mut one = user(Mark::None);
            let mut in_kafka = None;
            let mut limit = stop;
            for _ in 0..4 {
                let names = known(in_kafka.is_some());
                for act in decide(std::slice::from_ref(&one), Some(&names)).acts {
                    if limit == 0 {
                        break;
                    }
                    limit -= 1;
                    match act {
                        Act::Remember { mark, .. } => one.mark = mark,
                        Act::Set { .. } => in_kafka.clone_from(&one.wanted),
                        Act::Delete { .. } | Act::Release { .. } => panic!("nothing is deleted"),
                    }
                }
                limit = usize::MAX;
            }
            assert_eq!((one.mark, in_kafka), (set("new"), Some("new".to_owned())), "{stop}");
        }
    }
}
