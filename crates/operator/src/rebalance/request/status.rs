//! The status of a request: a copy for people and for tools, by Strimzi's names.

use control::rebalance::request::Report;
use control::rebalance::request::report::Condition;
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::pass::Work;
use crate::rebalance::RebalanceError;

/// Writes the status, if it says something new. `shown` is the ConfigMap with load and progress.
pub(super) async fn write(
    work: &Work,
    report: &Report,
    shown: Option<&str>,
) -> Result<(), RebalanceError> {
    let plan = work.record.proposal.as_ref().map(|plan| &plan.summary);
    let status = render(report, plan, shown, &now());
    let name = work.kr.name_any();
    work.ctx.writer.patch_status(&work.api(), &name, &status, Some(&work.kr)).await?;
    Ok(())
}

fn render(report: &Report, plan: Option<&Value>, shown: Option<&str>, now: &str) -> Value {
    let mut status = Map::new();
    let conditions = report.conditions.iter().map(|one| condition(one, now));
    status.insert("conditions".to_owned(), conditions.collect());
    status.insert("observedGeneration".to_owned(), json!(report.observed_generation));
    if let Some(session) = &report.session {
        status.insert("sessionId".to_owned(), json!(session));
    }
    if let Some(plan) = plan.filter(|_| report.shows_result) {
        let mut result = plan.clone();
        if let (Some(name), Some(fields)) = (shown, result.as_object_mut()) {
            fields.insert("afterBeforeLoadConfigMap".to_owned(), json!(name));
        }
        status.insert("optimizationResult".to_owned(), result);
    }
    if let Some(name) = shown {
        status.insert("progress".to_owned(), json!({ "rebalanceProgressConfigMap": name }));
    }
    Value::Object(status)
}

fn condition(condition: &Condition, now: &str) -> Value {
    let mut value = json!({
        "type": condition.kind.name(), "status": "True", "lastTransitionTime": now,
    });
    if let Some(reason) = condition.reason {
        value["reason"] = json!(reason.name());
    }
    if let Some(message) = &condition.message {
        value["message"] = json!(message);
    }
    value
}

fn now() -> String {
    // Seconds are enough, and what people see elsewhere.
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    now.format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use control::rebalance::request::report::Kind;
    use control::rebalance::request::{Phase, Reason};

    use super::*;

    #[test]
    fn a_status_has_what_the_report_says_by_the_names_of_strimzi() {
        let mut report = Report {
            observed_generation: 3,
            conditions: vec![Condition {
                kind: Kind::State(Phase::Rebalancing),
                reason: None,
                message: None,
            }],
            session: Some("u/1".to_owned()),
            shows_result: true,
            entries: None,
        };
        let plan = json!({ "numReplicaMovements": 2 });
        let whole = json!({
            "conditions": [{ "type": "Rebalancing", "status": "True", "lastTransitionTime": "t" }],
            "observedGeneration": 3,
            "sessionId": "u/1",
            "optimizationResult": { "numReplicaMovements": 2, "afterBeforeLoadConfigMap": "r" },
            "progress": { "rebalanceProgressConfigMap": "r" },
        });
        assert_eq!(render(&report, Some(&plan), Some("r"), "t"), whole);
        report.conditions = vec![Condition {
            kind: Kind::Warning,
            reason: Some(Reason::KafkaNotReady),
            message: Some("why".to_owned()),
        }];
        (report.session, report.shows_result) = (None, false);
        let little = json!({
            "conditions": [{
                "type": "Warning", "status": "True", "lastTransitionTime": "t",
                "reason": "KafkaNotReady", "message": "why",
            }],
            "observedGeneration": 3,
        });
        assert_eq!(render(&report, Some(&plan), None, "t"), little);
    }
}
