//! Sends acts on users: marks on their Secrets, and credentials in Kafka.
//!
//! An act on a Secret carries the version that the act before it on the same Secret has left, and is refused if somebody
//! else has written since.

use control::quorum::answer::Answer;
use control::users::Mark;
use k8s_openapi::api::core::v1::Secret;

use super::answers::of_user;
use super::on_kafka::{brokers, nobody};
use super::{Answered, DONE};
use crate::cluster::pass::Work;
use crate::users::{self, UsersError};
use crate::words::chain;

/// Marks the Secret of a user with what Kafka was given, or is about to be.
pub(super) async fn remember(work: &mut Work, user: &str, mark: &Mark) -> Answered {
    let Some(secret) = work.found.secrets.get(user) else { return DONE };
    let cluster = work.known.kafka.cluster_id(&work.record);
    let print = cluster.and_then(|cluster| users::user(secret, &cluster).wanted);
    // Decisions do not know fingerprints: a mark is always that of the password that is wanted.
    let mark = match (mark, print) {
        (Mark::None, _) => Mark::None,
        (Mark::Setting(_), Some(print)) => Mark::Setting(print),
        (Mark::Set(_), Some(print)) => Mark::Set(print),
        (Mark::Setting(_) | Mark::Set(_), None) => {
            let message = format!("the Secret of {user} has no password");
            return (Answer::NotSent, Some(message));
        }
    };
    let api = work.api::<Secret>();
    let done = users::remember(&work.ctx.writer, &api, secret, &mark).await;
    let done = done.map(|after| {
        if let Some(after) = after {
            work.found.secrets.insert(user.to_owned(), after);
        }
    });
    answered(done)
}

/// Sets the credential of a user in Kafka.
pub(super) async fn set(work: &Work, user: &str) -> Answered {
    let Some(admin) = brokers(work) else { return nobody() };
    let Some(secret) = work.found.secrets.get(user) else { return DONE };
    answered(users::set(&work.ctx.writer, admin, secret).await)
}

/// Deletes the credential of a user in Kafka.
pub(super) async fn delete(work: &Work, user: &str) -> Answered {
    let Some(admin) = brokers(work) else { return nobody() };
    answered(users::delete(&work.ctx.writer, admin, user).await)
}

/// Removes the finalizer from the Secret of a user.
pub(super) async fn release(work: &Work, user: &str) -> Answered {
    let Some(secret) = work.found.secrets.get(user) else { return DONE };
    answered(users::release(&work.ctx.writer, &work.api::<Secret>(), &[secret]).await)
}

fn answered(done: Result<(), UsersError>) -> Answered {
    match done {
        Ok(()) => DONE,
        Err(error) => (of_user(&error), Some(chain(&error))),
    }
}
