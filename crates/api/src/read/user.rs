//! A `KafkaUser`, and how the users of a cluster are managed.

use std::collections::BTreeMap;

use control::annotations::Annotation;
use control::users::{
    Days, KeyKind, Login, Operation, PasswordReference, Pattern, Permission, Resource,
    ResourceKind, RuleSpec, Settings, Spec,
};
use kube::ResourceExt as _;
use serde_json::Number;

use super::topic::environment;
use crate::kafka::AuthorizationType;
use crate::kafka::listener::AuthenticationType;
use crate::names::{CLUSTER_LABEL, KIND_LABEL, MANAGED_BY, MANAGER};
use crate::user::{
    AclOperation, AclPatternType, AclResourceType, AclRule, AclRuleType, UserAuthentication,
    UserAuthenticationType, UserQuotas,
};
use crate::{Kafka, KafkaUser, KafkaUserSpec, KafkaUserStatus};

/// The field of a rule in `v1beta2` that has the one operation.
const OPERATION: &str = "operation";

/// Letters of a value of a label.
const LABEL_LETTERS_MAX: usize = 63;

/// A `KafkaUser`, as decisions see it. `spec` is `None` if the resource has none.
#[must_use]
pub fn user(user: &KafkaUser, has_spec: bool) -> Resource {
    let annotation = |of: Annotation| user.annotations().get(of.name()).map(String::as_str);
    let pause = annotation(Annotation::PauseReconciliation);
    let name = user.name_any();
    Resource {
        namespace: user.namespace().unwrap_or_default(),
        uid: user.uid().unwrap_or_default(),
        generation: user.metadata.generation.unwrap_or_default(),
        observed_generation: user.status.as_ref().and_then(|status| status.observed_generation),
        failure: user.status.as_ref().and_then(failure),
        cluster: user.labels().get(CLUSTER_LABEL).cloned(),
        is_deleting: user.metadata.deletion_timestamp.is_some(),
        is_paused: pause.is_some_and(|text| text.eq_ignore_ascii_case("true")),
        labels: user.labels().clone(),
        own_labels: own_labels(&name),
        key: KeyKind::of(annotation(Annotation::UserKey)),
        spec: has_spec.then(|| spec(&user.spec)),
        name,
    }
}

fn failure(status: &KafkaUserStatus) -> Option<(String, String)> {
    let mut conditions = status.conditions.iter().flatten();
    let failed = conditions.find(|one| one.kind.as_deref() == Some("NotReady"))?;
    Some((failed.reason.clone().unwrap_or_default(), failed.message.clone().unwrap_or_default()))
}

/// The labels of the Secret of a user, as programs know them that look for such Secrets.
fn own_labels(name: &str) -> BTreeMap<String, String> {
    let value = |text: &str| {
        let cut: String = text.chars().take(LABEL_LETTERS_MAX).collect();
        cut.trim_end_matches(['.', '-', '_']).to_owned()
    };
    let labels = [
        (KIND_LABEL, "KafkaUser"),
        ("app.kubernetes.io/name", "strimzi-user-operator"),
        ("app.kubernetes.io/instance", name),
        ("app.kubernetes.io/part-of", &format!("strimzi-{name}")),
        (MANAGED_BY, MANAGER),
    ];
    labels.map(|(label, text)| (label.to_owned(), value(text))).into()
}

fn spec(spec: &KafkaUserSpec) -> Spec {
    let template = spec.template.as_ref().and_then(|all| all.secret.as_ref());
    let metadata = template.and_then(|secret| secret.metadata.clone()).unwrap_or_default();
    Spec {
        login: spec.authentication.as_ref().map_or(Login::None, login),
        rules: spec.authorization.as_ref().map(|all| all.acls.iter().map(rule).collect()),
        quotas: spec.quotas.as_ref().map(quotas).unwrap_or_default(),
        secret_labels: metadata.labels.unwrap_or_default(),
        secret_annotations: metadata.annotations.unwrap_or_default(),
    }
}

fn login(authentication: &UserAuthentication) -> Login {
    match authentication.kind {
        UserAuthenticationType::Tls => {
            let days = authentication.validity_days.zip(authentication.renewal_days);
            Login::Tls(days.map(|(validity, renewal)| Days { validity, renewal }))
        }
        UserAuthenticationType::TlsExternal => Login::TlsExternal,
        UserAuthenticationType::ScramSha512 => {
            Login::Scram(authentication.password.as_ref().map(|password| {
                let entry = password.value_from.secret_key_ref.clone().unwrap_or_default();
                PasswordReference { secret: entry.name, key: entry.key }
            }))
        }
    }
}

fn rule(rule: &AclRule) -> RuleSpec {
    let permission = match rule.kind {
        Some(AclRuleType::Deny) => Permission::Deny,
        Some(AclRuleType::Allow) | None => Permission::Allow,
    };
    let kind = match rule.resource.kind {
        AclResourceType::Topic => ResourceKind::Topic,
        AclResourceType::Group => ResourceKind::Group,
        AclResourceType::Cluster => ResourceKind::Cluster,
        AclResourceType::TransactionalId => ResourceKind::TransactionalId,
    };
    let pattern = match rule.resource.pattern_type {
        Some(AclPatternType::Prefix) => Pattern::Prefix,
        Some(AclPatternType::Literal) | None => Pattern::Literal,
    };
    let listed = rule.operations.iter().flatten().map(|one| operation(*one));
    let single = rule.rest.get(OPERATION).and_then(serde_json::Value::as_str);
    let single =
        single.and_then(|text| Operation::ALL.iter().copied().find(|one| one.name() == text));
    RuleSpec {
        permission,
        kind,
        name: rule.resource.name.clone(),
        pattern,
        host: rule.host.clone().unwrap_or_else(|| "*".to_owned()),
        operations: listed.chain(single).collect(),
    }
}

fn operation(operation: AclOperation) -> Operation {
    match operation {
        AclOperation::Read => Operation::Read,
        AclOperation::Write => Operation::Write,
        AclOperation::Create => Operation::Create,
        AclOperation::Delete => Operation::Delete,
        AclOperation::Alter => Operation::Alter,
        AclOperation::Describe => Operation::Describe,
        AclOperation::ClusterAction => Operation::ClusterAction,
        AclOperation::AlterConfigs => Operation::AlterConfigs,
        AclOperation::DescribeConfigs => Operation::DescribeConfigs,
        AclOperation::IdempotentWrite => Operation::IdempotentWrite,
        AclOperation::All => Operation::All,
    }
}

fn quotas(quotas: &UserQuotas) -> BTreeMap<&'static str, f64> {
    let whole = |value: Option<i64>| value.map(|value| value as f64);
    let values = [
        ("producer_byte_rate", whole(quotas.producer_byte_rate)),
        ("consumer_byte_rate", whole(quotas.consumer_byte_rate)),
        ("request_percentage", whole(quotas.request_percentage)),
        (
            "controller_mutation_rate",
            quotas.controller_mutation_rate.as_ref().and_then(Number::as_f64),
        ),
    ];
    values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// How the users of a cluster are managed as resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Users {
    /// The namespace of the resources and of their Secrets.
    pub namespace: String,
    /// The settings.
    pub settings: Settings,
}

/// How the users of a cluster are managed as resources; `None` if they are not.
#[must_use]
pub fn users(kafka: &Kafka) -> Option<Users> {
    let operator = kafka.spec.entity_operator.as_ref()?;
    let users = operator.user_operator.as_ref()?;
    let template = operator.template.as_ref();
    let container = template.and_then(|all| all.user_operator_container.as_ref());
    let usual = Settings::read(&environment(container), users.reconciliation_interval_ms);
    let cluster = &kafka.spec.kafka;
    let takes = |kind: AuthenticationType| {
        let mut kinds = cluster.listeners.iter().filter_map(|one| one.authentication.as_ref());
        kinds.any(|authentication| authentication.kind == kind)
    };
    let authority = kafka.spec.clients_ca.clone().unwrap_or_default();
    let settings = Settings {
        secret_prefix: users.secret_prefix.clone().unwrap_or_default(),
        has_access_rules: cluster
            .authorization
            .as_ref()
            .is_some_and(|one| one.kind == AuthorizationType::Simple),
        takes_certificates: takes(AuthenticationType::Tls),
        takes_passwords: takes(AuthenticationType::ScramSha512),
        validity_days: authority.validity_days(),
        renewal_days: authority.renewal_days(),
        windows: kafka.spec.maintenance_time_windows.clone().unwrap_or_default(),
        ..usual
    };
    let namespace = kafka.namespace().unwrap_or_default();
    Some(Users { namespace: users.watched_namespace.clone().unwrap_or(namespace), settings })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn read(spec: Json) -> Resource {
        let object: KafkaUser = serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaUser",
            "metadata": {
                "name": "a", "namespace": "ns", "generation": 4,
                "labels": { "strimzi.io/cluster": "c" },
                "annotations": { "strimzi.io/pause-reconciliation": "TRUE", "gregor.io/user-key": "rsa" },
            },
            "spec": spec,
        }))
        .unwrap();
        user(&object, true)
    }

    #[test]
    fn a_resource_is_read_with_its_rules_quotas_and_password() {
        let entry = json!({ "name": "s", "key": "k" });
        let read = read(json!({
            "authentication": {
                "type": "scram-sha-512", "password": { "valueFrom": { "secretKeyRef": entry } },
            },
            "authorization": { "type": "simple", "acls": [
                { "resource": { "type": "topic", "name": "t" }, "operations": ["Read", "All"] },
                { "type": "deny", "host": "h", "operation": "Write",
                  "resource": { "type": "group", "name": "g", "patternType": "prefix" } },
            ]},
            "quotas": { "producerByteRate": 7, "controllerMutationRate": 0.5 },
            "template": { "secret": { "metadata": { "labels": { "l": "1" }, "annotations": { "a": "2" } } } },
        }));
        assert!(read.is_paused && read.key == KeyKind::Rsa && !read.is_deleting);
        assert_eq!((read.generation, read.cluster.as_deref()), (4, Some("c")));
        let spec = read.spec.unwrap();
        let text = |text: &str| Some(text.to_owned());
        let reference = PasswordReference { secret: text("s"), key: text("k") };
        assert_eq!(spec.login, Login::Scram(Some(reference)), "U1.2");
        let rule = |permission, kind, name, host: &str, operations: &[Operation]| RuleSpec {
            permission,
            kind,
            name: text(name),
            pattern: if host == "*" { Pattern::Literal } else { Pattern::Prefix },
            host: host.to_owned(),
            operations: operations.to_vec(),
        };
        let both = [Operation::Read, Operation::All];
        let expected = [
            rule(Permission::Allow, ResourceKind::Topic, "t", "*", &both),
            // The field of `v1beta2`.
            rule(Permission::Deny, ResourceKind::Group, "g", "h", &[Operation::Write]),
        ];
        assert_eq!(spec.rules.unwrap(), expected, "U1.5");
        let quotas = [("producer_byte_rate", 7.0), ("controller_mutation_rate", 0.5)];
        assert_eq!(spec.quotas, quotas.into(), "U1.8");
        let (label, annotations) = (spec.secret_labels["l"].as_str(), &spec.secret_annotations);
        assert_eq!((label, annotations.len()), ("1", 1), "U1.9");
    }

    #[test]
    fn every_resource_and_operation_of_a_rule_is_read() {
        let of = |rule: Json| {
            let authorization = json!({ "type": "simple", "acls": [rule] });
            read(json!({ "authorization": authorization })).spec.unwrap().rules.unwrap().remove(0)
        };
        for kind in ResourceKind::ALL {
            let resource = json!({ "type": kind.name(), "name": "n" });
            let rule = of(json!({ "resource": resource, "operations": ["All"] }));
            assert_eq!((rule.kind, rule.pattern), (*kind, Pattern::Literal), "U1.6");
            assert_eq!((rule.permission, rule.host.as_str()), (Permission::Allow, "*"), "U1.5");
        }
        for operation in Operation::ALL {
            let resource = json!({ "type": "topic", "name": "n" });
            let rule = of(json!({ "resource": resource, "operations": [operation.name()] }));
            assert_eq!(rule.operations, [*operation], "U1.7");
        }
        let none = json!({ "authorization": { "type": "simple", "acls": [] } });
        assert_eq!(read(none).spec.unwrap().rules, Some(vec![]), "U1.4");
        assert_eq!(read(json!({})).spec.unwrap().rules, None, "U1.4");
    }

    #[test]
    fn a_failure_is_read_from_the_status() {
        let of = |conditions: Json| {
            failure(&serde_json::from_value(json!({ "conditions": conditions })).unwrap())
        };
        let failed =
            json!([{ "type": "NotReady", "status": "True", "reason": "R", "message": "m" }]);
        assert_eq!(of(failed), Some(("R".to_owned(), "m".to_owned())));
        assert_eq!(of(json!([{ "type": "Ready", "status": "True" }])), None);
        assert_eq!(of(json!(null)), None);
    }

    #[test]
    fn every_kind_of_authentication_is_read() {
        let login = |authentication: Json| read(json!({ "authentication": authentication })).spec;
        let days = json!({ "type": "tls", "validityDays": 30, "renewalDays": 5 });
        for (authentication, expected) in [
            (json!(null), Login::None),
            (json!({ "type": "tls" }), Login::Tls(None)),
            (days, Login::Tls(Some(Days { validity: 30, renewal: 5 }))),
            (json!({ "type": "tls-external" }), Login::TlsExternal),
            (json!({ "type": "scram-sha-512" }), Login::Scram(None)),
        ] {
            assert_eq!(
                login(authentication.clone()).unwrap().login,
                expected,
                "U1.1 {authentication}"
            );
        }
        assert_eq!(read(json!({})).spec.unwrap(), Spec::default());
    }

    #[test]
    fn labels_of_the_secret_fit_into_labels() {
        let labels = own_labels(&format!("{}.x", "a".repeat(62)));
        assert_eq!(labels["app.kubernetes.io/instance"], "a".repeat(62), "U2.5");
        assert_eq!(labels[KIND_LABEL], "KafkaUser");
    }

    #[test]
    fn users_are_managed_if_the_cluster_says_so_and_as_it_says() {
        let kafka = |operator: Json, cluster: Json| -> Kafka {
            serde_json::from_value(json!({
                "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
                "metadata": { "name": "c", "namespace": "ns" },
                "spec": {
                    "kafka": cluster, "entityOperator": operator,
                    "clientsCa": { "validityDays": 90, "renewalDays": 9 },
                    "maintenanceTimeWindows": ["* * 3-4 * * ?"],
                },
            }))
            .unwrap()
        };
        let open = json!({ "listeners": [] });
        assert_eq!(users(&kafka(json!({ "topicOperator": {} }), open.clone())), None, "E1");
        let read = users(&kafka(json!({ "userOperator": {} }), open)).unwrap();
        assert_eq!(read.namespace, "ns");
        let settings = read.settings;
        assert!(!settings.has_access_rules, "U10.4");
        assert!(!settings.takes_certificates && !settings.takes_passwords, "U11.8");
        assert_eq!((settings.validity_days, settings.renewal_days), (90, 9), "E8");
        assert_eq!(settings.windows, ["* * 3-4 * * ?"]);
        assert_eq!((settings.interval_ms, settings.password_letters), (120_000, 32), "E3");
        let listener = |name: &str, kind: &str| {
            json!({ "name": name, "port": 9093, "type": "internal", "tls": true,
                    "authentication": { "type": kind } })
        };
        let cluster = json!({
            "listeners": [listener("a", "tls"), listener("b", "scram-sha-512")],
            "authorization": { "type": "simple" },
        });
        let env = json!([{ "name": "STRIMZI_SCRAM_SHA_PASSWORD_LENGTH", "value": "12" }]);
        let operator = json!({
            "userOperator": {
                "watchedNamespace": "other", "reconciliationIntervalMs": 0, "secretPrefix": "p-",
            },
            "template": { "userOperatorContainer": { "env": env } },
        });
        let read = users(&kafka(operator, cluster)).unwrap();
        assert_eq!(
            (read.namespace.as_str(), read.settings.secret_prefix.as_str()),
            ("other", "p-")
        );
        let settings = read.settings;
        assert!(
            settings.has_access_rules && settings.takes_certificates && settings.takes_passwords
        );
        assert_eq!((settings.interval_ms, settings.password_letters), (120_000, 12), "E3, E6");
    }
}
