//! A proxy between the client and the nodes that keeps what the nodes answer.
//!
//! It sits where names become addresses: whatever host the client looks up, it gets the address of a
//! listener that passes everything on to that host. So nothing has to be known of the listeners that
//! the nodes advertise.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use kafka_admin::proto::table;
use kafka_admin::{Resolve, Resolving};
use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::protocol::{Decodable as _, Encodable as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const API_VERSIONS: i16 = 18;

/// What was answered, and which versions the client is made to use.
#[derive(Debug)]
pub(crate) struct Recorder {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    bytes_max: usize,
    /// The newest version of each request that nodes may offer, counted from the oldest of our own.
    step: AtomicI16,
    answers: Mutex<BTreeMap<(&'static str, i16), Bytes>>,
}

impl Recorder {
    /// Keeps answers of up to so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let state = State { bytes_max, step: AtomicI16::new(0), answers: Mutex::default() };
        Self { state: Arc::new(state) }
    }

    /// Lets new connections use the version of each request that is so many after our oldest.
    pub(crate) fn offer(&self, step: i16) {
        self.state.step.store(step, Ordering::Relaxed);
    }

    /// The longest answer for each request and version.
    pub(crate) fn answers(&self) -> BTreeMap<(&'static str, i16), Bytes> {
        self.state.lock().clone()
    }
}

impl Resolve for Recorder {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            let address = listener.local_addr()?;
            let (state, target) = (Arc::clone(&self.state), (host.to_owned(), port));
            tokio::spawn(async move {
                // The client makes one connection per look-up. How it ends is the client's to say.
                let Ok((client, _)) = listener.accept().await else { return };
                let _ = pass(&state, client, target).await;
            });
            Ok(vec![address])
        })
    }
}

/// Requests by correlation id: key and version.
type Asked = Mutex<BTreeMap<i32, (i16, i16)>>;

async fn pass(state: &State, client: TcpStream, target: (String, u16)) -> anyhow::Result<()> {
    let node = TcpStream::connect(target).await?;
    let (from_client, to_client) = client.into_split();
    let (from_node, to_node) = node.into_split();
    let asked = Asked::default();
    // Either end closing is the end of both.
    tokio::select! {
        ended = requests(&asked, from_client, to_node) => ended,
        ended = answers(state, &asked, from_node, to_client) => ended,
    }
}

async fn requests(
    asked: &Asked,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> anyhow::Result<()> {
    loop {
        let frame = read_frame(&mut from).await?;
        let head: [u8; 8] = *frame.first_chunk().context("a request without a header")?;
        let [k0, k1, v0, v1, c0, c1, c2, c3] = head;
        let api = (i16::from_be_bytes([k0, k1]), i16::from_be_bytes([v0, v1]));
        let correlation = i32::from_be_bytes([c0, c1, c2, c3]);
        asked.lock().unwrap_or_else(PoisonError::into_inner).insert(correlation, api);
        write_frame(&mut to, &frame).await?;
    }
}

async fn answers(
    state: &State,
    asked: &Asked,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> anyhow::Result<()> {
    loop {
        let frame = read_frame(&mut from).await?;
        let head: [u8; 4] = *frame.first_chunk().context("an answer without a header")?;
        let correlation = i32::from_be_bytes(head);
        let api = asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&correlation);
        let (key, version) = api.context("an answer to nothing")?;
        // All headers but one have tagged fields, of which Kafka sends none.
        let header = if key == API_VERSIONS { 4 } else { 5 };
        state.keep(key, version, frame.slice(header.min(frame.len())..));
        if key == API_VERSIONS {
            let body = state.lower(version, frame.slice(4..))?;
            write_frame(&mut to, &[&head, &body[..]].concat()).await?;
        } else {
            write_frame(&mut to, &frame).await?;
        }
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(&'static str, i16), Bytes>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, key: i16, version: i16, body: Bytes) {
        let ours = table().into_iter().find(|(id, versions)| {
            id.key == key && versions.contains(&version) && body.len() <= self.bytes_max
        });
        let Some((id, _)) = ours else { return };
        let mut answers = self.lock();
        let kept = answers.entry((id.name, version)).or_default();
        if kept.len() < body.len() {
            *kept = body;
        }
    }

    /// The same offer of versions, but for those that are too new for this round.
    fn lower(&self, version: i16, mut body: Bytes) -> anyhow::Result<Bytes> {
        let mut answer = ApiVersionsResponse::decode(&mut body, version)?;
        for (id, versions) in table() {
            let newest = versions.start() + self.step.load(Ordering::Relaxed);
            for offer in answer.api_keys.iter_mut().filter(|offer| offer.api_key == id.key) {
                offer.max_version = offer.max_version.min(newest);
            }
        }
        let mut lowered = BytesMut::new();
        answer.encode(&mut lowered, version)?;
        Ok(lowered.freeze())
    }
}

async fn read_frame(from: &mut (impl AsyncRead + Unpin)) -> anyhow::Result<Bytes> {
    let mut frame = vec![0; usize::try_from(from.read_u32().await?)?];
    from.read_exact(&mut frame).await?;
    Ok(frame.into())
}

async fn write_frame(to: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> anyhow::Result<()> {
    to.write_u32(u32::try_from(frame.len())?).await?;
    Ok(to.write_all(frame).await?)
}
