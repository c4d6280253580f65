//! How much memory a peer can make this client use.
//!
//! The decoders reserve room before they read, so what matters is the peak and not what is left. For
//! a body of N bytes it is at most [`MULTIPLE`] × N + [`FREE_BYTES`], whatever the bytes are.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod support;

use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kafka_admin::proto::{ApiId, Connection, Event, Handshake, Outgoing, probe};
use kafka_protocol::messages::consumer_group_describe_response;
use peakmem_alloc::{INSTRUMENTED_SYSTEM, PeakMemAlloc, PeakMemAllocTrait as _};

#[global_allocator]
static ALLOCATOR: &PeakMemAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The largest element of an array in the answers: a member of a consumer group.
const ELEMENT_BYTES: usize = size_of::<consumer_group_describe_response::Member>();

/// A quarter of the bytes can be claimed as elements of the largest struct. Unknown tagged fields
/// need some 400 bytes each and are allowed once in 16 bytes: 25 times, and 7 to spare.
const MULTIPLE: usize = ELEMENT_BYTES / 4 + 32;

/// One claim that could be the length of a text but is not: 32,767 elements of the largest struct.
/// The elements and tagged fields that are free need up to 3 MiB. Short bodies therefore have larger
/// multiples.
const FREE_BYTES: usize = 32_767 * ELEMENT_BYTES + (3 << 20);

/// The peak is that of the whole process, so only one test may run at a time.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn peak_of(action: impl FnOnce()) -> usize {
    ALLOCATOR.reset_peak_memory();
    action();
    ALLOCATOR.get_peak_memory()
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Bytes to read as elements: zeros are the shortest structs, ones have tagged fields and nested
/// arrays in them.
fn fills(length: usize) -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound) as u8
    };
    let cycle = |pattern: &[u8]| pattern.iter().copied().cycle().take(length).collect::<Vec<_>>();
    vec![
        cycle(&[0]),
        cycle(&[0, 0, 0, 1]),
        cycle(&[0, 0, 1, 0]),
        (0..length).map(|_| noise(2)).collect(),
        (0..length).map(|_| noise(4)).collect(),
    ]
}

/// `body` up to `at`, then a length that claims as much as passes, then elements for it.
fn hostile(body: &[u8], at: usize, claim: usize, fill: &[u8]) -> Bytes {
    [&body[..at], &varint(claim + 1), fill].concat().into()
}

fn worst(length: usize) -> (usize, String) {
    let fills = fills(length);
    let mut worst = (0, String::new());
    for (key, version, body) in support::recorded() {
        for at in 0..body.len().min(64) {
            for (index, fill) in fills.iter().enumerate() {
                for claim in [length / 4, length.min(32_767)] {
                    let bytes = hostile(&body, at, claim, fill);
                    let peak = peak_of(|| drop(probe(key, version, bytes)));
                    if peak > worst.0 {
                        worst = (peak, format!("key {key} v{version} at {at}, fill {index}"));
                    }
                }
            }
        }
    }
    worst
}

#[test]
fn a_hostile_answer_takes_a_bounded_multiple_of_its_length() {
    let _alone = alone();
    for length in [1 << 10, 32 << 10, 256 << 10] {
        let (peak, of_which) = worst(length);
        println!("{length} bytes: peak {peak}, {} times ({of_which})", peak / length);
        assert!(peak <= MULTIPLE * length + FREE_BYTES, "{length}: {peak} ({of_which})");
    }
}

#[test]
fn tagged_fields_that_nobody_knows_take_a_bounded_multiple_too() {
    let _alone = alone();
    // AlterReplicaLogDirs: topics without name and partitions, each with one tagged field.
    let topic = [1, 1, 1, 9, 0];
    let body = [&[0; 4][..], &varint(50_001), &topic.repeat(50_000)].concat();
    let length = body.len();
    let peak = peak_of(|| assert!(probe(34, 2, body.into()).unwrap().is_err()));
    println!("{length} bytes: peak {peak}, {} times", peak / length);
    assert!(peak <= MULTIPLE * length + FREE_BYTES, "{peak}");
}

#[test]
fn a_frame_that_was_only_announced_takes_the_memory_of_what_arrived() {
    let _alone = alone();
    let mut connection = open();
    let call = Outgoing {
        api: ApiId { key: 3, name: "Metadata" },
        version: 13,
        body: Bytes::new(),
        answer_max: 64 << 20,
        deadline: Duration::MAX,
    };
    connection.call(Duration::ZERO, call).unwrap();
    let chunk = [0; 64 << 10];
    let peak = peak_of(|| {
        connection.handle_input(Duration::ZERO, &(64_u32 << 20).to_be_bytes()).unwrap();
    });
    assert!(peak < 1 << 10, "{peak} bytes for four");
    let peak = peak_of(|| {
        for _ in 0..16 {
            connection.handle_input(Duration::ZERO, &chunk).unwrap();
        }
    });
    // A buffer that grows doubles, and holds both sizes while it moves.
    assert!(peak <= 4 * 16 * chunk.len(), "{peak} bytes for {}", 16 * chunk.len());
}

#[test]
fn a_frame_that_is_too_long_is_not_kept() {
    let _alone = alone();
    let mut connection = open();
    let bytes = [u8::MAX; 64 << 10];
    let peak = peak_of(|| assert!(connection.handle_input(Duration::ZERO, &bytes).is_err()));
    assert!(peak <= 2 * bytes.len(), "{peak}");
    let peak = peak_of(|| {
        for _ in 0..100 {
            assert!(connection.handle_input(Duration::ZERO, &bytes).is_err());
        }
    });
    assert!(peak < 1 << 10, "{peak} bytes after the end");
}

fn open() -> Connection {
    let handshake = Handshake { credentials: None, nonce: "nonce".to_owned() };
    let mut connection = Connection::open("test", handshake, Duration::MAX).unwrap();
    let hello = support::requests(&connection.outbox().split()).remove(0);
    let answer = hello.answer(&support::offer_all(hello.version));
    connection.handle_input(Duration::ZERO, &answer).unwrap();
    assert_eq!(connection.next_event(), Some(Event::Ready));
    connection
}
