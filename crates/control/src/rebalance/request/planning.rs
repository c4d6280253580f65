//! A plan of the native engine: what it is about, and why there is none.
//!
//! 1. What is missing and may come is waited for; what a user has to change is final.
//! 2. A plan that is about rates waits until rates are known. Draining brokers is about none.

use std::collections::BTreeSet;

use model::NodeId;
use placement::{BrokerDisks, DiskFinding, DiskGoals, Report};

use super::answers::Unmade;
use super::spec::{Mode, Spec};
use super::words::Failure;
use crate::rebalance::load::Unknown;

/// What a plan is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Replicas move between brokers.
    Replicas {
        /// Brokers that have come and are to be filled.
        added: BTreeSet<NodeId>,
        /// Brokers that are to be drained.
        removed: BTreeSet<NodeId>,
    },
    /// Replicas move between the disks of their brokers.
    Disks(DiskGoals),
}

/// Why the load of a cluster is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unloaded {
    /// No broker was reached so far.
    NoClients,
    /// It could not be read.
    Unread(String),
    /// What was read contradicts itself: the cluster has changed in between.
    Inconsistent(String),
}

impl Scope {
    /// What a plan for a spec is about. `named` are the brokers of the spec, `brokers` those of the cluster.
    ///
    /// # Errors
    /// Brokers that the plan would be about do not exist.
    pub fn of(
        spec: &Spec,
        named: BTreeSet<NodeId>,
        brokers: &BTreeSet<NodeId>,
    ) -> Result<Self, Unmade> {
        let none = BTreeSet::new;
        let missing = || failed("Some/all brokers specified don't exist");
        match spec.mode {
            Mode::RemoveDisks => Ok(Self::Disks(DiskGoals::Empty)),
            Mode::Full if spec.rebalance_disk => Ok(Self::Disks(DiskGoals::Balance)),
            Mode::Full => Ok(Self::Replicas { added: none(), removed: none() }),
            Mode::AddBrokers if !named.is_subset(brokers) => Err(missing()),
            Mode::AddBrokers => Ok(Self::Replicas { added: named, removed: none() }),
            // Those that are gone hold nothing any more.
            Mode::RemoveBrokers if named.is_disjoint(brokers) => Err(missing()),
            Mode::RemoveBrokers => Ok(Self::Replicas { added: none(), removed: named }),
        }
    }

    /// The brokers that it is about by their names.
    pub fn brokers(&self) -> impl Iterator<Item = &NodeId> {
        let sets = match self {
            Self::Replicas { added, removed } => vec![added, removed],
            Self::Disks(_) => Vec::new(),
        };
        sets.into_iter().flatten()
    }

    /// Checks that what the plan is about is known.
    ///
    /// # Errors
    /// It is about rates, and there is no earlier sample to compare with.
    pub fn check_rates(&self, unknown: &[Unknown]) -> Result<(), Unmade> {
        let is_about_rates = match self {
            Self::Replicas { removed, .. } => removed.is_empty(),
            Self::Disks(_) => false,
        };
        match is_about_rates && unknown.contains(&Unknown::TooEarly) {
            true => Err(Unmade::Later(Unknown::TooEarly.to_string())),
            false => Ok(()),
        }
    }

    /// Checks that a plan for replicas is acceptable. `problem` is why it is not ([`problem`]). `running` are the brokers
    /// that run, and `stay` those that are to run and do not leave: one that does not run yet may be what is missing.
    ///
    /// # Errors
    /// It is not acceptable.
    pub fn check_plan(
        &self,
        problem: Option<String>,
        running: &BTreeSet<NodeId>,
        stay: &BTreeSet<NodeId>,
    ) -> Result<(), Unmade> {
        let Some(why) = problem else { return Ok(()) };
        let goes = |id: &NodeId| match self {
            Self::Replicas { removed, .. } => removed.contains(id),
            Self::Disks(_) => false,
        };
        let awaited = stay.difference(running).filter(|id| !goes(id));
        let awaited: Vec<String> = awaited.map(ToString::to_string).collect();
        Err(match awaited.is_empty() {
            true => failed(why),
            false => Unmade::Later(format!("brokers {} do not run yet: {why}", awaited.join(", "))),
        })
    }
}

impl Unmade {
    /// Where the load of the cluster is unknown.
    #[must_use]
    pub fn unloaded(why: Unloaded) -> Self {
        match why {
            Unloaded::NoClients => Self::Later("no broker has answered yet".to_owned()),
            Unloaded::Unread(what) => Self::Later(what),
            Unloaded::Inconsistent(why) => Self::Failed(Failure::Passing(why)),
        }
    }

    /// Where something in the spec cannot be used.
    #[must_use]
    pub fn unusable(why: impl Into<String>) -> Self {
        failed(why)
    }
}

/// Checks that disks that are to be emptied exist and are not the only ones of their brokers.
///
/// # Errors
/// One of them does not exist, or is the only one.
pub fn check_disks(
    wanted: &BTreeSet<(NodeId, String)>,
    disks: &[BrokerDisks],
) -> Result<(), Unmade> {
    let has_others = |id: &NodeId, path: &str| {
        let broker = disks.iter().find(|one| one.broker == *id);
        broker.is_some_and(|one| one.disks.len() > 1 && one.disks.iter().any(|d| d.path == path))
    };
    match wanted.iter().find(|(id, path)| !has_others(id, path)) {
        Some((id, path)) => Err(failed(format!("Broker {id} has no disk {path}, or no other one"))),
        None => Ok(()),
    }
}

/// Checks that nothing is left that forbids a plan for disks.
///
/// # Errors
/// Something is.
pub fn check_findings(findings: &[DiskFinding]) -> Result<(), Unmade> {
    findings.iter().find_map(DiskFinding::refusal).map_or(Ok(()), |why| Err(failed(why)))
}

fn failed(why: impl Into<String>) -> Unmade {
    Unmade::Failed(Failure::Final(why.into()))
}

/// Why a plan is not acceptable, and what would help; `None` if it is.
#[must_use]
pub fn problem(report: &Report) -> Option<String> {
    if report.after.is_acceptable() {
        return None;
    }
    let goals = report.after.goals.iter();
    let mut hard = goals.filter(|state| state.goal.is_hard() && state.findings > 0);
    let what = match (report.after.structure.len(), hard.next()) {
        (0, Some(state)) => {
            format!("{} cannot be met, {} violations are left", state.goal, state.findings)
        }
        (0, None) => "no plan was found".to_owned(),
        (count, _) => format!("{count} partitions do not fit on the remaining brokers"),
    };
    let hints = report.hints.iter().map(ToString::to_string);
    Some([what].into_iter().chain(hints).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use placement::{DiskReplica, DiskSpec};

    use super::*;

    fn ids(list: &[i32]) -> BTreeSet<NodeId> {
        list.iter().map(|id| NodeId::new(*id).unwrap()).collect()
    }

    fn replicas(added: &[i32], removed: &[i32]) -> Scope {
        Scope::Replicas { added: ids(added), removed: ids(removed) }
    }

    fn later(what: &str) -> Unmade {
        Unmade::Later(what.to_owned())
    }

    #[test]
    #[rustfmt::skip]
    fn a_plan_is_about_the_brokers_or_the_disks_of_its_mode() {
        use Mode::{AddBrokers, Full, RemoveBrokers, RemoveDisks};
        let missing = || Err(failed("Some/all brokers specified don't exist"));
        // The mode, whether disks are balanced, the named brokers; the brokers of the cluster are 1, 2 and 3.
        let rows: [(Mode, bool, &[i32], Result<Scope, Unmade>); 12] = [
            (Full,          false, &[],     Ok(replicas(&[], &[]))),
            (Full,          false, &[9],    Ok(replicas(&[], &[]))),
            (Full,          true,  &[],     Ok(Scope::Disks(DiskGoals::Balance))),
            (RemoveDisks,   false, &[],     Ok(Scope::Disks(DiskGoals::Empty))),
            (RemoveDisks,   true,  &[9],    Ok(Scope::Disks(DiskGoals::Empty))),
            (AddBrokers,    false, &[3],    Ok(replicas(&[3], &[]))),
            (AddBrokers,    true,  &[2, 3], Ok(replicas(&[2, 3], &[]))),
            (AddBrokers,    false, &[3, 9], missing()),
            (AddBrokers,    false, &[9],    missing()),
            (RemoveBrokers, false, &[3],    Ok(replicas(&[], &[3]))),
            (RemoveBrokers, true,  &[3, 9], Ok(replicas(&[], &[3, 9]))),
            (RemoveBrokers, false, &[9],    missing()),
        ];
        for (mode, rebalance_disk, named, expected) in rows {
            let spec = Spec { mode, rebalance_disk, ..Spec::default() };
            let found = Scope::of(&spec, ids(named), &ids(&[1, 2, 3]));
            assert_eq!(found, expected, "{mode:?} {rebalance_disk} {named:?}");
        }
    }

    #[test]
    fn only_a_plan_about_rates_waits_for_them() {
        let early = [Unknown::Sizes { partitions: 1 }, Unknown::TooEarly];
        let rows = [
            (replicas(&[], &[]), true),
            (replicas(&[3], &[]), true),
            (replicas(&[], &[3]), false),
            (Scope::Disks(DiskGoals::Balance), false),
            (Scope::Disks(DiskGoals::Empty), false),
        ];
        for (scope, waits) in rows {
            assert_eq!(scope.check_rates(&early[..1]), Ok(()), "{scope:?}");
            let expected = if waits { Err(later(&Unknown::TooEarly.to_string())) } else { Ok(()) };
            assert_eq!(scope.check_rates(&early), expected, "{scope:?}");
        }
    }

    #[test]
    fn what_is_missing_and_may_come_is_waited_for() {
        let passing = Unmade::Failed(Failure::Passing("changed".to_owned()));
        let rows = [
            (Unloaded::NoClients, later("no broker has answered yet")),
            (Unloaded::Unread("late".to_owned()), later("late")),
            (Unloaded::Inconsistent("changed".to_owned()), passing),
        ];
        for (why, expected) in rows {
            assert_eq!(Unmade::unloaded(why.clone()), expected, "{why:?}");
        }
        assert_eq!(Unmade::unusable("no"), failed("no"));
    }

    #[test]
    #[rustfmt::skip]
    fn a_plan_that_is_not_acceptable_waits_for_brokers_that_do_not_run_yet() {
        let problem = || Some("too full".to_owned());
        let waits = |id: i32| Err(later(&format!("brokers {id} do not run yet: too full")));
        let too_full = || Err(failed("too full"));
        // What the plan is about, the brokers that run, those that stay.
        let rows: [(Scope, &[i32], &[i32], Result<(), Unmade>); 5] = [
            (replicas(&[], &[]),  &[1, 2], &[1, 2],    too_full()),
            (replicas(&[3], &[]), &[1, 2], &[1, 2, 3], waits(3)),
            (replicas(&[], &[3]), &[1, 2], &[1, 2, 3], too_full()),
            (replicas(&[], &[3]), &[1, 3], &[1, 2, 3], waits(2)),
            (Scope::Disks(DiskGoals::Empty), &[1], &[1, 2], waits(2)),
        ];
        for (scope, running, stay, expected) in rows {
            let (running, stay) = (ids(running), ids(stay));
            assert_eq!(scope.check_plan(None, &running, &stay), Ok(()));
            assert_eq!(scope.check_plan(problem(), &running, &stay), expected, "{scope:?}");
        }
    }

    #[test]
    fn a_disk_that_is_emptied_exists_and_is_not_the_only_one() {
        let disk =
            |path: &str| DiskSpec { path: path.to_owned(), capacity_mb: 1.0, removed: false };
        let broker = |id: i32, paths: &[&str]| BrokerDisks {
            broker: NodeId::new(id).unwrap(),
            disks: paths.iter().map(|path| disk(path)).collect(),
            replicas: Vec::<DiskReplica>::new(),
        };
        let disks = [broker(1, &["/a", "/b"]), broker(2, &["/a"])];
        let wanted = |id: i32, path: &str| [(NodeId::new(id).unwrap(), path.to_owned())].into();
        let rows = [(1, "/a", true), (1, "/c", false), (2, "/a", false), (3, "/a", false)];
        for (id, path, is_fine) in rows {
            let why = format!("Broker {id} has no disk {path}, or no other one");
            let expected = if is_fine { Ok(()) } else { Err(failed(why)) };
            assert_eq!(check_disks(&wanted(id, path), &disks), expected);
        }
        assert_eq!(check_disks(&BTreeSet::new(), &[]), Ok(()));
    }
}
