//! What comes before the first request: agreeing on versions, then SASL where it is wanted.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, SaslAuthenticateRequest};
use kafka_protocol::protocol::StrBytes;

use super::api::API_VERSIONS_KEY;
use super::connection::ConnectionError;
use super::sasl::Exchange;
use super::{Api, Credentials, Malformed, SaslError, Versions};

const SASL_HANDSHAKE_KEY: i16 = 17;
const SASL_HANDSHAKE_VERSION: i16 = 1;
const UNSUPPORTED_VERSION: i16 = 35;
const UNSUPPORTED_SASL_MECHANISM: i16 = 33;

/// How a connection is to be opened.
#[derive(Debug, Clone)]
pub struct Handshake {
    /// Who we are, for listeners with SASL.
    pub credentials: Option<Credentials>,
    /// Random printable text without commas, new for each connection.
    pub nonce: String,
}

/// One message of the handshake.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) key: i16,
    pub(super) version: i16,
    pub(super) request_header: i16,
    pub(super) answer_header: i16,
    pub(super) body: Bytes,
}

#[derive(Debug)]
pub(super) enum Next {
    Send(Message),
    Done { versions: Versions, session: Option<Duration> },
}

#[derive(Debug)]
enum Step {
    /// Asked for the versions, in this version.
    Versions {
        asked: i16,
    },
    Mechanism,
    Authenticate(Exchange),
}

#[derive(Debug)]
pub(super) struct HandshakeState {
    how: Handshake,
    step: Step,
    versions: Versions,
}

impl HandshakeState {
    pub(super) fn start(how: Handshake) -> Result<(Self, Message), ConnectionError> {
        let asked = *ApiVersionsRequest::VERSIONS.end();
        let state = Self { how, step: Step::Versions { asked }, versions: Versions::default() };
        Ok((state, ask_versions(asked)?))
    }

    /// Takes the answer to the message sent last.
    pub(super) fn answer(&mut self, body: Bytes) -> Result<Next, ConnectionError> {
        match &mut self.step {
            Step::Versions { asked } => {
                let asked = *asked;
                self.take_versions(asked, body)
            }
            Step::Mechanism => self.take_mechanisms(body),
            Step::Authenticate(_) => self.take_challenge(body),
        }
    }

    fn take_versions(&mut self, asked: i16, body: Bytes) -> Result<Next, ConnectionError> {
        let first_two = body.first_chunk::<2>().map(|code| i16::from_be_bytes(*code));
        let refused = first_two == Some(UNSUPPORTED_VERSION);
        // A node that does not know the version asked for answers in version 0, whatever was asked.
        if refused || asked == 0 {
            let offered = parse_versions_v0(body)?;
            if !refused {
                self.versions = Versions::new(offered);
                return self.after_versions();
            }
            if asked == 0 {
                return Err(ConnectionError::Versions { code: UNSUPPORTED_VERSION });
            }
            let newest = offered.iter().find(|(key, ..)| *key == API_VERSIONS_KEY);
            let newest = newest.map_or(0, |(_, _, max)| *max);
            let asked = if newest < *ApiVersionsRequest::VERSIONS.start() || newest >= asked {
                0
            } else {
                newest
            };
            self.step = Step::Versions { asked };
            return Ok(Next::Send(ask_versions(asked)?));
        }
        let answer = ApiVersionsRequest::decode(asked, body)?;
        if answer.error_code != 0 {
            return Err(ConnectionError::Versions { code: answer.error_code });
        }
        let offered = answer.api_keys.iter().map(|k| (k.api_key, k.min_version, k.max_version));
        self.versions = Versions::new(offered);
        self.after_versions()
    }

    fn after_versions(&mut self) -> Result<Next, ConnectionError> {
        let Some(credentials) = &self.how.credentials else { return Ok(self.done(None)) };
        self.step = Step::Mechanism;
        let mechanism = credentials.mechanism();
        let mut body = BytesMut::new();
        body.put_i16(i16::try_from(mechanism.len()).unwrap_or(i16::MAX));
        body.put_slice(mechanism.as_bytes());
        Ok(Next::Send(Message {
            key: SASL_HANDSHAKE_KEY,
            version: SASL_HANDSHAKE_VERSION,
            request_header: 1,
            answer_header: 0,
            body: body.freeze(),
        }))
    }

    fn take_mechanisms(&mut self, body: Bytes) -> Result<Next, ConnectionError> {
        let (code, offered) = parse_mechanisms(body)?;
        let Some(credentials) = &self.how.credentials else { return Ok(self.done(None)) };
        match code {
            0 => {}
            UNSUPPORTED_SASL_MECHANISM => {
                let wanted = credentials.mechanism();
                return Err(SaslError::Mechanism { wanted, offered }.into());
            }
            code => return Err(refused(code, None).into()),
        }
        let (exchange, first) = Exchange::start(credentials, &self.how.nonce);
        self.step = Step::Authenticate(exchange);
        self.authenticate(first)
    }

    fn take_challenge(&mut self, body: Bytes) -> Result<Next, ConnectionError> {
        let version = self.versions.choose::<SaslAuthenticateRequest>()?;
        let answer = SaslAuthenticateRequest::decode(version, body)?;
        if answer.error_code != 0 {
            return Err(refused(answer.error_code, answer.error_message).into());
        }
        let Step::Authenticate(exchange) = &mut self.step else { return Ok(self.done(None)) };
        match exchange.step(&answer.auth_bytes)? {
            Some(message) => self.authenticate(message),
            None => {
                let lifetime = u64::try_from(answer.session_lifetime_ms).unwrap_or(0);
                Ok(self.done((lifetime > 0).then(|| Duration::from_millis(lifetime))))
            }
        }
    }

    fn authenticate(&self, message: Vec<u8>) -> Result<Next, ConnectionError> {
        let version = self.versions.choose::<SaslAuthenticateRequest>()?;
        let request = SaslAuthenticateRequest::default().with_auth_bytes(message.into());
        let mut body = BytesMut::new();
        request.encode(version, &mut body)?;
        Ok(Next::Send(Message {
            key: SaslAuthenticateRequest::ID.key,
            version,
            request_header: 2,
            answer_header: 1,
            body: body.freeze(),
        }))
    }

    fn done(&mut self, session: Option<Duration>) -> Next {
        Next::Done { versions: std::mem::take(&mut self.versions), session }
    }
}

fn refused(code: i16, message: Option<StrBytes>) -> SaslError {
    let message = message.map(|message| message.to_string()).filter(|text| !text.is_empty());
    SaslError::Refused { message: message.unwrap_or_else(|| format!("error {code}")) }
}

fn ask_versions(version: i16) -> Result<Message, ConnectionError> {
    let mut body = BytesMut::new();
    if version > 0 {
        // Empty names are refused by Kafka.
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("gregor"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        request.encode(version, &mut body)?;
    }
    let request_header = if version > 0 { 2 } else { 1 };
    let body = body.freeze();
    Ok(Message { key: API_VERSIONS_KEY, version, request_header, answer_header: 0, body })
}

/// Version 0 has plain array lengths, which the generated decoder would believe; so by hand.
fn parse_versions_v0(mut body: Bytes) -> Result<Vec<(i16, i16, i16)>, Malformed> {
    const WHAT: &str = "ApiVersions v0";
    let short = |error| Malformed::new(WHAT, error);
    let _code = body.try_get_i16().map_err(short)?;
    let count = body.try_get_i32().map_err(short)?;
    if usize::try_from(count).ok().and_then(|count| count.checked_mul(6)) != Some(body.len()) {
        return Err(Malformed::new(WHAT, format!("{count} entries in {} bytes", body.len())));
    }
    let entry = |mut entry: &[u8]| (entry.get_i16(), entry.get_i16(), entry.get_i16());
    Ok(body.chunks_exact(6).map(entry).collect())
}

/// SaslHandshake has no flexible version; so by hand too.
fn parse_mechanisms(mut body: Bytes) -> Result<(i16, Vec<String>), Malformed> {
    const WHAT: &str = "SaslHandshake";
    let short = |error| Malformed::new(WHAT, error);
    let code = body.try_get_i16().map_err(short)?;
    let count = body.try_get_i32().map_err(short)?;
    // Each takes at least its length of two bytes, so this loop is bounded by what has arrived.
    let mut names = Vec::new();
    for _ in 0..count {
        let length = usize::from(body.try_get_u16().map_err(short)?);
        if length > body.len() {
            return Err(Malformed::new(WHAT, "a name is longer than the message"));
        }
        names.push(String::from_utf8_lossy(&body.split_to(length)).into_owned());
    }
    Ok((code, names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Secret;

    fn start(credentials: Option<Credentials>) -> HandshakeState {
        let how = Handshake { credentials, nonce: "N".into() };
        let (state, first) = HandshakeState::start(how).unwrap();
        assert_eq!((first.key, first.version, first.request_header), (18, 4, 2));
        state
    }

    /// Code, then entries of key, min, max.
    fn v0(code: i16, entries: &[(i16, i16, i16)]) -> Bytes {
        let mut body = BytesMut::new();
        body.put_i16(code);
        body.put_i32(i32::try_from(entries.len()).unwrap());
        for (key, min, max) in entries {
            body.put_i16(*key);
            body.put_i16(*min);
            body.put_i16(*max);
        }
        body.freeze()
    }

    fn sent(next: Next) -> Message {
        match next {
            Next::Send(message) => message,
            Next::Done { .. } => panic!("done too early"),
        }
    }

    #[test]
    fn an_older_node_is_asked_again_in_its_newest_version() {
        let mut state = start(None);
        let again = sent(state.answer(v0(35, &[(18, 0, 3)])).unwrap());
        assert_eq!((again.version, again.request_header), (3, 2));
    }

    #[test]
    fn a_node_that_names_no_version_is_asked_in_version_0() {
        for entries in [&[][..], &[(18, 0, 2)], &[(18, 0, 9)]] {
            let mut state = start(None);
            let again = sent(state.answer(v0(35, entries)).unwrap());
            assert_eq!((again.version, again.request_header, again.body.len()), (0, 1, 0));
            let Next::Done { versions, .. } = state.answer(v0(0, &[(60, 0, 2)])).unwrap() else {
                panic!("not done");
            };
            assert_eq!(versions, Versions::new([(60, 0, 2)]));
        }
    }

    #[test]
    fn a_node_that_refuses_version_0_too_is_given_up() {
        let mut state = start(None);
        sent(state.answer(v0(35, &[])).unwrap());
        let error = state.answer(v0(35, &[])).unwrap_err();
        assert!(matches!(error, ConnectionError::Versions { code: 35 }));
    }

    #[test]
    fn counts_that_lie_are_errors() {
        for count in [-1, 2, i32::MAX] {
            let mut body = BytesMut::new();
            body.put_i16(35);
            body.put_i32(count);
            body.put_slice(&[0; 6]);
            assert!(start(None).answer(body.freeze()).is_err(), "{count}");
        }
        let mut body = BytesMut::new();
        body.put_i16(0);
        body.put_i32(i32::MAX);
        assert!(parse_mechanisms(body.freeze()).is_err());
    }

    #[test]
    fn a_mechanism_that_is_not_offered_is_said_with_those_that_are() {
        let password = Secret::new("x");
        let mut state = start(Some(Credentials::ScramSha512 { username: "u".into(), password }));
        sent(state.answer(v0(35, &[])).unwrap());
        let handshake = sent(state.answer(v0(0, &[(36, 0, 2)])).unwrap());
        assert_eq!((handshake.key, handshake.version), (17, 1));
        let mut body = BytesMut::new();
        body.put_i16(33);
        body.put_i32(1);
        body.put_i16(5);
        body.put_slice(b"PLAIN");
        let error = state.answer(body.freeze()).unwrap_err().to_string();
        assert_eq!(error, "the listener does not take SCRAM-SHA-512 (it offers: PLAIN)");
    }
}
