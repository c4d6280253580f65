//! Listeners that forward connections.
//!
//! 1. A listener lives as long as its address is in the table. A change of backends does not affect it.
//! 2. A connection lives until one of its ends closes it, even if its listener is gone.
//! 3. Everything ends when the [`Proxy`] is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::error::ServicesError;
use super::pick::Picker;
use super::table::{Route, Table};

/// On one machine a pod accepts within milliseconds or not at all; then the next one is tried.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// An address in use may become free at any time; a retry costs one system call.
const RETRY: Duration = Duration::from_secs(2);

/// Like a busy server's.
const BACKLOG: u32 = 1024;

/// Large enough that throughput is limited by memory bandwidth, not by system calls.
const BUFFER_BYTES: usize = 64 * 1024;

/// An address on which the proxy cannot listen.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The service with this address.
    pub(crate) service: ObjectReference,
    /// What happened.
    pub(crate) error: ServicesError,
}

/// All listeners and connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    listeners: BTreeMap<SocketAddr, Listener>,
    /// Addresses that failed and were reported.
    failed: BTreeSet<SocketAddr>,
    /// Connections are closed when this is dropped.
    alive: watch::Sender<()>,
}

#[derive(Debug)]
struct Listener {
    picker: Arc<Mutex<Picker>>,
    task: AbortHandle,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    pub(crate) fn new() -> Self {
        let (alive, _) = watch::channel(());
        Self { listeners: BTreeMap::new(), failed: BTreeSet::new(), alive }
    }

    /// Updates the listeners to match the table. Returns new failures.
    pub(crate) fn apply(&mut self, table: &Table) -> Vec<Failure> {
        self.listeners.retain(|address, _| table.contains_key(address));
        self.failed.retain(|address| table.contains_key(address));
        table.iter().filter_map(|(address, route)| self.ensure(*address, route)).collect()
    }

    /// Delay until failed addresses are retried, if there are any.
    pub(crate) fn retry(&self) -> Option<Duration> {
        (!self.failed.is_empty()).then_some(RETRY)
    }

    fn ensure(&mut self, address: SocketAddr, route: &Route) -> Option<Failure> {
        if let Some(listener) = self.listeners.get(&address) {
            let mut picker = lock(&listener.picker);
            if picker.route() != route {
                picker.change(route.clone());
            }
            return None;
        }
        match listen(address) {
            Ok(socket) => {
                tracing::debug!(%address, service = ?route.service.name, "listening");
                let picker = Arc::new(Mutex::new(Picker::new(route.clone())));
                let work = accept(socket, picker.clone(), self.alive.subscribe());
                let task = tokio::spawn(work).abort_handle();
                self.failed.remove(&address);
                self.listeners.insert(address, Listener { picker, task });
                None
            }
            Err(source) => {
                let new = self.failed.insert(address);
                let error = ServicesError::Listen { address, source };
                new.then(|| Failure { service: route.service.clone(), error })
            }
        }
    }
}

fn lock(picker: &Mutex<Picker>) -> std::sync::MutexGuard<'_, Picker> {
    picker.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Lingering connections of an earlier process must not block the address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, picker: Arc<Mutex<Picker>>, alive: watch::Receiver<()>) {
    loop {
        match listener.accept().await {
            Ok((client, peer)) => {
                let (picker, mut alive) = (picker.clone(), alive.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = forward(client, peer, &picker) => {}
                        // The sender never sends; it is only dropped.
                        _ = alive.changed() => {}
                    }
                });
            }
            // Most likely out of file descriptors: others may be closed meanwhile.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to a service");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn forward(mut client: TcpStream, peer: SocketAddr, picker: &Mutex<Picker>) {
    let order = lock(picker).order(peer.ip(), Instant::now());
    let Some(mut backend) = connect(&order).await else {
        // A reset is the closest to a refused connection after an accept.
        let _ = client.set_zero_linger();
        return;
    };
    if let Ok(address) = backend.peer_addr() {
        lock(picker).taken(peer.ip(), address, Instant::now());
    }
    // Disables Nagle's algorithm on both sockets. A failure only costs latency.
    let _ = (client.set_nodelay(true), backend.set_nodelay(true));
    let copied = tokio::io::copy_bidirectional_with_sizes(
        &mut client,
        &mut backend,
        BUFFER_BYTES,
        BUFFER_BYTES,
    );
    if let Err(error) = copied.await {
        tracing::debug!(%error, %peer, "a connection to a service was aborted");
        // Reset the other end, so that it can tell an abort from a regular end.
        let _ = (client.set_zero_linger(), backend.set_zero_linger());
    }
}

async fn connect(order: &[SocketAddr]) -> Option<TcpStream> {
    for address in order {
        match timeout(CONNECT_TIME_MAX, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%address, %error, "a pod does not accept connections")
            }
            Err(_) => tracing::debug!(%address, "a pod does not accept connections in time"),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A server that sends its name and then echoes.
    async fn server(name: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    stream.write_all(name.as_bytes()).await.unwrap();
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        address
    }

    fn free() -> SocketAddr {
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    fn route(backends: &[SocketAddr]) -> Route {
        let service = ObjectReference::default();
        Route { service, backends: backends.to_vec(), affinity: None }
    }

    async fn open(address: SocketAddr) -> (TcpStream, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut name = [0; 1];
        stream.read_exact(&mut name).await.unwrap();
        (stream, String::from_utf8(name.to_vec()).unwrap())
    }

    async fn echoes(stream: &mut TcpStream) -> bool {
        let mut answer = [0; 5];
        stream.write_all(b"hello").await.is_ok()
            && stream.read_exact(&mut answer).await.is_ok()
            && &answer == b"hello"
    }

    #[tokio::test]
    async fn connections_outlive_changes_and_the_listener() {
        let (a, b, at) = (server("a").await, server("b").await, free());
        let mut proxy = Proxy::new();
        assert!(proxy.apply(&Table::from([(at, route(&[a]))])).is_empty());
        let (mut first, name) = open(at).await;
        assert_eq!(name, "a");
        proxy.apply(&Table::from([(at, route(&[b]))]));
        let (mut second, name) = open(at).await;
        assert_eq!(name, "b");
        proxy.apply(&Table::new());
        // The listener's task closes it a moment later.
        while TcpStream::connect(at).await.is_ok() {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(echoes(&mut first).await && echoes(&mut second).await);
        drop(proxy);
        assert_eq!(first.read(&mut [0; 1]).await.unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn a_pod_that_refuses_is_passed_over_and_none_is_a_reset() {
        let (a, dead, at) = (server("a").await, free(), free());
        let mut proxy = Proxy::new();
        proxy.apply(&Table::from([(at, route(&[dead, a]))]));
        for _ in 0..4 {
            assert_eq!(open(at).await.1, "a");
        }
        proxy.apply(&Table::from([(at, route(&[]))]));
        let mut stream = TcpStream::connect(at).await.unwrap();
        let error = stream.read(&mut [0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn an_address_in_use_is_told_once_and_taken_when_free() {
        let a = server("a").await;
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = other.local_addr().unwrap();
        let (mut proxy, table) = (Proxy::new(), Table::from([(at, route(&[a]))]));
        assert_eq!(proxy.apply(&table).len(), 1);
        assert!(proxy.apply(&table).is_empty() && proxy.retry().is_some());
        drop(other);
        assert!(proxy.apply(&table).is_empty() && proxy.retry().is_none());
        assert_eq!(open(at).await.1, "a");
    }

    #[tokio::test]
    async fn one_direction_can_end_before_the_other() {
        let (a, at) = (server("a").await, free());
        let mut proxy = Proxy::new();
        proxy.apply(&Table::from([(at, route(&[a]))]));
        let (mut stream, _) = open(at).await;
        stream.write_all(b"last words").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "last words");
    }
}
