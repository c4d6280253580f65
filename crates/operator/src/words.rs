//! Errors as sentences.

use std::error::Error;

use kube::runtime::controller;

/// An error with all its causes, in one line.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Some errors repeat their cause in their own words.
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

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
