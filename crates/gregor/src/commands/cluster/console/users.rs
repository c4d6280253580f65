//! Users of a console in a cluster: each logs in with a bearer token, and everything is observed and changed with that.
//!
//! The console has no rights of its own: of the configuration that it was started with, only the address and the
//! certificates of the API server are used.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use console::source::{Acting, Admitted, Logins, Reason, Refusal};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::config::AuthInfo;
use kube::{Api, Client, Config};
use tokio::time::timeout;

use super::act::refusal;
use super::live::{Live, Site};

/// The API server answers sooner, or the user tries again.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Lets users of a cluster in.
pub(super) struct Users {
    site: Site,
}

impl Users {
    pub(super) fn new(site: Site) -> Self {
        Self { site: Site { config: without_identity(site.config), is_own: false, ..site } }
    }

    async fn look_up(&self, token: &str) -> anyhow::Result<Admitted> {
        let mut config = self.site.config.clone();
        config.auth_info.token = Some(token.to_owned().into());
        let client =
            Client::try_from(config.clone()).context("cannot create a Kubernetes client")?;
        let api: Api<SelfSubjectReview> = Api::all(client);
        let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await;
        let is_refused = matches!(&review, Err(kube::Error::Api(status)) if status.code == 401);
        if is_refused {
            bail!("the API server does not accept the token");
        }
        let review = review.context("cannot check the token with the API server")?;
        let user = review.status.and_then(|status| status.user_info).and_then(|user| user.username);
        let Some(user) = user.filter(|user| user != "system:anonymous") else {
            bail!("the API server does not accept the token");
        };
        let live = Live::new(Site { config, ..self.site.clone() })?;
        Ok(Admitted { user, source: Arc::new(live) })
    }
}

/// The address and the certificates of an API server, without keys and tokens.
fn without_identity(mut config: Config) -> Config {
    config.auth_info = AuthInfo::default();
    config
}

impl Logins for Users {
    fn admit<'a>(&'a self, token: &'a str) -> Acting<'a, Admitted> {
        Box::pin(async move {
            let refused = |why: String| -> Refusal { refusal(Reason::Forbidden, why) };
            // Anything else is no header, and an error of its own.
            let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_token {
                return Err(refused("this is not a bearer token".to_owned()));
            }
            match timeout(ANSWERED_WITHIN, self.look_up(token)).await {
                Ok(found) => found.map_err(|error| refused(format!("{error:#}"))),
                Err(_) => Err(refusal(
                    Reason::Failed,
                    format!("the API server did not answer within {} s", ANSWERED_WITHIN.as_secs()),
                )),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_the_identity_that_the_console_was_started_with() {
        let mut config = Config::new("https://127.0.0.1:6443".parse().unwrap());
        config.auth_info = AuthInfo {
            token: Some("secret".to_owned().into()),
            token_file: Some("/run/token".to_owned()),
            client_key: Some("key".to_owned()),
            impersonate: Some("admin".to_owned()),
            ..AuthInfo::default()
        };
        config.root_cert = Some(vec![vec![1]]);
        let left = without_identity(config);
        let AuthInfo { token, token_file, client_key, impersonate, .. } = left.auth_info;
        assert!(token.is_none() && token_file.is_none() && client_key.is_none());
        assert!(impersonate.is_none());
        assert_eq!(left.root_cert, Some(vec![vec![1]]));
    }
}
