//! Data planes as processes of this machine: the provider `local`.
//!
//! Each data plane is a Kubernetes control plane of its own with the operator and the agent in it, and its
//! nodes are kubelets that really join and leave. A [`keeper`] supervises each of them; this only records
//! the desired state and tells what the keepers have seen.
//!
//! 1. The desired state is on disk before anything is done about it, under the id of the data plane. A manager
//!    that was killed finds all its data planes again when it starts, and goes on where it was.
//! 2. A data plane is gone when its directory is. Its desired state, which says that it is being deleted, is removed last.
//! 3. A node that has volumes on it does not go: no other node has its data.

mod keeper;
mod nodes;
mod record;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use artifacts::kubernetes::{self, Binaries};
use artifacts::{Environment, Progress as Report};
use fleet::config::{Config, LocalAccess};
use fleet::provider::{AgentAccess, Answer, Cause, NodeCounts, PlaneRef, Progress, Provider};
use fleet::tokens::Issuer;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use local::kubelet::image::Images;
use local::kubelet::parse_capacity;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::images::agent_image;
use super::{Image, Operator, image_table};
use keeper::{Keeper, Seen};
use record::{Desired, Place};

/// The name that regions have for it.
pub(crate) const NAME: &str = "local";

/// As many nodes as have addresses.
const NODES_MAX: u32 = 200;

/// The public key of the tokens that the manager signs, in the directory of all data planes.
pub(crate) fn keys_file(root: &Path) -> PathBuf {
    root.join("jwks.json")
}

/// The programs of all data planes, found or built before anything is started.
#[derive(Debug)]
pub(crate) struct Programs {
    binaries: Binaries,
    operator: Operator,
}

impl Programs {
    /// Gets them. This may take minutes for the first time.
    pub(crate) fn prepare(progress: &dyn Report) -> anyhow::Result<Self> {
        let binaries = kubernetes::ensure(&Environment::from_process(), None, progress)?;
        let operator = Operator::prepare(&[], &[], progress)?;
        Ok(Self { binaries, operator })
    }
}

/// What all keepers share.
#[derive(Debug)]
struct Common {
    programs: Programs,
    own: PathBuf,
    images: Images,
    capacity: BTreeMap<String, Quantity>,
    issuer: Issuer,
    report_seconds: u64,
}

/// The provider.
#[derive(Debug)]
pub(crate) struct Local {
    root: PathBuf,
    common: Arc<Common>,
    planes: Mutex<BTreeMap<String, Kept>>,
    stop: watch::Sender<bool>,
}

/// A data plane with its keeper.
#[derive(Debug)]
struct Kept {
    place: Place,
    desired: watch::Sender<Desired>,
    seen: watch::Receiver<Seen>,
    keeper: JoinHandle<()>,
}

#[derive(Debug, thiserror::Error)]
enum LocalError {
    #[error("{0:?} is not valid as the name of a directory")]
    Id(String),
    #[error("there is no data plane {0} here")]
    NotThere(String),
    #[error("its nodes are not counted yet")]
    NotCounted,
    #[error("at most {NODES_MAX} nodes fit on one machine")]
    TooMany,
    #[error("its supervisor has exited")]
    Ended,
}

impl Local {
    /// Finds the data planes that are there, and goes on with them. The key that signs the tokens of their
    /// agents is added to the configuration.
    pub(crate) fn open(
        access: &LocalAccess,
        programs: Programs,
        config: &mut Config,
    ) -> anyhow::Result<Self> {
        let root = std::path::absolute(&access.dir)
            .with_context(|| format!("cannot find {:?}", access.dir))?;
        record::private_dir(&root).with_context(|| format!("cannot create {root:?}"))?;
        let issuer = Issuer::open(&root.join("key.der"), &config.auth.agent)?;
        let keys = keys_file(&root);
        record::write(&keys, &issuer.jwks()?).with_context(|| format!("cannot write {keys:?}"))?;
        config.auth.jwks_more.push(keys);
        let own = std::env::current_exe().context("cannot find this program")?;
        let mut images = programs.operator.images(&own);
        let agent = vec![own.display().to_string(), "agent".to_owned()];
        images.push(Image::new(&agent_image(), agent));
        let images = image_table(&own, images.iter());
        let capacity = match access.node_capacity.as_str() {
            "" => BTreeMap::new(),
            text => parse_capacity(text).map_err(anyhow::Error::msg)?.0,
        };
        let report_seconds = access.report_seconds.max(1);
        let common = Common { programs, own, images, capacity, issuer, report_seconds };
        let (stop, _) = watch::channel(false);
        let local = Self { root, common: Arc::new(common), planes: Mutex::default(), stop };
        local.go_on()?;
        Ok(local)
    }

    /// Starts a keeper for every data plane that is there.
    fn go_on(&self) -> anyhow::Result<()> {
        let dir = self.root.join("planes");
        record::private_dir(&dir).with_context(|| format!("cannot create {dir:?}"))?;
        for entry in fs::read_dir(&dir).with_context(|| format!("cannot read {dir:?}"))? {
            let id = entry?.file_name().to_string_lossy().into_owned();
            let place = self.place(&id)?;
            // A directory without a desired state is one that was not begun, or one of which nothing is left.
            if let Some(desired) = place.desired()? {
                self.keep(&id, place, desired);
            }
        }
        Ok(())
    }

    fn place(&self, id: &str) -> Result<Place, LocalError> {
        let fits = !id.is_empty() && !id.starts_with('.') && !id.contains('/');
        let place = || Place::new(self.root.join("planes").join(id));
        fits.then(place).ok_or_else(|| LocalError::Id(id.to_owned()))
    }

    fn keep(&self, id: &str, place: Place, desired: Desired) {
        let mut planes = self.planes.lock().unwrap_or_else(PoisonError::into_inner);
        if planes.get(id).is_some_and(|kept| !kept.keeper.is_finished()) {
            return;
        }
        let (sender, receiver) = watch::channel(desired);
        let (tell, seen) = watch::channel(Seen::default());
        let common = Arc::clone(&self.common);
        let keeper = Keeper::new(id, place.clone(), common);
        let keeper = tokio::spawn(keeper.run(receiver, tell, self.stop.subscribe()));
        planes.insert(id.to_owned(), Kept { place, desired: sender, seen, keeper });
    }

    /// Changes the desired state of a data plane, on disk first.
    fn change(&self, id: &str, change: impl FnOnce(&mut Desired)) -> Result<(), Cause> {
        let planes = self.planes.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = planes.get(id).ok_or_else(|| LocalError::NotThere(id.to_owned()))?;
        let mut desired = kept.desired.borrow().clone();
        change(&mut desired);
        if desired != *kept.desired.borrow() {
            kept.place.write_desired(&desired)?;
            kept.desired.send_replace(desired);
        }
        Ok(())
    }

    fn look(&self, id: &str) -> Result<(Desired, watch::Receiver<Seen>), LocalError> {
        let planes = self.planes.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = planes.get(id).ok_or_else(|| LocalError::NotThere(id.to_owned()))?;
        Ok((kept.desired.borrow().clone(), kept.seen.clone()))
    }

    /// Ends everything in order: pods, then what they talk to. The next start continues it.
    pub(crate) async fn stop(&self) {
        self.stop.send_replace(true);
        let planes =
            std::mem::take(&mut *self.planes.lock().unwrap_or_else(PoisonError::into_inner));
        for (_, kept) in planes {
            let _ = kept.keeper.await;
        }
    }

    /// Deletes everything that is there, and returns when it is gone.
    pub(crate) async fn clear(&self) {
        let ids: Vec<String> = {
            let planes = self.planes.lock().unwrap_or_else(PoisonError::into_inner);
            planes.keys().cloned().collect()
        };
        for id in &ids {
            if let Err(error) = self.change(id, |desired| desired.deleting = true) {
                tracing::warn!(plane = id, %error, "it stays");
            }
        }
        for id in &ids {
            if let Ok((_, mut seen)) = self.look(id) {
                let _ = seen.wait_for(|seen| seen.gone).await;
            }
        }
    }

    /// Where the data plane of that id is, for people.
    pub(crate) fn kubeconfig(root: &Path, id: &str) -> PathBuf {
        Place::new(root.join("planes").join(id)).kubernetes().join("kubeconfig")
    }
}

impl Provider for Local {
    fn create<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, String> {
        Box::pin(async {
            let place = self.place(&plane.id)?;
            let desired = match place.desired()? {
                Some(desired) => desired,
                None => {
                    let desired = Desired::new(plane.nodes.min(NODES_MAX), plane.multi_az);
                    place.write_desired(&desired)?;
                    desired
                }
            };
            self.keep(&plane.id, place, desired);
            Ok(plane.id.clone())
        })
    }

    fn progress<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, Progress> {
        Box::pin(async {
            let (_, seen) = self.look(&plane.id)?;
            let there = seen.borrow().installed;
            Ok(if there { Progress::There } else { Progress::Coming })
        })
    }

    fn install_agent<'a>(&'a self, plane: &'a PlaneRef, access: &'a AgentAccess) -> Answer<'a, ()> {
        Box::pin(async {
            let manager = access.manager.clone();
            self.change(&plane.id, |desired| desired.manager = Some(manager.clone()))?;
            let (_, mut seen) = self.look(&plane.id)?;
            // Whoever asks has a deadline; the keeper goes on if it is over.
            let done = seen.wait_for(|seen| seen.agent_of.as_deref() == Some(manager.as_str()));
            done.await.map_err(|_| LocalError::Ended)?;
            Ok(())
        })
    }

    fn nodes<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, NodeCounts> {
        Box::pin(async {
            let (desired, seen) = self.look(&plane.id)?;
            let actual = seen.borrow().nodes.ok_or(LocalError::NotCounted)?;
            Ok(NodeCounts::new(desired.nodes, actual))
        })
    }

    fn set_nodes<'a>(&'a self, plane: &'a PlaneRef, nodes: u32) -> Answer<'a, ()> {
        Box::pin(async move {
            if nodes > NODES_MAX {
                return Err(LocalError::TooMany.into());
            }
            self.change(&plane.id, |desired| desired.nodes = nodes)
        })
    }

    fn delete<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, bool> {
        Box::pin(async {
            let place = self.place(&plane.id)?;
            let Some(desired) = place.desired()? else { return Ok(true) };
            // Its keeper may have ended before the directory was gone.
            self.keep(&plane.id, place, desired);
            self.change(&plane.id, |desired| desired.deleting = true)?;
            Ok(false)
        })
    }
}
