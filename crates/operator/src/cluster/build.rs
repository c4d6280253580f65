//! Builds the objects of a cluster as its spec asks for, and compares them with those that exist. Reads only.

use std::collections::BTreeMap;

use control::cluster::area::Area;
use control::cluster::draft::Flow;
use control::cluster::snapshot::{BuiltView, ObjectKey, ObjectKind};
use control::conditions::{Note, Reason};
use objects::areas::configuration::Input;
use objects::areas::workload::{Orphan, Sets};
use objects::areas::{Built, access, claims, configuration, services, workload};
use objects::{Compared, Object, State, compare};

use super::error::PassError;
use super::pass::Work;
use super::{keys, others};

/// The objects of all areas.
#[derive(Default)]
pub(crate) struct Objects {
    /// Objects that do not exist or differ, in the form in which they are sent.
    pub(super) changes: Vec<(Object, Compared)>,
    /// Pod sets of removed pools that have to shrink.
    pub(super) orphans: Vec<Orphan>,
    /// All pod sets, as they should be.
    pub(super) pod_sets: Vec<api::StrimziPodSet>,
    /// All claims, as they should be.
    pub(super) claims: Vec<k8s_openapi::api::core::v1::PersistentVolumeClaim>,
    /// What decisions use, by area.
    pub(super) views: BTreeMap<Area, BuiltView>,
}

/// Builds all objects, and keeps what facts and the report use of them. An area whose objects cannot be built holds up
/// itself and those after it; the first reason is returned. `is_guest` says that the reader has fewer rights than the
/// operator.
pub(crate) async fn all(work: &mut Work, is_guest: bool) -> Option<PassError> {
    let mut failed = None;
    let done = access(work).await;
    match done {
        Err(error) if is_guest => view(work, Area::Access).flow = Flow::Wait(error.note()),
        done => hold(work, Area::Access, done, &mut failed),
    }
    let done = services(work);
    hold(work, Area::Services, done, &mut failed);
    work.known.authorities = keys::authorities(work);
    work.known.certificate_marks = keys::marks(work);
    let done = claims(work).await;
    hold(work, Area::Claims, done, &mut failed);
    let done = configuration(work).await;
    hold(work, Area::Configuration, done, &mut failed);
    let done = workload(work);
    hold(work, Area::Workload, done, &mut failed);
    failed
}

/// Holds an area up whose objects could not be built.
fn hold(work: &mut Work, area: Area, done: Result<(), PassError>, failed: &mut Option<PassError>) {
    if let Err(error) = done {
        view(work, area).flow = Flow::Hold(error.note());
        failed.get_or_insert(error);
    }
}

async fn access(work: &mut Work) -> Result<(), PassError> {
    let built = access::build(&work.blueprint)?;
    keep(work, Area::Access, built)?;
    binding(work).await
}

fn services(work: &mut Work) -> Result<(), PassError> {
    let built = services::build(&work.blueprint)?;
    keep(work, Area::Services, built)?;
    let (addresses, mut flow) = services::addresses(&work.blueprint, &work.found);
    work.known.addresses = Some(addresses);
    if flow == Flow::Go && work.objects.changes.iter().any(|(object, _)| has_addresses(object)) {
        let message = "Services are applied first: brokers advertise their addresses";
        flow = Flow::Stop(Note::new(Reason::AwaitingAddresses, message));
    }
    view(work, Area::Services).flow = flow;
    Ok(())
}

/// Whether Kubernetes assigns addresses to a Service that brokers advertise.
fn has_addresses(object: &Object) -> bool {
    let Object::Service(service) = object else { return false };
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    matches!(kind, Some("NodePort" | "LoadBalancer"))
}

fn workload(work: &mut Work) -> Result<(), PassError> {
    let known = (&work.known.configuration, &work.known.certificate_marks);
    let built = workload::build(&work.blueprint, &work.found, known)?;
    let Sets { orphans, stops } = keep(work, Area::Workload, built)?;
    let names = orphans.iter().filter_map(|orphan| orphan.set.metadata.name.clone());
    let view = view(work, Area::Workload);
    (view.orphans, view.stops) = (names.collect(), stops);
    work.objects.orphans = orphans;
    Ok(())
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
        view(work, Area::Access).outdated.push((key, uid));
    }
    Ok(())
}

async fn claims(work: &mut Work) -> Result<(), PassError> {
    let classes = others::classes(work, claims::needs(&work.blueprint, &work.found)).await?;
    let cluster_id = work.record.cluster_id.as_deref().unwrap_or_default();
    let built = claims::build(&work.blueprint, &work.found, cluster_id, &classes)?;
    keep(work, Area::Claims, built)
}

async fn configuration(work: &mut Work) -> Result<(), PassError> {
    let source = configuration::needs(&input(work)).cloned();
    let metrics = match &source {
        Some(source) => others::metrics(work, source).await?,
        None => None,
    };
    let mut built = configuration::build(&input(work), metrics.as_ref())?;
    let assumed = source.and_then(|source| work.known.others.assumed(&source));
    if let (Flow::Go, Some(note)) = (&built.flow, assumed) {
        built.flow = Flow::Wait(note);
    }
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

fn view(work: &mut Work, area: Area) -> &mut BuiltView {
    work.objects.views.entry(area).or_default()
}

/// Keeps what an area has built. Returns its outputs.
fn keep<T>(work: &mut Work, area: Area, built: Built<T>) -> Result<T, PassError> {
    for object in built.objects {
        let compared = compare(&object, &work.found)?;
        match &object {
            Object::PodSet(set) => work.objects.pod_sets.push(set.clone()),
            Object::PersistentVolumeClaim(claim) => work.objects.claims.push(claim.clone()),
            Object::ServiceAccount(_)
            | Object::NetworkPolicy(_)
            | Object::PodDisruptionBudget(_)
            | Object::ClusterRoleBinding(_)
            | Object::Service(_)
            | Object::ConfigMap(_) => {}
        }
        if compared.state != State::Same {
            let key = key(&object);
            view(work, area).changes.push(key);
            work.objects.changes.push((object, compared));
        }
    }
    let view = view(work, area);
    view.warnings.extend(built.warnings);
    view.flow = built.flow;
    Ok(built.outputs)
}

/// Which object it is.
pub(super) fn key(object: &Object) -> ObjectKey {
    let kind = match object {
        Object::ServiceAccount(_) => ObjectKind::ServiceAccount,
        Object::NetworkPolicy(_) => ObjectKind::NetworkPolicy,
        Object::PodDisruptionBudget(_) => ObjectKind::PodDisruptionBudget,
        Object::ClusterRoleBinding(_) => ObjectKind::ClusterRoleBinding,
        Object::Service(_) => ObjectKind::Service,
        Object::PersistentVolumeClaim(_) => ObjectKind::PersistentVolumeClaim,
        Object::ConfigMap(_) => ObjectKind::ConfigMap,
        Object::PodSet(_) => ObjectKind::PodSet,
    };
    ObjectKey { kind, name: object.name().to_owned() }
}
