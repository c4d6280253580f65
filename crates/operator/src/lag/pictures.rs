//! What was collected last, compressed, and the answers to scrapes.
//!
//! Series are compressed once, family by family. Compressed texts one after the other are a compressed text, so an answer
//! with several clusters is put together without touching them.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api::names::Names;
use control::lag::Family;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use futures::stream::{self, Stream};

use super::AGE_MAX;

/// When the series of a cluster were collected.
const COLLECTED: &str = "gregor_kafka_metrics_collected_timestamp_seconds";
/// How long it took.
const DURATION: &str = "gregor_kafka_metrics_collection_duration_seconds";
/// How many series were left out because there are too many.
const DROPPED: &str = "gregor_kafka_metrics_series_dropped";

/// The series of a family, compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Series(Vec<u8>);

impl Series {
    pub(super) fn new(text: &str) -> io::Result<Self> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes())?;
        Ok(Self(encoder.finish()?))
    }
}

/// All series of a cluster.
#[derive(Debug, Clone)]
pub(super) struct Packed {
    pub(super) families: BTreeMap<Family, Series>,
    /// The labels that all of them have.
    pub(super) labels: String,
    pub(super) dropped: usize,
    pub(super) at: SystemTime,
    pub(super) took: Duration,
}

/// The series of all clusters. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pictures {
    kept: Arc<Mutex<BTreeMap<Names, Kept>>>,
}

/// The series of a cluster, and whether they are enabled.
#[derive(Debug, Clone)]
struct Kept {
    packed: Arc<Packed>,
    is_scraped: bool,
    /// How many collections before this one were scraped, one after the other.
    scraped_in_a_row: usize,
}

impl Pictures {
    pub(super) fn keep(&self, names: &Names, packed: Packed) {
        let mut kept = self.lock();
        let scraped = kept.get(names).filter(|before| before.is_scraped);
        let scraped_in_a_row = scraped.map_or(0, |before| before.scraped_in_a_row + 1);
        let packed = Arc::new(packed);
        kept.insert(names.clone(), Kept { packed, is_scraped: false, scraped_in_a_row });
    }

    /// How many collections were scraped, one after the other: many if Prometheus does it.
    pub(super) fn scraped_in_a_row(&self, names: &Names) -> usize {
        self.lock().get(names).map_or(0, |kept| kept.scraped_in_a_row)
    }

    pub(super) fn forget(&self, names: &Names) {
        self.lock().remove(names);
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Names, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a scrape, compressed: of one cluster, or of all. `None` if there is no such cluster.
    pub(crate) fn answer(
        &self,
        only: Option<&Names>,
        now: SystemTime,
    ) -> io::Result<Option<Vec<u8>>> {
        let is_meant = |names: &Names| only.is_none_or(|only| only == names);
        let is_recent = |at: SystemTime| now.duration_since(at).is_ok_and(|age| age <= AGE_MAX);
        let all: Vec<Arc<Packed>> = {
            let mut kept = self.lock();
            let meant = kept.iter_mut().filter(|(names, _)| is_meant(names)).map(|(_, one)| one);
            let recent = meant.filter(|one| is_recent(one.packed.at));
            let scraped = |one: &mut Kept| {
                one.is_scraped = true;
                one.packed.clone()
            };
            recent.map(scraped).collect()
        };
        if all.is_empty() && only.is_some() {
            return Ok(None);
        }
        let mut out = Vec::new();
        if !all.is_empty() {
            for family in Family::ALL {
                out.extend(Series::new(&family.header())?.0);
                out.extend(
                    all.iter().filter_map(|one| one.families.get(&family)).flat_map(|one| &one.0),
                );
            }
        }
        out.extend(Series::new(&own(&all))?.0);
        Ok(Some(out))
    }
}

/// The metrics of the collections themselves.
fn own(all: &[Arc<Packed>]) -> String {
    let mut text = String::new();
    let mut family = |name: &str, help: &str, value: &dyn Fn(&Packed) -> f64| {
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} gauge\n"));
        for one in all {
            text.push_str(&format!("{name}{{{}}} {}\n", one.labels, value(one)));
        }
    };
    let at = |one: &Packed| {
        one.at.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64().round())
    };
    family(COLLECTED, "Time of the last collection of metrics of topics and groups", &at);
    let took = |one: &Packed| one.took.as_secs_f64();
    family(DURATION, "Duration of the last collection", &took);
    let dropped = |one: &Packed| one.dropped as f64;
    family(DROPPED, "Series that are omitted because the cluster has too many", &dropped);
    text
}

/// Bytes that are decompressed at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// Decompresses an answer as it is sent, for a client that does not do it itself.
pub(crate) fn plain(packed: Vec<u8>) -> impl Stream<Item = io::Result<Vec<u8>>> {
    let decoder = MultiGzDecoder::new(io::Cursor::new(packed));
    stream::try_unfold(decoder, async |mut decoder| {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = decoder.read(&mut chunk)?;
        chunk.truncate(read);
        Ok((read > 0).then_some((chunk, decoder)))
    })
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt as _;

    use super::*;

    fn packed(cluster: &str, at: SystemTime) -> Packed {
        let series = |family: &Family| {
            let text = format!("{}{{c=\"{cluster}\"}} 1\n", family.name());
            (*family, Series::new(&text).unwrap())
        };
        Packed {
            families: Family::ALL.iter().map(series).collect(),
            labels: format!("c=\"{cluster}\""),
            dropped: 7,
            at,
            took: Duration::from_millis(1500),
        }
    }

    fn answer(pictures: &Pictures, only: Option<&Names>, now: SystemTime) -> Option<String> {
        let packed = pictures.answer(only, now).unwrap()?;
        let chunks: Vec<_> = futures::executor::block_on(plain(packed).try_collect()).unwrap();
        Some(String::from_utf8(chunks.concat()).unwrap())
    }

    #[test]
    fn an_answer_has_each_family_once_with_the_series_of_all_clusters() {
        let pictures = Pictures::default();
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        let [a, b] = ["a", "b"].map(|cluster| Names::new("n", cluster));
        assert!(answer(&pictures, None, now).unwrap().starts_with("# HELP gregor_kafka_metrics"));
        pictures.keep(&a, packed("a", now));
        pictures.keep(&b, packed("b", now));
        let text = answer(&pictures, None, now).unwrap();
        let family =
            "# TYPE kafka_brokers gauge\nkafka_brokers{c=\"a\"} 1\nkafka_brokers{c=\"b\"} 1\n";
        assert!(text.contains(family), "{text}");
        assert_eq!(text.matches("# TYPE").count(), Family::ALL.len() + 3);
        for line in [
            "gregor_kafka_metrics_collected_timestamp_seconds{c=\"b\"} 1000\n",
            "gregor_kafka_metrics_collection_duration_seconds{c=\"a\"} 1.5\n",
            "gregor_kafka_metrics_series_dropped{c=\"a\"} 7\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        let one = answer(&pictures, Some(&b), now).unwrap();
        assert!(one.contains("c=\"b\"") && !one.contains("c=\"a\""), "{one}");
        pictures.forget(&b);
        assert_eq!(answer(&pictures, Some(&b), now), None);
    }

    #[test]
    fn collections_are_scraped_in_a_row_or_not() {
        let pictures = Pictures::default();
        let (now, names) = (UNIX_EPOCH + Duration::from_secs(1000), Names::new("n", "c"));
        let mut rows = Vec::new();
        // Whether the collection is scraped, and how many before the next one were then.
        for is_scraped in [true, true, false, true, true, true] {
            pictures.keep(&names, packed("c", now));
            if is_scraped {
                answer(&pictures, None, now).unwrap();
                answer(&pictures, Some(&names), now).unwrap();
            }
            rows.push(pictures.scraped_in_a_row(&names));
        }
        assert_eq!(rows, [0, 1, 2, 0, 1, 2]);
        pictures.forget(&names);
        assert_eq!(pictures.scraped_in_a_row(&names), 0);
    }

    #[test]
    fn a_picture_that_is_too_old_is_not_served() {
        let pictures = Pictures::default();
        let at = UNIX_EPOCH + Duration::from_secs(1000);
        let names = Names::new("n", "c");
        pictures.keep(&names, packed("c", at));
        assert!(answer(&pictures, Some(&names), at + AGE_MAX).is_some());
        let later = at + AGE_MAX + Duration::from_millis(1);
        assert_eq!(answer(&pictures, Some(&names), later), None);
        assert!(!answer(&pictures, None, later).unwrap().contains("kafka_brokers"));
    }
}
