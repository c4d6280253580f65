//! The storage classes of local mode.

use std::collections::BTreeMap;

use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};

use super::PROVISIONER;
use super::error::StorageError;

/// The default class: data is deleted with the claim.
pub const CLASS: &str = "gregor-local";

/// The class that keeps data when the claim is deleted.
pub const CLASS_RETAIN: &str = "gregor-local-retain";

/// Applies both classes, `gregor-local` as the default one.
///
/// # Errors
///
/// If the API server rejects one of them.
pub async fn ensure_classes(client: &Client) -> Result<(), StorageError> {
    let api: Api<StorageClass> = Api::all(client.clone());
    let params = PatchParams::apply(PROVISIONER).force();
    for (name, class) in [
        (CLASS, class(CLASS, "Delete", true)),
        (CLASS_RETAIN, class(CLASS_RETAIN, "Retain", false)),
    ] {
        api.patch(name, &params, &Patch::Apply(&class))
            .await
            .map_err(|source| StorageError::ApplyClass { name, source: Box::new(source) })?;
    }
    Ok(())
}

fn class(name: &str, reclaim: &str, default: bool) -> StorageClass {
    let annotation =
        ("storageclass.kubernetes.io/is-default-class".to_owned(), default.to_string());
    StorageClass {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            annotations: Some(BTreeMap::from([annotation])),
            ..ObjectMeta::default()
        },
        provisioner: PROVISIONER.to_owned(),
        reclaim_policy: Some(reclaim.to_owned()),
        // The scheduler chooses the node first: the directory is created where the pod will run.
        volume_binding_mode: Some("WaitForFirstConsumer".to_owned()),
        allow_volume_expansion: Some(true),
        ..StorageClass::default()
    }
}
