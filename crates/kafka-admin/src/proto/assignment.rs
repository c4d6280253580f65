//! What a member of a classic consumer group was assigned.
//!
//! The bytes come from another client by way of the broker, which does not read them. They are of no flexible version, so
//! [`Bounded`](super::bounded) does not protect a generated decoder: this one reserves nothing.

use bytes::{Buf, Bytes};

use super::Malformed;

const WHAT: &str = "ConsumerProtocolAssignment";

/// Topics with partitions, as they were assigned. No bytes at all are a member that has nothing yet.
pub(crate) fn assigned(mut bytes: Bytes) -> Result<Vec<(String, Vec<i32>)>, Malformed> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let _version = bytes.try_get_i16().map_err(malformed)?;
    let mut topics = Vec::new();
    for _ in 0..length(&mut bytes)? {
        let name = usize::try_from(bytes.try_get_i16().map_err(malformed)?).map_err(malformed)?;
        if name > bytes.remaining() {
            return Err(malformed("a topic name beyond its end"));
        }
        let name = String::from_utf8(bytes.split_to(name).to_vec()).map_err(malformed)?;
        let mut partitions = Vec::new();
        for _ in 0..length(&mut bytes)? {
            partitions.push(bytes.try_get_i32().map_err(malformed)?);
        }
        topics.push((name, partitions));
    }
    // What follows belongs to the assignor.
    Ok(topics)
}

fn length(bytes: &mut Bytes) -> Result<i32, Malformed> {
    bytes.try_get_i32().map_err(malformed)
}

fn malformed(why: impl std::fmt::Display) -> Malformed {
    Malformed::new(WHAT, why)
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition;
    use kafka_protocol::messages::{ConsumerProtocolAssignment, TopicName};
    use kafka_protocol::protocol::{Encodable as _, StrBytes};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_assignment_is_read_as_it_was_written() {
        let topic = |name: &str, partitions: &[i32]| {
            TopicPartition::default()
                .with_topic(TopicName(StrBytes::from_string(name.to_owned())))
                .with_partitions(partitions.to_vec())
        };
        let written = ConsumerProtocolAssignment::default()
            .with_assigned_partitions(vec![topic("a", &[0, 7]), topic("b", &[])])
            .with_user_data(Some(Bytes::from_static(b"mine")));
        for version in 0..=3_i16 {
            let mut bytes = bytes::BytesMut::new();
            bytes.extend_from_slice(&version.to_be_bytes());
            written.encode(&mut bytes, version).unwrap();
            let expected = vec![("a".to_owned(), vec![0, 7]), ("b".to_owned(), vec![])];
            assert_eq!(assigned(bytes.freeze()).unwrap(), expected, "version {version}");
        }
        assert_eq!(assigned(Bytes::new()), Ok(vec![]), "nothing yet");
    }

    #[test]
    fn lengths_that_lie_are_errors() {
        for bytes in [
            &[0_u8][..],
            &[0, 0, 0x7f, 0xff, 0xff, 0xff],
            &[0, 0, 0, 0, 0, 1, 0x7f, 0xff, b'a'],
            &[0, 0, 0, 0, 0, 1, 0xff, 0xff],
            &[0, 0, 0, 0, 0, 1, 0, 1, b'a', 0x7f, 0xff, 0xff, 0xff],
        ] {
            assert!(assigned(Bytes::copy_from_slice(bytes)).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = assigned(Bytes::from(bytes));
        }
    }
}
