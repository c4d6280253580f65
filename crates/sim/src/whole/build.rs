//! Builds the objects of a cluster in a simulated pass, as the shell does, unless they were built from the same before.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use control::cluster::area::Area;
use objects::Objects;
use objects::areas::configuration::{Configuration, Input as ConfigurationInput};
use objects::areas::{access, claims, configuration};
use serde_json::Value;

use super::operator::{Operator, Work};

/// What objects are built from, besides pods, which only say what is awaited.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BuildKey {
    kafka: Rc<Value>,
    objects_version: u64,
    nodes: Vec<objects::Node>,
    wished: BTreeMap<model::NodeId, control::node::Roles>,
    quorum: control::quorum::QuorumRecord,
    leaving: BTreeMap<model::NodeId, control::scaling::leaving::Leaving>,
    storage: BTreeMap<String, String>,
    cluster_id: Option<String>,
}

impl BuildKey {
    fn of(work: &Work) -> Self {
        Self {
            kafka: work.kafka.clone(),
            objects_version: work.objects_version,
            nodes: work.blueprint.nodes.clone(),
            wished: work.blueprint.wished.clone(),
            quorum: work.record.quorum.clone(),
            leaving: work.record.leaving.clone(),
            storage: work.record.storage.clone(),
            cluster_id: work.record.cluster_id.clone(),
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

/// The versions of Kafka that there are images for.
pub(crate) fn images() -> BTreeMap<String, String> {
    ["4.1.2", "4.2.0", "4.3.1"]
        .map(|version| (version.to_owned(), format!("kafka:{version}")))
        .into()
}

/// Builds all objects, in the order of the shell.
fn build(work: &mut Work) {
    let mut objects = Objects::default();
    let (blueprint, found) = (work.blueprint.clone(), work.found.clone());
    let mut known = Configuration::default();
    let done = (|| -> Result<(), serde_json::Error> {
        objects.keep(Area::Access, access::build(&blueprint)?, &found)?;
        let addresses = objects.keep_services(&blueprint, &found)?;
        let classes = classes(claims::needs(&blueprint, &found));
        let id = work.record.cluster_id.clone().unwrap_or_default();
        objects.keep(Area::Claims, claims::build(&blueprint, &found, &id, &classes)?, &found)?;
        let images = images();
        let input = ConfigurationInput {
            blueprint: &blueprint,
            record: &work.record,
            images: &images,
            addresses: Some(&addresses),
        };
        known = objects.keep(
            Area::Configuration,
            configuration::build(&input, (None, None))?,
            &found,
        )?;
        objects.keep_workload(&blueprint, &found, (&known, &objects::pods::Marks::new()))
    })();
    debug_assert!(done.is_ok(), "{done:?}");
    (work.objects, work.configuration) = (Rc::new(objects), Rc::new(known));
}

/// The storage classes, which all let volumes grow.
fn classes(names: BTreeSet<String>) -> claims::Classes {
    let class = |name: &String| {
        serde_json::from_value(serde_json::json!({
            "metadata": { "name": name }, "provisioner": "sim", "allowVolumeExpansion": true,
        }))
        .ok()
    };
    names.iter().map(|name| (name.clone(), class(name))).collect()
}
