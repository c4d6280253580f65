//! What one node goes through while it is restarted, or while it is not well by itself.
//!
//! 1. A restart is recorded with the uid of the pod before the pod is deleted. The deletion is repeated
//!    only while that very pod is there, and only if it is safe then: `Unsafe` takes the record back.
//! 2. A node is left unchanged until its pod is ready, its replicas are in sync and it leads what it should;
//!    each of these waits has an end.
//! 3. A node that recovers its logs is waited for without an end, and never restarted. One whose JVM hangs recovers
//!    nothing, and so does one whose pod is being deleted. One that cannot be asked for as long as a pod may take to
//!    become ready counts as one of which nothing is known.
//! 4. Unknown is not absent: a pod that could not be read raises no event.
//! 5. A pod that is being deleted and does not go, as on a machine that is gone, is not waited for without an end
//!    either: the node is late, and the others go on as far as they can without it. The time begins when the grace
//!    period of the pod is over: until then it shuts down.
//! 6. A broker cannot become ready while the quorum has no leader. The time for which it is waited for begins when
//!    there is one.
//!
//! Which nodes are chosen, and what is unsafe, is for [`super::pass`] to say: it depends on the others.

use serde::{Deserialize, Serialize};

use super::facts::{Pod, Recovery, Settings};
use super::stuck::Stuck;

use Event::*;
use Phase::*;

/// Where a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Phase {
    /// It is ready, and nothing is under way.
    #[default]
    Serving,
    /// Its pod is being deleted, to be made anew.
    Restarting,
    /// Its pod is not ready yet.
    Awaited,
    /// It recovers its logs.
    Recovering,
    /// Its pod cannot start.
    Stuck,
    /// Its pod has not become ready in time.
    Late,
    /// Its pod is ready again, but not all of its replicas are in sync.
    Healing,
    /// It is given back the leaderships that it should have.
    Electing,
}

/// What happens to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// It is its turn to be restarted.
    Chosen,
    /// The pod is untouched, and deleting it is not safe any more.
    Unsafe,
    /// The pod that was to be deleted is gone.
    Gone,
    /// There is no ready pod.
    Unready,
    /// There is another pod than before, or none.
    Replaced,
    /// It has begun to recover its logs.
    Recovers,
    /// It has ended to, or cannot be asked any more.
    Recovered,
    /// The pod cannot start.
    GotStuck,
    /// Or perhaps it can.
    GotLoose,
    /// The pod was not ready in time, or not gone.
    TookTooLong,
    /// The quorum has no leader, which the broker has to find before it can become ready.
    NoLeader,
    /// The pod is ready.
    BecameReady,
    /// All its replicas are in sync.
    Healed,
    /// It is well, and there are no leaderships to give back.
    Rejoined,
    /// Its replicas were not in sync in time.
    HealTookTooLong,
    /// It leads what it should.
    Leads,
    /// It does not, and is not waited for any longer.
    ElectionTookTooLong,
}

/// The whole machine. A pair that is not listed is a bug in [`read`], not a no-op.
#[rustfmt::skip]
pub const TRANSITIONS: &[(Phase, Event, Phase)] = &[
    (Serving,    Chosen,              Restarting),
    (Serving,    Unready,             Awaited),
    (Restarting, Gone,                Awaited),
    (Restarting, Unsafe,              Serving),    // the operator was away between record and act
    (Restarting, TookTooLong,         Late),       // its machine is gone, and the pod stays
    (Awaited,    BecameReady,         Healing),
    (Awaited,    Replaced,            Awaited),    // the new pod has the whole time
    (Awaited,    GotStuck,            Stuck),
    (Awaited,    Recovers,            Recovering),
    (Awaited,    NoLeader,            Awaited),    // the time begins anew
    (Awaited,    TookTooLong,         Late),
    (Recovering, BecameReady,         Healing),
    (Recovering, Replaced,            Awaited),
    (Recovering, GotStuck,            Stuck),
    (Recovering, Recovered,           Awaited),
    (Stuck,      Chosen,              Restarting), // only with an old revision
    (Stuck,      BecameReady,         Healing),
    (Stuck,      Replaced,            Awaited),
    (Stuck,      GotLoose,            Awaited),
    (Late,       Chosen,              Restarting),
    (Late,       BecameReady,         Healing),
    (Late,       Replaced,            Awaited),
    (Late,       GotStuck,            Stuck),
    (Late,       Recovers,            Recovering),
    (Healing,    Unready,             Awaited),
    (Healing,    Healed,              Electing),
    (Healing,    Rejoined,            Serving),
    (Healing,    HealTookTooLong,     Serving),
    (Electing,   Unready,             Awaited),
    (Electing,   Leads,               Serving),
    (Electing,   ElectionTookTooLong, Serving),
];

impl Phase {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Serving, Restarting, Awaited, Recovering, Stuck, Late, Healing, Electing];
}

/// What the shell keeps doing until the phase is left. Each can be done again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Looking.
    Watch,
    /// Deleting the pod with the recorded uid, and only that one.
    DeletePod,
    /// Asking for elections of the preferred leaders.
    ElectPreferred,
}

/// What is to be done in a phase.
#[must_use]
pub const fn duty(phase: Phase) -> Duty {
    match phase {
        Restarting => Duty::DeletePod,
        Electing => Duty::ElectPreferred,
        Serving | Awaited | Recovering | Stuck | Late | Healing => Duty::Watch,
    }
}

/// What the machine looks at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// How it is stuck.
    pub stuck: Option<Stuck>,
    /// What it says of itself if it is not ready.
    pub recovery: Recovery,
    /// Whether its broker has not begun to serve, and cannot, since no leader of the quorum is known.
    pub leaderless: bool,
    /// Whether all its replicas are in sync, and its controller has caught up.
    pub healed: Option<bool>,
    /// Whether it has leaderships to be given back.
    pub elects: bool,
    /// Whether it leads what it should.
    pub leads: Option<bool>,
    /// The recorded pod.
    pub uid: Option<&'a str>,
    /// Since when it is in its phase.
    pub since_ms: u64,
    /// Since when its pod is waited for.
    pub awaited_ms: u64,
    /// Since when its pod should be gone, if it is being deleted: its grace period is over, or will be.
    pub deleting_ms: Option<u64>,
    /// Since when it cannot be asked whether it still recovers its logs.
    pub silent_ms: Option<u64>,
    /// Now.
    pub now_ms: u64,
}

/// Reads the facts in the light of the phase. An unknown fact makes no rule hold, so we wait.
#[must_use]
pub fn read(phase: Phase, facts: &Facts<'_>, settings: &Settings) -> Option<Event> {
    if *facts.pod == Pod::Unknown {
        return None;
    }
    let since = |ms: u64| facts.now_ms.saturating_sub(ms);
    let ready = facts.pod.is_ready();
    let replaced = facts.pod.uid() != facts.uid;
    let stuck = facts.stuck.is_some();
    let deleting = facts.pod.is_deleting();
    let recovers = matches!(facts.recovery, Recovery::Yes { .. }) && !deleting;
    let timeout_ms = settings.operation_timeout_ms;
    let is_silent = facts.silent_ms.is_some_and(|ms| since(ms) >= timeout_ms);
    let is_known = facts.recovery != Recovery::Unknown;
    let recovered = deleting || is_silent || (!recovers && is_known);
    // A pod that shuts down has its grace period, however long it is waited for.
    let late = since(facts.deleting_ms.unwrap_or(facts.awaited_ms)) >= timeout_ms;
    // Renewed before it is over: when there is a leader again, at least half of the time is left.
    let leaderless = facts.leaderless && since(facts.awaited_ms) >= timeout_ms / 2;
    let first = |rules: &[(bool, Event)]| rules.iter().find(|(holds, _)| *holds).map(|(_, e)| *e);
    match phase {
        Serving => first(&[(!ready, Unready)]),
        Restarting => {
            let lingers = facts.deleting_ms.is_some_and(|ms| since(ms) >= timeout_ms);
            first(&[(replaced, Gone), (lingers, TookTooLong)])
        }
        Awaited => first(&[
            (ready, BecameReady),
            (replaced, Replaced),
            (stuck, GotStuck),
            (recovers, Recovers),
            (leaderless, NoLeader),
            (late, TookTooLong),
        ]),
        Recovering => first(&[
            (ready, BecameReady),
            (replaced, Replaced),
            (stuck, GotStuck),
            (recovered, Recovered),
        ]),
        Stuck => first(&[(ready, BecameReady), (replaced, Replaced), (!stuck, GotLoose)]),
        Late => first(&[
            (ready, BecameReady),
            (replaced, Replaced),
            (stuck, GotStuck),
            (recovers, Recovers),
        ]),
        Healing => first(&[
            (!ready, Unready),
            (facts.healed == Some(true) && facts.elects, Healed),
            (facts.healed == Some(true), Rejoined),
            (since(facts.since_ms) >= settings.heal_timeout_ms, HealTookTooLong),
        ]),
        Electing => first(&[
            (!ready, Unready),
            (facts.leads == Some(true), Leads),
            (since(facts.since_ms) >= settings.elect_timeout_ms, ElectionTookTooLong),
        ]),
    }
}

/// The phase after an event; none if the pair is not in the table.
#[must_use]
pub fn next(phase: Phase, event: Event) -> Option<Phase> {
    let row = TRANSITIONS.iter().find(|(from, what, _)| (*from, *what) == (phase, event));
    row.map(|(_, _, to)| *to)
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
