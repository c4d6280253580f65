//! The record of a request: what is kept from pass to pass, and where it begins when there is none.

use serde::{Deserialize, Serialize};

use super::machine::{Phase, Recorded};
use super::snapshot::{Moves, Resource};
use super::words::Failure;

/// The record of a request. What a plan does is large, and only shown: the shell keeps that beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// How far it is.
    pub request: Recorded,
    /// The cluster that all of it is about.
    pub cluster: Option<String>,
    /// The plan that was asked for last.
    pub plan: Option<Plan>,
    /// What Cruise Control knows it by, where that is the engine.
    pub session: Option<Session>,
}

/// The outcome of a request for a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Of which attempt.
    pub attempt: u64,
    /// Why there is none, if there is none.
    pub failure: Option<Failure>,
    /// What it could not take into account.
    pub unknown: Vec<String>,
}

/// The tasks of Cruise Control.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Session {
    /// Of which attempt.
    pub attempt: u64,
    /// The task that made the plan.
    pub proposal: Option<String>,
    /// The task that moves.
    pub execution: Option<String>,
    /// Whether the moves may have been asked for.
    pub asked: bool,
    /// Whether it was asked to stop.
    pub stopping: bool,
    /// Why it did not begin to move.
    pub failure: Option<Failure>,
}

impl Record {
    /// The plan of this attempt, also one that could not be made.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref().filter(|plan| plan.attempt == self.request.attempt)
    }

    /// The tasks of this attempt.
    #[must_use]
    pub fn session(&self) -> Session {
        let attempt = self.request.attempt;
        let known = self.session.clone().filter(|session| session.attempt == attempt);
        known.unwrap_or(Session { attempt, ..Session::default() })
    }

    /// Whether Cruise Control was asked for the moves of this attempt and may not have ended them.
    pub(super) fn may_move_by_cruise_control(&self) -> bool {
        let session = self.session();
        session.asked && session.failure.is_none() && self.request.may_run()
    }

    /// Whether moves are those of this attempt.
    pub(super) fn owns(&self, resource: &Resource, moves: &Moves) -> bool {
        moves.by.uid == resource.uid && moves.by.attempt == self.request.attempt
    }
}

/// The record that a pass begins with: rebuilt if there is none, and begun anew if the request is for another
/// cluster by now.
pub(super) fn begin(resource: &Resource, moves: Option<&Moves>, record: Option<&Record>) -> Record {
    let record = record.cloned().unwrap_or_else(|| rebuild(resource, moves));
    let cluster = resource.cluster.clone();
    let moved = record.cluster.is_some() && cluster.is_some() && record.cluster != cluster;
    if !moved {
        return Record { cluster: record.cluster.clone().or(cluster), ..record };
    }
    // The attempts go on, so that nothing of the other cluster is taken for this one's.
    let request = Recorded { attempt: record.request.attempt, ..Recorded::default() };
    Record { request, cluster, ..Record::default() }
}

/// A record for a request that has none: it is new, or its record was lost. What is done is not begun again, and what
/// runs is not forgotten.
fn rebuild(resource: &Resource, moves: Option<&Moves>) -> Record {
    let generation = resource.status.observed_generation.unwrap_or_default();
    let own = moves.filter(|moves| moves.by.uid == resource.uid);
    let attempt = own.map_or(0, |moves| moves.by.attempt);
    let said = resource.status.conditions.iter();
    let said = said.filter_map(|(kind, message)| Some((Phase::from_name(kind)?, message))).next();
    let (phase, failure) = match said {
        _ if own.is_some_and(|moves| !moves.is_over()) => (Phase::Rebalancing, None),
        Some((phase @ (Phase::Ready | Phase::Stopped), _)) => (phase, None),
        Some((Phase::NotReady, message)) => {
            (Phase::NotReady, Some(Failure::Final(message.clone())))
        }
        // Nothing of it runs, so it begins anew.
        Some((
            Phase::New
            | Phase::PendingProposal
            | Phase::ProposalReady
            | Phase::Rebalancing
            | Phase::ReconciliationPaused,
            _,
        ))
        | None => return Record::default(),
    };
    let request = Recorded { phase, attempt, generation, failure, ..Recorded::default() };
    Record { request, ..Record::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebalance::execution;
    use crate::rebalance::request::snapshot::{Claimant, Status};

    fn moves(uid: &str, phase: execution::Phase) -> Moves {
        Moves {
            by: Claimant { name: "r".to_owned(), uid: uid.to_owned(), attempt: 7 },
            recorded: execution::Recorded { phase, ..execution::Recorded::default() },
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_lost_record_neither_repeats_what_is_done_nor_forgets_what_runs() {
        use execution::Phase::{Ended, Moving};
        let (runs, over, others) = (moves("u", Moving), moves("u", Ended), moves("v", Moving));
        // The conditions, the moves, and what is recorded: the phase, the attempt and the generation.
        let rows: &[(&[&str], Option<&Moves>, (Phase, u64, i64))] = &[
            (&[],                   None,          (Phase::New, 0, 0)),
            (&["Ready"],            None,          (Phase::Ready, 0, 4)),
            (&["Stopped"],          None,          (Phase::Stopped, 0, 4)),
            (&["NotReady"],         None,          (Phase::NotReady, 0, 4)),
            (&["ProposalReady"],    None,          (Phase::New, 0, 0)),
            (&["Rebalancing"],      None,          (Phase::New, 0, 0)),
            (&["Warning", "Ready"], None,          (Phase::Ready, 0, 4)),
            (&["Ready"],            Some(&over),   (Phase::Ready, 7, 4)),
            (&["Rebalancing"],      Some(&over),   (Phase::New, 0, 0)),
            (&["Rebalancing"],      Some(&runs),   (Phase::Rebalancing, 7, 4)),
            (&["NotReady"],         Some(&runs),   (Phase::Rebalancing, 7, 4)),
            (&["Ready"],            Some(&others), (Phase::Ready, 0, 4)),
        ];
        for (said, moves, expected) in rows {
            let conditions = said.iter().map(|kind| ((*kind).to_owned(), "why".to_owned()));
            let status =
                Status { observed_generation: Some(4), conditions: conditions.collect() };
            let resource = Resource { uid: "u".to_owned(), status, ..Resource::default() };
            let found = begin(&resource, *moves, None).request;
            assert_eq!((found.phase, found.attempt, found.generation), *expected, "{said:?}");
            let why = (found.phase == Phase::NotReady).then(|| Failure::Final("why".to_owned()));
            assert_eq!(found.failure, why, "{said:?}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_request_that_is_for_another_cluster_now_begins_anew() {
        // The cluster of the record and of the label, the cluster after that, and whether it begins anew.
        let rows = [
            (None,      None,      None,      false),
            (None,      Some("c"), Some("c"), false),
            (Some("c"), Some("c"), Some("c"), false),
            (Some("c"), None,      Some("c"), false),
            (Some("c"), Some("d"), Some("d"), true),
        ];
        for (recorded, label, cluster, anew) in rows {
            let record = Record {
                request: Recorded { phase: Phase::Ready, attempt: 3, generation: 2, ..Recorded::default() },
                cluster: recorded.map(str::to_owned),
                plan: Some(Plan { attempt: 3, ..Plan::default() }),
                session: Some(Session { attempt: 3, ..Session::default() }),
            };
            let resource = Resource { cluster: label.map(str::to_owned), ..Resource::default() };
            let found = begin(&resource, None, Some(&record));
            assert_eq!(found.cluster.as_deref(), cluster, "{recorded:?} {label:?}");
            assert_eq!(found.request.phase == Phase::New, anew, "{recorded:?} {label:?}");
            assert_eq!(found.plan.is_none() && found.session.is_none(), anew, "{recorded:?} {label:?}");
            assert_eq!(found.request.attempt, 3, "an attempt has one cluster");
        }
    }
}
