//! Errors as sentences.

use std::error::Error;

pub use host::error::chain;
use kube::runtime::controller;

/// Tells of a watch that has ended in the middle. What a pass came to, it tells itself.
pub(crate) fn tell_of_watch<T, E, Q>(done: &Result<T, controller::Error<E, Q>>)
where
    E: Error + 'static,
    Q: Error + 'static,
{
    if let Err(controller::Error::QueueError(error)) = done {
        tracing::warn!("a watch was broken off and begins anew: {}", chain(error));
    }
}
