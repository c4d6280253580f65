//! Records the progress of loops and passes for the liveness probe.
//!
//! [`control::liveness`] decides who is stalled. What this must not do: end the process. The kubelet does, after the
//! probe has failed three times, with SIGTERM and then SIGKILL; until then the Lease is renewed, so no other replica
//! acts meanwhile.
//!
//! If all threads of the runtime are blocked, no beat is recorded and no answer the probe either: it fails by its
//! time-out, which the kubelet counts like a 503.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control::liveness::{self, Beat, Loop, Stalled};

/// How often a loop beats that has no turns of its own.
const TICK: Duration = Duration::from_secs(1);

tokio::task_local! {
    /// The pass that is polled.
    static PASS: Item;
}

/// The last progress of everything that runs. Clones share it.
#[derive(Debug, Clone)]
pub struct Beats {
    start: Instant,
    next: Arc<AtomicU64>,
    running: Arc<Mutex<BTreeMap<u64, Beat>>>,
    #[cfg(test)]
    skipped_secs: Arc<AtomicU64>,
}

impl Default for Beats {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            next: Arc::default(),
            running: Arc::default(),
            #[cfg(test)]
            skipped_secs: Arc::default(),
        }
    }
}

/// Something that runs, until it is dropped.
#[derive(Debug)]
pub struct Item {
    beats: Beats,
    id: u64,
}

impl Item {
    /// Records progress.
    pub fn beat(&self) {
        let now = self.beats.now();
        if let Some(beat) = self.beats.running().get_mut(&self.id) {
            beat.last = now;
        }
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.beats.running().remove(&self.id);
    }
}

impl Beats {
    /// Begins to record the progress of something.
    #[must_use]
    pub fn begin(&self, of: Loop, object: String) -> Item {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let last = self.now();
        self.running().insert(id, Beat { of, object, last });
        Item { beats: self.clone(), id }
    }

    /// Runs a loop. It beats as long as its task is polled.
    pub async fn watch_loop<T>(&self, of: Loop, work: impl Future<Output = T>) -> T {
        let item = self.begin(of, String::new());
        beating(&item, work).await
    }

    /// Runs a pass over an object. It beats where it calls [`progress`].
    pub async fn watch_pass<T>(
        &self,
        of: Loop,
        (namespace, name): (&str, &str),
        pass: impl Future<Output = T>,
    ) -> T {
        PASS.scope(self.begin(of, format!("{namespace}/{name}")), pass).await
    }

    /// Checks whether everything that runs makes progress.
    ///
    /// # Errors
    /// Something is stalled.
    pub fn check(&self) -> Result<(), Stalled> {
        liveness::alive(self.now(), self.running().values())
    }

    /// The loops that run, for people.
    #[must_use]
    pub fn loops(&self) -> Vec<&'static str> {
        let running = self.running();
        let loops = running.values().filter(|beat| beat.object.is_empty());
        loops.map(|beat| beat.of.name()).collect()
    }

    fn now(&self) -> Duration {
        let now = self.start.elapsed();
        #[cfg(test)]
        let now = now + Duration::from_secs(self.skipped_secs.load(Ordering::Relaxed));
        now
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<u64, Beat>> {
        // Each change is a single operation of the map, so a panic elsewhere leaves it whole.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records that the pass that calls this makes progress; does nothing outside of one.
pub(crate) fn progress() {
    let _ = PASS.try_with(Item::beat);
}

/// Waits for other passes, which is not a stall of this one: they are watched themselves.
pub(crate) async fn waiting<T>(for_others: impl Future<Output = T>) -> T {
    let mut for_others = std::pin::pin!(for_others);
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            done = &mut for_others => return done,
            _ = ticks.tick() => progress(),
        }
    }
}

async fn beating<T>(item: &Item, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    let mut ticks = tokio::time::interval(TICK);
    loop {
        // In the order of writing: work that never ends must not keep the ticks from being seen.
        tokio::select! {
            biased;
            _ = ticks.tick() => item.beat(),
            done = &mut work => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::mpsc;

    use control::life::coexist::Selector;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::oneshot;

    use super::*;
    use crate::context::Settings;
    use crate::crash::CrashSwitch;
    use crate::lease::{Election, Timing};
    use crate::metrics::Metrics;
    use crate::runtime::{self, ElectionOptions, Options};
    use crate::{client, http};

    impl Beats {
        /// Lets time pass.
        fn skip(&self, secs: u64) {
            self.skipped_secs.fetch_add(secs, Ordering::Relaxed);
        }
    }

    /// The production server with these beats.
    async fn serve(beats: &Beats) -> SocketAddr {
        let listener = http::listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let answers = http::Answers { beats: beats.clone(), ..http::Answers::default() };
        tokio::spawn(http::serve(listener, answers, std::future::pending()));
        address
    }

    /// The status and the body of the liveness probe.
    async fn probe(address: SocketAddr) -> (u16, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = "GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    #[tokio::test]
    async fn a_hung_pass_fails_the_probe_and_one_that_progresses_does_not() {
        let beats = Beats::default();
        let address = serve(&beats).await;
        assert_eq!(probe(address).await.0, 200, "nothing runs yet");
        let (step, steps) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel::<()>();
        let watched = beats.clone();
        let pass = tokio::spawn(async move {
            let pass = async {
                steps.await.unwrap();
                progress();
                ended.await.unwrap();
            };
            watched.watch_pass(Loop::Kafka, ("ns", "c"), pass).await;
        });
        tokio::task::yield_now().await;
        beats.skip(500);
        step.send(()).unwrap();
        while beats.running().values().any(|beat| beat.last < Duration::from_secs(500)) {
            tokio::task::yield_now().await;
        }
        beats.skip(500);
        assert_eq!(probe(address).await.0, 200, "it has made progress in between");
        beats.skip(200);
        let (status, said) = probe(address).await;
        assert_eq!(status, 503);
        assert!(said.starts_with("Kafka ns/c: no progress for 70"), "{said}");
        end.send(()).unwrap();
        pass.await.unwrap();
        assert_eq!(probe(address).await.0, 200, "it has ended");
    }

    /// The controllers' task is blocked by code that does not yield. Another thread answers the probe.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_blocked_task_fails_the_probe_and_recovers_when_it_is_polled_again() {
        let beats = Beats::default();
        let address = serve(&beats).await;
        let (blocked, is_blocked) = oneshot::channel();
        let (unblock, unblocked) = mpsc::channel::<()>();
        let watched = beats.clone();
        tokio::spawn(async move {
            let work = async move {
                tokio::task::yield_now().await;
                blocked.send(()).unwrap();
                unblocked.recv().unwrap();
                std::future::pending::<()>().await;
            };
            watched.watch_loop(Loop::Controllers, work).await;
        });
        is_blocked.await.unwrap();
        beats.skip(61);
        let (status, said) = probe(address).await;
        assert_eq!(status, 503);
        assert!(said.starts_with("controllers: no progress for 6"), "{said}");
        unblock.send(()).unwrap();
        let begun = Instant::now();
        while probe(address).await.0 != 200 {
            assert!(begun.elapsed() < Duration::from_secs(30), "it beats again");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The production operator, against an API server that accepts connections and says nothing. Returns the address of
    /// its probe.
    async fn start(election: bool) -> SocketAddr {
        let api = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config =
            kube::Config::new(format!("http://{}", api.local_addr().unwrap()).parse().unwrap());
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let settings = Settings {
            namespaces: Vec::new(),
            kafka_images: BTreeMap::new(),
            cluster_domain: "cluster.local".to_owned(),
            interval: Duration::from_secs(120),
            operation_timeout: crate::context::OPERATION_TIMEOUT,
            watches_other_namespaces: false,
            selector: Selector::default(),
        };
        let lease = ElectionOptions {
            namespace: "ns".to_owned(),
            lease: "lease".to_owned(),
            timing: Timing::default(),
        };
        let options = Options {
            settings,
            identity: "a".to_owned(),
            election: election.then_some(lease),
            http: Some(address),
            crash: CrashSwitch::Off,
        };
        tokio::spawn(async move {
            let _api = api;
            let _ = runtime::run(config, options, std::future::pending()).await;
        });
        address
    }

    #[tokio::test]
    async fn a_leader_and_a_standby_are_alive_and_their_loops_are_watched() {
        for (election, expected) in [(true, "ok: Lease\n"), (false, "ok: controllers\n")] {
            let address = start(election).await;
            let begun = Instant::now();
            loop {
                assert!(begun.elapsed() < Duration::from_secs(30), "not in time: {expected}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                if TcpStream::connect(address).await.is_ok()
                    && probe(address).await == (200, expected.to_owned())
                {
                    break;
                }
            }
        }
    }

    #[tokio::test]
    async fn a_standby_beats_while_the_api_server_says_nothing() {
        let api = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config =
            kube::Config::new(format!("http://{}", api.local_addr().unwrap()).parse().unwrap());
        let client = client::counted(config, &Metrics::new()).unwrap();
        let beats = Beats::default();
        let mut election = Election::new(client, "ns", "lease", "a", Timing::default());
        election = election.with_beats(&beats);
        tokio::spawn(async move { election.win().await });
        tokio::task::yield_now().await;
        beats.skip(31);
        assert_eq!(beats.check().unwrap_err().of, Loop::Lease);
        let begun = Instant::now();
        while beats.check().is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it tries again");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    #[tokio::test]
    async fn waiting_for_other_passes_is_progress() {
        let beats = Beats::default();
        let (go, wait) = oneshot::channel::<()>();
        let watched = beats.clone();
        let pass = tokio::spawn(async move {
            watched.watch_pass(Loop::KafkaRebalance, ("ns", "r"), waiting(wait)).await
        });
        tokio::task::yield_now().await;
        beats.skip(601);
        let begun = Instant::now();
        while beats.check().is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it beats while it waits");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        go.send(()).unwrap();
        pass.await.unwrap().unwrap();
    }
}
