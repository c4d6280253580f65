//! `gregor why`: what a cluster waits for, the exact partitions or voters, and the rule.
//!
//! What the operator has written down comes first: it is what happens. What it would find now is looked at
//! with its own steps, for what was never written down: which partitions, which voters.

use std::collections::BTreeSet;

use api::{Kafka, KafkaRebalance};
use clap::Args;
use control::cluster::area::Area;
use control::conditions::{Note, Reason};
use control::quorum::plan::{self, Step};
use control::rolling::account::{Account, Wait};
use control::rolling::availability;
use control::rolling::why::Hold;
use control::rules;
use control::scaling::guard;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::ResourceExt as _;
use model::NodeId;
use operator::cluster::foresee::View as Seen;
use serde::Serialize;

use super::{Looked, Viewed};
use crate::failure::Said;
use crate::output::{Colour, Out, View, bullets, painted};

/// Exit code: Kafka is unreachable.
pub(super) const KAFKA_SILENT: u8 = 4;
/// Maximum number of partitions in a table; JSON has all.
const PARTITIONS_SHOWN: usize = 10;

/// Options of `gregor why`.
#[derive(Debug, Args)]
pub(crate) struct Why {
    #[command(flatten)]
    view: Viewed,
}

/// A condition of the cluster.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    pub(super) kind: String,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    pub(super) since: Option<String>,
}

impl Line {
    /// The condition in one line.
    pub(super) fn sentence(&self) -> String {
        let reason = self.reason.as_ref().map(|reason| format!(" ({reason})"));
        let message = self.message.as_ref().map(|message| format!(": {message}"));
        let since = self.since.as_ref().map(|since| format!(", since {since}"));
        let parts = [reason, since, message].map(Option::unwrap_or_default);
        format!("{}{}", self.kind, parts.concat())
    }
}

/// Something that the cluster is waiting for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Awaited {
    /// The object that waits.
    pub(super) about: String,
    /// What it is waiting for.
    pub(super) what: String,
    /// The rule that blocks it.
    pub(super) rule: Option<&'static str>,
    /// The partitions that block it.
    pub(super) partitions: Vec<String>,
}

/// Progress of a roll.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Progress {
    restarted: usize,
    under_way: usize,
    left: usize,
    /// Estimated duration, from the restarts so far.
    ends_in_ms: Option<u64>,
}

impl Progress {
    /// From the operator's record; `None` if no roll is in progress.
    pub(super) fn of(seen: &Seen, now_ms: u64) -> Option<Self> {
        let account = seen.roll_account.as_ref()?;
        account.roll.as_ref()?;
        let ends = account.estimate(now_ms);
        Some(Self {
            restarted: account.restarted(),
            under_way: account.under_way.len(),
            left: account.left.len(),
            ends_in_ms: ends.map(|estimate| estimate.end_ms.saturating_sub(now_ms)),
        })
    }

    /// For tests.
    #[cfg(test)]
    pub(super) fn example() -> Self {
        Self { restarted: 1, under_way: 0, left: 2, ends_in_ms: Some(30_000) }
    }

    pub(super) fn sentence(&self) -> String {
        let all = self.restarted + self.under_way + self.left;
        let mut text = format!("{} of {all} restarted", self.restarted);
        if self.under_way > 0 {
            text.push_str(&format!(", {} under way", self.under_way));
        }
        match self.ends_in_ms {
            Some(ms) => {
                text + &format!(", about {} left, from the restarts seen so far", duration(ms))
            }
            None => text + ", duration not known yet",
        }
    }
}

/// A future time, in words.
pub(super) fn duration(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..90 => format!("{} s", seconds.max(1)),
        seconds @ 90..5400 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{} h", (seconds + 1800) / 3600),
    }
}

/// Everything that the cluster is waiting for, as printed.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WhyView {
    cluster: String,
    namespace: String,
    pub(super) awaited: Vec<Awaited>,
    progress: Option<Progress>,
    /// Rebalances of the cluster that have not finished.
    pub(super) rebalances: Vec<Line>,
    /// Conditions of the operator.
    conditions: Vec<Line>,
    /// Facts that are unknown.
    unknown: Vec<String>,
}

impl Why {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.view.look(async |looked, now_ms| {
            let view = WhyView::of(&looked, now_ms);
            Out::new(self.view.output()).view(&view)?;
            Said::code(if looked.seen.is_kafka_seen() { 0 } else { KAFKA_SILENT })
        })
    }
}

impl WhyView {
    pub(super) fn of(looked: &Looked, now_ms: u64) -> Self {
        let found = &looked.found;
        Self {
            cluster: found.names.cluster.clone(),
            namespace: found.names.namespace.clone(),
            rebalances: rebalances(found.rebalances.as_deref().unwrap_or_default()),
            unknown: looked.unknown.clone(),
            ..Self::new(&looked.seen, Some(&found.kafka), now_ms)
        }
    }

    fn new(seen: &Seen, kafka: Option<&Kafka>, now_ms: u64) -> Self {
        let mut awaited = Vec::new();
        awaited.extend(seen.refused.iter().map(|note| told("the resources", note)));
        if seen.paused {
            awaited.push(Awaited {
                about: "the cluster".to_owned(),
                what: "it is paused by the annotation strimzi.io/pause-reconciliation".to_owned(),
                ..Awaited::default()
            });
        }
        awaited.extend(voters(seen));
        awaited.extend(leaving(seen));
        awaited.extend(restarts(seen));
        let spoken_of = [Area::Quorum, Area::ScaleIn, Area::Roll];
        let others = seen.notes.iter().filter(|(area, _)| !spoken_of.contains(area));
        awaited.extend(others.map(|(area, note)| told(area.name(), note)));
        awaited
            .extend(seen.warnings.iter().filter(|note| is_hold(note)).map(|n| told("warning", n)));
        let conditions = kafka.map(conditions).unwrap_or_default();
        Self {
            awaited,
            progress: Progress::of(seen, now_ms),
            conditions: conditions.into_iter().filter(|line| line.kind != "Ready").collect(),
            ..Self::default()
        }
    }

    fn is_settled(&self) -> bool {
        self.awaited.is_empty() && self.rebalances.is_empty() && self.conditions.is_empty()
    }
}

/// Warnings about pending operations that are not shown elsewhere: stale registrations, the metadata version,
/// a migration.
fn is_hold(note: &Note) -> bool {
    matches!(
        note.reason,
        Reason::StaleBrokerRegistration
            | Reason::StaleControllerRegistration
            | Reason::MetadataUpdateFailed
            | Reason::MetadataVersionRefused
            | Reason::MetadataVersionWaiting
            | Reason::UnregistrationFailed
            | Reason::QuorumMigration
            | Reason::QuorumMigrationIgnored
            | Reason::QuorumMigrationRefused
            | Reason::QuorumModeChanged
    )
}

fn told(about: &str, note: &Note) -> Awaited {
    let what = format!("{} ({})", note.message, note.reason);
    Awaited { about: about.to_owned(), what, ..Awaited::default() }
}

/// The next step of the quorum, if there is one.
pub(super) fn voters(seen: &Seen) -> Option<Awaited> {
    let step = plan::decide(seen.quorum_facts.as_ref()?).step;
    if step == Step::Settled {
        return None;
    }
    let (rule, what) = (Some(rules::of_voters(&step)), step.to_string());
    Some(Awaited { about: "the voters".to_owned(), what, rule, ..Awaited::default() })
}

/// Brokers that are being removed, and what blocks them.
fn leaving(seen: &Seen) -> Vec<Awaited> {
    let holds = seen.scale_in.as_ref().map(|pass| &pass.holds);
    let mut all = Vec::new();
    for (id, hold) in holds.into_iter().flatten() {
        let partitions = match hold {
            guard::Hold::Partitions { .. } => partitions_of(seen, *id),
            _ => Vec::new(),
        };
        let (about, rule) = (format!("broker {id}"), Some(rules::of_leaving(hold)));
        all.push(Awaited { about, what: hold.to_string(), rule, partitions });
    }
    if holds.is_none() {
        let ongoing = seen.leaving.iter().filter(|(_, one)| !guard::FINAL.contains(&one.phase));
        all.extend(ongoing.map(|(id, one)| Awaited {
            about: format!("broker {id}"),
            what: format!("it is leaving ({:?}); the reason why it waits is unknown", one.phase),
            ..Awaited::default()
        }));
    }
    all
}

fn partitions_of(seen: &Seen, id: NodeId) -> Vec<String> {
    let all = seen.partitions.iter().flatten();
    let with = all.filter(|partition| partition.replicas.contains(&id));
    with.map(|partition| partition.partition.to_string()).collect()
}

/// The state of the roll. The operator's record takes precedence over the decision of this command.
pub(super) fn account(seen: &Seen) -> Option<Account> {
    let live = seen.roll.as_ref().and_then(|roll| Account::of(&roll.1, None));
    // That something is begun only the operator can say.
    let live = live.map(|mut account| {
        account.waits.retain(|wait| !matches!(wait.hold, Hold::UnderWay { .. }));
        account
    });
    seen.roll_account.clone().or(live)
}

/// Nodes that are not restarted now.
fn restarts(seen: &Seen) -> Vec<Awaited> {
    let account = account(seen);
    account.iter().flat_map(|account| &account.waits).map(|wait| restart(seen, wait)).collect()
}

fn restart(seen: &Seen, wait: &Wait) -> Awaited {
    let partitions = match (&wait.hold, &seen.partitions) {
        (Hold::MinIsr { .. }, Some(partitions)) => {
            let named = |node: &NodeId| availability::holds(partitions, &BTreeSet::from([*node]));
            let all = wait.nodes.iter().flat_map(named).map(|hold| hold.partition.to_string());
            all.collect::<BTreeSet<_>>().into_iter().collect()
        }
        (_, _) => Vec::new(),
    };
    let rule = Some(rules::of_restart(&wait.hold));
    Awaited { about: wait.about(), what: wait.awaited(), rule, partitions }
}

/// Rebalances that have not finished, with their progress.
fn rebalances(all: &[KafkaRebalance]) -> Vec<Line> {
    let mut lines = Vec::new();
    for one in all {
        let conditions = one.status.as_ref().and_then(|status| status.conditions.as_ref());
        for condition in conditions.into_iter().flatten() {
            let state = condition.kind.clone().unwrap_or_default();
            if !matches!(state.as_str(), "Ready" | "Stopped" | "Warning") {
                lines.push(Line {
                    kind: format!("KafkaRebalance {}", one.name_any()),
                    reason: Some(state),
                    message: condition.message.clone(),
                    since: condition.last_transition_time.clone(),
                });
            }
        }
    }
    lines
}

/// Whether the kubelet reports a pod ready.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let is = |one: &PodCondition| one.type_ == "Ready" && one.status == "True";
    conditions.into_iter().flatten().any(is)
}

/// Conditions of the cluster, most important first.
pub(super) fn conditions(kafka: &Kafka) -> Vec<Line> {
    let found = kafka.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut lines: Vec<_> = found
        .into_iter()
        .flatten()
        .filter_map(|condition| {
            Some(Line {
                kind: condition.kind.clone()?,
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                since: condition.last_transition_time.clone(),
            })
        })
        .collect();
    let rank = |line: &Line| match line.kind.as_str() {
        "NotReady" => 0,
        "ReconciliationPaused" => 1,
        "Progressing" => 2,
        "Ready" => 3,
        _ => 4,
    };
    lines.sort_by_key(rank);
    lines
}

impl Awaited {
    fn text(&self, width: Option<u16>) -> String {
        let mut text = painted(&format!("{}: {}", self.about, self.what), None, width) + "\n";
        if !self.partitions.is_empty() {
            let shown: Vec<_> = self.partitions.iter().take(PARTITIONS_SHOWN).cloned().collect();
            let more = match self.partitions.len().checked_sub(PARTITIONS_SHOWN) {
                None | Some(0) => String::new(),
                Some(more) => format!(" and {more} more"),
            };
            text.push_str(&format!("  Partitions: {}{more}\n", shown.join(", ")));
        }
        if let Some(rule) = self.rule {
            text.push_str(&format!("  Rule: {rule}\n"));
        }
        text
    }
}

impl View for WhyView {
    fn table(&self, width: Option<u16>) -> String {
        let mut text = format!("Kafka {} in namespace {}\n", self.cluster, self.namespace);
        if self.is_settled() {
            let words = "the cluster matches its spec; nothing is pending";
            text.push_str(&format!("\n{}\n", painted(words, Some(Colour::Green), width)));
        }
        for awaited in &self.awaited {
            text.push('\n');
            text.push_str(&awaited.text(width));
        }
        if let Some(progress) = &self.progress {
            text.push_str(&format!("\nProgress: {}\n", progress.sentence()));
        }
        let said = |lines: &[Line]| lines.iter().map(Line::sentence).collect::<Vec<_>>();
        text.push_str(&bullets("Rebalances", &said(&self.rebalances), None, width));
        text.push_str(&bullets("The operator says", &said(&self.conditions), None, width));
        text.push_str(&bullets("Not known", &self.unknown, Some(Colour::Yellow), width));
        text
    }
}

#[cfg(test)]
#[path = "why_tests.rs"]
mod tests;
