//! Runs a command in a container and forwards its input and output over a WebSocket.
//!
//! An API server of version 1.36 forwards the client's WebSocket to a node with `ExtendWebSocketsToKubelet`
//! in `status.declaredFeatures`; with any other node it uses SPDY, which is not supported here. Supported
//! protocols are `v5.channel.k8s.io` (`kubectl`) and `v4.channel.k8s.io` (client libraries), which differ
//! only in how the input ends.
//!
//! Each message starts with its channel number. TTYs are not supported.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::error::Refusal;

const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
/// In version 5 a message on this channel closes another one.
const CLOSE: u8 = 255;

const BLOCK_BYTES: usize = 16 * 1024;

/// A background process of the command may hold its output open; wait this long for it.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Parameters of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExecQuery {
    pub(super) command: Vec<String>,
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
}

impl ExecQuery {
    /// Parses the parameters from the API server.
    pub(super) fn parse(query: &str) -> Result<Self, Refusal> {
        let mut wanted = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let set = matches!(value.as_ref(), "1" | "true");
            match key.as_ref() {
                "command" => wanted.command.push(value.into_owned()),
                "input" => wanted.stdin = set,
                "output" => wanted.stdout = set,
                "error" => wanted.stderr = set,
                "tty" if set => return Err(Refusal::NoTerminal),
                _ => {}
            }
        }
        if wanted.command.is_empty() { Err(Refusal::NoCommand) } else { Ok(wanted) }
    }
}

/// Starts the command and accepts the upgrade.
pub(super) fn start(
    upgrade: WebSocketUpgrade,
    mut command: Command,
    query: &ExecQuery,
) -> Result<Response, Refusal> {
    let pipe = |wanted: bool| if wanted { Stdio::piped() } else { Stdio::null() };
    let child = command
        .stdin(pipe(query.stdin))
        .stdout(pipe(query.stdout))
        .stderr(pipe(query.stderr))
        // If the client disconnects, its command is killed.
        .kill_on_drop(true)
        .spawn()
        .map_err(Refusal::Spawn)?;
    let first = match (query.stdout, query.stderr) {
        (true, _) => STDOUT,
        (false, true) => STDERR,
        (false, false) => STATUS,
    };
    Ok(upgrade.protocols(PROTOCOLS).on_upgrade(move |socket| carry(socket, child, first)))
}

async fn carry(socket: WebSocket, mut child: Child, first: u8) {
    let (sender, receiver) = socket.split();
    let stdin = child.stdin.take();
    tokio::select! {
        () = outward(sender, child, first) => {}
        // Dropping the other branch drops the child, which kills it.
        () = inward(receiver, stdin) => {}
    }
}

/// Forwards input until the client disconnects.
async fn inward(mut receiver: SplitStream<WebSocket>, mut stdin: Option<ChildStdin>) {
    while let Some(Ok(message)) = receiver.next().await {
        let Message::Binary(bytes) = message else { continue };
        match bytes.split_first() {
            Some((&STDIN, data)) => {
                let written = match &mut stdin {
                    Some(stdin) => stdin.write_all(data).await,
                    None => Ok(()),
                };
                if written.is_err() {
                    // The command has closed its input. Further input is discarded.
                    stdin = None;
                }
            }
            Some((&CLOSE, [STDIN])) => stdin = None,
            _ => {}
        }
    }
}

/// Forwards output until the command has exited and the client has received its status.
async fn outward(mut sender: SplitSink<WebSocket, Message>, mut child: Child, first: u8) {
    // Clients take the first message as the sign that the command runs.
    if sender.send(message(first, &[])).await.is_err() {
        return;
    }
    let (output, mut parts) = mpsc::channel(4);
    let pumps = [
        child.stdout.take().map(|pipe| tokio::spawn(pump(pipe, STDOUT, output.clone()))),
        child.stderr.take().map(|pipe| tokio::spawn(pump(pipe, STDERR, output))),
    ];
    let mut exit = None;
    loop {
        let part = async {
            match exit {
                None => parts.recv().await,
                Some(_) => timeout(LAST_WORDS, parts.recv()).await.unwrap_or(None),
            }
        };
        tokio::select! {
            part = part => {
                let Some(part) = part else { break };
                if sender.send(part).await.is_err() {
                    return;
                }
            }
            status = child.wait(), if exit.is_none() => exit = Some(status),
        }
    }
    pumps.into_iter().flatten().for_each(|pump| pump.abort());
    let exit = match exit {
        Some(exit) => exit,
        None => child.wait().await,
    };
    let status = exit.map_or_else(|error| internal(&error.to_string()), report);
    let sent = sender.send(message(STATUS, status.to_string().as_bytes())).await;
    if sent.is_ok() {
        // Without a close code clients report a failure. They may have disconnected by now.
        let end = CloseFrame { code: close_code::NORMAL, reason: "".into() };
        let _ = sender.send(Message::Close(Some(end))).await;
        let _ = sender.close().await;
    }
}

async fn pump(mut pipe: impl AsyncRead + Unpin, channel: u8, output: mpsc::Sender<Message>) {
    let mut block = vec![0; BLOCK_BYTES];
    while let Ok(length @ 1..) = pipe.read(&mut block).await {
        if output.send(message(channel, &block[..length])).await.is_err() {
            return;
        }
    }
}

fn message(channel: u8, data: &[u8]) -> Message {
    let mut bytes = Vec::with_capacity(data.len() + 1);
    bytes.push(channel);
    bytes.extend_from_slice(data);
    Message::Binary(Bytes::from(bytes))
}

/// The exit status in the format that clients expect.
fn report(exit: ExitStatus) -> Value {
    use std::os::unix::process::ExitStatusExt as _;
    if exit.success() {
        return json!({"metadata": {}, "status": "Success"});
    }
    // Signals are reported as in shells and container runtimes.
    let code = exit.code().unwrap_or_else(|| 128 + exit.signal().unwrap_or(0));
    json!({
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

fn internal(message: &str) -> Value {
    json!({"metadata": {}, "status": "Failure", "reason": "InternalError", "message": message})
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn parameters_are_read_as_the_api_server_writes_them() {
        let query = ExecQuery::parse("command=sh&command=-c&command=echo+a%26b&input=1&output=1");
        let command = ["sh", "-c", "echo a&b"].map(str::to_owned).to_vec();
        let expected = ExecQuery { command, stdin: true, stdout: true, stderr: false };
        assert_eq!(query.unwrap(), expected);
        assert!(matches!(ExecQuery::parse("output=1"), Err(Refusal::NoCommand)));
        assert!(matches!(ExecQuery::parse("command=sh&tty=1"), Err(Refusal::NoTerminal)));
    }

    #[test]
    fn exit_codes_and_signals_are_reported() {
        // In a wait status the exit code is in the second byte, and a signal in the first.
        let code =
            |raw| report(ExitStatus::from_raw(raw))["details"]["causes"][0]["message"].clone();
        assert_eq!(report(ExitStatus::from_raw(0))["status"], "Success");
        assert_eq!(code(3 << 8), "3");
        assert_eq!(code(9), "137");
    }
}
