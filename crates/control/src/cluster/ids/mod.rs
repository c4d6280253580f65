//! Which ids the nodes of each pool have.
//!
//! 1. No id is given twice, in the whole cluster.
//! 2. A node that stays keeps its id. With nothing changed nothing changes, however often it is asked.
//! 3. An id that is being given up stays taken: it is given to nobody in the same pass. Its node still runs.
//! 4. A new node has the first id of the pool's `next-node-ids` that is not taken, else the lowest that
//!    nobody has. One that goes is the first that `remove-node-ids` names, else the highest.
//! 5. The answer depends on the input only, so that a crash before it is recorded changes nothing.
//!
//! The ids of a pool are those that were recorded for it, and only those. Recording comes before acting.

mod range;

use std::collections::{BTreeMap, BTreeSet};

use crate::annotations::Annotation;
use model::NodeId;

pub use range::{IdRange, InvalidRange};

/// What is known of a pool, and what is wanted of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolFacts {
    /// Its name.
    pub name: String,
    /// The ids that were recorded for it.
    pub recorded: BTreeSet<NodeId>,
    /// How many nodes it should have.
    pub replicas: u32,
    /// The text of its annotation `strimzi.io/next-node-ids`.
    pub next: Option<String>,
    /// The text of its annotation `strimzi.io/remove-node-ids`.
    pub remove: Option<String>,
}

/// The ids of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolIds {
    /// The pool.
    pub name: String,
    /// Those that stay.
    pub kept: BTreeSet<NodeId>,
    /// Those that are new.
    pub added: BTreeSet<NodeId>,
    /// Those that should go.
    pub removed: BTreeSet<NodeId>,
    /// What its user should know; none of it stops anything.
    pub warnings: Vec<Warning>,
}

impl PoolIds {
    /// The ids that the pool should have in the end.
    #[must_use]
    pub fn desired(&self) -> BTreeSet<NodeId> {
        self.kept.union(&self.added).copied().collect()
    }
}

/// An annotation that is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The annotation.
    pub annotation: &'static str,
    /// Why.
    pub invalid: InvalidRange,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is not followed: {}", self.annotation, self.invalid)
    }
}

/// The annotation with the ids of new nodes.
pub const NEXT: &str = Annotation::NextNodeIds.name();
/// The annotation with the ids of nodes that go first.
pub const REMOVE: &str = Annotation::RemoveNodeIds.name();

/// An id that was recorded for several pools. Whose node it is only a person can say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("node id {id} is recorded in the status of the pools {}: remove it from all but one", pools.join(", "))]
pub struct DuplicateId {
    /// The id.
    pub id: NodeId,
    /// The pools.
    pub pools: Vec<String>,
}

/// Gives every pool its ids, in the order of the pools. `taken` are ids that nobody may get, though no pool
/// has them: of nodes that still run and of controllers that still vote.
///
/// # Errors
/// If two pools have the same id; then nobody gets any.
pub fn assign(
    pools: &[PoolFacts],
    taken: &BTreeSet<NodeId>,
) -> Result<Vec<PoolIds>, Vec<DuplicateId>> {
    let duplicates = duplicates(pools);
    if !duplicates.is_empty() {
        return Err(duplicates);
    }
    let mut in_use = taken.clone();
    in_use.extend(pools.iter().flat_map(|pool| &pool.recorded));
    Ok(pools.iter().map(|pool| assign_pool(pool, &mut in_use)).collect())
}

fn duplicates(pools: &[PoolFacts]) -> Vec<DuplicateId> {
    let mut holders: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
    for pool in pools {
        for id in &pool.recorded {
            holders.entry(*id).or_default().push(pool.name.clone());
        }
    }
    let several = holders.into_iter().filter(|(_, pools)| pools.len() > 1);
    several.map(|(id, pools)| DuplicateId { id, pools }).collect()
}

fn assign_pool(pool: &PoolFacts, in_use: &mut BTreeSet<NodeId>) -> PoolIds {
    let mut ids = PoolIds {
        name: pool.name.clone(),
        kept: pool.recorded.clone(),
        added: BTreeSet::new(),
        removed: BTreeSet::new(),
        warnings: Vec::new(),
    };
    let replicas = usize::try_from(pool.replicas).unwrap_or(usize::MAX);
    if replicas < ids.kept.len() {
        let first = read(REMOVE, pool.remove.as_deref(), &mut ids.warnings);
        while ids.kept.len() > replicas {
            let next = first.first_of(&ids.kept).or_else(|| ids.kept.last().copied());
            let Some(id) = next else { break };
            ids.kept.remove(&id);
            ids.removed.insert(id);
        }
    } else if replicas > ids.kept.len() {
        let first = read(NEXT, pool.next.as_deref(), &mut ids.warnings);
        for _ in ids.kept.len()..replicas {
            let Some(id) = first.first_not_in(in_use).or_else(|| lowest_free(in_use)) else {
                break;
            };
            in_use.insert(id);
            ids.added.insert(id);
        }
    }
    ids
}

/// The ranges of an annotation. One that cannot be read counts as none, and somebody is told.
fn read(annotation: &'static str, text: Option<&str>, warnings: &mut Vec<Warning>) -> IdRange {
    let range = text.unwrap_or_default().parse();
    range.unwrap_or_else(|invalid| {
        warnings.push(Warning { annotation, invalid });
        IdRange::default()
    })
}

fn lowest_free(in_use: &BTreeSet<NodeId>) -> Option<NodeId> {
    let mut lowest = 0;
    for id in in_use {
        if id.get() != lowest {
            break;
        }
        lowest = lowest.checked_add(1)?;
    }
    NodeId::new(lowest)
}

#[cfg(test)]
mod tests;
