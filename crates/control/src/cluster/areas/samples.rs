//! Snapshots for the tests of areas, written in a line.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use model::{DirectoryId, NodeId};

use crate::cluster::draft::{Draft, Flow};
use crate::cluster::fact::Fact;
use crate::cluster::origin::Kind;
use crate::cluster::record::Record;
use crate::cluster::snapshot::{
    BrokerView, ClaimView, FeaturesView, Needs, NodeView, Partitions, PodView, RebalanceView,
    Revision, Snapshot,
};
use crate::conditions::Reason;
use crate::node::Roles;
use crate::quorum::format::QuorumMode;
use crate::quorum::{QuorumView, Replica};
use crate::rebalance::auto::{Brokers, Partner, PerMode, Setting};
use crate::registration::KafkaVersion;

pub(in crate::cluster) const NOW: u64 = 1_000_000;

pub(in crate::cluster) fn id(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

/// The directory id of a node.
pub(in crate::cluster) fn directory(id: i32) -> DirectoryId {
    DirectoryId::from_bytes([u8::try_from(id).unwrap() + 1; 16]).unwrap()
}

/// A cluster with controllers 0, 1, 2 and brokers 3, 4, 5 that is as it should be, and its record.
pub(in crate::cluster) fn settled() -> (Snapshot, Record) {
    let mut snapshot = Snapshot { now_ms: NOW, objects_ms: NOW, ..Snapshot::default() };
    let rebalance = RebalanceView {
        settings: PerMode { remove: Setting::Off, add: Setting::Off },
        partners: PerMode { remove: Partner::Missing, add: Partner::Missing },
        moving: Brokers::new(),
        unclaimed: false,
    };
    snapshot.rebalance = Fact::read(rebalance, NOW);
    let mut record =
        Record { cluster_id: Some("c".to_owned()), was_ready: true, ..Record::default() };
    record.quorum.mode = QuorumMode::Dynamic;
    for node in 0..6 {
        add_node(&mut snapshot, &mut record, node, if node < 3 { "controller" } else { "broker" });
    }
    let replica = |node: i32| Replica {
        id: id(node),
        directory: Some(directory(node)),
        log_end: Some(100),
        last_fetch_ms: Some(NOW),
        last_caught_up_ms: Some(NOW),
    };
    let quorum = QuorumView {
        leader: id(0),
        epoch: 1,
        high_watermark: Some(100),
        voters: (0..3).map(replica).collect(),
        observers: (3..6).map(replica).collect(),
        fetch_timeout_ms: 2_000,
    };
    snapshot.kafka.quorum = Fact::read(quorum, NOW);
    let broker = |node: i32| (id(node), BrokerView { fenced: false, rack: None });
    snapshot.kafka.brokers = Fact::read((3..6).map(broker).collect(), NOW);
    let features = FeaturesView { kraft_version: Some(1), metadata_version: Some(30) };
    snapshot.kafka.features = Fact::read(features, NOW);
    snapshot.desired.kafka_version = Some(KafkaVersion::new(4, 3, 1));
    snapshot.desired.pools = ["controller".to_owned(), "broker".to_owned()].into();
    snapshot.desired.services = Some(["c-kafka-bootstrap".to_owned()].into());
    (snapshot, record)
}

/// A node with its pod and its claim, which goes with it.
pub(super) fn add_node(snapshot: &mut Snapshot, record: &mut Record, node: i32, roles: &str) {
    let (pool, roles): (_, Roles) = (roles, roles.parse().unwrap());
    let pod = format!("c-{pool}-{node}");
    let view = NodeView {
        pool: pool.to_owned(),
        host: format!("{pod}.c"),
        pod: pod.clone(),
        recorded: Some(roles),
        desired: Some(roles),
        current: Some(roles),
        revision: Some(revision()),
        settings: Some("s".to_owned()),
    };
    let claim = ClaimView {
        uid: format!("claim-{node}"),
        ours: true,
        delete_with_node: true,
        deleting: false,
        resize_pending: false,
    };
    snapshot.claims.insert(format!("data-{pod}"), claim);
    let pod_view = PodView {
        node: NodeId::new(node),
        uid: format!("pod-{node}"),
        ready: true,
        roles: Some(roles),
        kafka_version: Some(KafkaVersion::new(4, 3, 1)),
        pool: Some(pool.to_owned()),
        dynamic_quorum: true,
        deleting: false,
        deletion_ms: None,
        created_ms: 0,
        waiting: None,
        unschedulable: false,
        revision: revision(),
        restart: false,
        disk_replaced: false,
        exit_code: None,
    };
    snapshot.pods.insert(pod, pod_view);
    snapshot.nodes.insert(id(node), view);
    record.pools.entry(pool.to_owned()).or_default().insert(id(node), roles);
    record.confirmed_settings.insert(id(node), "s".to_owned());
}

/// What all pods were started with.
fn revision() -> Revision {
    let text = |text: &str| Some(text.to_owned());
    Revision {
        pod: text("r"),
        settings: text("s"),
        cluster_ca: text("0"),
        cluster_ca_key: text("0"),
        clients_ca: text("0"),
        certificate: text("t"),
    }
}

/// The facts that an area asks for before anything is decided.
pub(super) fn asked(
    needs: fn(&Snapshot, &Draft) -> Needs,
    snapshot: &Snapshot,
    record: &Record,
) -> Needs {
    needs(snapshot, &Draft::new(record.clone()))
}

/// No partition is anywhere.
pub(in crate::cluster) fn empty(snapshot: &mut Snapshot) {
    let partitions = Partitions { brokers: [id(3)].into(), ..Partitions::default() };
    snapshot.kafka.partitions = Fact::read(partitions, NOW);
}

/// A broker takes new replicas, or does not.
pub(super) fn cordoned(snapshot: &mut Snapshot, node: i32, closed: bool) {
    snapshot.kafka.cordons = BTreeMap::from([(id(node), Fact::read(closed, NOW))]);
}

/// What an area decides, in words: its acts, and how the pass goes on with its reason.
pub(super) fn brief(
    decide: impl Fn(&Snapshot, &mut Draft) -> Flow,
    snapshot: &Snapshot,
    record: &Record,
) -> (String, String, Draft) {
    let mut draft = Draft::new(record.clone());
    // No moves run.
    draft.outputs.held = Some([].into());
    let flow = decide(snapshot, &mut draft);
    seen(&draft, &flow);
    let acts: Vec<_> = draft.acts.iter().map(|act| act.what.to_string()).collect();
    let word = |note: &crate::conditions::Note| note.reason.name().to_owned();
    let flow = match &flow {
        Flow::Go => "go".to_owned(),
        Flow::Wait(note) => format!("wait {}", word(note)),
        Flow::Stop(note) => format!("stop {}", word(note)),
        Flow::Hold(note) => format!("hold {}", word(note)),
        Flow::Fault(note) => format!("fault {}", word(note)),
    };
    (acts.join("; "), flow, draft)
}

/// The acts and the reasons of decisions.
type Seen = (BTreeSet<Kind>, BTreeSet<Reason>);

thread_local! {
    static SEEN: RefCell<Seen> = const { RefCell::new((BTreeSet::new(), BTreeSet::new())) };
}

/// The acts and the reasons of the decisions that rows make.
pub(in crate::cluster) fn recorded(rows: impl FnOnce()) -> Seen {
    SEEN.take();
    rows();
    SEEN.take()
}

/// Records the acts and the reasons of a decision.
pub(super) fn seen(draft: &Draft, flow: &Flow) {
    SEEN.with_borrow_mut(|(acts, reasons)| {
        acts.extend(draft.acts.iter().map(|act| act.what.kind()));
        reasons.extend(draft.warnings.iter().chain(flow.note()).map(|note| note.reason));
    });
}
