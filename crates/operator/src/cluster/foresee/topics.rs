//! What a change of a topic would move.

use api::names::Names;
use model::TopicName;

use super::Stage;
use crate::topics::{Foreseen, TopicsError, foresee_replicas};

impl Stage {
    /// What a change of the number of replicas of a topic would move, once [`Stage::present`] has opened the way to Kafka;
    /// `None` if Kafka has no such topic.
    ///
    /// # Errors
    /// Kafka or the record of the cluster could not be read.
    pub async fn replicas_of(
        &self,
        names: &Names,
        topic: &TopicName,
        replicas: usize,
    ) -> Result<Option<Foreseen>, TopicsError> {
        foresee_replicas(&self.ctx, names, topic, replicas).await
    }
}
