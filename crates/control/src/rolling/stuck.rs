//! Pods that do not start and will not by themselves, and when it helps to restart one.
//!
//! A stuck pod is restarted only if it is out of date: the new one is then another one. Else it stops the
//! whole roll, since others might get stuck the same way.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::facts::PodFacts;
use super::reasons::Reason;

/// How a pod is stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stuck {
    /// The container ends again and again.
    CrashLoopBackOff,
    /// The image cannot be got.
    ImagePullBackOff,
    /// The image could not be got just now; the same in turns with the one before.
    ErrImagePull,
    /// The image has no name that could be one.
    InvalidImageName,
    /// Something that the container is configured with is not there.
    CreateContainerConfigError,
    /// The container is being made, and has been for too long.
    ContainerCreating,
    /// No machine has room for it or may have it.
    Unschedulable,
}

impl Stuck {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::CrashLoopBackOff,
        Self::ImagePullBackOff,
        Self::ErrImagePull,
        Self::InvalidImageName,
        Self::CreateContainerConfigError,
        Self::ContainerCreating,
        Self::Unschedulable,
    ];

    /// The word of Kubernetes for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CrashLoopBackOff => "CrashLoopBackOff",
            Self::ImagePullBackOff => "ImagePullBackOff",
            Self::ErrImagePull => "ErrImagePull",
            Self::InvalidImageName => "InvalidImageName",
            Self::CreateContainerConfigError => "CreateContainerConfigError",
            Self::ContainerCreating => "ContainerCreating",
            Self::Unschedulable => "Unschedulable",
        }
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whether a pod is stuck. Every pod is `ContainerCreating` for a moment, so that counts only once the
/// pod is older than `creating_ms_max`.
#[must_use]
pub fn state(pod: &PodFacts, now_ms: u64, creating_ms_max: u64) -> Option<Stuck> {
    if pod.unschedulable {
        return Some(Stuck::Unschedulable);
    }
    let waiting = pod.waiting.as_deref()?;
    let stuck = Stuck::ALL.into_iter().find(|stuck| stuck.name() == waiting)?;
    let young = now_ms.saturating_sub(pod.created_ms) < creating_ms_max;
    Some(stuck).filter(|stuck| *stuck != Stuck::ContainerCreating || !young)
}

/// Whether a stuck pod is worth a restart.
pub fn is_worth_restart<'a>(reasons: impl IntoIterator<Item = &'a Reason>) -> bool {
    reasons.into_iter().any(Reason::is_old_revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_hold() {
        // Reason of the waiting container, unschedulable, age in seconds, how it is stuck.
        let rows = [
            ("", false, 999, None),
            ("CrashLoopBackOff", false, 0, Some(Stuck::CrashLoopBackOff)),
            ("ImagePullBackOff", false, 0, Some(Stuck::ImagePullBackOff)),
            ("InvalidImageName", false, 0, Some(Stuck::InvalidImageName)),
            ("ErrImagePull", false, 0, Some(Stuck::ErrImagePull)),
            ("CreateContainerConfigError", false, 0, Some(Stuck::CreateContainerConfigError)),
            ("ContainerCreating", false, 59, None),
            ("ContainerCreating", false, 60, Some(Stuck::ContainerCreating)),
            ("PodInitializing", false, 999, None),
            ("", true, 0, Some(Stuck::Unschedulable)),
        ];
        for (waiting, unschedulable, age, expected) in rows {
            let pod = PodFacts {
                waiting: Some(waiting.to_owned()).filter(|word| !word.is_empty()),
                unschedulable,
                created_ms: 1_000_000,
                ..PodFacts::ready("u", 0)
            };
            assert_eq!(state(&pod, 1_000_000 + age * 1000, 60_000), expected, "{waiting} {age}");
        }
    }

    #[test]
    fn only_an_old_revision_makes_a_restart_worth_it() {
        assert!(!is_worth_restart(&[Reason::ManualRollingUpdate, Reason::CaCertHasOldGeneration]));
        assert!(is_worth_restart(&[Reason::ManualRollingUpdate, Reason::PodHasOldRevision]));
        assert!(is_worth_restart(&[Reason::PodHasOldSettings]));
    }
}
