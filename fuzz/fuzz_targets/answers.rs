//! The decoders of answers: the first byte picks request and version, the others are the answer.

#![no_main]

use bytes::Bytes;
use kafka_admin::proto::{probe, table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((pick, body)) = input.split_first() else { return };
    let versions = table().into_iter().flat_map(|(id, all)| all.map(move |one| (id.key, one)));
    let versions: Vec<_> = versions.collect();
    let (key, version) = versions[usize::from(*pick) % versions.len()];
    let _ = probe(key, version, Bytes::copy_from_slice(body));
});
