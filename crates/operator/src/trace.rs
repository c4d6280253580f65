//! Spans of passes and acts. Structured logs and traces have their fields; plain logs leave them out.

use std::sync::atomic::{AtomicU64, Ordering};

use control::cluster::act::What;
use tracing::Span;
use tracing::field::Empty;

use crate::words::word;

/// The target of all spans of this module.
pub const TARGET: &str = "gregor::pass";

/// The span of a pass over a resource. `cluster` is empty if the resource has none.
pub(crate) fn pass(kind: &str, (namespace, name): (&str, &str), cluster: &str) -> Span {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let pass = NEXT.fetch_add(1, Ordering::Relaxed);
    tracing::info_span!(target: TARGET, "pass", kind, namespace, name, cluster, pass)
}

/// The span of an act of a pass.
pub(crate) fn act(what: &What) -> Span {
    tracing::info_span!(target: TARGET, "act", act = word(what), answer = Empty)
}
