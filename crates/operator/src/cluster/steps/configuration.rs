//! The configuration of nodes, in a ConfigMap for each.

use k8s_openapi::api::core::v1::ConfigMap;
use objects::areas::configuration::{self, Input};

use crate::cluster::apply;
use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let input = Input {
        blueprint: &work.blueprint,
        record: &work.record,
        images: &work.ctx.settings.kafka_images,
        addresses: work.known.addresses.as_ref(),
    };
    let metrics = match configuration::needs(&input) {
        Some(source) => work.api::<ConfigMap>().get_opt(&source.config_map).await,
        None => Ok(None),
    };
    let metrics = metrics.map_err(|e| PassError::Get(Box::new(e)))?;
    let built = configuration::build(&input, metrics.as_ref())?;
    let (configuration, step) = apply::built(work, built).await?;
    work.known.configuration = configuration;
    Ok(step)
}
