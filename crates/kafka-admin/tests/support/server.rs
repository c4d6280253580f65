//! A server on the loopback address that speaks as much of the protocol as a test wants it to.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kafka_admin::Endpoint;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{API_VERSIONS, Request, offer_all};

/// What a server does with a request.
pub(crate) enum Reply {
    /// Answers it.
    Body(bytes::Bytes),
    /// Sends these bytes as they are.
    Raw(Vec<u8>),
    /// Goes on without an answer.
    Nothing,
    /// Closes the connection.
    Close,
}

/// A server. It lives as long as the test's runtime.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    accepted: AtomicUsize,
    requests: Mutex<Vec<i16>>,
}

impl Server {
    /// Opens the protocol properly; then `reply` decides. It is given the request, and the number of
    /// its connection, from 1.
    pub(crate) async fn start(
        reply: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start_raw(move |request, connection| match request.key {
            API_VERSIONS => Reply::Body(offer_all(request.version)),
            _ => reply(request, connection),
        })
        .await
    }

    /// Decides on the messages that open the protocol as well.
    pub(crate) async fn start_raw(
        reply: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let (shared, reply) = (Arc::clone(&seen), Arc::new(reply));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = shared.accepted.fetch_add(1, Ordering::SeqCst) + 1;
                let (seen, reply) = (Arc::clone(&shared), Arc::clone(&reply));
                tokio::spawn(async move { serve(stream, &seen, &|r| reply(r, number)).await });
            }
        });
        Self { address, seen }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::new(self.address.ip().to_string(), self.address.port())
    }

    /// How many connections were made.
    pub(crate) fn accepted(&self) -> usize {
        self.seen.accepted.load(Ordering::SeqCst)
    }

    /// How many requests with this key came.
    pub(crate) fn requests(&self, key: i16) -> usize {
        let requests = self.seen.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().filter(|seen| **seen == key).count()
    }
}

async fn serve(
    mut stream: TcpStream,
    seen: &Seen,
    reply: &(dyn Fn(&Request) -> Reply + Send + Sync),
) -> std::io::Result<()> {
    loop {
        let length = stream.read_u32().await?;
        let mut frame = vec![0; length as usize];
        stream.read_exact(&mut frame).await?;
        let request = Request::parse(&frame);
        seen.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.key);
        match reply(&request) {
            Reply::Body(body) => stream.write_all(&request.answer(&body)).await?,
            Reply::Raw(bytes) => stream.write_all(&bytes).await?,
            Reply::Nothing => {}
            Reply::Close => return Ok(()),
        }
    }
}
