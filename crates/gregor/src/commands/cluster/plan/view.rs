//! A plan, as printed: lines for people, typed acts for programs.

use std::collections::{BTreeMap, BTreeSet};

use api::names::Names;
use control::cluster::act::What;
use control::conditions::{Note, Reason};
use control::rolling::reasons::Reason as Restarted;
use model::NodeId;
use operator::cluster::foresee::View as ClusterView;
use serde::Serialize;
use sim::whole::{Batch, End, Estimate, Forward, Line, Step};

use super::super::why::duration;
use super::file::Asked;
use super::foretold::Foretold;
use super::{restarts, unknown};
use crate::output::{Colour, View, bullets, painted};

/// The result of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Outcome {
    /// Nothing would change.
    Nothing,
    /// Something would change, and all of it would be carried out.
    Changes,
    /// Something would not be carried out.
    Refused,
    /// It is not known.
    Unknown,
}

impl Outcome {
    pub(super) const fn exit_code(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Changes => 2,
            Self::Refused | Self::Unknown => 3,
        }
    }

    fn of(forward: &Forward, is_unclear: bool) -> Self {
        let is_refused = forward.lines.iter().any(|line| line.step.is_refusal());
        match (is_refused || matches!(forward.end, End::Refused(_)), forward.lines.is_empty()) {
            (true, _) => Self::Refused,
            (false, true) if is_unclear => Self::Unknown,
            (false, true) => Self::Nothing,
            (false, false) => Self::Changes,
        }
    }
}

/// A plan.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlanView {
    pub(super) cluster: String,
    pub(super) namespace: String,
    /// Whether the cluster exists; `null` if unknown.
    pub(super) exists: Option<bool>,
    pub(super) outcome: Outcome,
    pub(super) steps: Vec<StepView>,
    /// How long all of it takes.
    pub(super) estimate: EstimateView,
    /// What durations are based on.
    pub(super) basis: Vec<String>,
    /// Every act of the operator, in order.
    pub(super) acts: Vec<ActView>,
    /// Facts that are unknown.
    pub(super) unknown: Vec<String>,
    /// Warnings for the user.
    pub(super) warnings: Vec<Told>,
    /// Current operations of the operator, independent of the edit.
    pub(super) under_way: Vec<Told>,
    /// Documents that were ignored.
    pub(super) ignored: Vec<String>,
}

/// A line of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StepView {
    /// Its kind, as one word.
    pub(super) kind: &'static str,
    pub(super) nodes: Vec<i32>,
    pub(super) text: String,
    /// When it begins, in milliseconds since the plan begins.
    pub(super) begin_ms: u64,
    pub(super) estimate: EstimateView,
    /// The partitions with the least to spare while these nodes restart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) certificate: Vec<LeftView>,
    /// The number of bytes to move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
}

/// What is left of a partition while nodes restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LeftView {
    partition: String,
    in_sync: usize,
    min_isr: usize,
}

/// A duration in milliseconds: at best, as expected, at worst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EstimateView {
    pub(super) low_ms: u64,
    pub(super) expected_ms: u64,
    pub(super) high_ms: u64,
}

impl From<Estimate> for EstimateView {
    fn from(one: Estimate) -> Self {
        Self { low_ms: one.low_ms, expected_ms: one.expected_ms, high_ms: one.high_ms }
    }
}

impl EstimateView {
    /// A duration with its uncertainty, for people.
    fn words(self) -> String {
        let Self { low_ms, expected_ms, high_ms } = self;
        match low_ms / 1_000 == high_ms / 1_000 {
            true => format!("about {}", duration(expected_ms)),
            false => format!(
                "about {}, {} to {}",
                duration(expected_ms),
                duration(low_ms),
                duration(high_ms)
            ),
        }
    }
}

/// An act of the operator.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActView {
    /// Milliseconds since the plan begins.
    at_ms: u64,
    what: What,
}

/// A message of the operator.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl From<&Note> for Told {
    fn from(note: &Note) -> Self {
        Self { reason: note.reason.name(), message: note.message.clone() }
    }
}

impl PlanView {
    /// The effects of an edit. `assumed` are assumptions about the operator.
    pub(super) fn new(
        names: &Names,
        (present, edited): (Option<&ClusterView>, &ClusterView),
        foretold: &Foretold,
        (assumed, ignored): (Option<&String>, Vec<String>),
    ) -> Self {
        let mut view = Self { exists: Some(present.is_some()), ignored, ..Self::empty(names) };
        let is_unclear =
            !edited.hidden.is_empty() || present.is_some_and(|view| view.refused.is_some());
        let why = present.map(|present| restarts::reasons(present, edited)).unwrap_or_default();
        view.fill(&foretold.forward, &why, is_unclear);
        view.basis.clone_from(&foretold.basis);
        view.unknown = unknown::unknown(present, edited, assumed);
        let said = present.map(|view| view.warnings.as_slice()).unwrap_or_default();
        let all = foretold.forward.warnings.iter().chain(&edited.warnings);
        let mut new: Vec<&Note> = all.filter(|one| !said.contains(one)).collect();
        new.sort();
        new.dedup();
        view.warnings = new.into_iter().map(Told::from).collect();
        let notes = present.map(|view| view.notes.as_slice()).unwrap_or_default();
        view.under_way = notes.iter().map(|(_, note)| Told::from(note)).collect();
        view
    }

    /// An edit that the API server would reject.
    pub(super) fn invalid(names: &Names, asked: &Asked) -> Self {
        let note = Note::new(Reason::InvalidResource, asked.problems.join("; "));
        let mut view = Self::empty(names);
        let line = Line { step: Step::Invalid(note), begin_ms: 0, estimate: Estimate::default() };
        view.steps = vec![step(&line, &BTreeMap::new())];
        view.outcome = Outcome::Refused;
        view
    }

    pub(super) fn empty(names: &Names) -> Self {
        Self {
            cluster: names.cluster.clone(),
            namespace: names.namespace.clone(),
            exists: None,
            outcome: Outcome::Nothing,
            steps: Vec::new(),
            estimate: EstimateView::default(),
            basis: Vec::new(),
            acts: Vec::new(),
            unknown: Vec::new(),
            warnings: Vec::new(),
            under_way: Vec::new(),
            ignored: Vec::new(),
        }
    }

    pub(super) fn fill(
        &mut self,
        forward: &Forward,
        why: &BTreeMap<NodeId, Vec<String>>,
        is_unclear: bool,
    ) {
        self.outcome = Outcome::of(forward, is_unclear);
        self.steps = forward.lines.iter().map(|line| step(line, why)).collect();
        self.estimate = forward.estimate.into();
        let act = |(at_ms, what): &(u64, What)| ActView { at_ms: *at_ms, what: what.clone() };
        self.acts = forward.acts.iter().map(act).collect();
    }
}

/// A line of the plan. `why` says why pods would be others.
pub(super) fn step(line: &Line, why: &BTreeMap<NodeId, Vec<String>>) -> StepView {
    let (text, left) = match &line.step {
        Step::Restart(batch) => (batch.text(&reasons(batch, why)), batch.left.as_slice()),
        other => (other.to_string(), &[][..]),
    };
    let bytes = match &line.step {
        Step::Move { bytes, .. } => *bytes,
        _ => None,
    };
    let left = left.iter().map(|(partition, in_sync, min_isr)| LeftView {
        partition: partition.to_string(),
        in_sync: *in_sync,
        min_isr: *min_isr,
    });
    StepView {
        kind: line.step.kind(),
        nodes: line.step.nodes().into_iter().map(NodeId::get).collect(),
        text,
        begin_ms: line.begin_ms,
        estimate: line.estimate.into(),
        certificate: left.collect(),
        bytes,
    }
}

/// Why nodes are restarted. That their revision is another one says less than what is different in their pods.
fn reasons(batch: &Batch, why: &BTreeMap<NodeId, Vec<String>>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (node, reasons) in &batch.nodes {
        for reason in reasons {
            let of_pod = why.get(node).filter(|_| *reason == Restarted::PodHasOldRevision);
            match of_pod {
                Some(texts) => all.extend(texts.iter().cloned()),
                None => all.push(reason.to_string()),
            }
        }
    }
    let mut seen = BTreeSet::new();
    all.retain(|text| seen.insert(text.clone()));
    all
}

impl View for PlanView {
    fn table(&self, width: Option<u16>) -> String {
        let there = if self.exists == Some(false) { ", which does not exist yet" } else { "" };
        let mut text = format!("Kafka {} in namespace {}{there}\n\n", self.cluster, self.namespace);
        if self.steps.is_empty() {
            text.push_str(match self.outcome {
                Outcome::Unknown => "  it is unknown whether anything would change\n",
                Outcome::Nothing | Outcome::Changes | Outcome::Refused => {
                    "  nothing would change\n"
                }
            });
        }
        for (index, step) in self.steps.iter().enumerate() {
            let line = format!("{:>3}. {}{}", index + 1, step.text, takes(step));
            let colour = match step.kind {
                "refused" | "invalid" | "blocked" => Some(Colour::Red),
                "stop" | "deleteClaims" => Some(Colour::Yellow),
                _ => None,
            };
            text.push_str(&painted(&line, colour, width));
            text.push('\n');
        }
        if self.estimate.expected_ms > 0 {
            text.push_str(&format!("\nAll of it takes {}.\n", self.estimate.words()));
            text.push_str(&bullets("Durations", &self.basis, None, width));
        }
        let told = |all: &[Told]| -> Vec<String> {
            all.iter().map(|one| format!("{} ({})", one.message, one.reason)).collect()
        };
        text.push_str(&bullets("Not known", &self.unknown, Some(Colour::Yellow), width));
        text.push_str(&bullets("Warnings", &told(&self.warnings), None, width));
        text.push_str(&bullets("Under way already", &told(&self.under_way), None, width));
        text.push_str(&bullets("Not looked at", &self.ignored, None, width));
        text
    }
}

/// How long a line takes, unless its effect is there at once.
fn takes(step: &StepView) -> String {
    match step.estimate.expected_ms {
        0..=1_000 => String::new(),
        _ => format!(" ({})", step.estimate.words()),
    }
}
