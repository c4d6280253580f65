//! A copy of the objects of one kind that a watch keeps up to date, with a bell that rings at each
//! change. Readers look at the whole copy after a ring, so that no single change can be lost.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures::StreamExt as _;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Keeps a copy as long as `tasks` lives. Interrupted watches begin again, with back-off.
pub(crate) fn keep<K>(
    api: Api<K>,
    config: watcher::Config,
    bell: Arc<Notify>,
    tasks: &mut JoinSet<()>,
) -> Store<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
{
    let (store, writer) = reflector::store();
    tasks.spawn(async move {
        let events = watcher(api, config).default_backoff().reflect(writer);
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(_) => bell.notify_one(),
                // Not a warning: an API server that restarts is part of ordinary life.
                Err(error) => tracing::info!(
                    kind = %K::kind(&K::DynamicType::default()),
                    %error,
                    "a watch was interrupted and begins again"
                ),
            }
        }
    });
    store
}
