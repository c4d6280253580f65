//! `gregor plan --apply`: writes the edit over the versions that the plan was made on, and reports what the operator has done.
//!
//! 1. Nothing is written if part of the edit is refused or unknown.
//! 2. A resource that has changed since the plan was made is not overwritten.
//! 3. A line is done when a plan for the rest does not have it, and its nodes are ready.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, bail};
use api::names::Names;
use api::{Kafka, KafkaNodePool};
use kube::api::{DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt as _};
use operator::cluster::foresee::{Beginning, Edit, View};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::super::stage::{self, Staged};
use super::super::why::duration;
use super::foretold::{Sizes, foretell};
use super::view::{Outcome, PlanView, StepView};
use crate::commands::hosts::Hosts;
use crate::commands::reach::Reach;
use crate::failure::Said;
use crate::output::{Format, Out, json, note};

/// How often the rest is planned.
const EVERY: Duration = Duration::from_secs(2);

/// Number of successive plans for the rest, blocked for the same reason, after which this is reported.
const HELD: u32 = 15;

/// What was planned.
pub(super) struct Planned {
    pub(super) names: Names,
    pub(super) resources: Resources,
}

/// The resources that an edit changes.
#[derive(Debug, Default)]
pub(super) struct Resources {
    /// The `Kafka`, with the version that it was read with.
    kafka: Option<Value>,
    pools: Vec<Value>,
    deleted_pools: Vec<Value>,
}

impl Resources {
    pub(super) fn of(edit: &Edit, beginning: &Beginning) -> Self {
        let pools = beginning.found.pools.iter();
        let named = |name: &String| {
            let one = pools.clone().find(|one| one.pool.name_any() == *name);
            one.map(|one| one.written.clone())
        };
        let written = edit.pools.keys().filter(|name| !edit.deleted_pools.contains(*name));
        Self {
            kafka: edit.kafka.is_some().then(|| beginning.kafka.clone()),
            pools: written.filter_map(named).collect(),
            deleted_pools: edit.deleted_pools.iter().filter_map(named).collect(),
        }
    }

    /// Writes them: pools first, as a new cluster needs them.
    async fn write(&self, client: &Client, namespace: &str) -> anyhow::Result<()> {
        let api = |resource: &ApiResource| -> Api<DynamicObject> {
            Api::namespaced_with(client.clone(), namespace, resource)
        };
        let pools = api(&ApiResource::erase::<KafkaNodePool>(&()));
        for pool in &self.pools {
            put(&pools, "KafkaNodePool", pool).await?;
        }
        if let Some(kafka) = &self.kafka {
            put(&api(&ApiResource::erase::<Kafka>(&())), "Kafka", kafka).await?;
        }
        for pool in &self.deleted_pools {
            delete(&pools, pool).await?;
        }
        Ok(())
    }
}

/// Creates a resource, or replaces the version that was read.
async fn put(api: &Api<DynamicObject>, kind: &str, written: &Value) -> anyhow::Result<()> {
    let mut object: DynamicObject = serde_json::from_value(written.clone())
        .with_context(|| format!("cannot serialize {kind}"))?;
    object.metadata.managed_fields = None;
    let name = object.name_any();
    let done = match object.metadata.resource_version {
        Some(_) => api.replace(&name, &PostParams::default(), &object).await,
        None => api.create(&PostParams::default(), &object).await,
    };
    match done {
        Ok(_) => note(&format!("applied {kind} {name}")),
        Err(error) => return Err(refused(error, &format!("cannot apply {kind} {name}"))),
    }
    Ok(())
}

async fn delete(api: &Api<DynamicObject>, written: &Value) -> anyhow::Result<()> {
    let text = |field: &str| written["metadata"][field].as_str().map(str::to_owned);
    let name = text("name").unwrap_or_default();
    let version = Preconditions { uid: text("uid"), resource_version: text("resourceVersion") };
    let how = DeleteParams { preconditions: Some(version), ..DeleteParams::default() };
    match api.delete(&name, &how).await {
        Ok(_) => note(&format!("deleted KafkaNodePool {name}")),
        Err(error) => return Err(refused(error, &format!("cannot delete KafkaNodePool {name}"))),
    }
    Ok(())
}

fn refused(error: kube::Error, what: &str) -> anyhow::Error {
    let is_conflict = matches!(&error, kube::Error::Api(status) if status.code == 409);
    match is_conflict {
        true => anyhow::anyhow!("{what}: it has changed since the plan was made; plan again"),
        false => anyhow::Error::new(error).context(what.to_owned()),
    }
}

/// Applies what was planned, and reports until the cluster matches its spec.
pub(super) async fn apply(
    at: (&Reach, &Hosts),
    planned: Planned,
    plan: &PlanView,
    out: &mut Out,
) -> anyhow::Result<()> {
    match plan.outcome {
        Outcome::Nothing | Outcome::Changes => {}
        Outcome::Refused => {
            note("nothing was applied: part of the edit is refused");
            return Said::code(plan.outcome.exit_code());
        }
        Outcome::Unknown => {
            note("nothing was applied: it is unknown what the edit would do");
            return Said::code(plan.outcome.exit_code());
        }
    }
    let (config, _) = at.0.config().await?;
    let client = Client::try_from(config).context("cannot create a Kubernetes client")?;
    planned.resources.write(&client, &planned.names.namespace).await?;
    tokio::select! {
        done = follow(at, &planned.names, plan, out) => done,
        _ = tokio::signal::ctrl_c() => {
            note("the operator continues; `gregor why` shows the rest");
            Ok(())
        }
    }
}

/// A line that is done, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Done<'a> {
    /// The number of the line.
    done: usize,
    kind: &'a str,
    nodes: &'a [i32],
    /// Milliseconds since the edit was applied.
    at_ms: u64,
}

/// Reports lines as they are completed.
async fn follow(
    at: (&Reach, &Hosts),
    names: &Names,
    plan: &PlanView,
    out: &mut Out,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut left: BTreeSet<usize> = (0..plan.steps.len()).collect();
    let (mut said, mut held) = (Vec::new(), 0_u32);
    loop {
        tokio::time::sleep(EVERY).await;
        let (rest, ready) = match rest(at, names).await {
            Ok(rest) => rest,
            // The operator goes on, whether it is watched or not.
            Err(error) => {
                note(&format!("cannot observe the cluster, retrying: {error:#}"));
                continue;
            }
        };
        let at_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let blocked: Vec<String> = refusals(&rest).collect();
        // What is blocked now has no lines for what comes after it.
        for (index, step) in plan.steps.iter().enumerate().filter(|_| blocked.is_empty()) {
            if left.contains(&index) && is_done(step, &rest.steps, &ready) {
                left.remove(&index);
                report(out, (index, step), at_ms)?;
            }
        }
        // A node that restarts blocks others for a moment.
        held = if blocked == said { held + 1 } else { 0 };
        if held == HELD {
            blocked.iter().for_each(|text| note(text));
        }
        said = blocked;
        if rest.outcome == Outcome::Nothing && left.is_empty() {
            note(&format!("the cluster matches its spec, after {}", duration(at_ms)));
            return Ok(());
        }
    }
}

/// The plan for the rest, and the nodes that are ready.
async fn rest(at: (&Reach, &Hosts), names: &Names) -> anyhow::Result<(PlanView, BTreeSet<i32>)> {
    // Each with its own connections: those to nodes that were restarted are broken.
    let Staged { stage, .. } =
        stage::stage(at, &names.cluster, Some(&names.namespace), None).await?;
    let stage = stage.in_full();
    let Some(present) = stage.present(names).await? else {
        bail!("there is no Kafka {} any more", names.cluster);
    };
    let edited = stage.edited(names, &Edit::default(), Some(&present)).await?;
    let views = (Some(&present), &edited);
    let foretold = foretell(&stage, views, Sizes::new()).await?;
    Ok((PlanView::new(names, views, &foretold, (None, Vec::new())), ready(&present)))
}

fn refusals(rest: &PlanView) -> impl Iterator<Item = String> {
    let is_refusal = |step: &&StepView| matches!(step.kind, "refused" | "invalid" | "blocked");
    rest.steps.iter().filter(is_refusal).map(|step| step.text.clone())
}

fn report(out: &mut Out, (index, step): (usize, &StepView), at_ms: u64) -> anyhow::Result<()> {
    let number = index + 1;
    match out.format {
        Format::Table => {
            out.text(&format!("[{:>6}] {number:>3}. {}\n", duration(at_ms), step.text))
        }
        Format::Json => {
            let done = Done { done: number, kind: step.kind, nodes: &step.nodes, at_ms };
            out.text(&json(&done)?)
        }
    }
}

/// The nodes that are ready.
fn ready(present: &View) -> BTreeSet<i32> {
    let snapshot = present.observed.snapshot.as_ref();
    let pods = snapshot.into_iter().flat_map(|one| one.pods.values());
    pods.filter(|pod| pod.ready).filter_map(|pod| Some(pod.node?.get())).collect()
}

/// Whether a line is done: none of what it says is left to be done.
fn is_done(step: &StepView, rest: &[StepView], ready: &BTreeSet<i32>) -> bool {
    let is_same = |other: &&StepView| other.kind == step.kind;
    match step.kind {
        // The operator does nothing for it.
        "keepClaims" | "keep" => true,
        "start" | "restart" => {
            let is_left =
                |node: &i32| rest.iter().filter(is_same).any(|other| other.nodes.contains(node));
            step.nodes.iter().all(|node| ready.contains(node) && !is_left(node))
        }
        _ if step.nodes.is_empty() => {
            !rest.iter().filter(is_same).any(|other| shares(&step.text, &other.text))
        }
        "setting" => !rest.iter().any(|other| other.text == step.text),
        _ => {
            let is_left =
                |node: &i32| rest.iter().filter(is_same).any(|other| other.nodes.contains(node));
            !step.nodes.iter().any(is_left)
        }
    }
}

/// Whether two lines of one kind name the same object: one that is partly done names fewer.
fn shares(one: &str, other: &str) -> bool {
    let words = |text: &str| -> BTreeSet<String> {
        let all = text.split([' ', ',']).filter(|word| word.contains('-') || word.contains('.'));
        all.map(str::to_owned).collect()
    };
    let (own, others) = (words(one), words(other));
    one == other || !own.is_disjoint(&others)
}

#[cfg(test)]
mod tests {
    use super::super::view::EstimateView;
    use super::*;

    fn step(kind: &'static str, nodes: &[i32], text: &str) -> StepView {
        StepView {
            kind,
            nodes: nodes.to_vec(),
            text: text.to_owned(),
            begin_ms: 0,
            estimate: EstimateView::default(),
            certificate: Vec::new(),
            bytes: None,
        }
    }

    #[test]
    fn a_line_is_done_when_the_rest_does_not_have_it() {
        let voter = step("addVoter", &[3], "add controller 3 to the voters");
        let ready = [1, 2].into();
        assert!(!is_done(&voter, std::slice::from_ref(&voter), &ready));
        assert!(is_done(&voter, &[step("addVoter", &[4], "add controller 4")], &ready));
        let restart = step("restart", &[1, 2], "restart nodes 1 and 2");
        assert!(!is_done(&restart, &[step("restart", &[2], "restart node 2")], &ready));
        assert!(is_done(&restart, &[step("restart", &[0], "restart node 0")], &ready));
        // Their pods exist, but are not ready.
        assert!(!is_done(&step("start", &[2, 3], "start nodes 2 and 3"), &[], &ready));
        let claims = step("createClaims", &[], "create claims data-a-1, data-a-2");
        assert!(!is_done(&claims, &[step("createClaims", &[], "create claim data-a-2")], &ready));
        assert!(is_done(&claims, &[step("createClaims", &[], "create claim data-a-3")], &ready));
        assert!(is_done(&step("keepClaims", &[], "keep claim data-a-1"), &[], &ready));
    }
}
