//! `gregor kafka log-dirs`: what is on the disks of brokers, and how full they are.

use anyhow::bail;
use clap::Args;
use kafka_admin::LogDir;
use model::NodeId;
use serde::Serialize;

use super::connection::Session;
use crate::output::{Grid, Out, View, bytes, optional};

/// Brokers to query.
#[derive(Debug, Args)]
pub(super) struct LogDirs {
    /// Only this broker; may be repeated
    #[arg(long = "node", value_name = "ID")]
    nodes: Vec<NodeId>,
}

/// Log directories of a broker, as printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BrokerView {
    node: i32,
    /// Why there is no answer.
    error: Option<String>,
    dirs: Vec<DirView>,
}

/// A log directory, as printed. Its content is unknown if there is an error.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DirView {
    path: String,
    error: Option<String>,
    replicas: Option<usize>,
    /// Replicas that are being moved here from another log directory of the broker.
    arriving: Option<usize>,
    size_bytes: Option<u64>,
    total_bytes: Option<u64>,
    usable_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct DirsView(Vec<BrokerView>);

impl LogDirs {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        session.require_brokers("log directories of brokers")?;
        let mut views = Vec::new();
        for (node, fenced) in self.brokers(session).await? {
            let read = match fenced {
                true => Err("not asked: it is fenced".to_owned()),
                false => match session.admin.describe_log_dirs(node).await {
                    Ok(dirs) => Ok(dirs),
                    Err(error) => Err(format!("{:#}", anyhow::Error::new(error))),
                },
            };
            views.push(BrokerView::new(node, read));
        }
        let (all, failed) = (views.len(), views.iter().filter(|view| view.error.is_some()).count());
        out.view(&DirsView(views))?;
        if failed > 0 {
            bail!("{failed} of {all} brokers did not answer");
        }
        Ok(())
    }

    /// Brokers to query, and whether they are fenced. A broker that is selected by id is always tried.
    async fn brokers(&self, session: &Session) -> anyhow::Result<Vec<(NodeId, bool)>> {
        if !self.nodes.is_empty() {
            return Ok(self.nodes.iter().map(|id| (*id, false)).collect());
        }
        let cluster = session.admin.describe_cluster().await?;
        Ok(cluster.nodes.iter().map(|node| (node.id, node.fenced)).collect())
    }
}

impl BrokerView {
    fn new(node: NodeId, read: Result<Vec<LogDir>, String>) -> Self {
        let (error, dirs) = match read {
            Ok(dirs) => (None, dirs.iter().map(DirView::new).collect()),
            Err(error) => (Some(error), vec![]),
        };
        Self { node: node.get(), error, dirs }
    }
}

impl DirView {
    fn new(dir: &LogDir) -> Self {
        let usable = dir.failure.is_none();
        Self {
            path: dir.path.clone(),
            error: dir.failure.as_ref().map(ToString::to_string),
            replicas: usable.then_some(dir.replicas.len()),
            arriving: usable.then(|| dir.replicas.iter().filter(|log| log.future).count()),
            size_bytes: usable.then(|| dir.replicas.iter().map(|log| log.size_bytes).sum()),
            total_bytes: dir.total_bytes,
            usable_bytes: dir.usable_bytes,
        }
    }
}

impl View for DirsView {
    fn table(&self, width: Option<u16>) -> String {
        let titles = ["NODE", "PATH", "REPLICAS", "SIZE", "TOTAL", "USABLE", "STATE"];
        let mut grid = Grid::new(&titles).wrap(titles.len() - 1);
        for broker in &self.0 {
            let node = broker.node.to_string();
            if let Some(error) = &broker.error {
                let none = String::new;
                grid.row([node.clone(), none(), none(), none(), none(), none(), error.clone()]);
            }
            for dir in &broker.dirs {
                grid.row([
                    node.clone(),
                    dir.path.clone(),
                    optional(dir.replicas),
                    optional(dir.size_bytes.map(bytes)),
                    optional(dir.total_bytes.map(bytes)),
                    optional(dir.usable_bytes.map(bytes)),
                    dir.state(),
                ]);
            }
        }
        grid.take(width)
    }
}

impl DirView {
    fn state(&self) -> String {
        match (&self.error, self.arriving) {
            (Some(error), _) => error.clone(),
            (None, Some(arriving @ 1..)) => format!("ok, {arriving} arriving"),
            (None, _) => "ok".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use kafka_admin::{Code, Refusal, ReplicaLog};
    use model::{TopicName, TopicPartition};

    use super::*;

    #[test]
    fn a_disk_that_failed_and_a_broker_that_is_silent_are_shown_too() {
        let log = |number, size_bytes, future| ReplicaLog {
            partition: TopicPartition::new(TopicName::new("a").unwrap(), number),
            size_bytes,
            lag: 0,
            future,
        };
        let good = LogDir {
            path: "/a".to_owned(),
            failure: None,
            total_bytes: Some(10 << 30),
            usable_bytes: Some(5 << 30),
            replicas: vec![log(0, 1000, false), log(1, 1048, true)],
        };
        let failed = LogDir {
            path: "/b".to_owned(),
            failure: Some(Refusal { code: Code(56), message: None }),
            total_bytes: None,
            usable_bytes: None,
            replicas: vec![],
        };
        let id = |id| NodeId::new(id).unwrap();
        let view = DirsView(vec![
            BrokerView::new(id(100), Ok(vec![good, failed])),
            BrokerView::new(id(101), Err("gone".to_owned())),
        ]);
        let expected = "\
NODE  PATH  REPLICAS  SIZE     TOTAL     USABLE   STATE
100   /a    2         2.0 KiB  10.0 GiB  5.0 GiB  ok, 1 arriving
100   /b    -         -        -         -        KAFKA_STORAGE_ERROR (56)
101   -     -         -        -         -        gone
";
        assert_eq!(view.table(None), expected);
        let json = serde_json::to_value(&view).unwrap();
        assert_eq!(json[0]["dirs"][0]["sizeBytes"], 2048);
        assert_eq!(json[1]["error"], "gone");
    }
}
