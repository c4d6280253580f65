//! A task that drives one connection, and the handle through which calls reach it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::error::{ConnectError, LinkError};
use super::transport::Stream;
use crate::proto::{CallId, Connection, ConnectionError, Event, Handshake, Outgoing, Versions};

/// Commands that may wait in front of the task. It takes them at once, so this is not a limit on
/// calls, which the connection itself has.
const COMMANDS_MAX: usize = 64;

/// Room for one read. Answers are mostly smaller; larger ones take several reads.
const READ_BYTES: usize = 64 << 10;

/// How a call through a link ended without an answer.
#[derive(Debug, Clone)]
pub(super) enum LinkFailure {
    /// The link takes no calls: nothing was sent.
    NotAccepted,
    /// Sent, and no answer in time.
    Expired,
    /// Sent, and the connection ended.
    Lost(LinkError),
}

type Reply = oneshot::Sender<Result<Bytes, LinkFailure>>;

struct Command {
    request: Outgoing,
    reply: Reply,
}

/// A connection that is open for calls. The last handle that goes lets the connection end.
#[derive(Debug, Clone)]
pub(super) struct Link {
    commands: mpsc::Sender<Command>,
    versions: Arc<Versions>,
    accepting: Arc<AtomicBool>,
    epoch: Instant,
}

impl Link {
    /// Opens the protocol on a stream.
    pub(super) async fn open(
        stream: Box<dyn Stream>,
        client_id: &str,
        handshake: Handshake,
        timeout: Duration,
    ) -> Result<Self, ConnectError> {
        let epoch = Instant::now();
        let connection = Connection::open(client_id, handshake, timeout)
            .map_err(|error| ConnectError::Handshake(error.into()))?;
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let accepting = Arc::new(AtomicBool::new(true));
        let (reader, writer) = tokio::io::split(stream);
        let mut task = Task {
            connection,
            epoch,
            reader,
            writer,
            unsent: false,
            waiting: BTreeMap::new(),
            accepting: Arc::clone(&accepting),
        };
        task.handshake().await.map_err(|error| match error {
            LinkError::Protocol(ConnectionError::HandshakeExpired) => {
                ConnectError::Expired { waited: timeout }
            }
            error => ConnectError::Handshake(error),
        })?;
        let versions = Arc::new(task.connection.versions().clone());
        tokio::spawn(task.run(inbox));
        Ok(Self { commands, versions, accepting, epoch })
    }

    /// What the peer speaks.
    pub(super) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Whether a call may be tried on this link.
    pub(super) fn accepting(&self) -> bool {
        self.accepting.load(Ordering::Acquire) && !self.commands.is_closed()
    }

    /// Sends a request and waits for its answer, until `deadline`.
    pub(super) async fn call(
        &self,
        mut request: Outgoing,
        deadline: Instant,
    ) -> Result<Bytes, LinkFailure> {
        request.deadline = deadline.saturating_duration_since(self.epoch);
        let (reply, answer) = oneshot::channel();
        let command = Command { request, reply };
        self.commands.send(command).await.map_err(|_| LinkFailure::NotAccepted)?;
        // A task that is gone without a word has dropped the stream; what was sent is not known.
        answer.await.unwrap_or(Err(LinkFailure::Lost(LinkError::Closed)))
    }
}

struct Task {
    connection: Connection,
    epoch: Instant,
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    /// Bytes are in the outbox or in the stream's own buffer.
    unsent: bool,
    waiting: BTreeMap<CallId, Reply>,
    accepting: Arc<AtomicBool>,
}

/// What woke the task.
enum Woken {
    Read(usize),
    Written,
    Command(Option<Command>),
    Time,
}

impl Task {
    async fn handshake(&mut self) -> Result<(), LinkError> {
        let (_sender, mut none) = mpsc::channel(1);
        let mut buffer = BytesMut::with_capacity(READ_BYTES);
        self.unsent = true;
        loop {
            let woken = self.wait(&mut none, &mut buffer).await?;
            self.handle(woken, &mut buffer)?;
            if self.connection.next_event() == Some(Event::Ready) {
                return Ok(());
            }
        }
    }

    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let error = match self.serve(&mut commands).await {
            Ok(()) => LinkError::Closed,
            Err(error) => error,
        };
        self.accepting.store(false, Ordering::Release);
        // What was answered before the end is answered, also if both came in one read.
        self.report();
        for reply in std::mem::take(&mut self.waiting).into_values() {
            // A caller that has gone away needs no answer.
            let _ = reply.send(Err(LinkFailure::Lost(error.clone())));
        }
        // What is still in the channel was never sent.
        commands.close();
        while let Some(command) = commands.recv().await {
            let _ = command.reply.send(Err(LinkFailure::NotAccepted));
        }
    }

    /// Until all callers are gone, or the connection ends.
    async fn serve(&mut self, commands: &mut mpsc::Receiver<Command>) -> Result<(), LinkError> {
        let mut buffer = BytesMut::with_capacity(READ_BYTES);
        loop {
            let woken = self.wait(commands, &mut buffer).await?;
            let finished = matches!(woken, Woken::Command(None));
            self.handle(woken, &mut buffer)?;
            self.report();
            let accepting = self.connection.accepting(self.now());
            self.accepting.store(accepting, Ordering::Release);
            // Bytes that are still unsent are those of calls that have expired. A peer that does not
            // read would keep them, and this task, for ever.
            if !self.connection.has_calls() && (finished || !accepting) {
                return Ok(());
            }
        }
    }

    async fn wait(
        &mut self,
        commands: &mut mpsc::Receiver<Command>,
        buffer: &mut BytesMut,
    ) -> Result<Woken, LinkError> {
        let wake_at = self.connection.next_deadline().map(|time| self.epoch + time);
        let closed = commands.is_closed() && commands.is_empty() && self.connection.has_calls();
        buffer.clear();
        let woken = tokio::select! {
            read = self.reader.read_buf(buffer) => Woken::Read(read?),
            written = drain(&mut self.writer, self.connection.outbox()), if self.unsent => {
                written?;
                Woken::Written
            }
            // When all handles are gone but calls are under way, only those matter.
            command = commands.recv(), if !closed => Woken::Command(command),
            () = sleep_until(wake_at.unwrap_or(self.epoch)), if wake_at.is_some() => Woken::Time,
        };
        Ok(woken)
    }

    fn handle(&mut self, woken: Woken, buffer: &mut BytesMut) -> Result<(), LinkError> {
        let now = self.now();
        match woken {
            Woken::Read(0) => return Err(LinkError::Closed),
            Woken::Read(_) => self.connection.handle_input(now, buffer)?,
            Woken::Written => self.unsent = false,
            Woken::Command(None) => {}
            Woken::Command(Some(command)) => self.call(now, command),
            Woken::Time => {}
        }
        self.connection.handle_time(self.now())?;
        // A handshake's next message was put into the outbox by the input just handled.
        self.unsent |= !self.connection.outbox().is_empty();
        Ok(())
    }

    fn call(&mut self, now: Duration, command: Command) {
        match self.connection.call(now, command.request) {
            Ok(call) => {
                self.waiting.insert(call, command.reply);
                self.unsent = true;
            }
            Err(_) => {
                let _ = command.reply.send(Err(LinkFailure::NotAccepted));
            }
        }
    }

    fn report(&mut self) {
        while let Some(event) = self.connection.next_event() {
            let (call, outcome) = match event {
                Event::Ready => continue,
                Event::Answered { call, body } => (call, Ok(body)),
                Event::Expired { call } => (call, Err(LinkFailure::Expired)),
            };
            if let Some(reply) = self.waiting.remove(&call) {
                let _ = reply.send(outcome);
            }
        }
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }
}

/// Sends what is in the outbox. Safe to be dropped half-way: what was sent has left the outbox.
async fn drain(
    writer: &mut WriteHalf<Box<dyn Stream>>,
    outbox: &mut BytesMut,
) -> std::io::Result<()> {
    while !outbox.is_empty() {
        writer.write_buf(outbox).await?;
    }
    writer.flush().await
}
