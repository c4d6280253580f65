//! `gregor console login`: a token to log in to a console in a cluster, for users whose kubeconfig has none.

use anyhow::{Context as _, bail};
use clap::Args;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;

use crate::commands::reach::Reach;
use crate::output::{Format, Out, note};

/// Which token.
#[derive(Debug, Args)]
pub(crate) struct Login {
    /// Service account whose rights the token has
    #[arg(value_name = "ACCOUNT")]
    account: String,
    /// How long the token is valid
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u32).range(10..=1440))]
    minutes: u32,
}

impl Login {
    pub(super) async fn run(self, reach: &Reach) -> anyhow::Result<()> {
        let (client, namespace) = reach.client().await?;
        let api: Api<ServiceAccount> = Api::namespaced(client, &namespace);
        let spec = TokenRequestSpec {
            expiration_seconds: Some(i64::from(self.minutes) * 60),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let made = api.create_token_request(&self.account, &PostParams::default(), &request).await;
        let made = made.with_context(|| {
            format!(
                "cannot create a token of the service account {} in namespace {namespace}",
                self.account
            )
        })?;
        let Some(status) = made.status else { bail!("the API server has created no token") };
        note(&format!(
            "valid until {}, with the rights of {namespace}/{}: do not share it",
            status.expiration_timestamp.0, self.account
        ));
        Out::new(Format::Table).text(&format!("{}\n", status.token))
    }
}
