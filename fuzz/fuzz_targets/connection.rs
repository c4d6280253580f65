//! A connection and a peer that does what the input says; the invariants hold after every step.

#![no_main]

#[path = "../../crates/kafka-admin/tests/support/script.rs"]
mod script;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| script::run(input));
