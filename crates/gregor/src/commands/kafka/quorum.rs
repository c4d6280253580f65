//! `gregor kafka quorum`: who leads, who votes, who follows how closely.

use std::fmt::Write as _;

use kafka_admin::{Admin, Quorum, QuorumReplica, VoterListener};
use serde::Serialize;

use super::connection::Session;
use crate::output::{Grid, Out, View, age, list, note, optional};

/// Followers ask for news at least twice a second. One that has been quiet for this long has missed
/// so many rounds that it is down, frozen or cut off.
const SILENT_AFTER_MS: u64 = 10_000;

/// The quorum, as it is printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QuorumView {
    leader: i32,
    /// False for a leader that is being removed: it leads until another is elected.
    leader_is_voter: bool,
    leader_epoch: i32,
    high_watermark: Option<u64>,
    kraft_version: Option<i16>,
    /// Whether voters can be added and removed.
    dynamic: Option<bool>,
    voters: Vec<ReplicaView>,
    observers: Vec<ReplicaView>,
}

/// A node of the quorum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplicaView {
    id: i32,
    status: Status,
    directory_id: Option<String>,
    log_end: Option<u64>,
    lag: Option<u64>,
    last_fetch_ago_ms: Option<u64>,
    last_caught_up_ago_ms: Option<u64>,
    /// Whether it has not fetched for long; `null` if the leader does not know when it did.
    silent: Option<bool>,
    endpoints: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Status {
    Leader,
    Follower,
    Observer,
}

pub(super) async fn run(session: &Session, out: &mut Out) -> anyhow::Result<()> {
    let quorum = session.admin.describe_quorum().await?;
    let view = QuorumView::new(&quorum, read_kraft_version(&session.admin).await);
    out.view(&view)
}

/// Without it the rest is still worth showing.
pub(super) async fn read_kraft_version(admin: &Admin) -> Option<i16> {
    match admin.describe_features(None).await {
        Ok(features) => Some(features.finalized.get("kraft.version").copied().unwrap_or(0)),
        Err(error) => {
            note(&format!("kraft.version is not known: {:#}", anyhow::Error::new(error)));
            None
        }
    }
}

impl QuorumView {
    pub(super) fn new(quorum: &Quorum, kraft_version: Option<i16>) -> Self {
        let leader_is_voter = quorum.voters.iter().any(|voter| voter.id == quorum.leader);
        let views = |replicas: &[QuorumReplica], follower| {
            let view = |replica: &QuorumReplica| {
                // A replaced disk makes one id both voter and observer; only the voter leads then.
                let leads = replica.id == quorum.leader
                    && (follower == Status::Follower || !leader_is_voter);
                let status = if leads { Status::Leader } else { follower };
                ReplicaView::new(quorum, replica, status)
            };
            replicas.iter().map(view).collect::<Vec<_>>()
        };
        Self {
            leader: quorum.leader.get(),
            leader_is_voter,
            leader_epoch: quorum.leader_epoch,
            high_watermark: quorum.high_watermark,
            kraft_version,
            dynamic: kraft_version.map(|version| version >= 1),
            voters: views(&quorum.voters, Status::Follower),
            observers: views(&quorum.observers, Status::Observer),
        }
    }
}

impl ReplicaView {
    fn new(quorum: &Quorum, replica: &QuorumReplica, status: Status) -> Self {
        // The leader fetches from itself, so to say, at the moment that it answers: that is its now.
        let now = quorum.leader_replica().and_then(|leader| leader.last_fetch_ms);
        let ago = |then: Option<u64>| Some(now?.saturating_sub(then?));
        let last_fetch_ago_ms = ago(replica.last_fetch_ms);
        Self {
            id: replica.id.get(),
            status,
            directory_id: replica.directory.map(|id| id.to_string()),
            log_end: replica.log_end,
            lag: quorum.lag(replica),
            last_fetch_ago_ms,
            last_caught_up_ago_ms: ago(replica.last_caught_up_ms),
            silent: last_fetch_ago_ms.map(|ago| ago > SILENT_AFTER_MS),
            endpoints: replica.endpoints.iter().map(endpoint).collect(),
        }
    }
}

fn endpoint(listener: &VoterListener) -> String {
    let VoterListener { name, host, port } = listener;
    format!("{name}://{}", kafka_admin::Endpoint::new(host.as_str(), *port))
}

impl View for QuorumView {
    fn table(&self, width: Option<u16>) -> String {
        let mut text = String::new();
        let not_voter = if self.leader_is_voter { "" } else { ", which is not a voter" };
        let voters = match self.kraft_version {
            Some(version @ 1..) => format!("dynamic (kraft.version {version})"),
            Some(version) => format!("static (kraft.version {version})"),
            None => "unknown".to_owned(),
        };
        let watermark = self.high_watermark.map_or("unknown".to_owned(), |mark| mark.to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "Leader:          {}{not_voter}", self.leader);
        let _ = writeln!(text, "Epoch:           {}", self.leader_epoch);
        let _ = writeln!(text, "High watermark:  {watermark}");
        let _ = writeln!(text, "Voters:          {}, {voters}\n", self.voters.len());
        let titles = [
            "ID",
            "STATUS",
            "DIRECTORY ID",
            "LOG END",
            "LAG",
            "LAST FETCH",
            "LAST CAUGHT UP",
            "ENDPOINTS",
        ];
        let mut grid = Grid::new(&titles).wrap(titles.len() - 1);
        for (replica, voter) in self.replicas() {
            grid.row([
                replica.id.to_string(),
                replica.status_text(voter),
                optional(replica.directory_id.as_deref()),
                optional(replica.log_end),
                optional(replica.lag),
                optional(replica.last_fetch_ago_ms.map(age)),
                optional(replica.last_caught_up_ago_ms.map(age)),
                list(&replica.endpoints),
            ]);
        }
        text + &grid.take(width)
    }
}

impl QuorumView {
    /// Voters first, and whether it is one.
    fn replicas(&self) -> impl Iterator<Item = (&ReplicaView, bool)> {
        let voters = self.voters.iter().map(|replica| (replica, true));
        voters.chain(self.observers.iter().map(|replica| (replica, false)))
    }
}

impl ReplicaView {
    fn status_text(&self, voter: bool) -> String {
        let mut text = match self.status {
            Status::Leader if voter => "Leader",
            Status::Leader => "Leader, no voter",
            Status::Follower => "Follower",
            Status::Observer => "Observer",
        }
        .to_owned();
        if self.silent == Some(true) {
            text.push_str(", silent");
        }
        text
    }
}

#[cfg(test)]
pub(super) mod tests {
    use model::{DirectoryId, NodeId};

    use super::*;

    /// The leader's clock.
    const NOW: u64 = 1_700_000_000_000;

    /// A replica that fetched so many ms ago and lacks so many records.
    pub(in super::super) fn replica(id: i32, ago: Option<u64>, lag: u64) -> QuorumReplica {
        let byte = u8::try_from(id + 1).unwrap();
        QuorumReplica {
            id: NodeId::new(id).unwrap(),
            directory: DirectoryId::from_bytes([byte; 16]),
            log_end: ago.map(|_| 1000 - lag),
            last_fetch_ms: ago.map(|ago| NOW - ago),
            last_caught_up_ms: ago.map(|ago| NOW - ago),
            endpoints: vec![],
        }
    }

    pub(in super::super) fn quorum(
        leader: i32,
        voters: Vec<QuorumReplica>,
        observers: Vec<QuorumReplica>,
    ) -> Quorum {
        let leader = NodeId::new(leader).unwrap();
        Quorum { leader, leader_epoch: 7, high_watermark: Some(999), voters, observers }
    }

    #[test]
    fn voters_come_first_and_those_that_are_quiet_are_marked() {
        let mut leader = replica(1, Some(0), 0);
        let (name, host) = ("CONTROLLER".to_owned(), "::1".to_owned());
        leader.endpoints = vec![VoterListener { name, host, port: 9093 }];
        let voters = vec![replica(0, Some(449), 2), leader, replica(2, None, 0)];
        let observers = vec![replica(100, Some(350), 0), replica(101, Some(125_000), 70)];
        let view = QuorumView::new(&quorum(1, voters, observers), Some(1));
        let expected = "\
Leader:          1
Epoch:           7
High watermark:  999
Voters:          3, dynamic (kraft.version 1)

ID   STATUS            DIRECTORY ID            LOG END  LAG  LAST FETCH  LAST CAUGHT UP  ENDPOINTS
0    Follower          AQEBAQEBAQEBAQEBAQEBAQ  998      2    0.4 s ago   0.4 s ago       -
1    Leader            AgICAgICAgICAgICAgICAg  1000     0    0.0 s ago   0.0 s ago       CONTROLLER://[::1]:9093
2    Follower          AwMDAwMDAwMDAwMDAwMDAw  -        -    -           -               -
100  Observer          ZWVlZWVlZWVlZWVlZWVlZQ  1000     0    0.3 s ago   0.3 s ago       -
101  Observer, silent  ZmZmZmZmZmZmZmZmZmZmZg  930      70   2 min ago   2 min ago       -
";
        assert_eq!(view.table(None), expected);
        let json = serde_json::to_value(&view).unwrap();
        assert_eq!(json["voters"][0]["directoryId"], "AQEBAQEBAQEBAQEBAQEBAQ");
        assert_eq!(json["voters"][2]["silent"], serde_json::Value::Null);
        assert_eq!(json["observers"][1]["lastFetchAgoMs"], 125_000);
        assert_eq!(json["observers"][1]["status"], "Observer");
        assert_eq!(json["dynamic"], true);
    }

    #[test]
    fn a_leader_that_is_not_a_voter_is_shown_as_such() {
        let view = QuorumView::new(
            &quorum(2, vec![replica(0, Some(1), 0)], vec![replica(2, Some(0), 0)]),
            Some(0),
        );
        let text = view.table(None);
        assert!(text.starts_with("Leader:          2, which is not a voter\n"), "{text}");
        assert!(text.contains("Voters:          1, static (kraft.version 0)\n"), "{text}");
        assert!(text.contains("2   Leader, no voter  AwMD"), "{text}");
    }

    #[test]
    fn a_replaced_disk_makes_one_id_voter_and_observer_and_only_the_voter_leads() {
        let mut replaced = replica(0, Some(0), 0);
        replaced.directory = DirectoryId::from_bytes([9; 16]);
        let view = QuorumView::new(&quorum(0, vec![replica(0, Some(0), 0)], vec![replaced]), None);
        assert_eq!(
            (view.voters[0].status, view.observers[0].status),
            (Status::Leader, Status::Observer)
        );
        assert!(view.table(None).contains("Voters:          1, unknown\n"));
    }
}
