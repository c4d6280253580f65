//! Builds the objects of a cluster as its spec asks for, and compares them with those that exist. Reads only.

use std::collections::BTreeMap;

use api::names::node_of_pod;
use api::{StrimziPodSet, Verbatim};
use control::cluster::area::Area;
use control::cluster::areas::objects::unbuilt;
use control::cluster::draft::Flow;
use control::cluster::snapshot::{ObjectKey, ObjectKind};
use objects::areas::configuration::{Input, OfUser};
use objects::areas::{Built, access, claims, configuration};
use objects::claims::Origin;
use objects::found::ByName;
use objects::pods::{MARKS, Marks};

use super::error::PassError;
use super::pass::Work;
use super::{keys, others};

/// Builds all objects, and keeps what facts and the report use of them. An area whose objects cannot be built holds up
/// itself and those after it, as [`unbuilt`] decides; the first reason is returned. `is_guest` says that the reader has
/// fewer rights than the operator.
pub(crate) async fn all(work: &mut Work, is_guest: bool) -> Option<PassError> {
    let mut failed = None;
    let mut keep = |work: &mut Work, area: Area, done: Result<(), PassError>| {
        if let Err(error) = done {
            let flow = unbuilt(area, error.note(), is_guest);
            failed = failed.take().or(matches!(flow, Flow::Hold(_)).then_some(error));
            work.objects.view(area).flow = flow;
        }
    };
    let done = access(work).await;
    keep(work, Area::Access, done);
    let done = services(work);
    keep(work, Area::Services, done);
    work.known.authorities = keys::authorities(work);
    work.known.certificate_marks = match work.known.others.is_snapshot() {
        true => marks_of(&work.found.pod_sets),
        false => keys::marks(work),
    };
    let done = claims(work).await;
    keep(work, Area::Claims, done);
    let done = configuration(work).await;
    keep(work, Area::Configuration, done);
    let done = workload(work);
    keep(work, Area::Workload, done);
    failed
}

/// The annotations that pod sets give to pods because of certificates: all that is known of them without Secrets.
pub(crate) fn marks_of(sets: &ByName<StrimziPodSet>) -> Marks {
    let mut marks = Marks::new();
    for Verbatim(pod) in sets.values().flat_map(|set| &set.spec.pods) {
        let Some(metadata) = pod.get("metadata") else { continue };
        let Some(node) = metadata["name"].as_str().and_then(node_of_pod) else { continue };
        let of = |name: &&str| {
            Some(((*name).to_owned(), metadata["annotations"][*name].as_str()?.to_owned()))
        };
        let all: BTreeMap<String, String> = MARKS.iter().filter_map(of).collect();
        if !all.is_empty() {
            marks.insert(node, all);
        }
    }
    marks
}

async fn access(work: &mut Work) -> Result<(), PassError> {
    let built = access::build(&work.blueprint)?;
    keep(work, Area::Access, built)?;
    binding(work).await
}

fn services(work: &mut Work) -> Result<(), PassError> {
    let addresses = work.objects.keep_services(&work.blueprint, &work.found)?;
    work.known.addresses = Some(addresses);
    Ok(())
}

fn workload(work: &mut Work) -> Result<(), PassError> {
    let known = (&work.known.configuration, &work.known.certificate_marks);
    Ok(work.objects.keep_workload(&work.blueprint, &work.found, known)?)
}

/// The right to read the labels of machines.
async fn binding(work: &mut Work) -> Result<(), PassError> {
    let Some(name) = access::needs(&work.blueprint) else { return Ok(()) };
    let existing = others::binding(work, &name).await?;
    let built = access::binding(&work.blueprint, existing)?;
    let existing = built.outputs.existing.clone();
    work.found.bindings.extend(existing.map(|existing| (name.clone(), existing)));
    let outputs = keep(work, Area::Access, built)?;
    if let Some(uid) = outputs.outdated {
        let key = ObjectKey { kind: ObjectKind::ClusterRoleBinding, name };
        work.objects.view(Area::Access).outdated.push((key, uid));
    }
    Ok(())
}

async fn claims(work: &mut Work) -> Result<(), PassError> {
    let classes = others::classes(work, claims::needs(&work.blueprint, &work.found)).await?;
    let origin = Origin::of(&work.record);
    let built = claims::build(&work.blueprint, &work.found, origin, &classes)?;
    keep(work, Area::Claims, built)
}

async fn configuration(work: &mut Work) -> Result<(), PassError> {
    let needed = configuration::needs(&input(work));
    let needed = OfUser { metrics: needed.metrics.cloned(), logging: needed.logging.cloned() };
    let metrics = others::entry(work, needed.metrics.as_ref()).await?;
    let logging = others::entry(work, needed.logging.as_ref()).await?;
    let entries = [&needed.metrics, &needed.logging].into_iter().flatten();
    let assumed = entries.filter_map(|entry| work.known.others.assumed(entry)).next();
    let of_user = OfUser { metrics: metrics.as_deref(), logging: logging.as_deref() };
    let built = configuration::build(&input(work), (of_user, assumed))?;
    work.known.configuration = keep(work, Area::Configuration, built)?;
    Ok(())
}

/// What the configuration is built from.
fn input(work: &Work) -> Input<'_> {
    Input {
        blueprint: &work.blueprint,
        record: &work.record,
        images: &work.ctx.settings.kafka_images,
        addresses: work.known.addresses.as_ref(),
    }
}

/// Keeps what an area has built. Returns its outputs.
fn keep<T>(work: &mut Work, area: Area, built: Built<T>) -> Result<T, PassError> {
    Ok(work.objects.keep(area, built, &work.found)?)
}
