//! What is said of the planner's decisions: a word for programs, a sentence for people.

use std::fmt;

use super::plan::{Hold, QuorumLost, Refusal, Removal, Step, Waiting, Warning};
use crate::cluster::validate;
use crate::conditions::{Note, Reason};
use crate::words::list;

impl Step {
    /// What to tell about it; nothing if the voters are settled.
    #[must_use]
    pub fn note(&self) -> Option<Note> {
        let word = match self {
            Self::Settled => return None,
            Self::Add { .. } => Reason::AddingController,
            Self::Remove { .. } => Reason::RemovingController,
            Self::Wait(_) => Reason::QuorumWaiting,
            Self::Refuse(_) => Reason::ControllerScaleDownRefused,
            Self::QuorumLost(_) => Reason::QuorumLost,
            Self::StaticRefused { .. } => Reason::StaticQuorum,
        };
        Some(Note::new(word, self.to_string()))
    }
}

impl Warning {
    /// What to tell about it.
    #[must_use]
    pub fn note(&self) -> Note {
        let word = match self {
            Self::EvenCount(_) => Reason::Spec(validate::Reason::KafkaKRaftControllerNodeCount),
            Self::CannotAdd { .. } => Reason::ControllerNotAdded,
        };
        Note::new(word, self.to_string())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { id, .. } => write!(f, "controller {id} is added to the voters"),
            Self::Remove { id, why: Removal::Dead, .. } => {
                write!(
                    f,
                    "controller {id}, which is gone or far behind, is removed from the voters"
                )
            }
            Self::Remove { id, why: Removal::DiskReplaced, directory } => write!(
                f,
                "controller {id} has another disk: its entry with the former directory id \
                 {directory} is removed from the voters, and it is added again"
            ),
            Self::Remove { id, why: Removal::NotDesired, .. } => {
                write!(f, "controller {id} is removed from the voters")
            }
            Self::Wait(waiting) => {
                let all: Vec<String> = waiting.iter().map(ToString::to_string).collect();
                f.write_str(&all.join("; "))
            }
            Self::Settled => f.write_str("the voters match the spec"),
            Self::Refuse(refusal) => refusal.fmt(f),
            Self::QuorumLost(QuorumLost { lost, left }) => write!(
                f,
                "the metadata is lost: controllers {} have restarted with other disks, and {} \
                 cannot be a majority. Restore the old disks; nothing is changed until then",
                list(lost),
                list(left)
            ),
            Self::StaticRefused { add, remove } => {
                f.write_str("the quorum is static, so its controllers stay as they are (")?;
                let mut parts = Vec::new();
                if !add.is_empty() {
                    parts.push(format!("not added: {}", list(add)));
                }
                if !remove.is_empty() {
                    parts.push(format!("not removed: {}", list(remove)));
                }
                write!(
                    f,
                    "{}): annotate the Kafka resource with strimzi.io/kraft-quorum-migration: \"true\" \
                     to make it dynamic",
                    parts.join("; ")
                )
            }
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode => f.write_str("it is not known whether the quorum is static or dynamic"),
            Self::NotDescribed => f.write_str("the quorum could not be described"),
            Self::Leader => f.write_str("the quorum is about to have a new leader"),
            Self::Majority { caught_up, voters, behind } => write!(
                f,
                "only {caught_up} of {voters} voters have caught up; behind: {}",
                list(behind)
            ),
            Self::Pod(id) => write!(f, "controller {id} does not run as a controller yet"),
            Self::Disk(id) => write!(f, "the directory id of controller {id} is unknown"),
            Self::CatchUp(id) => write!(f, "controller {id} has not caught up yet"),
            Self::DiskContradicts(id) => {
                write!(f, "controller {id} has another disk, but is still a voter with the old one")
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoControllers => f.write_str("no controller would be left: all stay"),
            Self::NoMajority { keep, behind, left } => write!(
                f,
                "controllers {} stay: the voters that would be left ({left} in all) have no majority that \
                 has caught up; behind: {}. Start these, or change the spec",
                list(keep),
                list(behind)
            ),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EvenCount(2) => f.write_str(
                "two controllers are not advisable: both are needed, so each is a single point of \
                 failure",
            ),
            Self::EvenCount(count) => write!(
                f,
                "{count} controllers tolerate no more failures than {}: an odd number is recommended",
                count - 1
            ),
            Self::CannotAdd { id, times } => write!(
                f,
                "controller {id} could not be added to the voters {times} times in a row: see its log, \
                 and whether the other controllers reach it"
            ),
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "it is unknown whether it is a voter",
            Self::Votes => "it is still a voter",
            Self::Refused => "it stays a voter, because its removal is refused",
            Self::Leads => "it still leads the quorum while it leaves",
            Self::NotCommitted => "its removal from the voters has not reached a majority yet",
        })
    }
}
