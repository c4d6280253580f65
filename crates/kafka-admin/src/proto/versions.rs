//! Which version of each request to speak with a peer.

use std::collections::BTreeMap;

use super::Api;
use super::api::ApiId;

/// The versions that a node offered when the connection was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions {
    offered: BTreeMap<i16, (i16, i16)>,
}

/// A request that this node does not take in any version that we speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// The node does not have it at all. Controllers, for example, know no topics' metadata.
    #[error("the node does not serve {api} (brokers and controllers serve different requests)")]
    Api {
        /// The request.
        api: ApiId,
    },
    /// It has it, in versions that we do not speak.
    #[error("the node serves {api} in versions {min} to {max}, this client {oldest} to {newest}")]
    Version {
        /// The request.
        api: ApiId,
        /// The oldest version offered.
        min: i16,
        /// The newest version offered.
        max: i16,
        /// The oldest version that we speak.
        oldest: i16,
        /// The newest version that we speak.
        newest: i16,
    },
}

impl Versions {
    pub(super) fn new(offered: impl IntoIterator<Item = (i16, i16, i16)>) -> Self {
        Self { offered: offered.into_iter().map(|(key, min, max)| (key, (min, max))).collect() }
    }

    /// The newest version of `R` that both sides speak. Sending any other would close the
    /// connection without an answer.
    pub(crate) fn choose<R: Api>(&self) -> Result<i16, Unsupported> {
        let api = R::ID;
        let (min, max) = *self.offered.get(&api.key).ok_or(Unsupported::Api { api })?;
        let (oldest, newest) = (*R::VERSIONS.start(), *R::VERSIONS.end());
        let chosen = max.min(newest);
        if chosen < min.max(oldest) {
            return Err(Unsupported::Version { api, min, max, oldest, newest });
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::AlterPartitionReassignmentsRequest;

    use super::*;

    /// We speak AlterPartitionReassignments 0 to 1.
    fn choose(offered: &[(i16, i16, i16)]) -> Result<i16, Unsupported> {
        Versions::new(offered.iter().copied()).choose::<AlterPartitionReassignmentsRequest>()
    }

    #[test]
    fn the_newest_common_version_is_chosen() {
        assert_eq!(choose(&[(45, 0, 1)]), Ok(1));
        assert_eq!(choose(&[(45, 0, 9)]), Ok(1));
        assert_eq!(choose(&[(45, 0, 0)]), Ok(0));
        assert_eq!(choose(&[(45, 1, 1)]), Ok(1));
    }

    #[test]
    fn no_common_version_is_said_with_what_was_offered() {
        let api = AlterPartitionReassignmentsRequest::ID;
        assert_eq!(choose(&[(3, 0, 13)]), Err(Unsupported::Api { api }));
        for (min, max) in [(2, 4), (-3, -1), (1, 0)] {
            let error = Unsupported::Version { api, min, max, oldest: 0, newest: 1 };
            assert_eq!(choose(&[(45, min, max)]), Err(error));
        }
    }
}
