//! Where each quorum was when it was last looked at. Kept in memory only: after a restart it is found anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::names::Names;
use control::quorum::Mark;

/// The marks by cluster. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    kept: Arc<Mutex<BTreeMap<Names, Mark>>>,
}

impl Marks {
    pub(crate) fn get(&self, names: &Names) -> Option<Mark> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(names).cloned()
    }

    pub(crate) fn set(&self, names: &Names, mark: Option<Mark>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match mark {
            Some(mark) => kept.insert(names.clone(), mark),
            None => kept.remove(names),
        };
    }
}
