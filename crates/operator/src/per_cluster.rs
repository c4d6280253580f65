//! What the process keeps of each cluster between passes. A restart forgets it, so no decision needs it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::names::Names;

/// A value for each cluster. Clones share them.
#[derive(Debug)]
pub(crate) struct PerCluster<T>(Arc<Mutex<BTreeMap<Names, T>>>);

impl<T> Default for PerCluster<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for PerCluster<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> PerCluster<T> {
    /// Keeps a value. Returns the one before it.
    pub(crate) fn set(&self, names: &Names, value: T) -> Option<T> {
        self.lock().insert(names.clone(), value)
    }

    /// The value of a cluster, if there is one.
    pub(crate) fn get(&self, names: &Names) -> Option<T>
    where
        T: Clone,
    {
        self.lock().get(names).cloned()
    }

    /// Forgets a cluster.
    pub(crate) fn forget(&self, names: &Names) {
        self.lock().remove(names);
    }

    /// All values, for more than one of these operations at a time.
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<Names, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_until_its_cluster_is_forgotten() {
        let (kept, names) = (PerCluster::default(), Names::new("n", "c"));
        assert_eq!(kept.get(&names), None);
        assert_eq!(kept.set(&names, false), None);
        assert_eq!(kept.clone().get(&names), Some(false));
        assert_eq!(kept.get(&Names::new("n", "d")), None);
        assert_eq!(kept.set(&names, true), Some(false));
        kept.forget(&names);
        assert_eq!(kept.get(&names), None);
    }
}
