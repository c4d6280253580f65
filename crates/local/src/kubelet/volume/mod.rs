//! The volumes of a pod: created before its containers start, and updated while they run.

mod atomic;
pub(crate) mod objects;
mod payload;
mod sources;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, HostPathVolumeSource, Pod, Secret, Volume};
use k8s_openapi::jiff::Timestamp;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use super::env::{Context, expand};
use super::layout::PodDir;
use super::pod::Mail;
use super::shared::Shared;
use super::shim::Mount;
use objects::Entry;
use payload::{SourceKey, Sources, TokenKey};
use sources::Token;

/// Directory of in-memory volumes: a tmpfs that every Linux has and that needs no permissions.
const MEMORY: &str = "/dev/shm";

/// The volumes of a pod.
pub(crate) struct Volumes {
    shared: Arc<Shared>,
    dir: PodDir,
    namespace: String,
    uid: String,
    entries: BTreeMap<SourceKey, Arc<Entry>>,
    /// Tasks that notify the actor when an object changes; aborted on drop.
    bells: JoinSet<()>,
    tokens: BTreeMap<TokenKey, Token>,
    /// Paths of claims, once known.
    claims: BTreeMap<String, PathBuf>,
}

/// A volume that could not be created or updated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) volume: String,
    pub(crate) message: String,
    /// Whether it is transient, so that no Event is published.
    pub(crate) brief: bool,
}

/// Result of a synchronization.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) troubles: Vec<Trouble>,
    /// When a token has to be renewed.
    pub(crate) renew_at: Option<Timestamp>,
}

impl Volumes {
    pub(crate) fn new(shared: &Arc<Shared>, dir: PodDir, pod: &Pod) -> Self {
        Self {
            shared: Arc::clone(shared),
            dir,
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            entries: BTreeMap::new(),
            bells: JoinSet::new(),
            tokens: BTreeMap::new(),
            claims: BTreeMap::new(),
        }
    }

    /// Creates or updates all volumes.
    pub(crate) async fn sync(
        &mut self,
        pod: &Pod,
        context: &Context,
        bell: &UnboundedSender<Mail>,
    ) -> Progress {
        let mut progress = Progress::default();
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            if let Err(trouble) = self.sync_one(pod, volume, context, bell).await {
                progress.troubles.push(trouble);
            }
        }
        progress.renew_at = self.tokens.values().map(|token| token.renew_at).min();
        progress
    }

    async fn sync_one(
        &mut self,
        pod: &Pod,
        volume: &Volume,
        context: &Context,
        bell: &UnboundedSender<Mail>,
    ) -> Result<(), Trouble> {
        let trouble =
            |message: String, brief: bool| Trouble { volume: volume.name.clone(), message, brief };
        let (objects, tokens) = payload::needs(volume);
        for key in objects {
            self.follow(key, bell);
        }
        for key in tokens {
            self.renew(pod, key).await.map_err(|error| trouble(error, false))?;
        }
        let sources = self.sources();
        match payload::payload(pod, volume, &sources, context) {
            Ok(Some(files)) => {
                let dir = self.dir.volume(&volume.name);
                let written = atomic::write(&dir, &files);
                written.map(drop).map_err(|error| trouble(error.to_string(), false))
            }
            Ok(None) => self.make(pod, volume).await.map_err(|error| trouble(error, false)),
            Err(problem) => Err(trouble(problem.to_string(), problem.is_brief())),
        }
    }

    fn sources(&self) -> Sources {
        let known = |(key, entry): (&SourceKey, &Arc<Entry>)| {
            let known = entry.known().borrow().clone()?;
            Some((key.clone(), known.map(|data| (*data).clone())))
        };
        let token = |(key, token): (&TokenKey, &Token)| (key.clone(), token.text.clone());
        Sources {
            objects: self.entries.iter().filter_map(known).collect(),
            tokens: self.tokens.iter().map(token).collect(),
        }
    }

    /// Creates a volume that does not consist of API objects.
    async fn make(&mut self, pod: &Pod, volume: &Volume) -> Result<(), String> {
        if let Some(claim) = claim_name(pod, volume) {
            if !self.claims.contains_key(&volume.name) {
                let path =
                    sources::claim_path(&self.shared.client, &self.namespace, &claim).await?;
                self.claims.insert(volume.name.clone(), path);
            }
            return Ok(());
        }
        if let Some(host) = &volume.host_path {
            return check_host_path(host);
        }
        let Some(path) = self.path(pod, volume).filter(|_| volume.empty_dir.is_some()) else {
            return Err("this kubelet does not support volumes of this kind".to_owned());
        };
        if path.is_dir() {
            return Ok(());
        }
        let open = || {
            fs::create_dir_all(&path)?;
            fs::set_permissions(&path, Permissions::from_mode(0o777))
        };
        open().map_err(|error: std::io::Error| error.to_string())
    }

    /// Path of a volume on the host.
    fn path(&self, pod: &Pod, volume: &Volume) -> Option<PathBuf> {
        if claim_name(pod, volume).is_some() {
            return self.claims.get(&volume.name).cloned();
        }
        if let Some(host) = &volume.host_path {
            return Some(PathBuf::from(&host.path));
        }
        let in_memory = volume.empty_dir.as_ref().and_then(|dir| dir.medium.as_deref());
        if in_memory == Some("Memory") && Path::new(MEMORY).is_dir() {
            return Some(memory(&self.uid).join(&volume.name));
        }
        Some(self.dir.volume(&volume.name))
    }

    /// The volume mounts of a container.
    pub(crate) fn mounts(
        &self,
        pod: &Pod,
        container: &Container,
        env: &[(String, String)],
    ) -> Result<Vec<Mount>, String> {
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let volumes: Vec<_> = volumes.collect();
        let get = |name: &str| env.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        let mut mounts = Vec::new();
        for wanted in container.volume_mounts.iter().flatten() {
            let volume = volumes.iter().find(|volume| volume.name == wanted.name);
            let volume = volume.ok_or_else(|| format!("volume {:?} not found", wanted.name))?;
            let path = self.path(pod, volume).ok_or("the volume does not exist yet")?;
            let expanded = wanted.sub_path_expr.as_ref().map(|text| expand(text, &get));
            let sub_path = expanded.or_else(|| wanted.sub_path.clone()).unwrap_or_default();
            let made_of_objects = payload::needs(volume) != (Vec::new(), Vec::new());
            let source = sub_path_of(&path, &sub_path, made_of_objects)?;
            let read_only = wanted.read_only == Some(true) || made_of_objects;
            let destination = PathBuf::from(&wanted.mount_path);
            mounts.push(Mount { source, destination, read_only });
        }
        Ok(mounts)
    }
}

/// Directory of a pod's in-memory volumes.
fn memory(uid: &str) -> PathBuf {
    Path::new(MEMORY).join(format!("gregor-pod-{uid}"))
}

/// Removes the in-memory volumes of a pod, which live no longer than the pod or a run of the node.
pub(crate) fn remove_memory(uid: &str) {
    let _ = fs::remove_dir_all(memory(uid));
}

/// The content of a Secret as text, for variables.
pub(crate) fn payload_text(secret: &Secret) -> BTreeMap<String, String> {
    let data = payload::secret_data(secret).into_iter();
    data.map(|(key, bytes)| (key, String::from_utf8_lossy(&bytes).into_owned())).collect()
}

/// The claim of a volume: referenced, or created for this pod.
fn claim_name(pod: &Pod, volume: &Volume) -> Option<String> {
    let named = volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.clone());
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    named.or_else(|| volume.ephemeral.as_ref().map(|_| format!("{pod_name}-{}", volume.name)))
}

/// A path in a volume, which must not lead out of it, not even through a link.
fn sub_path_of(volume: &Path, sub_path: &str, must_exist: bool) -> Result<PathBuf, String> {
    let real = |path: &Path| {
        fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let root = real(volume)?;
    if sub_path.is_empty() {
        return Ok(root);
    }
    let path = root.join(sub_path);
    let escapes = || format!("subPath {sub_path:?} leads out of the volume");
    if Path::new(sub_path).components().any(|part| part == std::path::Component::ParentDir) {
        return Err(escapes());
    }
    if !path.exists() && !must_exist {
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let path = real(&path)?;
    if path.starts_with(&root) { Ok(path) } else { Err(escapes()) }
}

fn check_host_path(host: &HostPathVolumeSource) -> Result<(), String> {
    let path = Path::new(&host.path);
    let make_dir = || fs::create_dir_all(path).map_err(|error| error.to_string());
    let failed =
        |what: &str| Err(format!("hostPath type check failed: {} is not a {what}", path.display()));
    match host.type_.as_deref().unwrap_or("") {
        "" if path.exists() => Ok(()),
        "" | "DirectoryOrCreate" if !path.is_file() => make_dir(),
        "FileOrCreate" if !path.exists() => fs::write(path, "").map_err(|error| error.to_string()),
        "FileOrCreate" | "File" if path.is_file() => Ok(()),
        "Directory" if path.is_dir() => Ok(()),
        "File" | "FileOrCreate" => failed("file"),
        "Directory" | "DirectoryOrCreate" => failed("directory"),
        "Socket" | "CharDevice" | "BlockDevice" if path.exists() => Ok(()),
        other => failed(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_volume_stays_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("volume");
        fs::create_dir_all(root.join("a")).unwrap();
        std::os::unix::fs::symlink(dir.path(), root.join("out")).unwrap();
        let real = fs::canonicalize(&root).unwrap();
        assert_eq!(sub_path_of(&root, "", true), Ok(real.clone()));
        assert_eq!(sub_path_of(&root, "a", true), Ok(real.join("a")));
        assert_eq!(sub_path_of(&root, "new/b", false), Ok(real.join("new/b")));
        for bad in ["../x", "a/../../x", "out", "missing"] {
            assert!(sub_path_of(&root, bad, true).is_err(), "{bad}");
        }
    }

    #[test]
    fn host_paths_are_what_they_are_said_to_be() {
        let dir = tempfile::tempdir().unwrap();
        let check = |name: &str, kind: &str| {
            let path = dir.path().join(name).display().to_string();
            check_host_path(&HostPathVolumeSource { path, type_: Some(kind.to_owned()) })
        };
        fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(check("new", "DirectoryOrCreate"), Ok(()));
        assert_eq!(check("new", "Directory"), Ok(()));
        assert_eq!(check("file", "File"), Ok(()));
        assert_eq!(check("made", "FileOrCreate"), Ok(()));
        assert_eq!(check("made2", ""), Ok(()));
        assert!(check("file", "Directory").unwrap_err().ends_with("is not a directory"));
        assert!(check("no", "File").unwrap_err().ends_with("is not a file"));
        assert!(check("no", "Socket").is_err());
    }
}
