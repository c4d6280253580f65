//! Everything that has to be in a Kubernetes cluster for the operator to work there, from one source.
//!
//! `gregor install` prints it, `gregor up` applies it, and a test holds the Helm chart to it. It describes and
//! does nothing.

pub mod console;
mod deployment;
mod policy;
pub mod rbac;

use std::collections::BTreeMap;

use control::life::coexist::Selector;
use serde_json::{Value, json};

pub use deployment::{HTTP_PORT, TIMEOUT_VARIABLE};

/// The name of the Deployment, the account, the roles and the Lease.
pub const NAME: &str = "gregor-operator";

/// The default namespace.
pub const NAMESPACE: &str = "gregor";

/// What differs from one installation to another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installation {
    /// The namespace of the operator itself. It is made.
    pub namespace: String,
    /// The operator's image.
    pub image: String,
    /// The image of a Kafka node, by the version of Kafka.
    pub kafka_images: BTreeMap<String, String>,
    /// The namespaces in which it works; all if empty. They must exist.
    pub watch_namespaces: Vec<String>,
    /// How many operators there are. One leads, the others wait.
    pub replicas: u32,
    /// How long a pod may take to become ready, in milliseconds; `None` for the default.
    pub operation_timeout_ms: Option<u64>,
    /// The labels that a `Kafka` must have to be managed; all if empty.
    pub selector: Selector,
    /// Whether the console is installed as well.
    pub console: bool,
}

/// The whole installation, in an order in which it can be applied.
#[must_use]
pub fn manifest(installation: &Installation) -> Vec<Value> {
    let mut objects = vec![namespace(installation)];
    objects.extend(api::crds::crds().iter().map(api::crds::manifest));
    objects.extend(rbac::objects(installation));
    objects.push(deployment::deployment(installation));
    if installation.console {
        objects.extend(console::objects(installation));
    }
    objects
}

fn namespace(installation: &Installation) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": installation.namespace, "labels": labels() },
    })
}

/// The labels of everything that belongs to the installation.
fn labels() -> Value {
    json!({ "app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "gregor" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation() -> Installation {
        Installation {
            namespace: "ops".to_owned(),
            image: "gregor-operator:1".to_owned(),
            kafka_images: BTreeMap::from([("4.3.1".to_owned(), "kafka:1".to_owned())]),
            watch_namespaces: Vec::new(),
            replicas: 2,
            operation_timeout_ms: None,
            selector: Selector::default(),
            console: false,
        }
    }

    fn names(objects: &[Value]) -> Vec<String> {
        let name = |object: &Value| {
            let metadata = &object["metadata"];
            let namespace = metadata["namespace"].as_str().map(|name| format!("{name}/"));
            let name = metadata["name"].as_str().unwrap_or_default();
            let kind = object["kind"].as_str().unwrap_or_default();
            format!("{kind} {}{name}", namespace.unwrap_or_default())
        };
        objects.iter().map(name).collect()
    }

    #[test]
    fn all_that_is_needed_is_there_in_order() {
        let objects = manifest(&installation());
        assert_eq!(
            names(&objects),
            [
                "Namespace ops",
                "CustomResourceDefinition kafkas.kafka.strimzi.io",
                "CustomResourceDefinition kafkanodepools.kafka.strimzi.io",
                "CustomResourceDefinition kafkarebalances.kafka.strimzi.io",
                "CustomResourceDefinition kafkatopics.kafka.strimzi.io",
                "CustomResourceDefinition kafkausers.kafka.strimzi.io",
                "CustomResourceDefinition strimzipodsets.core.strimzi.io",
                "ServiceAccount ops/gregor-operator",
                "ClusterRole gregor-operator",
                "ClusterRole gregor-operator-global",
                "ClusterRole gregor-kafka-node",
                "ClusterRoleBinding gregor-operator",
                "ClusterRoleBinding gregor-operator-global",
                "ValidatingAdmissionPolicy gregor-operator-bindings",
                "ValidatingAdmissionPolicyBinding gregor-operator-bindings",
                "Role ops/gregor-operator-election",
                "RoleBinding ops/gregor-operator-election",
                "Deployment ops/gregor-operator",
            ]
        );
    }

    #[test]
    fn the_console_is_installed_only_if_it_is_asked_for() {
        let objects = manifest(&Installation { console: true, ..installation() });
        let all = names(&objects);
        assert_eq!(
            &all[all.len() - 4..],
            [
                "ServiceAccount ops/gregor-console",
                "ClusterRole gregor-console-viewer",
                "Service ops/gregor-console",
                "Deployment ops/gregor-console",
            ]
        );
        // No binding gives its account anything.
        let account = r#"{"kind":"ServiceAccount","name":"gregor-console""#;
        assert!(!objects.iter().any(|one| one["subjects"].to_string().contains(account)));
    }

    #[test]
    fn the_operator_is_told_a_time_out_only_if_there_is_one() {
        let deployment = |operation_timeout_ms| {
            let objects = manifest(&Installation { operation_timeout_ms, ..installation() });
            objects.last().unwrap().to_string()
        };
        assert!(!deployment(None).contains(TIMEOUT_VARIABLE));
        let expected = r#"{"name":"STRIMZI_OPERATION_TIMEOUT_MS","value":"600000"}"#;
        assert!(deployment(Some(600_000)).contains(expected), "{}", deployment(Some(600_000)));
    }

    #[test]
    fn the_operator_is_told_a_selector_only_if_there_is_one() {
        let deployment = |selector: &str| {
            let selector = selector.parse().unwrap();
            let objects = manifest(&Installation { selector, ..installation() });
            objects.last().unwrap().to_string()
        };
        assert!(!deployment("").contains("SELECTOR"));
        let expected = r#"{"name":"STRIMZI_CUSTOM_RESOURCE_SELECTOR","value":"a=1,b=2"}"#;
        assert!(deployment("b=2,a=1").contains(expected), "{}", deployment("b=2,a=1"));
    }

    #[test]
    fn one_that_works_in_some_namespaces_has_rights_in_these_only() {
        let watch_namespaces = vec!["a".to_owned(), "b".to_owned()];
        let objects = manifest(&Installation { watch_namespaces, ..installation() });
        let names = names(&objects);
        let bindings: Vec<_> =
            names.iter().filter(|name| name.contains("Binding")).map(String::as_str).collect();
        assert_eq!(
            bindings,
            [
                "RoleBinding a/gregor-operator",
                "RoleBinding b/gregor-operator",
                "ClusterRoleBinding gregor-operator-global",
                "ValidatingAdmissionPolicyBinding gregor-operator-bindings",
                "RoleBinding ops/gregor-operator-election",
            ]
        );
        let deployment = objects.last().unwrap().to_string();
        assert!(
            deployment.contains(r#"{"name":"GREGOR_NAMESPACES","value":"a,b"}"#),
            "{deployment}"
        );
    }
}
