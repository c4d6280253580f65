//! The effects of the `KafkaRebalance` resources that a cluster makes for itself: moves that run, end, and are cancelled.

use std::collections::BTreeSet;

use control::cluster::snapshot::RebalanceView;
use control::rebalance::auto::{Act, Brokers, Mode, Partner, PerMode, Request, Setting};
use control::rebalance::request::{Failure, Phase, Recorded};
use model::NodeId;
use serde_json::Value;

use super::forward::Trace;
use super::world::World;

/// A `KafkaRebalance`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kr {
    round: u64,
    brokers: Brokers,
    generation: i64,
    stopping: bool,
    deleting: bool,
    recorded: Option<Recorded>,
    since_ms: u64,
}

impl Kr {
    /// Whether its moves run.
    #[must_use]
    pub(crate) fn moves(&self) -> bool {
        self.phase() == Phase::Rebalancing
    }

    fn phase(&self) -> Phase {
        self.recorded.as_ref().map_or(Phase::New, |recorded| recorded.phase)
    }

    /// One that exists already, as its cluster knows it.
    pub(crate) fn of(request: &Request, now_ms: u64) -> Self {
        let generation = request.recorded.as_ref().map_or(1, |one| one.generation);
        Self {
            round: request.round.unwrap_or_default(),
            brokers: request.brokers.clone(),
            generation: if request.outdated { generation + 1 } else { generation },
            stopping: request.stopping,
            deleting: request.deleting,
            recorded: request.recorded.clone(),
            since_ms: now_ms,
        }
    }

    fn partner(&self) -> Partner {
        let newer = self.recorded.as_ref().is_none_or(|one| one.generation != self.generation);
        Partner::Present(Request {
            round: Some(self.round),
            brokers: self.brokers.clone(),
            deleting: self.deleting,
            stopping: self.stopping,
            outdated: newer,
            recorded: self.recorded.clone(),
        })
    }
}

/// How the modes are set in a `Kafka`.
fn setting(kafka: &Value, mode: Mode) -> Setting {
    let all = kafka["spec"]["cruiseControl"]["autoRebalance"].as_array();
    let listed = all.into_iter().flatten().find(|one| one["mode"].as_str() == Some(mode.name()));
    match listed {
        // That the template exists is taken for granted.
        Some(one) if !one["template"].is_null() => Setting::Template(Some(true)),
        Some(_) => Setting::Plain,
        None => Setting::Off,
    }
}

impl World {
    /// What a pass sees.
    #[must_use]
    pub(crate) fn rebalance_view(&self, kafka: &Value) -> RebalanceView {
        let partner = |kr: &Option<Kr>| kr.as_ref().map_or(Partner::Missing, Kr::partner);
        let approved = |kr: &Option<Kr>| -> Brokers {
            kr.as_ref().filter(|kr| kr.moves()).map(|kr| kr.brokers.clone()).unwrap_or_default()
        };
        let own =
            approved(&self.rebalances.remove).into_iter().chain(approved(&self.rebalances.add));
        RebalanceView {
            settings: PerMode {
                remove: setting(kafka, Mode::RemoveBrokers),
                add: setting(kafka, Mode::AddBrokers),
            },
            partners: PerMode {
                remove: partner(&self.rebalances.remove),
                add: partner(&self.rebalances.add),
            },
            moving: self.kafka.moving().into_iter().chain(own).collect(),
            unclaimed: false,
        }
    }

    /// Carries out an act on a `KafkaRebalance`.
    pub(crate) fn change_rebalance(&mut self, act: &Act) {
        self.kubernetes.version += 1;
        self.kubernetes.writes += 1;
        let now = self.now_ms;
        match act {
            Act::Create { mode, brokers, round } => {
                let slot = self.rebalance(*mode);
                if slot.is_none() {
                    *slot = Some(Kr {
                        round: *round,
                        brokers: brokers.clone(),
                        generation: 1,
                        stopping: false,
                        deleting: false,
                        recorded: None,
                        since_ms: now,
                    });
                }
            }
            Act::Refresh { mode, brokers, round } => {
                if let Some(kr) = self.rebalance(*mode).as_mut().filter(|kr| kr.round == *round) {
                    kr.brokers.clone_from(brokers);
                    kr.generation += 1;
                }
            }
            Act::Stop(mode) => {
                if let Some(kr) = self.rebalance(*mode) {
                    kr.stopping = true;
                }
            }
            Act::Delete(mode) => {
                if let Some(kr) = self.rebalance(*mode) {
                    kr.deleting = true;
                }
            }
            Act::Release(mode) => {
                let slot = self.rebalance(*mode);
                if slot.as_ref().is_some_and(|kr| kr.deleting) {
                    *slot = None;
                }
            }
        }
    }

    /// The engine goes on with what was asked for.
    pub(crate) fn run_rebalances(&mut self) {
        for mode in [Mode::RemoveBrokers, Mode::AddBrokers] {
            let Some(kr) = self.rebalance(mode).clone() else { continue };
            let next = self.next_phase(mode, &kr);
            if next == kr.phase() && kr.recorded.is_some() {
                continue;
            }
            let now = self.now_ms;
            self.coverage.count(format!("rebalance {:?} -> {next:?}", kr.phase()));
            let failure =
                (next == Phase::NotReady).then(|| Failure::Final("moves failed".to_owned()));
            self.kubernetes.version += 1;
            if kr.phase() == Phase::Rebalancing {
                self.trace(|| Trace::Moved(mode));
            }
            if let Some(kr) = self.rebalance(mode) {
                let generation = kr.generation;
                kr.recorded = Some(Recorded {
                    phase: next,
                    generation,
                    failure,
                    since_ms: now,
                    ..Recorded::default()
                });
                kr.since_ms = now;
                kr.stopping &= next != Phase::Stopped;
            }
        }
    }

    fn next_phase(&mut self, mode: Mode, kr: &Kr) -> Phase {
        let is_outdated = kr.recorded.as_ref().is_some_and(|one| one.generation != kr.generation);
        match kr.phase() {
            phase @ (Phase::New | Phase::PendingProposal) if kr.stopping || kr.deleting => {
                if kr.stopping { Phase::Stopped } else { phase }
            }
            Phase::New => Phase::PendingProposal,
            Phase::PendingProposal if self.now_ms.saturating_sub(kr.since_ms) < 3_000 => {
                Phase::PendingProposal
            }
            Phase::PendingProposal | Phase::ProposalReady => {
                self.move_for(mode, &kr.brokers);
                Phase::Rebalancing
            }
            Phase::Rebalancing if kr.stopping || kr.deleting || is_outdated => {
                self.kafka.cancel_moves();
                if is_outdated && !kr.stopping && !kr.deleting {
                    Phase::PendingProposal
                } else {
                    Phase::Stopped
                }
            }
            Phase::Rebalancing if !self.kafka.moving().is_empty() => Phase::Rebalancing,
            Phase::Rebalancing if mode == Mode::RemoveBrokers => {
                let left = kr.brokers.iter().any(|id| self.kafka.assigned(*id) > 0);
                if left { Phase::NotReady } else { Phase::Ready }
            }
            Phase::Rebalancing => Phase::Ready,
            Phase::Stopped | Phase::NotReady | Phase::Ready if is_outdated => {
                Phase::PendingProposal
            }
            phase @ (Phase::Stopped
            | Phase::NotReady
            | Phase::Ready
            | Phase::ReconciliationPaused) => phase,
        }
    }

    fn move_for(&mut self, mode: Mode, brokers: &BTreeSet<NodeId>) {
        match mode {
            Mode::RemoveBrokers => {
                self.kafka.move_off(brokers);
            }
            Mode::AddBrokers => self.kafka.fill(brokers),
        }
        let (partitions, bytes) = self.kafka.pace_moves(self.now_ms);
        let brokers = brokers.clone();
        self.trace(|| Trace::Moves { mode, brokers, partitions, bytes });
    }
}
