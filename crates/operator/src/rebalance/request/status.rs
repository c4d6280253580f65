//! The status of a request: a copy for people and for tools, by Strimzi's names.

use api::compat::{self, Verdict};
use control::rebalance::request::{Decision, Failure, Phase, Recorded};
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::pass::Work;
use crate::rebalance::RebalanceError;
use crate::rebalance::engine::Told;

/// Writes the status, if it says something new. `shown` is the ConfigMap with load and progress.
pub(super) async fn write(
    work: &Work,
    written: &Value,
    decision: &Decision,
    (shown, told): (Option<&str>, &Told),
) -> Result<(), RebalanceError> {
    let request = &work.record.request;
    let now = now();
    let mut conditions = vec![state(request, &now)];
    let warn = |reason: &str, message: String| {
        json!({ "type": "Warning", "status": "True", "lastTransitionTime": now,
                "reason": reason, "message": message })
    };
    conditions.extend(decision.warnings.iter().map(|one| warn(one.reason(), one.to_string())));
    conditions.extend(told.warnings.iter().map(|(reason, message)| warn(reason, message.clone())));
    for finding in compat::unhonoured(written, compat::Kind::KafkaRebalance) {
        let reason = match finding.verdict {
            Verdict::Honoured => continue,
            Verdict::Accepted | Verdict::Refused => "UnhonouredFields",
            Verdict::Unknown => "UnknownFields",
        };
        conditions.push(warn(reason, finding.to_string()));
    }
    let mut status = Map::new();
    status.insert("conditions".to_owned(), conditions.into());
    let generation = match request.generation {
        0 => work.kr.metadata.generation.unwrap_or_default(),
        seen => seen,
    };
    status.insert("observedGeneration".to_owned(), json!(generation));
    let works =
        matches!(request.phase, Phase::PendingProposal | Phase::ProposalReady | Phase::Rebalancing);
    if let Some(session) = told.session.as_ref().filter(|_| works) {
        status.insert("sessionId".to_owned(), json!(session));
    }
    if let Some(result) = result(work, shown) {
        status.insert("optimizationResult".to_owned(), result);
    }
    if let Some(name) = shown {
        status.insert("progress".to_owned(), json!({ "rebalanceProgressConfigMap": name }));
    }
    let name = work.kr.name_any();
    let status = Value::Object(status);
    work.ctx.writer.patch_status(&work.api(), &name, &status, Some(&work.kr)).await?;
    Ok(())
}

/// What the plan does, if there is one to speak of.
fn result(work: &Work, shown: Option<&str>) -> Option<Value> {
    let request = &work.record.request;
    match request.phase {
        Phase::ProposalReady | Phase::Rebalancing | Phase::Stopped | Phase::Ready => {}
        Phase::New | Phase::PendingProposal | Phase::NotReady | Phase::ReconciliationPaused => {
            return None;
        }
    }
    let proposal = work.record.proposal.as_ref();
    let proposal =
        proposal.filter(|one| one.attempt == request.attempt && one.failure.is_none())?;
    let mut result = proposal.summary.clone();
    if let (Some(name), Some(fields)) = (shown, result.as_object_mut()) {
        fields.insert("afterBeforeLoadConfigMap".to_owned(), json!(name));
    }
    Some(result)
}

/// The condition whose type is the state.
fn state(request: &Recorded, now: &str) -> Value {
    let mut condition = json!({
        "type": request.phase.name(), "status": "True", "lastTransitionTime": now,
    });
    if let (Phase::NotReady, Some(failure)) = (request.phase, &request.failure) {
        let reason = match failure {
            Failure::Hindered(hindrance) => hindrance.reason(),
            Failure::Passing(_) => "EngineUnavailable",
            Failure::Final(_) => "RebalanceFailed",
        };
        condition["reason"] = json!(reason);
        condition["message"] = json!(failure.to_string());
    }
    condition
}

fn now() -> String {
    // Seconds are enough, and what people see elsewhere.
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    now.format(&Rfc3339).unwrap_or_default()
}
