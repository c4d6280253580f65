//! The nodes' side of the protocol, as much as tests need: requests are taken apart, answers framed.

use bytes::{Bytes, BytesMut};
use kafka_admin::proto::table;
use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::protocol::Encodable;

pub(crate) const API_VERSIONS: i16 = 18;
pub(crate) const SASL_HANDSHAKE: i16 = 17;

/// A request that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) key: i16,
    pub(crate) version: i16,
    pub(crate) correlation: i32,
    pub(crate) body: Bytes,
}

impl Request {
    /// Takes a frame apart, without its length.
    pub(crate) fn parse(frame: &[u8]) -> Self {
        let number = |at: usize| i16::from_be_bytes([frame[at], frame[at + 1]]);
        let (key, version) = (number(0), number(2));
        let correlation = i32::from_be_bytes(frame[4..8].try_into().unwrap());
        let name_end = 10 + usize::try_from(number(8)).unwrap();
        // Requests before the flexible versions have no tagged fields in their header.
        let plain = key == SASL_HANDSHAKE || (key == API_VERSIONS && version < 3);
        let body = &frame[name_end + usize::from(!plain)..];
        Self { key, version, correlation, body: Bytes::copy_from_slice(body) }
    }

    /// The frame of an answer to this request.
    pub(crate) fn answer(&self, body: &[u8]) -> Vec<u8> {
        let plain = self.key == SASL_HANDSHAKE || self.key == API_VERSIONS;
        frame(self.correlation, if plain { &[] } else { &[0] }, body)
    }
}

/// All requests in these bytes, which must be whole frames.
pub(crate) fn requests(mut bytes: &[u8]) -> Vec<Request> {
    let mut requests = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (frame, behind) = rest.split_at(u32::from_be_bytes(*length) as usize);
        requests.push(Request::parse(frame));
        bytes = behind;
    }
    requests
}

/// Length, correlation id, tagged fields of the header, and body.
pub(crate) fn frame(correlation: i32, tags: &[u8], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(4 + tags.len() + body.len()).unwrap();
    [&length.to_be_bytes(), &correlation.to_be_bytes(), tags, body].concat()
}

pub(crate) fn encode<T: Encodable>(answer: &T, version: i16) -> Bytes {
    let mut body = BytesMut::new();
    answer.encode(&mut body, version).unwrap();
    body.freeze()
}

/// An ApiVersions answer that offers all that the client speaks.
pub(crate) fn offer_all(version: i16) -> Bytes {
    let offer = |(id, versions): (kafka_admin::proto::ApiId, std::ops::RangeInclusive<i16>)| {
        ApiVersion::default()
            .with_api_key(id.key)
            .with_min_version(*versions.start())
            .with_max_version(*versions.end())
    };
    let offers = table().into_iter().map(offer).collect();
    encode(&ApiVersionsResponse::default().with_api_keys(offers), version)
}

/// The bodies of all recorded answers, with the keys and versions they belong to.
pub(crate) fn recorded() -> Vec<(i16, i16, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/wire");
    let mut recorded = Vec::new();
    for (id, versions) in table() {
        for version in versions {
            let file = format!("{folder}/{id}.v{version}.kafka-4.3.1.bin");
            recorded.push((id.key, version, std::fs::read(file).unwrap()));
        }
    }
    recorded
}
