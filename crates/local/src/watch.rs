//! A cache of the objects of one kind, updated by a watch, with a notification on every change. Readers look
//! at the whole cache after a notification, so that no change can be lost.

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

/// Updates the cache as long as `tasks` lives. Interrupted watches restart with back-off.
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
                // Not a warning: a restart of the API server is routine.
                Err(error) => tracing::info!(
                    kind = %K::kind(&K::DynamicType::default()),
                    %error,
                    "a watch was interrupted and restarts"
                ),
            }
        }
    });
    store
}
