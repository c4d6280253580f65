//! Events on resources of topics and users. Each tells something once: what is news is decided by comparing with the status.

use control::topics::News;
use kube::Resource;
use kube::runtime::events::{Event, EventType};

use crate::context::Context;

/// Events of one pass over some resources. Where thousands fail for one reason, their statuses say so.
pub(crate) const EVENTS_MAX: usize = 50;

/// Letters of an Event. The API server takes 1024.
const NOTE_LENGTH_MAX: usize = 1000;

/// Publishes an Event on a resource. One that is lost is no trouble: the status says the same.
pub(crate) async fn publish<K: Resource<DynamicType = ()>>(ctx: &Context, on: &K, news: News) {
    let event = event(news);
    if let Err(error) = ctx.recorder.publish(&event, &on.object_ref(&())).await {
        tracing::info!("cannot publish an Event: {error}");
    }
}

fn event(news: News) -> Event {
    Event {
        type_: if news.is_warning { EventType::Warning } else { EventType::Normal },
        reason: news.reason.to_owned(),
        note: Some(news.message.chars().take(NOTE_LENGTH_MAX).collect()),
        action: "Reconcile".to_owned(),
        secondary: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_as_long_as_the_api_server_takes() {
        let message = "ä".repeat(2000);
        let event = event(News { is_warning: true, reason: "KafkaError", message });
        assert_eq!(event.note.unwrap().chars().count(), NOTE_LENGTH_MAX);
        assert!(matches!(event.type_, EventType::Warning) && event.reason == "KafkaError");
    }
}
