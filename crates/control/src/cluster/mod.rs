//! What a cluster should be: its validated wishes, its nodes and their ids, what each node's Kafka is told.
