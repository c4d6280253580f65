//! Errors as sentences, and values as words.

use std::error::Error;

pub use host::error::chain;
use kube::runtime::controller;
use serde::Serialize;
use serde_json::Value;

/// The word of a value of a closed list: the one that is stored in records, without what it holds.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(Value::Object(fields)) => fields.keys().next().cloned().unwrap_or_default(),
        Ok(_) | Err(_) => String::new(),
    }
}

/// Tells of a watch that has ended in the middle. What a pass came to, it tells itself.
pub(crate) fn tell_of_watch<T, E, Q>(done: &Result<T, controller::Error<E, Q>>)
where
    E: Error + 'static,
    Q: Error + 'static,
{
    if let Err(controller::Error::QueueError(error)) = done {
        tracing::warn!("a watch was interrupted and restarts: {}", chain(error));
    }
}
