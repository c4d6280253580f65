//! How bold the roller may be, as the annotations of the resources say.

use control::conditions::Reason;
use control::rolling::facts::Settings;
use kube::ResourceExt as _;

use crate::cluster::pass::Work;

/// How many brokers may be restarted at once; on the `Kafka`, or on a pool for its own nodes.
const MAX_PARALLEL: &str = "gregor.io/max-parallel";
/// Whether brokers whose partitions go offline whatever one does may share a batch.
const JOIN_OFFLINE: &str = "gregor.io/allow-offline-batches";

/// The settings; an annotation that cannot be read is told and left alone.
pub(super) fn of(work: &mut Work) -> Settings {
    let mut settings = Settings::default();
    let kafka = &work.blueprint.kafka;
    let mut warnings = Vec::new();
    let mut number = |name: &str, text: Option<&String>| {
        let text = text?;
        match text.trim().parse::<usize>() {
            Ok(number) if number > 0 => Some(number),
            Ok(_) | Err(_) => {
                warnings
                    .push(format!("{name}: {MAX_PARALLEL} is \"{text}\", not a number from 1 on"));
                None
            }
        }
    };
    let whole = number("Kafka", kafka.annotations().get(MAX_PARALLEL));
    settings.parallel_max = whole.unwrap_or(settings.parallel_max);
    for pool in &work.blueprint.pools {
        let name = pool.name_any();
        if let Some(count) = number(&name, pool.annotations().get(MAX_PARALLEL)) {
            settings.pool_parallel_max.insert(name, count);
        }
    }
    settings.join_offline =
        kafka.annotations().get(JOIN_OFFLINE).is_some_and(|value| value == "true");
    for warning in warnings {
        work.warn(Reason::InvalidAnnotation, warning);
    }
    settings
}
