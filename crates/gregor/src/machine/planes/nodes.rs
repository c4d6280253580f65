//! The nodes of a local data plane: kubelets that join and leave.
//!
//! 1. A node is recorded before it is started and forgotten after it has left, so that none runs that the
//!    next manager would not know of.
//! 2. Only a node without volumes leaves. That is looked at before it is drained and again afterwards, as a
//!    pod may have come in the moment before it was closed; if one has, the node stays.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use local::control_plane::ControlPlane;
use local::kubelet::{Error as KubeletError, Kubelet};
use local::storage::{NodeVolumes, Provisioner};
use tokio::task::JoinHandle;

use super::Common;
use super::record::{Desired, NodePhase, NodeRecord, Place};
use crate::machine::One;

/// How long one attempt to drain a node may take. Other work of the data plane waits for it.
const DRAIN: Duration = Duration::from_secs(40);

/// The node that the scheduler has chosen for a claim.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Zones of a data plane that is in several.
const ZONES: u8 = 3;

/// The nodes of one data plane.
pub(super) struct Nodes {
    place: Place,
    common: Arc<Common>,
    record: NodeRecord,
    running: BTreeMap<u8, Kubelet>,
    /// Makes volumes on the nodes that it was started for.
    provisioner: Option<(Vec<u8>, JoinHandle<()>)>,
}

impl Nodes {
    /// None of them runs yet.
    pub(super) fn new(place: Place, common: Arc<Common>) -> anyhow::Result<Self> {
        let record = place.nodes().context("cannot read the list of nodes")?;
        Ok(Self { place, common, record, running: BTreeMap::new(), provisioner: None })
    }

    /// How many there are, with those that are going.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.running.len()).unwrap_or(u32::MAX)
    }

    /// Whether all that are recorded run.
    pub(super) fn all_started(&self) -> bool {
        !self.record.is_empty()
            && self.record.keys().all(|number| self.running.contains_key(number))
    }

    /// Starts what is recorded and does not run, and as many more as are desired.
    pub(super) async fn start(
        &mut self,
        plane: &ControlPlane,
        desired: &Desired,
    ) -> anyhow::Result<()> {
        let wanted = usize::try_from(desired.nodes).unwrap_or(usize::MAX);
        // One that was to go and is desired again stays.
        for number in self.leaving() {
            if self.members() < wanted && self.running.contains_key(&number) {
                self.keep(&plane.client(), number).await?;
            }
        }
        while self.members() < wanted {
            let free = (1..=u8::MAX).find(|number| !self.record.contains_key(number));
            let number = free.context("no address is left for another node")?;
            self.set(number, Some(NodePhase::Member))?;
        }
        let missing: Vec<u8> =
            self.record.keys().filter(|one| !self.running.contains_key(one)).copied().collect();
        for number in missing {
            let kubelet = self.start_one(plane, number, desired.multi_az).await;
            let kubelet = kubelet.with_context(|| format!("cannot start {}", name(number)))?;
            self.running.insert(number, kubelet);
        }
        self.provision(plane);
        Ok(())
    }

    async fn start_one(
        &self,
        plane: &ControlPlane,
        number: u8,
        multi_az: bool,
    ) -> anyhow::Result<Kubelet> {
        let (name, dir) = (name(number), self.dir(number));
        let zone = if multi_az { (number - 1) % ZONES + 1 } else { 1 };
        let one = One {
            number,
            name: &name,
            dir: &dir,
            zone: format!("zone-{zone}"),
            capacity: self.common.capacity.clone(),
            images: &self.common.images,
        };
        one.start(plane, &self.common.own).await
    }

    /// Makes nodes that are too many leave, as far as they can.
    pub(super) async fn let_go(
        &mut self,
        plane: &ControlPlane,
        desired: &Desired,
    ) -> anyhow::Result<()> {
        let client = plane.client();
        let wanted = usize::try_from(desired.nodes).unwrap_or(usize::MAX);
        let surplus = self.members().saturating_sub(wanted);
        if surplus > 0 {
            for number in self.candidates(&client).await?.into_iter().take(surplus) {
                self.set(number, Some(NodePhase::Leaving))?;
            }
        }
        for number in self.leaving() {
            self.leave(&client, number).await?;
        }
        self.provision(plane);
        Ok(())
    }

    /// Nodes that may go: those with the fewest pods first, and of these the last that came.
    async fn candidates(&self, client: &Client) -> anyhow::Result<Vec<u8>> {
        let held = held(client).await?;
        let pods = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await?;
        let on = |name: &str| {
            let here = |pod: &&Pod| {
                pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(name)
            };
            pods.items.iter().filter(here).count()
        };
        let members = self.record.iter().filter(|(_, phase)| **phase == NodePhase::Member);
        let mut free: Vec<_> = members
            .map(|(number, _)| (*number, name(*number)))
            .filter(|(_, name)| !held.contains(name))
            .map(|(number, name)| (on(&name), u8::MAX - number, number))
            .collect();
        free.sort_unstable();
        Ok(free.into_iter().map(|(_, _, number)| number).collect())
    }

    async fn leave(&mut self, client: &Client, number: u8) -> anyhow::Result<()> {
        let name = name(number);
        let Some(kubelet) = self.running.get(&number) else { return Ok(()) };
        Api::<Node>::all(client.clone()).cordon(&name).await.context("cannot cordon a node")?;
        if held(client).await?.contains(&name) {
            return self.keep(client, number).await;
        }
        match kubelet.drain(DRAIN).await {
            Ok(()) => {}
            Err(KubeletError::NotDrained(pods)) => {
                tracing::info!(node = name, ?pods, "not drained yet");
                return Ok(());
            }
            Err(error) => return Err(error).context("cannot drain a node"),
        }
        if held(client).await?.contains(&name) {
            return self.keep(client, number).await;
        }
        if let Some(kubelet) = self.running.remove(&number) {
            kubelet.leave(client, DRAIN).await.context("cannot remove a node")?;
        }
        match fs::remove_dir_all(self.dir(number)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).context("cannot remove what a node has left");
            }
            _ => {}
        }
        self.set(number, None)
    }

    /// A node that was to go stays.
    async fn keep(&mut self, client: &Client, number: u8) -> anyhow::Result<()> {
        let nodes = Api::<Node>::all(client.clone());
        nodes.uncordon(&name(number)).await.context("cannot uncordon a node")?;
        self.set(number, Some(NodePhase::Member))
    }

    /// Volumes are made on the nodes that run.
    fn provision(&mut self, plane: &ControlPlane) {
        let numbers: Vec<u8> = self.running.keys().copied().collect();
        match &self.provisioner {
            Some((of, task)) if *of == numbers && !task.is_finished() => return,
            // It may be dropped at any moment.
            Some((_, task)) => task.abort(),
            None => {}
        }
        let volumes = numbers.iter().map(|one| NodeVolumes::new(name(*one), self.dir(*one)));
        let provisioner = Provisioner::new(plane.client(), volumes.collect());
        let task = tokio::spawn(async move {
            let Err(error) = provisioner.run().await;
            tracing::error!(%error, "volumes are no longer provisioned");
        });
        self.provisioner = Some((numbers, task));
    }

    /// Ends the nodes in order, while the control plane still runs. The next start continues their pods.
    pub(super) async fn stop(self) {
        // Together: each may take as long as the slowest of its pods.
        futures::future::join_all(self.running.into_values().map(Kubelet::stop)).await;
        if let Some((_, task)) = self.provisioner {
            task.abort();
        }
    }

    fn members(&self) -> usize {
        self.record.values().filter(|phase| **phase == NodePhase::Member).count()
    }

    fn leaving(&self) -> Vec<u8> {
        let leaving = self.record.iter().filter(|(_, phase)| **phase == NodePhase::Leaving);
        leaving.map(|(number, _)| *number).collect()
    }

    fn set(&mut self, number: u8, phase: Option<NodePhase>) -> anyhow::Result<()> {
        match phase {
            Some(phase) => self.record.insert(number, phase),
            None => self.record.remove(&number),
        };
        self.place.write_nodes(&self.record).context("cannot write the list of nodes")
    }

    fn dir(&self, number: u8) -> std::path::PathBuf {
        self.place.kubernetes().join("nodes").join(name(number))
    }
}

fn name(number: u8) -> String {
    format!("node-{number}")
}

/// The nodes that have volumes on them, or are about to get one.
async fn held(client: &Client) -> anyhow::Result<Vec<String>> {
    let all = ListParams::default();
    let volumes = Api::<PersistentVolume>::all(client.clone()).list(&all).await?;
    let mut names: Vec<String> = volumes.items.iter().flat_map(nodes_of).collect();
    let claims = Api::<PersistentVolumeClaim>::all(client.clone()).list(&all).await?;
    let chosen = claims.items.iter().filter_map(|claim| claim.annotations().get(SELECTED_NODE));
    names.extend(chosen.cloned());
    Ok(names)
}

fn nodes_of(volume: &PersistentVolume) -> Vec<String> {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let terms = affinity.and_then(|one| one.required.as_ref()).map(|one| &one.node_selector_terms);
    let rules =
        terms.into_iter().flatten().flat_map(|term| term.match_expressions.iter().flatten());
    rules.flat_map(|rule| rule.values.iter().flatten().cloned()).collect()
}
