//! The ConfigMap of a request: what its brokers have before and after, and how far its moves are.

use std::collections::BTreeMap;

use control::rebalance::request::Phase;

use super::pass::Work;
use crate::rebalance::RebalanceError;
use crate::rebalance::engine::Told;
use crate::rebalance::store::Place;

const LOAD: &str = "brokerLoad.json";
const MINUTES: &str = "estimatedTimeToCompletionInMinutes";
const PERCENT: &str = "completedByteMovementPercentage";
const STATE: &str = "executorState.json";

/// Writes it, if it says something new, and returns its name; `None` if there is nothing to show.
pub(super) async fn show(work: &Work, told: &Told) -> Result<Option<String>, RebalanceError> {
    let request = &work.record.request;
    let proposal = work.record.proposal.as_ref();
    let proposal = proposal.filter(|one| one.attempt == request.attempt && one.failure.is_none());
    let Some(proposal) = proposal else { return Ok(None) };
    let place = Place::for_people(&work.ctx.client, &work.kr)?;
    let before = match request.phase {
        Phase::Rebalancing | Phase::Stopped | Phase::NotReady => place.shown().await?,
        Phase::New
        | Phase::PendingProposal
        | Phase::ProposalReady
        | Phase::Ready
        | Phase::ReconciliationPaused => BTreeMap::new(),
    };
    let mut entries = entries(request.phase, told, &before);
    let Some(entries) = entries.as_mut() else { return Ok(None) };
    entries.insert(LOAD.to_owned(), proposal.broker_load.to_string());
    place.show(&work.ctx.writer, std::mem::take(entries)).await?;
    Ok(Some(place.name().to_owned()))
}

/// What is said of the progress; `None` if the ConfigMap is to be left as it is.
fn entries(
    phase: Phase,
    told: &Told,
    before: &BTreeMap<String, String>,
) -> Option<BTreeMap<String, String>> {
    let entry = |name: &str, value: String| (name.to_owned(), value);
    let kept = |name: &str| before.get(name).map(|value| entry(name, value.clone()));
    Some(match phase {
        Phase::New | Phase::PendingProposal | Phase::ReconciliationPaused => return None,
        Phase::ProposalReady => [entry(PERCENT, "0".to_owned())].into(),
        Phase::Rebalancing => match &told.progress {
            Some(progress) => {
                let minutes = progress.left_minutes().map(|n| entry(MINUTES, n.to_string()));
                let percent = entry(PERCENT, progress.percent().to_string());
                let state = told.executor.as_ref().map(|state| entry(STATE, state.to_string()));
                minutes.into_iter().chain([percent]).chain(state).collect()
            }
            None => [MINUTES, PERCENT, STATE].into_iter().filter_map(kept).collect(),
        },
        Phase::Stopped | Phase::NotReady => [PERCENT, STATE].into_iter().filter_map(kept).collect(),
        Phase::Ready => [entry(MINUTES, "0".to_owned()), entry(PERCENT, "100".to_owned())].into(),
    })
}

#[cfg(test)]
mod tests {
    use control::rebalance::execution::Progress;

    use super::*;

    fn keys(phase: Phase, told: &Told, before: &BTreeMap<String, String>) -> String {
        let entries = entries(phase, told, before).unwrap_or_default();
        let texts: Vec<_> = entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
        texts.join(" ")
    }

    #[test]
    fn what_is_said_of_progress_is_what_the_states_ask_for() {
        let progress = Progress {
            bytes_total: 200,
            bytes_done: 50,
            left_ms: Some(120_000),
            ..Progress::default()
        };
        let told = Told {
            progress: Some(progress),
            executor: Some(serde_json::json!({ "state": "X" })),
            ..Told::default()
        };
        let none = Told::default();
        let nothing = BTreeMap::new();
        let running = entries(Phase::Rebalancing, &told, &nothing).unwrap();
        let (percent, state) = (PERCENT, STATE);
        #[rustfmt::skip]
        let rows = [
            (Phase::PendingProposal, &told, &nothing, String::new()),
            (Phase::ProposalReady,   &none, &nothing, format!("{percent}=0")),
            (Phase::Rebalancing,     &told, &nothing, format!("{percent}=25 {MINUTES}=2 {state}={{\"state\":\"X\"}}")),
            (Phase::Rebalancing,     &none, &running, format!("{percent}=25 {MINUTES}=2 {state}={{\"state\":\"X\"}}")),
            (Phase::Stopped,         &none, &running, format!("{percent}=25 {state}={{\"state\":\"X\"}}")),
            (Phase::NotReady,        &none, &running, format!("{percent}=25 {state}={{\"state\":\"X\"}}")),
            (Phase::Ready,           &none, &running, format!("{percent}=100 {MINUTES}=0")),
        ];
        for (phase, told, before, expected) in rows {
            assert_eq!(keys(phase, told, before), expected, "{phase:?}");
        }
    }
}
