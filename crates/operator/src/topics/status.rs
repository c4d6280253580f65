//! The status of a `KafkaTopic`, by Strimzi's names.

use api::topic::ReplicasChangeState;
use api::{KafkaTopic, KafkaTopicStatus};
use control::topics::{ChangeState, Condition, ReplicasChange, Report};
use kube::{Api, ResourceExt as _};

use crate::context::Context;
use crate::time::now_text;
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
    let status = serde_json::to_value(render(report, &now_text()));
    let status = status.map_err(|source| WriteError::Encode {
        what: format!("patch status KafkaTopic {namespace}/{name}"),
        source,
    })?;
    ctx.writer.patch_status(&api, &name, &status, Some(topic)).await?;
    Ok(())
}

fn render(report: &Report, now: &str) -> KafkaTopicStatus {
    KafkaTopicStatus {
        conditions: Some(report.conditions.iter().map(|one| condition(one, now)).collect()),
        observed_generation: Some(report.observed_generation),
        topic_name: report.topic_name.clone(),
        topic_id: report.topic_id.clone(),
        replicas_change: report.replicas_change.as_ref().map(change),
        ..KafkaTopicStatus::default()
    }
}

fn change(change: &ReplicasChange) -> api::topic::ReplicasChange {
    let state = change.state.map(|state| match state {
        ChangeState::Pending => ReplicasChangeState::Pending,
        ChangeState::Ongoing => ReplicasChangeState::Ongoing,
    });
    api::topic::ReplicasChange {
        target_replicas: Some(change.target),
        state,
        message: change.message.clone(),
        session_id: change.session.clone(),
        ..api::topic::ReplicasChange::default()
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
            replicas_change: None,
        };
        let written = |report: &Report| serde_json::to_value(render(report, "t")).unwrap();
        let condition = json!({ "type": "Ready", "status": "True", "lastTransitionTime": "t" });
        let expected = json!({
            "conditions": [condition], "observedGeneration": 3, "topicName": "a", "topicId": "id",
        });
        assert_eq!(written(&report), expected, "T1.5, T1.7, T1.8, T6.1");
        report.conditions[0] = Condition {
            kind: Kind::Ready,
            holds: false,
            reason: Some(Reason::KafkaError),
            message: Some("why".to_owned()),
        };
        let change = ReplicasChange {
            target: 2,
            state: Some(ChangeState::Ongoing),
            message: None,
            session: Some("s".to_owned()),
        };
        (report.topic_id, report.replicas_change) = (None, Some(change));
        let condition = json!({
            "type": "Ready", "status": "False", "lastTransitionTime": "t",
            "reason": "KafkaError", "message": "why",
        });
        let expected = json!({
            "conditions": [condition], "observedGeneration": 3, "topicName": "a",
            "replicasChange": { "targetReplicas": 2, "state": "ongoing", "sessionId": "s" },
        });
        assert_eq!(written(&report), expected, "T1.9, T6.6");
    }
}
