//! When a node pool that is being deleted may go.
//!
//! A pool carries a finalizer of ours, so that its deletion is a scale-down to nothing and not the end of its
//! nodes:
//!
//! 1. The finalizer is removed when none of its nodes is left.
//! 2. It is removed at once when the cluster or the namespace is being deleted, or when there is no such cluster,
//!    whether or not the pool is being deleted: there is nothing left to protect, and no pass that would remove it
//!    later. A cluster that comes back under the same name protects its pools before it starts a node.
//! 3. Unknown facts keep it.

/// The finalizer.
pub const FINALIZER: &str = "gregor.io/drain";

/// What is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Whether the pool is being deleted.
    pub deleting: bool,
    /// Whether it carries the finalizer.
    pub has_finalizer: bool,
    /// Its cluster.
    pub cluster: Cluster,
    /// Whether the namespace is being deleted. `None` if it could not be read.
    pub namespace_deleting: Option<bool>,
    /// How many of its nodes are left: they have a pod, or are on their way out.
    pub nodes_left: Option<usize>,
}

/// What is known of a pool's cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cluster {
    /// It is there.
    Present,
    /// It is being deleted.
    Deleting,
    /// There is none of that name.
    Missing,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Keep,
    /// Put the finalizer on it, before its first node is started.
    Protect,
    /// Take the finalizer off.
    Release,
    /// Its nodes have to go first, each in its own time ([`super::guard`]). So many, if that is known.
    Drain(Option<usize>),
}

/// Decides what becomes of the finalizer of a pool.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    let has_cluster = facts.cluster == Cluster::Present;
    let is_abandoned = !has_cluster || facts.namespace_deleting == Some(true);
    match (facts.deleting, facts.has_finalizer) {
        (false, false) if !is_abandoned => Decision::Protect,
        (false | true, false) => Decision::Keep,
        (false, true) if !has_cluster => Decision::Release,
        (false, true) => Decision::Keep,
        (true, true) if is_abandoned || facts.nodes_left == Some(0) => Decision::Release,
        (true, true) => Decision::Drain(facts.nodes_left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Cluster::{Deleting, Missing, Present};
    use Decision::{Drain, Keep, Protect, Release};

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        // deleting, finalizer, cluster, namespace deleting, nodes left
        let rows = [
            ("a new pool",                      false, false, Present,  None,        Some(0), Protect),
            ("a new pool, namespace stays",     false, false, Present,  Some(false), Some(0), Protect),
            ("a new pool, namespace goes",      false, false, Present,  Some(true),  Some(0), Keep),
            ("a pool in use",                   false, true,  Present,  None,        Some(3), Keep),
            ("no cluster for it yet",           false, false, Missing,  None,        None,    Keep),
            ("its cluster is being deleted",    false, false, Deleting, None,        None,    Keep),
            ("deleted, with nodes",             true,  true,  Present,  Some(false), Some(3), Drain(Some(3))),
            ("deleted, the last node is gone",  true,  true,  Present,  Some(false), Some(0), Release),
            ("deleted, nodes unknown",          true,  true,  Present,  Some(false), None,    Drain(None)),
            ("deleted, namespace unknown",      true,  true,  Present,  None,        Some(3), Drain(Some(3))),
            ("deleted with its cluster",        true,  true,  Deleting, None,        None,    Release),
            ("deleted after its cluster",       true,  true,  Missing,  None,        None,    Release),
            ("deleted with its namespace",      true,  true,  Present,  Some(true),  Some(3), Release),
            ("its cluster is being deleted",    false, true,  Deleting, None,        None,    Release),
            ("its cluster is gone",             false, true,  Missing,  None,        None,    Release),
            ("the finalizer was removed",       true,  false, Present,  Some(false), Some(3), Keep),
            ("deleted, no finalizer, no Kafka", true,  false, Missing,  None,        None,    Keep),
        ];
        for (name, deleting, has_finalizer, cluster, namespace_deleting, nodes_left, expected) in rows {
            let facts = Facts { deleting, has_finalizer, cluster, namespace_deleting, nodes_left };
            assert_eq!(decide(&facts), expected, "{name}");
        }
    }
}
