//! The fleet as it is now: what the manager says of it, and which nodes Kubernetes says there are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fleet::client::Method;
use fleet::http::BASE;
use fleet::tokens::Issuer;
use futures::TryFutureExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{DAY, client};
use crate::machine::planes::Local;

/// A data plane, as administrators see it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Plane {
    pub(super) id: String,
    pub(super) status: String,
    #[serde(default)]
    pub(super) remaining_connections: Option<u64>,
    /// The nodes that its API server has; nothing if it does not answer yet.
    #[serde(skip)]
    pub(super) nodes: Option<u32>,
}

/// A Kafka, as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Kafka {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) status: String,
    /// The organisation that it was listed for.
    #[serde(skip)]
    pub(super) organisation: usize,
}

/// What a client of a Kafka needs.
#[derive(Clone, Deserialize)]
pub(super) struct Access {
    pub(super) username: String,
    pub(super) password: String,
}

/// The organisations of the demonstration. Each has its own Kafkas.
pub(super) const ORGANISATIONS: [&str; 2] = ["north", "south"];

/// Something that was decided.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Decision {
    pub(super) id: String,
    #[serde(default)]
    pub(super) data_plane_id: Option<String>,
    pub(super) kind: String,
    pub(super) was: String,
    pub(super) becomes: String,
    pub(super) reason: String,
}

/// Everything at one moment. Data planes and decisions are in the order in which they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) planes: Vec<Plane>,
    pub(super) kafkas: Vec<Kafka>,
    pub(super) decisions: Vec<Decision>,
}

impl View {
    pub(super) fn plane(&self, id: &str) -> Option<&Plane> {
        self.planes.iter().find(|plane| plane.id == id)
    }

    pub(super) fn kafka(&self, name: &str) -> Option<&Kafka> {
        self.kafkas.iter().find(|kafka| kafka.name == name)
    }

    /// Where a Kafka was placed last.
    pub(super) fn place_of(&self, kafka: &Kafka) -> Option<&str> {
        let placed = self.decisions.iter().rev();
        let mut placed = placed.filter(|one| one.kind == "place" && one.becomes == kafka.id);
        placed.next().and_then(|one| one.data_plane_id.as_deref())
    }
}

/// The fleet, as an administrator sees it.
pub(super) struct Fleet {
    client: fleet::client::Client,
    url: String,
    admin: String,
    /// By organisation.
    users: Vec<String>,
    dir: PathBuf,
    clusters: BTreeMap<String, kube::Client>,
}

impl Fleet {
    pub(super) fn new(url: &str, issuer: &Issuer, dir: &Path) -> anyhow::Result<Self> {
        let user = |organisation: &&str| issuer.user("demo", organisation, DAY);
        let users = ORGANISATIONS.iter().map(user).collect::<Result<_, _>>()?;
        Ok(Self {
            client: client()?,
            url: format!("{url}{BASE}"),
            admin: issuer.admin("demo", DAY)?,
            users,
            dir: dir.to_owned(),
            clusters: BTreeMap::new(),
        })
    }

    async fn list<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        token: &str,
    ) -> anyhow::Result<Vec<T>> {
        let url = format!("{}{path}", self.url);
        let mut answer = self.client.json(Method::GET, &url, Some(token), None).await?;
        serde_json::from_value(answer["items"].take())
            .with_context(|| format!("{path} is not valid"))
    }

    /// Looks at everything.
    pub(super) async fn look(&mut self) -> anyhow::Result<View> {
        let mut planes: Vec<Plane> = self.list("/admin/data_planes", &self.admin).await?;
        planes.sort_by(|a, b| a.id.cmp(&b.id));
        for plane in &mut planes {
            plane.nodes = self.nodes(&plane.id).await;
        }
        let mut kafkas = Vec::new();
        for organisation in 0..ORGANISATIONS.len() {
            kafkas.extend(self.kafkas_of(organisation).await?);
        }
        kafkas.sort_by(|a, b| a.id.cmp(&b.id));
        let mut decisions: Vec<Decision> = self.list("/admin/decisions", &self.admin).await?;
        decisions.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(View { planes, kafkas, decisions })
    }

    /// The Kafkas that an organisation sees.
    pub(super) async fn kafkas_of(&self, organisation: usize) -> anyhow::Result<Vec<Kafka>> {
        let kafkas: Vec<Kafka> =
            self.list("/kafkas?orderBy=name", &self.users[organisation]).await?;
        Ok(kafkas.into_iter().map(|kafka| Kafka { organisation, ..kafka }).collect())
    }

    /// A Kafka as an organisation sees it; nothing if it does not.
    pub(super) async fn kafka(
        &self,
        organisation: usize,
        id: &str,
    ) -> anyhow::Result<Option<Value>> {
        let url = format!("{}/kafkas/{id}", self.url);
        match self.client.json(Method::GET, &url, Some(&self.users[organisation]), None).await {
            Ok(kafka) => Ok(Some(kafka)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// New credentials of the owner of a Kafka; nothing if this organisation may not have them.
    pub(super) async fn credentials(
        &self,
        organisation: usize,
        id: &str,
    ) -> anyhow::Result<Option<Access>> {
        let url = format!("{}/kafkas/{id}/credentials", self.url);
        match self.client.json(Method::POST, &url, Some(&self.users[organisation]), None).await {
            Ok(access) => Ok(Some(serde_json::from_value(access)?)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The names of services and pods of a data plane.
    pub(super) fn hosts(&self, plane: &str) -> PathBuf {
        Local::kubeconfig(&self.dir, plane).with_file_name("hosts")
    }

    /// The nodes of a data plane, as its own API server counts them.
    async fn nodes(&mut self, id: &str) -> Option<u32> {
        if !self.clusters.contains_key(id) {
            let kubeconfig = Local::kubeconfig(&self.dir, id);
            let made = fleet::service::client(Some(&kubeconfig)).map_err(drop).await.ok()?;
            self.clusters.insert(id.to_owned(), made);
        }
        let client = self.clusters.get(id)?.clone();
        match Api::<Node>::all(client).list(&ListParams::default()).await {
            Ok(list) => u32::try_from(list.items.len()).ok(),
            Err(_) => {
                // Its address may have changed, or it is gone.
                self.clusters.remove(id);
                None
            }
        }
    }

    pub(super) async fn create(&self, name: &str, organisation: usize) -> anyhow::Result<()> {
        let url = format!("{}/kafkas?async=true", self.url);
        let body = json!({ "name": name });
        let user = &self.users[organisation];
        let asked = self.client.json(Method::POST, &url, Some(user), Some(&body));
        let _: Value = asked.await.with_context(|| format!("cannot create {name}"))?;
        Ok(())
    }

    pub(super) async fn delete(&self, kafka: &Kafka) -> anyhow::Result<()> {
        let url = format!("{}/kafkas/{}?async=true", self.url, kafka.id);
        let user = &self.users[kafka.organisation];
        let asked = self.client.send(Method::DELETE, &url, Some(user), None);
        asked.await.with_context(|| format!("cannot delete {}", kafka.name))?;
        Ok(())
    }
}
