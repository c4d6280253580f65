//! The objects of all areas of a pass, compared with existing ones.

use std::collections::BTreeMap;

use api::StrimziPodSet;
use control::cluster::area::Area;
use control::cluster::draft::Flow;
use control::cluster::snapshot::{BuiltView, ObjectKey, ObjectKind};
use control::conditions::{Note, Reason};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use crate::areas::services::{self, Addresses};
use crate::areas::workload::{Orphan, Sets};
use crate::areas::{Built, workload};
use crate::found::Found;
use crate::pods::Marks;
use crate::{Blueprint, Compared, Object, State, compare};

/// The objects of all areas.
#[derive(Debug, Default)]
pub struct Objects {
    /// Missing or different objects, in the form in which they are sent.
    pub changes: Vec<(Object, Compared)>,
    /// Pod sets of removed pools that have to shrink.
    pub orphans: Vec<Orphan>,
    /// All desired pod sets.
    pub pod_sets: Vec<StrimziPodSet>,
    /// All desired claims.
    pub claims: Vec<PersistentVolumeClaim>,
    /// Facts for decisions, by area.
    pub views: BTreeMap<Area, BuiltView>,
}

impl Objects {
    /// Facts about an area's objects, for decisions.
    pub fn view(&mut self, area: Area) -> &mut BuiltView {
        self.views.entry(area).or_default()
    }

    /// Adds the objects of an area. Returns its outputs.
    ///
    /// # Errors
    /// If an object cannot be serialized.
    pub fn keep<T>(
        &mut self,
        area: Area,
        built: Built<T>,
        found: &Found,
    ) -> Result<T, serde_json::Error> {
        for object in built.objects {
            let compared = compare(&object, found)?;
            match &object {
                Object::PodSet(set) => self.pod_sets.push(set.clone()),
                Object::PersistentVolumeClaim(claim) => self.claims.push(claim.clone()),
                Object::ServiceAccount(_)
                | Object::NetworkPolicy(_)
                | Object::PodDisruptionBudget(_)
                | Object::ClusterRoleBinding(_)
                | Object::Service(_)
                | Object::ConfigMap(_) => {}
            }
            if compared.state != State::Same {
                self.view(area).changes.push(object.key());
                self.changes.push((object, compared));
            }
        }
        let view = self.view(area);
        view.warnings.extend(built.warnings);
        view.flow = built.flow;
        Ok(built.outputs)
    }

    /// Builds the Services. Returns the addresses of the existing ones.
    ///
    /// # Errors
    /// If an object cannot be serialized.
    pub fn keep_services(
        &mut self,
        blueprint: &Blueprint,
        found: &Found,
    ) -> Result<Addresses, serde_json::Error> {
        self.keep(Area::Services, services::build(blueprint)?, found)?;
        let (addresses, mut flow) = services::addresses(blueprint, found);
        if flow == Flow::Go && self.changes.iter().any(|(object, _)| has_addresses(object)) {
            let message = "Services must be applied first: brokers advertise their addresses";
            flow = Flow::Stop(Note::new(Reason::AwaitingAddresses, message));
        }
        self.view(Area::Services).flow = flow;
        Ok(addresses)
    }

    /// Builds the pod sets.
    ///
    /// # Errors
    /// If an object cannot be serialized.
    pub fn keep_workload(
        &mut self,
        blueprint: &Blueprint,
        found: &Found,
        known: (&crate::areas::configuration::Configuration, &Marks),
    ) -> Result<(), serde_json::Error> {
        let built = workload::build(blueprint, found, known)?;
        let Sets { orphans, stops } = self.keep(Area::Workload, built, found)?;
        let names = orphans.iter().filter_map(|orphan| orphan.set.metadata.name.clone());
        let view = self.view(Area::Workload);
        (view.orphans, view.stops) = (names.collect(), stops);
        self.orphans = orphans;
        Ok(())
    }
}

/// Whether Kubernetes assigns addresses to a Service that brokers advertise.
fn has_addresses(object: &Object) -> bool {
    let Object::Service(service) = object else { return false };
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    matches!(kind, Some("NodePort" | "LoadBalancer"))
}

impl Object {
    /// Which object it is.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        let kind = match self {
            Self::ServiceAccount(_) => ObjectKind::ServiceAccount,
            Self::NetworkPolicy(_) => ObjectKind::NetworkPolicy,
            Self::PodDisruptionBudget(_) => ObjectKind::PodDisruptionBudget,
            Self::ClusterRoleBinding(_) => ObjectKind::ClusterRoleBinding,
            Self::Service(_) => ObjectKind::Service,
            Self::PersistentVolumeClaim(_) => ObjectKind::PersistentVolumeClaim,
            Self::ConfigMap(_) => ObjectKind::ConfigMap,
            Self::PodSet(_) => ObjectKind::PodSet,
        };
        ObjectKey { kind, name: self.name().to_owned() }
    }
}
