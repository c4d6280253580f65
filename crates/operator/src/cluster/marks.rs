//! What a pass over a quorum would like to know of the one before. Kept in memory only: after a restart it
//! is found anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::names::Names;
use control::quorum::Mark;
use model::NodeId;

/// How long after an addition that failed the next one is tried: a controller that has just started needs
/// some seconds to be found by the leader.
const ADD_AGAIN: Duration = Duration::from_secs(2);

/// What is kept of one quorum.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    /// Where the leader was.
    pub(crate) mark: Option<Mark>,
    /// How often in a row each controller could not be added.
    pub(crate) failed_adds: BTreeMap<NodeId, u32>,
    /// What Kafka said when it last refused to raise `kraft.version`.
    pub(crate) refused: Option<String>,
    add_again: Option<Instant>,
}

impl Kept {
    /// Whether an addition may be tried now.
    pub(crate) fn may_add(&self) -> bool {
        self.add_again.is_none_or(|at| Instant::now() >= at)
    }

    /// An addition was tried.
    pub(crate) fn added(&mut self, node: NodeId, is_done: bool) {
        match is_done {
            true => {
                self.failed_adds.remove(&node);
                self.add_again = None;
            }
            false => {
                *self.failed_adds.entry(node).or_default() += 1;
                self.add_again = Some(Instant::now() + ADD_AGAIN);
            }
        }
    }
}

/// What is kept, by cluster. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    kept: Arc<Mutex<BTreeMap<Names, Kept>>>,
}

impl Marks {
    pub(crate) fn get(&self, names: &Names) -> Kept {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(names).cloned().unwrap_or_default()
    }

    pub(crate) fn change(&self, names: &Names, change: impl FnOnce(&mut Kept)) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        change(kept.entry(names.clone()).or_default());
    }

    /// Forgets a cluster that is gone.
    pub(crate) fn forget(&self, names: &Names) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(names);
    }
}
