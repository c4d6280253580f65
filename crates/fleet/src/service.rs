//! A fleet manager, put together and run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

use crate::auth::{AuthError, Authenticator};
use crate::client::{Client, ClientError};
use crate::config::{CapiAccess, Config, ConfigError};
use crate::http::{App, serve};
use crate::identity::{Identity, Keycloak, NoIdentity};
use crate::provider::capi::{Capi, CapiOptions};
use crate::provider::ocm::{Ocm, OcmOptions};
use crate::provider::{Cause, Providers};
use crate::store::{Store, StoreError};
use crate::workers::Workers;

/// Why a fleet manager does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The configuration is not valid.
    #[error("the configuration is not valid")]
    Config(#[source] ConfigError),
    /// The store.
    #[error("cannot open the store")]
    Store(#[source] StoreError),
    /// Others cannot be asked.
    #[error("cannot set up HTTP")]
    Client(#[source] ClientError),
    /// Tokens cannot be checked.
    #[error("cannot check tokens")]
    Auth(#[source] AuthError),
    /// The management cluster.
    #[error("cannot reach the management cluster")]
    Capi(#[source] Cause),
    /// The socket.
    #[error("cannot serve")]
    Serve(#[source] std::io::Error),
}

/// Runs a fleet manager until told to stop. `providers` are those that this crate does not have.
///
/// # Errors
/// If it cannot begin, or its socket fails.
pub async fn run(
    config: Config,
    database: &str,
    listener: TcpListener,
    mut providers: Providers,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServiceError> {
    config.check().map_err(ServiceError::Config)?;
    let config = Arc::new(config);
    let store = Store::open(database).await.map_err(ServiceError::Store)?;
    let deadline = Duration::from_millis(config.times.provider_ms);
    let client = Client::new(deadline).map_err(ServiceError::Client)?;
    let auth =
        Authenticator::new(&config.auth, client.clone()).await.map_err(ServiceError::Auth)?;
    if let Some(ocm) = &config.ocm {
        let options = OcmOptions {
            url: ocm.url.clone(),
            token_file: ocm.token_file.clone(),
            machine_type: ocm.machine_type.clone(),
        };
        providers.insert("ocm".to_owned(), Arc::new(Ocm::new(options, client.clone())));
    }
    if let Some(access) = &config.capi {
        let capi = capi(access).await.map_err(ServiceError::Capi)?;
        providers.insert("capi".to_owned(), Arc::new(capi));
    }
    let identity: Arc<dyn Identity> = match &config.keycloak {
        Some(access) => Arc::new(Keycloak {
            realm_url: access.realm_url.trim_end_matches('/').to_owned(),
            token_file: access.token_file.clone(),
            audience: config.auth.agent.audience.clone(),
            redirect_uris: access.redirect_uris.clone(),
            client: client.clone(),
        }),
        None => Arc::new(NoIdentity),
    };
    let wake = Arc::new(Notify::new());
    let app = App::new(store.clone(), auth, Arc::clone(&config), Arc::clone(&wake));
    let (told, stopped) = watch::channel(false);
    let workers = Workers::new(store.clone(), config, providers, identity, wake);
    let workers = workers.counting(app.counters());
    let workers = tokio::spawn(workers.run(stopped));
    let served = serve(listener, app, stop).await.map_err(ServiceError::Serve);
    let _ = told.send(true);
    let _ = workers.await;
    store.close().await;
    served
}

async fn capi(access: &CapiAccess) -> Result<Capi, Cause> {
    let client = client(access.kubeconfig.as_deref()).await?;
    let options = CapiOptions {
        namespace: access.namespace.clone(),
        class: access.class.clone(),
        worker_class: access.worker_class.clone(),
        version: access.version.clone(),
        agent_image: access.agent_image.clone(),
        agent_manifests: access.agent_manifests.clone(),
    };
    Ok(Capi::new(options, client))
}

/// A client for the cluster of that kubeconfig, or else of the pod or the user.
///
/// # Errors
/// If there is none.
pub async fn client(kubeconfig: Option<&Path>) -> Result<kube::Client, Cause> {
    let Some(path) = kubeconfig else {
        // A pod whose user has a kubeconfig, as in local mode, must not take the user's cluster for its own.
        let of_pod = match std::env::var_os("KUBECONFIG") {
            Some(_) => None,
            None => kube::Config::incluster().ok(),
        };
        let config = match of_pod {
            Some(config) => config,
            None => kube::Config::infer().await?,
        };
        return Ok(kube::Client::try_from(config)?);
    };
    let kubeconfig = Kubeconfig::read_from(path)?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(kube::Client::try_from(config)?)
}
