//! Compares a backup with what exists, and creates its objects. Whether they are created is decided by
//! [`control::life::restore`].

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use api::names::{CLUSTER_LABEL, Names};
use control::life::restore::{Act, ClaimRef, Existing, Id, Kind, Object, volume};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::content::{Content, id, is_of_data};
use super::portable::portable;
use crate::commands::dynamic;

/// The place where a backup is restored.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) objects: Vec<Object>,
    pub(super) has_namespace: bool,
    pub(super) unknown_claims: BTreeSet<String>,
}

/// Reads what exists of a backup.
pub(super) async fn observe(client: &Client, content: &Content) -> anyhow::Result<Place> {
    let names = content.names();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace =
        namespaces.get_opt(&names.namespace).await.context("cannot read the namespace")?;
    let claims = claims(client, &names).await?;
    let mut objects = Vec::new();
    for object in &content.objects {
        let Some(id) = id(object) else { continue };
        let existing = existing(client, &id, object, &claims).await?;
        objects.push(Object { is_of_data: is_of_data(&id, &names), id, existing });
    }
    let known = |claim: &String| {
        objects.iter().any(|object| object.id.kind == Kind::Claim && object.id.name == *claim)
    };
    let unknown_claims = claims.keys().filter(|claim| !known(claim)).cloned().collect();
    Ok(Place { has_namespace: namespace.is_some(), unknown_claims, objects })
}

/// Claims of the cluster that exist, with their uids.
async fn claims(client: &Client, names: &Names) -> anyhow::Result<BTreeMap<String, String>> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &names.namespace);
    let ours = ListParams::default().labels(&format!("{CLUSTER_LABEL}={}", names.cluster));
    let found = api.list_metadata(&ours).await.context("cannot list PersistentVolumeClaims")?;
    Ok(found.iter().map(|one| (one.name_any(), one.uid().unwrap_or_default())).collect())
}

/// The API of an object of the backup.
async fn api(client: &Client, id: &Id, object: &Value) -> anyhow::Result<Api<DynamicObject>> {
    match dynamic::api(client, object).await? {
        Some((api, _)) => Ok(api),
        None => bail!(
            "Kubernetes does not know the kind {}: install the operator first (gregor install)",
            id.kind.name()
        ),
    }
}

async fn existing(
    client: &Client,
    id: &Id,
    object: &Value,
    claims: &BTreeMap<String, String>,
) -> anyhow::Result<Existing> {
    let found = api(client, id, object).await?.get_opt(&id.name).await;
    let Some(found) = found.with_context(|| format!("cannot read {id}"))? else {
        return Ok(Existing::None);
    };
    if found.metadata.deletion_timestamp.is_some() {
        return Ok(Existing::Deleting);
    }
    let found = serde_json::to_value(found).context("cannot serialize an object")?;
    if id.kind == Kind::Volume {
        let of = claim_ref(&found);
        let wanted = claim_ref(object).map(|of| of.name).unwrap_or_default();
        let present = wanted.split_once('/').and_then(|(_, claim)| claims.get(claim));
        return Ok(volume(&wanted, present.map(String::as_str), of.as_ref()));
    }
    let is_same = portable(id.kind, &found) == *object;
    Ok(if is_same { Existing::Same } else { Existing::Different })
}

fn claim_ref(volume: &Value) -> Option<ClaimRef> {
    let of = volume.pointer("/spec/claimRef")?;
    let text = |field: &str| of[field].as_str().map(str::to_owned);
    Some(ClaimRef { name: format!("{}/{}", text("namespace")?, text("name")?), uid: text("uid") })
}

/// Does a step.
pub(super) async fn put(
    client: &Client,
    (id, act): (&Id, Act),
    object: &Value,
) -> anyhow::Result<()> {
    let api = api(client, id, object).await?;
    match act {
        Act::Keep => Ok(()),
        Act::Create => {
            let object: DynamicObject =
                serde_json::from_value(object.clone()).context("the backup is damaged")?;
            let created = api.create(&PostParams::default(), &object).await;
            created.map(drop).with_context(|| format!("cannot create {id}"))
        }
        Act::Release => {
            let found = api.get(&id.name).await.with_context(|| format!("cannot read {id}"))?;
            // The volume is bound to the claim of this name, whichever uid it gets; with the version, so that no claim
            // that got the volume meanwhile loses it.
            let patch = json!({
                "metadata": { "resourceVersion": found.resource_version() },
                "spec": { "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": object["spec"]["claimRef"]["namespace"],
                    "name": object["spec"]["claimRef"]["name"],
                    "uid": null, "resourceVersion": null,
                } },
            });
            let done = api.patch(&id.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
            done.map(drop).with_context(|| format!("cannot release {id}"))
        }
    }
}
