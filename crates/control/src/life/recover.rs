//! Node ids and roles of a cluster whose record is lost, from the statuses of its resources and from its claims.
//!
//! 1. Every node whose disk holds data of the cluster keeps its id: a node too many is drained, a node too few loses its data.
//! 2. The status of a pool is newer than its claims: claims of nodes that it does not list are left over from a scale-down.
//! 3. Claims of another cluster, of a pool that does not exist, or of a node of two pools are not guessed about: nothing is
//!    changed until a user has decided.
//! 4. Claims without a known cluster id make no new cluster: a new id would ask to format their disks.
//! 5. A claim that is being deleted is no disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use model::NodeId;

use crate::node::Roles;
use crate::quorum::format::QuorumMode;

/// A claim of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub name: String,
    /// The pool of its node.
    pub pool: String,
    /// Its node.
    pub node: NodeId,
    /// The roles of its node when it was created, if they were noted.
    pub roles: Option<Roles>,
    /// The id of the cluster whose data it holds, if it was noted.
    pub cluster_id: Option<String>,
    /// The mode of the quorum of that cluster, if it was noted.
    pub mode: QuorumMode,
    /// Whether it is being deleted.
    pub is_deleting: bool,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its roles, from its status or its spec. `None` if it has none.
    pub roles: Option<Roles>,
    /// The nodes that its status, or the set of its pods, lists. `None` if neither is there.
    pub listed: Option<BTreeSet<NodeId>>,
}

/// Facts about a cluster without a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The cluster id in the statuses of its resources.
    pub cluster_id: Option<String>,
    /// Existing pools.
    pub pools: Vec<Pool>,
    /// Pools that were removed, and whose pod sets exist.
    pub removed: BTreeSet<String>,
    /// Claims of the cluster.
    pub claims: Vec<Claim>,
}

/// What the record becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The cluster is new.
    New,
    /// The cluster exists, with these nodes by pool.
    Known {
        /// Its id.
        cluster_id: String,
        /// The mode of its quorum, if claims know it and agree.
        mode: QuorumMode,
        /// The nodes of existing pools.
        pools: BTreeMap<String, BTreeMap<NodeId, Roles>>,
    },
    /// Nothing is changed.
    Refuse(Vec<Conflict>),
}

/// What a user has to decide.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Conflict {
    /// Claims hold data of different clusters.
    Clusters(BTreeSet<String>),
    /// A node's claim holds data of another cluster.
    OtherCluster {
        /// The claim.
        claim: String,
        /// The cluster whose data it holds.
        found: String,
        /// The cluster's id.
        expected: String,
    },
    /// The cluster whose data claims hold is unknown.
    UnknownCluster(BTreeSet<String>),
    /// Claims of a pool that does not exist.
    MissingPool {
        /// The pool.
        pool: String,
        /// Its claims.
        claims: BTreeSet<String>,
    },
    /// A node of several pools.
    Duplicate {
        /// The node.
        node: NodeId,
        /// The pools.
        pools: BTreeSet<String>,
    },
}

/// Decides what the record of a cluster becomes.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    let claims: Vec<_> = facts.claims.iter().filter(|claim| !claim.is_deleting).collect();
    let noted: BTreeSet<_> = claims.iter().filter_map(|claim| claim.cluster_id.clone()).collect();
    let cluster_id = match (&facts.cluster_id, noted.len()) {
        (Some(id), _) => id.clone(),
        (None, 0) if claims.is_empty() => return Decision::New,
        (None, 0) => {
            let names = claims.iter().map(|claim| claim.name.clone()).collect();
            return Decision::Refuse(vec![Conflict::UnknownCluster(names)]);
        }
        (None, 1) => noted.into_iter().next().unwrap_or_default(),
        (None, _) => return Decision::Refuse(vec![Conflict::Clusters(noted)]),
    };
    let mut conflicts = BTreeSet::new();
    let mut pools = BTreeMap::new();
    for pool in &facts.pools {
        let of_pool = claims.iter().copied().filter(|claim| claim.pool == pool.name);
        pools.insert(pool.name.clone(), nodes(pool, of_pool, &cluster_id, &mut conflicts));
    }
    // A cluster with statuses was not restored just now: claims of other pools are left over.
    if facts.cluster_id.is_none() {
        conflicts.extend(missing(facts, &claims));
    }
    conflicts.extend(duplicates(&pools));
    match conflicts.is_empty() {
        true => Decision::Known { mode: mode(&claims, &cluster_id), cluster_id, pools },
        false => Decision::Refuse(conflicts.into_iter().collect()),
    }
}

/// The mode that the claims of the cluster agree on. A migration that was interrupted leaves both.
fn mode(claims: &[&Claim], cluster_id: &str) -> QuorumMode {
    let ours = claims.iter().filter(|claim| claim.cluster_id.as_deref() == Some(cluster_id));
    let mut modes = ours.map(|claim| claim.mode).filter(|mode| *mode != QuorumMode::Unknown);
    let first = modes.next().unwrap_or_default();
    if modes.all(|mode| mode == first) { first } else { QuorumMode::Unknown }
}

/// The nodes of a pool.
fn nodes<'a>(
    pool: &Pool,
    claims: impl Iterator<Item = &'a Claim>,
    cluster_id: &str,
    conflicts: &mut BTreeSet<Conflict>,
) -> BTreeMap<NodeId, Roles> {
    let with_roles = |id: &NodeId| Some((*id, pool.roles?));
    let mut nodes: BTreeMap<_, _> = pool.listed.iter().flatten().filter_map(with_roles).collect();
    for claim in claims {
        let is_listed = pool.listed.as_ref().is_none_or(|listed| listed.contains(&claim.node));
        if !is_listed {
            continue;
        }
        if let Some(found) = claim.cluster_id.as_ref().filter(|found| *found != cluster_id) {
            conflicts.insert(Conflict::OtherCluster {
                claim: claim.name.clone(),
                found: found.clone(),
                expected: cluster_id.to_owned(),
            });
        }
        // The status has the present roles; claims, those of their creation.
        if pool.listed.is_none()
            && let Some(roles) = claim.roles.or(pool.roles)
        {
            nodes.insert(claim.node, roles);
        }
    }
    nodes
}

/// Pools that do not exist and have claims.
fn missing(facts: &Facts, claims: &[&Claim]) -> Vec<Conflict> {
    let exists =
        |pool: &str| facts.removed.contains(pool) || facts.pools.iter().any(|one| one.name == pool);
    let mut missing: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for claim in claims.iter().filter(|claim| !exists(&claim.pool)) {
        missing.entry(&claim.pool).or_default().insert(claim.name.clone());
    }
    let conflict =
        |(pool, claims): (&str, _)| Conflict::MissingPool { pool: pool.to_owned(), claims };
    missing.into_iter().map(conflict).collect()
}

fn duplicates(pools: &BTreeMap<String, BTreeMap<NodeId, Roles>>) -> Vec<Conflict> {
    let mut of_node: BTreeMap<NodeId, BTreeSet<String>> = BTreeMap::new();
    for (pool, nodes) in pools {
        for node in nodes.keys() {
            of_node.entry(*node).or_default().insert(pool.clone());
        }
    }
    let several = of_node.into_iter().filter(|(_, pools)| pools.len() > 1);
    several.map(|(node, pools)| Conflict::Duplicate { node, pools }).collect()
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clusters(ids) => write!(
                f,
                "the claims hold data of several clusters ({}): delete the claims of other clusters, or correct their \
                 annotation gregor.io/cluster-id",
                list(ids)
            ),
            Self::OtherCluster { claim, found, expected } => write!(
                f,
                "the claim {claim} holds data of the cluster {found} and not of {expected}: delete the claim, or correct its \
                 annotation gregor.io/cluster-id"
            ),
            Self::UnknownCluster(claims) => write!(
                f,
                "the record is lost, and it is unknown whose data the claims hold ({}): annotate them with \
                 gregor.io/cluster-id, as in meta.properties on the disks, or delete them",
                list(claims)
            ),
            Self::MissingPool { pool, claims } => write!(
                f,
                "the record is lost, and the KafkaNodePool {pool} does not exist, but its claims do ({}): create the pool \
                 again, or delete the claims",
                list(claims)
            ),
            Self::Duplicate { node, pools } => write!(
                f,
                "the record is lost, and node {node} has claims of several pools ({}): delete the claims of all but one",
                list(pools)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Roles::{Broker, Combined, Controller};

    fn id(id: i32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    fn ids(all: &[i32]) -> BTreeSet<NodeId> {
        all.iter().copied().map(id).collect()
    }

    fn claim(pool: &str, node: i32, roles: Option<Roles>, cluster: &str) -> Claim {
        Claim {
            name: format!("data-0-c-{pool}-{node}"),
            pool: pool.to_owned(),
            node: id(node),
            roles,
            cluster_id: (!cluster.is_empty()).then(|| cluster.to_owned()),
            mode: QuorumMode::Unknown,
            is_deleting: false,
        }
    }

    fn pool(name: &str, roles: Roles, listed: Option<&[i32]>) -> Pool {
        Pool { name: name.to_owned(), roles: Some(roles), listed: listed.map(ids) }
    }

    /// Pools as `name: id roles, ...`, or the conflicts.
    fn told(decision: Decision) -> String {
        match decision {
            Decision::New => "new".to_owned(),
            Decision::Known { cluster_id, pools, .. } => {
                let node = |(id, roles): (&NodeId, &Roles)| format!("{id}={roles}");
                let pool = |(name, nodes): (&String, &BTreeMap<NodeId, Roles>)| {
                    format!(" {name}[{}]", nodes.iter().map(node).collect::<Vec<_>>().join(" "))
                };
                cluster_id + &pools.iter().map(pool).collect::<String>()
            }
            Decision::Refuse(conflicts) => {
                let name = |conflict: &Conflict| match conflict {
                    Conflict::Clusters(ids) => format!("clusters {}", list(ids)),
                    Conflict::OtherCluster { claim, .. } => format!("other {claim}"),
                    Conflict::UnknownCluster(_) => "unknown".to_owned(),
                    Conflict::MissingPool { pool, .. } => format!("missing {pool}"),
                    Conflict::Duplicate { node, .. } => format!("duplicate {node}"),
                };
                format!("refused: {}", conflicts.iter().map(name).collect::<Vec<_>>().join(", "))
            }
        }
    }

    #[track_caller]
    fn check(id: Option<&str>, pools: &[Pool], claims: &[Claim], expected: &str) {
        let facts = Facts {
            cluster_id: id.map(str::to_owned),
            pools: pools.to_vec(),
            removed: BTreeSet::from(["gone".to_owned()]),
            claims: claims.to_vec(),
        };
        assert_eq!(told(decide(&facts)), expected);
        // The order in which pools are re-created, and in which claims are listed, does not matter.
        let (pools, claims) = (facts.pools.into_iter().rev(), facts.claims.into_iter().rev());
        let facts = Facts { pools: pools.collect(), claims: claims.collect(), ..facts };
        assert_eq!(told(decide(&facts)), expected, "in the other order");
    }

    #[test]
    fn a_cluster_without_claims_and_statuses_is_new() {
        check(None, &[pool("b", Broker, None)], &[], "new");
        check(None, &[], &[], "new");
        let leaving = Claim { is_deleting: true, ..claim("b", 0, None, "x") };
        check(None, &[pool("b", Broker, None)], &[leaving], "new");
    }

    #[test]
    fn lost_statuses_are_found_in_claims_with_gaps_and_roles() {
        let claims = [
            claim("b", 7, Some(Broker), "x"),
            claim("b", 2, Some(Broker), "x"),
            claim("c", 0, Some(Controller), "x"),
            // It became a broker, too, since its claim was created, or the other way round: the roller settles that.
            claim("m", 4, Some(Controller), "x"),
            claim("m", 5, None, "x"),
        ];
        let pools =
            [pool("b", Broker, None), pool("c", Controller, None), pool("m", Combined, None)];
        let expected = "x b[2=broker 7=broker] c[0=controller] m[4=controller 5=broker,controller]";
        check(None, &pools, &claims, expected);
        // Several volumes of a node are one node.
        let more = Claim { name: "data-1-c-b-2".to_owned(), ..claim("b", 2, Some(Broker), "x") };
        check(None, &pools[..1], &[claims[1].clone(), more], "x b[2=broker]");
        check(Some("x"), &pools[..1], &claims[..2], "x b[2=broker 7=broker]");
    }

    #[test]
    fn the_quorum_mode_is_what_the_claims_of_the_cluster_agree_on() {
        use QuorumMode::{Dynamic, Static, Unknown};
        let rows = [
            (vec![Unknown, Unknown], Unknown),
            (vec![Dynamic, Unknown], Dynamic),
            (vec![Static, Static], Static),
            // A migration was interrupted: Kafka is asked.
            (vec![Static, Dynamic], Unknown),
        ];
        for (modes, expected) in rows {
            let noted = (0..).zip(&modes);
            let of = |(node, mode): (i32, &QuorumMode)| Claim {
                mode: *mode,
                ..claim("b", node, Some(Broker), "x")
            };
            let mut claims: Vec<_> = noted.map(of).collect();
            // One of another cluster says nothing.
            claims.push(Claim { mode: Static, ..claim("left-over", 9, None, "y") });
            let pools = vec![pool("b", Broker, None)];
            let cluster_id = Some("x".to_owned());
            let facts = Facts { cluster_id, pools, removed: BTreeSet::new(), claims };
            let Decision::Known { mode, .. } = decide(&facts) else { panic!("{modes:?}") };
            assert_eq!(mode, expected, "{modes:?}");
        }
    }

    #[test]
    fn a_status_is_newer_than_claims() {
        let left_over = [claim("b", 2, Some(Broker), "x"), claim("b", 9, Some(Broker), "x")];
        check(
            Some("x"),
            &[pool("b", Combined, Some(&[2]))],
            &left_over,
            "x b[2=broker,controller]",
        );
        check(Some("x"), &[pool("b", Broker, Some(&[2, 3]))], &left_over, "x b[2=broker 3=broker]");
        check(Some("x"), &[pool("b", Broker, Some(&[]))], &left_over, "x b[]");
        check(None, &[pool("b", Broker, Some(&[2]))], &left_over, "x b[2=broker]");
    }

    #[test]
    fn what_would_be_a_guess_is_refused() {
        let b = || pool("b", Broker, None);
        let of = |cluster: &str| claim("b", 1, Some(Broker), cluster);
        check(None, &[b()], &[of("x"), claim("b", 2, None, "y")], "refused: clusters x, y");
        check(None, &[b()], &[of("")], "refused: unknown");
        check(Some("x"), &[b()], &[of("y")], "refused: other data-0-c-b-1");
        check(None, &[b()], &[of("x"), claim("c", 2, None, "x")], "refused: missing c");
        let two = [of("x"), claim("d", 1, None, "x")];
        check(None, &[b(), pool("d", Broker, None)], &two, "refused: duplicate 1");
    }

    #[test]
    fn what_is_left_over_is_no_conflict() {
        let b = || pool("b", Broker, Some(&[1]));
        let of = |cluster: &str| claim("b", 1, Some(Broker), cluster);
        // A node that was removed, of a former cluster of the same name.
        check(Some("x"), &[b()], &[of("x"), claim("b", 2, None, "y")], "x b[1=broker]");
        // A pool that was removed and kept its claims.
        check(Some("x"), &[b()], &[of("x"), claim("c", 2, None, "x")], "x b[1=broker]");
        // A pool that was removed and still has its pods.
        check(None, &[b()], &[of("x"), claim("gone", 2, None, "x")], "x b[1=broker]");
        // A claim without a note, as Strimzi creates them.
        check(Some("x"), &[b()], &[of("")], "x b[1=broker]");
    }
}
