//! SCRAM credentials of users.

use aws_lc_rs::rand;
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest,
};

use super::{Admin, plain_error, wire};
use crate::code::{Code, Refusal};
use crate::net::{CallError, Effect, Route};
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
    #[error("the operating system gives no random numbers for a salt")]
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
        let mut salt = vec![0; SHA512_BYTES];
        rand::fill(&mut salt).map_err(|_| AlterScramError::NoRandomness)?;
        let salted = salted_password(password, &salt, ITERATIONS);
        let upsertion = ScramCredentialUpsertion::default()
            .with_name(wire::text(user))
            .with_mechanism(SCRAM_SHA_512)
            .with_iterations(i32::try_from(ITERATIONS).unwrap_or(i32::MAX))
            .with_salt(salt.into())
            .with_salted_password(salted.to_vec().into());
        let request = AlterUserScramCredentialsRequest::default().with_upsertions(vec![upsertion]);
        self.alter_scram(user, request).await
    }

    /// Takes a user's credential for SCRAM-SHA-512 away. Open connections stay open.
    pub async fn delete_scram_credential(&self, user: &str) -> Result<(), AlterScramError> {
        let deletion = ScramCredentialDeletion::default()
            .with_name(wire::text(user))
            .with_mechanism(SCRAM_SHA_512);
        let request = AlterUserScramCredentialsRequest::default().with_deletions(vec![deletion]);
        self.alter_scram(user, request).await
    }

    async fn alter_scram(
        &self,
        user: &str,
        request: AlterUserScramCredentialsRequest,
    ) -> Result<(), AlterScramError> {
        let named = || user.to_owned();
        let code = |answer: &<AlterUserScramCredentialsRequest as Api>::Answer| {
            Code(answer.results.first().map_or(0, |result| result.error_code))
        };
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await;
        let answer = answer.map_err(|source| AlterScramError::Call { user: named(), source })?;
        let mut results = answer.results.into_iter();
        results
            .try_for_each(|result| Refusal::check(result.error_code, result.error_message))
            .map_err(|refusal| match refusal.code {
                Code::RESOURCE_NOT_FOUND => AlterScramError::NotFound { user: named() },
                _ => AlterScramError::Refused { user: named(), refusal },
            })
    }
}
