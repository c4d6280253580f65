//! Data planes from OpenShift Cluster Manager, over its REST API.

use std::path::PathBuf;

use hyper::Method;
use serde_json::{Value, json};

use super::{
    AgentAccess, Answer, Cause, ID_LABEL, NodeCounts, NotThisPlane, PlaneRef, Progress, Provider,
    cluster_name,
};
use crate::client::{Client, ClientError, query_value};
use crate::identity::Credentials;

/// Where clusters are.
const CLUSTERS: &str = "/api/clusters_mgmt/v1/clusters";

/// The addon that is the agent.
const AGENT_ADDON: &str = "kas-fleetshard-operator";

/// How OpenShift Cluster Manager is reached, and what it makes.
#[derive(Debug, Clone)]
pub struct OcmOptions {
    /// Where it is.
    pub url: String,
    /// A file with the token; it is read for every request, so that it can be renewed.
    pub token_file: Option<PathBuf>,
    /// The type of the machines.
    pub machine_type: String,
}

/// OpenShift Cluster Manager.
#[derive(Debug, Clone)]
pub struct Ocm {
    options: OcmOptions,
    client: Client,
}

/// What an answer lacks.
#[derive(Debug, thiserror::Error)]
enum OcmError {
    #[error("the answer has no {0}")]
    Missing(&'static str),
    #[error("cannot read the token in {0:?}")]
    Token(PathBuf, #[source] std::io::Error),
}

impl Ocm {
    /// With these options.
    #[must_use]
    pub fn new(options: OcmOptions, client: Client) -> Self {
        Self { options, client }
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Cause> {
        let token = match &self.options.token_file {
            Some(file) => {
                let text = tokio::fs::read_to_string(file).await;
                let text = text.map_err(|error| OcmError::Token(file.clone(), error))?;
                Some(text.trim().to_owned())
            }
            None => None,
        };
        let url = format!("{}{path}", self.options.url.trim_end_matches('/'));
        Ok(self.client.json(method, &url, token.as_deref(), body).await?)
    }

    /// The cluster that was made for a data plane, if any: it has the name of the data plane's id and carries the id. A
    /// request that was cut off may have made it.
    async fn find(&self, plane: &PlaneRef) -> Result<Option<String>, Cause> {
        let search = query_value(&format!("name = '{}'", cluster_name(&plane.id)));
        let found = self.ask(Method::GET, &format!("{CLUSTERS}?search={search}"), None).await?;
        let items = found["items"].as_array().ok_or(OcmError::Missing("items"))?;
        let Some(one) = items.first() else { return Ok(None) };
        if one["properties"][ID_LABEL] != plane.id.as_str() {
            return Err(NotThisPlane::new(plane).into());
        }
        Ok(Some(one["id"].as_str().ok_or(OcmError::Missing("id"))?.to_owned()))
    }
}

fn is_status(error: &Cause, number: u16) -> bool {
    let error = error.downcast_ref::<ClientError>();
    matches!(error, Some(ClientError::Status { status, .. }) if status.as_u16() == number)
}

impl Provider for Ocm {
    fn create<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, String> {
        Box::pin(async {
            if let Some(id) = self.find(plane).await? {
                return Ok(id);
            }
            let body = json!({
                "name": cluster_name(&plane.id),
                "properties": { ID_LABEL: plane.id },
                "cloud_provider": { "id": plane.cloud_provider },
                "region": { "id": plane.region },
                "multi_az": plane.multi_az,
                "managed": true,
                "ccs": { "enabled": true },
                "nodes": {
                    "compute": plane.nodes,
                    "compute_machine_type": { "id": self.options.machine_type },
                },
            });
            let made = self.ask(Method::POST, CLUSTERS, Some(&body)).await?;
            Ok(made["id"].as_str().ok_or(OcmError::Missing("id"))?.to_owned())
        })
    }

    fn progress<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, Progress> {
        Box::pin(async {
            let path = format!("{CLUSTERS}/{}/status", plane.known_as());
            let status = self.ask(Method::GET, &path, None).await?;
            Ok(match status["state"].as_str().ok_or(OcmError::Missing("state"))? {
                "ready" => Progress::There,
                "error" => {
                    let why = status["provision_error_message"].as_str();
                    Progress::Failed(why.unwrap_or("no reason given").to_owned())
                }
                _ => Progress::Coming,
            })
        })
    }

    fn install_agent<'a>(&'a self, plane: &'a PlaneRef, access: &'a AgentAccess) -> Answer<'a, ()> {
        Box::pin(async {
            let parameter = |id: &str, value: &str| json!({ "id": id, "value": value });
            let mut parameters = vec![
                parameter("control-plane-url", &access.manager),
                parameter("cluster-id", &plane.id),
            ];
            if let Credentials::Client { token_url, id, secret } = &access.credentials {
                parameters.extend([
                    parameter("sso-auth-server-url", token_url),
                    parameter("sso-client-id", id),
                    parameter("sso-secret", secret),
                ]);
            }
            let body =
                json!({ "addon": { "id": AGENT_ADDON }, "parameters": { "items": parameters } });
            let path = format!("{CLUSTERS}/{}/addons", plane.known_as());
            match self.ask(Method::POST, &path, Some(&body)).await {
                Err(error) if is_status(&error, 409) => Ok(()),
                other => other.map(drop),
            }
        })
    }

    /// Desired is what was asked for; actual is what the cluster tells. Either missing is unknown, not 0.
    fn nodes<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, NodeCounts> {
        Box::pin(async {
            let path = format!("{CLUSTERS}/{}", plane.known_as());
            let cluster = self.ask(Method::GET, &path, None).await?;
            let number = |value: &Value| value.as_u64().and_then(|value| u32::try_from(value).ok());
            let desired = number(&cluster["nodes"]["compute"]);
            let actual = number(&cluster["status"]["current_compute"]);
            Ok(NodeCounts::new(
                desired.ok_or(OcmError::Missing("nodes.compute"))?,
                actual.ok_or(OcmError::Missing("status.current_compute"))?,
            ))
        })
    }

    fn set_nodes<'a>(&'a self, plane: &'a PlaneRef, nodes: u32) -> Answer<'a, ()> {
        Box::pin(async move {
            let path = format!("{CLUSTERS}/{}", plane.known_as());
            let body = json!({ "nodes": { "compute": nodes } });
            self.ask(Method::PATCH, &path, Some(&body)).await.map(drop)
        })
    }

    fn delete<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, bool> {
        Box::pin(async {
            let id = match &plane.provider_id {
                Some(id) => id.clone(),
                // Whether it was ever made is not recorded.
                None => match self.find(plane).await {
                    Ok(Some(id)) => id,
                    Ok(None) => return Ok(true),
                    Err(error) if error.is::<NotThisPlane>() => return Ok(true),
                    Err(error) => return Err(error),
                },
            };
            match self.ask(Method::DELETE, &format!("{CLUSTERS}/{id}"), None).await {
                Ok(_) => Ok(false),
                Err(error) if is_status(&error, 404) => Ok(true),
                Err(error) => Err(error),
            }
        })
    }
}
