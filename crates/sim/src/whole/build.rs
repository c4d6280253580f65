//! Builds the objects of a cluster in a simulated pass, as the shell does, unless they were built from the same before.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use control::cluster::area::Area;
use control::cluster::spec::ConfigMapEntry;
use k8s_openapi::api::core::v1::ConfigMap;
use objects::Objects;
use objects::areas::configuration::{Configuration, Input as ConfigurationInput, OfUser};
use objects::areas::{access, claims, configuration};
use objects::claims::Origin;
use objects::pods::Marks;
use serde_json::Value;

use super::operator::{Operator, Work};

/// What operators are set up with, and objects that do not belong to the cluster.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Surroundings {
    /// The images of Kafka nodes, by version.
    pub(crate) images: BTreeMap<String, String>,
    /// The DNS domain.
    pub(crate) domain: String,
    /// Whether volumes of StorageClasses can grow; those that are not listed can.
    pub(crate) classes: BTreeMap<String, bool>,
    /// ConfigMaps with rules for metrics or loggers.
    pub(crate) metrics: BTreeMap<String, ConfigMap>,
    /// How long a pod may take to become ready.
    pub(crate) operation_timeout_ms: Option<u64>,
}

impl Surroundings {
    /// Those of simulations with faults.
    pub(crate) fn tests() -> Self {
        let image = |version: &str| (version.to_owned(), format!("kafka:{version}"));
        let images = super::user::VERSIONS.map(image).into();
        Self { images, domain: "cluster.local".to_owned(), ..Self::default() }
    }
}

/// What objects are built from, besides pods, which only say what is awaited.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BuildKey {
    kafka: Rc<Value>,
    objects_version: u64,
    nodes: Vec<objects::Node>,
    desired: BTreeMap<model::NodeId, control::node::Roles>,
    quorum: control::quorum::QuorumRecord,
    leaving: BTreeMap<model::NodeId, control::scaling::leaving::Leaving>,
    storage: BTreeMap<String, String>,
    cluster_id: Option<String>,
    marks: Rc<Marks>,
}

impl BuildKey {
    fn of(work: &Work) -> Self {
        Self {
            kafka: work.kafka.clone(),
            objects_version: work.objects_version,
            nodes: work.blueprint.nodes.clone(),
            desired: work.blueprint.desired.clone(),
            quorum: work.record.quorum.clone(),
            leaving: work.record.leaving.clone(),
            storage: work.record.storage.clone(),
            cluster_id: work.record.cluster_id.clone(),
            marks: work.marks.clone(),
        }
    }
}

impl Operator {
    /// Builds all objects, or takes those that were built from the same.
    pub(crate) fn build(&mut self, work: &mut Work) {
        let key = BuildKey::of(work);
        if let Some((_, objects, configuration)) =
            self.built.as_deref().filter(|(built, ..)| *built == key)
        {
            (work.objects, work.configuration) = (objects.clone(), configuration.clone());
            self.reused += 1;
            // That the key has all that matters is seen now and then.
            if cfg!(debug_assertions) && self.reused.is_multiple_of(64) {
                let before = work.objects.views.clone();
                build(work);
                debug_assert_eq!(
                    before.keys().collect::<Vec<_>>(),
                    work.objects.views.keys().collect::<Vec<_>>()
                );
                for (area, view) in before.iter().filter(|(area, _)| **area != Area::Workload) {
                    debug_assert_eq!(Some(view), work.objects.views.get(area));
                }
            }
        } else {
            build(work);
            self.built = Some(Box::new((key, work.objects.clone(), work.configuration.clone())));
        }
    }
}

/// Builds all objects, in the order of the shell.
fn build(work: &mut Work) {
    let mut objects = Objects::default();
    let (blueprint, found) = (work.blueprint.clone(), work.found.clone());
    let mut known = Configuration::default();
    let done = (|| -> Result<(), serde_json::Error> {
        objects.keep(Area::Access, access::build(&blueprint)?, &found)?;
        let addresses = objects.keep_services(&blueprint, &found)?;
        let surroundings = work.surroundings.clone();
        let classes = classes(claims::needs(&blueprint, &found), &surroundings);
        let origin = Origin::of(&work.record);
        objects.keep(Area::Claims, claims::build(&blueprint, &found, origin, &classes)?, &found)?;
        let input = ConfigurationInput {
            blueprint: &blueprint,
            record: &work.record,
            images: &surroundings.images,
            addresses: Some(&addresses),
        };
        let needed = configuration::needs(&input);
        let text = |entry: Option<&ConfigMapEntry>| -> Option<&str> {
            let ConfigMapEntry { config_map, key } = entry?;
            let map = surroundings.metrics.get(config_map)?;
            map.data.as_ref()?.get(key).map(String::as_str)
        };
        let of_user = OfUser { metrics: text(needed.metrics), logging: text(needed.logging) };
        let built = configuration::build(&input, (of_user, None))?;
        known = objects.keep(Area::Configuration, built, &found)?;
        objects.keep_workload(&blueprint, &found, (&known, &work.marks))
    })();
    debug_assert!(done.is_ok(), "{done:?}");
    (work.objects, work.configuration) = (Rc::new(objects), Rc::new(known));
}

/// The storage classes.
fn classes(names: BTreeSet<String>, surroundings: &Surroundings) -> claims::Classes {
    let class = |name: &String| {
        let can_grow = surroundings.classes.get(name).copied().unwrap_or(true);
        serde_json::from_value(serde_json::json!({
            "metadata": { "name": name }, "provisioner": "sim", "allowVolumeExpansion": can_grow,
        }))
        .ok()
    };
    names.iter().map(|name| (name.clone(), class(name))).collect()
}
