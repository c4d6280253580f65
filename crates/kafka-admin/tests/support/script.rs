//! A connection driven by a script of bytes, with its invariants checked after every step.
//!
//! Any bytes are a script, so property tests and fuzzing share this. The peer that the script plays
//! answers properly, late, out of order, in pieces, or with nonsense.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use kafka_admin::proto::{ApiId, CallId, Connection, Event, Handshake, Outgoing, table};

/// The longest answer to a call of a script. Short, so that a script can go beyond it.
const ANSWER_MAX: usize = 300;

const HANDSHAKE_DEADLINE: Duration = Duration::from_millis(500);

/// Runs a script.
///
/// # Panics
///
/// If an invariant of the connection does not hold.
pub(crate) fn run(script: &[u8]) {
    let mut world = World::new();
    let mut script = Script { bytes: script };
    while let Some(step) = script.byte() {
        match step % 8 {
            0 => world.receive(script.bytes(usize::from(step / 8))),
            1 => world.pass_time(Duration::from_millis(u64::from(step / 8))),
            2 | 3 => world.call(Duration::from_millis(u64::from(script.byte().unwrap_or(0)))),
            4 => world.answer(script.byte().unwrap_or(0), script.bytes(usize::from(step / 8))),
            5 => world.answer_late(script.bytes(usize::from(step / 8))),
            6 => world.shake_hands(usize::from(step / 8)),
            // As many as a length has.
            _ => world.receive(script.bytes(4)),
        }
        world.check();
    }
}

struct Script<'a> {
    bytes: &'a [u8],
}

impl<'a> Script<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }
}

/// A connection, and what must be true of it.
struct World {
    connection: Connection,
    now: Duration,
    /// Calls that have not ended, with their correlation ids and deadlines.
    open: BTreeMap<CallId, (i32, Duration)>,
    /// Calls that have expired and were not answered since.
    expired: Vec<i32>,
    /// The request of the handshake that waits for its answer.
    asked: Option<i32>,
    ready: bool,
    any_expired: bool,
    ended: bool,
}

impl World {
    fn new() -> Self {
        let handshake = Handshake { credentials: None, nonce: "nonce".to_owned() };
        let connection = Connection::open("script", handshake, HANDSHAKE_DEADLINE);
        let mut world = Self {
            connection: connection.expect("a connection opens"),
            now: Duration::ZERO,
            open: BTreeMap::new(),
            expired: Vec::new(),
            asked: None,
            ready: false,
            any_expired: false,
            ended: false,
        };
        world.asked = world.sent();
        assert!(world.asked.is_some(), "the first message is there at once");
        world
    }

    /// The correlation id of the request in the outbox, if there is one.
    fn sent(&mut self) -> Option<i32> {
        let bytes = self.connection.outbox().split();
        let id = bytes.get(8..12)?;
        Some(i32::from_be_bytes(id.try_into().ok()?))
    }

    fn receive(&mut self, bytes: &[u8]) {
        let outcome = self.connection.handle_input(self.now, bytes);
        assert!(!self.ended || outcome.is_err(), "nothing is read after the end");
        self.ended |= outcome.is_err();
    }

    fn pass_time(&mut self, step: Duration) {
        self.now += step;
        let outcome = self.connection.handle_time(self.now);
        let too_late = !self.ready && !self.ended && self.now >= HANDSHAKE_DEADLINE;
        assert_eq!(outcome.is_err(), too_late, "only a handshake can be too late");
        self.ended |= outcome.is_err();
        let next = self.connection.next_deadline();
        assert!(next.is_none_or(|next| next > self.now), "nothing is overdue now");
        self.drain();
        let overdue = self.open.values().any(|(_, deadline)| *deadline <= self.now);
        assert!(self.ended || !overdue, "every call ends by its deadline");
    }

    fn call(&mut self, after: Duration) {
        let accepting = self.connection.accepting(self.now);
        let deadline = self.now + after;
        let (api, versions) = table().swap_remove(0);
        let request = Outgoing {
            api: ApiId { key: api.key, name: api.name },
            version: *versions.end(),
            body: Bytes::from_static(b"body"),
            answer_max: ANSWER_MAX,
            deadline,
        };
        let outcome = self.connection.call(self.now, request);
        assert_eq!(outcome.is_ok(), accepting, "a call is taken if it was said so");
        if let Ok(call) = outcome {
            let correlation = self.sent().expect("a call that is taken is sent");
            assert!(self.open.insert(call, (correlation, deadline)).is_none(), "ids are new");
        }
    }

    /// Answers one of the open calls.
    fn answer(&mut self, which: u8, body: &[u8]) {
        let Some(index) = usize::from(which).checked_rem(self.open.len()) else { return };
        let Some((correlation, _)) = self.open.values().nth(index) else { return };
        let frame = frame(*correlation, &[&[0], body].concat());
        self.receive(&frame);
    }

    fn answer_late(&mut self, body: &[u8]) {
        let Some(correlation) = self.expired.pop() else { return };
        self.receive(&frame(correlation, &[&[0], body].concat()));
    }

    /// The proper answer to the handshake, in two pieces.
    fn shake_hands(&mut self, cut: usize) {
        let Some(correlation) = self.asked.take() else { return };
        let frame = frame(correlation, &offer());
        let (first, second) = frame.split_at(cut.min(frame.len()));
        self.receive(first);
        self.receive(second);
    }

    fn drain(&mut self) {
        while let Some(event) = self.connection.next_event() {
            match event {
                Event::Ready => {
                    assert!(!self.ready, "a connection opens once");
                    self.ready = true;
                }
                Event::Answered { call, body } => {
                    assert!(self.open.remove(&call).is_some(), "an answer to an open call");
                    assert!(body.len() <= ANSWER_MAX, "no longer than was allowed");
                }
                Event::Expired { call } => {
                    let open = self.open.remove(&call);
                    let (correlation, deadline) = open.expect("an open call expires");
                    assert!(deadline <= self.now, "not before its time");
                    self.expired.push(correlation);
                    self.any_expired = true;
                }
            }
        }
    }

    fn check(&mut self) {
        self.drain();
        if self.ended {
            // Those still open are told by the driver, once; nothing may come for them any more.
            assert_eq!(self.connection.next_deadline(), None, "nothing is awaited after the end");
            assert!(!self.connection.has_calls(), "no call is open after the end");
            self.open.clear();
        } else {
            assert_eq!(self.connection.has_calls(), !self.open.is_empty());
        }
        let closed = self.ended || !self.ready || self.any_expired;
        assert!(!closed || !self.connection.accepting(self.now), "takes calls, but should not");
        // A refused version is asked again; its answer is for the script to make up.
        self.asked = self.sent().or(self.asked);
    }
}

fn frame(correlation: i32, rest: &[u8]) -> Vec<u8> {
    let length = u32::try_from(4 + rest.len()).expect("frames of scripts are short");
    [&length.to_be_bytes(), &correlation.to_be_bytes(), rest].concat()
}

/// ApiVersions, version 4: no error, one request (its first, in all versions), no delay.
fn offer() -> Vec<u8> {
    let (api, versions) = table().swap_remove(0);
    let numbers = [api.key, *versions.start(), *versions.end()];
    let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    [&[0, 0, 2], &numbers[..], &[0, 0, 0, 0, 0, 0]].concat()
}
