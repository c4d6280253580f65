//! The pods of Strimzi that this operator replaces for a cluster: its entity operator and its Kafka exporter. When they are
//! removed, and which objects go with them.
//!
//! 1. Two operators would undo each other's work: topics and users wait as long as a pod of the entity operator may run.
//! 2. The Deployment is deleted first; what belongs to it when no pod is left.
//! 3. A Deployment that was created again after it was deleted is left unchanged: an operator of Strimzi manages the `Kafka` too.
//! 4. What could not be read is not absent.
//! 5. In a namespace that other clusters may share, only what is bound to this cluster is removed.
//!
//! What it must not do: read, write, or know how Kubernetes encodes any of it.

/// Collections of metrics that were scraped one after the other. A person who looks once is not Prometheus.
const SCRAPED_MIN: usize = 3;

/// A component of Strimzi.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Manages topics and users.
    EntityOperator,
    /// Serves metrics of topics and groups.
    KafkaExporter,
}

/// What was read. Unknown is not absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read<T> {
    /// It was read.
    Found(T),
    /// The operator has no right to read it.
    Forbidden,
    /// The API server did not answer.
    Unknown,
}

/// A Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// Its uid.
    pub uid: String,
    /// Whether it is being deleted.
    pub is_deleting: bool,
}

/// What is done next about a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Its Deployment of this uid is deleted.
    Delete(String),
    /// Nothing, and topics and users wait.
    Wait(Wait),
    /// What belongs to it is removed.
    RemoveRest,
    /// Nothing is left of it.
    Done,
}

/// Why topics and users wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// The Deployment is being deleted.
    Deleting,
    /// This pod of it still exists.
    Pod(String),
    /// The Deployment was created again.
    CreatedAgain,
    /// Whether it runs is unknown.
    Unknown,
}

/// A kind of object that belongs to a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "kinds of Kubernetes")]
pub enum Kind {
    RoleBinding,
    ConfigMap,
    Secret,
    Role,
    NetworkPolicy,
    PodDisruptionBudget,
    ServiceAccount,
}

/// A binding of a role, in a namespace that is watched for resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Its name.
    pub name: String,
    /// The name of the role.
    pub role: String,
    /// The service accounts that have the role: namespace and name.
    pub accounts: Vec<(String, String)>,
}

impl Component {
    /// The name of its Deployment, its pods' label, and most of its objects.
    #[must_use]
    pub fn name(self, cluster: &str) -> String {
        match self {
            Self::EntityOperator => format!("{cluster}-entity-operator"),
            Self::KafkaExporter => format!("{cluster}-kafka-exporter"),
        }
    }

    /// The objects that belong to it in the namespace of the cluster, in the order in which they are removed.
    #[must_use]
    pub fn objects(self, cluster: &str) -> Vec<(Kind, String)> {
        let name = || self.name(cluster);
        let mut objects: Vec<(Kind, String)> = match self {
            Self::EntityOperator => ["topic", "user"]
                .iter()
                .flat_map(|half| {
                    let half = format!("{cluster}-entity-{half}-operator");
                    [
                        (Kind::RoleBinding, format!("{half}-role")),
                        (Kind::ConfigMap, format!("{half}-config")),
                        (Kind::Secret, format!("{half}-certs")),
                    ]
                })
                .chain([
                    (Kind::Secret, format!("{cluster}-entity-topic-operator-cc-api")),
                    (Kind::Role, name()),
                ])
                .collect(),
            Self::KafkaExporter => vec![(Kind::Secret, format!("{}-certs", name()))],
        };
        let rest = [Kind::NetworkPolicy, Kind::PodDisruptionBudget, Kind::ServiceAccount];
        objects.extend(rest.map(|kind| (kind, name())));
        objects
    }
}

/// Decides what is done next. `pods` are the pods of the component; `deleted` is the uid of the Deployment that this operator
/// has deleted, if it has, and `is_whole` says that it has removed what belongs to it too.
#[must_use]
pub fn step(
    deployment: &Read<Option<Deployment>>,
    pods: &Read<Vec<String>>,
    (deleted, is_whole): (Option<&str>, bool),
) -> Step {
    match deployment {
        Read::Unknown => return Step::Wait(Wait::Unknown),
        Read::Found(Some(found)) if deleted.is_some_and(|uid| uid != found.uid) => {
            return Step::Wait(Wait::CreatedAgain);
        }
        Read::Found(Some(found)) if found.is_deleting => return Step::Wait(Wait::Deleting),
        Read::Found(Some(found)) => return Step::Delete(found.uid.clone()),
        Read::Found(None) | Read::Forbidden => {}
    }
    match pods {
        Read::Unknown | Read::Forbidden => Step::Wait(Wait::Unknown),
        Read::Found(pods) => match (pods.first(), deployment) {
            (Some(pod), _) => Step::Wait(Wait::Pod(pod.clone())),
            // Installed with fewer rights: whoever installed it removes what is left.
            (None, Read::Forbidden) => Step::Done,
            (None, _) if is_whole => Step::Done,
            (None, _) => Step::RemoveRest,
        },
    }
}

/// Whether the exporter of a cluster is removed. Until Prometheus scrapes this operator instead, the exporter is all that
/// its alerts have: that this operator serves the same metrics is not enough. Two sources count double, so once it does,
/// the exporter goes.
#[must_use]
pub const fn replaces_exporter(scraped_in_a_row: usize) -> bool {
    scraped_in_a_row >= SCRAPED_MIN
}

/// What is removed in another namespace that the entity operator of a cluster watched: the bindings for its account, and
/// whether its role goes too. They are not garbage-collected, since an owner must be in the same namespace. The role stays as long
/// as a cluster of the same name elsewhere needs it.
#[must_use]
pub fn elsewhere((namespace, cluster): (&str, &str), bindings: &[Binding]) -> (Vec<String>, bool) {
    let account = Component::EntityOperator.name(cluster);
    let is_ours = |binding: &&Binding| {
        let all = &binding.accounts;
        !all.is_empty() && all.iter().all(|(of, name)| of == namespace && *name == account)
    };
    let ours = bindings.iter().filter(|one| one.role == account).filter(is_ours);
    let ours: Vec<_> = ours.map(|one| one.name.clone()).collect();
    let is_needed = bindings.iter().any(|one| one.role == account && !ours.contains(&one.name));
    let removes_role = !ours.is_empty() && !is_needed;
    (ours, removes_role)
}

impl Wait {
    /// Why topics and users wait, and who has to act.
    #[must_use]
    pub fn message(&self, cluster: &str) -> String {
        let name = Component::EntityOperator.name(cluster);
        let why = match self {
            Self::Deleting => format!("Strimzi's entity operator {name} is being removed"),
            Self::Pod(pod) => format!(
                "the pod {pod} of Strimzi's entity operator still runs. If it does not end, delete its Deployment"
            ),
            Self::CreatedAgain => format!(
                "the Deployment {name} was created again after it was removed. Stop the Strimzi cluster operator that \
                 manages this Kafka, or have it watch other namespaces"
            ),
            Self::Unknown => format!("whether Strimzi's entity operator {name} runs is unknown"),
        };
        format!("KafkaTopics and KafkaUsers are not managed: {why}")
    }

    /// Whether it ends by itself. Otherwise a person has to act.
    #[must_use]
    pub const fn ends(&self) -> bool {
        match self {
            Self::Deleting | Self::Unknown => true,
            Self::Pod(_) | Self::CreatedAgain => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(uid: &str, is_deleting: bool) -> Read<Option<Deployment>> {
        Read::Found(Some(Deployment { uid: uid.to_owned(), is_deleting }))
    }

    fn pods(names: &[&str]) -> Read<Vec<String>> {
        Read::Found(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    #[rustfmt::skip]
    fn an_entity_operator_is_removed_before_this_operator_begins() {
        use Read::{Forbidden, Found, Unknown};
        let delete = || Step::Delete("u".to_owned());
        let pod = || Step::Wait(Wait::Pod("p".to_owned()));
        let wait = Step::Wait;
        let rows = [
            ("M1 created again by the cluster operator", deployment("v", false), pods(&[]),    Some("u"), true,  wait(Wait::CreatedAgain)),
            ("M1 and again while it is deleted",         deployment("v", true),  pods(&[]),    Some("u"), true,  wait(Wait::CreatedAgain)),
            ("M2 it runs",                               deployment("u", false), pods(&["p"]), None,      false, delete()),
            ("M2 asked for again",                       deployment("u", false), pods(&["p"]), Some("u"), false, delete()),
            ("M2 it is being deleted",                   deployment("u", true),  pods(&["p"]), Some("u"), false, wait(Wait::Deleting)),
            ("M2 deleted by its user",                   deployment("u", true),  pods(&[]),    None,      false, wait(Wait::Deleting)),
            ("M2 a pod is left",                         Found(None),            pods(&["p"]), Some("u"), false, pod()),
            ("M2 a pod of a former removal",             Found(None),            pods(&["p"]), None,      true,  pod()),
            ("M2 no answer",                             Unknown,                pods(&[]),    Some("u"), true,  wait(Wait::Unknown)),
            ("M2 no answer about pods",                  Found(None),            Unknown,      Some("u"), true,  wait(Wait::Unknown)),
            ("M2 no right to see pods",                  Found(None),            Forbidden,    Some("u"), true,  wait(Wait::Unknown)),
            ("M3 no pod is left",                        Found(None),            pods(&[]),    Some("u"), false, Step::RemoveRest),
            ("M3 what a former process left",            Found(None),            pods(&[]),    None,      false, Step::RemoveRest),
            ("M3 nothing is left",                       Found(None),            pods(&[]),    Some("u"), true,  Step::Done),
            ("M3 no right to see Deployments",           Forbidden,              pods(&[]),    None,      false, Step::Done),
            ("M3 the same, and it runs",                 Forbidden,              pods(&["p"]), None,      false, pod()),
            ("M4 without pods, since it was stopped",    deployment("u", false), pods(&[]),    None,      false, delete()),
        ];
        for (row, deployment, pods, deleted, is_whole, expected) in rows {
            assert_eq!(step(&deployment, &pods, (deleted, is_whole)), expected, "{row}");
        }
    }

    #[test]
    fn every_object_of_a_component_is_removed_and_its_account_last() {
        let lines = |component: Component| {
            let objects = component.objects("c").into_iter();
            objects.map(|(kind, name)| format!("{kind:?} {name}")).collect::<Vec<_>>()
        };
        let expected = [
            "RoleBinding c-entity-topic-operator-role",
            "ConfigMap c-entity-topic-operator-config",
            "Secret c-entity-topic-operator-certs",
            "RoleBinding c-entity-user-operator-role",
            "ConfigMap c-entity-user-operator-config",
            "Secret c-entity-user-operator-certs",
            "Secret c-entity-topic-operator-cc-api",
            "Role c-entity-operator",
            "NetworkPolicy c-entity-operator",
            "PodDisruptionBudget c-entity-operator",
            "ServiceAccount c-entity-operator",
        ];
        assert_eq!(lines(Component::EntityOperator), expected, "M3");
        let expected = [
            "Secret c-kafka-exporter-certs",
            "NetworkPolicy c-kafka-exporter",
            "PodDisruptionBudget c-kafka-exporter",
            "ServiceAccount c-kafka-exporter",
        ];
        assert_eq!(lines(Component::KafkaExporter), expected, "M15");
        assert_eq!(Component::KafkaExporter.name("c"), "c-kafka-exporter", "M15");
    }

    #[test]
    fn an_exporter_stays_until_this_operator_is_scraped_instead() {
        let rows =
            [("M15 never", 0, false), ("M15 once by hand", 1, false), ("M15 twice", 2, false)];
        for (row, scraped, expected) in rows.into_iter().chain([("M15 Prometheus", 3, true)]) {
            assert_eq!(replaces_exporter(scraped), expected, "{row}");
        }
    }

    #[test]
    fn in_another_namespace_only_what_is_bound_to_the_cluster_goes() {
        let binding = |name: &str, accounts: &[(&str, &str)]| Binding {
            name: name.to_owned(),
            role: "c-entity-operator".to_owned(),
            accounts: accounts.iter().map(|(of, to)| ((*of).into(), (*to).into())).collect(),
        };
        let ours = || binding("ours", &[("ns", "c-entity-operator")]);
        let theirs = || binding("theirs", &[("other", "c-entity-operator")]);
        let both =
            || binding("both", &[("ns", "c-entity-operator"), ("other", "c-entity-operator")]);
        let user = || binding("user", &[("ns", "somebody")]);
        let another = || Binding { role: "mine".to_owned(), ..ours() };
        #[rustfmt::skip]
        let rows: [(&str, Vec<Binding>, &[&str], bool); 7] = [
            ("M3 ours",                      vec![ours()],           &["ours"], true),
            ("M3 of the same name elsewhere", vec![theirs()],        &[],       false),
            ("M3 ours and theirs",           vec![ours(), theirs()], &["ours"], false),
            ("M3 a binding for both",        vec![both()],           &[],       false),
            ("M3 bound by a user",           vec![ours(), user()],   &["ours"], false),
            ("M3 of another role",           vec![another()],        &[],       false),
            ("M3 none",                      vec![],                 &[],       false),
        ];
        for (row, bindings, names, removes_role) in rows {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(elsewhere(("ns", "c"), &bindings), (names, removes_role), "{row}");
        }
    }

    #[test]
    fn a_message_says_who_has_to_act() {
        for (wait, words, ends) in [
            (Wait::Deleting, "is being removed", true),
            (Wait::Pod("p".to_owned()), "the pod p of Strimzi's entity operator still runs", false),
            (Wait::CreatedAgain, "Stop the Strimzi cluster operator", false),
            (Wait::Unknown, "is unknown", true),
        ] {
            let message = wait.message("c");
            assert!(message.starts_with("KafkaTopics and KafkaUsers are not managed: "), "M1");
            assert!(message.contains(words), "{message}");
            assert_eq!(wait.ends(), ends, "{message}");
        }
    }
}
