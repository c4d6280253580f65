//! The log directories of the brokers of a cluster, for people: no decision is based on them.

use std::collections::BTreeMap;

use futures::{StreamExt as _, future, stream};
use kafka_admin::LogDir;
use model::NodeId;

use super::View;

/// As many brokers are asked at a time.
const AT_ONCE: usize = 16;

impl View {
    /// The log directories of the registered brokers that are not fenced. A broker that does not answer is missing, and
    /// so are all of them where Kafka could not be reached.
    pub async fn log_dirs(&self) -> BTreeMap<NodeId, Vec<LogDir>> {
        let admin =
            self.known.as_ref().and_then(|known| known.facts.access.as_ref()?.brokers.as_ref());
        let snapshot = self.observed.snapshot.as_ref();
        let (Some(admin), Some(brokers)) =
            (admin, snapshot.and_then(|one| one.kafka.brokers.known()))
        else {
            return BTreeMap::new();
        };
        let asked = brokers.iter().filter(|(_, broker)| !broker.fenced).map(|(id, _)| *id);
        let answers = asked.map(|id| {
            let admin = admin.clone();
            async move { Some((id, admin.describe_log_dirs(id).await.ok()?)) }
        });
        let answers: Vec<_> = answers.collect();
        stream::iter(answers).buffer_unordered(AT_ONCE).filter_map(future::ready).collect().await
    }
}
