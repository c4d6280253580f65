//! One broker that is to go.
//!
//! Leaving is the removal of the node, or of its broker role; a whole pool that is deleted is its nodes.
//!
//! 1. A broker is stopped only when it is known to hold nothing, read after its cordon was seen to hold. One that Kafka
//!    has fenced or does not know may not answer, and is stopped without a cordon. Kafka places replicas on a fenced
//!    broker only where it has too few others, and only followers that were never in sync: they are found by 5 and 6.
//! 2. What could not be read is not empty. Only the user can waive the check.
//! 3. A broker of a running rebalance is not stopped before that has ended.
//! 4. A node that votes is not stopped; the quorum planner says when it is free.
//! 5. After the stop the assignments are read again, when Kafka has fenced the broker. What has landed there
//!    meanwhile brings the broker back.
//! 6. Only a broker that does not run, is fenced and holds nothing is unregistered, and only when Kafka has
//!    forgotten it are its claims deleted. That it has no partitions is read in the same pass, each time.
//! 7. Until then the removal can be cancelled at any moment, and the broker runs again.
//! 8. The last broker stays.
//!
//! The first check of a scale-down reverts the whole pool; here each broker goes its own way, so that what is
//! free is freed. `tests/scale_down.rs` finds no order of events in which a claim is deleted while a replica
//! is assigned to its broker.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::quorum::plan;
use crate::registration::{KafkaVersion, MetadataVersion};
use crate::words::count;

/// How far a leaving broker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// It is to go; nothing has been done.
    Requested,
    /// It holds replicas, which have to be moved first, by a rebalance or by a person.
    Draining,
    /// It holds nothing, and is being closed for new replicas.
    Cordoning,
    /// It is closed, and is looked at once more.
    Cordoned,
    /// It is being stopped.
    Stopping,
    /// It does not run as a broker any more, and is looked at once more.
    Stopped,
    /// it is being unregistered.
    Unregistering,
    /// Its claims are being deleted.
    Cleaning,
    /// There is no trace of it.
    Done,
    /// The removal was cancelled: it is being brought back.
    Returning,
    /// It is a broker as before.
    Kept,
}

use Phase::{
    Cleaning, Cordoned, Cordoning, Done, Draining, Kept, Requested, Returning, Stopped, Stopping,
    Unregistering,
};

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// It turned out to hold replicas.
    Busy,
    /// It holds nothing.
    Emptied,
    /// It takes no new replicas, or cannot be asked not to.
    Closed,
    /// It still holds nothing.
    StillEmpty,
    /// A replica has landed there after all.
    Refilled,
    /// It does not run as a broker any more.
    Ended,
    /// Kafka has forgotten it.
    Forgotten,
    /// Its claims are gone, or are to be kept.
    Cleaned,
    /// It is desired again.
    TakenBack,
    /// It runs and is open again.
    Back,
    /// It is to go after all.
    AskedAgain,
}

use Event::{
    AskedAgain, Back, Busy, Cleaned, Closed, Emptied, Ended, Forgotten, Refilled, StillEmpty,
    TakenBack,
};

/// The whole machine. A pair that is not listed is a bug in [`read`], not a no-op.
#[rustfmt::skip]
pub const TRANSITIONS: &[(Phase, Event, Phase)] = &[
    (Requested,     Busy,       Draining),
    (Requested,     Emptied,    Cordoning),
    (Requested,     TakenBack,  Returning),     // an earlier cordon may still be there
    (Draining,      Emptied,    Cordoning),
    (Draining,      TakenBack,  Returning),
    (Cordoning,     Refilled,   Draining),
    (Cordoning,     Closed,     Cordoned),
    (Cordoning,     TakenBack,  Returning),
    (Cordoned,      Refilled,   Draining),
    (Cordoned,      StillEmpty, Stopping),
    (Cordoned,      TakenBack,  Returning),
    (Stopping,      Refilled,   Draining),      // a new topic landed here before the stop
    (Stopping,      Ended,      Stopped),
    (Stopping,      TakenBack,  Returning),
    (Stopped,       Refilled,   Draining),      // or just then: the broker runs again
    (Stopped,       StillEmpty, Unregistering),
    (Stopped,       TakenBack,  Returning),
    (Unregistering, Refilled,   Draining),
    (Unregistering, Forgotten,  Cleaning),
    (Unregistering, TakenBack,  Returning),
    (Cleaning,      Cleaned,    Done),          // too late to take back; it comes again as a new node
    (Returning,     Back,       Kept),
    (Returning,     AskedAgain, Requested),
];

/// The ends.
pub const FINAL: &[Phase] = &[Done, Kept];

/// What the shell keeps doing, again and again, until the phase is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duty {
    /// Whether the node runs as a broker. If not, it has no pod, or is restarted without that role.
    pub runs: bool,
    /// Whether it is closed for new replicas, where Kafka can do that. A broker that is not leaving is open:
    /// what is left of a former one with its id is cleared.
    pub cordoned: bool,
    /// Whether Kafka should forget it ([`crate::registration::unregister`] looks once more).
    pub unregister: bool,
    /// Whether its claims are deleted, if they are to be.
    pub delete_claims: bool,
}

/// What a phase asks for.
#[must_use]
pub const fn duty(phase: Phase) -> Duty {
    let running = Duty { runs: true, cordoned: false, unregister: false, delete_claims: false };
    let stopped = Duty { runs: false, cordoned: true, unregister: false, delete_claims: false };
    match phase {
        Requested | Returning | Kept => running,
        Draining | Cordoning | Cordoned => Duty { cordoned: true, ..running },
        Stopping | Stopped => stopped,
        Unregistering => Duty { unregister: true, ..stopped },
        // A node that comes again under this id must not find the cordon of its predecessor.
        Cleaning | Done => Duty { cordoned: false, delete_claims: true, ..stopped },
    }
}

/// What is known of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Whether it is desired as a broker, now.
    pub desired: bool,
    /// How many partitions have a replica there or are to get one. `None` if it could not be read.
    pub partitions: Option<usize>,
    /// Whether the user gave up the check for them (`strimzi.io/skip-broker-scaledown-check`).
    pub skip_check: bool,
    /// Whether a rebalance holds it: one that moves its replicas and has not ended. `None` if not known.
    pub held: Option<bool>,
    /// Whether it takes new replicas. `None` if not known.
    pub cordon: Option<Cordon>,
    /// Whether the quorum lets the node go. A node that is no controller, or stays one, is free.
    pub quorum: Result<(), plan::Hold>,
    /// Whether it runs, or may run, as a broker: its pod is there in any phase, unless it was started
    /// without that role. `None` if the pods could not be listed.
    pub runs: Option<bool>,
    /// What Kafka says of it. `None` if it could not be asked.
    pub registration: Option<Registration>,
    /// Whether claims of it that are to be deleted are left. `None` if they could not be listed.
    pub claims_left: Option<bool>,
    /// Whether another broker stays.
    pub others_stay: bool,
}

/// Whether a broker takes new replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cordon {
    /// This Kafka, or this metadata version, cannot close a broker: both have to be 4.3.
    Unsupported,
    /// It takes new replicas.
    Open,
    /// It takes none.
    Closed,
}

/// The first Kafka that can close a broker.
const FIRST_TO_CORDON: KafkaVersion = KafkaVersion::new(4, 3, 0);
/// The first metadata version at which Kafka heeds it; below, the setting is taken and does nothing.
const CORDON_HEEDED: MetadataVersion = MetadataVersion { major: 4, minor: 3, iv: 0 };

impl Cordon {
    /// What is known of it, from the Kafka that the broker runs, the finalized level of `metadata.version`,
    /// and whether `cordoned.log.dirs` names all its directories.
    #[must_use]
    pub fn of(
        kafka: Option<KafkaVersion>,
        metadata_level: Option<i16>,
        closed: Option<bool>,
    ) -> Option<Self> {
        if kafka? < FIRST_TO_CORDON || Some(metadata_level?) < CORDON_HEEDED.level() {
            return Some(Self::Unsupported);
        }
        Some(if closed? { Self::Closed } else { Self::Open })
    }
}

/// What Kafka says of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// It takes part, or did a moment ago.
    Live,
    /// It is known and takes no part.
    Fenced,
    /// It is not known.
    Gone,
}

impl Facts {
    fn is_empty(&self) -> bool {
        self.skip_check || self.partitions == Some(0)
    }

    fn is_busy(&self) -> bool {
        !self.skip_check && self.partitions.is_some_and(|partitions| partitions > 0)
    }

    /// Whether nothing but replicas stands in the way of the stop (3, 8).
    fn is_free(&self) -> bool {
        self.held == Some(false) && self.others_stay
    }

    /// Whether it may be looked at for the last time before it is stopped: it takes no new replicas, or cannot be asked
    /// not to, because it hangs or does not start. Whatever comes to such a broker is found after the stop (5).
    fn is_closed(&self) -> bool {
        let closed = matches!(self.cordon, Some(Cordon::Closed | Cordon::Unsupported));
        closed || self.skip_check || (self.is_out() && self.cordon.is_none())
    }

    /// Whether it takes no part in the cluster.
    const fn is_out(&self) -> bool {
        matches!(self.registration, Some(Registration::Fenced | Registration::Gone))
    }

    fn has_left(&self) -> bool {
        self.is_out() && self.runs == Some(false)
    }

    fn is_back(&self) -> bool {
        let open = matches!(self.cordon, Some(Cordon::Open | Cordon::Unsupported));
        open && self.runs == Some(true)
    }
}

/// Reads the facts in the light of the phase. An unknown fact makes no rule hold, so we wait.
#[must_use]
pub fn read(phase: Phase, facts: &Facts) -> Option<Event> {
    let first = |rules: &[(bool, Event)]| rules.iter().find(|(holds, _)| *holds).map(|(_, e)| *e);
    let taken_back = (facts.desired, TakenBack);
    let refilled = (facts.is_busy(), Refilled);
    match phase {
        Requested => {
            let emptied = (facts.is_empty() && facts.is_free(), Emptied);
            first(&[taken_back, (facts.is_busy(), Busy), emptied])
        }
        Draining => first(&[taken_back, (facts.is_empty() && facts.is_free(), Emptied)]),
        Cordoning => first(&[taken_back, refilled, (facts.is_closed(), Closed)]),
        Cordoned => {
            let may_stop = facts.is_empty() && facts.is_free() && facts.quorum.is_ok();
            first(&[taken_back, refilled, (facts.is_closed() && may_stop, StillEmpty)])
        }
        Stopping => first(&[taken_back, refilled, (facts.runs == Some(false), Ended)]),
        Stopped => {
            first(&[taken_back, refilled, (facts.has_left() && facts.is_empty(), StillEmpty)])
        }
        Unregistering => {
            let gone = facts.registration == Some(Registration::Gone) && facts.runs == Some(false);
            first(&[taken_back, refilled, (gone && facts.is_empty(), Forgotten)])
        }
        Cleaning => first(&[(facts.claims_left == Some(false), Cleaned)]),
        Returning => first(&[(!facts.desired, AskedAgain), (facts.is_back(), Back)]),
        Done | Kept => None,
    }
}

/// The phase that an event leads to; `None` for a pair that is not in the table.
#[must_use]
pub fn next(phase: Phase, event: Event) -> Option<Phase> {
    TRANSITIONS.iter().find(|(from, on, _)| (*from, *on) == (phase, event)).map(|(.., to)| *to)
}

/// What a leaving broker waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// So many partitions have replicas there, and whether a rebalance moves them.
    Partitions {
        /// How many.
        partitions: usize,
        /// Whether they are being moved.
        moving: bool,
    },
    /// Which partitions have replicas there could not be read.
    PartitionsUnknown,
    /// A rebalance that it takes part in.
    Rebalance,
    /// It would be the last broker.
    LastBroker,
    /// It has to take no new replicas first.
    Cordon,
    /// It is needed, or may be, as a controller.
    Quorum(plan::Hold),
    /// Its process has to end.
    Process,
    /// Kafka has not noticed yet that it is gone.
    Fence,
    /// Kafka has to forget it.
    Registration,
    /// Its claims have to go.
    Claims,
    /// It has to run again.
    Return,
}

/// What the phase waits for; `None` if nothing is awaited, or the next pass goes on by itself.
#[must_use]
pub fn hold(phase: Phase, facts: &Facts) -> Option<Hold> {
    if read(phase, facts).is_some() {
        return None;
    }
    match phase {
        Requested | Draining => replicas_hold(facts).or_else(|| freedom_hold(facts)),
        Cordoning => Some(Hold::Cordon),
        Cordoned => replicas_hold(facts)
            .or_else(|| freedom_hold(facts))
            .or_else(|| facts.quorum.err().map(Hold::Quorum))
            .or(Some(Hold::Cordon)),
        Stopping => Some(Hold::Process),
        Stopped if !facts.has_left() => Some(Hold::Fence),
        Stopped => replicas_hold(facts),
        Unregistering if facts.registration != Some(Registration::Gone) => Some(Hold::Registration),
        Unregistering => replicas_hold(facts).or(Some(Hold::Registration)),
        Cleaning => Some(Hold::Claims),
        Returning => Some(Hold::Return),
        Done | Kept => None,
    }
}

fn replicas_hold(facts: &Facts) -> Option<Hold> {
    match facts.partitions {
        _ if facts.is_empty() => None,
        Some(partitions) => Some(Hold::Partitions { partitions, moving: facts.held == Some(true) }),
        None => Some(Hold::PartitionsUnknown),
    }
}

fn freedom_hold(facts: &Facts) -> Option<Hold> {
    if !facts.others_stay {
        return Some(Hold::LastBroker);
    }
    (facts.held != Some(false)).then_some(Hold::Rebalance)
}

impl Hold {
    /// Whether it is worth a warning: somebody may have to do something. The others pass by themselves.
    #[must_use]
    pub const fn is_warning(&self) -> bool {
        match self {
            Self::Partitions { .. }
            | Self::PartitionsUnknown
            | Self::LastBroker
            | Self::Quorum(plan::Hold::Refused) => true,
            Self::Rebalance
            | Self::Cordon
            | Self::Quorum(
                plan::Hold::Unknown
                | plan::Hold::Votes
                | plan::Hold::Leads
                | plan::Hold::NotCommitted,
            )
            | Self::Process
            | Self::Fence
            | Self::Registration
            | Self::Claims
            | Self::Return => false,
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partitions { partitions, moving: true } => {
                write!(
                    f,
                    "a rebalance moves its {} to other brokers",
                    count(*partitions, "partition")
                )
            }
            Self::Partitions { partitions, moving: false } => write!(
                f,
                "it still has {}: move them to other brokers, or cancel the scale-down",
                count(*partitions, "partition")
            ),
            Self::PartitionsUnknown => f.write_str("it is unknown whether it still has partitions"),
            Self::Rebalance => f.write_str("a rebalance that it takes part in has not ended"),
            Self::LastBroker => f.write_str("it would be the last broker"),
            Self::Cordon => f.write_str("it is being cordoned"),
            Self::Quorum(hold) => write!(f, "as a controller: {hold}"),
            Self::Process => f.write_str("it is being stopped"),
            Self::Fence => f.write_str("Kafka has not noticed yet that it is gone"),
            Self::Registration => f.write_str("it is being unregistered"),
            Self::Claims => f.write_str("its claims are being deleted"),
            Self::Return => f.write_str("it is being brought back"),
        }
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
