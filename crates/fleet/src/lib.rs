//! The fleet manager: data planes that grow and shrink with demand.
//!
//! - `http`: what agents, users and administrators ask, and who they are.
//! - `store`: what is remembered, in SQLite or PostgreSQL.
//! - `facts`: what decisions about nodes are made from.
//! - `reports`: what agents report, decided and stored.
//! - `workers`: what is done about it, by one replica at a time.
//! - `provider`: who makes data planes and nodes.
//! - `tenants`: organisations and owners, as data planes know them.
//! - `agent`: the other end, on a data plane.
//!
//! Every decision is made in `fleet-control`. What this crate must not do: decide, ask a provider while
//! a request waits, or delete a Kafka that nobody asked to be deleted.

pub mod agent;
pub mod auth;
pub mod client;
pub mod config;
pub mod facts;
pub mod http;
pub mod identity;
pub mod limits;
pub mod local_tokens;
pub mod metrics;
pub mod provider;
pub mod reports;
pub mod service;
pub mod store;
pub mod tenants;
pub mod tokens;
pub mod workers;

pub(crate) use host::error::chain;
