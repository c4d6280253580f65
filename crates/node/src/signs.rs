//! Liveness requests to Kafka's JVM.
//!
//! 1. They use one persistent connection: an exporter that is slow to accept connections still answers on
//!    established ones.
//! 2. A request that is not answered stays open, and its answer counts whenever it arrives.
//! 3. One lost answer does not count as silence: after [`AGAIN_AFTER`] intervals the request is repeated on
//!    another connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

/// A request that the exporter answers without reading anything of Kafka, however many topics there are.
const REQUEST: &[u8] = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// Intervals without an answer before the request is repeated: well below the limit for a hang.
const AGAIN_AFTER: u32 = 4;
/// The answer is one line. A connection with a larger one is closed.
const ANSWER_BYTES_MAX: usize = 4096;
/// The exporter writes an answer at once. A connection with an incomplete answer after this time is closed.
const REST_TIMEOUT: Duration = Duration::from_secs(1);

/// Liveness requests in flight: one, and a second if the first is not answered for long.
#[derive(Debug)]
pub(crate) struct Signs {
    address: SocketAddr,
    kept: Option<TcpStream>,
    open: JoinSet<io::Result<Option<TcpStream>>>,
    /// The repeated request.
    again: Option<AbortHandle>,
    /// Intervals for which the request has been open.
    intervals: u32,
}

impl Signs {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, kept: None, open: JoinSet::new(), again: None, intervals: 0 }
    }

    /// Whether the JVM responds within this time, which is an interval.
    pub(crate) async fn hear(&mut self, within: Duration) -> bool {
        if self.open.is_empty() {
            self.intervals = 0;
            self.open.spawn(ask(self.kept.take(), self.address));
        } else if self.intervals.is_multiple_of(AGAIN_AFTER) {
            if let Some(last) = self.again.take() {
                last.abort();
            }
            self.again = Some(self.open.spawn(ask(None, self.address)));
        }
        self.intervals = self.intervals.saturating_add(1);
        match timeout(within, first(&mut self.open)).await {
            Ok(Some(stream)) => {
                // Open requests are dropped, and their connections with them.
                (self.open, self.again) = (JoinSet::new(), None);
                self.kept = stream;
                true
            }
            Ok(None) | Err(_) => false,
        }
    }
}

/// The first answer; `None` if no request is open any more.
async fn first(open: &mut JoinSet<io::Result<Option<TcpStream>>>) -> Option<Option<TcpStream>> {
    while let Some(done) = open.join_next().await {
        if let Ok(Ok(stream)) = done {
            return Some(stream);
        }
    }
    None
}

/// Waits for an answer, on a new connection if there is none or if it broke. Returns the connection if it can
/// be reused.
async fn ask(kept: Option<TcpStream>, address: SocketAddr) -> io::Result<Option<TcpStream>> {
    if let Some(stream) = kept
        && let Ok(answered) = ask_on(stream).await
    {
        return Ok(answered);
    }
    ask_on(TcpStream::connect(address).await?).await
}

/// The first bytes of any answer prove liveness. An open connection does not: the kernel accepts connections
/// for a JVM that hangs too.
async fn ask_on(mut stream: TcpStream) -> io::Result<Option<TcpStream>> {
    stream.write_all(REQUEST).await?;
    let mut answer = vec![stream.read_u8().await?];
    let whole = async {
        while !is_whole(&answer) && answer.len() < ANSWER_BYTES_MAX {
            if stream.read_buf(&mut answer).await? == 0 {
                return Ok(false);
            }
        }
        io::Result::Ok(is_whole(&answer))
    };
    let is_kept = matches!(timeout(REST_TIMEOUT, whole).await, Ok(Ok(true)));
    Ok(is_kept.then_some(stream))
}

/// Whether an answer is complete, so that the connection can be reused.
fn is_whole(answer: &[u8]) -> bool {
    let Ok(answer) = std::str::from_utf8(answer) else { return false };
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    length == Some(body.len())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// In the exporter's format.
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-length: 3\r\n\r\nok\n";
    /// Long enough for an answer in flight.
    const SOON: Duration = Duration::from_secs(60);
    /// Too short for an answer that was not sent.
    const AT_ONCE: Duration = Duration::from_millis(10);

    async fn listen() -> (TcpListener, Signs) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let signs = Signs::new(listener.local_addr().unwrap());
        (listener, signs)
    }

    async fn accept(listener: &TcpListener) -> TcpStream {
        let (mut stream, _) = listener.accept().await.unwrap();
        read(&mut stream).await;
        stream
    }

    async fn read(stream: &mut TcpStream) {
        let mut read = [0; REQUEST.len()];
        stream.read_exact(&mut read).await.unwrap();
        assert_eq!(read, REQUEST);
    }

    /// Whether no further request arrives on a new connection.
    async fn is_left_alone(listener: &TcpListener) -> bool {
        timeout(Duration::from_millis(50), listener.accept()).await.is_err()
    }

    #[tokio::test]
    async fn any_answer_is_a_sign_of_life_and_an_open_connection_is_none() {
        for answer in [ANSWER, b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 404 Not Found\r\n\r\n", b"\xff"] {
            let (listener, mut signs) = listen().await;
            let serve = async {
                let mut stream = accept(&listener).await;
                stream.write_all(answer).await.unwrap();
                stream
            };
            assert!(tokio::join!(signs.hear(SOON), serve).0);
        }
        // Like a JVM that is stopped.
        let (listener, mut signs) = listen().await;
        assert!(!signs.hear(Duration::from_millis(50)).await);
        // Like one that does not listen yet.
        drop(listener);
        assert!(!signs.hear(SOON).await);
    }

    /// The listener is closed.
    #[tokio::test]
    async fn an_agent_that_accepts_no_connection_answers_on_the_one_that_is_kept() {
        let (listener, mut signs) = listen().await;
        let begin = async {
            let mut stream = accept(&listener).await;
            stream.write_all(ANSWER).await.unwrap();
            stream
        };
        let (heard, mut stream) = tokio::join!(signs.hear(SOON), begin);
        assert!(heard);
        drop(listener);
        for _ in 0..3 {
            let serve = async {
                read(&mut stream).await;
                stream.write_all(ANSWER).await.unwrap();
            };
            assert!(tokio::join!(signs.hear(SOON), serve).0);
        }
    }

    #[tokio::test]
    async fn a_connection_that_broke_is_replaced_in_the_same_interval() {
        let (listener, mut signs) = listen().await;
        let begin = async {
            let mut stream = accept(&listener).await;
            stream.write_all(ANSWER).await.unwrap();
        };
        assert!(tokio::join!(signs.hear(SOON), begin).0);
        let serve = async {
            let mut stream = accept(&listener).await;
            stream.write_all(ANSWER).await.unwrap();
            stream
        };
        assert!(tokio::join!(signs.hear(SOON), serve).0);
    }

    #[tokio::test]
    async fn the_first_question_is_open_until_it_is_answered_however_late() {
        let (listener, mut signs) = listen().await;
        assert!(!signs.hear(AT_ONCE).await);
        let mut first = accept(&listener).await;
        for _ in 1..AGAIN_AFTER {
            assert!(!signs.hear(AT_ONCE).await);
        }
        assert!(is_left_alone(&listener).await);
        for _ in 0..20 * AGAIN_AFTER {
            assert!(!signs.hear(AT_ONCE).await);
        }
        first.write_all(ANSWER).await.unwrap();
        assert!(signs.hear(SOON).await);
        // Its connection is kept.
        assert!(!signs.hear(AT_ONCE).await);
        read(&mut first).await;
    }

    #[tokio::test]
    async fn one_answer_that_is_lost_is_not_silence() {
        let (listener, mut signs) = listen().await;
        assert!(!signs.hear(AT_ONCE).await);
        let _lost = accept(&listener).await;
        for _ in 1..AGAIN_AFTER {
            assert!(!signs.hear(AT_ONCE).await);
        }
        let serve = async {
            let mut stream = accept(&listener).await;
            stream.write_all(ANSWER).await.unwrap();
            stream
        };
        assert!(tokio::join!(signs.hear(SOON), serve).0);
    }

    #[test]
    fn a_connection_is_kept_after_a_whole_answer_only() {
        assert!(is_whole(ANSWER));
        assert!(is_whole(b"HTTP/1.1 404 Not Found\r\nA: b\r\nContent-Length: 0\r\n\r\n"));
        for answer in [
            &b"HTTP/1.1 200 OK\r\nContent-length: 3\r\n\r\nok"[..],
            b"HTTP/1.1 200 OK\r\nContent-length: 3\r\n\r\nok\nmore",
            b"HTTP/1.1 200 OK\r\nTransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n",
            b"\xff",
        ] {
            assert!(!is_whole(answer), "{answer:?}");
        }
    }
}
