//! The objects of each area: pure functions of the blueprint, the existing objects and outputs of earlier
//! areas.
//!
//! 1. An area that needs more than [`Found`](crate::found::Found) has a function `needs`. The operator reads
//!    that and passes it in.
//! 2. Objects are applied in the order in which they are built.
//! 3. [`Built::flow`] says what the pass is waiting for; nothing here waits.

pub mod access;
pub mod certificates;
pub mod claims;
pub mod configuration;
pub mod services;
pub mod workload;

use control::cluster::draft::Flow;
use control::conditions::Note;

use crate::Object;

/// The result of an area.
#[derive(Debug, Clone, PartialEq)]
pub struct Built<T = ()> {
    /// Its objects, in the order in which they are applied.
    pub objects: Vec<Object>,
    /// Warnings for the user.
    pub warnings: Vec<Note>,
    /// Outputs for later areas and the operator.
    pub outputs: T,
    /// How the pass continues after the objects were applied.
    pub flow: Flow,
}

impl<T> Built<T> {
    /// These outputs and no objects so far.
    fn new(outputs: T) -> Self {
        Self { objects: Vec::new(), warnings: Vec::new(), outputs, flow: Flow::Go }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use control::cluster::area::Area;
    use control::cluster::areas::objects::unbuilt;
    use control::cluster::origin::Origin;
    use control::cluster::validate;
    use control::conditions::Reason;

    use super::*;
    use crate::samples::{recorded, seen};

    /// Runs the rows of an area whose objects are built here.
    fn run_rows(area: Area) {
        match area {
            Area::Services => {
                services::tests::each_kind_of_listener_has_the_addresses_of_its_services();
            }
            Area::Claims => claims::tests::a_claim_grows_if_it_can_and_never_shrinks(),
            Area::Configuration => configuration::tests::rows(),
            Area::Workload => workload::tests::pods_that_are_not_ready_are_awaited(),
            _ => assert_eq!(area, Area::Access),
        }
        // An object that cannot be built, and what it needs that cannot be read.
        let problem = |reason| seen(&[], &unbuilt(area, Note::new(reason, "no"), false));
        problem(Reason::InvalidTemplate);
        if matches!(area, Area::Access | Area::Claims | Area::Configuration) {
            problem(Reason::KubernetesUnreadable);
        }
    }

    #[test]
    fn every_reason_of_an_area_has_a_row() {
        let of_spec = validate::Reason::ALL.iter().map(|reason| Reason::Spec(*reason));
        let all: Vec<Reason> = Reason::OWN.iter().copied().chain(of_spec).collect();
        let built =
            [Area::Access, Area::Services, Area::Claims, Area::Configuration, Area::Workload];
        for area in built {
            let own = all.iter().filter(|one| one.origins().contains(&Origin::Area(area)));
            let own: BTreeSet<Reason> = own.copied().collect();
            assert_eq!(recorded(|| run_rows(area)), own, "{area}");
        }
    }
}
