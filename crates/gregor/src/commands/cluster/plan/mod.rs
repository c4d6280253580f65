//! `gregor plan`: what an edit would do, before anybody applies it.
//!
//! The operator is run forward in the simulator, from what was observed of the cluster and with the edited resources, until
//! nothing happens any more. Nothing is written, unless the user asks to apply the edit.

mod apply;
pub(super) mod file;
mod foretold;
mod restarts;
mod unknown;
mod view;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use api::names::Names;
use clap::Args;
use operator::cluster::foresee::{Stage, View as ClusterView};
use serde_json::Value;

pub(super) use self::foretold::{Sizes, sizes};
use self::view::{PlanView, StepView};
use super::stage::Staged;
use super::{Edits, snapshot, stage};
use crate::commands::hosts::Hosts;
use crate::commands::reach::Reach;
use crate::failure::Said;
use crate::output::{Format, Out, moment};

pub(crate) const PLAN_HELP: &str = "\
The file replaces the spec of the Kafka and of the pools that it contains; other pools stay unchanged.
The plan has everything that the operator will do until the cluster matches its spec, in order. Nothing is
written, and Kafka is only queried. With --from-snapshot nothing is queried.

With --apply the edit is applied as soon as the plan is printed, unless part of it is refused or a resource has
changed meanwhile. Lines are reported as the operator completes them; Ctrl-C only ends the reports.

Examples:
  gregor plan -f my-cluster.yaml -n kafka
  kubectl get knp broker -o yaml | sed 's/replicas: 3/replicas: 5/' | gregor plan -f -
  gregor plan --cluster my-cluster --delete-pool old
  gregor plan -f my-cluster.yaml --from-snapshot report.json
  gregor plan -f my-cluster.yaml --apply

Exit codes:
  0  nothing would change; with --apply, the cluster matches its spec
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
    /// Apply the edit after planning it, and report each step as it completes
    #[arg(long, conflicts_with = "from_snapshot")]
    apply: bool,
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
        super::runtime()?.block_on(async {
            let mut out = Out::new(self.output);
            let (view, planned) = match &self.from_snapshot {
                Some(file) => (self.look_at(file, documents).await?, None),
                None => self.look(documents).await?,
            };
            out.view(&view)?;
            match planned.filter(|_| self.apply) {
                None => Said::code(view.outcome.exit_code()),
                Some(planned) => {
                    let at = (&self.reach, &self.hosts);
                    apply::apply(at, planned, &view, &mut out).await
                }
            }
        })
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
        let Some(Edits { mut objects, assumed, sizes }) = looked.edits else {
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
        let views = (Some(&present), &edited);
        let foretold = foretold::foretell(&stage, views, sizes.into_iter().collect()).await?;
        let mut view = PlanView::new(names, views, &foretold, told);
        view.unknown.insert(0, since(taken_ms));
        Ok(view)
    }

    async fn look(
        &self,
        documents: Vec<Value>,
    ) -> anyhow::Result<(PlanView, Option<apply::Planned>)> {
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
        let Staged { stage, names, server, assumed } = staged;
        let stage = stage.in_full();
        if !asked.problems.is_empty() {
            return Ok((PlanView::invalid(&names, &asked), None));
        }
        let unread = || format!("Kubernetes at {server}");
        let present = stage.present(&names).await.with_context(unread)?;
        if present.is_none() && asked.edit.kafka.is_none() {
            anyhow::bail!(
                "there is no Kafka {} in namespace {}, and the file has none",
                names.cluster,
                names.namespace
            );
        }
        let edited = stage.edited(&names, &asked.edit, present.as_ref()).await;
        let edited = edited.with_context(unread)?;
        let sizes = match &present {
            Some(present) => sizes(&present.log_dirs().await),
            None => Sizes::new(),
        };
        let views = (present.as_ref(), &edited);
        let foretold = foretold::foretell(&stage, views, sizes).await?;
        let view = PlanView::new(&names, views, &foretold, (assumed.as_ref(), asked.ignored));
        let resources = apply::Resources::of(&asked.edit, &foretold.beginning);
        Ok((view, Some(apply::Planned { names, resources })))
    }
}

/// Age of a snapshot.
fn since(taken_ms: u64) -> String {
    let taken = moment(i64::try_from(taken_ms / 1000).unwrap_or_default());
    format!("the snapshot was taken at {taken}: later changes are unknown")
}

/// The effects of an edit, as `gregor plan -o json` prints them. `assumed` are assumptions about the operator.
pub(super) async fn of_documents(
    (stage, names): (&Stage, &Names),
    present: Option<&ClusterView>,
    documents: Vec<Value>,
    assumed: Option<&String>,
) -> anyhow::Result<Value> {
    let asked = file::asked(documents, Some(&names.cluster), &[])?;
    let view = match asked.problems.is_empty() {
        false => PlanView::invalid(names, &asked),
        true => {
            let edited = stage.edited(names, &asked.edit, present).await?;
            let sizes = match present {
                Some(present) => sizes(&present.log_dirs().await),
                None => Sizes::new(),
            };
            let views = (present, &edited);
            let foretold = foretold::foretell(stage, views, sizes).await?;
            PlanView::new(names, views, &foretold, (assumed, asked.ignored))
        }
    };
    serde_json::to_value(view).context("cannot serialize the plan")
}

/// What is left to do until a cluster matches its spec. `edited` is the cluster with an edit that changes nothing.
pub(super) async fn left(
    (stage, names): (&Stage, &Names),
    (present, edited): (&ClusterView, &ClusterView),
    sizes: Sizes,
) -> anyhow::Result<Vec<console::page::Line>> {
    let views = (Some(present), edited);
    let foretold = foretold::foretell(stage, views, sizes).await?;
    let view = PlanView::new(names, views, &foretold, (None, Vec::new()));
    let line = |step: StepView| console::page::Line {
        kind: step.kind.to_owned(),
        nodes: step.nodes,
        text: step.text,
    };
    Ok(view.steps.into_iter().map(line).collect())
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
