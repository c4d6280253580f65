//! What Kafka has registered against what there should be, and the versions of its features.
