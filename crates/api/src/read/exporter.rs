//! Which metrics of topics and groups a cluster has.

use control::lag::Patterns;

use crate::Kafka;

/// The expressions of `spec.kafkaExporter`; `None` if the cluster has no such metrics.
#[must_use]
pub fn exporter(kafka: &Kafka) -> Option<Patterns> {
    let exporter = kafka.spec.kafka_exporter.as_ref()?;
    Some(Patterns {
        topics: exporter.topic_regex.clone(),
        topics_excluded: exporter.topic_exclude_regex.clone(),
        groups: exporter.group_regex.clone(),
        groups_excluded: exporter.group_exclude_regex.clone(),
        shows_all_offsets: exporter.show_all_offsets.unwrap_or(true),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn metrics_are_there_if_the_cluster_asks_for_them() {
        let of = |spec: Value| {
            let kafka: Kafka = serde_json::from_value(json!({
                "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
                "metadata": { "name": "c", "namespace": "ns" },
                "spec": { "kafka": { "listeners": [] }, "kafkaExporter": spec },
            }))
            .unwrap();
            exporter(&kafka)
        };
        assert_eq!(of(json!(null)), None);
        let usual = Patterns { shows_all_offsets: true, ..Patterns::default() };
        assert_eq!(of(json!({})), Some(usual), "X1.1, X1.3");
        let all = of(json!({
            "topicRegex": "a", "topicExcludeRegex": "b", "groupRegex": "c", "groupExcludeRegex": "d",
            "showAllOffsets": false, "resources": {}, "logging": "trace", "enableSaramaLogging": true,
            "image": "x", "template": { "pod": {} }, "livenessProbe": {},
        }));
        let text = |text: &str| Some(text.to_owned());
        let expected = Patterns {
            topics: text("a"),
            topics_excluded: text("b"),
            groups: text("c"),
            groups_excluded: text("d"),
            shows_all_offsets: false,
        };
        assert_eq!(all, Some(expected), "X1.4, X1.5, X1.6: what is about its pod changes nothing");
    }
}
