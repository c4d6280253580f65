//! A step of nodes, from the decision to the last node: what is asked of the provider, and whether a step is in progress.
//!
//! 1. A step is in progress until the provider has made it and the agent counts it, or until it has failed. Nodes that
//!    are not ready are not there yet.
//! 2. A number at the provider that the manager did not send was set by a person, or by the provider itself. The manager
//!    adopts it and never reverts it.
//! 3. With manual scaling the manager sends only what a person asked for through its API.
//! 4. A step that has failed is not repeated with a larger number: the provider still has the request.

use super::nodes::Mode;

/// The nodes of a data plane, as the manager and its provider have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProviderNodes {
    /// How many the manager wants.
    pub wanted: Option<u32>,
    /// The wanted number that was last complete.
    pub reached: Option<u32>,
    /// How many the provider is to make, as it says.
    pub desired: Option<u32>,
    /// How many are ready, as the provider says; when nodes are removed, how many are left.
    pub actual: Option<u32>,
    /// Whether the provider says that it cannot make them.
    pub failed: bool,
    /// How long ago the wanted number changed.
    pub since_wanted_ms: Option<u64>,
}

/// How far a step has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepProgress {
    /// All nodes that are wanted were there; a node that has become sick since then is no step.
    Done,
    /// Nodes are coming or going.
    Going {
        /// They are coming.
        growing: bool,
    },
    /// The provider says that it failed, or it has taken too long.
    Failed {
        /// They were to come.
        growing: bool,
        /// How many are wanted.
        wanted: u32,
        /// How many there are.
        actual: u32,
    },
    /// The provider could not be asked.
    Unknown,
}

/// Whether the wanted nodes are complete, for the provider and for the agent. The agent may count nodes that are not the
/// provider's, so more than are wanted are complete, too, unless some are to go.
#[must_use]
pub fn is_complete(nodes: &ProviderNodes, counted: u32) -> bool {
    let (Some(wanted), Some(desired), Some(actual)) = (nodes.wanted, nodes.desired, nodes.actual)
    else {
        return false;
    };
    let counted_too = if is_growing(nodes) { counted >= wanted } else { counted <= wanted };
    wanted == desired && desired == actual && counted_too
}

/// How far the last step has come.
#[must_use]
pub fn step_progress(nodes: &ProviderNodes, counted: u32, limit_ms: u64) -> StepProgress {
    let (Some(desired), Some(actual)) = (nodes.desired, nodes.actual) else {
        return StepProgress::Unknown;
    };
    let wanted = nodes.wanted.unwrap_or(desired);
    let was_complete = nodes.reached == Some(wanted) && desired == wanted;
    if was_complete || is_complete(nodes, counted) {
        return StepProgress::Done;
    }
    let growing = is_growing(nodes);
    if nodes.failed || nodes.since_wanted_ms.is_some_and(|since| since > limit_ms) {
        let actual = if growing { actual.min(counted) } else { actual.max(counted) };
        return StepProgress::Failed { growing, wanted, actual };
    }
    StepProgress::Going { growing }
}

/// The first nodes of a data plane come, too.
fn is_growing(nodes: &ProviderNodes) -> bool {
    nodes.wanted >= nodes.reached
}

/// What was sent to the provider, and what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// How many the manager wants.
    pub wanted: Option<u32>,
    /// Whether a person asked the manager for them.
    pub by_hand: bool,
    /// What was last sent; recorded before it was.
    pub sent: Option<u32>,
    /// The wanted number that the provider had last.
    pub confirmed: Option<u32>,
    /// What the provider has now.
    pub desired: u32,
    /// Who decides about nodes.
    pub mode: Mode,
}

/// What to do about the number of nodes at the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeAct {
    /// The provider has what is wanted.
    Confirm,
    /// Send what is wanted.
    Send(u32),
    /// Want what the provider has.
    Adopt(u32),
}

/// What to do about the number of nodes at the provider.
#[must_use]
pub fn plan_nodes_at_provider(facts: &Sent) -> NodeAct {
    let Sent { wanted, by_hand, sent, confirmed, desired, mode } = *facts;
    let Some(wanted) = wanted else { return NodeAct::Adopt(desired) };
    if desired == wanted {
        return NodeAct::Confirm;
    }
    if mode == Mode::Manual && !by_hand {
        return NodeAct::Adopt(desired);
    }
    // It has what it had before, or what was sent before the desired state changed; or nothing was ever sent to it.
    let is_ours = confirmed == Some(desired)
        || sent == Some(desired)
        || (confirmed.is_none() && sent.is_none());
    if is_ours { NodeAct::Send(wanted) } else { NodeAct::Adopt(desired) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NodeAct::{Adopt, Confirm, Send};
    use StepProgress::{Done, Failed, Going, Unknown};

    const LIMIT: u64 = 1000;

    /// `wanted reached desired actual counted since`
    fn progress(numbers: [u32; 5], since: u64, failed: bool) -> StepProgress {
        let [wanted, reached, desired, actual, counted] = numbers;
        let some = |number: u32| (number > 0).then_some(number);
        let nodes = ProviderNodes {
            wanted: some(wanted),
            reached: some(reached),
            desired: some(desired),
            actual: some(actual),
            failed,
            since_wanted_ms: Some(since),
        };
        step_progress(&nodes, counted, LIMIT)
    }

    #[test]
    fn a_step_is_in_progress_until_it_is_done_or_has_failed() {
        let coming = Going { growing: true };
        let going = Going { growing: false };
        let rows = [
            ([3, 3, 3, 3, 3], 5000, Done),
            // Decided, and not sent yet.
            ([6, 3, 3, 3, 3], 0, coming),
            // Sent; machines boot one after the other.
            ([6, 3, 6, 3, 3], 0, coming),
            ([6, 3, 6, 5, 5], 1000, coming),
            // The provider counts machines that have not joined yet.
            ([6, 3, 6, 6, 4], 1000, coming),
            ([6, 3, 6, 6, 6], 1000, Done),
            // Nodes of another owner.
            ([6, 3, 6, 6, 8], 1000, Done),
            // It takes too long.
            ([6, 3, 6, 5, 5], 1001, Failed { growing: true, wanted: 6, actual: 5 }),
            ([6, 3, 6, 6, 4], 1001, Failed { growing: true, wanted: 6, actual: 4 }),
            // The last one comes after all.
            ([6, 3, 6, 6, 6], 9000, Done),
            // A node is sick; that is no step.
            ([6, 6, 6, 5, 5], 9000, Done),
            ([6, 6, 6, 5, 6], 9000, Done),
            // Fewer.
            ([3, 6, 6, 6, 6], 0, going),
            ([3, 6, 3, 5, 5], 1000, going),
            ([3, 6, 3, 3, 4], 1000, going),
            ([3, 6, 3, 3, 3], 1000, Done),
            ([3, 6, 3, 4, 4], 1001, Failed { growing: false, wanted: 3, actual: 4 }),
            // The first nodes.
            ([3, 0, 3, 1, 1], 0, coming),
            ([3, 0, 0, 0, 3], 0, Unknown),
        ];
        for (numbers, since, expected) in rows {
            assert_eq!(progress(numbers, since, false), expected, "{numbers:?} after {since}");
        }
        let failed = Failed { growing: true, wanted: 6, actual: 4 };
        assert_eq!(progress([6, 3, 6, 4, 4], 0, true), failed);
    }

    #[test]
    fn what_the_manager_did_not_send_is_adopted() {
        let auto = (Mode::Auto, false);
        let (manual, by_hand) = ((Mode::Manual, false), (Mode::Manual, true));
        // (who decides, wanted, sent, confirmed, desired)
        let rows = [
            (auto, 3, 0, 3, 3, Confirm),
            // A step that was decided, was sent, got lost.
            (auto, 6, 0, 3, 3, Send(6)),
            (auto, 6, 6, 3, 3, Send(6)),
            (auto, 6, 6, 3, 6, Confirm),
            // The next one before the last was seen.
            (auto, 9, 6, 3, 6, Send(9)),
            // Reverted by hand after it was sent.
            (auto, 3, 6, 3, 6, Send(3)),
            // A person changes it: before, during and after a step.
            (auto, 6, 0, 3, 5, Adopt(5)),
            (auto, 6, 6, 3, 9, Adopt(9)),
            (auto, 6, 6, 6, 3, Adopt(3)),
            (auto, 3, 0, 3, 9, Adopt(9)),
            // The provider makes another number of it.
            (auto, 6, 6, 3, 7, Adopt(7)),
            // At its creation: it is sent once, and then believed.
            (auto, 3, 0, 0, 2, Send(3)),
            (auto, 3, 3, 0, 2, Adopt(2)),
            // Nothing was ever wanted.
            (auto, 0, 0, 0, 4, Adopt(4)),
            // By hand: what the API was asked for is sent, anything else is adopted.
            (manual, 3, 0, 3, 9, Adopt(9)),
            (manual, 6, 0, 3, 3, Adopt(3)),
            (manual, 3, 0, 0, 2, Adopt(2)),
            (by_hand, 6, 0, 3, 3, Send(6)),
            (by_hand, 6, 6, 6, 9, Adopt(9)),
        ];
        for ((mode, by_hand), wanted, sent, confirmed, desired, expected) in rows {
            let some = |number: u32| (number > 0).then_some(number);
            let facts = Sent {
                wanted: some(wanted),
                by_hand,
                sent: some(sent),
                confirmed: some(confirmed),
                desired,
                mode,
            };
            assert_eq!(plan_nodes_at_provider(&facts), expected, "{facts:?}");
        }
    }
}
