//! Whether a Kafka cluster is managed while a Strimzi cluster operator runs that may manage it, too.
//!
//! 1. Two operators never manage the same cluster: where a Strimzi operator runs that watches the namespace of a cluster,
//!    nothing of the cluster is changed.
//! 2. Selectors that no set of labels can match together keep the operators apart. Anything else does not: labels change.
//! 3. A user can confirm that the cluster is Gregor's.
//! 4. An unknown Strimzi operator, or an unknown selector of it, is taken for one that manages the cluster.
//! 5. A resource that the selector of this operator does not match is never managed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// A selector of resources by labels. An empty one selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(BTreeMap<String, String>);

/// A text that is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a list of labels such as team=a,stage=test")]
pub struct InvalidSelector(String);

impl FromStr for Selector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        let invalid = || InvalidSelector(text.to_owned());
        let mut labels = BTreeMap::new();
        for label in text.split(',').filter(|_| !text.trim().is_empty()) {
            let (name, value) = label.split_once('=').ok_or_else(invalid)?;
            let (name, value) = (name.trim(), value.trim());
            // One value each: `a=1,a=2` would select nothing.
            let is_new = labels.insert(name.to_owned(), value.to_owned()).is_none();
            if name.is_empty() || name.ends_with('!') || value.contains('=') || !is_new {
                return Err(invalid());
            }
        }
        Ok(Self(labels))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&labels.join(","))
    }
}

impl Selector {
    /// Whether it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a resource with these labels is selected.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|(name, value)| labels.get(name) == Some(value))
    }

    /// Whether no labels match both.
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.0.iter().any(|(name, value)| other.0.get(name).is_some_and(|theirs| theirs != value))
    }
}

/// The namespaces that a Strimzi operator watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// All.
    All,
    /// These.
    Some(BTreeSet<String>),
    /// It is unknown which.
    Unknown,
}

impl Watched {
    fn may_include(&self, namespace: &str) -> bool {
        match self {
            Self::All | Self::Unknown => true,
            Self::Some(namespaces) => namespaces.contains(namespace),
        }
    }
}

/// A running Strimzi cluster operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strimzi {
    /// Its namespace and name.
    pub name: String,
    /// The namespaces that it watches.
    pub watched: Watched,
    /// Its selector. `None` if it is unknown.
    pub selector: Option<Selector>,
}

/// Facts about a cluster and its operators.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The selector of this operator.
    pub own: &'a Selector,
    /// The namespace of the cluster.
    pub namespace: &'a str,
    /// The labels of the Kafka resource.
    pub labels: &'a BTreeMap<String, String>,
    /// Whether a user has confirmed that the cluster is Gregor's.
    pub is_confirmed: bool,
    /// Running Strimzi operators. `None` if they are unknown.
    pub strimzi: Option<&'a [Strimzi]>,
}

/// What is done with a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is managed.
    Manage,
    /// It is not selected: nothing is done, and nothing is reported.
    NotSelected,
    /// Nothing is changed: this Strimzi operator may manage it.
    Strimzi(String),
    /// Nothing is changed: it is unknown whether a Strimzi operator runs.
    Unknown,
}

/// Decides whether a cluster is managed.
#[must_use]
pub fn decide(facts: Facts<'_>) -> Decision {
    if !facts.own.matches(facts.labels) {
        return Decision::NotSelected;
    }
    if facts.is_confirmed {
        return Decision::Manage;
    }
    let Some(strimzi) = facts.strimzi else { return Decision::Unknown };
    let may_manage = |one: &&Strimzi| {
        let is_apart = one.selector.as_ref().is_some_and(|theirs| facts.own.is_disjoint(theirs));
        one.watched.may_include(facts.namespace) && !is_apart
    };
    match strimzi.iter().find(may_manage) {
        Some(one) => Decision::Strimzi(one.name.clone()),
        None => Decision::Manage,
    }
}

impl Decision {
    /// Whether the cluster is managed.
    #[must_use]
    pub fn is_managed(&self) -> bool {
        *self == Self::Manage
    }

    /// Whether a person has to act.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Strimzi(_) | Self::Unknown)
    }

    /// What a user has to know. `annotation` confirms that the cluster is Gregor's.
    #[must_use]
    pub fn message(&self, annotation: &str) -> Option<String> {
        match self {
            Self::Manage | Self::NotSelected => None,
            Self::Strimzi(name) => Some(format!(
                "nothing is changed: the Strimzi cluster operator {name} runs and may manage this cluster. Stop it, give \
                 both operators selectors with different values of one label, or confirm with the annotation \
                 {annotation}=true"
            )),
            Self::Unknown => Some(format!(
                "nothing is changed: it is unknown whether a Strimzi cluster operator manages this cluster, because pods \
                 and Deployments cannot be listed. Confirm with the annotation {annotation}=true that none does"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(text: &str) -> Selector {
        text.parse().unwrap()
    }

    fn labels(text: &str) -> BTreeMap<String, String> {
        selector(text).0
    }

    #[test]
    fn selectors_are_lists_of_labels() {
        let rows = [
            ("", Some("")),
            (" ", Some("")),
            ("a=1", Some("a=1")),
            (" b = 2 , a = 1 ", Some("a=1,b=2")),
            ("a=", Some("a=")),
            ("a", None),
            ("a!=1", None),
            ("a==1", None),
            ("=1", None),
            ("a=1,", None),
            ("a=1,a=2", None),
        ];
        for (text, expected) in rows {
            let parsed = text.parse::<Selector>().ok().map(|one| one.to_string());
            assert_eq!(parsed.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn selectors_are_disjoint_if_one_label_differs_in_value() {
        let rows = [
            ("", "", false),
            ("a=1", "", false),
            ("a=1", "a=1", false),
            ("a=1", "b=1", false),
            ("a=1", "a=2", true),
            ("a=1,b=1", "a=1,b=2", true),
            ("a=1,b=1", "a=1,c=2", false),
        ];
        for (one, other, expected) in rows {
            assert_eq!(selector(one).is_disjoint(&selector(other)), expected, "{one} {other}");
            assert_eq!(selector(other).is_disjoint(&selector(one)), expected, "{other} {one}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_cluster_has_at_most_one_operator() {
        let some = |names: &[&str]| Watched::Some(names.iter().map(|name| (*name).to_owned()).collect());
        let strimzi = |watched: Watched, theirs: Option<&str>| {
            vec![Strimzi { name: "s/s".to_owned(), watched, selector: theirs.map(selector) }]
        };
        let runs = || Decision::Strimzi("s/s".to_owned());
        // The selector of this operator, the labels of the Kafka in namespace n, confirmed, Strimzi, and the decision.
        let rows = [
            ("nobody else",            "",    "",        false, Some(vec![]),                                   Decision::Manage),
            ("everywhere",             "",    "",        false, Some(strimzi(Watched::All, Some(""))),          runs()),
            ("confirmed",              "",    "",        true,  Some(strimzi(Watched::All, Some(""))),          Decision::Manage),
            ("here",                   "",    "",        false, Some(strimzi(some(&["m", "n"]), Some(""))),     runs()),
            ("elsewhere",              "",    "",        false, Some(strimzi(some(&["m"]), Some(""))),          Decision::Manage),
            ("unknown where",          "",    "",        false, Some(strimzi(Watched::Unknown, Some(""))),      runs()),
            ("disjoint",               "o=g", "o=g",     false, Some(strimzi(Watched::All, Some("o=s"))),       Decision::Manage),
            ("theirs only, not ours",  "",    "",        false, Some(strimzi(Watched::All, Some("o=s"))),       runs()),
            ("ours only",              "o=g", "o=g",     false, Some(strimzi(Watched::All, Some(""))),          runs()),
            ("other labels",           "o=g", "o=g",     false, Some(strimzi(Watched::All, Some("x=s"))),       runs()),
            ("unknown selector",       "o=g", "o=g",     false, Some(strimzi(Watched::All, None)),              runs()),
            ("unknown operators",      "",    "",        false, None,                                           Decision::Unknown),
            ("unknown, confirmed",     "",    "",        true,  None,                                           Decision::Manage),
            ("not selected",           "o=g", "o=s",     false, Some(vec![]),                                   Decision::NotSelected),
            ("not selected, confirmed","o=g", "",        true,  Some(strimzi(Watched::All, Some(""))),          Decision::NotSelected),
            ("selected among others",  "o=g", "o=g,t=1", false, Some(vec![]),                                   Decision::Manage),
        ];
        for (name, own, of_kafka, is_confirmed, strimzi, expected) in rows {
            let (own, of_kafka) = (selector(own), labels(of_kafka));
            let facts = Facts {
                own: &own, namespace: "n", labels: &of_kafka, is_confirmed, strimzi: strimzi.as_deref(),
            };
            let decision = decide(facts);
            assert_eq!(decision, expected, "{name}");
            let is_told = matches!(decision, Decision::Strimzi(_) | Decision::Unknown);
            assert_eq!(decision.message("x").is_some(), is_told, "{name}");
        }
    }
}
