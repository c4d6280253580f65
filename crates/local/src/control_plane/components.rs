//! The components of a control plane and their flags.

use std::fmt;
use std::path::Path;

use artifacts::kubernetes::Program;

use super::Durability;
use super::pki::{Authority, Pki};
use super::ports::Ports;
use super::state::StateDir;

/// A program of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API.
    ApiServer,
    /// The controllers.
    ControllerManager,
    /// The scheduler.
    Scheduler,
}

impl Component {
    /// In start order; each depends only on earlier ones.
    pub const ALL: [Self; 4] =
        [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler];

    /// Its name, which is also that of its program.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.program().name()
    }

    /// The program that it is.
    #[must_use]
    pub const fn program(self) -> Program {
        match self {
            Self::Etcd => Program::Etcd,
            Self::ApiServer => Program::ApiServer,
            Self::ControllerManager => Program::ControllerManager,
            Self::Scheduler => Program::Scheduler,
        }
    }

    /// Path of the readiness endpoint.
    pub(super) const fn health_path(self) -> &'static str {
        match self {
            Self::Etcd => "/health",
            Self::ApiServer => "/readyz",
            Self::ControllerManager | Self::Scheduler => "/healthz",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Issuer of service account tokens: the URL of the API inside of pods.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// All controllers except those that write Endpoints and EndpointSlices. These objects must not contain
/// loopback addresses, which all pods have here, so those controllers would fail forever.
const CONTROLLERS: &str =
    "*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller";

/// Inputs of the flags.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) state: &'a StateDir,
    pub(super) pki: &'a Pki,
    pub(super) ports: &'a Ports,
    pub(super) durability: Durability,
    pub(super) audit_log: Option<&'a Path>,
    /// Loopback addresses for services, on which a proxy can listen without configuring the machine.
    pub(super) service_range: &'a str,
}

impl Surroundings<'_> {
    /// The flags of a component.
    pub(super) fn flags(&self, component: Component) -> Vec<String> {
        match component {
            Component::Etcd => self.etcd(),
            Component::ApiServer => self.api_server(),
            Component::ControllerManager => self.controller_manager(),
            Component::Scheduler => self.scheduler(),
        }
    }

    /// The certificate file of an identity.
    fn certificate(&self, name: &str) -> String {
        shown(&self.pki.files(name).certificate)
    }

    /// The key file of an identity.
    fn key(&self, name: &str) -> String {
        shown(&self.pki.files(name).key)
    }

    #[rustfmt::skip]
    fn etcd(&self) -> Vec<String> {
        let client = format!("https://127.0.0.1:{}", self.ports.etcd_client);
        let peer = format!("https://127.0.0.1:{}", self.ports.etcd_peer);
        let authority = self.certificate(Authority::Etcd.file());
        let mut flags = table(&[
            ("name",                        "gregor"),
            ("data-dir",                    &shown(&self.state.etcd_data())),
            ("listen-client-urls",          &client),
            ("advertise-client-urls",       &client),
            ("client-cert-auth",            "true"),
            ("trusted-ca-file",             &authority),
            ("cert-file",                   &self.certificate("etcd-server")),
            ("key-file",                    &self.key("etcd-server")),
            // There are no peers, but etcd always listens for them.
            ("listen-peer-urls",            &peer),
            ("initial-advertise-peer-urls", &peer),
            ("initial-cluster",             &format!("gregor={peer}")),
            ("peer-client-cert-auth",       "true"),
            ("peer-trusted-ca-file",        &authority),
            ("peer-cert-file",              &self.certificate("etcd-peer")),
            ("peer-key-file",               &self.key("etcd-peer")),
            // A single member elects itself; with default timeouts it would wait a second first.
            ("heartbeat-interval",          "20"),
            ("election-timeout",            "200"),
            ("log-level",                   "warn"),
        ]);
        if self.durability == Durability::Fast {
            flags.push("--unsafe-no-fsync".to_owned());
        }
        flags
    }

    #[rustfmt::skip]
    fn api_server(&self) -> Vec<String> {
        let authority = self.certificate(Authority::Api.file());
        let [signing_key, public_key] = self.pki.service_account_keys();
        let mut flags = table(&[
            ("etcd-servers",                     &format!("https://127.0.0.1:{}", self.ports.etcd_client)),
            ("etcd-cafile",                      &self.certificate(Authority::Etcd.file())),
            ("etcd-certfile",                    &self.certificate("etcd-client")),
            ("etcd-keyfile",                     &self.key("etcd-client")),
            ("bind-address",                     "127.0.0.1"),
            ("advertise-address",                "127.0.0.1"),
            ("secure-port",                      &self.ports.api_server.to_string()),
            ("tls-cert-file",                    &self.certificate("apiserver")),
            ("tls-private-key-file",             &self.key("apiserver")),
            ("client-ca-file",                   &authority),
            // Anonymous requests only to the health endpoints.
            ("authentication-config",            &shown(&self.state.authentication_config())),
            ("authorization-mode",               "Node,RBAC"),
            // OwnerReferencesPermissionEnforcement is enabled in OpenShift and requires permissions that no
            // request shows: an operator without them must fail here too.
            ("enable-admission-plugins",         "NodeRestriction,OwnerReferencesPermissionEnforcement"),
            ("service-cluster-ip-range",         self.service_range),
            // It would write the loopback address to an Endpoints object, which is rejected.
            ("endpoint-reconciler-type",         "none"),
            ("service-account-issuer",           ISSUER),
            ("service-account-signing-key-file", &shown(&signing_key)),
            ("service-account-key-file",         &shown(&public_key)),
            ("allow-privileged",                 "true"),
            ("kubelet-certificate-authority",    &authority),
            ("kubelet-client-certificate",       &self.certificate("apiserver-kubelet-client")),
            ("kubelet-client-key",               &self.key("apiserver-kubelet-client")),
            ("kubelet-preferred-address-types",  "InternalIP,Hostname"),
            ("requestheader-client-ca-file",     &self.certificate(Authority::FrontProxy.file())),
            ("requestheader-allowed-names",      "front-proxy-client"),
            ("requestheader-username-headers",   "X-Remote-User"),
            ("requestheader-group-headers",      "X-Remote-Group"),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
            ("proxy-client-cert-file",           &self.certificate("front-proxy-client")),
            ("proxy-client-key-file",            &self.key("front-proxy-client")),
            ("profiling",                        "false"),
        ]);
        if let Some(log) = self.audit_log {
            flags.extend(table(&[
                ("audit-policy-file",   &shown(&self.state.audit_policy())),
                ("audit-log-path",      &shown(log)),
                // About a thousand requests per megabyte; the longest scenario stays below one file.
                ("audit-log-maxsize",   "50"),
                ("audit-log-maxbackup", "3"),
            ]));
        }
        flags
    }

    #[rustfmt::skip]
    fn controller_manager(&self) -> Vec<String> {
        let authority = self.certificate(Authority::Api.file());
        let [signing_key, _] = self.pki.service_account_keys();
        let mut flags = self.client_of_api(Component::ControllerManager, "controller-manager-server");
        flags.extend(table(&[
            ("secure-port",                      &self.ports.controller_manager.to_string()),
            ("controllers",                      CONTROLLERS),
            ("use-service-account-credentials",  "true"),
            ("service-account-private-key-file", &shown(&signing_key)),
            ("root-ca-file",                     &authority),
            ("cluster-signing-cert-file",        &authority),
            ("cluster-signing-key-file",         &self.key(Authority::Api.file())),
        ]));
        flags
    }

    #[rustfmt::skip]
    fn scheduler(&self) -> Vec<String> {
        let mut flags = self.client_of_api(Component::Scheduler, "scheduler-server");
        flags.extend(table(&[("secure-port", &self.ports.scheduler.to_string())]));
        flags
    }

    /// The common flags of the two components that use the API.
    #[rustfmt::skip]
    fn client_of_api(&self, component: Component, server: &str) -> Vec<String> {
        let kubeconfig = shown(&self.state.component_kubeconfig(component));
        table(&[
            ("kubeconfig",                &kubeconfig),
            ("authentication-kubeconfig", &kubeconfig),
            ("authorization-kubeconfig",  &kubeconfig),
            ("bind-address",              "127.0.0.1"),
            ("tls-cert-file",             &self.certificate(server)),
            ("tls-private-key-file",      &self.key(server)),
            // There is only one instance; leader election would only slow down restarts.
            ("leader-elect",              "false"),
            ("profiling",                 "false"),
            // With the default of 20 requests per second the controllers, each of which requests a token,
            // would start seconds later.
            ("kube-api-qps",              "500"),
            ("kube-api-burst",            "1000"),
        ])
    }
}

/// Allows anonymous requests to the health endpoints only.
pub(super) const AUTHENTICATION_CONFIG: &str = r#"{
  "apiVersion": "apiserver.config.k8s.io/v1",
  "kind": "AuthenticationConfiguration",
  "anonymous": {
    "enabled": true,
    "conditions": [{ "path": "/livez" }, { "path": "/readyz" }, { "path": "/healthz" }]
  }
}
"#;

/// Requests of service accounts, except those of Kubernetes itself, without their content. A watch is logged
/// when it starts: one that is open at the end of a test never completes.
pub(super) const AUDIT_POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1",
  "kind": "Policy",
  "omitStages": ["RequestReceived"],
  "omitManagedFields": true,
  "rules": [
    { "level": "None", "userGroups": ["system:serviceaccounts:kube-system"] },
    { "level": "Metadata", "userGroups": ["system:serviceaccounts"] }
  ]
}
"#;

fn table(rows: &[(&str, &str)]) -> Vec<String> {
    rows.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
