//! A fleet manager with 10,000 data planes and 100,000 Kafkas, and with a tenth of them: reports a second and how long they
//! take, pages of lists, its start on that database, how long a new Kafka waits for its place, and memory. On SQLite, and
//! with two replicas on PostgreSQL if it is installed.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking, in its helpers too")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fleet::client::Client;
use fleet::http::BASE;
use hyper::Method;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use support::{Manager, report};

/// The larger and the smaller fleet. Growth must not be worse than linear.
const SIZES: [usize; 2] = [1_000, 10_000];

/// Kafkas of each data plane.
const KAFKAS_EACH: usize = 10;

/// As many as report at the same moment; each has a connection of its own.
const AT_ONCE: usize = 64;

/// How long reports are counted.
const MEASURED: Duration = Duration::from_secs(10);

/// Requests for each list.
const LISTS: usize = 100;

/// The bars: reports a second, and milliseconds of a report, of a page and of a start.
const REPORTS_BAR: f64 = 5000.0;
const REPORT_BAR_MS: f64 = 50.0;
const PAGE_BAR_MS: f64 = 20.0;
const START_BAR_MS: f64 = 2000.0;

/// What was measured of one fleet.
struct Measured {
    rate: f64,
    pages_p99: f64,
    place: f64,
}

#[tokio::main]
async fn main() {
    let sizes = SIZES.into_iter().filter(|size| {
        std::env::var("GREGOR_BENCH_PLANES").map_or(true, |only| only == size.to_string())
    });
    let sizes: Vec<_> = sizes.collect();
    let mut all = Vec::new();
    for planes in &sizes {
        let dir = tempfile::tempdir().unwrap();
        let database = format!("sqlite:{}", dir.path().join("fleet.db").display());
        all.push(measure(*planes, "SQLite", &database, 1).await);
    }
    growth(&all);
    if std::path::Path::new("/usr/lib/postgresql").exists() {
        let postgres = support::postgres::Postgres::durable();
        let mut all = Vec::new();
        for planes in &sizes {
            let database = postgres.database(&format!("bench_{planes}"));
            all.push(measure(*planes, "PostgreSQL", &database, 2).await);
        }
        growth(&all);
    }
}

fn verdict(is_held: bool) -> &'static str {
    if is_held { "held" } else { "missed" }
}

/// How much more the larger fleet takes.
fn growth(all: &[Measured]) {
    if let [small, large] = all {
        println!("growth from {} to {} data planes:", SIZES[0], SIZES[1]);
        let factor = SIZES[1] as f64 / SIZES[0] as f64;
        for (what, small, large) in [
            ("time of a report", 1.0 / small.rate, 1.0 / large.rate),
            ("p99 of a page", small.pages_p99, large.pages_p99),
            ("time until a Kafka has its place", small.place, large.place),
        ] {
            let grown = large / small;
            println!(
                "  {what}: x{grown:.1}; no worse than x{factor:.0}: {}",
                verdict(grown <= factor)
            );
        }
    }
}

async fn measure(planes: usize, name: &str, database: &str, replicas: usize) -> Measured {
    println!("{name}, {replicas} replicas, {planes} data planes, {} Kafkas:", planes * KAFKAS_EACH);
    let (first, of_first) = start(database, None).await;
    // They outlive the first manager.
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("jwks.json");
    std::fs::copy(of_first, &keys).unwrap();
    prepare(&first, planes).await;
    let mut managers = vec![first];
    for _ in 1..replicas {
        managers.push(start(database, Some(keys.clone())).await.0);
    }
    let (rate, report_p99) = reports(&managers, planes).await;
    println!(
        "  the bar is {REPORTS_BAR:.0} reports a second with p99 under {REPORT_BAR_MS:.0} ms: {}",
        verdict(rate >= REPORTS_BAR && report_p99 <= REPORT_BAR_MS)
    );
    let pages_p99 = lists(&managers[0], planes).await;
    let place = place(&managers[0]).await;
    println!("  a new Kafka has its place after {place:.0} ms");
    drop(managers);

    // A new process has nothing in its memory, and neither has this manager.
    let begun = Instant::now();
    let (again, _) = start(database, Some(keys)).await;
    let path = format!("{}{BASE}/admin/data_planes?size=100", again.url);
    // Its tokens are its own here; that it answers is what is measured.
    let client = Client::new(Duration::from_secs(30)).unwrap();
    while client.get_bytes(&format!("{}/readyz", again.url)).await.is_err() {}
    let _ = client.exchange(Method::GET, &path, None, None).await.unwrap();
    let took = begun.elapsed().as_secs_f64() * 1000.0;
    println!(
        "  start on this database: {took:.0} ms; bar {START_BAR_MS:.0} ms: {}",
        verdict(took <= START_BAR_MS)
    );
    println!("  memory of manager and load generator: {} MiB", memory_mib());
    Measured { rate, pages_p99, place }
}

/// A manager, and the file with the keys of its tokens; those of another if there is one.
async fn start(database: &str, keys: Option<PathBuf>) -> (Manager, PathBuf) {
    let mut file = PathBuf::new();
    let manager = Manager::with(database, |config| {
        if let Some(keys) = keys {
            config.auth.jwks_file = Some(keys);
        }
        file = config.auth.jwks_file.clone().unwrap();
        config.times.round_ms = 2_000;
        config.times.lease_ms = 60_000;
        config.times.silence_ms = 86_400_000;
        config.cloud_providers[1].regions[0].planes_max = 0;
    })
    .await;
    (manager, file)
}

/// Data planes that wait for their agents, and Kafkas that run on them.
async fn prepare(manager: &Manager, planes: usize) {
    let numbers = |count: usize| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {count})"
        )
    };
    let mut connection = sqlx::AnyConnection::connect(&manager.database).await.unwrap();
    let of_planes = format!(
        "{} INSERT INTO planes (id, cloud_provider, region, multi_az, provider_type, provider_id,
            state, created_at, updated_at)
         SELECT 'plane-' || i, 'hand', 'here', 1, 'standalone', 'plane-' || i,
            'waiting_for_kas_fleetshard_operator', i, i FROM n",
        numbers(planes)
    );
    connection.execute(sqlx::raw_sql(AssertSqlSafe(of_planes))).await.unwrap();
    let of_kafkas = format!(
        "{} INSERT INTO kafkas (id, name, owner, organisation, cloud_provider, region, multi_az,
            instance_type, size_id, status, plane_id, placement_id, connections, partitions,
            throughput, retention, reported_at, counted, created_at, updated_at)
         SELECT 'kafka-' || i, 'kafka-' || i, 'ann', 'org-' || (i % 1000), 'hand', 'here', 1,
            'standard', 'x1', 'ready', 'plane-' || (i % {planes}), 'x', 100, 100,
            1048576, 1073741824, 1, 1, i, i FROM n",
        numbers(planes * KAFKAS_EACH)
    );
    connection.execute(sqlx::raw_sql(AssertSqlSafe(of_kafkas))).await.unwrap();
    connection.execute("ANALYZE").await.unwrap();
    connection.close().await.unwrap();
}

fn at(times: &mut [Duration], share: f64) -> f64 {
    times.sort();
    times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0
}

/// Reports a second, and the milliseconds of the slowest of a hundred.
async fn reports(managers: &[Manager], planes: usize) -> (f64, f64) {
    let ids: Vec<String> = (0..planes).map(|number| format!("plane-{number}")).collect();
    let tokens: Vec<String> = ids.iter().map(|id| managers[0].signer.agent(id)).collect();
    let urls: Vec<String> = managers.iter().map(|one| one.url.clone()).collect();
    let next = Arc::new(AtomicUsize::new(0));
    let all = Arc::new((ids, tokens, urls));
    // Every token is checked once by each replica, as in managers that have run for a minute.
    run(&all, &next, planes * managers.len()).await;
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    let mut times = run(&all, &next, usize::MAX).await;
    let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
    let per_report = (cpu_seconds() - cpu) * 1e6 / times.len() as f64;
    let (median, p99, slowest) = (at(&mut times, 0.5), at(&mut times, 0.99), at(&mut times, 1.0));
    println!(
        "  {AT_ONCE} agents at once: {rate:.0} reports a second; median {median:.1} ms, p99 {p99:.1} ms, \
         slowest {slowest:.1} ms"
    );
    println!("  CPU of manager and load generator: {per_report:.0} µs for a report");
    (rate, p99)
}

type All = Arc<(Vec<String>, Vec<String>, Vec<String>)>;

/// So many reports, or as many as there is time for, and how long each took.
async fn run(all: &All, next: &Arc<AtomicUsize>, count: usize) -> Vec<Duration> {
    let until = Instant::now() + MEASURED;
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
                let (ids, tokens, urls) = &*all;
                let which = number % ids.len();
                let replica = number / ids.len() % urls.len();
                let url = format!("{}{BASE}/agent-clusters/{}/status", urls[replica], ids[which]);
                let mut body = report((500 + number as u64 % 1000, 5000), (6, 9, 3, 3));
                body["sequence"] = (number + 1).into();
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

/// Pages from the middle of each list, one after the other; the milliseconds of the slowest of a hundred.
async fn lists(manager: &Manager, planes: usize) -> f64 {
    let admin = manager.signer.admin("read");
    let user = manager.signer.user("ann", "org-7");
    let agent = manager.signer.agent("plane-7");
    let middle = planes / 200;
    let of_kafkas = middle * KAFKAS_EACH;
    let mut worst: f64 = 0.0;
    for (token, path) in [
        (&admin, format!("/admin/data_planes?page={middle}&size=100")),
        (&admin, format!("/admin/kafkas?page={of_kafkas}&size=100")),
        (&admin, "/admin/kafkas?search=name+=+'kafka-77'".to_owned()),
        (&admin, "/admin/regions".to_owned()),
        (&admin, "/admin/data_planes/plane-7/decisions".to_owned()),
        (&user, "/kafkas?size=100&orderBy=name".to_owned()),
        (&agent, "/agent-clusters/plane-7/kafkas".to_owned()),
    ] {
        let (mut times, cpu) = (Vec::new(), cpu_seconds());
        for _ in 0..LISTS {
            let begun = Instant::now();
            manager.ask("GET", &path, token, None).await.expect(200);
            times.push(begun.elapsed());
        }
        let p99 = at(&mut times, 0.99);
        worst = worst.max(p99);
        let path = path.split('?').next().unwrap_or_default();
        let cpu = (cpu_seconds() - cpu) * 1e3 / LISTS as f64;
        let median = at(&mut times, 0.5);
        println!("  GET {path}: median {median:.1} ms, p99 {p99:.1} ms; CPU {cpu:.1} ms");
    }
    println!("  the bar is {PAGE_BAR_MS:.0} ms for each: {}", verdict(worst <= PAGE_BAR_MS));
    worst
}

/// The milliseconds until a new Kafka has its place.
async fn place(manager: &Manager) -> f64 {
    let user = manager.signer.user("zoe", "org-new");
    let begun = Instant::now();
    let body = Some(json!({ "name": "new", "cloud_provider": "hand", "plan": "standard.x1" }));
    let made = manager.ask("POST", "/kafkas?async=true", &user, body).await.expect(202);
    let path = format!("/admin/kafkas/{}", made["id"].as_str().unwrap());
    let admin = manager.signer.admin("read");
    loop {
        let kafka = manager.ask("GET", &path, &admin, None).await.expect(200);
        if !kafka["data_plane_id"].is_null() {
            return begun.elapsed().as_secs_f64() * 1000.0;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{kafka}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The CPU time of this process. Beside other processes it says more than the clock.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in parentheses, may have spaces. Linux counts in hundredths of a second.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The memory of this process.
fn memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kib = line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
