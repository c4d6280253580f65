//! The clients of the clusters' Kafkas, kept from pass to pass so that connections are made once.

use std::sync::Arc;
use std::time::Duration;

use api::names::Names;
use kafka_admin::{
    Admin, Bootstrap, ClientOptions, Endpoint, NoBootstrap, Resolve, SystemNames, Tls, TlsError,
};
use objects::hash;

use super::nodes::NodeClient;
use crate::per_cluster::PerCluster;
use crate::write::KAFKA_DEADLINE;

/// A node that does not take a connection by then is as good as down for this pass.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Half of the time of a call: a node that hangs leaves time to ask another one.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(KAFKA_DEADLINE.as_secs() / 2);

/// The two ways into one Kafka cluster.
#[derive(Clone)]
pub(crate) struct Access {
    /// Through the brokers: topics, and everything that they pass on. `None` if there are none.
    pub(crate) brokers: Option<Admin>,
    /// Through the controllers, which answer also when no broker does.
    pub(crate) controllers: Admin,
    /// To the nodes themselves; `None` if the keys cannot be used for that.
    pub(crate) nodes: Option<NodeClient>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("brokers", &self.brokers).finish_non_exhaustive()
    }
}

/// With what a cluster's Kafka is talked to.
#[derive(Debug)]
pub(crate) struct Keys<'a> {
    /// Whom to trust, in PEM.
    pub(crate) authorities: &'a [u8],
    /// Our own certificate and its key, in PEM.
    pub(crate) certificate: &'a [u8],
    pub(crate) key: &'a [u8],
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    #[error("the operator's certificate for the cluster cannot be used")]
    Keys(#[source] TlsError),
    #[error("the cluster has no nodes to connect to")]
    Nobody(#[source] NoBootstrap),
}

/// The clients by cluster. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Admins {
    kept: PerCluster<(String, Access)>,
    names: Arc<dyn Resolve>,
}

impl Default for Admins {
    fn default() -> Self {
        Self::new(Arc::new(SystemNames))
    }
}

impl Admins {
    /// No clients yet; nodes are found by these names.
    pub(crate) fn new(names: Arc<dyn Resolve>) -> Self {
        Self { kept: PerCluster::default(), names }
    }

    /// How nodes are found.
    pub(crate) fn names(&self) -> Arc<dyn Resolve> {
        self.names.clone()
    }

    /// The clients of a cluster. They are made anew if its nodes or the keys have changed.
    pub(crate) fn get(
        &self,
        names: &Names,
        (brokers, controllers): (&[String], &[String]),
        keys: &Keys<'_>,
    ) -> Result<Access, AccessError> {
        let parts = [keys.authorities, keys.certificate];
        let fingerprint =
            format!("{brokers:?} {controllers:?} {}", parts.map(hash::long).join(" "));
        let mut kept = self.kept.lock();
        if let Some((known, access)) = kept.get(names)
            && *known == fingerprint
        {
            return Ok(access.clone());
        }
        let tls = Tls::new(keys.authorities, Some((keys.certificate, keys.key)))
            .map_err(AccessError::Keys)?;
        let options = ClientOptions {
            client_id: "gregor-operator".to_owned(),
            tls: Some(tls),
            names: self.names(),
            call_timeout: KAFKA_DEADLINE,
            attempt_timeout: ATTEMPT_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            // A pass is short. What cannot be reached now is looked for in the next one.
            wait_for_nodes: false,
            ..ClientOptions::default()
        };
        let endpoints = |hosts: &[String], port| {
            hosts.iter().map(|host| Endpoint::new(host.clone(), port)).collect::<Vec<_>>()
        };
        let at_brokers = endpoints(brokers, api::names::REPLICATION_PORT);
        let at_controllers = endpoints(controllers, api::names::CONTROLLER_PORT);
        let access = Access {
            brokers: Admin::new(Bootstrap::Brokers(at_brokers), options.clone()).ok(),
            controllers: Admin::new(Bootstrap::Controllers(at_controllers), options)
                .map_err(AccessError::Nobody)?,
            nodes: NodeClient::new(keys).ok().map(|client| client.with_names(self.names())),
        };
        kept.insert(names.clone(), (fingerprint, access.clone()));
        Ok(access)
    }

    /// The clients of a cluster, if a pass over it has made them.
    pub(crate) fn kept(&self, names: &Names) -> Option<Access> {
        self.kept.get(names).map(|(_, access)| access)
    }

    /// Forgets a cluster that is gone.
    pub(crate) fn forget(&self, names: &Names) {
        self.kept.forget(names);
    }
}
