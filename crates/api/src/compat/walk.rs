//! Finds what a user wrote and is not honoured.

use serde_json::Value;

use super::{Finding, Kind, Verdict, table};

/// What stands beside the spec and is not the user's to write, or not for us to judge.
const NOT_LOOKED_AT: &[&str] = &["apiVersion", "kind", "metadata", "status"];

const UNKNOWN: &str = "no such field is known; is it misspelt or in the wrong place?";

/// The fields of an object that are not honoured, in the order of their paths.
///
/// Takes the object as it came, before it is made one of our types: a field of a wrong type must not
/// hide the others. A field is named once, not again for each that is below it. A null counts as
/// not written.
pub fn unhonoured(object: &Value, kind: Kind) -> Vec<Finding> {
    let mut walk = Walk { kind, findings: Vec::new() };
    for (name, value) in object.as_object().into_iter().flatten() {
        if !NOT_LOOKED_AT.contains(&name.as_str()) {
            walk.visit(name.clone(), name.clone(), value);
        }
    }
    walk.findings.sort();
    walk.findings
}

struct Walk {
    kind: Kind,
    findings: Vec<Finding>,
}

impl Walk {
    /// Looks at a value: `at` is where it is in the object, `path` where it is in the table.
    fn visit(&mut self, at: String, path: String, value: &Value) {
        if value.is_null() {
            return;
        }
        let Some(field) = table::find(self.kind, &path) else {
            return self.findings.push(Finding {
                path: at,
                verdict: Verdict::Unknown,
                reason: UNKNOWN,
            });
        };
        let said = match field.verdict {
            Verdict::Honoured => {
                text(value).and_then(|text| table::find_value(self.kind, &path, &text))
            }
            Verdict::Unneeded => return,
            Verdict::Accepted | Verdict::Refused | Verdict::Unknown => Some(field),
        };
        match said {
            Some(said) => {
                self.findings.push(Finding { path: at, verdict: said.verdict, reason: said.reason })
            }
            None => self.descend(&at, &path, value),
        }
    }

    /// A value of another shape than the table knows is for the schema to complain about.
    fn descend(&mut self, at: &str, path: &str, value: &Value) {
        let (item, entry, field) = (format!("{path}[]"), format!("{path}{{}}"), format!("{path}."));
        match value {
            Value::Array(items) if table::has_below(self.kind, &item) => {
                for (index, value) in items.iter().enumerate() {
                    self.visit(format!("{at}[{index}]"), item.clone(), value);
                }
            }
            // A map has names of the user's, and one path for all its values.
            Value::Object(entries) if table::has_below(self.kind, &entry) => {
                for (name, value) in entries {
                    self.visit(format!("{at}.{name}"), entry.clone(), value);
                }
            }
            // An object of which nothing is said is free in what it holds.
            Value::Object(fields) if table::has_below(self.kind, &field) => {
                for (name, value) in fields {
                    self.visit(format!("{at}.{name}"), format!("{path}.{name}"), value);
                }
            }
            Value::Array(_) | Value::Object(_) => {}
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(kind: Kind, spec: Value, expected: &[(&str, Verdict)]) {
        let object = json!({
            "apiVersion": "kafka.strimzi.io/v1",
            "metadata": { "name": "my-cluster" },
            "spec": spec,
            "status": { "nobody": "looks here" },
        });
        let found = unhonoured(&object, kind);
        let found: Vec<_> =
            found.iter().map(|finding| (finding.path.as_str(), finding.verdict)).collect();
        assert_eq!(found, expected);
    }

    fn kafka(kafka: Value, expected: &[(&str, Verdict)]) {
        check(Kind::Kafka, json!({ "kafka": kafka }), expected);
    }

    #[test]
    fn an_honoured_object_raises_nothing() {
        kafka(
            json!({
                "version": "4.3.1",
                "listeners": [{ "name": "tls", "port": 9093, "type": "internal", "tls": true }],
                "config": { "min.insync.replicas": 2, "spec.kafka": { "any": "thing" } },
                "jvmOptions": { "-Xmx": "1g", "-XX": { "UseG1GC": "true" } },
                "template": { "pod": { "metadata": { "labels": { "a/b.c": "d" } } } },
            }),
            &[],
        );
    }

    #[test]
    fn a_part_that_is_not_honoured_is_named_once() {
        let users = json!({ "apiUsers": { "type": "x", "valueFrom": {} } });
        let spec = json!({ "kafka": {}, "cruiseControl": users });
        check(Kind::Kafka, spec, &[("spec.cruiseControl.apiUsers", Verdict::Accepted)]);
    }

    #[test]
    fn items_of_lists_are_named_by_their_number() {
        let host = json!({ "hostTemplate": "broker-{nodeId}.example.com" });
        kafka(
            json!({ "listeners": [{ "name": "a" }, { "name": "b", "configuration": host }] }),
            &[("spec.kafka.listeners[1].configuration.hostTemplate", Verdict::Accepted)],
        );
    }

    #[test]
    fn a_slip_of_the_pen_is_found() {
        kafka(
            json!({ "verison": "4.3.1", "listeners": [{ "ports": 9092 }] }),
            &[
                ("spec.kafka.listeners[0].ports", Verdict::Unknown),
                ("spec.kafka.verison", Verdict::Unknown),
            ],
        );
        check(Kind::KafkaNodePool, json!({ "replica": 3 }), &[("spec.replica", Verdict::Unknown)]);
    }

    #[test]
    fn an_object_in_the_wrong_place_is_found() {
        let object = json!({ "kind": "Kafka", "kafka": { "version": "4.3.1" } });
        let found = unhonoured(&object, Kind::Kafka);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "kafka");
    }

    #[test]
    fn single_values_of_honoured_fields_are_refused() {
        kafka(
            json!({ "listeners": [
                { "type": "nodeport", "authentication": { "type": "tls" } },
                { "type": "ingress", "authentication": { "type": "oauth" } },
            ] }),
            &[
                ("spec.kafka.listeners[1].authentication.type", Verdict::Refused),
                ("spec.kafka.listeners[1].type", Verdict::Refused),
            ],
        );
        let own = json!({ "kafka": {}, "clusterCa": { "generateCertificateAuthority": false } });
        let path = "spec.clusterCa.generateCertificateAuthority";
        check(Kind::Kafka, own, &[(path, Verdict::Refused)]);
        let ours = json!({ "kafka": {}, "clusterCa": { "generateCertificateAuthority": true } });
        check(Kind::Kafka, ours, &[]);
    }

    #[test]
    fn fields_of_the_older_version_are_known() {
        let spec = json!({ "kafka": { "replicas": 3 }, "zookeeper": { "replicas": 3 } });
        check(
            Kind::Kafka,
            spec,
            &[("spec.kafka.replicas", Verdict::Accepted), ("spec.zookeeper", Verdict::Accepted)],
        );
    }

    #[test]
    fn a_null_is_not_written() {
        kafka(json!({ "quotas": null, "nonsense": null }), &[]);
    }

    #[test]
    fn odd_shapes_are_no_trouble() {
        for object in [json!(null), json!(3), json!([]), json!({}), json!({ "spec": 3 })] {
            assert_eq!(unhonoured(&object, Kind::Kafka), []);
        }
        kafka(json!({ "listeners": { "name": "x" }, "config": [1], "template": "x" }), &[]);
    }

    #[test]
    fn a_finding_reads_as_a_sentence() {
        let object = json!({ "spec": { "kafka": { "jmxOptions": {} } } });
        assert_eq!(
            unhonoured(&object, Kind::Kafka)[0].to_string(),
            "spec.kafka.jmxOptions is accepted: no port for JMX is opened; metrics are served over HTTP"
        );
    }
}
