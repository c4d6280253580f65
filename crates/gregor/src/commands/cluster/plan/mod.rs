//! `gregor plan`: what an edit would do, before anybody applies it.
//!
//! The operator's own steps are gone through twice, with the resources as they are and as they would be, and
//! nothing is written. What the difference means is said by [`control::scaling::explain`].

mod facts;
mod file;
mod restarts;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use api::names::Names;
use clap::Args;
use control::conditions::{Note, Reason};
use control::scaling::explain::{Line, Outcome, explain};
use model::NodeId;
use operator::cluster::foresee::{Stage, View as ClusterView};
use serde::Serialize;
use serde_json::Value;

use self::file::Asked;
use super::{Edits, snapshot, stage};
use crate::commands::hosts::Hosts;
use crate::commands::reach::Reach;
use crate::failure::Said;
use crate::output::{Colour, Format, Out, View, bullets, moment, painted};

pub(crate) const PLAN_HELP: &str = "\
The file replaces the spec of the Kafka and of the pools that it contains; other pools stay unchanged.
Nothing is written, and Kafka is only queried. With --from-snapshot nothing is queried: facts that the
snapshot lacks, such as certificates, are unknown.

Examples:
  gregor plan -f my-cluster.yaml -n kafka
  kubectl get knp broker -o yaml | sed 's/replicas: 3/replicas: 5/' | gregor plan -f -
  gregor plan --cluster my-cluster --delete-pool old
  gregor plan -f my-cluster.yaml --from-snapshot report.json

Exit codes:
  0  nothing would change
  1  error, see stderr
  2  something would change, and everything would be executed
  3  something is refused, would not be executed, or is unknown: see the output";

/// The edit to plan.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// File with the Kafka, its pools or both, as for `kubectl apply`; `-` for stdin. May be repeated
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// Name of the Kafka resource [default: the only one in the file]
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Plan the deletion of this pool; may be repeated
    #[arg(long, value_name = "POOL")]
    delete_pool: Vec<String>,
    /// Use the snapshot in this file, from `gregor status --snapshot`, instead of Kubernetes and Kafka
    #[arg(long, value_name = "FILE", conflicts_with = "cluster")]
    from_snapshot: Option<PathBuf>,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    hosts: Hosts,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

impl Plan {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if self.filename.is_empty() && self.delete_pool.is_empty() {
            // Not as a mistake of the command line, whose code says something else here.
            anyhow::bail!("nothing to plan: name a file with -f, or a pool with --delete-pool");
        }
        let mut documents = Vec::new();
        for file in &self.filename {
            documents.extend(file::read(file)?);
        }
        let view = super::runtime()?.block_on(async {
            match &self.from_snapshot {
                Some(file) => self.look_at(file, documents).await,
                None => self.look(documents).await,
            }
        })?;
        Out::new(self.output).view(&view)?;
        Said::code(view.outcome.exit_code())
    }

    /// Plans on a snapshot in a file.
    async fn look_at(&self, path: &Path, documents: Vec<Value>) -> anyhow::Result<PlanView> {
        let (looked, taken_ms) = snapshot::read(path)?;
        let names = &looked.found.names;
        if let Some(named) = self.reach.namespace().filter(|named| *named != names.namespace) {
            anyhow::bail!(
                "-n says {named}, and {} is a snapshot of namespace {}",
                path.display(),
                names.namespace
            );
        }
        let named = file::clusters(&documents);
        if !named.is_empty() && !named.contains(&names.cluster) {
            anyhow::bail!(
                "the edit is for Kafka {}, and {} is a snapshot of Kafka {}",
                named.into_iter().collect::<Vec<_>>().join(", "),
                path.display(),
                names.cluster
            );
        }
        let asked = file::asked(documents, Some(&names.cluster), &self.delete_pool)?;
        if let Some(named) = asked.namespace.as_ref().filter(|named| **named != names.namespace) {
            anyhow::bail!(
                "the edit is for namespace {named}, and {} is a snapshot of namespace {}",
                path.display(),
                names.namespace
            );
        }
        if !asked.problems.is_empty() {
            return Ok(PlanView::invalid(names, &asked));
        }
        let Some(Edits { mut objects, assumed }) = looked.edits else {
            anyhow::bail!(
                "{} was written by an older Gregor and has no objects to plan on: take a new snapshot",
                path.display()
            );
        };
        if let Some(version) = asked.version().filter(|_| assumed.is_some()) {
            objects.assume_version(version);
        }
        let (stage, present) = Stage::restored(names, objects, looked.seen.observed).await?;
        let edited = stage.edited(names, &asked.edit, Some(&present)).await?;
        let told = (assumed.as_ref(), asked.ignored);
        let mut view = PlanView::new(names, Some(&present), &edited, told);
        view.unknown.insert(0, since(taken_ms));
        Ok(view)
    }

    async fn look(&self, documents: Vec<Value>) -> anyhow::Result<PlanView> {
        let asked = file::asked(documents, self.cluster.as_deref(), &self.delete_pool)?;
        let (_, chosen) = self.reach.config().await?;
        if let Some(named) = asked.namespace.as_ref().filter(|named| **named != chosen)
            && self.reach.is_namespace_named()
        {
            anyhow::bail!("the file is for namespace {named}, and -n says {chosen}");
        }
        let namespace = asked.namespace.as_deref();
        let at = (&self.reach, &self.hosts);
        let staged = stage::stage(at, &asked.cluster, namespace, asked.version()).await?;
        let names = &staged.names;
        if !asked.problems.is_empty() {
            return Ok(PlanView::invalid(names, &asked));
        }
        let unread = || format!("Kubernetes at {}", staged.server);
        let present = staged.stage.present(names).await.with_context(unread)?;
        if present.is_none() && asked.edit.kafka.is_none() {
            anyhow::bail!(
                "there is no Kafka {} in namespace {}, and the file has none",
                names.cluster,
                names.namespace
            );
        }
        let edited = staged.stage.edited(names, &asked.edit, present.as_ref()).await;
        let edited = edited.with_context(unread)?;
        let told = (staged.assumed.as_ref(), asked.ignored);
        Ok(PlanView::new(names, present.as_ref(), &edited, told))
    }
}

/// Age of a snapshot.
fn since(taken_ms: u64) -> String {
    let taken = moment(i64::try_from(taken_ms / 1000).unwrap_or_default());
    format!("the snapshot was taken at {taken}: later changes are unknown")
}

/// A plan, as printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanView {
    cluster: String,
    namespace: String,
    /// Whether the cluster exists; `null` if unknown.
    exists: Option<bool>,
    #[serde(serialize_with = "outcome_word")]
    outcome: Outcome,
    steps: Vec<Step>,
    /// Facts that are unknown.
    unknown: Vec<String>,
    /// Warnings for the user.
    warnings: Vec<Told>,
    /// Current operations of the operator, independent of the edit.
    under_way: Vec<Told>,
    /// Documents that were ignored.
    ignored: Vec<String>,
}

/// An effect of the edit.
#[derive(Debug, Serialize)]
struct Step {
    /// Its kind, as one word.
    kind: &'static str,
    nodes: Vec<i32>,
    text: String,
}

/// A message of the operator.
#[derive(Debug, Serialize)]
struct Told {
    reason: &'static str,
    message: String,
}

impl From<&Note> for Told {
    fn from(note: &Note) -> Self {
        Self { reason: note.reason.name(), message: note.message.clone() }
    }
}

impl PlanView {
    /// The effects of an edit. `assumed` are assumptions about the operator.
    fn new(
        names: &Names,
        present: Option<&ClusterView>,
        edited: &ClusterView,
        (assumed, ignored): (Option<&String>, Vec<String>),
    ) -> Self {
        let mut view = Self { exists: Some(present.is_some()), ignored, ..Self::empty(names) };
        let plan = explain(&facts::facts(present, edited));
        let is_unclear =
            !edited.hidden.is_empty() || present.is_some_and(|view| view.refused.is_some());
        view.add(&plan.lines, plan.outcome().or_unknown(is_unclear));
        view.unknown = facts::unknown(present, edited, assumed);
        view.tell(present, edited);
        view
    }

    /// An edit that the API server would reject.
    fn invalid(names: &Names, asked: &Asked) -> Self {
        let note = Note::new(Reason::InvalidResource, asked.problems.join("; "));
        let mut view = Self::empty(names);
        view.add(&[Line::Invalid(note)], Outcome::Refused);
        view
    }

    fn empty(names: &Names) -> Self {
        Self {
            cluster: names.cluster.clone(),
            namespace: names.namespace.clone(),
            exists: None,
            outcome: Outcome::Nothing,
            steps: Vec::new(),
            unknown: Vec::new(),
            warnings: Vec::new(),
            under_way: Vec::new(),
            ignored: Vec::new(),
        }
    }

    fn add(&mut self, lines: &[Line], outcome: Outcome) {
        self.outcome = outcome;
        self.steps = lines
            .iter()
            .map(|line| Step { kind: word(line), nodes: nodes(line), text: line.to_string() })
            .collect();
    }

    /// Messages that exist without the edit, and those that it adds.
    fn tell(&mut self, present: Option<&ClusterView>, edited: &ClusterView) {
        let said = present.map(|view| view.warnings.as_slice()).unwrap_or_default();
        let mut new: Vec<_> = edited.warnings.iter().filter(|one| !said.contains(one)).collect();
        new.sort();
        new.dedup();
        self.warnings = new.into_iter().map(Told::from).collect();
        let notes = present.map(|view| view.notes.as_slice()).unwrap_or_default();
        self.under_way = notes.iter().map(|(_, note)| Told::from(note)).collect();
    }
}

/// What is left to do until a cluster matches its spec. `edited` is the cluster with an edit that changes nothing.
pub(super) fn left(
    names: &Names,
    present: &ClusterView,
    edited: &ClusterView,
) -> Vec<console::page::Line> {
    let view = PlanView::new(names, Some(present), edited, (None, Vec::new()));
    let line = |step: Step| console::page::Line {
        kind: step.kind.to_owned(),
        nodes: step.nodes,
        text: step.text,
    };
    view.steps.into_iter().map(line).collect()
}

const fn outcome_of(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Nothing => "nothing",
        Outcome::Changes => "changes",
        Outcome::Refused => "refused",
        Outcome::Unknown => "unknown",
    }
}

fn outcome_word<S: serde::Serializer>(outcome: &Outcome, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(outcome_of(*outcome))
}

/// The kind of a line.
const fn word(line: &Line) -> &'static str {
    match line {
        Line::Invalid(_) => "invalid",
        Line::Blocked(_) => "blocked",
        Line::TakeBack(_) => "takeBack",
        Line::MakeClaims(_) => "makeClaims",
        Line::Grow(_) => "growClaim",
        Line::Write(_) => "write",
        Line::Unclear(_) => "changeSettings",
        Line::Metadata(_) => "metadataVersion",
        Line::Migrate => "migrateQuorum",
        Line::Start { .. } => "start",
        Line::Roles { .. } => "changeRoles",
        Line::AddVoter(_) => "addVoter",
        Line::RemoveVoter { .. } => "removeVoter",
        Line::Change(_) => "setting",
        Line::Restart(_) => "restart",
        Line::Drain { .. } => "drain",
        Line::Stop(_) => "stop",
        Line::Unregister(_) => "unregister",
        Line::DeleteClaims(_) => "deleteClaims",
        Line::KeepClaims(_) => "keepClaims",
        Line::Fill(_) => "fill",
        Line::Refused { .. } => "refused",
    }
}

/// The nodes of a line.
fn nodes(line: &Line) -> Vec<i32> {
    let nodes: Vec<NodeId> = match line {
        Line::Invalid(_)
        | Line::Blocked(_)
        | Line::MakeClaims(_)
        | Line::Grow(_)
        | Line::Write(_)
        | Line::Unclear(_)
        | Line::Metadata(_)
        | Line::Migrate
        | Line::DeleteClaims(_)
        | Line::KeepClaims(_) => Vec::new(),
        Line::Change(setting) => setting.node.into_iter().collect(),
        Line::Start { nodes, .. } | Line::Fill(nodes) | Line::Refused { nodes, .. } => {
            nodes.iter().copied().collect()
        }
        Line::TakeBack(node)
        | Line::AddVoter(node)
        | Line::Stop(node)
        | Line::Unregister(node)
        | Line::Roles { node, .. }
        | Line::RemoveVoter { node, .. }
        | Line::Drain { node, .. } => vec![*node],
        Line::Restart(restart) => vec![restart.node],
    };
    nodes.into_iter().map(NodeId::get).collect()
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
            let line = format!("{:>3}. {}", index + 1, step.text);
            let colour = match step.kind {
                "refused" | "invalid" | "blocked" => Some(Colour::Red),
                "stop" | "deleteClaims" => Some(Colour::Yellow),
                _ => None,
            };
            text.push_str(&painted(&line, colour, width));
            text.push('\n');
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

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
