//! A `KafkaTopic`, and how the topics of a cluster are treated.

use std::collections::BTreeMap;

use control::annotations::Annotation;
use control::topics::{
    ChangeState, ConfigMode, FINALIZER, ReplicasChange, Resource, Settings, Spec, Status, Value,
};
use kube::ResourceExt as _;
use serde_json::Value as Json;

use crate::kafka::template::ContainerTemplate;
use crate::names::CLUSTER_LABEL;
use crate::topic::ReplicasChangeState;
use crate::{Kafka, KafkaTopic, KafkaTopicSpec, KafkaTopicStatus};

/// A `KafkaTopic`, as decisions see it. `spec` is `None` if the resource has none.
#[must_use]
pub fn topic(topic: &KafkaTopic, has_spec: bool) -> Resource {
    let annotation = |of: Annotation| topic.annotations().get(of.name()).map(String::as_str);
    let pause = annotation(Annotation::PauseReconciliation);
    let mode = annotation(Annotation::TopicConfig);
    Resource {
        namespace: topic.namespace().unwrap_or_default(),
        name: topic.name_any(),
        uid: topic.uid().unwrap_or_default(),
        created_s: topic.creation_timestamp().map_or(0, |time| time.0.as_second()),
        generation: topic.metadata.generation.unwrap_or_default(),
        cluster: topic.labels().get(CLUSTER_LABEL).cloned(),
        is_deleting: topic.metadata.deletion_timestamp.is_some(),
        has_finalizer: topic.finalizers().iter().any(|name| name == FINALIZER),
        is_managed: annotation(Annotation::Managed) != Some("false"),
        is_paused: pause.is_some_and(|text| text.eq_ignore_ascii_case("true")),
        config_mode: mode.and_then(ConfigMode::of),
        spec: has_spec.then(|| spec(&topic.spec)),
        status: topic.status.as_ref().map(status).unwrap_or_default(),
    }
}

fn spec(spec: &KafkaTopicSpec) -> Spec {
    let config = spec.config.as_ref().map(|config| {
        let value = |(name, value): (&String, &Json)| (name.clone(), config_value(value));
        config.0.iter().map(value).collect::<BTreeMap<_, _>>()
    });
    Spec {
        topic_name: spec.topic_name.clone(),
        // Kafka refuses a number that is too large; one that does not fit must not become a smaller one.
        partitions: spec.partitions.map(|count| i32::try_from(count).unwrap_or(i32::MAX)),
        replicas: spec.replicas.map(|count| i16::try_from(count).unwrap_or(i16::MAX)),
        config,
    }
}

fn status(status: &KafkaTopicStatus) -> Status {
    let mut conditions = status.conditions.iter().flatten();
    let ready = conditions.find(|one| one.kind.as_deref() == Some("Ready"));
    let is_ready = ready.is_some_and(|one| one.status.as_deref() == Some("True"));
    let failure = ready.filter(|_| !is_ready).map(|one| {
        (one.reason.clone().unwrap_or_default(), one.message.clone().unwrap_or_default())
    });
    Status {
        topic_name: status.topic_name.clone(),
        topic_id: status.topic_id.clone(),
        is_ready,
        failure,
        replicas_change: status.replicas_change.as_ref().map(replicas_change),
    }
}

fn replicas_change(change: &crate::topic::ReplicasChange) -> ReplicasChange {
    let state = change.state.map(|state| match state {
        ReplicasChangeState::Pending => ChangeState::Pending,
        ReplicasChangeState::Ongoing => ChangeState::Ongoing,
    });
    ReplicasChange {
        target: change.target_replicas.unwrap_or_default(),
        state,
        message: change.message.clone(),
        session: change.session_id.clone(),
    }
}

fn config_value(value: &Json) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Array(items) => {
            let texts: Option<Vec<_>> = items.iter().map(plain).collect();
            texts.map_or(Value::Nested, |texts| Value::Text(texts.join(",")))
        }
        Json::Object(_) | Json::Bool(_) | Json::Number(_) | Json::String(_) => {
            plain(value).map_or(Value::Nested, Value::Text)
        }
    }
}

/// The text of a plain value.
fn plain(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Bool(flag) => Some(flag.to_string()),
        Json::Number(number) => Some(number_text(number)),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// A whole number without a fraction, however it was written: Kafka reads `1e9` as no number.
fn number_text(number: &serde_json::Number) -> String {
    /// Up to here every whole number has a float of its own.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT_MAX => {
            format!("{float:.0}")
        }
        Some(_) | None => number.to_string(),
    }
}

/// How the topics of a cluster are managed as resources; `None` if they are not.
#[must_use]
pub fn topics(kafka: &Kafka) -> Option<Topics> {
    let operator = kafka.spec.entity_operator.as_ref()?;
    let topics = operator.topic_operator.as_ref()?;
    let container =
        operator.template.as_ref().and_then(|all| all.topic_operator_container.as_ref());
    let environment = environment(container);
    let namespace = kafka.namespace().unwrap_or_default();
    Some(Topics {
        namespace: topics.watched_namespace.clone().unwrap_or(namespace),
        settings: Settings::read(&environment, topics.reconciliation_interval_ms),
    })
}

/// The environment variables with a value in the template of a container.
pub(super) fn environment(container: Option<&ContainerTemplate>) -> Vec<(String, String)> {
    let variables = container.and_then(|container| container.env.as_ref()).into_iter().flatten();
    let text = |value: Option<&Json>| value.and_then(Json::as_str).map(str::to_owned);
    let variable =
        |one: &crate::Verbatim| Some((text(one.0.get("name"))?, text(one.0.get("value"))?));
    variables.filter_map(variable).collect()
}

/// How the topics of a cluster are managed as resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topics {
    /// The namespace of the resources.
    pub namespace: String,
    /// The settings.
    pub settings: Settings,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_the_configuration_are_read_as_kafka_reads_them() {
        for (value, expected) in [
            (json!("a"), Value::Text("a".to_owned())),
            (json!(7), Value::Text("7".to_owned())),
            (json!(9_223_372_036_854_775_807_i64), Value::Text("9223372036854775807".to_owned())),
            (json!(0.1), Value::Text("0.1".to_owned())),
            (json!(1e9), Value::Text("1000000000".to_owned())),
            (json!(true), Value::Text("true".to_owned())),
            (json!(["compact", "delete", 1]), Value::Text("compact,delete,1".to_owned())),
            (json!([]), Value::Text(String::new())),
            (json!(null), Value::Null),
            (json!({ "a": 1 }), Value::Nested),
            (json!(["a", {}]), Value::Nested),
        ] {
            assert_eq!(config_value(&value), expected, "T1.4, T7.1 {value}");
        }
    }

    #[test]
    fn a_resource_is_read_with_its_annotations() {
        let object: KafkaTopic = serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaTopic",
            "metadata": {
                "name": "a", "namespace": "ns", "generation": 4,
                "creationTimestamp": "2026-01-01T00:00:01Z",
                "labels": { "strimzi.io/cluster": "c" },
                "finalizers": ["strimzi.io/topic-operator"],
                "annotations": {
                    "strimzi.io/managed": "False", "strimzi.io/pause-reconciliation": "TRUE",
                    "gregor.io/topic-config": "keep",
                },
            },
            "spec": { "partitions": 5_000_000_000_i64, "replicas": 2 },
            "status": {
                "topicName": "a", "topicId": "x",
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        }))
        .unwrap();
        let read = topic(&object, true);
        assert_eq!((read.created_s, read.generation), (1_767_225_601, 4));
        assert_eq!(read.cluster.as_deref(), Some("c"));
        // Only the exact text stops it, in any case the pause.
        assert!(read.is_managed && read.is_paused && read.has_finalizer && !read.is_deleting);
        assert_eq!(read.config_mode, Some(ConfigMode::Keep));
        let spec = read.spec.unwrap();
        assert_eq!((spec.partitions, spec.replicas, spec.config), (Some(i32::MAX), Some(2), None));
        assert!(read.status.is_ready);
        assert_eq!(topic(&object, false).spec, None);
    }

    #[test]
    fn topics_are_managed_if_the_cluster_says_so() {
        let kafka = |operator: Json| -> Kafka {
            serde_json::from_value(json!({
                "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
                "metadata": { "name": "c", "namespace": "ns" },
                "spec": { "kafka": { "listeners": [] }, "entityOperator": operator },
            }))
            .unwrap()
        };
        let of = |operator: Json| topics(&kafka(operator));
        assert_eq!(of(json!(null)), None);
        assert_eq!(of(json!({ "userOperator": {} })), None);
        let settings = Settings::default();
        let usual = Topics { namespace: "ns".to_owned(), settings: settings.clone() };
        assert_eq!(of(json!({ "topicOperator": {} })), Some(usual));
        let env = json!([
            { "name": "STRIMZI_USE_FINALIZERS", "value": "false" },
            { "name": "OTHER", "valueFrom": {} },
        ]);
        let all = of(json!({
            "topicOperator": { "watchedNamespace": "other", "reconciliationIntervalMs": 5000 },
            "template": { "topicOperatorContainer": { "env": env } },
        }));
        let settings = Settings { uses_finalizers: false, interval_ms: 5000, ..settings };
        assert_eq!(all, Some(Topics { namespace: "other".to_owned(), settings }));
    }
}
