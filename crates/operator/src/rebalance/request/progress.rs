//! The ConfigMap of a request: what its brokers have before and after, and how far its moves are.

use std::collections::BTreeMap;

use control::rebalance::request::Report;
use control::rebalance::request::report::{Content, Entry};
use serde_json::Value;

use super::pass::Work;
use crate::rebalance::RebalanceError;
use crate::rebalance::engine::Told;
use crate::rebalance::store::Document;

const LOAD: &str = "brokerLoad.json";

/// Writes it, if it says something new, and returns its name; `None` if there is nothing to show.
pub(super) async fn show(
    work: &Work,
    report: &Report,
    told: &Told,
) -> Result<Option<String>, RebalanceError> {
    let (Some(entries), Some(plan)) = (&report.entries, &work.record.proposal) else {
        return Ok(None);
    };
    let document = Document::for_people(&work.ctx.client, &work.kr)?;
    let before = match entries.values().any(|content| *content == Content::Kept) {
        true => document.shown().await?,
        false => BTreeMap::new(),
    };
    let mut data = render(entries, told.executor.as_ref(), &before);
    data.insert(LOAD.to_owned(), plan.broker_load.to_string());
    document.show(&work.ctx.writer, data).await?;
    Ok(Some(document.name().to_owned()))
}

fn render(
    entries: &BTreeMap<Entry, Content>,
    executor: Option<&Value>,
    before: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let text = |name: &str, content: &Content| match content {
        Content::Number(number) => Some(number.to_string()),
        Content::Executor => executor.map(ToString::to_string),
        Content::Kept => before.get(name).cloned(),
    };
    let entry = |(entry, content): (&Entry, &Content)| {
        Some((entry.name().to_owned(), text(entry.name(), content)?))
    };
    entries.iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_numbers_what_the_engine_says_or_what_is_there() {
        let executor = serde_json::json!({ "state": "X" });
        let before = [(Entry::Minutes.name().to_owned(), "7".to_owned())].into();
        let entries = [
            (Entry::Minutes, Content::Kept),
            (Entry::Percent, Content::Number(25)),
            (Entry::Executor, Content::Executor),
        ];
        let shown = |executor, before| {
            let data = render(&entries.into(), executor, before);
            data.iter().map(|(name, text)| format!("{name}={text}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            shown(Some(&executor), &before),
            "completedByteMovementPercentage=25 estimatedTimeToCompletionInMinutes=7 \
             executorState.json={\"state\":\"X\"}"
        );
        assert_eq!(shown(None, &BTreeMap::new()), "completedByteMovementPercentage=25");
    }
}
