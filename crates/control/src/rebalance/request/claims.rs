//! Who claims moves that run. Moves that nobody claims are cancelled.
//!
//! 1. Moves belong to the request with the uid that they were begun for. Another one of the same name has no claim.
//! 2. A request that has no cluster any more, or is another cluster's by now: the first keeps its claim until it has
//!    stopped them, the second has none.
//! 3. Moves for topics belong to the cluster itself, as long as it manages topics as resources.

use super::snapshot::Claimant;

/// A `KafkaRebalance` that may claim moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Its uid.
    pub uid: Option<&'a str>,
    /// The cluster in its label.
    pub cluster: Option<&'a str>,
}

/// The cluster that moves run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cluster<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: Option<&'a str>,
    /// Whether it manages topics as resources.
    pub manages_topics: bool,
}

impl Claimant {
    /// Whether they are for topics of this cluster.
    #[must_use]
    pub fn is_for_topics_of(&self, cluster: &Cluster<'_>) -> bool {
        cluster.manages_topics && cluster.uid == Some(&self.uid)
    }

    /// Whether somebody claims the moves on this cluster. `requests` are all of its namespace.
    #[must_use]
    pub fn is_claimed<'a>(
        &self,
        cluster: &Cluster<'_>,
        requests: impl IntoIterator<Item = Request<'a>>,
    ) -> bool {
        let claims = |request: Request<'_>| {
            let is_here = request.cluster.is_none_or(|label| label == cluster.name);
            is_here && request.uid == Some(&self.uid)
        };
        self.is_for_topics_of(cluster) || requests.into_iter().any(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn moves_are_claimed_by_their_own_request_or_by_the_topics_of_their_cluster() {
        let here = Cluster { name: "c", uid: Some("k"), manages_topics: false };
        let request = |uid, cluster| vec![Request { uid, cluster }];
        let by = |uid: &str| Claimant { name: "r".to_owned(), uid: uid.to_owned(), attempt: 1 };
        // Who they were begun for, the cluster, the requests, whether they are claimed.
        let rows = [
            ("its request",               "r", here, request(Some("r"), Some("c")), true),
            ("one without a cluster",     "r", here, request(Some("r"), None), true),
            ("another cluster's by now",  "r", here, request(Some("r"), Some("d")), false),
            ("another of that name",      "r", here, request(Some("s"), Some("c")), false),
            ("one without a uid",         "r", here, request(None, Some("c")), false),
            ("its request is gone",       "r", here, vec![], false),
            ("topics that are managed",   "k", Cluster { manages_topics: true, ..here }, vec![], true),
            ("topics that are no more",   "k", here, vec![], false),
            ("topics of a former cluster", "j", Cluster { manages_topics: true, ..here }, vec![], false),
            ("a cluster without a uid",   "k", Cluster { manages_topics: true, uid: None, ..here }, vec![], false),
        ];
        for (name, uid, cluster, requests, expected) in rows {
            assert_eq!(by(uid).is_claimed(&cluster, requests), expected, "{name}");
            let for_topics = cluster.manages_topics && cluster.uid == Some(uid);
            assert_eq!(by(uid).is_for_topics_of(&cluster), for_topics, "{name}");
        }
    }
}
