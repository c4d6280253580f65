//! One connection under generated splits, orders, times and lies, through its public face.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

#[path = "support/script.rs"]
mod script;
#[expect(dead_code, reason = "no recorded answers are needed here")]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_lc_rs::{digest, hmac, pbkdf2};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kafka_admin::proto::{
    ApiId, CallId, Connection, ConnectionError, Event, FrameError, Handshake, Outgoing, SaslError,
    Time, Unsupported,
};
use kafka_admin::{Credentials, Secret};
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use kafka_protocol::protocol::Decodable as _;
use proptest::prelude::*;

use support::{Request, encode, frame, offer_all, requests};

const START: Time = Duration::ZERO;
const ANSWER_MAX: usize = 4096;
const HANDSHAKE_MAX: usize = 1 << 20;

fn begin(credentials: Option<Credentials>) -> Connection {
    let handshake = Handshake { credentials, nonce: "nonce".to_owned() };
    Connection::open("test", handshake, Duration::from_secs(5)).unwrap()
}

/// The one request in the outbox.
fn sent(connection: &mut Connection) -> Request {
    let mut sent = requests(&connection.outbox().split());
    assert_eq!(sent.len(), 1, "{sent:?}");
    sent.remove(0)
}

fn receive(connection: &mut Connection, bytes: &[u8]) -> Result<(), ConnectionError> {
    connection.handle_input(START, bytes)
}

fn events(connection: &mut Connection) -> Vec<Event> {
    std::iter::from_fn(|| connection.next_event()).collect()
}

fn open() -> Connection {
    let mut connection = begin(None);
    let hello = sent(&mut connection);
    receive(&mut connection, &hello.answer(&offer_all(hello.version))).unwrap();
    assert_eq!(events(&mut connection), [Event::Ready]);
    connection
}

fn outgoing(deadline: Time) -> Outgoing {
    let api = ApiId { key: 60, name: "DescribeCluster" };
    Outgoing { api, version: 2, body: Bytes::from_static(b"?"), answer_max: ANSWER_MAX, deadline }
}

/// Makes calls; gives them with their requests.
fn call(connection: &mut Connection, count: usize) -> Vec<(CallId, Request)> {
    let one = |_| {
        let call = connection.call(START, outgoing(Duration::from_secs(9))).unwrap();
        (call, sent(connection))
    };
    (0..count).map(one).collect()
}

/// Cuts bytes at these places.
fn pieces<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: BTreeSet<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.insert(bytes.len());
    let mut from = 0;
    let cut = |to| {
        let piece = &bytes[from..to];
        from = to;
        piece
    };
    cuts.into_iter().map(cut).collect()
}

fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    proptest::collection::vec(any::<prop::sample::Index>(), 0..20)
}

fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..12)
}

proptest! {
    #[test]
    fn any_split_of_the_input_gives_the_same_events(bodies in bodies(), cuts in cuts()) {
        let run = |cuts: &[prop::sample::Index]| {
            let mut connection = open();
            let calls = call(&mut connection, bodies.len());
            let answers = calls.iter().zip(&bodies).map(|((_, request), body)| request.answer(body));
            let input: Vec<u8> = answers.flatten().collect();
            for piece in pieces(&input, cuts) {
                receive(&mut connection, piece).unwrap();
            }
            events(&mut connection)
        };
        prop_assert_eq!(run(&cuts), run(&[]));
    }

    #[test]
    fn answers_in_any_order_reach_their_calls(
        bodies in bodies(),
        order in any::<prop::sample::Index>(),
        cuts in cuts(),
    ) {
        let mut connection = open();
        let mut calls = call(&mut connection, bodies.len());
        let expected: BTreeMap<CallId, Bytes> =
            calls.iter().zip(&bodies).map(|((call, _), body)| (*call, body.clone().into())).collect();
        let turns = order.index(calls.len());
        calls.rotate_left(turns);
        calls.reverse();
        let input: Vec<u8> =
            calls.iter().flat_map(|(call, request)| request.answer(&expected[call])).collect();
        for piece in pieces(&input, &cuts) {
            receive(&mut connection, piece).unwrap();
        }
        let events = events(&mut connection);
        prop_assert_eq!(events.len(), expected.len());
        for event in events {
            let Event::Answered { call, body } = event else { panic!("{event:?}") };
            prop_assert_eq!(&expected[&call], &body);
        }
        prop_assert!(!connection.has_calls());
    }

    #[test]
    fn an_answer_that_nobody_waits_for_ends_the_connection(unknown in any::<i32>()) {
        let mut connection = open();
        let calls = call(&mut connection, 3);
        prop_assume!(calls.iter().all(|(_, request)| request.correlation != unknown));
        let error = receive(&mut connection, &frame(unknown, &[0], b"")).unwrap_err();
        prop_assert_eq!(error, ConnectionError::UnknownAnswer { correlation: unknown });
        prop_assert!(!connection.accepting(START) && !connection.has_calls());
        prop_assert!(connection.call(START, outgoing(Duration::MAX)).is_err());
    }

    #[test]
    fn a_frame_that_is_cut_off_waits(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut connection = open();
        let request = call(&mut connection, 1).remove(0).1;
        let answer = request.answer(&body);
        let (last, most) = answer.split_last().unwrap();
        for byte in most {
            receive(&mut connection, &[*byte]).unwrap();
            prop_assert_eq!(connection.next_event(), None);
        }
        receive(&mut connection, &[*last]).unwrap();
        let answered = matches!(connection.next_event(), Some(Event::Answered { .. }));
        prop_assert!(answered);
    }

    #[test]
    fn a_length_beyond_the_limit_is_an_error_as_soon_as_it_is_there(
        length in (ANSWER_MAX as u32 + 1)..=u32::MAX,
    ) {
        let mut connection = open();
        call(&mut connection, 1);
        let length_bytes = length.to_be_bytes();
        receive(&mut connection, &length_bytes[..3]).unwrap();
        let error = receive(&mut connection, &length_bytes[3..]).unwrap_err();
        let expected = FrameError::TooLong { length, limit: ANSWER_MAX };
        prop_assert_eq!(error, ConnectionError::Frame(expected));
        prop_assert!(receive(&mut connection, &[0]).is_err(), "nothing is read after the end");
    }

    #[test]
    fn random_bytes_end_in_a_value(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        cuts in cuts(),
        opened in any::<bool>(),
    ) {
        let mut connection = if opened { open() } else { begin(None) };
        for piece in pieces(&bytes, &cuts) {
            if receive(&mut connection, piece).is_err() {
                break;
            }
        }
    }

    /// Short frames with the right correlation id, so that what is inside is looked at.
    #[test]
    fn random_answers_to_the_handshake_end_in_a_value(
        bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..4),
        code in prop::sample::select(vec![0_u8, 35]),
    ) {
        let credentials =
            Credentials::ScramSha512 { username: "u".into(), password: Secret::new("p") };
        let mut connection = begin(Some(credentials));
        for mut body in bodies {
            if let Some(first) = body.first_chunk_mut::<2>() {
                *first = [0, code];
            }
            let Some(request) = requests(&connection.outbox().split()).pop() else { break };
            if receive(&mut connection, &request.answer(&body)).is_err() {
                break;
            }
        }
    }

    #[test]
    fn whatever_happens_the_invariants_hold(
        script in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        script::run(&script);
        // Most of the random ones never open; these do.
        script::run(&[&[0xff - 1][..], &script].concat());
    }
}

#[test]
fn during_the_handshake_short_frames_only_are_accepted() {
    let mut connection = begin(None);
    let length = u32::try_from(HANDSHAKE_MAX + 1).unwrap();
    let error = receive(&mut connection, &length.to_be_bytes()).unwrap_err();
    let expected = FrameError::TooLong { length, limit: HANDSHAKE_MAX };
    assert_eq!(error, ConnectionError::Frame(expected));
}

#[test]
fn lengths_inside_a_frame_that_lie_are_errors() {
    // No correlation id; and tagged fields of the header that go beyond the frame.
    let empty: &[u8] = &[0, 0, 0, 0];
    let three: &[u8] = &[0, 0, 0, 3, 0, 0, 1];
    for bytes in [empty, three] {
        let mut connection = open();
        call(&mut connection, 1);
        assert!(matches!(receive(&mut connection, bytes), Err(ConnectionError::Malformed(_))));
    }
    for tags in [&[][..], &[1], &[1, 0], &[1, 0, 2, 0], &[0xff; 5], &[0xff; 9], &[2, 0, 0]] {
        let mut connection = open();
        let request = call(&mut connection, 1).remove(0).1;
        let bytes = frame(request.correlation, tags, b"");
        let outcome = receive(&mut connection, &bytes);
        assert!(matches!(outcome, Err(ConnectionError::Malformed(_))), "{tags:?}: {outcome:?}");
    }
}

#[test]
fn tagged_fields_of_a_header_are_passed_over() {
    let mut connection = open();
    let (call, request) = call(&mut connection, 1).remove(0);
    let answer = frame(request.correlation, &[2, 0, 1, 7, 9, 0], b"body");
    receive(&mut connection, &answer).unwrap();
    let body = Bytes::from_static(b"body");
    assert_eq!(connection.next_event(), Some(Event::Answered { call, body }));
}

#[test]
fn a_late_answer_is_dropped_and_no_more_calls_are_taken() {
    let mut connection = open();
    let soon = Duration::from_secs(1);
    let first = connection.call(START, outgoing(soon)).unwrap();
    let late = sent(&mut connection);
    let (second, request) = call(&mut connection, 1).remove(0);
    assert_eq!(connection.next_deadline(), Some(soon));
    connection.handle_time(soon - Duration::from_nanos(1)).unwrap();
    assert_eq!(connection.next_event(), None, "not before its deadline");
    connection.handle_time(soon).unwrap();
    assert_eq!(events(&mut connection), [Event::Expired { call: first }]);
    assert!(!connection.accepting(soon) && connection.has_calls());
    let refused = connection.call(soon, outgoing(Duration::MAX));
    assert_eq!(refused, Err(ConnectionError::NotAccepting));

    // The other call keeps its own deadline, and is answered behind the late answer.
    assert_eq!(connection.next_deadline(), Some(Duration::from_secs(9)));
    connection.handle_input(soon, &late.answer(b"late")).unwrap();
    assert_eq!(connection.next_event(), None);
    connection.handle_input(soon, &request.answer(b"in time")).unwrap();
    let body = Bytes::from_static(b"in time");
    assert_eq!(events(&mut connection), [Event::Answered { call: second, body }]);
    assert_eq!(connection.next_deadline(), None);
    // An answer twice is one that nobody waits for.
    assert!(connection.handle_input(soon, &late.answer(b"late")).is_err());
}

#[test]
fn no_call_expires_after_the_end() {
    let mut connection = open();
    call(&mut connection, 2);
    receive(&mut connection, &[0xff; 8]).unwrap_err();
    connection.handle_time(Duration::MAX).unwrap();
    assert_eq!(connection.next_event(), None);
    assert_eq!(connection.next_deadline(), None);
}

#[test]
fn what_was_answered_before_the_end_is_answered() {
    let mut connection = open();
    let (call, request) = call(&mut connection, 1).remove(0);
    let bytes = [&request.answer(b"body")[..], &[0xff; 8]].concat();
    receive(&mut connection, &bytes).unwrap_err();
    let body = Bytes::from_static(b"body");
    assert_eq!(events(&mut connection), [Event::Answered { call, body }]);
}

#[test]
fn a_handshake_has_a_deadline() {
    let mut connection = begin(None);
    let deadline = connection.next_deadline().unwrap();
    connection.handle_time(deadline - Duration::from_nanos(1)).unwrap();
    assert_eq!(connection.handle_time(deadline), Err(ConnectionError::HandshakeExpired));
    assert_eq!(connection.next_deadline(), None);
    assert!(receive(&mut connection, &[0]).is_err());
}

/// ApiVersions in version 0: a code, then key, oldest and newest version of each request.
fn versions_v0(code: i16, offers: &[(i16, i16, i16)]) -> Vec<u8> {
    let offer = |(key, min, max): &(i16, i16, i16)| [*key, *min, *max].map(i16::to_be_bytes);
    let count = i32::try_from(offers.len()).unwrap().to_be_bytes();
    let offers: Vec<u8> = offers.iter().flat_map(offer).flatten().collect();
    [&code.to_be_bytes()[..], &count, &offers].concat()
}

#[test]
fn a_node_that_knows_only_version_0_of_the_versions_is_understood() {
    let mut connection = begin(None);
    let hello = sent(&mut connection);
    assert_eq!((hello.key, hello.version), (18, 4));
    receive(&mut connection, &hello.answer(&versions_v0(35, &[(18, 0, 2)]))).unwrap();
    let again = sent(&mut connection);
    assert_eq!((again.key, again.version, again.body.len()), (18, 0, 0));
    assert_ne!(again.correlation, hello.correlation);
    let offers = [(18, 0, 2), (60, 0, 2)];
    receive(&mut connection, &again.answer(&versions_v0(0, &offers))).unwrap();
    assert_eq!(events(&mut connection), [Event::Ready]);
    let request = call(&mut connection, 1).remove(0).1;
    assert_eq!((request.key, request.version, &request.body[..]), (60, 2, &b"?"[..]));
}

#[test]
fn a_node_that_is_some_versions_behind_is_asked_in_its_own() {
    let mut connection = begin(None);
    let hello = sent(&mut connection);
    receive(&mut connection, &hello.answer(&versions_v0(35, &[(18, 0, 3)]))).unwrap();
    let again = sent(&mut connection);
    assert_eq!(again.version, 3);
    receive(&mut connection, &again.answer(&offer_all(3))).unwrap();
    assert_eq!(events(&mut connection), [Event::Ready]);
}

fn plain() -> Credentials {
    Credentials::Plain { username: "user".into(), password: Secret::new("pencil") }
}

fn scram() -> Credentials {
    Credentials::ScramSha512 { username: "user".into(), password: Secret::new("pencil") }
}

/// Up to the first message of the mechanism itself.
fn begin_sasl(credentials: Credentials) -> (Connection, Request) {
    let mechanism = credentials.mechanism();
    let mut connection = begin(Some(credentials));
    let hello = sent(&mut connection);
    receive(&mut connection, &hello.answer(&offer_all(hello.version))).unwrap();
    let handshake = sent(&mut connection);
    assert_eq!((handshake.key, handshake.version), (17, 1));
    assert_eq!(&handshake.body[2..], mechanism.as_bytes());
    receive(&mut connection, &handshake.answer(&[0, 0, 0, 0, 0, 0])).unwrap();
    let first = sent(&mut connection);
    assert_eq!((first.key, first.version), (36, 2));
    (connection, first)
}

fn token(request: &Request) -> String {
    let message = SaslAuthenticateRequest::decode(&mut request.body.clone(), request.version);
    String::from_utf8(message.unwrap().auth_bytes.to_vec()).unwrap()
}

fn authenticate(text: &str, lifetime_ms: i64) -> Bytes {
    let answer = SaslAuthenticateResponse::default()
        .with_auth_bytes(text.as_bytes().to_vec().into())
        .with_session_lifetime_ms(lifetime_ms);
    encode(&answer, 2)
}

#[test]
fn plain_opens_a_session_that_is_left_before_it_ends() {
    let (mut connection, first) = begin_sasl(plain());
    assert_eq!(token(&first), "\0user\0pencil");
    receive(&mut connection, &first.answer(&authenticate("", 1000))).unwrap();
    assert_eq!(events(&mut connection), [Event::Ready]);
    assert!(connection.accepting(Duration::from_millis(799)));
    assert!(!connection.accepting(Duration::from_millis(800)));
}

/// The longest lifetime that the wire can carry, and those that mean "none".
#[test]
fn any_lifetime_of_a_session_is_taken() {
    for lifetime in [i64::MIN, -1, 0, i64::MAX] {
        let (mut connection, first) = begin_sasl(plain());
        receive(&mut connection, &first.answer(&authenticate("", lifetime))).unwrap();
        assert!(connection.accepting(Duration::from_secs(1 << 40)), "{lifetime}");
    }
}

/// The server's side of SCRAM: its challenge to the client's first message.
fn challenge(first: &Request) -> String {
    let token = token(first);
    assert_eq!(token, "n,,n=user,r=nonce");
    format!("r=nonce-of-both,s={},i=4096", STANDARD.encode("salt"))
}

fn sign(key: &[u8], message: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA512, key), message.as_bytes()).as_ref().to_vec()
}

/// Checks the client's proof as a server does, which knows the password; gives the server's own.
fn verify(challenge: &str, last: &Request) -> String {
    let token = token(last);
    let (without_proof, proof) = token.rsplit_once(",p=").unwrap();
    assert_eq!(without_proof, "c=biws,r=nonce-of-both");
    let signed = format!("n=user,r=nonce,{challenge},{without_proof}");
    let mut salted = [0; digest::SHA512_OUTPUT_LEN];
    let rounds = std::num::NonZeroU32::new(4096).unwrap();
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA512, rounds, b"salt", b"pencil", &mut salted);
    let stored = digest::digest(&digest::SHA512, &sign(&salted, "Client Key"));
    let signature = sign(stored.as_ref(), &signed);
    let proof = STANDARD.decode(proof).unwrap();
    let key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
    assert_eq!(digest::digest(&digest::SHA512, &key).as_ref(), stored.as_ref(), "a wrong proof");
    STANDARD.encode(sign(&sign(&salted, "Server Key"), &signed))
}

#[test]
fn scram_proves_the_password_to_both_sides() {
    let (mut connection, first) = begin_sasl(scram());
    let challenge = challenge(&first);
    receive(&mut connection, &first.answer(&authenticate(&challenge, 0))).unwrap();
    let last = sent(&mut connection);
    let proof = verify(&challenge, &last);
    receive(&mut connection, &last.answer(&authenticate(&format!("v={proof}"), 0))).unwrap();
    assert_eq!(events(&mut connection), [Event::Ready]);
    assert!(connection.accepting(Duration::MAX), "a session without an end");
}

#[test]
fn a_server_without_the_password_is_found_out() {
    let (mut connection, first) = begin_sasl(scram());
    let challenge = challenge(&first);
    receive(&mut connection, &first.answer(&authenticate(&challenge, 0))).unwrap();
    let last = sent(&mut connection);
    let proof = STANDARD.encode([7; digest::SHA512_OUTPUT_LEN]);
    let error = receive(&mut connection, &last.answer(&authenticate(&format!("v={proof}"), 0)));
    assert!(matches!(error, Err(ConnectionError::Sasl(SaslError::Server { .. }))), "{error:?}");
    assert_eq!(connection.next_event(), None);
}

#[test]
fn a_refusal_is_given_in_the_server_s_words() {
    let (mut connection, first) = begin_sasl(plain());
    let answer = SaslAuthenticateResponse::default()
        .with_error_code(58)
        .with_error_message(Some("no such user".to_owned().into()));
    let error = receive(&mut connection, &first.answer(&encode(&answer, 2))).unwrap_err();
    assert_eq!(error.to_string(), "authentication failed: no such user");
}

#[test]
fn a_node_without_sasl_says_so_before_a_password_is_sent() {
    let mut connection = begin(Some(plain()));
    let hello = sent(&mut connection);
    let old = versions_v0(35, &[(18, 0, 0)]);
    receive(&mut connection, &hello.answer(&old)).unwrap();
    let again = sent(&mut connection);
    receive(&mut connection, &again.answer(&versions_v0(0, &[(18, 0, 0)]))).unwrap();
    let handshake = sent(&mut connection);
    assert_eq!(handshake.key, 17);
    let error = receive(&mut connection, &handshake.answer(&[0, 0, 0, 0, 0, 0])).unwrap_err();
    assert!(matches!(error, ConnectionError::Unsupported(Unsupported::Api { .. })), "{error:?}");
    assert!(connection.outbox().is_empty());
}
