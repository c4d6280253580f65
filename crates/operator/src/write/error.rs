//! Why writes fail.

/// Why something was not written, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// This process does not lead, or not for long enough. Nothing was sent.
    #[error("{what}: this process does not lead for long enough to do it")]
    NotLeader {
        /// What was to be done.
        what: String,
    },
    /// The object that was to be created is there already.
    #[error("{what}: it exists already")]
    Exists {
        /// What was to be done.
        what: String,
    },
    /// The object is not there.
    #[error("{what}: it does not exist")]
    Missing {
        /// What was to be done.
        what: String,
    },
    /// The object was changed by somebody else in between.
    #[error("{what}: it was changed in between")]
    Conflict {
        /// What was to be done.
        what: String,
    },
    /// The API server found the object wrong. It will do so again.
    #[error("{what}: the API server refuses it: {reason}")]
    Invalid {
        /// What was to be done.
        what: String,
        /// What it said.
        reason: String,
    },
    /// No answer in time: it may have been carried out.
    #[error("{what}: no answer in time")]
    Expired {
        /// What was to be done.
        what: String,
    },
    /// The object cannot be written as JSON.
    #[error("{what}: the object cannot be written as JSON")]
    Encode {
        /// What was to be done.
        what: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// Any other answer, or none.
    #[error("{what}")]
    Kubernetes {
        /// What was to be done.
        what: String,
        /// What went wrong.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Why something was not changed in Kafka, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum KafkaWriteError<E: std::error::Error + 'static> {
    /// This process does not lead, or not for long enough. Nothing was sent.
    #[error("{what}: this process does not lead for long enough to do it")]
    NotLeader {
        /// What was to be done.
        what: String,
    },
    /// No answer in time: it may have been carried out.
    #[error("{what}: no answer in time")]
    Expired {
        /// What was to be done.
        what: String,
    },
    /// Kafka refused it, or gave no answer.
    #[error("{what}")]
    Kafka {
        /// What was to be done.
        what: String,
        /// What went wrong.
        #[source]
        source: E,
    },
}
