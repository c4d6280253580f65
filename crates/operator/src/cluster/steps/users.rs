//! Users with a password: what their Secrets say, Kafka is given.

use control::conditions::{Note, Reason};
use k8s_openapi::api::core::v1::Secret;

use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};
use crate::users;
use crate::words::chain;

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let cluster = &work.blueprint.names.cluster;
    let all = work.found.secrets.values();
    let secrets: Vec<&Secret> = all.filter(|secret| users::is_user(secret, cluster)).collect();
    let access = work.known.kafka.access.as_ref().and_then(|access| access.brokers.as_ref());
    let (Some(admin), Some(id)) = (access, work.known.kafka.cluster_id(&work.record)) else {
        return Ok(Step::Done);
    };
    match users::reconcile(&work.ctx.writer, &work.api(), admin, &id, &secrets).await {
        Ok(notes) => {
            let notes = notes.iter().map(|note| Note::new(Reason::User, note.to_string()));
            work.warnings.extend(notes);
            Ok(Step::Done)
        }
        // Users of one cluster are no reason to hold the rest of it up.
        Err(error) => Ok(Step::Waiting(Note::new(Reason::UsersNotGiven, chain(&error)))),
    }
}
