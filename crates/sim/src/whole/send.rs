//! The function that is replaced: sends one typed act to the simulated world, and answers as Kubernetes and Kafka would.

use control::cluster::act::{Act, What};
use control::cluster::snapshot::ObjectKind;
use control::quorum::answer::Answer;
use control::rebalance::auto;
use control::rolling::config::Change;
use control::scaling::pool;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use model::{DirectoryId, NodeId};
use objects::State;
use objects::found::FoundPool;
use serde_json::{Value, json};

use super::forward::{Applied, Removal, Trace};
use super::invariants::Invariant;
use super::kafka::CORDON;
use super::kubernetes::{Denied, Kubernetes};
use super::operator::{CALL_MS, Operator, Work};
use super::sabotage::Sabotage;
use super::world::{OperatorId, World};

/// What an act was answered.
pub(crate) type Answered = (Answer, Option<String>);

/// Who sends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender {
    /// The operator.
    pub(crate) operator: OperatorId,
    /// Until when it knows that it leads.
    pub(crate) fence_ms: u64,
    /// What it does wrong.
    pub(crate) sabotage: Sabotage,
}

/// What becomes of an act on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It does not arrive, and there is no answer.
    Act,
    /// It takes effect, and the answer is lost.
    Answer,
    /// It is refused.
    Refused,
    /// The node that was asked does not lead.
    NotLeader,
    /// It arrives after another writer has changed the object.
    Conflict,
}

const DONE: Answered = (Answer::Done, None);

/// How an act is called in the coverage.
#[must_use]
pub(crate) const fn name(what: &What) -> &'static str {
    match what {
        What::AddVoter { .. } => "AddVoter",
        What::RemoveVoter { .. } => "RemoveVoter",
        What::Unregister { .. } => "Unregister",
        What::Cordon { .. } => "Cordon",
        What::Uncordon { .. } => "Uncordon",
        What::DeleteClaim { .. } => "DeleteClaim",
        What::Delete { .. } => "Delete",
        What::RaiseKraftVersion { .. } => "RaiseKraftVersion",
        What::RemoveMigrationAnnotation => "RemoveMigrationAnnotation",
        What::ChangeMetadataVersion { .. } => "ChangeMetadataVersion",
        What::RestartPod { .. } => "RestartPod",
        What::AlterNode { .. } => "AlterNode",
        What::AlterCluster { .. } => "AlterCluster",
        What::ElectPreferred { .. } => "ElectPreferred",
        What::ClearRestartRequest { .. } => "ClearRestartRequest",
        What::Apply(_) => "Apply",
        What::ShrinkPodSet { .. } => "ShrinkPodSet",
        What::ChangeAuthority { .. } => "ChangeAuthority",
        What::PublishTrust => "PublishTrust",
        What::StoreOperatorCertificate => "StoreOperatorCertificate",
        What::StoreCertificate { .. } => "StoreCertificate",
        What::Rebalance(_) => "Rebalance",
        What::StopUnclaimedMoves => "StopUnclaimedMoves",
        What::RememberCredential { .. } => "RememberCredential",
        What::SetCredential { .. } => "SetCredential",
        What::DeleteCredential { .. } => "DeleteCredential",
        What::ReleaseUser { .. } => "ReleaseUser",
    }
}

/// Whether an act is only sent while the Lease lasts: deletions and changes in Kafka.
const fn is_fenced(what: &What) -> bool {
    !matches!(
        what,
        What::Apply(_)
            | What::ShrinkPodSet { .. }
            | What::ClearRestartRequest { .. }
            | What::RemoveMigrationAnnotation
            | What::Rebalance(_)
    )
}

/// Whether an act goes to Kafka, whose answers can be lost.
const fn is_for_kafka(what: &What) -> bool {
    matches!(
        what,
        What::AddVoter { .. }
            | What::RemoveVoter { .. }
            | What::Unregister { .. }
            | What::Cordon { .. }
            | What::Uncordon { .. }
            | What::RaiseKraftVersion { .. }
            | What::ChangeMetadataVersion { .. }
            | What::AlterNode { .. }
            | What::AlterCluster { .. }
            | What::ElectPreferred { .. }
    )
}

impl World {
    /// Sends an act.
    pub(crate) fn send(
        &mut self,
        sender: Sender,
        work: &Work,
        act: &Act,
    ) -> Result<Answered, Denied> {
        let what = &act.what;
        if sender.sabotage == Sabotage::SendsNothing
            && matches!(
                what,
                What::Uncordon { .. } | What::Unregister { .. } | What::RestartPod { .. }
            )
        {
            return Ok(DONE);
        }
        if let (Sabotage::Unregisters, What::RestartPod { id, .. }) = (sender.sabotage, what) {
            self.check_act(sender.operator, &What::Unregister { id: *id });
        }
        if let (Sabotage::DeletesClaims, What::RestartPod { pod, .. }) = (sender.sabotage, what) {
            let name = format!("data-{pod}");
            let claim = self.kubernetes.found.claims.get(&name);
            let uid = claim.and_then(|claim| claim.metadata.uid.clone()).unwrap_or_default();
            self.check_act(sender.operator, &What::DeleteClaim { name, uid });
        }
        let is_open =
            sender.sabotage == Sabotage::NoFence || self.now_ms + CALL_MS <= sender.fence_ms;
        if is_fenced(what) && !is_open {
            self.coverage.count("act not sent: the Lease expires");
            return Ok((
                Answer::NotSent,
                Some("lease expires before the call could complete".to_owned()),
            ));
        }
        self.coverage.count(format!("act {}", name(what)));
        if is_for_kafka(what) {
            self.coverage.count("acts on Kafka");
        }
        self.coverage.count(format!("rule {:?}", act.rule));
        let operator = sender.operator;
        self.note(|| format!("operator {operator}: {what}"));
        let loss = self.take_loss();
        if let Some(loss) = loss {
            self.coverage.count(format!("fault {loss:?} lost"));
            self.note(|| format!("  lost: {loss:?}"));
        }
        match (loss, is_for_kafka(what)) {
            (Some(Loss::Act), true) => return Ok((Answer::Unknown, None)),
            (Some(Loss::NotLeader), true) => return Ok((Answer::NotLeader, None)),
            (Some(Loss::Refused), true) => {
                return Ok((Answer::Refused, Some("refused".to_owned())));
            }
            (Some(Loss::Act | Loss::Refused | Loss::NotLeader), false) => {
                return Err(Denied::Failed);
            }
            (Some(Loss::Conflict), _) => self.touch(),
            (Some(Loss::Answer) | None, _) => {}
        }
        if is_fenced(what) {
            self.check_act(operator, what);
        }
        let applied = self.trace.is_some().then(|| self.applied(work, what)).flatten();
        let answered = self.carry_out(sender, work, what)?;
        self.trace(|| Trace::Act { what: what.clone(), applied });
        self.coverage.count(format!("answer {:?}", answered.0));
        match (loss, is_for_kafka(what)) {
            (Some(Loss::Answer), true) => Ok((Answer::Unknown, None)),
            (Some(Loss::Answer), false) => Err(Denied::Failed),
            _ => Ok(answered),
        }
    }

    /// Another writer changes all objects.
    fn touch(&mut self) {
        let version = self.kubernetes.version + 1;
        let found = self.kubernetes.edit();
        let meta = found.pod_sets.values_mut().map(|one| &mut one.metadata);
        let meta = meta.chain(found.config_maps.values_mut().map(|one| &mut one.metadata));
        let meta = meta.chain(found.pods.values_mut().map(|one| &mut one.metadata));
        for one in meta.chain(found.claims.values_mut().map(|one| &mut one.metadata)) {
            one.resource_version = Some(version.to_string());
        }
    }

    fn carry_out(&mut self, sender: Sender, work: &Work, what: &What) -> Result<Answered, Denied> {
        let before = &work.found;
        let tied = sender.sabotage != Sabotage::NoVersions;
        match what {
            What::Apply(key) => {
                let mut changes = work.objects.changes.iter();
                let Some((object, compared)) = changes.find(|(object, _)| object.key() == *key)
                else {
                    return Ok((Answer::NotSent, None));
                };
                let differs = self.kubernetes.apply((object, compared), before, tied)?;
                if differs {
                    let text = format!("operator {} applies {}", sender.operator, key.name);
                    self.violate(Invariant::SuccessorIsNotOverwritten, text);
                }
            }
            What::ShrinkPodSet { name } => self.shrink(work, name)?,
            What::DeleteClaim { name, uid } => {
                self.kubernetes.delete(ObjectKind::PersistentVolumeClaim, (name, uid), before)?;
                let gone = !self.kubernetes.found.claims.contains_key(name);
                if gone {
                    self.disks.remove(uid);
                    self.copies.remove(uid);
                }
            }
            What::Delete { kind, name, uid } => {
                self.kubernetes.delete(*kind, (name, uid), before)?
            }
            What::RestartPod { id, pod, uid, .. } => {
                self.kubernetes.delete_pod((pod, uid), before, tied)?;
                self.restarted_ms.insert(*id, self.now_ms);
            }
            What::ClearRestartRequest { pool } => self.clear_restart_request(work, pool),
            What::Rebalance(act) => {
                self.change_rebalance(act);
                if let (Sabotage::CreatesBoth, auto::Act::Create { mode, brokers, round }) =
                    (sender.sabotage, act)
                {
                    let (mode, brokers, round) = (mode.other(), brokers.clone(), *round);
                    self.change_rebalance(&auto::Act::Create { mode, brokers, round });
                }
            }
            What::StopUnclaimedMoves => self.kafka.cancel_moves(),
            What::StoreCertificate { id } => self.store_certificate(work, *id),
            What::PublishTrust => self.publish_trust(),
            What::RemoveMigrationAnnotation => self.remove_migration_annotation(),
            What::AddVoter { id, directory, .. } => {
                return Ok(self.add_voter(what, *id, *directory));
            }
            What::RemoveVoter { id, directory } => {
                return Ok(self.remove_voter(what, *id, *directory));
            }
            What::Unregister { .. }
            | What::Cordon { .. }
            | What::Uncordon { .. }
            | What::ChangeMetadataVersion { .. }
            | What::AlterNode { .. }
            | What::AlterCluster { .. }
            | What::RaiseKraftVersion { .. }
            | What::ElectPreferred { .. } => return Ok(self.change_kafka(what)),
            What::ChangeAuthority { .. }
            | What::StoreOperatorCertificate
            | What::RememberCredential { .. }
            | What::SetCredential { .. }
            | What::DeleteCredential { .. }
            | What::ReleaseUser { .. } => {
                return Ok((Answer::NotSent, Some("not simulated".to_owned())));
            }
        }
        Ok(DONE)
    }

    /// What becomes of an object that is applied.
    fn applied(&self, work: &Work, what: &What) -> Option<Applied> {
        if let What::RemoveVoter { id, directory } = what {
            let removal = match self.kafka.processes.get(id) {
                None => Removal::Down,
                Some(one) if one.directory != *directory => Removal::DiskReplaced,
                Some(_) => Removal::Unwanted,
            };
            return Some(Applied { exists: true, grows: None, removal: Some(removal) });
        }
        let What::Apply(key) = what else { return None };
        let mut changes = work.objects.changes.iter();
        let (_, compared) = changes.find(|(object, _)| object.key() == *key)?;
        let size = |claim: &PersistentVolumeClaim| {
            let resources = claim.spec.as_ref()?.resources.as_ref()?;
            Some(resources.requests.as_ref()?.get("storage")?.0.clone())
        };
        let before = self.kubernetes.found.claims.get(&key.name).and_then(size);
        let request = &compared.sent["spec"]["resources"]["requests"]["storage"];
        let grows = match (before, request.as_str()) {
            (Some(from), Some(to)) if from != to => Some((from, to.to_owned())),
            _ => None,
        };
        Some(Applied { exists: compared.state == State::Differs, grows, removal: None })
    }

    fn publish_trust(&mut self) {
        if let Some((authorities, _)) = self.keys.as_mut().and_then(|keys| keys.views.as_mut()) {
            authorities.published = true;
        }
    }

    fn remove_migration_annotation(&mut self) {
        let mut kafka = (*self.kubernetes.kafka).clone();
        if let Some(annotations) = kafka["metadata"]["annotations"].as_object_mut() {
            annotations.remove(control::quorum::migrate::ANNOTATION);
        }
        self.kubernetes.writes += 1;
        self.kubernetes.write_kafka(kafka);
    }

    fn store_certificate(&mut self, work: &Work, id: NodeId) {
        let Some(node) = work.blueprint.nodes.iter().find(|node| node.id == id) else { return };
        let (pod, now_ms) = (work.blueprint.pod(node), self.now_ms);
        if let Some(keys) = &mut self.keys {
            keys.store(id, &pod, now_ms);
            self.kubernetes.version += 1;
            self.kubernetes.writes += 1;
        }
    }

    fn shrink(&mut self, work: &Work, name: &str) -> Result<(), Denied> {
        let mut orphans = work.objects.orphans.iter();
        let Some(orphan) = orphans.find(|orphan| orphan.set.name_any() == name) else {
            return Ok(());
        };
        let version = |set: &api::StrimziPodSet| set.resource_version();
        let current = self.kubernetes.found.pod_sets.get(name);
        if current.and_then(version) != version(&orphan.set) {
            return Err(Denied::Conflict);
        }
        let pods = serde_json::from_value(orphan.patch["spec"]["pods"].clone())
            .map_err(|_| Denied::Failed)?;
        let next = self.kubernetes.version + 1;
        self.kubernetes.writes += 1;
        if let Some(set) = self.kubernetes.edit().pod_sets.get_mut(name) {
            set.spec.pods = pods;
            set.metadata.resource_version = Some(next.to_string());
        }
        Ok(())
    }

    fn clear_restart_request(&mut self, work: &Work, pool: &str) {
        let name = work.blueprint.names.pod_set(pool);
        let next = self.kubernetes.version + 1;
        self.kubernetes.writes += 1;
        if let Some(set) = self.kubernetes.edit().pod_sets.get_mut(&name) {
            let restart = control::annotations::Annotation::ManualRollingUpdate.name();
            set.metadata.annotations.get_or_insert_default().remove(restart);
            set.metadata.resource_version = Some(next.to_string());
        }
    }

    /// A controller of Kafka answers requests to change voters in this order of checks.
    fn voter_change(&self) -> Option<Answer> {
        let quorum = &self.kafka.quorum;
        if self.now_ms < self.silent_until_ms || quorum.leader.is_none() {
            return Some(Answer::Unknown);
        }
        if quorum.high_watermark.is_none() || quorum.is_changing() {
            return Some(Answer::Unknown);
        }
        (self.kafka.kraft_level == 0).then_some(Answer::StaticQuorum)
    }

    fn add_voter(&mut self, what: &What, id: NodeId, directory: DirectoryId) -> Answered {
        if let Some(answer) = self.voter_change() {
            return (answer, None);
        }
        let mut voters = self.kafka.quorum.voters();
        if voters.contains_key(&id) {
            return (Answer::Duplicate, None);
        }
        let seen = self.kafka.quorum.seen.get(&(id, directory));
        let caught_up = seen.and_then(|seen| seen.caught_up_ms);
        let runs = self
            .kafka
            .processes
            .get(&id)
            .is_some_and(|one| one.is_well(self.now_ms) && one.answers(self.now_ms));
        if !runs || caught_up.is_none_or(|at| self.now_ms.saturating_sub(at) > 30_000) {
            return (Answer::Unknown, None);
        }
        voters.insert(id, directory);
        self.kafka.quorum.change(voters);
        self.check_voters(what);
        DONE
    }

    fn remove_voter(&mut self, what: &What, id: NodeId, directory: DirectoryId) -> Answered {
        if let Some(answer) = self.voter_change() {
            return (answer, None);
        }
        let mut voters = self.kafka.quorum.voters();
        if voters.get(&id) != Some(&directory) || voters.len() == 1 {
            return (Answer::NotFound, None);
        }
        voters.remove(&id);
        self.kafka.quorum.change(voters);
        self.check_voters(what);
        DONE
    }

    fn change_kafka(&mut self, what: &What) -> Answered {
        let quorum = &self.kafka.quorum;
        if self.now_ms < self.silent_until_ms
            || quorum.leader.is_none()
            || quorum.high_watermark.is_none()
        {
            return (Answer::Unknown, None);
        }
        match what {
            What::Unregister { id } => {
                if !self.kafka.metadata.brokers.contains_key(id) {
                    return (Answer::NotFound, None);
                }
                std::rc::Rc::make_mut(&mut self.kafka.metadata).brokers.remove(id);
            }
            What::Cordon { id } | What::Uncordon { id } => {
                if self.kafka.metadata.brokers.get(id).is_none_or(|one| one.fenced) {
                    return (Answer::Refused, Some("the broker does not run".to_owned()));
                }
                let settings = self.kafka.of_nodes.entry(*id).or_default();
                if matches!(what, What::Cordon { .. }) {
                    settings.insert(CORDON.to_owned(), "*".to_owned());
                } else {
                    settings.remove(CORDON);
                }
            }
            What::ChangeMetadataVersion { level, .. } => {
                if self.kafka.processes.values().any(|one| newest_level(one.version) < *level) {
                    return (Answer::Refused, Some("a node does not support it".to_owned()));
                }
                self.kafka.metadata_level = *level;
            }
            What::RaiseKraftVersion { level } => self.kafka.kraft_level = *level,
            What::AlterNode { id, changes } => {
                alter(self.kafka.of_nodes.entry(*id).or_default(), changes);
            }
            What::AlterCluster { changes } => alter(&mut self.kafka.of_cluster, changes),
            What::ElectPreferred { partitions } => {
                let metadata = std::rc::Rc::make_mut(&mut self.kafka.metadata);
                for name in partitions {
                    let Some(one) = metadata.edit().get_mut(name) else { continue };
                    let preferred = one.replicas.first().copied();
                    if preferred.is_some_and(|id| one.isr.contains(&id)) {
                        one.leader = preferred;
                    }
                }
            }
            What::AddVoter { .. }
            | What::RemoveVoter { .. }
            | What::DeleteClaim { .. }
            | What::Delete { .. }
            | What::RemoveMigrationAnnotation
            | What::RestartPod { .. }
            | What::ClearRestartRequest { .. }
            | What::Apply(_)
            | What::ShrinkPodSet { .. }
            | What::ChangeAuthority { .. }
            | What::PublishTrust
            | What::StoreOperatorCertificate
            | What::StoreCertificate { .. }
            | What::Rebalance(_)
            | What::StopUnclaimedMoves
            | What::RememberCredential { .. }
            | What::SetCredential { .. }
            | What::DeleteCredential { .. }
            | What::ReleaseUser { .. } => return (Answer::NotSent, None),
        }
        DONE
    }
}

/// The newest level of `metadata.version` that a version of Kafka supports.
const fn newest_level((_, minor): (u32, u32)) -> i16 {
    match minor {
        0 => 25,
        1 => 27,
        2 => 29,
        _ => 30,
    }
}

fn alter(settings: &mut std::collections::BTreeMap<String, String>, changes: &[Change]) {
    for change in changes {
        match change {
            Change::Set(key, value) => drop(settings.insert(key.clone(), value.clone())),
            Change::Delete(key) => drop(settings.remove(key)),
        }
    }
}

impl Operator {
    /// Puts the finalizer on pools, and removes it from those that have no node left.
    pub(crate) fn tell_pools(&self, world: &mut World, work: &Work) -> Result<(), Denied> {
        for one in &work.found.pools {
            let name = one.pool.name_any();
            let deleting = one.pool.metadata.deletion_timestamp.is_some();
            let recorded = work.record.pools.get(&name).map_or(0, std::collections::BTreeMap::len);
            let label = api::names::POOL_LABEL;
            let pods =
                work.found.pods.values().filter(|pod| pod.labels().get(label) == Some(&name));
            let facts = pool::Facts {
                deleting,
                has_finalizer: one.pool.finalizers().iter().any(|one| one == pool::FINALIZER),
                cluster: pool::Cluster::Present,
                namespace_deleting: deleting.then_some(false),
                nodes_left: Some(recorded.max(pods.count())),
            };
            match pool::decide(&facts) {
                pool::Decision::Keep | pool::Decision::Drain(_) => {}
                pool::Decision::Protect => write_pool(world, one, &json!([pool::FINALIZER])),
                pool::Decision::Release => {
                    world.coverage.count("pool released");
                    world.kubernetes.writes += 1;
                    world.kubernetes.edit().pools.retain(|other| other.pool.name_any() != name);
                }
            }
        }
        Ok(())
    }
}

fn write_pool(world: &mut World, pool: &FoundPool, finalizers: &Value) {
    let mut written = pool.written.clone();
    written["metadata"]["finalizers"] = finalizers.clone();
    world.kubernetes.writes += 1;
    world.kubernetes.write_pool(written);
}

impl Kubernetes {
    /// A pool is written.
    pub(crate) fn write_pool(&mut self, mut written: Value) {
        let version = self.version + 1;
        written["metadata"]["resourceVersion"] = json!(version.to_string());
        let Some(pool) = Self::pool(written) else { return };
        let name = pool.pool.name_any();
        let pools = &mut self.edit().pools;
        match pools.iter_mut().find(|one| one.pool.name_any() == name) {
            Some(one) => *one = pool,
            None => pools.push(pool),
        }
        pools.sort_by_key(|one| one.pool.name_any());
    }
}
