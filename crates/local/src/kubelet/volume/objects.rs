//! ConfigMaps and Secrets of the pods of this node, each watched once however many pods use it.
//!
//! Each is watched by name: a node may only read objects that its pods refer to.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::payload::{Data, SourceKey, config_map_data, secret_data};

/// Delay before a failed read is retried.
const RETRY: Duration = Duration::from_millis(250);

/// Outer `None`: unknown; inner `None`: absent.
pub(crate) type Known = Option<Option<Arc<Data>>>;

/// All watched objects.
pub(crate) struct Objects {
    client: Client,
    entries: Mutex<BTreeMap<(String, SourceKey), Weak<Entry>>>,
}

/// A watched object; the watch ends when all users have dropped this.
#[derive(Debug)]
pub(crate) struct Entry {
    known: watch::Receiver<Known>,
    task: JoinHandle<()>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Entry {
    /// The current content, with notification of changes.
    pub(crate) fn known(&self) -> watch::Receiver<Known> {
        self.known.clone()
    }
}

impl Objects {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, entries: Mutex::default() }
    }

    /// Watches an object, unless it is watched already.
    pub(crate) fn watch(&self, namespace: &str, key: &SourceKey) -> Arc<Entry> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (namespace.to_owned(), key.clone());
        if let Some(entry) = entries.get(&place).and_then(Weak::upgrade) {
            return entry;
        }
        entries.retain(|_, entry| entry.strong_count() > 0);
        let (sender, known) = watch::channel(None);
        let client = self.client.clone();
        let task = match key {
            SourceKey::ConfigMap(name) => {
                let api = Api::<ConfigMap>::namespaced(client, namespace);
                tokio::spawn(follow(api, name.clone(), sender, config_map_data))
            }
            SourceKey::Secret(name) => {
                let api = Api::<Secret>::namespaced(client, namespace);
                tokio::spawn(follow(api, name.clone(), sender, secret_data))
            }
        };
        let entry = Arc::new(Entry { known, task });
        entries.insert(place, Arc::downgrade(&entry));
        entry
    }
}

async fn follow<K>(api: Api<K>, name: String, sender: watch::Sender<Known>, data: fn(&K) -> Data)
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + 'static,
    K::DynamicType: Default,
{
    let publish = |object: Option<K>| {
        let known = Some(object.map(|object| Arc::new(data(&object))));
        sender.send_if_modified(|old| {
            let changed = *old != known;
            *old = known;
            changed
        });
    };
    // A denial is normal for a moment, until the API server knows that the pod is here. A watch would log a
    // warning.
    loop {
        match api.get_opt(&name).await {
            Ok(object) => break publish(object),
            Err(error) => tracing::debug!(%name, %error, "cannot read an object"),
        }
        tokio::time::sleep(RETRY).await;
    }
    let mut stream = std::pin::pin!(watcher::watch_object(api, &name).default_backoff());
    while let Some(event) = stream.next().await {
        match event {
            Ok(object) => publish(object),
            Err(error) => tracing::debug!(%name, %error, "cannot watch an object"),
        }
    }
}
