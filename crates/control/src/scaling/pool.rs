//! When a node pool that is being deleted may go.
//!
//! A pool carries a finalizer of ours, so that its deletion is a scale-down to nothing and not the end of its
//! nodes:
//!
//! 1. It goes when none of its nodes is left.
//! 2. It goes at once when the cluster or the namespace is being deleted, or when there is no such cluster:
//!    there is nothing left to protect, and nobody who would drain it.
//! 3. What is not known keeps it.

/// The finalizer.
pub const FINALIZER: &str = "gregor.io/drain";

/// What is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Whether the pool is being deleted.
    pub deleting: bool,
    /// Whether it carries the finalizer.
    pub has_finalizer: bool,
    /// Whether its cluster is there to stay. `None` if it could not be read.
    pub cluster: Option<Cluster>,
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
    let abandoned = matches!(facts.cluster, Some(Cluster::Deleting | Cluster::Missing))
        || facts.namespace_deleting == Some(true);
    match (facts.deleting, facts.has_finalizer) {
        (false, false) if facts.cluster == Some(Cluster::Present) && !abandoned => {
            Decision::Protect
        }
        (false | true, false) => Decision::Keep,
        // A cluster that is not there may come back under the same name; one that is deleted does not.
        (false, true) if facts.cluster == Some(Cluster::Deleting) => Decision::Release,
        (false, true) => Decision::Keep,
        (true, true) if abandoned || facts.nodes_left == Some(0) => Decision::Release,
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
            ("a new pool",                     false, false, Some(Present),  Some(false), Some(0), Protect),
            ("a pool at work",                 false, true,  Some(Present),  Some(false), Some(3), Keep),
            ("no cluster for it yet",          false, false, Some(Missing),  Some(false), Some(0), Keep),
            ("its cluster is not known",       false, false, None,           Some(false), Some(0), Keep),
            ("deleted, with nodes",            true,  true,  Some(Present),  Some(false), Some(3), Drain(Some(3))),
            ("deleted, the last node is gone", true,  true,  Some(Present),  Some(false), Some(0), Release),
            ("deleted, nodes not known",       true,  true,  Some(Present),  Some(false), None,    Drain(None)),
            ("deleted with its cluster",       true,  true,  Some(Deleting), Some(false), Some(3), Release),
            ("deleted after its cluster",      true,  true,  Some(Missing),  Some(false), Some(3), Release),
            ("deleted with its namespace",     true,  true,  Some(Present),  Some(true),  Some(3), Release),
            ("nothing is known",               true,  true,  None,           None,        None,    Drain(None)),
            ("its cluster goes",               false, true,  Some(Deleting), Some(false), Some(3), Release),
            ("its cluster is gone",            false, true,  Some(Missing),  Some(false), Some(3), Keep),
            ("somebody took the finalizer",    true,  false, Some(Present),  Some(false), Some(3), Keep),
        ];
        for (name, deleting, has_finalizer, cluster, namespace_deleting, nodes_left, expected) in rows {
            let facts = Facts { deleting, has_finalizer, cluster, namespace_deleting, nodes_left };
            assert_eq!(decide(&facts), expected, "{name}");
        }
    }
}
