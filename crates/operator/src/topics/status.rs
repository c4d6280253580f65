//! The status of a `KafkaTopic`, by Strimzi's names.

use api::{KafkaTopic, KafkaTopicStatus};
use control::topics::{Condition, Report};
use kube::{Api, ResourceExt as _};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::context::Context;
use crate::write::WriteError;

/// Writes the status of a resource, if it says something new.
pub(super) async fn write(
    ctx: &Context,
    topic: &KafkaTopic,
    report: &Report,
) -> Result<(), WriteError> {
    let name = topic.name_any();
    let namespace = topic.namespace().unwrap_or_default();
    let api: Api<KafkaTopic> = Api::namespaced(ctx.client.clone(), &namespace);
    let status = serde_json::to_value(render(report, topic.status.as_ref(), &now()));
    let status = status.map_err(|source| WriteError::Encode {
        what: format!("patch status KafkaTopic {namespace}/{name}"),
        source,
    })?;
    ctx.writer.patch_status(&api, &name, &status, Some(topic)).await?;
    Ok(())
}

fn render(report: &Report, before: Option<&KafkaTopicStatus>, now: &str) -> KafkaTopicStatus {
    let change = before.and_then(|before| before.replicas_change.clone());
    KafkaTopicStatus {
        conditions: Some(report.conditions.iter().map(|one| condition(one, now)).collect()),
        observed_generation: Some(report.observed_generation),
        topic_name: report.topic_name.clone(),
        topic_id: report.topic_id.clone(),
        replicas_change: change.filter(|_| report.keeps_replicas_change),
        ..KafkaTopicStatus::default()
    }
}

fn condition(condition: &Condition, now: &str) -> api::Condition {
    api::Condition {
        kind: Some(condition.kind.name().to_owned()),
        status: Some(if condition.holds { "True" } else { "False" }.to_owned()),
        last_transition_time: Some(now.to_owned()),
        reason: condition.reason.map(|reason| reason.name().to_owned()),
        message: condition.message.clone(),
        ..api::Condition::default()
    }
}

fn now() -> String {
    // Seconds are enough, and what people see elsewhere.
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    now.format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use control::topics::{Kind, Reason};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_has_what_the_report_says_by_the_names_of_strimzi() {
        let ready = Condition { kind: Kind::Ready, holds: true, reason: None, message: None };
        let mut report = Report {
            observed_generation: 3,
            conditions: vec![ready],
            topic_name: Some("a".to_owned()),
            topic_id: Some("id".to_owned()),
            keeps_replicas_change: false,
        };
        let before: KafkaTopicStatus =
            serde_json::from_value(json!({ "replicasChange": { "state": "pending" } })).unwrap();
        let written =
            |report: &Report| serde_json::to_value(render(report, Some(&before), "t")).unwrap();
        let condition = json!({ "type": "Ready", "status": "True", "lastTransitionTime": "t" });
        let expected = json!({
            "conditions": [condition], "observedGeneration": 3, "topicName": "a", "topicId": "id",
        });
        assert_eq!(written(&report), expected, "T6.1");
        report.conditions[0] = Condition {
            kind: Kind::Ready,
            holds: false,
            reason: Some(Reason::KafkaError),
            message: Some("why".to_owned()),
        };
        (report.topic_id, report.keeps_replicas_change) = (None, true);
        let condition = json!({
            "type": "Ready", "status": "False", "lastTransitionTime": "t",
            "reason": "KafkaError", "message": "why",
        });
        let expected = json!({
            "conditions": [condition], "observedGeneration": 3, "topicName": "a",
            "replicasChange": { "state": "pending" },
        });
        assert_eq!(written(&report), expected, "T6.6");
    }
}
