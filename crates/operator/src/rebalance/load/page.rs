//! A node's page of metrics: what of it is about load.

use control::rebalance::load::Counters;
use model::TopicName;

const CPU: &str = "process_cpu_seconds_total";
const BYTES_OUT: &str = "kafka_topic_bytes_out_total";

/// Whether a line is one that [`read`] reads.
pub(super) fn matters(line: &[u8]) -> bool {
    line.starts_with(CPU.as_bytes()) || line.starts_with(BYTES_OUT.as_bytes())
}

/// What a node counts. `None` if the page does not say what the processor did, which every JVM counts: then
/// it is not such a page.
pub(super) fn read(page: &str, at_ms: u64) -> Option<Counters> {
    let mut counters = Counters { at_ms, ..Counters::default() };
    let mut cpu = None;
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.trim_end().rsplit_once(' ') else { continue };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        if name != CPU && name != BYTES_OUT {
            continue;
        }
        let Some(value) = value.parse::<f64>().ok().filter(|value| value.is_finite()) else {
            continue;
        };
        if name == CPU {
            cpu = Some(value);
        } else if let Some(topic) = label(labels).and_then(|name| TopicName::new(name).ok()) {
            counters.bytes_out.insert(topic, value);
        }
    }
    counters.cpu_seconds = cpu?;
    Some(counters)
}

/// The topic among the labels.
fn label(labels: &str) -> Option<&str> {
    labels.split_once("topic=\"")?.1.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_and_one_that_is_none_is_not() {
        let page = "# HELP kafka_topic_bytes_out_total x\n# TYPE kafka_topic_bytes_out_total counter\n\
                    kafka_topic_bytes_out_total{topic=\"a.b\"} 1.5E7\n\
                    kafka_topic_bytes_out_total{topic=\"c\"} 3.0\n\
                    kafka_topic_bytes_out_total{topic=\"d\"} NaN\n\
                    kafka_broker_bytes_out_total 7.0\n\
                    process_cpu_seconds_total 12.25\n";
        let counters = read(page, 7).unwrap();
        let topic = |name: &str| counters.bytes_out.get(&TopicName::new(name).unwrap());
        assert_eq!((counters.at_ms, counters.cpu_seconds), (7, 12.25));
        assert_eq!((topic("a.b"), topic("c"), topic("d")), (Some(&1.5e7), Some(&3.0), None));
        assert_eq!(read("kafka_topic_bytes_out_total{topic=\"c\"} 3.0\n", 7), None);
    }
}
