//! Reads Kafka's metrics from the Prometheus JMX exporter in Kafka's JVM, over loopback.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::node::readiness::{ANSWER_TIMEOUT, BrokerState, ControllerFacts, RaftState};
use model::NodeId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// The exporter's configuration.
pub(crate) const CONFIG: &str = include_str!("agent.yaml");

/// A broker with ten thousand topics reports a few megabytes, which are held in memory beside the JVM, in the
/// same container.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// HTTP/1.0: the response is not chunked and ends with the connection.
const REQUEST: &[u8] = b"GET /metrics HTTP/1.0\r\nAccept: text/plain\r\n\r\n";
/// After this time a scrape is considered stuck and another one may start.
const PAGE_OVERDUE: Duration = Duration::from_secs(60);
/// Concurrent scrapes. The exporter has ten threads; the others stay free for liveness requests.
const PAGES_MAX: usize = 3;

/// Why a scrape failed.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum AskError {
    /// Not listening, or the connection broke.
    #[error("the JMX exporter in Kafka's JVM does not respond")]
    Io(#[source] Arc<io::Error>),
    #[error("the JMX exporter in Kafka's JVM did not respond in time")]
    Timeout,
    /// Larger than any real page. A truncated page must not be parsed as a whole one.
    #[error("the JMX exporter in Kafka's JVM sent more than {} bytes", ANSWER_BYTES_MAX)]
    TooLarge,
    #[error("the JMX exporter in Kafka's JVM did not send a metrics page")]
    NotMetrics,
}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

/// The metrics page, or why there is none.
type Answer = Result<Arc<str>, AskError>;

/// The JMX exporter in Kafka's JVM.
///
/// It has few threads, and a thread that renders a page continues after its client has disconnected. So one
/// scrape runs at a time, and its connection stays open until the page is complete. Only if a scrape is
/// overdue is another one started, up to [`PAGES_MAX`]: however slow scrapes are, threads remain for liveness
/// requests.
#[derive(Debug)]
pub(crate) struct Agent {
    address: SocketAddr,
    /// Scrapes in progress, oldest first, and the last completed one.
    scrapes: Mutex<Vec<Scrape>>,
    last: Arc<Mutex<Option<Heard>>>,
}

/// The content of the last page, whether it arrived in time or late.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heard {
    /// When it arrived.
    pub(crate) at: Instant,
    pub(crate) said: Said,
}

/// A scrape that was started.
#[derive(Debug, Clone)]
struct Scrape {
    begun: Instant,
    /// `None` until the page is complete.
    answer: watch::Receiver<Option<Answer>>,
}

impl Scrape {
    fn begin(address: SocketAddr, last: Arc<Mutex<Option<Heard>>>) -> Self {
        let (done, answer) = watch::channel(None);
        tokio::spawn(async move {
            let answer = get(address).await;
            if let Ok(page) = &answer {
                *lock(&last) = Some(Heard { at: Instant::now(), said: Said::read(page) });
            }
            done.send(Some(answer))
        });
        Self { begun: Instant::now(), answer }
    }

    /// A task that ended without an answer is not in progress either.
    fn is_under_way(&self) -> bool {
        self.answer.has_changed().is_ok() && self.answer.borrow().is_none()
    }
}

impl Agent {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, scrapes: Mutex::default(), last: Arc::default() }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a metrics page that is at most [`ANSWER_TIMEOUT`] old.
    pub(crate) async fn ask(&self) -> Answer {
        let Scrape { begun, mut answer } = self.scrape();
        let done = timeout_at(begun + ANSWER_TIMEOUT, answer.wait_for(Option::is_some)).await;
        let done = done.map_err(|_| AskError::Timeout)?;
        done.ok().and_then(|answer| answer.clone()).unwrap_or(Err(AskError::Timeout))
    }

    /// The content of the last page, whether it arrived in time or late.
    pub(crate) fn last(&self) -> Option<Heard> {
        *lock(&self.last)
    }

    /// The scrape in progress; starts a new one if there is none or if it is overdue.
    fn scrape(&self) -> Scrape {
        let mut scrapes = lock(&self.scrapes);
        scrapes.retain(Scrape::is_under_way);
        let is_full = scrapes.len() >= PAGES_MAX;
        let last = scrapes.last().filter(|last| is_full || last.begun.elapsed() < PAGE_OVERDUE);
        if let Some(last) = last {
            return last.clone();
        }
        let scrape = Scrape::begin(self.address, Arc::clone(&self.last));
        scrapes.push(scrape.clone());
        scrape
    }
}

/// Values behind these locks are replaced as a whole, so a panic elsewhere cannot leave one half written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn get(address: SocketAddr) -> Answer {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(REQUEST).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX as u64 + 1).read_to_end(&mut answer).await?;
    if answer.len() > ANSWER_BYTES_MAX {
        return Err(AskError::TooLarge);
    }
    let answer = String::from_utf8(answer).map_err(|_| AskError::NotMetrics)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(AskError::NotMetrics)?;
    let status = head.split_whitespace().nth(1);
    if !head.starts_with("HTTP/1.") || status != Some("200") {
        return Err(AskError::NotMetrics);
    }
    Ok(body.into())
}

/// State that a node reports through its metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Said {
    /// State of the broker; `None` on a node that is only a controller.
    pub(crate) broker: Option<BrokerState>,
    /// Logs that the broker still has to recover.
    pub(crate) logs_to_recover: u64,
    /// Segments left in the logs that are being recovered.
    pub(crate) segments_to_recover: u64,
    /// Raft state: of the controller, or of the broker as an observer.
    pub(crate) controller: ControllerFacts,
}

impl Said {
    /// Parses a metrics page. Unknown lines are ignored.
    pub(crate) fn read(page: &str) -> Self {
        let mut said = Self::default();
        for line in page.lines().filter(|line| line.starts_with("kafka_")) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            said.take(name, labels, value);
        }
        said
    }

    fn take(&mut self, name: &str, labels: &str, value: f64) {
        // Kafka reports "unknown" as -1.
        let count = (value >= 0.0).then_some(value as u64);
        match name {
            "kafka_broker_state" => self.broker = Some(BrokerState::from_number(value as i32)),
            "kafka_log_remaining_logs_to_recover" => {
                self.logs_to_recover += count.unwrap_or_default();
            }
            "kafka_log_remaining_segments_to_recover" => {
                self.segments_to_recover += count.unwrap_or_default();
            }
            "kafka_raft_state" => {
                let word = labels.split('"').nth(1).unwrap_or_default();
                self.controller.state = Some(RaftState::from_word(word));
            }
            "kafka_raft_current_leader" => self.controller.leader = NodeId::new(value as i32),
            "kafka_raft_high_watermark" => self.controller.high_watermark = count,
            // Negative when the leader's clock is ahead of ours.
            "kafka_controller_last_applied_record_lag_ms" => {
                self.controller.applied_lag_ms = Some(count.unwrap_or_default());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn a_page_is_read() {
        let page = "# HELP kafka_broker_state x\n# TYPE kafka_broker_state untyped\n\
                    kafka_broker_state 2.0\n\
                    kafka_log_remaining_logs_to_recover{dir=\"/a b\"} 3.0\n\
                    kafka_log_remaining_logs_to_recover{dir=\"/b\"} 4.0\n\
                    kafka_log_remaining_segments_to_recover{dir=\"/b\",thread=\"0\"} 5.0\n\
                    kafka_raft_state{state=\"observer\"} 1.0\n\
                    kafka_raft_current_leader 7.0\nkafka_raft_high_watermark 38.0\n\
                    kafka_controller_last_applied_record_lag_ms 1.794722666659E12\n\
                    jvm_threads_current 3.0\nkafka_odd\nkafka_odder x\n";
        let said = Said::read(page);
        assert_eq!(said.broker, Some(BrokerState::Recovery));
        assert_eq!((said.logs_to_recover, said.segments_to_recover), (7, 5));
        assert_eq!(said.controller.state, Some(RaftState::Observer));
        assert_eq!(said.controller.leader, NodeId::new(7));
        assert_eq!(said.controller.high_watermark, Some(38));
        assert_eq!(said.controller.applied_lag_ms, Some(1_794_722_666_659));
    }

    #[test]
    fn what_kafka_does_not_know_is_not_known() {
        let page = "kafka_raft_current_leader -1.0\nkafka_raft_high_watermark -1.0\n\
                    kafka_controller_last_applied_record_lag_ms -250.0\n";
        let said = Said::read(page);
        assert_eq!(said.controller.leader, None);
        assert_eq!(said.controller.high_watermark, None);
        assert_eq!(said.controller.applied_lag_ms, Some(0));
        assert_eq!(Said::read(""), Said::default());
    }

    async fn listen() -> (TcpListener, Agent) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let agent = Agent::new(listener.local_addr().unwrap());
        (listener, agent)
    }

    /// The result of a scrape from a server that sends these bytes.
    async fn ask(answer: &'static [u8]) -> Answer {
        let (listener, agent) = listen().await;
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; REQUEST.len()];
            stream.read_exact(&mut request).await.unwrap();
            stream.write_all(answer).await.unwrap();
        };
        tokio::join!(agent.ask(), serve).0
    }

    /// Accepts a connection and reads the request.
    async fn accept(listener: &TcpListener, request: &[u8]) -> TcpStream {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = vec![0; request.len()];
        stream.read_exact(&mut read).await.unwrap();
        assert_eq!(read, request);
        stream
    }

    /// Whether no further request arrives.
    async fn is_left_alone(listener: &TcpListener) -> bool {
        timeout(Duration::from_millis(50), listener.accept()).await.is_err()
    }

    /// Like a broker with so many topics, or with a lock held for so long, that a page takes minutes.
    #[tokio::test]
    async fn a_slow_page_is_asked_for_once_however_many_want_it() {
        let (listener, agent) = listen().await;
        let all = async { tokio::join!(agent.ask(), agent.ask(), agent.ask()) };
        let (asked, mut stream) = tokio::join!(all, accept(&listener, REQUEST));
        assert!(matches!(
            asked,
            (Err(AskError::Timeout), Err(AskError::Timeout), Err(AskError::Timeout))
        ));
        for _ in 0..10 {
            assert!(matches!(agent.ask().await, Err(AskError::Timeout)));
        }
        assert!(is_left_alone(&listener).await);
        // Too late to be a scrape's result, but it is the last page.
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nkafka_broker_state 2.0\n").await.unwrap();
        drop(stream);
        while lock(&agent.scrapes).iter().any(Scrape::is_under_way) {
            tokio::task::yield_now().await;
        }
        assert_eq!(agent.last().unwrap().said.broker, Some(BrokerState::Recovery));
        let serve = async {
            let mut stream = accept(&listener, REQUEST).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nnew 1\n").await.unwrap();
        };
        assert_eq!(&*tokio::join!(agent.ask(), serve).0.unwrap(), "new 1\n");
    }

    /// Ages all scrapes in progress, as if that time had passed.
    fn age(agent: &Agent) {
        lock(&agent.scrapes).iter_mut().for_each(|scrape| scrape.begun -= PAGE_OVERDUE);
    }

    #[tokio::test]
    async fn a_page_that_never_ends_is_not_the_last_but_leaves_threads_to_the_agent() {
        let (listener, agent) = listen().await;
        let mut streams = Vec::new();
        for _ in 0..PAGES_MAX {
            let _ = agent.scrape();
            streams.push(accept(&listener, REQUEST).await);
            age(&agent);
        }
        for _ in 0..3 {
            assert!(matches!(agent.ask().await, Err(AskError::Timeout)));
            age(&agent);
        }
        assert!(is_left_alone(&listener).await);
        // A thread is free again.
        drop(streams.pop());
        while lock(&agent.scrapes).iter().all(Scrape::is_under_way) {
            tokio::task::yield_now().await;
        }
        let serve = async {
            let mut stream = accept(&listener, REQUEST).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nnew 1\n").await.unwrap();
        };
        assert_eq!(&*tokio::join!(agent.ask(), serve).0.unwrap(), "new 1\n");
    }

    #[tokio::test]
    async fn only_a_whole_answer_is_one() {
        assert_eq!(&*ask(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nx 1\n").await.unwrap(), "x 1\n");
        assert!(matches!(ask(b"HTTP/1.1 500 No\r\n\r\n").await, Err(AskError::NotMetrics)));
        assert!(matches!(ask(b"SSH-2.0\r\n").await, Err(AskError::NotMetrics)));
        assert!(matches!(ask(b"\xff\xff").await, Err(AskError::NotMetrics)));
    }

    /// Scrapes a server that writes these bytes forever, with a pause between them. Returns how many bytes it
    /// could write before the scrape ended.
    async fn ask_endless(bytes: &[u8], pause: Duration) -> (Answer, usize) {
        let (listener, agent) = listen().await;
        let mut written = 0;
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            while stream.write_all(bytes).await.is_ok() {
                written += bytes.len();
                tokio::time::sleep(pause).await;
            }
            std::future::pending::<()>().await;
        };
        let answer = tokio::select! {
            answer = agent.ask() => answer,
            () = serve => unreachable!("it serves without end"),
        };
        (answer, written)
    }

    #[tokio::test]
    async fn an_endless_page_is_given_up() {
        let line = b"kafka_broker_state 3.0\n".repeat(2_000);
        let (asked, written) = ask_endless(&line, Duration::ZERO).await;
        assert!(matches!(asked, Err(AskError::TooLarge)), "{:?}", asked.map(|page| page.len()));
        // The buffers of two sockets come on top.
        assert!(written < 3 * ANSWER_BYTES_MAX, "{written} bytes were taken");
    }

    #[tokio::test]
    async fn a_page_that_drips_is_given_up_in_time() {
        let begun = std::time::Instant::now();
        let (asked, _) = ask_endless(b"x", Duration::from_millis(200)).await;
        assert!(matches!(asked, Err(AskError::Timeout)), "{asked:?}");
        assert!(begun.elapsed() < 3 * ANSWER_TIMEOUT, "{:?}", begun.elapsed());
    }
}
