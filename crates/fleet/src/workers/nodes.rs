//! Nodes: what is wanted is asked for, and what the provider says is stored.

use fleet_control::{NodeAct, Sent, plan_nodes_at_provider};
use futures::TryFutureExt as _;

use super::{Work, WorkError, Workers, plane_ref};
use crate::provider::{NodeCounts, ProviderError, STANDALONE};
use crate::store::{DecisionKind, NewDecision, Plane, PlaneFilter, now_ms};

/// How old the provider's word may be where nothing is going on.
const WORD_AGE_MAX_MS: i64 = 60_000;

impl Workers {
    pub(super) async fn reconcile_nodes(&self, mut work: Work<'_>) -> Result<(), WorkError> {
        let now = now_ms();
        for plane in self.store.planes(&PlaneFilter::default()).await? {
            if !is_due(&plane, now) {
                continue;
            }
            match self.bring_nodes(&mut work, &plane).await {
                Ok(()) => {}
                Err(WorkError::LeaseLost) => return Err(WorkError::LeaseLost),
                Err(error) => {
                    tracing::warn!(plane = plane.id, error = %crate::chain(&error), "nodes: not yet");
                    self.forget_word(&work, &plane).await?;
                }
            }
        }
        Ok(())
    }

    /// Stores what the provider says, and sends what is wanted if it does not have that.
    async fn bring_nodes(&self, work: &mut Work<'_>, plane: &Plane) -> Result<(), WorkError> {
        let provider = self.provider(&plane.provider_type)?;
        let spec = plane_ref(plane);
        let count = || provider.nodes(&spec).map_err(ProviderError::Nodes);
        let counts = work.ask(count()).await?;
        if let Some(nodes) = self.take_counts(work, &plane.id, counts).await? {
            let set = provider.set_nodes(&spec, nodes).map_err(ProviderError::SetNodes);
            work.ask(set).await?;
            let counts = work.ask(count()).await?;
            self.take_counts(work, &plane.id, counts).await?;
        }
        Ok(())
    }

    /// Stores what the provider says, and what is about to be sent to it, which is returned.
    async fn take_counts(
        &self,
        work: &Work<'_>,
        plane: &str,
        counts: NodeCounts,
    ) -> Result<Option<u32>, WorkError> {
        let mut tx = work.begin().await?;
        let Some(mut held) = tx.plane(plane).await? else { return Ok(None) };
        let number = |stored: Option<i64>| stored.and_then(|nodes| u32::try_from(nodes).ok());
        let desired = i64::from(counts.desired);
        let act = plan_nodes_at_provider(&Sent {
            wanted: number(held.nodes_wanted),
            by_hand: held.nodes_by_hand,
            sent: number(held.nodes_sent),
            confirmed: number(held.nodes_confirmed),
            desired: counts.desired,
            mode: self.config.mode(),
        });
        if let NodeAct::Adopt(_) = act {
            tx.decide(NewDecision {
                plane: Some(plane),
                region: None,
                kind: DecisionKind::Nodes,
                was: held.nodes_wanted.map(|nodes| nodes.to_string()).unwrap_or_default(),
                becomes: desired.to_string(),
                code: "ChangedAtProvider",
                reason: "changed at the provider".to_owned(),
                dry_run: false,
            })
            .await?;
            held.want_nodes(desired, false);
        }
        let sends = match act {
            NodeAct::Confirm | NodeAct::Adopt(_) => {
                (held.nodes_sent, held.nodes_confirmed) = (Some(desired), Some(desired));
                None
            }
            NodeAct::Send(nodes) => {
                held.nodes_sent = Some(i64::from(nodes));
                Some(nodes)
            }
        };
        held.nodes_desired = Some(desired);
        held.nodes_actual = Some(i64::from(counts.actual));
        held.nodes_failed = counts.failed.unwrap_or_default().chars().take(1000).collect();
        held.nodes_asked_at = Some(now_ms());
        tx.save_plane(&held).await?;
        tx.commit().await?;
        Ok(sends)
    }

    /// What the provider said once is not known to hold any more, so no step begins.
    async fn forget_word(&self, work: &Work<'_>, plane: &Plane) -> Result<(), WorkError> {
        let mut tx = work.begin().await?;
        let Some(mut held) = tx.plane(&plane.id).await? else { return Ok(()) };
        (held.nodes_desired, held.nodes_actual) = (None, None);
        held.nodes_asked_at = Some(now_ms());
        tx.save_plane(&held).await?;
        tx.commit().await?;
        Ok(())
    }
}

fn is_due(plane: &Plane, now: i64) -> bool {
    if plane.provider_type == STANDALONE || !plane.state().accepts_reports() {
        return false;
    }
    let old = plane.nodes_asked_at.is_none_or(|at| now - at > WORD_AGE_MAX_MS);
    let differs = plane.nodes_desired != plane.nodes_actual
        || plane.nodes_wanted.is_some_and(|wanted| Some(wanted) != plane.nodes_desired);
    differs || plane.nodes_actual.is_none() || old
}
