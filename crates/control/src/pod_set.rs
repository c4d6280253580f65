//! What to do so that the pods of a set exist, and no others.
//!
//! What always holds:
//!
//! 1. A pod that somebody else controls is never touched, whatever its name.
//! 2. A pod that is ending is left to end; it is made again when it is gone.
//! 3. A pod that runs is never replaced because its definition has changed: that is for the roller.
//! 4. Only a pod that carries the labels of the set, that the set controls and that it does not list is
//!    taken away.

use std::collections::BTreeMap;

/// Who controls a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Nobody.
    Nobody,
    /// The pod set in question.
    ThisSet,
    /// Another object, of whatever kind.
    SomebodyElse,
}

/// A pod that the set lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// What tells two definitions of it apart; `None` if the definition does not say.
    pub revision: Option<String>,
}

/// A pod that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// What to do with the pods of a set, and how it is with them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// Pods that are listed and that somebody else controls.
    pub foreign: Vec<String>,
    /// How many pods are listed.
    pub pods: usize,
    /// How many of these are ready.
    pub ready: usize,
    /// How many of these are made from the listed definition.
    pub current: usize,
}

/// What to do. Both lists must be whole: a pod that is not in `pods` does not exist.
#[must_use]
pub fn decide(listed: &[Listed], pods: &[PodFacts]) -> Decision {
    let by_name: BTreeMap<_, _> = pods.iter().map(|pod| (pod.name.as_str(), pod)).collect();
    let mut decision = Decision { pods: listed.len(), ..Decision::default() };
    for entry in listed {
        let Some(pod) = by_name.get(entry.name.as_str()) else {
            decision.actions.push(Action::Create(entry.name.clone()));
            continue;
        };
        if pod.owner != Owner::SomebodyElse {
            decision.ready += usize::from(pod.is_ready && !pod.is_ending);
            decision.current += usize::from(pod.revision == entry.revision);
        }
        match (pod.owner, pod.is_ending, pod.is_over) {
            (Owner::SomebodyElse, _, _) => decision.foreign.push(entry.name.clone()),
            (Owner::Nobody | Owner::ThisSet, true, _) => {}
            (Owner::Nobody, false, _) => decision.actions.push(Action::Adopt(entry.name.clone())),
            (Owner::ThisSet, false, true) => {
                decision.actions.push(Action::Replace(entry.name.clone()));
            }
            (Owner::ThisSet, false, false) => {}
        }
    }
    let is_listed = |name: &str| listed.iter().any(|entry| entry.name == name);
    let extra = pods.iter().filter(|pod| {
        pod.owner == Owner::ThisSet && pod.has_labels && !pod.is_ending && !is_listed(&pod.name)
    });
    decision.actions.extend(extra.map(|pod| Action::Remove(pod.name.clone())));
    // What exists is put in order before anything is added.
    decision.actions.sort();
    decision
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
    fn check(names: &[&str], pods: &[PodFacts], expected: &[Action]) -> Decision {
        let decision = decide(&listed(names), pods);
        assert_eq!(decision.actions, expected);
        decision
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
        let free = PodFacts { owner: Owner::Nobody, ..pod("a") };
        check(&["a"], std::slice::from_ref(&free), &[Action::Adopt("a".to_owned())]);
        let over = PodFacts { is_over: true, ..free.clone() };
        check(&["a"], &[over], &[Action::Adopt("a".to_owned())]);
        check(&[], &[free], &[]);
    }

    #[test]
    fn a_pod_of_somebody_else_is_not_touched() {
        for (is_ending, is_over) in [(false, false), (true, false), (false, true), (true, true)] {
            let foreign = PodFacts { owner: Owner::SomebodyElse, is_ending, is_over, ..pod("a") };
            let decision = check(&["a"], std::slice::from_ref(&foreign), &[]);
            assert_eq!(decision.foreign, ["a"]);
            assert_eq!((decision.pods, decision.ready, decision.current), (1, 0, 0));
            check(&[], &[foreign], &[]);
        }
    }

    #[test]
    fn an_old_definition_is_counted_and_never_a_reason_to_act() {
        let old = PodFacts { revision: Some("0".to_owned()), ..pod("a") };
        let decision = check(&["a"], &[old], &[]);
        assert_eq!((decision.ready, decision.current), (1, 0));
    }

    #[test]
    fn a_pod_without_the_labels_is_not_taken_away() {
        check(&[], &[PodFacts { has_labels: false, ..pod("a") }], &[]);
    }
}
