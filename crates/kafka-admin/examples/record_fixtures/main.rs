//! Records answers of real Kafka clusters as byte fixtures: `testdata/wire/README.md` has the how.
//!
//! Every admin call is made on a small cluster of each supported version of Kafka, through a proxy
//! that keeps the answers. The calls are made several times over, and each time the proxy offers the
//! client newer versions of the requests, so that there is an answer for each version of the table.
//!
//! What the calls return is printed and does not matter: a refusal is an answer as well.

mod proxy;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use kafka_admin::proto::table;
use kafka_admin::{
    Acl, AclFilter, AclOperation, AclPattern, AclPermission, AclResource, Admin, Bootstrap,
    ClientOptions, CommittedOffsets, ConfigChange, ConfigResource, Credentials, Election, Endpoint,
    LevelChange, NewTopic, OffsetAt, ReplicaMove, Secret, VoterListener,
};
use model::{DirectoryId, NodeId, TopicName, TopicPartition};
use testkit::{Cluster, PLAIN_USERS};

use proxy::Recorder;

const KAFKA_VERSIONS: [&str; 2] = ["4.3.1", "4.1.2"];

/// The most that a fixture may have: they are for people to look into as well.
const FIXTURE_BYTES_MAX: usize = 4096;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/wire");
    let rounds = table().iter().map(|(_, versions)| versions.clone().count()).max().unwrap_or(1);
    for version in KAFKA_VERSIONS {
        let cluster = Cluster::builder()
            .version(version)
            .combined(1)
            .brokers(1)
            .log_dirs(2)
            .sasl_listeners(true)
            .authorizer(true)
            .start()
            .await?;
        let recorder = Arc::new(Recorder::new(FIXTURE_BYTES_MAX));
        for round in 0..rounds {
            recorder.offer(i16::try_from(round)?);
            make_calls(&cluster, &recorder, round).await?;
        }
        for ((name, api_version), body) in recorder.answers() {
            let file = folder.join(format!("{name}.v{api_version}.kafka-{version}.bin"));
            std::fs::write(&file, &body).with_context(|| format!("writing {file:?}"))?;
            println!("{:5} bytes in {file:?}", body.len());
        }
    }
    Ok(())
}

fn options(recorder: &Arc<Recorder>) -> ClientOptions {
    ClientOptions { names: Arc::clone(recorder) as _, ..ClientOptions::default() }
}

fn endpoints(addresses: Vec<(String, u16)>) -> Vec<Endpoint> {
    addresses.into_iter().map(|(host, port)| Endpoint::new(host, port)).collect()
}

async fn make_calls(
    cluster: &Cluster,
    recorder: &Arc<Recorder>,
    round: usize,
) -> anyhow::Result<()> {
    let brokers = Bootstrap::Brokers(endpoints(cluster.bootstrap_brokers()));
    let admin = Admin::new(brokers, options(recorder))?;
    let topic = TopicName::new(format!("round-{round}"))?;
    topics(&admin, &topic).await;
    replicas(&admin, cluster, &topic).await?;
    people(&admin).await;
    groups(&admin, cluster, &topic).await?;
    nodes(&admin, cluster).await?;
    show("delete topics", admin.delete_topics(&[topic]).await);

    let controllers = Bootstrap::Controllers(endpoints(cluster.bootstrap_controllers()));
    let admin = Admin::new(controllers, options(recorder))?;
    show("controllers", admin.describe_cluster().await);

    let (username, password) = PLAIN_USERS[0];
    let plain =
        Credentials::Plain { username: username.to_owned(), password: Secret::new(password) };
    let scram =
        Credentials::ScramSha512 { username: "recorded".to_owned(), password: Secret::new("word") };
    for credentials in [plain, scram] {
        let options = ClientOptions { credentials: Some(credentials), ..options(recorder) };
        let bootstrap = Bootstrap::Brokers(endpoints(cluster.bootstrap_sasl()));
        show("with SASL", Admin::new(bootstrap, options)?.describe_cluster().await);
    }
    Ok(())
}

async fn topics(admin: &Admin, topic: &TopicName) {
    let new = [NewTopic::new(topic.clone(), 2, 1).with_config("retention.ms", "60000")];
    show("create", admin.create_topics(&new, false).await);
    show("create again", admin.create_topics(&new, false).await);
    show("partitions", admin.create_partitions(topic, 3, None).await);
    show("list", admin.list_topics().await);
    let mut pages = admin.topic_pages(&[]).with_page_partitions(2);
    while let Ok(Some(page)) = pages.next().await {
        show("page", Ok::<_, ()>(page));
    }
    let resource = ConfigResource::Topic(topic.clone());
    let names = ["retention.ms", "cleanup.policy", "min.insync.replicas"];
    show("configs", admin.describe_configs(&resource, Some(&names)).await);
    let change = [ConfigChange::Set("retention.ms".to_owned(), "70000".to_owned())];
    show("alter configs", admin.alter_configs(&resource, &change, false).await);
    let partitions: BTreeSet<_> = (0..3).map(|id| TopicPartition::new(topic.clone(), id)).collect();
    show("offsets", admin.list_offsets(&partitions, OffsetAt::Latest).await);
}

async fn replicas(admin: &Admin, cluster: &Cluster, topic: &TopicName) -> anyhow::Result<()> {
    let partition = TopicPartition::new(topic.clone(), 0);
    for node in cluster.nodes() {
        let broker = NodeId::new(node.id()).context("node ids are not negative")?;
        show("log dirs", admin.describe_log_dirs(broker).await);
        let path = node.log_dirs()[1].display().to_string();
        let moves = [ReplicaMove { partition: partition.clone(), path }];
        show("move", admin.move_replicas(broker, &moves).await);
    }
    let everywhere = cluster.nodes().iter().filter_map(|node| NodeId::new(node.id())).collect();
    let targets = BTreeMap::from([(partition.clone(), Some(everywhere))]);
    show("reassign", admin.alter_reassignments(&targets, false).await);
    show("reassignments", admin.list_reassignments().await);
    show("cancel", admin.cancel_reassignments([partition.clone()]).await);
    show("elect", admin.elect_leaders(Election::Preferred, Some(&[partition])).await);
    Ok(())
}

async fn people(admin: &Admin) {
    show("password", admin.set_scram_password("recorded", &Secret::new("word")).await);
    show("users", admin.describe_scram_users().await);
    let acl = Acl {
        resource: AclResource::Topic,
        name: "recorded".to_owned(),
        pattern: AclPattern::Prefixed,
        principal: "User:recorded".to_owned(),
        host: "*".to_owned(),
        operation: AclOperation::Read,
        permission: AclPermission::Allow,
    };
    show("create ACL", admin.create_acls(&[acl]).await);
    show("ACLs", admin.describe_acls(&AclFilter::default()).await);
    show("delete ACLs", admin.delete_acls(&AclFilter::default()).await);
    let rate = BTreeMap::from([("producer_byte_rate".to_owned(), Some(1_048_576.0))]);
    let quotas = BTreeMap::from([("recorded".to_owned(), rate)]);
    show("set quotas", admin.alter_user_quotas(&quotas).await);
    show("quotas", admin.describe_user_quotas().await);
}

async fn groups(admin: &Admin, cluster: &Cluster, topic: &TopicName) -> anyhow::Result<()> {
    let id = format!("readers-of-{topic}");
    let offsets = CommittedOffsets::from([(TopicPartition::new(topic.clone(), 0), 0)]);
    show("commit", admin.commit_offsets(&id, &offsets).await);
    let ids = BTreeSet::from([id, "missing".to_owned()]);
    for node in cluster.nodes() {
        let broker = NodeId::new(node.id()).context("node ids are not negative")?;
        show("groups", admin.list_groups(broker).await);
    }
    show("group", admin.describe_groups(&ids).await);
    show("committed", admin.fetch_offsets(&ids).await);
    show("delete group", admin.delete_groups(&ids).await);
    Ok(())
}

async fn nodes(admin: &Admin, cluster: &Cluster) -> anyhow::Result<()> {
    show("cluster", admin.describe_cluster().await);
    show("features", admin.describe_features(None).await);
    let upgrade = admin.update_feature("metadata.version", 7, LevelChange::Upgrade, true).await;
    show("feature", upgrade);
    show("quorum", admin.describe_quorum().await);
    let node = cluster.node(200);
    let id = NodeId::new(node.id()).context("node ids are not negative")?;
    let directory: DirectoryId = node.directory_id()?.parse()?;
    let listener =
        VoterListener { name: "CONTROLLER".to_owned(), host: node.host().to_owned(), port: 9093 };
    show("add voter", admin.add_voter(None, id, directory, &[listener]).await);
    show("remove voter", admin.remove_voter(None, id, directory).await);
    let nobody = NodeId::new(999).context("node ids are not negative")?;
    show("unregister", admin.unregister_broker(nobody).await);
    Ok(())
}

fn show<T: Debug, E: Debug>(what: &str, result: Result<T, E>) {
    match result {
        Ok(answer) => println!("{what}: {answer:?}"),
        Err(error) => println!("{what} was refused: {error:?}"),
    }
}
