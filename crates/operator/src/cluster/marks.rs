//! Where the leaders of quorums were when they were last described.
//!
//! Kept in memory only: without a mark a decision waits for one pass more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::names::Names;
use control::quorum::Mark;

/// The marks, by cluster. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    marks: Arc<Mutex<BTreeMap<Names, Mark>>>,
}

impl Marks {
    pub(crate) fn get(&self, names: &Names) -> Option<Mark> {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.get(names).cloned()
    }

    /// Keeps the mark of a description that was just decided on.
    pub(crate) fn set(&self, names: &Names, mark: Option<Mark>) {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        match mark {
            Some(mark) => marks.insert(names.clone(), mark),
            None => marks.remove(names),
        };
    }

    /// Forgets a cluster that is gone.
    pub(crate) fn forget(&self, names: &Names) {
        self.set(names, None);
    }
}
