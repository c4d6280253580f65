//! What the areas of a pass decide. Each is a pure function of the snapshot and of what earlier areas decided.

pub mod kafka;
pub mod leftovers;
pub mod migration;
pub mod quorum;
pub mod registration;
pub mod scale_in;

#[cfg(test)]
mod samples;

use super::draft::{Draft, Flow, Outputs};
use super::record::Record;
use super::snapshot::{Needs, Snapshot};

/// The two functions of an area.
#[derive(Debug, Clone, Copy)]
pub struct Decider {
    /// The facts that the decision requires and that have not been read.
    pub needs: fn(&Snapshot, &Record) -> Needs,
    /// The decision.
    pub decide: fn(&Snapshot, &mut Draft) -> Flow,
}

impl Decider {
    /// Decides, after the areas that left this record and these outputs.
    #[must_use]
    pub fn draft(
        self,
        snapshot: &Snapshot,
        (record, outputs): &(Record, Outputs),
    ) -> (Draft, Flow) {
        let mut draft = Draft { outputs: outputs.clone(), ..Draft::new(record.clone()) };
        let flow = (self.decide)(snapshot, &mut draft);
        (draft, flow)
    }
}

/// For areas that are decided on what every pass reads.
fn nothing(_: &Snapshot, _: &Record) -> Needs {
    Needs::default()
}

/// [`kafka`].
pub const KAFKA: Decider = Decider { needs: nothing, decide: kafka::decide };
/// [`migration`].
pub const MIGRATION: Decider = Decider { needs: nothing, decide: migration::decide };
/// [`quorum`].
pub const QUORUM: Decider = Decider { needs: quorum::needs, decide: quorum::decide };
/// [`scale_in`].
pub const SCALE_IN: Decider = Decider { needs: scale_in::needs, decide: scale_in::decide };
/// [`registration`].
pub const REGISTRATION: Decider =
    Decider { needs: registration::needs, decide: registration::decide };
/// [`leftovers`].
pub const LEFTOVERS: Decider = Decider { needs: nothing, decide: leftovers::decide };
