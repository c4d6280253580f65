//! Nodes: what is wanted is asked for, and what the provider says is stored.

use futures::TryFutureExt as _;

use super::{Work, WorkError, Workers, plane_ref};
use crate::provider::{ProviderError, STANDALONE};
use crate::store::{Plane, PlaneFilter, now_ms};

/// How old the provider's word may be where nothing is going on.
const WORD_AGE_MAX_MS: i64 = 60_000;

impl Workers {
    pub(super) async fn look_after_nodes(&self, mut work: Work<'_>) -> Result<(), WorkError> {
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

    /// Asks for what is wanted, and stores what the provider says afterwards.
    async fn bring_nodes(&self, work: &mut Work<'_>, plane: &Plane) -> Result<(), WorkError> {
        let provider = self.provider(&plane.provider_type)?;
        let spec = plane_ref(plane);
        let count = || provider.nodes(&spec).map_err(ProviderError::Nodes);
        let mut counts = work.ask(count()).await?;
        let wanted = plane.nodes_wanted.and_then(|wanted| u32::try_from(wanted).ok());
        if let Some(wanted) = wanted.filter(|wanted| *wanted != counts.desired) {
            let set = provider.set_nodes(&spec, wanted).map_err(ProviderError::SetNodes);
            work.ask(set).await?;
            counts = work.ask(count()).await?;
        }
        let mut tx = work.begin().await?;
        let Some(mut held) = tx.plane(&plane.id).await? else { return Ok(()) };
        held.nodes_desired = Some(i64::from(counts.desired));
        held.nodes_actual = Some(i64::from(counts.actual));
        held.nodes_asked_at = Some(now_ms());
        tx.save_plane(&held).await?;
        tx.commit().await?;
        Ok(())
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
    plane.in_progress() == Some(true) || plane.nodes_actual.is_none() || old
}
