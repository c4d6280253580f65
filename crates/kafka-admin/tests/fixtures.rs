//! Answers of real Kafka, byte for byte, against the decoders.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use kafka_admin::proto::{probe, table};

/// The releases of Kafka that were recorded.
const RELEASES: [&str; 2] = ["kafka-4.1.2", "kafka-4.3.1"];

struct Fixture {
    file: String,
    key: i16,
    version: i16,
    body: Vec<u8>,
}

impl Fixture {
    fn decodes(&self, body: &[u8]) -> bool {
        probe(self.key, self.version, Bytes::copy_from_slice(body)).unwrap().is_ok()
    }
}

/// All files of the folder; a name that does not parse is a failure.
fn fixtures() -> Vec<Fixture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/wire");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = names.filter(|path| path.extension().is_some_and(|kind| kind == "bin"));
    let read = |path: std::path::PathBuf| {
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let (name, rest) = file.split_once(".v").unwrap();
        let (version, _) = rest.split_once('.').unwrap();
        let (id, _) = table().into_iter().find(|(id, _)| id.name == name).unwrap();
        let (version, body) = (version.parse().unwrap(), std::fs::read(&path).unwrap());
        Fixture { file, key: id.key, version, body }
    };
    files.map(read).collect()
}

#[test]
fn every_version_that_we_speak_was_recorded_from_every_release() {
    let there: BTreeSet<String> = fixtures().into_iter().map(|fixture| fixture.file).collect();
    for (id, versions) in table() {
        for version in versions {
            for release in RELEASES {
                let file = format!("{id}.v{version}.{release}.bin");
                assert!(there.contains(&file), "{file} is missing");
            }
        }
    }
}

#[test]
fn every_recorded_answer_is_read() {
    for fixture in fixtures() {
        let outcome = probe(fixture.key, fixture.version, fixture.body.clone().into());
        assert_eq!(outcome, Some(Ok(())), "{}", fixture.file);
    }
}

#[test]
fn an_answer_that_is_cut_off_anywhere_is_refused() {
    for fixture in fixtures() {
        for length in 0..fixture.body.len() {
            assert!(!fixture.decodes(&fixture.body[..length]), "{} at {length}", fixture.file);
        }
    }
}

#[test]
fn an_answer_with_a_byte_too_many_is_refused() {
    for fixture in fixtures() {
        for extra in [0, 1, 0x7f, 0x80, 0xff] {
            let body = [&fixture.body[..], &[extra]].concat();
            assert!(!fixture.decodes(&body), "{} and {extra}", fixture.file);
        }
    }
}
