//! Everything that has to be in a data plane for the agent to work there, with no more rights than it uses.
//!
//! `gregor agent --manifests` prints it, and the providers that reach into a data plane apply it.

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::identity::Credentials;
use crate::provider::{AgentAccess, Cause};

/// The name of all objects.
pub const NAME: &str = "gregor-agent";

/// Where it is installed unless somebody says otherwise; the operator is there, too.
pub const NAMESPACE: &str = "gregor";

/// Who applies the objects.
const MANAGER: &str = "gregor-fleet";

/// The user of the image.
const USER: u32 = 1001;

/// Where the secret is in the pod.
const SECRET_DIR: &str = "/var/run/secrets/gregor.io/agent";

/// What differs from one data plane to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentInstallation {
    /// The namespace of the agent. It is made.
    pub namespace: String,
    /// The agent's image.
    pub image: String,
    /// Where the fleet manager is.
    pub manager: String,
    /// The id of the data plane.
    pub plane: String,
    /// What the agent proves with who it is.
    pub credentials: Credentials,
    /// More arguments.
    pub arguments: Vec<String>,
}

impl AgentInstallation {
    /// In the usual namespace, with nothing special.
    #[must_use]
    pub fn new(image: &str, plane: &str, access: &AgentAccess) -> Self {
        Self {
            namespace: NAMESPACE.to_owned(),
            image: image.to_owned(),
            manager: access.manager.clone(),
            plane: plane.to_owned(),
            credentials: access.credentials.clone(),
            arguments: Vec::new(),
        }
    }
}

/// The whole installation, in an order in which it can be applied.
#[must_use]
pub fn objects(installation: &AgentInstallation) -> Vec<Value> {
    let namespace = &installation.namespace;
    let metadata = json!({ "name": NAME, "namespace": namespace, "labels": labels() });
    let role =
        json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME });
    let mut objects = vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": NAME, "labels": labels() }, "rules": rules(),
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": NAME, "labels": labels() }, "roleRef": role,
            "subjects": [{ "kind": "ServiceAccount", "name": NAME, "namespace": namespace }],
        }),
    ];
    // Whoever keeps the secret elsewhere makes a Secret of this name, with the entry "token".
    let entries = match &installation.credentials {
        Credentials::Elsewhere => None,
        Credentials::Token(token) => Some(json!({ "token": token })),
        Credentials::Client { secret, .. } => Some(json!({ "client-secret": secret })),
    };
    if let Some(entries) = entries {
        objects.push(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": metadata, "stringData": entries,
        }));
    }
    objects.push(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": deployment(installation),
    }));
    objects
}

fn labels() -> Value {
    json!({ "app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "gregor" })
}

/// The rights of the agent, each because it makes such a request: it counts nodes, applies and deletes Kafkas, each in a
/// namespace of its own, and creates users for their owners. `cargo xtask rbac` compares them with the requests of the tests.
fn rules() -> Value {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let kafka = "kafka.strimzi.io";
    json!([
        rule("", &["nodes"], &["list", "watch"]),
        rule("", &["namespaces"], &["get", "create", "patch", "delete"]),
        rule(kafka, &["kafkas"], &["list", "watch", "create", "patch", "delete"]),
        rule(kafka, &["kafkanodepools"], &["create", "patch", "delete"]),
        rule(kafka, &["kafkausers"], &["create", "patch"]),
        // Passwords of owners are written once, and never read.
        rule("", &["secrets"], &["create"]),
    ])
}

fn deployment(installation: &AgentInstallation) -> Value {
    json!({
        // Two would contradict each other: the numbers of their reports do not know of each other.
        "replicas": 1,
        "strategy": { "type": "Recreate" },
        "selector": { "matchLabels": { "app.kubernetes.io/name": NAME } },
        "template": {
            "metadata": { "labels": labels() },
            "spec": {
                "serviceAccountName": NAME,
                "securityContext": {
                    "runAsNonRoot": true,
                    "runAsUser": USER,
                    "fsGroup": USER,
                    "seccompProfile": { "type": "RuntimeDefault" },
                },
                "containers": [{
                    "name": "agent",
                    "image": installation.image,
                    "args": arguments(installation),
                    "resources": {
                        "requests": { "cpu": "50m", "memory": "64Mi" },
                        "limits": { "cpu": "500m", "memory": "192Mi" },
                    },
                    "securityContext": {
                        "allowPrivilegeEscalation": false,
                        "readOnlyRootFilesystem": true,
                        "capabilities": { "drop": ["ALL"] },
                    },
                    "volumeMounts": [{ "name": "secret", "mountPath": SECRET_DIR, "readOnly": true }],
                }],
                "volumes": [{ "name": "secret", "secret": { "secretName": NAME } }],
            },
        },
    })
}

fn arguments(installation: &AgentInstallation) -> Vec<String> {
    let mut words = vec![
        format!("--manager={}", installation.manager),
        format!("--cluster-id={}", installation.plane),
    ];
    match &installation.credentials {
        Credentials::Elsewhere | Credentials::Token(_) => {
            words.push(format!("--token-file={SECRET_DIR}/token"));
        }
        Credentials::Client { token_url, id, .. } => words.extend([
            format!("--token-url={token_url}"),
            format!("--client-id={id}"),
            format!("--client-secret-file={SECRET_DIR}/client-secret"),
        ]),
    }
    words.extend(installation.arguments.iter().cloned());
    words
}

/// Applies objects in a data plane; what is there already is brought to what they say.
///
/// # Errors
/// At the first that cannot be applied.
pub async fn apply(client: &Client, objects: &[Value]) -> Result<(), Cause> {
    for object in objects {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let gvk = GroupVersionKind::try_from(&object.types.clone().unwrap_or_default())?;
        let resource = ApiResource::from_gvk(&gvk);
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let name = object.metadata.name.clone().unwrap_or_default();
        api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation(credentials: Credentials) -> AgentInstallation {
        let access = AgentAccess { manager: "https://m".to_owned(), credentials };
        AgentInstallation::new("agent:1", "p", &access)
    }

    #[test]
    fn a_secret_is_in_its_object_and_nowhere_else() {
        let client = Credentials::Client {
            token_url: "https://sso/token".to_owned(),
            id: "name".to_owned(),
            secret: "hush".to_owned(),
        };
        for (credentials, argument) in
            [(Credentials::Token("hush".to_owned()), "--token-file="), (client, "--client-id=name")]
        {
            let installation = installation(credentials);
            let objects = objects(&installation);
            let with: Vec<_> =
                objects.iter().filter(|one| one.to_string().contains("hush")).collect();
            assert_eq!(with.len(), 1);
            assert_eq!(with[0]["kind"], "Secret");
            let deployment = objects.last().unwrap().to_string();
            assert!(deployment.contains(argument), "{deployment}");
            assert!(!format!("{installation:?}").contains("hush"));
        }
        let kinds = objects(&installation(Credentials::Elsewhere));
        assert!(kinds.iter().all(|one| one["kind"] != "Secret"));
    }
}
