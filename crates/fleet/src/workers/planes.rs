//! Data planes, from their creation to their end.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet_control::{
    Candidate, CreationReason, KafkaStatus, PlaneInRegion, PlaneState, RegionFacts,
    confirm_removal, give, place, plan_creation, plan_removals,
};

use futures::TryFutureExt as _;

use super::kafkas::waits;
use super::{Work, WorkError, Workers, plane_ref};
use crate::config::Region;
use crate::facts::NodeRules;
use crate::provider::{AgentAccess, Progress, Provider, ProviderError, STANDALONE, Standalone};
use crate::store::{
    DecisionKind, DecisionsAbout, NewDecision, NewPlane, Plane, PlaneFilter, new_id, now_ms,
};

/// The steps of the way out that are done, as they are stored.
const CONFIRMED: &str = "confirmed";
const IDENTITY: &str = "identity";
const ACCOUNT: &str = "account";

impl Workers {
    pub(super) fn provider(&self, name: &str) -> Result<Arc<dyn Provider>, WorkError> {
        if name == STANDALONE {
            return Ok(Arc::new(Standalone));
        }
        let found = self.providers.get(name).cloned();
        found.ok_or_else(|| WorkError::NoProvider(name.to_owned()))
    }

    pub(super) async fn reconcile_planes(&self, mut work: Work<'_>) -> Result<(), WorkError> {
        for plane in self.store.planes(&PlaneFilter::default()).await? {
            let id = plane.id.clone();
            match self.further(&mut work, plane).await {
                Ok(()) => {}
                Err(WorkError::LeaseLost) => return Err(WorkError::LeaseLost),
                Err(error) => {
                    tracing::warn!(plane = id, error = %crate::chain(&error), "not yet");
                }
            }
        }
        for provider in &self.config.cloud_providers {
            for region in &provider.regions {
                self.reconcile_region(&work, &provider.id, region).await?;
            }
        }
        Ok(())
    }

    /// One step further in the life of a data plane.
    async fn further(&self, work: &mut Work<'_>, plane: Plane) -> Result<(), WorkError> {
        match plane.state() {
            PlaneState::Accepted => self.create(work, plane).await,
            PlaneState::Provisioning => self.wait_for(work, plane).await,
            PlaneState::Provisioned => self.install(work, plane).await,
            PlaneState::Deprovisioning => self.deprovision(work, plane).await,
            PlaneState::Cleanup => self.clean_up(work, plane).await,
            PlaneState::WaitingForAgent
            | PlaneState::Ready
            | PlaneState::ScalingUp
            | PlaneState::Full
            | PlaneState::Failed => Ok(()),
        }
    }

    /// The provider is asked first: it makes the same one if asked again, and what it calls it is stored.
    async fn create(&self, work: &mut Work<'_>, plane: Plane) -> Result<(), WorkError> {
        let provider = self.provider(&plane.provider_type)?;
        let spec = plane_ref(&plane);
        let provider_id = work.ask(provider.create(&spec).map_err(ProviderError::Create)).await?;
        self.change(work, &plane, |plane| {
            plane.provider_id = Some(provider_id);
            (PlaneState::Provisioning, "the provider creates it".to_owned())
        })
        .await
    }

    async fn wait_for(&self, work: &mut Work<'_>, plane: Plane) -> Result<(), WorkError> {
        let provider = self.provider(&plane.provider_type)?;
        let spec = plane_ref(&plane);
        match work.ask(provider.progress(&spec).map_err(ProviderError::Progress)).await? {
            Progress::Coming => Ok(()),
            Progress::There => {
                let reason = "the provider reports that it exists".to_owned();
                self.change(work, &plane, |_| (PlaneState::Provisioned, reason)).await
            }
            Progress::Failed(why) => self.change(work, &plane, |_| (PlaneState::Failed, why)).await,
        }
    }

    /// First who the agent is, then the agent. Each of them may be done twice.
    async fn install(&self, work: &mut Work<'_>, plane: Plane) -> Result<(), WorkError> {
        let provider = self.provider(&plane.provider_type)?;
        let spec = plane_ref(&plane);
        work.ask(self.identity.make_client(&plane.id)).await?;
        let credentials = work.ask(self.identity.make_account(&plane.id)).await?;
        let access = AgentAccess { manager: self.config.public_url.clone(), credentials };
        let installed = provider.install_agent(&spec, &access);
        work.ask(installed.map_err(ProviderError::InstallAgent)).await?;
        let reason = "the agent is installed".to_owned();
        self.change(work, &plane, |_| (PlaneState::WaitingForAgent, reason)).await
    }

    /// Confirms the removal, and only then asks the provider, in each round until the data plane is gone.
    async fn deprovision(&self, work: &mut Work<'_>, plane: Plane) -> Result<(), WorkError> {
        if plane.removal.is_none() && !self.confirm(work, &plane).await? {
            return Ok(());
        }
        let provider = self.provider(&plane.provider_type)?;
        let spec = plane_ref(&plane);
        if !work.ask(provider.delete(&spec).map_err(ProviderError::Delete)).await? {
            return Ok(());
        }
        let reason = "the provider reports that it is gone".to_owned();
        self.change(work, &plane, |_| (PlaneState::Cleanup, reason)).await
    }

    /// From the moment this is stored, the data plane does not come back.
    async fn confirm(&self, work: &Work<'_>, plane: &Plane) -> Result<bool, WorkError> {
        let mut facts = self.region_facts(&plane.cloud_provider, &plane.region).await?;
        let mut tx = work.begin().await?;
        let Some(mut held) = tx.plane(&plane.id).await? else { return Ok(false) };
        if held.state() != PlaneState::Deprovisioning {
            return Ok(false);
        }
        // Nothing is placed on a data plane while its row is held.
        let kafkas = tx.kafkas_on(&plane.id).await?;
        facts
            .planes
            .iter_mut()
            .filter(|one| one.id == plane.id)
            .for_each(|one| one.kafkas = kafkas);
        let removal = confirm_removal(&facts, &plane.id, held.removed_by_hand);
        if removal.remove {
            held.removal = Some(CONFIRMED.to_owned());
        } else {
            let reason = removal.reason.to_string();
            held.removed_by_hand = false;
            let because = (removal.reason.code(), reason.as_str());
            tx.change_state(DecisionKind::State, &mut held, PlaneState::Ready, because).await?;
        }
        tx.save_plane(&held).await?;
        tx.commit().await?;
        Ok(removal.remove)
    }

    /// First what it has elsewhere, and itself last: what is forgotten cannot be cleaned up.
    async fn clean_up(&self, work: &mut Work<'_>, mut plane: Plane) -> Result<(), WorkError> {
        let done = |plane: &Plane, step: &str| plane.removal.as_deref() == Some(step);
        if !done(&plane, IDENTITY) && !done(&plane, ACCOUNT) {
            work.ask(self.identity.remove_client(&plane.id)).await?;
            self.remember_step(work, &mut plane, IDENTITY).await?;
        }
        if !done(&plane, ACCOUNT) {
            work.ask(self.identity.remove_account(&plane.id)).await?;
            self.remember_step(work, &mut plane, ACCOUNT).await?;
        }
        let mut tx = work.begin().await?;
        tx.delete_plane(&plane.id).await?;
        tx.decide(NewDecision {
            plane: Some(&plane.id),
            region: None,
            kind: DecisionKind::Remove,
            was: plane.state().to_string(),
            becomes: "deleted".to_owned(),
            code: "Gone",
            reason: "it is deleted completely".to_owned(),
            dry_run: false,
        })
        .await?;
        tx.commit().await?;
        Ok(())
    }

    async fn remember_step(
        &self,
        work: &Work<'_>,
        plane: &mut Plane,
        step: &str,
    ) -> Result<(), WorkError> {
        plane.removal = Some(step.to_owned());
        let mut tx = work.begin().await?;
        if let Some(mut held) = tx.plane(&plane.id).await? {
            held.removal.clone_from(&plane.removal);
            tx.save_plane(&held).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Changes a data plane that is still in the state in which it was looked at.
    async fn change(
        &self,
        work: &Work<'_>,
        seen: &Plane,
        change: impl FnOnce(&mut Plane) -> (PlaneState, String),
    ) -> Result<(), WorkError> {
        let mut tx = work.begin().await?;
        let Some(mut held) = tx.plane(&seen.id).await? else { return Ok(()) };
        if held.state() != seen.state() {
            // Somebody deleted it meanwhile. What the provider calls it is needed for that.
            if held.provider_id.is_none() {
                change(&mut held);
                tx.save_plane(&held).await?;
                tx.commit().await?;
            }
            return Ok(());
        }
        let (state, reason) = change(&mut held);
        // What became of it at the provider.
        tx.change_state(DecisionKind::State, &mut held, state, ("Progress", &reason)).await?;
        tx.save_plane(&held).await?;
        tx.commit().await?;
        self.wake.notify_waiters();
        Ok(())
    }

    async fn reconcile_region(
        &self,
        work: &Work<'_>,
        provider: &str,
        region: &Region,
    ) -> Result<(), WorkError> {
        if region.provider == STANDALONE || self.config.scaling == crate::config::Scaling::Manual {
            // A person decides, so nothing holds the region.
            return self.note_hold(work, (provider, region.id.as_str()), None).await;
        }
        let facts = self.region_facts(provider, &region.id).await?;
        let dry_run = self.dry_run().await?;
        let creation = plan_creation(&facts);
        let held = creation.is_held().then_some(creation.reason);
        self.note_hold(work, (provider, region.id.as_str()), held).await?;
        let place = format!("{provider}/{}", region.id);
        if creation.create {
            let reason = (creation.reason.code(), creation.reason.to_string());
            self.create_in(work, (provider, region), (&place, reason), dry_run).await?;
        }
        for removal in plan_removals(&facts).into_iter().filter(|removal| removal.remove) {
            let reason = (removal.reason.code(), removal.reason.to_string());
            self.begin_removal(work, &removal.id, reason, dry_run).await?;
        }
        Ok(())
    }

    /// Records once that a region does not get the data plane that it needs, and once that it may again.
    async fn note_hold(
        &self,
        work: &Work<'_>,
        (provider, region): (&str, &str),
        why: Option<CreationReason>,
    ) -> Result<(), WorkError> {
        let held = why.map(|why| why.to_string());
        let known = self.store.held_regions().await?;
        let known =
            known.into_iter().find(|one| one.cloud_provider == provider && one.region == region);
        let was = known.map(|one| one.held);
        if was == held {
            return Ok(());
        }
        let (becomes, reason) = match &held {
            Some(reason) => {
                tracing::warn!(
                    provider,
                    region,
                    reason,
                    "the region cannot get another data plane"
                );
                ("held", reason.clone())
            }
            None => ("free", "nothing blocks it any longer".to_owned()),
        };
        let mut tx = work.begin().await?;
        tx.hold_region((provider, region), held.as_deref()).await?;
        tx.decide(NewDecision {
            plane: None,
            region: Some(format!("{provider}/{region}")),
            kind: DecisionKind::Hold,
            was: if was.is_some() { "held" } else { "free" }.to_owned(),
            becomes: becomes.to_owned(),
            code: why.map_or("Free", |why| why.code()),
            reason,
            dry_run: false,
        })
        .await?;
        tx.commit().await?;
        Ok(())
    }

    async fn create_in(
        &self,
        work: &Work<'_>,
        (provider, region): (&str, &Region),
        (place, (code, reason)): (&str, (&'static str, String)),
        dry_run: bool,
    ) -> Result<(), WorkError> {
        if dry_run && self.is_last_decision(place, &reason).await? {
            return Ok(());
        }
        let id = new_id();
        let mut tx = work.begin().await?;
        if !dry_run {
            tx.add_plane(&NewPlane {
                id: id.clone(),
                cloud_provider: provider.to_owned(),
                region: region.id.clone(),
                multi_az: region.multi_az,
                provider_type: region.provider.clone(),
                nodes: region.nodes,
            })
            .await?;
        }
        tx.decide(NewDecision {
            plane: Some(&id).filter(|_| !dry_run).map(String::as_str),
            region: Some(place.to_owned()),
            kind: DecisionKind::Create,
            was: String::new(),
            becomes: PlaneState::Accepted.to_string(),
            code,
            reason,
            dry_run,
        })
        .await?;
        tx.commit().await?;
        self.wake.notify_waiters();
        Ok(())
    }

    /// A dry run decides the same in every round, and says it once.
    async fn is_last_decision(&self, place: &str, reason: &str) -> Result<bool, WorkError> {
        let decisions = self.store.decisions(DecisionsAbout::Region(place), 1).await?;
        Ok(decisions.first().is_some_and(|last| last.dry_run && last.reason == reason))
    }

    async fn begin_removal(
        &self,
        work: &Work<'_>,
        id: &str,
        (code, reason): (&'static str, String),
        dry_run: bool,
    ) -> Result<(), WorkError> {
        let last = self.store.decisions(DecisionsAbout::Plane(id), 1).await?;
        if dry_run && last.first().is_some_and(|last| last.dry_run && last.reason == reason) {
            return Ok(());
        }
        let mut tx = work.begin().await?;
        let Some(mut plane) = tx.plane(id).await? else { return Ok(()) };
        if plane.state() != PlaneState::Ready || tx.kafkas_on(id).await? > 0 {
            return Ok(());
        }
        let next = PlaneState::Deprovisioning;
        if dry_run {
            tx.decide(NewDecision {
                plane: Some(id),
                region: None,
                kind: DecisionKind::Remove,
                was: plane.state().to_string(),
                becomes: next.to_string(),
                code,
                reason,
                dry_run,
            })
            .await?;
        } else {
            tx.change_state(DecisionKind::Remove, &mut plane, next, (code, &reason)).await?;
            tx.save_plane(&plane).await?;
        }
        tx.commit().await?;
        self.wake.notify_waiters();
        Ok(())
    }

    pub(super) async fn region_facts(
        &self,
        provider: &str,
        region: &str,
    ) -> Result<RegionFacts, WorkError> {
        let filter = PlaneFilter {
            region: Some((provider.to_owned(), region.to_owned())),
            ..PlaneFilter::default()
        };
        let planes = self.store.planes(&filter).await?;
        let kafkas: BTreeMap<_, _> = self.store.kafkas_by_plane().await?.into_iter().collect();
        let candidates = self.candidates(&planes).await?;
        let waiting = self.store.kafkas_with_status(KafkaStatus::Accepted).await?;
        let here = waiting
            .iter()
            .filter(|kafka| kafka.cloud_provider == provider && kafka.region == region);
        let waiting: Vec<_> = here.map(waits).collect();
        let given = give(&waiting, &candidates);
        let unplaced = waiting.iter().filter(|one| {
            !given.contains_key(&one.id) && place(&one.request, &candidates).on.is_none()
        });
        let unplaced = unplaced.count() as u64;
        let seen = planes.iter().map(|plane| PlaneInRegion {
            id: plane.id.clone(),
            state: plane.state(),
            multi_az: plane.multi_az,
            kafkas: kafkas.get(&plane.id).copied().unwrap_or(0),
            draining: plane.draining,
            growing: plane.nodes_wanted > plane.nodes_actual,
            unsuitable: !plane.unsuitable.is_empty(),
        });
        let planes_max = self.config.region(provider, region).map_or(0, |one| one.planes_max);
        let waiting = waiting.len() as u64;
        Ok(RegionFacts { planes: seen.collect(), unplaced, waiting, planes_max })
    }

    /// The data planes as places for Kafkas.
    pub(super) async fn candidates(&self, planes: &[Plane]) -> Result<Vec<Candidate>, WorkError> {
        let reserved = self.store.reserved().await?;
        let (rules, now) = (NodeRules::from(&*self.config), now_ms());
        let candidate = |plane: &Plane| {
            let taken = reserved.get(&plane.id).copied().unwrap_or_default();
            Candidate {
                id: plane.id.clone(),
                provider: plane.cloud_provider.clone(),
                region: plane.region.clone(),
                multi_az: plane.multi_az,
                state: plane.state(),
                draining: plane.draining,
                free: plane.remaining().less(taken),
                growth: rules.growth(plane, now),
            }
        };
        Ok(planes.iter().map(candidate).collect())
    }
}
