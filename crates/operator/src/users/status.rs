//! The status of a `KafkaUser`, by Strimzi's names.

use api::{KafkaUser, KafkaUserStatus};
use control::users::{Condition, Report};
use kube::{Api, ResourceExt as _};

use crate::context::Context;
use crate::time::now_text;
use crate::write::WriteError;

/// Writes the status of a resource, if it says something new.
pub(super) async fn write(
    ctx: &Context,
    user: &KafkaUser,
    report: &Report,
) -> Result<(), WriteError> {
    let (name, namespace) = (user.name_any(), user.namespace().unwrap_or_default());
    let api: Api<KafkaUser> = Api::namespaced(ctx.client.clone(), &namespace);
    let status = serde_json::to_value(render(report, &now_text()));
    let status = status.map_err(|source| WriteError::Encode {
        what: format!("patch status KafkaUser {namespace}/{name}"),
        source,
    })?;
    ctx.writer.patch_status(&api, &name, &status, Some(user)).await?;
    Ok(())
}

fn render(report: &Report, now: &str) -> KafkaUserStatus {
    KafkaUserStatus {
        conditions: Some(report.conditions.iter().map(|one| condition(one, now)).collect()),
        observed_generation: Some(report.observed_generation),
        username: report.username.clone(),
        secret: report.secret.clone(),
        ..KafkaUserStatus::default()
    }
}

fn condition(condition: &Condition, now: &str) -> api::Condition {
    api::Condition {
        kind: Some(condition.kind.name().to_owned()),
        status: Some("True".to_owned()),
        last_transition_time: Some(now.to_owned()),
        reason: condition.reason.map(|reason| reason.name().to_owned()),
        message: condition.message.clone(),
        ..api::Condition::default()
    }
}

#[cfg(test)]
mod tests {
    use control::users::{Kind, Reason};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_has_what_the_report_says_by_the_names_of_strimzi() {
        let ready = Condition { kind: Kind::Ready, reason: None, message: None };
        let warning = Condition {
            kind: Kind::Warning,
            reason: Some(Reason::NoListener),
            message: Some("why".to_owned()),
        };
        let report = Report {
            observed_generation: 3,
            conditions: vec![ready, warning],
            username: Some("CN=a".to_owned()),
            secret: Some("a".to_owned()),
        };
        let expected = json!({
            "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": "t" },
                { "type": "Warning", "status": "True", "lastTransitionTime": "t",
                  "reason": "NoListener", "message": "why" },
            ],
            "observedGeneration": 3, "username": "CN=a", "secret": "a",
        });
        assert_eq!(serde_json::to_value(render(&report, "t")).unwrap(), expected, "U1.10, U11.1");
    }
}
