//! A Kafka admin client over the wire protocol.
