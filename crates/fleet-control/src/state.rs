//! The states of a data plane, with the names they are stored and served by.

use std::fmt;
use std::str::FromStr;

/// Where a data plane is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlaneState {
    /// It is to be created.
    Accepted,
    /// The provider creates it.
    Provisioning,
    /// It is there, and the agent is being installed.
    Provisioned,
    /// Nothing is known of its room: the agent has not said, is not ready, or has fallen silent.
    WaitingForAgent,
    /// There is room for one more Kafka of Model T.
    Ready,
    /// There is no capacity, and a step up is permitted.
    ScalingUp,
    /// There is no capacity, and no step up is permitted.
    Full,
    /// The provider could not create it. A person has to look.
    Failed,
    /// The provider deletes it.
    Deprovisioning,
    /// The provider has deleted it; what it had elsewhere is being removed.
    Cleanup,
}

use PlaneState::{
    Accepted, Cleanup, Deprovisioning, Failed, Full, Provisioned, Provisioning, Ready, ScalingUp,
    WaitingForAgent,
};

/// Every change of state there is, and what brings it about.
#[rustfmt::skip]
pub const TRANSITIONS: &[(PlaneState, PlaneState, &str)] = &[
    (Accepted,        Provisioning,    "the provider creates it"),
    (Accepted,        Deprovisioning,  "an administrator deleted it before it was created"),
    (Provisioning,    Provisioned,     "the provider reports that it exists"),
    (Provisioning,    Failed,          "the provider reports a failure"),
    (Provisioning,    Deprovisioning,  "an administrator deleted it"),
    (Provisioned,     WaitingForAgent, "the agent is installed"),
    (Provisioned,     Deprovisioning,  "an administrator deleted it"),
    (WaitingForAgent, Ready,           "a report with room"),
    (WaitingForAgent, ScalingUp,       "a report without room, and a step is permitted"),
    (WaitingForAgent, Full,            "a report without room, and no step is permitted"),
    (WaitingForAgent, Deprovisioning,  "an administrator deleted it"),
    (Ready,           ScalingUp,       "a report without room, and a step is permitted"),
    (Ready,           Full,            "a report without room, and no step is permitted"),
    (Ready,           WaitingForAgent, "the agent is not ready, or silent"),
    (Ready,           Deprovisioning,  "empty with a ready sibling, or an administrator deleted it"),
    (ScalingUp,       Ready,           "a report with room"),
    (ScalingUp,       Full,            "a report without room, and no step is permitted"),
    (ScalingUp,       WaitingForAgent, "the agent is not ready, or silent"),
    (ScalingUp,       Deprovisioning,  "an administrator deleted it"),
    (Full,            Ready,           "a report with room"),
    (Full,            ScalingUp,       "a report without room, and a step is permitted"),
    (Full,            WaitingForAgent, "the agent is not ready, or silent"),
    (Full,            Deprovisioning,  "an administrator deleted it"),
    (Failed,          Deprovisioning,  "an administrator deleted it"),
    (Deprovisioning,  Ready,           "no longer empty, or no ready sibling, before the provider was asked"),
    (Deprovisioning,  Cleanup,         "the provider reports that it is gone"),
];

/// All of them, in the order of a life.
pub(super) const ALL: [PlaneState; 10] = [
    Accepted,
    Provisioning,
    Provisioned,
    WaitingForAgent,
    Ready,
    ScalingUp,
    Full,
    Failed,
    Deprovisioning,
    Cleanup,
];

impl PlaneState {
    /// The name that is stored and served.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Accepted => "cluster_accepted",
            Provisioning => "cluster_provisioning",
            Provisioned => "cluster_provisioned",
            WaitingForAgent => "waiting_for_kas_fleetshard_operator",
            Ready => "ready",
            ScalingUp => "compute_node_scaling_up",
            Full => "full",
            Failed => "failed",
            Deprovisioning => "deprovisioning",
            Cleanup => "cleanup",
        }
    }

    /// Whether a report can change anything. "The OSD cluster must be in one of the states accepted by the
    /// dynamic scaling functionality".
    #[must_use]
    pub fn accepts_reports(self) -> bool {
        match self {
            Ready | ScalingUp | Full | WaitingForAgent => true,
            Accepted | Provisioning | Provisioned | Failed | Deprovisioning | Cleanup => false,
        }
    }

    /// Whether it is on its way to be ready for the first time.
    #[must_use]
    pub fn is_coming(self) -> bool {
        match self {
            Accepted | Provisioning | Provisioned | WaitingForAgent => true,
            Ready | ScalingUp | Full | Failed | Deprovisioning | Cleanup => false,
        }
    }

    /// Whether it is leaving.
    #[must_use]
    pub fn is_going(self) -> bool {
        matches!(self, Deprovisioning | Cleanup)
    }

    /// Whether there is such a change of state.
    #[must_use]
    pub fn can_become(self, next: PlaneState) -> bool {
        TRANSITIONS.iter().any(|(from, to, _)| (*from, *to) == (self, next))
    }

    /// The next state.
    ///
    /// # Errors
    /// If the pair is not in [`TRANSITIONS`].
    pub fn change_to(self, next: PlaneState) -> Result<PlaneState, IllegalPlaneChange> {
        if self.can_become(next) {
            return Ok(next);
        }
        Err(IllegalPlaneChange { from: self, to: next })
    }
}

/// A change of state that is not in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a data plane that is {from} cannot become {to}")]
pub struct IllegalPlaneChange {
    /// The state.
    pub from: PlaneState,
    /// What it was to become.
    pub to: PlaneState,
}

/// A name that no state has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a state of a data plane")]
pub struct UnknownPlaneState(pub String);

impl FromStr for PlaneState {
    type Err = UnknownPlaneState;

    fn from_str(text: &str) -> Result<Self, UnknownPlaneState> {
        let found = ALL.into_iter().find(|state| state.name() == text);
        found.ok_or_else(|| UnknownPlaneState(text.to_owned()))
    }
}

impl fmt::Display for PlaneState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_as_it_is_written() {
        for state in ALL {
            assert_eq!(state.name().parse(), Ok(state));
        }
        assert_eq!("Ready".parse::<PlaneState>(), Err(UnknownPlaneState("Ready".to_owned())));
    }

    #[test]
    fn no_change_is_listed_twice_and_every_state_leads_to_the_end() {
        for (index, (from, to, _)) in TRANSITIONS.iter().enumerate() {
            assert_ne!(from, to);
            let rest = &TRANSITIONS[index + 1..];
            assert!(!rest.iter().any(|(a, b, _)| (a, b) == (from, to)), "{from} -> {to} twice");
        }
        for state in ALL {
            assert!(
                state == Cleanup || state == Deprovisioning || state.can_become(Deprovisioning)
            );
            assert!(!Cleanup.can_become(state), "cleanup is the end");
            for next in ALL {
                assert_eq!(
                    state.change_to(next).is_ok(),
                    state.can_become(next),
                    "{state} -> {next}"
                );
            }
        }
    }

    #[test]
    fn reports_are_read_in_four_states() {
        let accepting: Vec<_> =
            ALL.into_iter().filter(|s| s.accepts_reports()).map(PlaneState::name).collect();
        let expected =
            ["waiting_for_kas_fleetshard_operator", "ready", "compute_node_scaling_up", "full"];
        assert_eq!(accepting, expected);
    }
}
