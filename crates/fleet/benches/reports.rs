//! How many reports of agents a fleet manager stores in a second, and how long the slowest of a hundred
//! takes: 10,000 data planes, each answer after the report is on disk; on SQLite, and on PostgreSQL if it is
//! installed.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking, in its helpers too")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fleet::client::Client;
use fleet::http::BASE;
use fleet::store::{DecisionKind, NewPlane};
use fleet_control::PlaneState::{Provisioned, Provisioning, WaitingForAgent};
use hyper::Method;
use support::{Manager, report};

const PLANES: usize = 10_000;

/// As many as report at the same moment; each has a connection of its own.
const AT_ONCE: usize = 64;

const SECONDS: u64 = 10;

/// The bar: reports a second, and milliseconds.
const BAR: (f64, f64) = (5000.0, 50.0);

#[tokio::main]
async fn main() {
    measure("SQLite", "sqlite").await;
    if std::path::Path::new("/usr/lib/postgresql").exists() {
        let postgres = support::postgres::Postgres::durable();
        measure("PostgreSQL", &postgres.database("bench")).await;
    }
}

async fn measure(name: &str, database: &str) {
    let manager = Manager::with(database, |config| {
        // Only the reports are measured.
        config.times.round_ms = 3_600_000;
        config.times.lease_ms = 8_000_000;
    })
    .await;
    let ids: Vec<String> = (0..PLANES).map(|number| format!("plane-{number:05}")).collect();
    prepare(&manager, &ids).await;
    let tokens: Vec<String> = ids.iter().map(|id| manager.signer.agent(id)).collect();
    println!("{PLANES} data planes, {AT_ONCE} agents at once, {name}, {SECONDS} s:");
    let next = Arc::new(AtomicUsize::new(0));
    let all = Arc::new((ids, tokens, manager.url.clone()));
    // Every token is checked once, as in a manager that has run for a minute.
    run(&all, &next, PLANES).await;
    let begun = Instant::now();
    let mut times = run(&all, &next, usize::MAX).await;
    let took = begun.elapsed().as_secs_f64();
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    let rate = times.len() as f64 / took;
    println!(
        "  {rate:.0} reports a second; median {:.1} ms, p99 {:.1} ms, slowest {:.1} ms",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    let (rate_bar, p99_bar) = BAR;
    let verdict = if rate >= rate_bar && at(0.99) <= p99_bar { "held" } else { "missed" };
    println!("  the bar is {rate_bar:.0} a second with p99 under {p99_bar:.0} ms: {verdict}");
}

/// Data planes that wait for their agents.
async fn prepare(manager: &Manager, ids: &[String]) {
    let mut tx = manager.store.begin().await.unwrap();
    for id in ids {
        let plane = NewPlane {
            id: id.clone(),
            cloud_provider: "hand".to_owned(),
            region: "here".to_owned(),
            multi_az: true,
            provider_type: "standalone".to_owned(),
            nodes: 3,
        };
        tx.add_plane(&plane).await.unwrap();
        let mut plane = tx.plane(id).await.unwrap().unwrap();
        for state in [Provisioning, Provisioned, WaitingForAgent] {
            tx.change_state(DecisionKind::State, &mut plane, state, "").await.unwrap();
        }
        tx.save_plane(&plane).await.unwrap();
    }
    tx.commit().await.unwrap();
}

type All = Arc<(Vec<String>, Vec<String>, String)>;

/// So many reports, or as many as there is time for, and how long each took.
async fn run(all: &All, next: &Arc<AtomicUsize>, count: usize) -> Vec<Duration> {
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let first = next.load(Ordering::Relaxed);
    let workers = (0..AT_ONCE).map(|_| {
        let (all, next) = (Arc::clone(all), Arc::clone(next));
        tokio::spawn(async move {
            let client = Client::new(Duration::from_secs(30)).unwrap();
            let mut times = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let over = count == usize::MAX && Instant::now() >= until;
                if over || number - first >= count {
                    return times;
                }
                let (ids, tokens, url) = &*all;
                let which = number % ids.len();
                let url = format!("{url}{BASE}/agent-clusters/{}/status", ids[which]);
                let mut body = report((500 + number as u64 % 1000, 5000), (6, 9, 3, 3));
                body["sequence"] = number.into();
                let begun = Instant::now();
                let token = Some(tokens[which].as_str());
                client.send(Method::PUT, &url, token, Some(&body)).await.unwrap();
                times.push(begun.elapsed());
            }
        })
    });
    let times = futures::future::join_all(workers).await;
    times.into_iter().flat_map(Result::unwrap).collect()
}
