//! The words of auto-rebalancing: modes, setbacks, and how they are told.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Act, Brokers, Facts, Partner, Phase, Recorded, Setting, own_request};
use crate::annotations::Annotation;
use crate::conditions::Reason;
use crate::rebalance::request;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// To take everything off brokers that are to leave.
    RemoveBrokers,
    /// To fill brokers that have come.
    AddBrokers,
}

impl Mode {
    /// The name, as in a spec and at the end of the request's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RemoveBrokers => "remove-brokers",
            Self::AddBrokers => "add-brokers",
        }
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::RemoveBrokers => Self::AddBrokers,
            Self::AddBrokers => Self::RemoveBrokers,
        }
    }
}

/// One of something for each mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct PerMode<T> {
    /// For drains.
    pub remove: T,
    /// For fills.
    pub add: T,
}

impl<T> PerMode<T> {
    /// That of a mode.
    pub const fn get(&self, mode: Mode) -> &T {
        match mode {
            Mode::RemoveBrokers => &self.remove,
            Mode::AddBrokers => &self.add,
        }
    }

    pub(super) const fn get_mut(&mut self, mode: Mode) -> &mut T {
        match mode {
            Mode::RemoveBrokers => &mut self.remove,
            Mode::AddBrokers => &mut self.add,
        }
    }
}

/// Why a request came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Why {
    /// It failed, and said this.
    Failed(String),
    /// A user stopped it.
    Stopped,
    /// It is gone; a user deleted it.
    Gone,
    /// Its template is missing, or is not marked as one.
    NoTemplate,
}

/// A request that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setback {
    /// Whom it was for.
    pub brokers: Brokers,
    /// Why.
    pub why: Why,
    /// How often in a row.
    pub attempts: u32,
    /// When.
    pub at_ms: u64,
}

/// What a user should know.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Notice {
    /// A request came to nothing.
    Setback(Mode, Setback),
    /// A drain is wanted, and its template is missing.
    TemplateMissing(Mode),
    /// A drain is wanted, and what it names as its template is not marked as one.
    TemplateUnmarked(Mode),
    /// A `KafkaRebalance` that is not ours has the name that ours would have.
    Foreign(Mode),
    /// The request was paused, and all waits for it.
    Paused(Mode),
    /// A fill waits for these to run.
    AwaitsBrokers(Brokers),
}

pub(super) fn notices(recorded: &Recorded, facts: &Facts) -> Vec<Notice> {
    let mut all = Vec::new();
    for mode in [Mode::RemoveBrokers, Mode::AddBrokers] {
        let setback = recorded.setbacks.get(mode).clone();
        all.extend(setback.map(|setback| Notice::Setback(mode, setback)));
        if matches!(facts.partners.get(mode), Some(Partner::Foreign)) {
            all.push(Notice::Foreign(mode));
        }
    }
    let wanted = super::drain_list(recorded, facts).is_some_and(|list| !list.is_empty());
    let setting = facts.settings.remove;
    if recorded.phase != Phase::RebalanceOnScaleDown && wanted && setting.lacks_template() {
        all.push(match setting {
            Setting::Unmarked => Notice::TemplateUnmarked(Mode::RemoveBrokers),
            Setting::Off | Setting::Plain | Setting::Template(_) => {
                Notice::TemplateMissing(Mode::RemoveBrokers)
            }
        });
    }
    let paused = |request: &super::Request| request.phase() == request::Phase::ReconciliationPaused;
    if own_request(recorded, facts).is_some_and(paused) {
        all.extend(super::mode_of(recorded.phase).map(Notice::Paused));
    }
    if let Some(running) = &facts.running {
        let awaited: Brokers =
            super::fill_list(recorded, facts).difference(running).copied().collect();
        if !awaited.is_empty() {
            all.push(Notice::AwaitsBrokers(awaited));
        }
    }
    all
}

/// The queues as the status shows them, drains first, without empty ones. While nothing is done there are none: a fill
/// whose brokers do not run yet is a notice.
pub(super) fn modes(recorded: &Recorded, fill: Brokers) -> Vec<(Mode, Brokers)> {
    if recorded.phase == Phase::Idle {
        return Vec::new();
    }
    let both = [(Mode::RemoveBrokers, recorded.remove.clone()), (Mode::AddBrokers, fill)];
    both.into_iter().filter(|(_, brokers)| !brokers.is_empty()).collect()
}

impl Phase {
    /// The name, as in the status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "Idle",
            Self::RebalanceOnScaleDown => "RebalanceOnScaleDown",
            Self::RebalanceOnScaleUp => "RebalanceOnScaleUp",
        }
    }
}

impl Notice {
    /// The reason of the warning.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Setback(..) => Reason::AutoRebalanceFailed,
            Self::TemplateMissing(_) => Reason::AutoRebalanceTemplateMissing,
            Self::TemplateUnmarked(_) => Reason::AutoRebalanceTemplateUnmarked,
            Self::Foreign(_) => Reason::AutoRebalanceNameTaken,
            Self::Paused(_) => Reason::AutoRebalancePaused,
            Self::AwaitsBrokers(_) => Reason::AutoRebalanceAwaitsBrokers,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(said) => write!(f, "it failed: {said}"),
            Self::Stopped => f.write_str("a user stopped it"),
            Self::Gone => f.write_str("its KafkaRebalance was deleted"),
            Self::NoTemplate => {
                f.write_str("its template does not exist, or is not marked as a template")
            }
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setback(mode, setback) => {
                let (mode, why) = (mode.name(), &setback.why);
                write!(f, "Auto-rebalancing with {mode} of brokers ")?;
                list(f, &setback.brokers)?;
                write!(f, " ended without success: {why}")?;
                match (mode, why) {
                    ("remove-brokers", Why::Stopped) => {
                        f.write_str("; cancel or change the scale-down to restart it")
                    }
                    ("remove-brokers", _) => f.write_str("; the operator retries"),
                    _ => f.write_str("; create a KafkaRebalance to have them filled"),
                }
            }
            Self::TemplateMissing(mode) => {
                write!(
                    f,
                    "Auto-rebalancing with {} waits: its template does not exist",
                    mode.name()
                )
            }
            Self::TemplateUnmarked(mode) => write!(
                f,
                "Auto-rebalancing with {} waits: the KafkaRebalance that is named as its template \
                 lacks the annotation {}: \"true\"",
                mode.name(),
                Annotation::RebalanceTemplate.name()
            ),
            Self::Foreign(mode) => write!(
                f,
                "Auto-rebalancing with {} waits: a KafkaRebalance that is not ours has its name",
                mode.name()
            ),
            Self::Paused(mode) => {
                write!(
                    f,
                    "Auto-rebalancing with {} waits: its KafkaRebalance is paused",
                    mode.name()
                )
            }
            Self::AwaitsBrokers(brokers) => {
                f.write_str("Auto-rebalancing waits until brokers run: ")?;
                list(f, brokers)
            }
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (words, mode, brokers) = match self {
            Self::Create { mode, brokers, .. } => ("create", mode, Some(brokers)),
            Self::Refresh { mode, brokers, .. } => ("refresh", mode, Some(brokers)),
            Self::Stop(mode) => ("stop", mode, None),
            Self::Delete(mode) => ("delete", mode, None),
            Self::Release(mode) => ("remove the finalizer of", mode, None),
        };
        write!(f, "{words} the KafkaRebalance with {}", mode.name())?;
        let Some(brokers) = brokers else { return Ok(()) };
        f.write_str(" of brokers ")?;
        list(f, brokers)
    }
}

fn list(f: &mut fmt::Formatter<'_>, brokers: &Brokers) -> fmt::Result {
    let ids: Vec<_> = brokers.iter().map(ToString::to_string).collect();
    write!(f, "[{}]", ids.join(", "))
}
