//! The steps of a pass, each in a file of its own. Their order is in [`pass`](super::pass).

pub(crate) mod access;
pub(crate) mod claims;
pub(crate) mod configuration;
pub(crate) mod kafka;
pub(crate) mod migration;
pub(crate) mod pools;
pub(crate) mod quorum;
pub(crate) mod services;
pub(crate) mod wishes;
pub(crate) mod workload;
