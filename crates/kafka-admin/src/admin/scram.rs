//! SCRAM credentials of users.

use std::collections::BTreeMap;

use aws_lc_rs::rand;
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest,
};

use super::{Admin, plain_error, wire};
use crate::code::{Code, Refusal};
use crate::net::{CallError, Effect, Outcome, Route};
use crate::proto::{Api, SHA512_BYTES, Secret, salted_password};

const SCRAM_SHA_512: i8 = 2;

/// As many rounds as Kafka's own tool uses for a new password.
const ITERATIONS: u32 = 8192;

/// A user with SCRAM credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScramUser {
    /// The name.
    pub name: String,
    /// Whether there is a credential for SCRAM-SHA-512, and with how many rounds.
    pub sha_512_iterations: Option<i32>,
}

plain_error!(
    /// Why the credentials could not be described.
    DescribeScramError,
    "describe the SCRAM credentials"
);

/// Why a credential was not changed, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum AlterScramError {
    /// No answer came.
    #[error("cannot change the SCRAM credential of {user}")]
    Call {
        /// The user.
        user: String,
        /// Why not.
        #[source]
        source: CallError,
    },
    /// The user has no such credential.
    #[error("{user} has no SCRAM-SHA-512 credential")]
    NotFound {
        /// The user.
        user: String,
    },
    /// The operating system has no randomness to give.
    #[error("the operating system provides no random numbers for a salt")]
    NoRandomness,
    /// Kafka said no.
    #[error("Kafka refused to change the SCRAM credential of {user}")]
    Refused {
        /// The user.
        user: String,
        /// What Kafka said.
        #[source]
        refusal: Refusal,
    },
}

/// Why credentials were not changed, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum AlterScramCredentialsError {
    /// No answer came.
    #[error("cannot change SCRAM credentials")]
    Call(#[from] CallError),
    /// The operating system has no randomness to give.
    #[error("the operating system provides no random numbers for a salt")]
    NoRandomness,
}

impl AlterScramCredentialsError {
    /// Whether they may have been changed all the same.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Call(error) => error.outcome(),
            Self::NoRandomness => Outcome::NotDone,
        }
    }
}

/// A change of the credential of a user.
#[derive(Debug, Clone)]
pub enum ScramChange {
    /// Sets this password.
    Set {
        /// The user.
        user: String,
        /// The password; only a salted form of it is sent.
        password: Secret,
    },
    /// Deletes the credential. Open connections stay open.
    Delete {
        /// The user.
        user: String,
    },
}

impl ScramChange {
    /// The user.
    #[must_use]
    pub fn user(&self) -> &str {
        match self {
            Self::Set { user, .. } | Self::Delete { user } => user,
        }
    }
}

impl Admin {
    /// All users that have SCRAM credentials, by name.
    pub async fn describe_scram_users(&self) -> Result<Vec<ScramUser>, DescribeScramError> {
        let request = DescribeUserScramCredentialsRequest::default().with_users(None);
        let code =
            |answer: &<DescribeUserScramCredentialsRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Any, Effect::Reads, &request, code).await?;
        Refusal::check(answer.error_code, answer.error_message)?;
        let mut users = Vec::with_capacity(answer.results.len());
        for user in answer.results {
            Refusal::check(user.error_code, user.error_message)?;
            let sha_512 = user.credential_infos.iter().find(|info| info.mechanism == SCRAM_SHA_512);
            users.push(ScramUser {
                name: user.user.to_string(),
                sha_512_iterations: sha_512.map(|info| info.iterations),
            });
        }
        users.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(users)
    }

    /// Gives a user this password for SCRAM-SHA-512. Only a salted form of it is sent.
    pub async fn set_scram_password(
        &self,
        user: &str,
        password: &Secret,
    ) -> Result<(), AlterScramError> {
        let change = ScramChange::Set { user: user.to_owned(), password: password.clone() };
        self.alter_one(change).await
    }

    /// Takes a user's credential for SCRAM-SHA-512 away. Open connections stay open.
    pub async fn delete_scram_credential(&self, user: &str) -> Result<(), AlterScramError> {
        self.alter_one(ScramChange::Delete { user: user.to_owned() }).await
    }

    /// Changes credentials for SCRAM-SHA-512 of several users in one request; a result for each. A user must not be in
    /// it twice. Salting a password takes milliseconds, and is done on a thread of its own.
    pub async fn alter_scram_credentials(
        &self,
        changes: Vec<ScramChange>,
    ) -> Result<BTreeMap<String, Result<(), Refusal>>, AlterScramCredentialsError> {
        if changes.is_empty() {
            return Ok(BTreeMap::new());
        }
        let request = tokio::task::spawn_blocking(move || request(&changes)).await;
        let request = request.map_err(|_| AlterScramCredentialsError::NoRandomness)??;
        let code = |answer: &<AlterUserScramCredentialsRequest as Api>::Answer| {
            Code(answer.results.first().map_or(0, |result| result.error_code))
        };
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await?;
        let results = answer
            .results
            .into_iter()
            .map(|one| (one.user.to_string(), Refusal::check(one.error_code, one.error_message)));
        Ok(results.collect())
    }

    async fn alter_one(&self, change: ScramChange) -> Result<(), AlterScramError> {
        let user = change.user().to_owned();
        let results = match self.alter_scram_credentials(vec![change]).await {
            Ok(results) => results,
            Err(AlterScramCredentialsError::NoRandomness) => {
                return Err(AlterScramError::NoRandomness);
            }
            Err(AlterScramCredentialsError::Call(source)) => {
                return Err(AlterScramError::Call { user, source });
            }
        };
        match results.into_values().find_map(Result::err) {
            None => Ok(()),
            Some(refusal) if refusal.code == Code::RESOURCE_NOT_FOUND => {
                Err(AlterScramError::NotFound { user })
            }
            Some(refusal) => Err(AlterScramError::Refused { user, refusal }),
        }
    }
}

fn request(
    changes: &[ScramChange],
) -> Result<AlterUserScramCredentialsRequest, AlterScramCredentialsError> {
    let (mut upsertions, mut deletions) = (Vec::new(), Vec::new());
    for change in changes {
        match change {
            ScramChange::Set { user, password } => upsertions.push(upsertion(user, password)?),
            ScramChange::Delete { user } => deletions.push(
                ScramCredentialDeletion::default()
                    .with_name(wire::text(user))
                    .with_mechanism(SCRAM_SHA_512),
            ),
        }
    }
    Ok(AlterUserScramCredentialsRequest::default()
        .with_upsertions(upsertions)
        .with_deletions(deletions))
}

fn upsertion(
    user: &str,
    password: &Secret,
) -> Result<ScramCredentialUpsertion, AlterScramCredentialsError> {
    let mut salt = vec![0; SHA512_BYTES];
    rand::fill(&mut salt).map_err(|_| AlterScramCredentialsError::NoRandomness)?;
    let salted = salted_password(password, &salt, ITERATIONS);
    Ok(ScramCredentialUpsertion::default()
        .with_name(wire::text(user))
        .with_mechanism(SCRAM_SHA_512)
        .with_iterations(i32::try_from(ITERATIONS).unwrap_or(i32::MAX))
        .with_salt(salt.into())
        .with_salted_password(salted.to_vec().into()))
}
