//! What the user asks for, as [`objects::desired`] accepts it.

use api::Kafka;
use api::names::Names;
use aws_lc_rs::rand;
use control::conditions::{Note, Reason};
use kube::ResourceExt as _;
use model::DirectoryId;
use objects::Objects;
use objects::desired::{self, Desired, Input, Refused};
use objects::found::Found;
use serde_json::Value;

use crate::cluster::error::PassError;
use crate::cluster::pass::{Known, Work};
use crate::cluster::record::Stored;
use crate::context::Context;

/// Begins a pass, unless the spec is refused.
pub(crate) fn begin(
    ctx: &Context,
    kafka: Kafka,
    written: &Value,
    found: Found,
) -> Result<Result<Box<Work>, Refused>, PassError> {
    let names = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
    let stored = Stored::of(found.config_maps.get(&names.record()))?;
    let (record, stored) = match stored {
        Some((record, stored)) => (Some(record), stored),
        None => (None, Stored::default()),
    };
    let accepted = desired::accept(Input {
        kafka,
        written,
        found: &found,
        record,
        images: &ctx.settings.kafka_images,
        domain: &ctx.settings.cluster_domain,
        watches_other_namespaces: ctx.settings.watches_other_namespaces,
        fresh: &mut random_id,
    });
    let trouble = ctx.removals.trouble(&names);
    let trouble = trouble.map(|message| Note::new(Reason::EntityOperatorRuns, message));
    Ok(accepted.map(|Desired { blueprint, record, mut warnings }| {
        warnings.extend(trouble);
        let (ctx, objects, known) = (ctx.clone(), Objects::default(), Known::default());
        Box::new(Work { ctx, blueprint, found, record, stored, warnings, objects, known })
    }))
}

fn random_id() -> DirectoryId {
    loop {
        let mut bytes = [0; 16];
        // The generator of the operating system does not fail once it has begun.
        if rand::fill(&mut bytes).is_ok()
            && let Some(id) = DirectoryId::generate(bytes)
        {
            return id;
        }
    }
}
