//! A Cruise Control that is already there, asked over its REST API.
//!
//! It is an engine like the native one: what it answers is reduced to the facts of
//! [`control::rebalance::request::answers`]. It keeps nothing over a restart, and answers late rather than not at
//! all, so every question has a deadline, and what is not known is not taken for over.
//!
//! What it must not do: decide, or deploy, roll or configure a Cruise Control.

mod answer;
mod ask;
mod client;

pub use answer::Summary;
pub use client::{Client, ClientError, Endpoint};

#[cfg(test)]
mod tests;
