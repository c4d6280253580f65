//! A receiver of traces: OTLP over HTTP, in the JSON encoding.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// The receiver, until the test ends.
pub(crate) struct Collector {
    url: String,
    spans: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let spans = Arc::<Mutex<Vec<Value>>>::default();
        let shared = Arc::clone(&spans);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || receive(stream?, &shared));
            }
        });
        Self { url, spans }
    }

    /// The endpoint, as the operator takes it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The spans that have arrived.
    pub(crate) fn spans(&self) -> Vec<Value> {
        self.spans.lock().unwrap().clone()
    }
}

/// Receives one request of a connection, and closes it.
fn receive(stream: TcpStream, spans: &Mutex<Vec<Value>>) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_ascii_lowercase()),
        }
    }
    let length = head.iter().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length.and_then(|text| text.trim().parse().ok()).unwrap_or_default()];
    reader.read_exact(&mut body)?;
    let is_ours = head.first().is_some_and(|line| line.starts_with("post /v1/traces "));
    let status = if is_ours { "200 OK" } else { "404 Not Found" };
    if is_ours {
        let body: Value = serde_json::from_slice(&body)?;
        let resources = body["resourceSpans"].as_array().into_iter().flatten();
        let scopes = resources.flat_map(|one| one["scopeSpans"].as_array().into_iter().flatten());
        let found = scopes.flat_map(|one| one["spans"].as_array().into_iter().flatten());
        spans.lock().unwrap().extend(found.cloned());
    }
    let mut stream = reader.into_inner();
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}")
}
