//! Executes the decided steps: directories first, then the API. Every step can be repeated.

use std::sync::Arc;
use std::time::Duration;

use host::error::chain;
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;
use tokio::time::timeout;

use super::directory::{self, Mark};
use super::error::StorageError;
use super::plan::{self, ClaimStep, Doomed, FINALIZER, Growth, NewVolume, VolumeStep};
use super::{NodeVolumes, PROVISIONER, Step};

/// Provisioning must not wait for an Event that the API server does not accept.
const EVENT_TIME_MAX: Duration = Duration::from_secs(5);

/// A step, with its object.
#[derive(Debug)]
pub(super) enum Task {
    /// For a claim.
    Claim(Arc<PersistentVolumeClaim>, ClaimStep),
    /// For a volume.
    Volume(Arc<PersistentVolume>, VolumeStep),
}

/// Executes steps.
pub(super) struct Actor {
    client: Client,
    volumes: Api<PersistentVolume>,
    recorder: Recorder,
    stop_after: Option<Step>,
}

/// The content of an Event, and the object that it is about.
struct Words {
    type_: EventType,
    reason: &'static str,
    note: String,
}

impl Actor {
    pub(super) fn new(client: Client, stop_after: Option<Step>) -> Self {
        let reporter = Reporter { controller: PROVISIONER.to_owned(), instance: None };
        Self {
            volumes: Api::all(client.clone()),
            recorder: Recorder::new(client.clone(), reporter),
            client,
            stop_after,
        }
    }

    /// Executes one step. A failure is logged and published as an Event before it is returned.
    pub(super) async fn perform(&self, task: &Task) -> Result<(), StorageError> {
        let result = match task {
            Task::Claim(_, ClaimStep::Nothing) | Task::Volume(_, VolumeStep::Nothing) => Ok(()),
            Task::Claim(claim, ClaimStep::Provision(new)) => self.provision(claim, new).await,
            Task::Claim(_, ClaimStep::Refuse(refusal)) => {
                Err(StorageError::Refused(refusal.words()))
            }
            Task::Claim(claim, ClaimStep::Grow(growth)) => self.grow(claim, growth).await,
            Task::Volume(volume, VolumeStep::Remove(doomed)) => self.remove(volume, doomed).await,
            Task::Volume(volume, VolumeStep::LetGo) => self.let_go(volume).await.map(|_| ()),
        };
        if let Err(error) = &result
            && !matches!(error, StorageError::Stopped(_))
        {
            self.report(task, error).await;
        }
        result
    }

    async fn report(&self, task: &Task, error: &StorageError) {
        let words = chain(error);
        tracing::warn!(error = %words, "a storage operation failed and will be retried");
        match task {
            Task::Claim(claim, ClaimStep::Grow(_)) => {
                let reason = "VolumeResizeFailed";
                let words = Words { type_: EventType::Warning, reason, note: words };
                self.tell(&claim.object_ref(&()), words).await;
            }
            Task::Claim(claim, _) => self.tell_failure(claim, &words).await,
            Task::Volume(volume, _) => {
                let reason = "VolumeFailedDelete";
                let words = Words { type_: EventType::Warning, reason, note: words };
                self.tell(&volume.object_ref(&()), words).await;
            }
        }
    }

    async fn provision(
        &self,
        claim: &PersistentVolumeClaim,
        new: &NewVolume,
    ) -> Result<(), StorageError> {
        let name = new.object.name_any();
        // The cache of volumes may be older than our last write.
        if self.exists(&name, &new.mark).await? {
            return Ok(());
        }
        let (namespace, claim_name) = (&new.mark.namespace, &new.mark.claim);
        let note = format!(
            "External provisioner is provisioning volume for claim \"{namespace}/{claim_name}\""
        );
        let reference = claim.object_ref(&());
        self.tell(&reference, Words { type_: EventType::Normal, reason: "Provisioning", note })
            .await;
        let (volumes, mark, volume) = (new.volumes.clone(), new.mark.clone(), name.clone());
        on_disk(move || directory::make(&volumes, &volume, &mark)).await?;
        self.pass(Step::DirectoryMade)?;
        self.create(&new.object, &new.mark).await?;
        self.pass(Step::VolumeCreated)?;
        tracing::info!(volume = name, claim = %format!("{namespace}/{claim_name}"), "provisioned a volume");
        let note = format!("Successfully provisioned volume {name}");
        let words = Words { type_: EventType::Normal, reason: "ProvisioningSucceeded", note };
        self.tell(&reference, words).await;
        Ok(())
    }

    async fn exists(&self, name: &str, mark: &Mark) -> Result<bool, StorageError> {
        let found = self.volumes.get_opt(name).await.map_err(|source| {
            StorageError::ReadVolume { name: name.to_owned(), source: Box::new(source) }
        })?;
        match found {
            None => Ok(false),
            Some(volume) if plan::claim_uid(&volume) == Some(&mark.uid) => Ok(true),
            Some(_) => Err(StorageError::ForeignVolume { name: name.to_owned() }),
        }
    }

    async fn create(&self, object: &PersistentVolume, mark: &Mark) -> Result<(), StorageError> {
        let name = object.name_any();
        match self.volumes.create(&PostParams::default(), object).await {
            Ok(_) => Ok(()),
            // The response was lost: the first attempt succeeded.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.exists(&name, mark).await.map(|_| ())
            }
            Err(source) => Err(StorageError::CreateVolume { name, source: Box::new(source) }),
        }
    }

    async fn grow(
        &self,
        claim: &PersistentVolumeClaim,
        growth: &Growth,
    ) -> Result<(), StorageError> {
        let capacity = json!({"storage": growth.size});
        if let Some(name) = &growth.volume {
            let patch = Patch::Merge(json!({"spec": {"capacity": capacity}}));
            self.volumes.patch(name, &PatchParams::default(), &patch).await.map_err(|source| {
                StorageError::GrowVolume { name: name.clone(), source: Box::new(source) }
            })?;
            self.pass(Step::VolumeGrown)?;
        }
        let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &namespace);
        let patch = Patch::Merge(json!({"status": {"capacity": capacity}}));
        claims.patch_status(&name, &PatchParams::default(), &patch).await.map_err(|source| {
            let claim = format!("{namespace}/{name}");
            StorageError::GrowClaim { claim, source: Box::new(source) }
        })?;
        let note = format!("Resize volume succeeded: {}", growth.size.0);
        let reason = "VolumeResizeSuccessful";
        let words = Words { type_: EventType::Normal, reason, note };
        self.tell(&claim.object_ref(&()), words).await;
        Ok(())
    }

    async fn remove(&self, volume: &PersistentVolume, doomed: &Doomed) -> Result<(), StorageError> {
        let name = volume.name_any();
        let (volumes, uid, directory) = (doomed.volumes.clone(), doomed.uid.clone(), name.clone());
        on_disk(move || directory::remove(&volumes, &directory, &uid)).await?;
        self.pass(Step::DataRemoved)?;
        let params = DeleteParams::default()
            .preconditions(Preconditions { uid: volume.uid(), resource_version: None });
        match self.volumes.delete(&name, &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(source) => {
                return Err(StorageError::DeleteVolume { name, source: Box::new(source) });
            }
        }
        if self.let_go(volume).await? {
            tracing::info!(volume = name, "removed a volume and its data");
        }
        Ok(())
    }

    /// Removes our finalizer, so that the API server can delete the object. Returns whether it was set.
    async fn let_go(&self, volume: &PersistentVolume) -> Result<bool, StorageError> {
        let name = volume.name_any();
        let failed =
            |source| StorageError::DeleteVolume { name: name.clone(), source: Box::new(source) };
        loop {
            let found = self.volumes.get_opt(&name).await.map_err(failed)?;
            let Some(current) = found.filter(|found| found.uid() == volume.uid()) else {
                return Ok(false);
            };
            let (ours, rest): (Vec<_>, Vec<_>) =
                current.finalizers().iter().partition(|one| *one == FINALIZER);
            if ours.is_empty() {
                return Ok(false);
            }
            let patch = Patch::Merge(json!({"metadata": {
                "finalizers": rest,
                "resourceVersion": current.resource_version(),
            }}));
            match self.volumes.patch(&name, &PatchParams::default(), &patch).await {
                Ok(_) => return Ok(true),
                // Others remove their finalizers at the same moment. There are few of them.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(source) => return Err(failed(source)),
            }
        }
    }

    /// Removes directories that a crash left behind before they were used: marked, empty, and without volume
    /// and claim. Anything unclear is left unchanged.
    pub(super) async fn sweep(&self, nodes: &[NodeVolumes]) {
        for node in nodes {
            let volumes = node.volumes.clone();
            let found = match on_disk(move || directory::list(&volumes)).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "cannot list unused volumes");
                    continue;
                }
            };
            for (volume, mark) in found {
                if let Err(error) = self.sweep_one(node, volume, &mark).await {
                    tracing::warn!(error = %chain(&error), "cannot remove an unused volume");
                }
            }
        }
    }

    async fn sweep_one(
        &self,
        node: &NodeVolumes,
        volume: String,
        mark: &Mark,
    ) -> Result<(), StorageError> {
        let found = self.volumes.get_opt(&volume).await.map_err(|source| {
            StorageError::ReadVolume { name: volume.clone(), source: Box::new(source) }
        })?;
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), &mark.namespace);
        let claim = claims.get_metadata_opt(&mark.claim).await.map_err(|source| {
            let claim = format!("{}/{}", mark.namespace, mark.claim);
            StorageError::ReadClaim { claim, source: Box::new(source) }
        })?;
        if found.is_some() || claim.is_some_and(|claim| claim.uid().as_ref() == Some(&mark.uid)) {
            return Ok(());
        }
        let volumes = node.volumes.clone();
        on_disk(move || directory::remove_unused(&volumes, &volume)).await
    }

    fn pass(&self, step: Step) -> Result<(), StorageError> {
        if self.stop_after == Some(step) { Err(StorageError::Stopped(step)) } else { Ok(()) }
    }

    async fn tell_failure(&self, claim: &PersistentVolumeClaim, why: &str) {
        let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
        let class = class.unwrap_or_default();
        let note = format!("failed to provision volume with StorageClass \"{class}\": {why}");
        let words = Words { type_: EventType::Warning, reason: "ProvisioningFailed", note };
        self.tell(&claim.object_ref(&()), words).await;
    }

    /// Events are informational: if one cannot be published, work continues.
    async fn tell(&self, about: &ObjectReference, words: Words) {
        let event = Event {
            type_: words.type_,
            reason: words.reason.to_owned(),
            // The API accepts at most 1 kB.
            note: Some(words.note.chars().take(1000).collect()),
            action: words.reason.to_owned(),
            secondary: None,
        };
        match timeout(EVENT_TIME_MAX, self.recorder.publish(&event, about)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(%error, reason = words.reason, "cannot publish an Event");
            }
            Err(_) => tracing::debug!(words.reason, "cannot publish an Event in time"),
        }
    }
}

/// Runs file system work on a blocking thread.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    tokio::task::spawn_blocking(work).await.map_err(StorageError::Interrupted)?
}
