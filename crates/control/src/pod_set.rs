//! What to do so that the pods of a set exist, and no others.
//!
//! What always holds:
//!
//! 1. A pod that somebody else controls is never touched, whatever its name.
//! 2. A pod that is ending is left to end; it is made again when it is gone.
//! 3. A pod that runs is never replaced because its definition has changed: that is for the roller.
//! 4. Only a pod that carries the labels of the set, that the set controls and that it does not list is
//!    taken away.
//! 5. Nothing is done about the pods of a set that is being deleted: they are for the garbage collector.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Who controls a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Owner {
    /// No object.
    Unowned,
    /// The pod set in question.
    ThisSet,
    /// Another object, of whatever kind.
    Other,
}

/// A pod that the set lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// What tells two definitions of it apart; `None` if the definition does not say.
    pub revision: Option<String>,
}

/// A pod that there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFacts {
    /// Its name.
    pub name: String,
    /// Who controls it.
    pub owner: Owner,
    /// Whether it carries the labels of the set.
    pub has_labels: bool,
    /// Whether it was asked to end.
    pub is_ending: bool,
    /// Whether its containers have ended for good.
    pub is_over: bool,
    /// Whether it is ready.
    pub is_ready: bool,
    /// The revision of the definition that it was made from.
    pub revision: Option<String>,
}

/// Everything that a pass over a set knows. Both lists are whole: a pod that is not in `pods` does not exist.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Whether the set is being deleted.
    pub is_ending: bool,
    /// The pods that it lists.
    pub listed: Vec<Listed>,
    /// The pods that there are.
    pub pods: Vec<PodFacts>,
}

/// What to do with one pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Take control of it.
    Adopt(String),
    /// End it because its containers have ended; it is made again when it is gone.
    Replace(String),
    /// End it because it is not listed.
    Remove(String),
    /// Make it.
    Create(String),
}

/// What to do with the pods of a set, and what to report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// The status; `None` leaves it as it is.
    pub report: Option<Report>,
}

/// The status of a set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// How many pods are listed.
    pub pods: usize,
    /// How many of these are ready.
    pub ready: usize,
    /// How many of these are made from the listed definition.
    pub current: usize,
    /// What the user has to change.
    pub problem: Option<Problem>,
}

/// Something that the user has to change. The list is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Pods are listed that somebody else controls.
    PodOfAnotherOwner(Vec<String>),
}

impl Problem {
    /// The type of the condition: Strimzi's.
    pub const CONDITION: &'static str = "Error";

    /// The reason of the condition.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::PodOfAnotherOwner(_) => "PodOfAnotherOwner",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodOfAnotherOwner(pods) => write!(
                f,
                "controlled by another owner, and left unchanged: {}; delete or rename these objects",
                pods.join(", ")
            ),
        }
    }
}

/// What to do.
#[must_use]
pub fn decide(snapshot: &Snapshot) -> Decision {
    if snapshot.is_ending {
        return Decision::default();
    }
    let Snapshot { listed, pods, .. } = snapshot;
    let by_name: BTreeMap<_, _> = pods.iter().map(|pod| (pod.name.as_str(), pod)).collect();
    let mut report = Report { pods: listed.len(), ..Report::default() };
    let (mut actions, mut foreign) = (Vec::new(), Vec::new());
    for entry in listed {
        let Some(pod) = by_name.get(entry.name.as_str()) else {
            actions.push(Action::Create(entry.name.clone()));
            continue;
        };
        if pod.owner != Owner::Other {
            report.ready += usize::from(pod.is_ready && !pod.is_ending);
            report.current += usize::from(pod.revision == entry.revision);
        }
        match (pod.owner, pod.is_ending, pod.is_over) {
            (Owner::Other, _, _) => foreign.push(entry.name.clone()),
            (Owner::Unowned | Owner::ThisSet, true, _) => {}
            (Owner::Unowned, false, _) => actions.push(Action::Adopt(entry.name.clone())),
            (Owner::ThisSet, false, true) => {
                actions.push(Action::Replace(entry.name.clone()));
            }
            (Owner::ThisSet, false, false) => {}
        }
    }
    let is_listed = |name: &str| listed.iter().any(|entry| entry.name == name);
    let extra = pods.iter().filter(|pod| {
        pod.owner == Owner::ThisSet && pod.has_labels && !pod.is_ending && !is_listed(&pod.name)
    });
    actions.extend(extra.map(|pod| Action::Remove(pod.name.clone())));
    // What exists is put in order before anything is added.
    actions.sort();
    report.problem = (!foreign.is_empty()).then_some(Problem::PodOfAnotherOwner(foreign));
    Decision { actions, report: Some(report) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str]) -> Vec<Listed> {
        let revision = Some("1".to_owned());
        names
            .iter()
            .map(|name| Listed { name: (*name).to_owned(), revision: revision.clone() })
            .collect()
    }

    fn pod(name: &str) -> PodFacts {
        PodFacts {
            name: name.to_owned(),
            owner: Owner::ThisSet,
            has_labels: true,
            is_ending: false,
            is_over: false,
            is_ready: true,
            revision: Some("1".to_owned()),
        }
    }

    #[track_caller]
    fn check(names: &[&str], pods: &[PodFacts], expected: &[Action]) -> Report {
        let snapshot = Snapshot { is_ending: false, listed: listed(names), pods: pods.to_vec() };
        let decision = decide(&snapshot);
        assert_eq!(decision.actions, expected);
        let ending = Snapshot { is_ending: true, ..snapshot };
        assert_eq!(decide(&ending), Decision::default(), "a set that is deleted is left unchanged");
        decision.report.unwrap()
    }

    #[test]
    fn listed_pods_are_made_and_others_taken_away() {
        let create = |name: &str| Action::Create(name.to_owned());
        check(&["a", "b"], &[], &[create("a"), create("b")]);
        let all = check(&["a", "b"], &[pod("a"), pod("b")], &[]);
        assert_eq!((all.pods, all.ready, all.current), (2, 2, 2));
        let remove = Action::Remove("b".to_owned());
        let left = check(&["a", "c"], &[pod("a"), pod("b")], &[remove, create("c")]);
        assert_eq!((left.pods, left.ready, left.current), (2, 1, 1));
    }

    #[test]
    fn a_pod_that_is_ending_is_neither_ended_nor_made_again() {
        let ending = PodFacts { is_ending: true, ..pod("a") };
        let listed = check(&["a"], std::slice::from_ref(&ending), &[]);
        assert_eq!(listed.ready, 0);
        check(&[], std::slice::from_ref(&ending), &[]);
        check(&["a"], &[PodFacts { is_over: true, ..ending }], &[]);
    }

    #[test]
    fn what_has_ended_for_good_is_replaced() {
        let over = PodFacts { is_over: true, is_ready: false, ..pod("a") };
        check(&["a"], &[over], &[Action::Replace("a".to_owned())]);
    }

    #[test]
    fn a_pod_of_nobody_is_adopted_only_if_it_is_listed() {
        let free = PodFacts { owner: Owner::Unowned, ..pod("a") };
        check(&["a"], std::slice::from_ref(&free), &[Action::Adopt("a".to_owned())]);
        let over = PodFacts { is_over: true, ..free.clone() };
        check(&["a"], &[over], &[Action::Adopt("a".to_owned())]);
        check(&[], &[free], &[]);
    }

    #[test]
    fn a_pod_of_somebody_else_is_not_touched() {
        for (is_ending, is_over) in [(false, false), (true, false), (false, true), (true, true)] {
            let foreign = PodFacts { owner: Owner::Other, is_ending, is_over, ..pod("a") };
            let report = check(&["a"], std::slice::from_ref(&foreign), &[]);
            let problem = report.problem.unwrap();
            assert_eq!(problem, Problem::PodOfAnotherOwner(vec!["a".to_owned()]));
            assert_eq!(problem.reason(), "PodOfAnotherOwner");
            assert_eq!((report.pods, report.ready, report.current), (1, 0, 0));
            check(&[], &[foreign], &[]);
        }
    }

    #[test]
    fn an_old_definition_is_counted_and_never_a_reason_to_act() {
        let old = PodFacts { revision: Some("0".to_owned()), ..pod("a") };
        let report = check(&["a"], &[old], &[]);
        assert_eq!((report.ready, report.current), (1, 0));
    }

    #[test]
    fn a_pod_without_the_labels_is_not_taken_away() {
        check(&[], &[PodFacts { has_labels: false, ..pod("a") }], &[]);
    }
}
