//! What the areas of a pass decide. Each is a pure function of the snapshot and of what earlier areas decided.

pub mod authorities;
pub mod certificates;
pub mod kafka;
pub mod leftovers;
pub mod migration;
pub mod quorum;
pub mod rebalance;
pub mod registration;
pub mod roll;
pub mod scale_in;
pub mod users;

#[cfg(test)]
mod samples;

use super::draft::{Draft, Flow};
use super::snapshot::{Needs, Snapshot};

/// The two functions of an area.
#[derive(Debug, Clone, Copy)]
pub struct Decider {
    /// The facts that the decision requires and that have not been read.
    pub needs: fn(&Snapshot, &Draft) -> Needs,
    /// The decision.
    pub decide: fn(&Snapshot, &mut Draft) -> Flow,
    /// The areas whose outputs the decision uses. They are decided again where the facts behind an act are old.
    pub rests_on: &'static [Self],
}

impl Decider {
    /// Decides, after the areas that left this draft.
    #[must_use]
    pub fn draft(self, snapshot: &Snapshot, before: &Draft) -> (Draft, Flow) {
        let mut draft = before.clone();
        let flow = (self.decide)(snapshot, &mut draft);
        (draft, flow)
    }

    /// Decides on newer facts than those behind this draft of the areas before, whose outputs are renewed.
    #[must_use]
    pub fn draft_again(self, snapshot: &Snapshot, before: &Draft) -> (Draft, Flow) {
        let mut renewed = before.clone();
        for area in self.rests_on {
            renewed.outputs = area.draft(snapshot, &renewed).0.outputs;
        }
        self.draft(snapshot, &renewed)
    }
}

/// For areas that are decided on what every pass reads.
fn nothing(_: &Snapshot, _: &Draft) -> Needs {
    Needs::default()
}

/// [`authorities`].
pub const AUTHORITIES: Decider =
    Decider { needs: authorities::needs, decide: authorities::decide, rests_on: &[] };
/// [`certificates`].
pub const CERTIFICATES: Decider =
    Decider { needs: certificates::needs, decide: certificates::decide, rests_on: &[] };
/// [`kafka`].
pub const KAFKA: Decider = Decider { needs: nothing, decide: kafka::decide, rests_on: &[] };
/// [`migration`].
pub const MIGRATION: Decider = Decider { needs: nothing, decide: migration::decide, rests_on: &[] };
/// [`quorum`].
pub const QUORUM: Decider = Decider { needs: quorum::needs, decide: quorum::decide, rests_on: &[] };
/// [`roll`].
pub const ROLL: Decider = Decider { needs: roll::needs, decide: roll::decide, rests_on: &[QUORUM] };
/// [`scale_in`].
pub const SCALE_IN: Decider =
    Decider { needs: scale_in::needs, decide: scale_in::decide, rests_on: &[] };
/// [`registration`].
pub const REGISTRATION: Decider =
    Decider { needs: registration::needs, decide: registration::decide, rests_on: &[] };
/// [`leftovers`].
pub const LEFTOVERS: Decider = Decider { needs: nothing, decide: leftovers::decide, rests_on: &[] };
/// [`rebalance`].
pub const REBALANCE: Decider =
    Decider { needs: rebalance::needs, decide: rebalance::decide, rests_on: &[] };
/// [`users`].
pub const USERS: Decider = Decider { needs: users::needs, decide: users::decide, rests_on: &[] };
