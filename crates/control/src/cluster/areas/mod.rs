//! What the areas of a pass decide. Each is a pure function of the snapshot and of what earlier areas decided.

pub mod authorities;
pub mod certificates;
pub mod kafka;
pub mod leftovers;
pub mod migration;
pub mod objects;
pub mod quorum;
pub mod rebalance;
pub mod registration;
pub mod roll;
pub mod scale_in;
pub mod users;

#[cfg(test)]
pub(super) mod samples;

use super::area::Area;
use super::draft::{Draft, Flow};
use super::snapshot::{Needs, Snapshot};

/// The two functions of an area.
#[derive(Debug, Clone, Copy)]
pub struct Decider {
    /// The facts that the decision requires and that have not been read.
    pub needs: fn(&Snapshot, &Draft) -> Needs,
    /// The decision.
    pub decide: fn(&Snapshot, &mut Draft) -> Flow,
}

/// For areas that are decided on what every pass reads.
fn nothing(_: &Snapshot, _: &Draft) -> Needs {
    Needs::default()
}

/// The functions of an area.
#[must_use]
pub const fn of(area: Area) -> Decider {
    match area {
        Area::Authorities => Decider { needs: authorities::needs, decide: authorities::decide },
        Area::Access => Decider { needs: nothing, decide: objects::access },
        Area::Services => Decider { needs: nothing, decide: objects::services },
        Area::Certificates => Decider { needs: certificates::needs, decide: certificates::decide },
        Area::Claims => Decider { needs: nothing, decide: objects::claims },
        Area::Configuration => Decider { needs: nothing, decide: objects::configuration },
        Area::Workload => Decider { needs: objects::workload_needs, decide: objects::workload },
        Area::Kafka => Decider { needs: nothing, decide: kafka::decide },
        Area::Migration => Decider { needs: nothing, decide: migration::decide },
        Area::Quorum => Decider { needs: quorum::needs, decide: quorum::decide },
        Area::Roll => Decider { needs: roll::needs, decide: roll::decide },
        Area::Rebalance => Decider { needs: rebalance::needs, decide: rebalance::decide },
        Area::ScaleIn => Decider { needs: scale_in::needs, decide: scale_in::decide },
        Area::Registration => Decider { needs: registration::needs, decide: registration::decide },
        Area::Users => Decider { needs: users::needs, decide: users::decide },
        Area::Leftovers => Decider { needs: nothing, decide: leftovers::decide },
    }
}
