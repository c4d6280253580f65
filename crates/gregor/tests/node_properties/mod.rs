//! A node with the server properties that the operator would write for it, from the custom resources on:
//! certificates from directories, its rack from a file, its address from the environment.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use api::{Kafka, KafkaNodePool};
use control::cluster::properties::{
    self, CONTROLLER_PORT, ClusterInput, NodeInput, QuorumProperties, REPLICATION_PORT,
};
use control::node::Roles;
use kafka_admin::{
    Admin, Bootstrap, CallError, ClientOptions, ConfigResource, ConnectError, DescribeClusterError,
    Endpoint, Tls,
};
use model::NodeId;
use serde_json::{Value, json};
use testkit::Authority;

use crate::node_support::Ground;

/// A free text of the server's with everything in it that a properties file has to escape. Kafka takes
/// white space around it away.
const ODD_KEY: &str = "remote.log.storage.manager.class.path";
const ODD: &str = "c:\\dir\\name =x:y #z! ü€😀\ttab\nline";

/// A node, its directory and the authority of its certificates.
pub(crate) struct NodeFiles {
    dir: PathBuf,
    host: String,
    id: NodeId,
    authority: Authority,
}

impl NodeFiles {
    /// Writes what is mounted in a pod.
    pub(crate) fn new(ground: &Ground, id: i32) -> Self {
        let (dir, host) = (ground.node_dir(id), ground.host(id));
        let authority = Authority::new("cluster-ca").unwrap();
        let identity = authority.node_certificate("my-kafka", &host).unwrap();
        let files = [
            ("certs/node/my-both-0.crt", identity.certificate_pem),
            ("certs/node/my-both-0.key", identity.key_pem),
            ("certs/trust/cluster-ca.crt", authority.ca_pem()),
            ("certs/trust/clients-ca.crt", authority.ca_pem()),
            ("init/rack.id", "zone-a".to_owned()),
            ("init/external.address", format!("nodeport.default.address={host}\n")),
        ];
        for (name, text) in files {
            let file = dir.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        Self { dir, host, id: NodeId::new(id).unwrap(), authority }
    }

    /// The server properties, and the port of controllers in them. The paths of the pod are those of
    /// this test.
    pub(crate) fn server_config(&self) -> (String, u16) {
        let kafka: Kafka = resource(json!({
            "kind": "Kafka",
            "spec": { "kafka": {
                "listeners": [
                    { "name": "plain", "port": 9092, "type": "internal", "tls": false },
                    { "name": "mutual", "port": 9093, "type": "internal", "tls": true,
                      "authentication": { "type": "tls" } },
                    { "name": "scram", "port": 9094, "type": "nodeport", "tls": true,
                      "authentication": { "type": "scram-sha-512" } },
                ],
                // The certificates of this test have no organization.
                "authorization": { "type": "simple", "superUsers": ["CN=my-kafka", "ANONYMOUS"] },
                "rack": { "topologyKey": "zone" },
                "config": {
                    ODD_KEY: ODD, "offsets.topic.replication.factor": 1, "node.id": 99,
                    "log.cleaner.dedupe.buffer.size": 2_097_152,
                },
            }},
        }));
        let pool: KafkaNodePool = resource(json!({
            "kind": "KafkaNodePool",
            "spec": {
                "replicas": 1, "roles": ["broker", "controller"],
                "storage": { "type": "jbod", "volumes": [
                    { "type": "ephemeral", "id": 1 },
                    { "type": "ephemeral", "id": 2, "kraftMetadata": "shared" },
                ]},
            },
        }));
        let spec = api::read::cluster(&kafka, &[pool]).unwrap();
        let layout = control::cluster::storage::layout(&spec.pools[0].storage, self.id);
        let address = properties::Address { host: None, port: 31094 };
        let server = properties::server(
            &ClusterInput {
                spec: &spec,
                version: "4.3.1".parse().unwrap(),
                quorum: &QuorumProperties::Dynamic([(self.id, self.host.clone())].into()),
            },
            &NodeInput {
                id: self.id,
                pod: "my-both-0",
                roles: Roles::Combined,
                host: &self.host,
                domain: "cluster.local",
                metadata_dir: &layout.metadata_dir,
                log_dirs: &layout.log_dirs,
                addresses: &BTreeMap::from([("scram".to_owned(), address)]),
                cordoned: false,
            },
        );
        let server = server.unwrap();
        assert_eq!(server.left_out, ["node.id"]);
        let dir = self.dir.display().to_string();
        let text = properties::render(&server.properties);
        (text.replace("/opt/kafka", &dir).replace("/var/lib/kafka", &dir), CONTROLLER_PORT)
    }

    /// Asks the node, as another node would, and as a client.
    pub(crate) async fn is_as_it_was_told(&self) {
        let identity = self.authority.client_certificate("my-kafka").unwrap();
        let identity = (identity.certificate_pem.as_bytes(), identity.key_pem.as_bytes());
        let tls = Tls::new(self.authority.ca_pem().as_bytes(), Some(identity)).unwrap();
        let brokers = self.admin(Bootstrap::Brokers, REPLICATION_PORT, Some(tls.clone()));
        // Kafka calls itself running some milliseconds before it accepts connections.
        let cluster = loop {
            match brokers.describe_cluster().await {
                Err(DescribeClusterError::Call(CallError::Connect {
                    source: ConnectError::Tcp { .. },
                    ..
                })) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                answer => break answer.unwrap(),
            }
        };
        assert_eq!(cluster.nodes[0].rack.as_deref(), Some("zone-a"));
        let endpoint = |port| Some(Endpoint::new(self.host.clone(), port));
        assert_eq!(cluster.nodes[0].endpoint, endpoint(REPLICATION_PORT));
        let node = ConfigResource::Node(self.id);
        let configs = brokers.describe_configs(&node, None).await.unwrap();
        assert_eq!(configs[ODD_KEY].value.as_deref(), Some(ODD));
        let advertised = configs["advertised.listeners"].value.clone().unwrap();
        let expected = format!("SCRAM-9094://{}:31094", self.host);
        assert!(advertised.ends_with(&expected), "{advertised}");
        let metadata = self.dir.join("data-2/kafka-log0").display().to_string();
        assert_eq!(configs["metadata.log.dir"].value, Some(metadata));
        let controllers = self.admin(Bootstrap::Controllers, CONTROLLER_PORT, Some(tls.clone()));
        assert_eq!(controllers.describe_quorum().await.unwrap().voters.len(), 1);
        let clients = self.admin(Bootstrap::Brokers, 9093, Some(tls));
        assert_eq!(clients.describe_cluster().await.unwrap().nodes[0].endpoint, endpoint(9093));
        // Nobody without a certificate is let in where nodes talk to each other.
        for tls in [None, Some(Tls::new(self.authority.ca_pem().as_bytes(), None).unwrap())] {
            for port in [REPLICATION_PORT, 9093] {
                let stranger = self.admin(Bootstrap::Brokers, port, tls.clone());
                assert!(stranger.describe_cluster().await.is_err(), "{port}");
            }
            let stranger = self.admin(Bootstrap::Controllers, CONTROLLER_PORT, tls.clone());
            assert!(stranger.describe_cluster().await.is_err());
        }
    }

    fn admin(&self, to: fn(Vec<Endpoint>) -> Bootstrap, port: u16, tls: Option<Tls>) -> Admin {
        let options = ClientOptions {
            tls,
            wait_for_nodes: false,
            call_timeout: Duration::from_secs(30),
            ..ClientOptions::default()
        };
        Admin::new(to(vec![Endpoint::new(self.host.clone(), port)]), options).unwrap()
    }
}

fn resource<T: serde::de::DeserializeOwned>(mut value: Value) -> T {
    let name = if value["kind"] == "Kafka" { "my" } else { "both" };
    value["apiVersion"] = json!("kafka.strimzi.io/v1");
    value["metadata"] = json!({ "name": name, "namespace": "here" });
    serde_json::from_value(value).unwrap()
}
