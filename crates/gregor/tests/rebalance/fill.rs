//! Writes records to partitions as fast as a socket takes them: a JVM for each topic would take minutes.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::{BufMut as _, Bytes, BytesMut};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    ApiKey, ProduceRequest, ProduceResponse, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable as _, Encodable as _, StrBytes};
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Record,
    RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};

/// The last version whose headers have no tags.
const VERSION: i16 = 8;

/// Answers of a leader that has not heard yet that it is one: nothing was written.
const NOT_YET: [i16; 2] = [3, 6];

/// Writes so many records of so many bytes to a partition, at its leader, and waits until all replicas in sync
/// have them.
pub(crate) fn write(
    leader: (IpAddr, u16),
    (topic, partition): (&str, i32),
    count: i64,
    bytes: usize,
) {
    let begun = Instant::now();
    loop {
        let code = attempt(leader, (topic, partition), count, bytes);
        if code == 0 {
            return;
        }
        let may_wait = NOT_YET.contains(&code) && begun.elapsed() < Duration::from_secs(60);
        assert!(may_wait, "{topic}-{partition}: error {code}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Writes once, and returns the code of the answer.
fn attempt(
    leader: (IpAddr, u16),
    (topic, partition): (&str, i32),
    count: i64,
    bytes: usize,
) -> i16 {
    let mut stream = TcpStream::connect(leader).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let data = PartitionProduceData::default()
        .with_index(partition)
        .with_records(Some(batch(count, bytes)));
    let data = TopicProduceData::default()
        .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partition_data(vec![data]);
    let request =
        ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![data]);
    let header = RequestHeader::default()
        .with_request_api_key(ApiKey::Produce as i16)
        .with_request_api_version(VERSION)
        .with_correlation_id(1);
    let mut body = BytesMut::new();
    header.encode(&mut body, 1).unwrap();
    request.encode(&mut body, VERSION).unwrap();
    let mut frame = BytesMut::new();
    frame.put_u32(u32::try_from(body.len()).unwrap());
    frame.extend_from_slice(&body);
    stream.write_all(&frame).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).unwrap();
    let mut answer = Bytes::from(answer);
    ResponseHeader::decode(&mut answer, 0).unwrap();
    let answer = ProduceResponse::decode(&mut answer, VERSION).unwrap();
    let parts = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
    let codes: Vec<i16> = parts.map(|part| part.error_code).collect();
    assert_eq!(codes.len(), 1, "{topic}-{partition}: {answer:?}");
    codes[0]
}

fn batch(count: i64, bytes: usize) -> Bytes {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let timestamp = i64::try_from(now).unwrap();
    let record = |offset: i64| Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_PRODUCER_EPOCH,
        timestamp_type: TimestampType::Creation,
        offset,
        // One batch: the encoder begins another where offset and number part.
        sequence: NO_SEQUENCE + i32::try_from(offset).unwrap(),
        timestamp,
        key: None,
        value: Some(Bytes::from(vec![b'x'; bytes])),
        headers: Default::default(),
    };
    let records: Vec<Record> = (0..count).map(record).collect();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    let mut encoded = BytesMut::new();
    RecordBatchEncoder::encode(&mut encoded, &records, &options).unwrap();
    encoded.freeze()
}
