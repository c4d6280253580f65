//! Objects of one kind, as watches have shown them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event};

use crate::words::chain;

/// Namespace and name.
pub(crate) type Key = (String, String);

/// What all watches of a kind have shown. Of each object it keeps what `T` has of it.
#[derive(Debug)]
pub(crate) struct Seen<T> {
    kind: &'static str,
    items: BTreeMap<Key, Arc<T>>,
    /// What watches list when they begin, by the place that is watched.
    listed: BTreeMap<Option<String>, BTreeSet<Key>>,
    whole: BTreeSet<Option<String>>,
}

/// An object that was created, changed or deleted.
#[derive(Debug)]
pub(crate) struct Change<T> {
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<T>>,
    /// `None` if it is gone.
    pub(crate) after: Option<Arc<T>>,
}

impl<T> Seen<T> {
    /// Nothing is known yet.
    pub(crate) fn new(kind: &'static str) -> Self {
        let (items, listed, whole) = Default::default();
        Self { kind, items, listed, whole }
    }

    /// Takes an event of a watch; `read` keeps what is needed of an object.
    pub(crate) fn event(
        &mut self,
        place: Option<&str>,
        event: Result<Event<DynamicObject>, watcher::Error>,
        read: impl Fn(DynamicObject) -> T,
    ) -> Vec<Change<T>> {
        let of = place.map(str::to_owned);
        match event {
            Ok(Event::Init) => {
                self.listed.insert(of, BTreeSet::new());
                Vec::new()
            }
            Ok(Event::InitApply(object)) => {
                self.listed.entry(of).or_default().insert(key_of(&object));
                vec![self.applied(object, read)]
            }
            Ok(Event::Apply(object)) => vec![self.applied(object, read)],
            Ok(Event::Delete(object)) => self.gone(key_of(&object)).into_iter().collect(),
            Ok(Event::InitDone) => {
                let listed = self.listed.remove(&of).unwrap_or_default();
                self.whole.insert(of);
                let is_missing =
                    |key: &&Key| place.is_none_or(|place| place == key.0) && !listed.contains(*key);
                let missing: Vec<_> = self.items.keys().filter(is_missing).cloned().collect();
                missing.into_iter().filter_map(|key| self.gone(key)).collect()
            }
            Err(error) => {
                tracing::debug!(kind = self.kind, "a watch failed: {}", chain(&error));
                Vec::new()
            }
        }
    }

    fn applied(&mut self, object: DynamicObject, read: impl Fn(DynamicObject) -> T) -> Change<T> {
        let key = key_of(&object);
        let after = Arc::new(read(object));
        let before = self.items.insert(key.clone(), after.clone());
        Change { key, before, after: Some(after) }
    }

    fn gone(&mut self, key: Key) -> Option<Change<T>> {
        let before = self.items.remove(&key)?;
        Some(Change { key, before: Some(before), after: None })
    }

    /// Takes no longer for granted that the watch of a place has shown everything, until it has listed all again.
    pub(crate) fn doubt(&mut self, place: Option<&str>) {
        self.whole.remove(&place.map(str::to_owned));
    }

    /// Whether all objects of a namespace are known.
    pub(crate) fn is_whole(&self, namespace: &str) -> bool {
        self.whole.contains(&None) || self.whole.contains(&Some(namespace.to_owned()))
    }

    /// The object of this namespace and name.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.items.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The objects of a namespace, by name.
    pub(crate) fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = (&str, &Arc<T>)> {
        let from = (namespace.to_owned(), String::new());
        let here = self.items.range(from..).take_while(move |((of, _), _)| of == namespace);
        here.map(|((_, name), item)| (name.as_str(), item))
    }

    /// All objects.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Key, &Arc<T>)> {
        self.items.iter()
    }
}

fn key_of(object: &DynamicObject) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}
