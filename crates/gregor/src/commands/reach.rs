//! How to reach Kubernetes: as kubectl does, unless options say otherwise.

use std::env;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

/// How to reach Kubernetes.
#[derive(Debug, Args)]
pub(crate) struct Reach {
    /// Namespace [default: that of the context]
    #[arg(short, long, global = true, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Kubeconfig [default: as for kubectl]
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
}

impl Reach {
    /// As these options of a command say.
    pub(crate) fn new(
        namespace: Option<String>,
        kubeconfig: Option<PathBuf>,
        context: Option<String>,
    ) -> Self {
        Self { namespace, kubeconfig, context }
    }

    /// A client, and the namespace.
    pub(crate) async fn client(&self) -> anyhow::Result<(Client, String)> {
        let (config, namespace) = self.config().await?;
        let client = Client::try_from(config).context("cannot create a Kubernetes client")?;
        Ok((client, namespace))
    }

    /// Client configuration, and the namespace.
    pub(crate) async fn config(&self) -> anyhow::Result<(Config, String)> {
        let config = self.read().await?;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        Ok((config, namespace))
    }

    /// The namespace, if it was specified.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Whether the namespace was specified.
    pub(crate) fn is_namespace_named(&self) -> bool {
        self.namespace.is_some()
    }

    /// Path of the kubeconfig, if a single one was specified.
    pub(crate) fn directory(&self) -> Option<PathBuf> {
        let named = self.kubeconfig.clone();
        let file = named.or_else(|| env::var_os("KUBECONFIG").map(PathBuf::from))?;
        file.parent().map(PathBuf::from)
    }

    async fn read(&self) -> anyhow::Result<Config> {
        if self.kubeconfig.is_none() && self.context.is_none() {
            return Config::infer()
                .await
                .context("cannot find a kubeconfig: name one with --kubeconfig");
        }
        let file = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?,
            None => Kubeconfig::read().context("cannot read the kubeconfig")?,
        };
        let options =
            KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = Config::from_custom_kubeconfig(file, &options).await;
        config.context("the kubeconfig has no address of an API server")
    }
}
