//! The status of a request: a copy for people and for tools, by Strimzi's names.

use api::rebalance::RebalanceProgress;
use api::{KafkaRebalanceStatus, Verbatim};
use control::rebalance::request::Report;
use control::rebalance::request::report::Condition;
use kube::ResourceExt as _;
use serde_json::Value;
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
    let status = serde_json::to_value(&status).map_err(RebalanceError::Unreadable)?;
    let name = work.kr.name_any();
    work.ctx.writer.patch_status(&work.api(), &name, &status, Some(&work.kr)).await?;
    Ok(())
}

fn render(
    report: &Report,
    plan: Option<&Value>,
    shown: Option<&str>,
    now: &str,
) -> KafkaRebalanceStatus {
    let plan = plan.and_then(Value::as_object).filter(|_| report.shows_result);
    let progress = shown.map(|name| RebalanceProgress {
        rebalance_progress_config_map: Some(name.to_owned()),
        ..RebalanceProgress::default()
    });
    let load = shown.map(|name| ("afterBeforeLoadConfigMap".to_owned(), name.into()));
    let result = plan.map(|plan| Verbatim(plan.clone().into_iter().chain(load).collect()));
    KafkaRebalanceStatus {
        conditions: Some(report.conditions.iter().map(|one| condition(one, now)).collect()),
        observed_generation: Some(report.observed_generation),
        session_id: report.session.clone(),
        progress,
        optimization_result: result,
        ..KafkaRebalanceStatus::default()
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

fn now() -> String {
    // Seconds are enough, and what people see elsewhere.
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    now.format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use control::rebalance::request::report::Kind;
    use control::rebalance::request::{Phase, Reason};

    use serde_json::json;

    use super::*;

    fn written(report: &Report, plan: &Value, shown: Option<&str>) -> Value {
        serde_json::to_value(render(report, Some(plan), shown, "t")).unwrap()
    }

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
        assert_eq!(written(&report, &plan, Some("r")), whole);
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
        assert_eq!(written(&report, &plan, None), little);
    }
}
