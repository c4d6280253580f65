//! Reads what a backup has to have. A part that cannot be read fails the backup: one that lacks a key unnoticed is worse than
//! none.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use api::names::{CLUSTER_LABEL, KIND_LABEL, Names};
use api::{Kafka, KafkaNodePool, KafkaRebalance, KafkaTopic, KafkaUser};
use control::annotations::Annotation;
use control::cluster::record::FormatVersion;
use control::life::restore::Kind;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Secret};
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde_json::Value;

use super::portable::{portable, references};

/// What was read, portable, with remarks for the user.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) objects: Vec<Value>,
    pub(super) notes: Vec<String>,
    pub(super) record_format: Option<FormatVersion>,
}

/// Reads everything of a cluster that cannot be created again.
pub(super) async fn all(client: &Client, names: &Names) -> anyhow::Result<Collected> {
    let mut collected = Collected::default();
    let labelled = || ListParams::default().labels(&format!("{CLUSTER_LABEL}={}", names.cluster));
    let named = ListParams::default().fields(&format!("metadata.name={}", names.cluster));
    let mut resources = list::<Kafka>(client, names, named).await?;
    if resources.is_empty() {
        bail!("there is no Kafka {} in namespace {}", names.cluster, names.namespace);
    }
    resources.extend(list::<KafkaNodePool>(client, names, labelled()).await?);
    resources.extend(list::<KafkaTopic>(client, names, labelled()).await?);
    resources.extend(list::<KafkaUser>(client, names, labelled()).await?);
    // A finished request that is created again would run again.
    let templates = list::<KafkaRebalance>(client, names, labelled()).await?;
    let is_template = |one: &(Kind, DynamicObject)| {
        let value = one.1.annotations().get(Annotation::RebalanceTemplate.name());
        value.is_some_and(|value| value == "true")
    };
    resources.extend(templates.into_iter().filter(is_template));
    let written: Vec<_> = resources
        .iter()
        .map(|(_, object)| serde_json::to_value(object).unwrap_or_default())
        .collect();
    let referred: BTreeSet<_> = written.iter().flat_map(references).collect();
    let mut found = resources;
    found.extend(secrets(client, names, &referred).await?);
    found.extend(config_maps(client, names, &referred, &mut collected).await?);
    let claims = list::<PersistentVolumeClaim>(client, names, labelled()).await?;
    found.extend(volumes(client, &claims, &mut collected).await?);
    found.extend(claims);
    for (kind, object) in found {
        if object.metadata.deletion_timestamp.is_some() {
            let (kind, name) = (kind.name(), object.name_any());
            collected.notes.push(format!("{kind}/{name} is being deleted and not in the backup"));
            continue;
        }
        let object = serde_json::to_value(object).context("cannot serialize an object")?;
        collected.objects.push(portable(kind, &object));
    }
    Ok(collected)
}

/// Objects as they were written, with unknown fields.
async fn list<K>(
    client: &Client,
    names: &Names,
    which: ListParams,
) -> anyhow::Result<Vec<(Kind, DynamicObject)>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let (api, kind) = api::<K>(client, names)?;
    let found = api.list(&which).await;
    let found = found.with_context(|| format!("cannot list {}", K::plural(&())))?;
    Ok(found.items.into_iter().map(|object| (kind, typed::<K>(object))).collect())
}

/// An object by its name.
async fn get<K>(
    client: &Client,
    names: &Names,
    name: &str,
) -> anyhow::Result<Option<(Kind, DynamicObject)>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let (api, kind) = api::<K>(client, names)?;
    let found = api.get_opt(name).await;
    let found = found.with_context(|| format!("cannot read {} {name}", K::kind(&())))?;
    Ok(found.map(|object| (kind, typed::<K>(object))))
}

fn api<K>(client: &Client, names: &Names) -> anyhow::Result<(Api<DynamicObject>, Kind)>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let kind = Kind::named(&K::kind(&())).context("backups do not have this kind")?;
    let resource = ApiResource::erase::<K>(&());
    Ok((Api::namespaced_with(client.clone(), &names.namespace, &resource), kind))
}

/// Items of a list do not say what they are.
fn typed<K: Resource<DynamicType = ()>>(mut object: DynamicObject) -> DynamicObject {
    let (api_version, kind) = (K::api_version(&()).into_owned(), K::kind(&()).into_owned());
    object.types = Some(kube::core::TypeMeta { api_version, kind });
    object
}

/// The Secrets of the authorities and of users, and those that resources refer to. Certificates of nodes are issued again.
async fn secrets(
    client: &Client,
    names: &Names,
    referred: &BTreeSet<(Kind, String)>,
) -> anyhow::Result<Vec<(Kind, DynamicObject)>> {
    let users = format!("{CLUSTER_LABEL}={},{KIND_LABEL}=KafkaUser", names.cluster);
    let mut found = list::<Secret>(client, names, ListParams::default().labels(&users)).await?;
    let mut wanted: BTreeSet<String> = ["cluster", "clients"]
        .into_iter()
        .flat_map(|authority| [names.authority_key(authority), names.authority_cert(authority)])
        .collect();
    wanted.extend(referred.iter().filter(|one| one.0 == Kind::Secret).map(|one| one.1.clone()));
    let known: BTreeSet<_> = found.iter().map(|(_, object)| object.name_any()).collect();
    for name in wanted.difference(&known) {
        found.extend(get::<Secret>(client, names, name).await?);
    }
    Ok(found)
}

/// The record with its companions, and the ConfigMaps that resources refer to.
async fn config_maps(
    client: &Client,
    names: &Names,
    referred: &BTreeSet<(Kind, String)>,
    collected: &mut Collected,
) -> anyhow::Result<Vec<(Kind, DynamicObject)>> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &names.namespace);
    match maps.get_opt(&names.record()).await.context("cannot read the record")? {
        Some(record) => collected.record_format = ::operator::format_version(&record),
        None => collected.notes.push(
            "the cluster has no record: it is rebuilt from the claims when the backup is restored"
                .to_owned(),
        ),
    }
    let mut wanted: BTreeSet<String> = [names.record(), names.moves(), names.users()].into();
    wanted.extend(referred.iter().filter(|one| one.0 == Kind::ConfigMap).map(|one| one.1.clone()));
    let mut found = Vec::new();
    for name in wanted {
        found.extend(get::<ConfigMap>(client, names, &name).await?);
    }
    Ok(found)
}

/// The volumes of the claims.
async fn volumes(
    client: &Client,
    claims: &[(Kind, DynamicObject)],
    collected: &mut Collected,
) -> anyhow::Result<Vec<(Kind, DynamicObject)>> {
    let resource = ApiResource::erase::<PersistentVolume>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let (mut found, mut doomed) = (Vec::new(), Vec::new());
    for (_, claim) in claims {
        let Some(name) = claim.data["spec"]["volumeName"].as_str() else { continue };
        let volume = api.get_opt(name).await;
        let volume = volume.with_context(|| format!("cannot read PersistentVolume {name}"))?;
        let Some(volume) = volume else { continue };
        if volume.data["spec"]["persistentVolumeReclaimPolicy"] == "Delete" {
            doomed.push(claim.name_any());
        }
        found.push((Kind::Volume, typed::<PersistentVolume>(volume)));
    }
    if !doomed.is_empty() {
        collected.notes.push(format!(
            "the backup has no data of Kafka, and these volumes are deleted with their claims: {}. Set \
             persistentVolumeReclaimPolicy to Retain to keep them when a namespace is deleted",
            doomed.join(", ")
        ));
    }
    Ok(found)
}
