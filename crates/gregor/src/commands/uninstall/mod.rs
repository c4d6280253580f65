//! `gregor uninstall`: removes the operator and its finalizers, and lists what stays. Whether it may, and in which order, is
//! decided by [`control::life::uninstall`].

mod observe;
mod remove;

use anyhow::{Context as _, bail};
use clap::Args;
use control::life::uninstall::{Facts, Held, Step, blockers, steps};
use operator::install;
use serde::Serialize;

use super::reach::Reach;
use crate::output::{Format, Out, View, bullets, note};
use observe::{Installed, Stay};

pub(crate) const HELP: &str = "\
Examples:
  gregor uninstall --dry-run
  gregor uninstall
  gregor uninstall --leave-clusters
  gregor uninstall --finalizers-only -n my-namespace

The operator is stopped first, then its finalizers are removed, then its other objects. Kafka clusters, their data and the
CustomResourceDefinitions stay and are listed. --finalizers-only works without an operator: a namespace whose deletion waits
for finalizers is deleted after it.

Exit codes:
  0  success
  1  error, or something has to be finished or accepted first: see stderr";

/// What to remove.
#[derive(Debug, Args)]
pub(crate) struct Uninstall {
    /// Namespace of the operator
    #[arg(long, value_name = "NAMESPACE", default_value = install::NAMESPACE)]
    operator_namespace: String,
    /// Remove finalizers only: in the namespace of -n, or in all
    #[arg(long)]
    finalizers_only: bool,
    /// Accept that Kafka clusters run without an operator
    #[arg(long)]
    leave_clusters: bool,
    /// Accept that drains, deletions and moves are not completed
    #[arg(long)]
    force: bool,
    /// Show what would be removed, without removing it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    reach: Reach,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// What was removed, or would be, and what stays.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    dry_run: bool,
    finalizers: Vec<String>,
    removed: Vec<String>,
    stays: Vec<Stay>,
}

impl Uninstall {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("cannot start the runtime")?.block_on(self.remove())
    }

    async fn remove(self) -> anyhow::Result<()> {
        let (client, _) = self.reach.client().await?;
        let place = self.reach.namespace().filter(|_| self.finalizers_only);
        if !self.finalizers_only && self.reach.is_namespace_named() {
            bail!(
                "-n goes with --finalizers-only: the namespace of the operator is --operator-namespace"
            );
        }
        let installed = Installed::read(&client, &self.operator_namespace, place).await?;
        let facts = Facts {
            clusters: installed.clusters.clone(),
            held: installed.held.clone(),
            finalizers_only: self.finalizers_only,
            operator_runs: installed.operator_runs,
            leaves_clusters: self.leave_clusters,
            is_forced: self.force,
        };
        let blockers = blockers(&facts);
        if !blockers.is_empty() {
            for blocker in &blockers {
                note(&blocker.to_string());
            }
            bail!("nothing was removed: {} of these have to be resolved first", blockers.len());
        }
        let mut removed = Vec::new();
        for step in steps(self.finalizers_only).iter().filter(|_| !self.dry_run) {
            match step {
                Step::StopOperator => remove::stop(&client, &self.operator_namespace).await?,
                Step::RemoveFinalizers => {
                    for held in &installed.held {
                        remove::finalizer(&client, held).await?;
                    }
                }
                Step::DeleteObjects => {
                    removed = remove::objects(&client, &installed).await?;
                }
            }
        }
        if self.dry_run && !self.finalizers_only {
            removed = installed.removable.iter().map(super::dynamic::what).collect();
        }
        let shown = Shown {
            dry_run: self.dry_run,
            finalizers: installed.held.iter().map(told).collect(),
            removed,
            stays: installed.stays,
        };
        Out::new(self.output).view(&shown)
    }
}

fn told(held: &Held) -> String {
    format!("{} {}/{} ({})", held.kind.name(), held.namespace, held.name, held.kind.finalizer())
}

impl View for Shown {
    fn table(&self, width: Option<u16>) -> String {
        let (finalizers, removed) = match self.dry_run {
            true => ("Finalizers that would be removed", "Objects that would be removed"),
            false => ("Removed finalizers", "Removed objects"),
        };
        let stays: Vec<_> = self.stays.iter().map(Stay::text).collect();
        let text = bullets(finalizers, &self.finalizers, None, width)
            + &bullets(removed, &self.removed, None, width)
            + &bullets("What stays", &stays, None, width);
        match text.trim_start() {
            "" => "nothing to remove\n".to_owned(),
            text => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use control::life::uninstall::Kind;

    use super::*;

    #[test]
    fn finalizers_are_those_that_the_operator_sets() {
        assert_eq!(Kind::User.finalizer(), ::operator::users::FINALIZER);
        assert_eq!(Kind::Pool.finalizer(), control::scaling::pool::FINALIZER);
    }

    #[test]
    fn what_stays_is_listed_with_how_to_remove_it() {
        let stay = Stay {
            what: "Namespace gregor".to_owned(),
            remove: Some("kubectl delete namespace gregor".to_owned()),
        };
        let shown = Shown {
            dry_run: true,
            finalizers: vec!["KafkaNodePool a/b (gregor.io/drain)".to_owned()],
            removed: Vec::new(),
            stays: vec![stay],
        };
        assert_eq!(
            shown.table(None),
            "Finalizers that would be removed:\n  - KafkaNodePool a/b (gregor.io/drain)\n\n\
             What stays:\n  - Namespace gregor: kubectl delete namespace gregor\n"
        );
        let nothing = Shown { finalizers: Vec::new(), stays: Vec::new(), ..shown };
        assert_eq!(nothing.table(None), "nothing to remove\n");
    }
}
