//! What Kafka says about itself: the Prometheus agent in its JVM, asked over loopback.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use control::node::readiness::{BrokerState, ControllerFacts, RaftState};
use model::NodeId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What the agent is to show.
pub(crate) const CONFIG: &str = include_str!("agent.yaml");

/// The agent answers in milliseconds; a JVM that collects garbage for longer is not ready.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// A broker with ten thousand topics shows a few megabytes. It is held in memory beside the JVM, in the same container.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// HTTP/1.0, so that the answer ends with the connection and comes in one piece.
const REQUEST: &[u8] = b"GET /metrics HTTP/1.0\r\nAccept: text/plain\r\n\r\n";
/// A question that the agent answers without reading anything of Kafka's, however many topics there are.
const SIGN_REQUEST: &[u8] = b"GET /-/healthy HTTP/1.0\r\n\r\n";
/// Below the interval of these questions.
const SIGN_TIMEOUT: Duration = Duration::from_secs(4);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// It does not listen, or the connection broke.
    #[error("the agent in Kafka's JVM does not answer")]
    Io(#[from] io::Error),
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

/// The agent's place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agent(pub(crate) SocketAddr);

impl Agent {
    /// Gets the page of metrics.
    pub(crate) async fn ask(&self) -> Result<String, AskError> {
        timeout(ANSWER_TIMEOUT, self.get()).await.map_err(|_| AskError::Timeout)?
    }

    /// Whether the JVM gives a sign of life: the beginning of any answer. The kernel accepts connections for one that
    /// hangs too.
    pub(crate) async fn gives_sign(&self) -> bool {
        let sign = async {
            let mut stream = TcpStream::connect(self.0).await?;
            stream.write_all(SIGN_REQUEST).await?;
            stream.read_u8().await
        };
        matches!(timeout(SIGN_TIMEOUT, sign).await, Ok(Ok(_)))
    }

    async fn get(&self) -> Result<String, AskError> {
        let mut stream = TcpStream::connect(self.0).await?;
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
        Ok(body.to_owned())
    }
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

    /// What is got from a server that answers with these bytes.
    async fn ask(answer: &'static [u8]) -> Result<String, AskError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let agent = Agent(listener.local_addr().unwrap());
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; REQUEST.len()];
            stream.read_exact(&mut request).await.unwrap();
            stream.write_all(answer).await.unwrap();
        };
        tokio::join!(agent.ask(), serve).0
    }

    /// Whether a server that answers with these bytes, and then waits, gives a sign of life.
    async fn signs(answer: &'static [u8]) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let agent = Agent(listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; SIGN_REQUEST.len()];
            stream.read_exact(&mut request).await.unwrap();
            stream.write_all(answer).await.unwrap();
            std::future::pending::<()>().await;
        });
        let gives_sign = agent.gives_sign().await;
        server.abort();
        gives_sign
    }

    #[tokio::test]
    async fn any_answer_is_a_sign_of_life_and_an_open_connection_is_none() {
        assert!(signs(b"HTTP/1.1 200 OK\r\n").await);
        assert!(signs(b"HTTP/1.1 404 Not Found\r\n\r\n").await);
        // As of a JVM that is stopped.
        assert!(!signs(b"").await);
        // As of one that has not begun to listen.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let agent = Agent(listener.local_addr().unwrap());
        drop(listener);
        assert!(!agent.gives_sign().await);
    }

    #[tokio::test]
    async fn only_a_whole_answer_is_one() {
        assert_eq!(ask(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nx 1\n").await.unwrap(), "x 1\n");
        assert!(matches!(ask(b"HTTP/1.1 500 No\r\n\r\n").await, Err(AskError::NotMetrics)));
        assert!(matches!(ask(b"SSH-2.0\r\n").await, Err(AskError::NotMetrics)));
        assert!(matches!(ask(b"\xff\xff").await, Err(AskError::NotMetrics)));
    }

    /// Asks a server that goes on writing these bytes, with a pause between them. Returns what it could write.
    async fn ask_endless(bytes: &[u8], pause: Duration) -> (Result<String, AskError>, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let agent = Agent(listener.local_addr().unwrap());
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let mut written = 0;
            while stream.write_all(bytes).await.is_ok() {
                written += bytes.len();
                tokio::time::sleep(pause).await;
            }
            written
        };
        tokio::join!(agent.ask(), serve)
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
