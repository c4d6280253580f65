//! Kafkas: those that wait get a place, those that are gone are forgotten. And silent agents are noticed.

use fleet_control::{
    KafkaEvent, KafkaStatus, PlaneState, Request, Waiting, give, judge_silence, place,
};

use super::{Work, WorkError, Workers};
use crate::store::{DecisionKind, Kafka, NewDecision, Plane, PlaneFilter, new_id, now_ms};

/// What a Kafka asks for.
fn request(kafka: &Kafka) -> Request {
    Request {
        provider: kafka.cloud_provider.clone(),
        region: kafka.region.clone(),
        multi_az: kafka.multi_az,
        need: kafka.need,
    }
}

/// A Kafka that waits.
pub(super) fn waits(kafka: &Kafka) -> Waiting {
    Waiting { id: kafka.id.clone(), request: request(kafka), given: kafka.growing_plane_id.clone() }
}

impl Workers {
    pub(super) async fn reconcile_kafkas(&self, work: Work<'_>) -> Result<(), WorkError> {
        let kept_ms = i64::from(self.config.audit.days) * 24 * 3_600_000;
        self.store.forget_audit(now_ms() - kept_ms).await?;
        let planes = self.store.planes(&PlaneFilter::default()).await?;
        self.notice_silence(&work, &planes).await?;
        self.place_waiting(&work, &planes).await?;
        for kafka in self.store.kafkas_with_status(KafkaStatus::Deleting).await? {
            self.forget(&work, &kafka).await?;
        }
        for kafka in self.store.kafkas_with_status(KafkaStatus::Deprovision).await? {
            // One that never had a place is on no data plane, so there is nothing to remove.
            if kafka.plane_id.is_none() {
                self.forget(&work, &kafka).await?;
            }
        }
        Ok(())
    }

    async fn place_waiting(&self, work: &Work<'_>, planes: &[Plane]) -> Result<(), WorkError> {
        let waiting = self.store.kafkas_with_status(KafkaStatus::Accepted).await?;
        if waiting.is_empty() {
            return Ok(());
        }
        let mut candidates = self.candidates(planes).await?;
        let mut left = Vec::new();
        for kafka in waiting {
            let placed = place(&request(&kafka), &candidates);
            let (code, reason) = (placed.reason.code(), placed.reason.to_string());
            let Some(on) = placed.on else {
                left.push((kafka, reason));
                continue;
            };
            if self.give_place(work, &kafka, &on, (code, reason)).await? {
                let taken = candidates.iter_mut().filter(|one| one.id == on);
                taken.for_each(|one| one.free = one.free.less(kafka.need));
            }
        }
        let waiting: Vec<_> = left.iter().map(|(kafka, _)| waits(kafka)).collect();
        let given = give(&waiting, &candidates);
        for (kafka, reason) in left {
            let reason = match given.get(&kafka.id) {
                Some(plane) => format!("{reason}; {plane} grows for it"),
                None => reason,
            };
            self.keep_waiting(work, &kafka, (reason, given.get(&kafka.id))).await?;
        }
        Ok(())
    }

    /// Gives a Kafka its place, if the place is still as it was when it was chosen.
    async fn give_place(
        &self,
        work: &Work<'_>,
        kafka: &Kafka,
        on: &str,
        (code, reason): (&'static str, String),
    ) -> Result<bool, WorkError> {
        let mut tx = work.begin().await?;
        let Some(plane) = tx.plane(on).await? else { return Ok(false) };
        let free = plane.remaining().less(tx.reserved_on(on).await?);
        if plane.state() != PlaneState::Ready || plane.draining || !free.holds(kafka.need) {
            return Ok(false);
        }
        let Some(mut held) = tx.kafka(&kafka.id).await? else { return Ok(false) };
        if held.status() != KafkaStatus::Accepted {
            return Ok(false);
        }
        held.happens(KafkaEvent::Placed)?;
        (held.plane_id, held.placement_id) = (Some(on.to_owned()), new_id());
        (held.reported_at, held.reason, held.growing_plane_id) = (None, String::new(), None);
        tx.save_kafka(&held).await?;
        tx.decide(NewDecision {
            plane: Some(on),
            region: None,
            kind: DecisionKind::Place,
            was: String::new(),
            becomes: kafka.id.clone(),
            code,
            reason,
            dry_run: false,
        })
        .await?;
        tx.commit().await?;
        Ok(true)
    }

    async fn keep_waiting(
        &self,
        work: &Work<'_>,
        kafka: &Kafka,
        (reason, grows): (String, Option<&String>),
    ) -> Result<(), WorkError> {
        let waited = now_ms() - kafka.created_at;
        let patience = i64::try_from(self.config.times.patience_ms).unwrap_or(i64::MAX);
        let is_known = kafka.reason == reason && kafka.growing_plane_id.as_ref() == grows;
        if waited <= patience && is_known {
            return Ok(());
        }
        let mut tx = work.begin().await?;
        let Some(mut held) = tx.kafka(&kafka.id).await? else { return Ok(()) };
        if held.status() != KafkaStatus::Accepted {
            return Ok(());
        }
        if waited > patience {
            held.happens(KafkaEvent::PatienceEnded)?;
        }
        if let Some(plane) = grows.filter(|plane| held.growing_plane_id.as_ref() != Some(*plane)) {
            tx.decide(NewDecision {
                plane: Some(plane.as_str()),
                region: None,
                kind: DecisionKind::Grow,
                was: held.growing_plane_id.clone().unwrap_or_default(),
                becomes: kafka.id.clone(),
                code: "Queued",
                reason: format!("a Kafka waits for {}", kafka.need),
                dry_run: false,
            })
            .await?;
        }
        held.growing_plane_id = grows.cloned();
        held.reason = reason;
        tx.save_kafka(&held).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn forget(&self, work: &Work<'_>, kafka: &Kafka) -> Result<(), WorkError> {
        let mut tx = work.begin().await?;
        let Some(held) = tx.kafka(&kafka.id).await? else { return Ok(()) };
        if held.status() == kafka.status() && held.plane_id == kafka.plane_id {
            tx.delete_kafka(&kafka.id).await?;
            tx.commit().await?;
            self.wake.notify_waiters();
        }
        Ok(())
    }

    async fn notice_silence(&self, work: &Work<'_>, planes: &[Plane]) -> Result<(), WorkError> {
        let now = now_ms();
        let silence = |plane: &Plane| {
            let since = now - plane.last_seen.unwrap_or(plane.created_at);
            judge_silence(
                plane.state(),
                u64::try_from(since).unwrap_or(0),
                self.config.times.silence_ms,
            )
        };
        for plane in planes.iter().filter(|plane| silence(plane).0 != plane.state()) {
            let mut tx = work.begin().await?;
            let Some(mut held) = tx.plane(&plane.id).await? else { continue };
            // It may have spoken meanwhile.
            let (state, reason) = silence(&held);
            if state != held.state() {
                tracing::warn!(plane = held.id, "{reason}");
                let (code, text) = (reason.code(), reason.to_string());
                tx.change_state(DecisionKind::State, &mut held, state, (code, &text)).await?;
                tx.save_plane(&held).await?;
                tx.commit().await?;
            }
        }
        Ok(())
    }
}
