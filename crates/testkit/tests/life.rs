//! The life of real nodes.

use std::time::Instant;

use testkit::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn six_nodes_start() {
    let start = Instant::now();
    let cluster = Cluster::builder().controllers(3).brokers(3).start().await.unwrap();
    eprintln!("six nodes were ready after {:?}", start.elapsed());
    assert_eq!(cluster.nodes().len(), 6);
}
