//! Which resource owns a topic where several claim it.
//!
//! The oldest does. Of several that were created in the same second it is the one that manages the topic already, then
//! the first by name. Resources that are being deleted own nothing as long as others claim the topic.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::resource::Resource;

/// The claims on all topics of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ownership {
    claims: BTreeMap<String, Vec<Claim>>,
}

/// A claim; the least is the owner's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    is_deleting: bool,
    created_s: i64,
    manages: Reverse<bool>,
    name: String,
}

impl Ownership {
    /// Reads the claims of the resources of one cluster. Resources that are not managed claim nothing.
    #[must_use]
    pub fn of<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Self {
        let mut claims: BTreeMap<String, Vec<Claim>> = BTreeMap::new();
        for one in resources.into_iter().filter(|one| one.is_managed && one.spec.is_some()) {
            let manages = one.status.is_ready && one.status.topic_name.is_some();
            claims.entry(one.claimed_topic().to_owned()).or_default().push(Claim {
                is_deleting: one.is_deleting,
                created_s: one.created_s,
                manages: Reverse(manages),
                name: one.name.clone(),
            });
        }
        claims.values_mut().for_each(|claims| claims.sort());
        Self { claims }
    }

    /// The resource that owns a topic; `None` if none claims it.
    #[must_use]
    pub fn owner(&self, topic: &str) -> Option<&str> {
        Some(self.claims.get(topic)?.first()?.name.as_str())
    }
}
