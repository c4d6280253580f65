//! What Kafka says about itself: the Prometheus agent in its JVM, asked over loopback.

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

/// What the agent is to show.
pub(crate) const CONFIG: &str = include_str!("agent.yaml");

/// A broker with ten thousand topics shows a few megabytes. It is held in memory beside the JVM, in the same container.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// HTTP/1.0, so that the answer ends with the connection and comes in one piece.
const REQUEST: &[u8] = b"GET /metrics HTTP/1.0\r\nAccept: text/plain\r\n\r\n";
/// After this time a page is taken for one that never ends, and another is asked for.
const PAGE_OVERDUE: Duration = Duration::from_secs(60);
/// So many pages are asked for at the same time. The agent has ten threads; the others are for signs of life.
const PAGES_MAX: usize = 3;

/// Why there is no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum AskError {
    /// It does not listen, or the connection broke.
    #[error("the agent in Kafka's JVM does not answer")]
    Io(#[source] Arc<io::Error>),
    /// It takes too long.
    #[error("the agent in Kafka's JVM does not answer in time")]
    Timeout,
    /// The page is larger than any; a part of it must not be taken for the whole.
    #[error("the agent in Kafka's JVM answers with more than {} bytes", ANSWER_BYTES_MAX)]
    TooLarge,
    /// It answers something else.
    #[error("the agent in Kafka's JVM answers with something that is no page of metrics")]
    NotMetrics,
}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

/// The page of metrics, or why there is none.
type Answer = Result<Arc<str>, AskError>;

/// The agent in Kafka's JVM.
///
/// It has a few threads, and one that makes a page goes on with it when its client has gone. So one page is asked for at a
/// time, and its connection stays open until the agent is done. Only if a page is overdue another is asked for, until
/// there are [`PAGES_MAX`]: however slow pages are, they leave threads for the questions that tell whether the JVM lives.
#[derive(Debug)]
pub(crate) struct Agent {
    address: SocketAddr,
    /// The pages that the agent makes now, the oldest first, and the last that it made.
    scrapes: Mutex<Vec<Scrape>>,
    last: Arc<Mutex<Option<Heard>>>,
}

/// What the last page said that came, in time or not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heard {
    /// When it came.
    pub(crate) at: Instant,
    pub(crate) said: Said,
}

/// A page that was asked for.
#[derive(Debug, Clone)]
struct Scrape {
    begun: Instant,
    /// `None` until the agent is done.
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

    /// A task that ended without an answer is not under way either.
    fn is_under_way(&self) -> bool {
        self.answer.has_changed().is_ok() && self.answer.borrow().is_none()
    }
}

impl Agent {
    /// The agent that listens here.
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, scrapes: Mutex::default(), last: Arc::default() }
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gets the page of metrics, which is at most [`ANSWER_TIMEOUT`] old.
    pub(crate) async fn ask(&self) -> Answer {
        let Scrape { begun, mut answer } = self.scrape();
        let done = timeout_at(begun + ANSWER_TIMEOUT, answer.wait_for(Option::is_some)).await;
        let done = done.map_err(|_| AskError::Timeout)?;
        done.ok().and_then(|answer| answer.clone()).unwrap_or(Err(AskError::Timeout))
    }

    /// What the last page said that came, in time or not.
    pub(crate) fn last(&self) -> Option<Heard> {
        *lock(&self.last)
    }

    /// The page that the agent makes now; if it makes none, or one that is overdue, a new one.
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

/// What is locked here is replaced as a whole, so that a panic elsewhere does not leave it half written.
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

/// What a node says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Said {
    /// What its broker does; a controller does not say.
    pub(crate) broker: Option<BrokerState>,
    /// How many logs a broker has still to recover.
    pub(crate) logs_to_recover: u64,
    /// How many segments of the logs that it recovers now.
    pub(crate) segments_to_recover: u64,
    /// What its controller does, or of a broker what it knows of the quorum.
    pub(crate) controller: ControllerFacts,
}

impl Said {
    /// Reads a page of metrics. A line that means nothing to us is passed over.
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
        // Kafka shows "not known" as -1.
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
            // Below zero when the leader's clock is ahead of ours.
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

    /// What is got from a server that answers with these bytes.
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

    /// Accepts a connection and reads what it asks for.
    async fn accept(listener: &TcpListener, request: &[u8]) -> TcpStream {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = vec![0; request.len()];
        stream.read_exact(&mut read).await.unwrap();
        assert_eq!(read, request);
        stream
    }

    /// Whether nothing more is asked.
    async fn is_left_alone(listener: &TcpListener) -> bool {
        timeout(Duration::from_millis(50), listener.accept()).await.is_err()
    }

    /// As of a broker with so many topics, or with a lock that is held for so long, that a page takes minutes.
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
        // It is no answer when it comes: it says what was the case long ago. But it was said.
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

    /// Makes all pages that are under way older, as if that time had passed.
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

    /// Asks a server that goes on writing these bytes, with a pause between them. Returns the bytes that it could write until
    /// there was an answer.
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
        // What fits into the buffers of two sockets comes on top.
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
