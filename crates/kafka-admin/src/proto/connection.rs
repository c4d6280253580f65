//! One connection: what to send, what arrived, what became of each call.
//!
//! Invariants:
//! 1. Every call ends exactly once: [`Event::Answered`], [`Event::Expired`], or the connection's own
//!    end, after which the driver tells those still open.
//! 2. An answer without a pending call ends the connection, unless the call had expired: then it is
//!    dropped, since it only came late.
//! 3. After the first expired call no new one is taken. Kafka answers a connection's requests in
//!    order, so what is behind a request that got no answer may get none either; calls that are
//!    already under way keep their own deadlines.
//! 4. The bytes held are those that arrived, and a frame is at most as long as the longest answer
//!    that is awaited.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::RequestHeader;
use kafka_protocol::protocol::{Encodable, StrBytes};

use super::api::API_VERSIONS_KEY;
use super::frame::{FrameError, Inbox};
use super::handshake::{HandshakeState, Message, Next};
use super::{ApiId, Handshake, Malformed, SaslError, Time, Unsupported, Versions};

/// Messages of the handshake are small; anything long at that point is another protocol.
const HANDSHAKE_ANSWER_MAX: usize = 1 << 20;

/// Calls under way at once. Kafka reads one request of a connection after the other, so more would
/// only wait there, with their deadlines running.
pub(crate) const IN_FLIGHT_MAX: usize = 256;

/// A session is left when this share of its lifetime has passed, so that no call meets its end.
const SESSION_USED_PERCENT: u32 = 80;

/// Names one call on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(i32);

/// A request, ready to go.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Which request it is.
    pub api: ApiId,
    /// The version it is written in.
    pub version: i16,
    /// The request itself, without header.
    pub body: Bytes,
    /// The longest answer to accept.
    pub answer_max: usize,
    /// When to stop waiting.
    pub deadline: Time,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Versions are agreed on and we are known to the peer: calls may be made.
    Ready,
    /// The answer to a call.
    Answered {
        /// Which call.
        call: CallId,
        /// The answer, without header.
        body: Bytes,
    },
    /// No answer within the call's deadline. It may have been carried out all the same.
    Expired {
        /// Which call.
        call: CallId,
    },
}

/// Why a connection ended or a call was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// A frame that cannot be.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message that cannot be read.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// An answer without a request.
    #[error("an answer to request {correlation}, which was never sent")]
    UnknownAnswer {
        /// The number it carried.
        correlation: i32,
    },
    /// The peer refused to say what it speaks.
    #[error("the node refused to negotiate versions (error {code})")]
    Versions {
        /// Kafka's error code.
        code: i16,
    },
    /// Something that the handshake needs is not served.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The peer did not let us in.
    #[error(transparent)]
    Sasl(#[from] SaslError),
    /// The handshake took too long.
    #[error("the node did not answer the handshake in time")]
    HandshakeExpired,
    /// The connection takes no more calls, or has not opened yet.
    #[error("the connection takes no calls")]
    NotAccepting,
}

#[derive(Debug)]
enum Phase {
    Opening { handshake: Box<HandshakeState>, correlation: i32, header: i16, deadline: Time },
    Open { retire_at: Option<Time> },
    Ended,
}

#[derive(Debug)]
struct InFlight {
    deadline: Time,
    answer_header: i16,
    answer_max: usize,
    expired: bool,
}

/// The state machine of one connection. See the module's documentation.
#[derive(Debug)]
pub struct Connection {
    client_id: StrBytes,
    phase: Phase,
    versions: Versions,
    correlation: i32,
    in_flight: BTreeMap<i32, InFlight>,
    inbox: Inbox,
    outbox: BytesMut,
    events: VecDeque<Event>,
    tired: bool,
}

impl Connection {
    /// Begins a connection: the first message is in the outbox at once.
    pub fn open(
        client_id: &str,
        handshake: Handshake,
        deadline: Time,
    ) -> Result<Self, ConnectionError> {
        let (handshake, first) = HandshakeState::start(handshake)?;
        let mut connection = Self {
            client_id: StrBytes::from_string(client_id.to_owned()),
            phase: Phase::Ended,
            versions: Versions::default(),
            correlation: 0,
            in_flight: BTreeMap::new(),
            inbox: Inbox::default(),
            outbox: BytesMut::new(),
            events: VecDeque::new(),
            tired: false,
        };
        let header = first.answer_header;
        let correlation = connection.write(&first)?;
        let handshake = Box::new(handshake);
        connection.phase = Phase::Opening { handshake, correlation, header, deadline };
        Ok(connection)
    }

    /// What the peer speaks; empty before [`Event::Ready`].
    #[must_use]
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Whether a new call would be taken now.
    #[must_use]
    pub fn accepting(&self, now: Time) -> bool {
        let Phase::Open { retire_at } = &self.phase else { return false };
        let retired = retire_at.is_some_and(|at| now >= at);
        !self.tired && !retired && self.in_flight.len() < IN_FLIGHT_MAX
    }

    /// Whether a call waits for an answer.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        self.in_flight.values().any(|call| !call.expired)
    }

    /// Puts a request into the outbox.
    pub fn call(&mut self, now: Time, request: Outgoing) -> Result<CallId, ConnectionError> {
        if !self.accepting(now) {
            return Err(ConnectionError::NotAccepting);
        }
        let Outgoing { api, version, body, answer_max, deadline } = request;
        // ApiVersions is the one request whose answer has the old header in every version.
        let answer_header = if api.key == API_VERSIONS_KEY { 0 } else { 1 };
        let message = Message { key: api.key, version, request_header: 2, answer_header, body };
        let correlation = self.write(&message)?;
        let call = InFlight { deadline, answer_header, answer_max, expired: false };
        self.in_flight.insert(correlation, call);
        Ok(CallId(correlation))
    }

    /// Takes bytes that arrived. An error is the connection's end.
    pub fn handle_input(&mut self, now: Time, bytes: &[u8]) -> Result<(), ConnectionError> {
        if matches!(self.phase, Phase::Ended) {
            return Err(ConnectionError::NotAccepting);
        }
        self.inbox.push(bytes);
        let outcome = self.handle_frames(now);
        if outcome.is_err() {
            self.end();
        }
        outcome
    }

    /// Lets time pass. An error is the connection's end.
    pub fn handle_time(&mut self, now: Time) -> Result<(), ConnectionError> {
        if let Phase::Opening { deadline, .. } = &self.phase
            && now >= *deadline
        {
            self.end();
            return Err(ConnectionError::HandshakeExpired);
        }
        for (correlation, call) in &mut self.in_flight {
            if !call.expired && now >= call.deadline {
                call.expired = true;
                self.tired = true;
                self.events.push_back(Event::Expired { call: CallId(*correlation) });
            }
        }
        Ok(())
    }

    /// When [`handle_time`](Self::handle_time) has something to do next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        if let Phase::Opening { deadline, .. } = &self.phase {
            return Some(*deadline);
        }
        self.in_flight.values().filter(|call| !call.expired).map(|call| call.deadline).min()
    }

    /// What happened, in order, until it is empty.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Bytes to send. The driver takes from the front what it has sent.
    pub fn outbox(&mut self) -> &mut BytesMut {
        &mut self.outbox
    }

    /// From here on nothing is read, and no call expires: whoever drives the connection was told of
    /// its end, and tells those that wait (invariant 1). What happened before stays to be read.
    fn end(&mut self) {
        self.phase = Phase::Ended;
        self.in_flight.clear();
        self.inbox = Inbox::default();
    }

    fn handle_frames(&mut self, now: Time) -> Result<(), ConnectionError> {
        while let Some(frame) = self.inbox.next(self.frame_max())? {
            match &mut self.phase {
                Phase::Opening { .. } => self.handle_handshake(now, frame)?,
                Phase::Open { .. } => self.handle_answer(frame)?,
                Phase::Ended => return Err(ConnectionError::NotAccepting),
            }
        }
        Ok(())
    }

    fn frame_max(&self) -> usize {
        match self.phase {
            Phase::Opening { .. } | Phase::Ended => HANDSHAKE_ANSWER_MAX,
            // A late answer to an expired call may still come, so those count too.
            Phase::Open { .. } => {
                let longest = self.in_flight.values().map(|call| call.answer_max).max();
                longest.unwrap_or(HANDSHAKE_ANSWER_MAX)
            }
        }
    }

    fn handle_handshake(&mut self, now: Time, frame: Bytes) -> Result<(), ConnectionError> {
        let (got, after_correlation) = split_correlation(frame)?;
        let Phase::Opening { handshake, correlation, header, .. } = &mut self.phase else {
            return Err(ConnectionError::NotAccepting);
        };
        if got != *correlation {
            return Err(ConnectionError::UnknownAnswer { correlation: got });
        }
        let next = handshake.answer(skip_tags(*header, after_correlation)?)?;
        match next {
            Next::Send(message) => {
                let new_header = message.answer_header;
                let new_correlation = self.write(&message)?;
                if let Phase::Opening { correlation, header, .. } = &mut self.phase {
                    (*correlation, *header) = (new_correlation, new_header);
                }
            }
            Next::Done { versions, session } => {
                self.versions = versions;
                let lifetime = session.map(|session| session * SESSION_USED_PERCENT / 100);
                let retire_at = lifetime.map(|lifetime| now + lifetime);
                self.phase = Phase::Open { retire_at };
                self.events.push_back(Event::Ready);
            }
        }
        Ok(())
    }

    fn handle_answer(&mut self, frame: Bytes) -> Result<(), ConnectionError> {
        let (correlation, rest) = split_correlation(frame)?;
        let Some(call) = self.in_flight.remove(&correlation) else {
            return Err(ConnectionError::UnknownAnswer { correlation });
        };
        let body = skip_tags(call.answer_header, rest)?;
        if !call.expired {
            self.events.push_back(Event::Answered { call: CallId(correlation), body });
        }
        Ok(())
    }

    fn write(&mut self, message: &Message) -> Result<i32, ConnectionError> {
        let correlation = self.correlation;
        // Wraps after two billion requests; the oldest of them is long answered by then.
        self.correlation = self.correlation.wrapping_add(1) & i32::MAX;
        let header = RequestHeader::default()
            .with_request_api_key(message.key)
            .with_request_api_version(message.version)
            .with_correlation_id(correlation)
            .with_client_id(Some(self.client_id.clone()));
        let mut head = BytesMut::new();
        header
            .encode(&mut head, message.request_header)
            .map_err(|error| Malformed::new("request header", error))?;
        let length = i32::try_from(head.len() + message.body.len())
            .map_err(|_| Malformed::new("request", "it is longer than a frame can be"))?;
        self.outbox.extend_from_slice(&length.to_be_bytes());
        self.outbox.extend_from_slice(&head);
        self.outbox.extend_from_slice(&message.body);
        Ok(correlation)
    }
}

fn split_correlation(mut frame: Bytes) -> Result<(i32, Bytes), Malformed> {
    let Some(correlation) = frame.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes)) else {
        return Err(Malformed::new("answer", "it has no correlation id"));
    };
    Ok((correlation, frame.split_off(4)))
}

/// Header version 1 has tagged fields behind the correlation id; version 0 has nothing. None of the
/// tags is known to us, so they are passed over.
fn skip_tags(header: i16, rest: Bytes) -> Result<Bytes, Malformed> {
    if header == 0 {
        return Ok(rest);
    }
    let end =
        tags_end(&rest).ok_or_else(|| Malformed::new("answer header", "it ends too early"))?;
    Ok(rest.slice(end..))
}

/// Where the tagged fields end: a count, then tag, size and that many bytes for each.
fn tags_end(bytes: &[u8]) -> Option<usize> {
    let (count, mut at) = varint(bytes, 0)?;
    for _ in 0..count {
        let (_tag, after_tag) = varint(bytes, at)?;
        let (size, after_size) = varint(bytes, after_tag)?;
        at = after_size.checked_add(usize::try_from(size).ok()?)?;
        if at > bytes.len() {
            return None;
        }
    }
    Some(at)
}

fn varint(bytes: &[u8], mut at: usize) -> Option<(u32, usize)> {
    let mut value = 0_u32;
    for shift in [0, 7, 14, 21, 28] {
        let byte = *bytes.get(at)?;
        at += 1;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some((value, at));
        }
    }
    None
}
