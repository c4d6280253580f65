//! A console with 100 open pages on 200 clusters on which nothing changes: its memory, its processor time and the bytes that
//! it sends. The clusters are made up, so what is measured is the server: observations are those of `gregor status`. The pages
//! are connections of this process, which counts as well.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking, in its helpers too")]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use console::Console;
use console::page::{Cluster, ClusterRow, Node, Overview, Quorum, Replica, State, Summary};
use console::source::{Acting, ClusterId, Edit, Observing, Resources, Source};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const CLUSTERS: usize = 200;
const PAGES: usize = 100;
const NODES: i32 = 9;

/// Every fifth page shows all clusters.
const OVERVIEWS: usize = 5;

const WARM: Duration = Duration::from_secs(5);
const MEASURED: Duration = Duration::from_secs(30);

struct Still;

impl Source for Still {
    fn overview(&self) -> Observing<'_, Overview> {
        let row = |number: usize| ClusterRow {
            namespace: "kafka".to_owned(),
            name: format!("cluster-{number}"),
            kafka_version: Some("4.3.1".to_owned()),
            state: State::Ready,
            ready: Some(9),
            nodes: Some(9),
            ..ClusterRow::default()
        };
        let clusters = (0..CLUSTERS).map(row).collect();
        Box::pin(async { Ok(Overview { clusters, unknown: Vec::new() }) })
    }

    fn cluster<'a>(&'a self, id: &'a ClusterId) -> Observing<'a, Option<Cluster>> {
        let node = |number: i32| Node {
            id: Some(number),
            pod: format!("{}-broker-{number}", id.name),
            ready: true,
            broker: true,
            partitions: Some(1_000),
            ..Node::default()
        };
        let replica = |number: i32| Replica { id: number, lag: Some(0), ..Replica::default() };
        let cluster = Cluster {
            summary: Summary { name: id.name.clone(), ..Summary::default() },
            nodes: (0..NODES).map(node).collect(),
            quorum: Some(Quorum { voters: (0..3).map(replica).collect(), ..Quorum::default() }),
            ..Cluster::default()
        };
        Box::pin(async { Ok(Some(cluster)) })
    }

    fn interval(&self) -> Option<Duration> {
        Some(Duration::from_secs(2))
    }

    fn origin(&self) -> String {
        "a benchmark".to_owned()
    }

    fn resources<'a>(&'a self, _: &'a ClusterId) -> Acting<'a, Resources> {
        Box::pin(async { Ok(Resources::default()) })
    }

    fn plan<'a>(&'a self, _: &'a ClusterId, _: &'a Edit) -> Acting<'a, Value> {
        Box::pin(async { Ok(Value::Null) })
    }

    fn apply<'a>(&'a self, _: &'a ClusterId, _: &'a Edit) -> Acting<'a, Vec<String>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn command<'a>(&'a self, _: &'a ClusterId, _: &'a str, _: &'a str) -> Acting<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}

#[tokio::main]
async fn main() {
    let console = Console::bind(0, Arc::new(Still)).await.unwrap();
    let url = console.url();
    let before = resident_kib();
    tokio::spawn(console.serve());
    let (host, login) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let (cookie, key) = session(host, login).await;
    let received = Arc::new(AtomicU64::new(0));
    for page in 0..PAGES {
        let query = match page % OVERVIEWS {
            0 => String::new(),
            _ => format!("?namespace=kafka&name=cluster-{page}"),
        };
        let request = format!(
            "GET /api/events{query} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nx-gregor-key: {key}\r\n\r\n"
        );
        tokio::spawn(read(host.to_owned(), request, Arc::clone(&received)));
    }
    tokio::time::sleep(WARM).await;
    let first = received.load(Ordering::Relaxed);
    let (begun, cpu) = (Instant::now(), cpu_ticks());
    tokio::time::sleep(MEASURED).await;
    let seconds = begun.elapsed().as_secs_f64();
    let bytes = received.load(Ordering::Relaxed) - first;
    // A tick is a hundredth of a second wherever Linux runs today.
    let cpu_ms = (cpu_ticks() - cpu) * 10;
    println!("{PAGES} open pages, {CLUSTERS} clusters, nothing changes, {seconds:.0} s");
    println!("  first bytes of a page   {:>8}", first / PAGES as u64);
    println!("  bytes/s of a page       {:>8.1}", bytes as f64 / seconds / PAGES as f64);
    println!("  processor, of one core  {:>7.2} %", cpu_ms as f64 / seconds / 10.0);
    println!("  resident memory         {:>8} KiB, {before} KiB before", resident_kib());
    assert!(first > 0, "no page was served");
}

/// The cookie and the key of a session.
async fn session(host: &str, login: &str) -> (String, String) {
    let mut socket = TcpStream::connect(host).await.unwrap();
    let request = format!("GET /{login} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let between = |from: &str, to: char| {
        let rest = answer.split_once(from).unwrap().1;
        rest.split(to).next().unwrap().to_owned()
    };
    (between("set-cookie: ", ';'), between("content=\"", '"'))
}

/// Reads a stream for ever.
async fn read(host: String, request: String, received: Arc<AtomicU64>) {
    let mut socket = TcpStream::connect(host).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = socket.read(&mut buffer).await.unwrap();
        assert!(read > 0, "a stream has ended");
        received.fetch_add(read as u64, Ordering::Relaxed);
    }
}

/// The processor time of this process.
fn cpu_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let rest = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<_> = rest.split_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum()
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}
