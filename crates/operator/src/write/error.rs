//! Why writes fail.

/// Why something was not written, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// This process does not lead, or not for long enough. Nothing was sent.
    #[error("{what}: the remaining lease time is too short")]
    NotLeader {
        /// What was to be done.
        what: String,
    },
    /// The object that was to be created is there already.
    #[error("{what}: already exists")]
    Exists {
        /// What was to be done.
        what: String,
    },
    /// The object is not there.
    #[error("{what}: not found")]
    Missing {
        /// What was to be done.
        what: String,
    },
    /// Another writer changed the object in between.
    #[error("{what}: changed concurrently")]
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

impl WriteError {
    /// Whether it was refused because the namespace is being deleted, in which nothing new is made, whoever asks.
    #[must_use]
    pub fn is_of_ending_namespace(&self) -> bool {
        let Self::Kubernetes { source, .. } = self else { return false };
        let kube::Error::Api(status) = source.as_ref() else { return false };
        status.code == 403 && status.message.contains("because the process is stopping")
    }
}

/// Why something was not changed in Kafka, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum KafkaWriteError<E: std::error::Error + 'static> {
    /// This process does not lead, or not for long enough. Nothing was sent.
    #[error("{what}: the remaining lease time is too short")]
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

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn only_an_ending_namespace_is_no_lack_of_rights() {
        let check = |code, message: &str, expected| {
            let status = Status::failure(message, "Forbidden").with_code(code);
            let source = Box::new(kube::Error::Api(Box::new(status)));
            let error = WriteError::Kubernetes { what: "create Pod a/b".to_owned(), source };
            assert_eq!(error.is_of_ending_namespace(), expected, "{code} {message}");
        };
        let ending = "pods \"b\" is forbidden: unable to create new content in namespace a because the process is stopping";
        check(403, ending, true);
        check(409, ending, false);
        check(403, "pods is forbidden: User \"x\" cannot create resource \"pods\"", false);
        assert!(!WriteError::Missing { what: ending.to_owned() }.is_of_ending_namespace());
    }
}
