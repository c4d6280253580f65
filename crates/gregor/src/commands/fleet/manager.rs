//! The fleet manager's API, for commands that ask it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use fleet::client::{Client, Method, is_confidential, query_value};
use fleet::http::BASE;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Time limit of a request.
const DEADLINE: Duration = Duration::from_secs(30);

/// As many data planes or Kafkas as one request returns.
const PAGE: usize = 1000;

/// How to reach the fleet manager.
#[derive(Debug, Args)]
pub(crate) struct Manager {
    /// Address of the fleet manager
    #[arg(
        long,
        value_name = "URL",
        env = "GREGOR_FLEET_MANAGER",
        default_value = "http://127.0.0.1:8000"
    )]
    manager: String,
    /// File with the token of an administrator; it may be one that only reads
    #[arg(long, value_name = "FILE", env = "GREGOR_FLEET_TOKEN_FILE")]
    token_file: PathBuf,
}

/// A data plane.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Plane {
    pub(crate) id: String,
    pub(crate) cloud_provider: String,
    pub(crate) region: String,
    #[serde(default)]
    pub(crate) multi_az: bool,
    pub(crate) provider_type: String,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) status_reason: String,
    #[serde(default)]
    pub(crate) nodes_reason: String,
    pub(crate) contradictions: Option<String>,
    pub(crate) nodes_unsuitable: Option<String>,
    pub(crate) nodes_failed: Option<String>,
    #[serde(default)]
    pub(crate) draining: bool,
    pub(crate) nodes_wanted: Option<i64>,
    pub(crate) nodes_desired: Option<i64>,
    pub(crate) nodes_actual: Option<i64>,
    pub(crate) last_seen: Option<String>,
    pub(crate) remaining_connections: Option<u64>,
    pub(crate) remaining_partitions: Option<u64>,
}

/// A region.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Region {
    pub(crate) cloud_provider: String,
    pub(crate) id: String,
    pub(crate) provider_type: String,
    pub(crate) data_planes_max: u64,
    pub(crate) data_planes: std::collections::BTreeMap<String, u64>,
    pub(crate) kafkas_waiting: u64,
    pub(crate) held: Option<String>,
    pub(crate) held_since: Option<String>,
}

/// A Kafka.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Kafka {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) organisation: String,
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
    pub(crate) cloud_provider: String,
    pub(crate) region: String,
    #[serde(default)]
    pub(crate) multi_az: bool,
    pub(crate) instance_type: String,
    pub(crate) size_id: String,
    pub(crate) data_plane_id: Option<String>,
    pub(crate) growing_data_plane_id: Option<String>,
}

/// A decision of the manager.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Decision {
    pub(crate) at: String,
    pub(crate) data_plane_id: Option<String>,
    pub(crate) kind: String,
    pub(crate) was: String,
    pub(crate) becomes: String,
    pub(crate) reason: String,
    pub(crate) dry_run: bool,
}

#[derive(Deserialize)]
struct Items<T> {
    items: Vec<T>,
}

/// A connection to the manager.
#[derive(Debug)]
pub(crate) struct Api {
    client: Client,
    url: String,
    token: String,
}

impl Manager {
    /// The manager at this address, with the token in this file.
    pub(crate) fn new(manager: String, token_file: PathBuf) -> Self {
        Self { manager, token_file }
    }

    pub(crate) fn connect(&self) -> anyhow::Result<Api> {
        let url = self.manager.trim_end_matches('/');
        anyhow::ensure!(
            is_confidential(url),
            "{url} must begin with https://, unless it is a loopback address; no token is sent to it"
        );
        let token = fs::read_to_string(&self.token_file);
        let token = token.with_context(|| format!("cannot read {:?}", self.token_file))?;
        Ok(Api {
            client: Client::new(DEADLINE)?,
            url: format!("{url}{BASE}/admin"),
            token: token.trim().to_owned(),
        })
    }
}

impl Api {
    async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<Option<T>> {
        let url = format!("{}{path}", self.url);
        match self.client.json(Method::GET, &url, Some(&self.token), None).await {
            Ok(answer) => {
                let read = serde_json::from_value(answer);
                Ok(Some(read.with_context(|| format!("cannot read the answer of {url}"))?))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn list<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<Vec<T>> {
        let items: Option<Items<T>> = self.get(path).await?;
        // A caller without the role is answered as if there were nothing.
        let items = items.context("the token is not that of an administrator")?;
        Ok(items.items)
    }

    async fn pages<T: DeserializeOwned>(&self, path: &str, more: &str) -> anyhow::Result<Vec<T>> {
        let mut all = Vec::new();
        for page in 1.. {
            let found: Vec<T> = self.list(&format!("{path}?page={page}&size={PAGE}{more}")).await?;
            let is_last = found.len() < PAGE;
            all.extend(found);
            if is_last {
                break;
            }
        }
        Ok(all)
    }

    pub(crate) async fn regions(&self) -> anyhow::Result<Vec<Region>> {
        self.list("/regions").await
    }

    pub(crate) async fn planes(&self) -> anyhow::Result<Vec<Plane>> {
        self.pages("/data_planes", "").await
    }

    /// One data plane; nothing if there is none of that id.
    pub(crate) async fn plane(&self, id: &str) -> anyhow::Result<Option<Plane>> {
        if !is_plain(id) {
            return Ok(None);
        }
        self.get(&format!("/data_planes/{id}")).await
    }

    pub(crate) async fn kafkas(&self) -> anyhow::Result<Vec<Kafka>> {
        self.pages("/kafkas", "").await
    }

    /// The Kafka with that id or name; nothing if there is none.
    pub(crate) async fn kafka(&self, name: &str) -> anyhow::Result<Option<Kafka>> {
        if !is_plain(name) {
            return Ok(None);
        }
        if let Some(kafka) = self.get(&format!("/kafkas/{name}")).await? {
            return Ok(Some(kafka));
        }
        let found: Vec<Kafka> = self.list(&format!("/kafkas?search=name+=+'{name}'")).await?;
        Ok(found.into_iter().next())
    }

    /// The newest decisions about a region, as PROVIDER/REGION; newest first.
    pub(crate) async fn decisions_of_region(&self, name: &str) -> anyhow::Result<Vec<Decision>> {
        self.list(&format!("/decisions?region={}", query_value(name))).await
    }

    /// The newest decisions about a data plane, or about all; newest first.
    pub(crate) async fn decisions(&self, plane: Option<&str>) -> anyhow::Result<Vec<Decision>> {
        match plane {
            Some(id) => self.list(&format!("/data_planes/{id}/decisions")).await,
            None => self.list("/decisions").await,
        }
    }
}

/// Whether a text can be an id or a name, and needs no quotes in an address.
fn is_plain(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && !text.starts_with('.') && text.chars().all(fits)
}
