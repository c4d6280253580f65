//! Traces: spans of passes and acts, sent to an OpenTelemetry collector as OTLP over HTTP, in the JSON encoding.
//!
//! A span is sent after it has ended, in batches. What cannot be queued or sent is dropped: traces never hold up a pass.

use std::hash::BuildHasher as _;
use std::hash::RandomState;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fleet::client::{Client, ClientError, Method};
use operator::trace::TARGET;
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::json::Fields;

/// Spans that wait to be sent: a few minutes of a busy operator.
const QUEUE: usize = 8192;
/// Spans in a request, about half a KB each.
const BATCH: usize = 512;
/// How long spans wait for others.
const DELAY: Duration = Duration::from_secs(1);
/// A collector is close by. The next batch waits meanwhile.
const DEADLINE: Duration = Duration::from_secs(10);

/// Sends spans to a collector.
#[derive(Debug, Clone)]
pub(crate) struct Traces {
    queue: mpsc::Sender<Item>,
}

/// What is queued.
#[derive(Debug)]
enum Item {
    Span(Value),
    /// Everything before it is to be sent now.
    Flush(oneshot::Sender<()>),
}

impl Traces {
    /// Begins to send spans of a process with this name to the collector at this address.
    pub(crate) fn start(on: &Handle, endpoint: &str, instance: &str) -> Result<Self, ClientError> {
        let client = Client::new(DEADLINE)?;
        let url = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
        let (queue, queued) = mpsc::channel(QUEUE);
        on.spawn(send_all(client, url, resource(instance), queued));
        Ok(Self { queue })
    }

    /// Sends what has ended. Whether it arrives is not known.
    pub(crate) async fn flush(&self) {
        let (sent, done) = oneshot::channel();
        if self.queue.send(Item::Flush(sent)).await.is_ok() {
            let _ = done.await;
        }
    }
}

/// Sends what is queued, batch by batch.
async fn send_all(client: Client, url: String, resource: Value, mut queued: mpsc::Receiver<Item>) {
    let mut is_failing = false;
    let mut items = Vec::new();
    while queued.recv_many(&mut items, BATCH).await > 0 {
        if items.len() < BATCH && !items.iter().any(|item| matches!(item, Item::Flush(_))) {
            tokio::time::sleep(DELAY).await;
            while items.len() < BATCH
                && let Ok(item) = queued.try_recv()
            {
                items.push(item);
            }
        }
        let (mut spans, mut flushed) = (Vec::new(), Vec::new());
        for item in items.drain(..) {
            match item {
                Item::Span(span) => spans.push(span),
                Item::Flush(done) => flushed.push(done),
            }
        }
        if !spans.is_empty() {
            let body = request(&resource, spans);
            let sent = client.send(Method::POST, &url, None, Some(&body)).await;
            match sent {
                Ok(_) => is_failing = false,
                // Once, until it works again: there is a batch every second.
                Err(error) if !is_failing => {
                    is_failing = true;
                    tracing::warn!("cannot send traces: {error}");
                }
                Err(error) => tracing::debug!("cannot send traces: {error}"),
            }
        }
        for done in flushed {
            // Whoever waits for it may have ended.
            let _ = done.send(());
        }
    }
}

fn resource(instance: &str) -> Value {
    let attributes = json!({
        "service.name": "gregor-operator",
        "service.version": env!("CARGO_PKG_VERSION"),
        "service.instance.id": instance,
    });
    json!({ "attributes": attributes_of("", attributes.as_object().into_iter().flatten()) })
}

/// A request of OTLP.
fn request(resource: &Value, spans: Vec<Value>) -> Value {
    let scope = json!({ "scope": { "name": "gregor" }, "spans": spans });
    json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [scope] }] })
}

/// Fields as attributes of OTLP.
fn attributes_of<'a>(
    prefix: &str,
    fields: impl Iterator<Item = (&'a String, &'a Value)>,
) -> Vec<Value> {
    let attribute = |(name, value): (&String, &Value)| {
        // 64 bits are a text in JSON.
        let value = match value {
            Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
            Value::Number(number) => json!({ "intValue": number.to_string() }),
            Value::Bool(value) => json!({ "boolValue": value }),
            Value::String(text) => json!({ "stringValue": text }),
            other @ (Value::Null | Value::Array(_) | Value::Object(_)) => {
                json!({ "stringValue": other.to_string() })
            }
        };
        json!({ "key": format!("{prefix}{name}"), "value": value })
    };
    fields.map(attribute).collect()
}

/// A number that no other span has.
fn unique() -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Zero is no id.
    KEYS.hash_one(NEXT.fetch_add(1, Ordering::Relaxed)).max(1)
}

/// A span that has not ended.
#[derive(Debug)]
struct Open {
    trace: String,
    id: String,
    parent: Option<String>,
    began: SystemTime,
    fields: Fields,
    /// The last warning or error in it.
    error: Option<String>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Traces {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id).filter(|span| span.metadata().target() == TARGET) else {
            return;
        };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        // Spans of others may be in between.
        let parent = span.scope().skip(1).find_map(|span| {
            span.extensions().get::<Open>().map(|open| (open.trace.clone(), open.id.clone()))
        });
        let (trace, parent) = match parent {
            Some((trace, parent)) => (trace, Some(parent)),
            None => (format!("{:016x}{:016x}", unique(), unique()), None),
        };
        let id = format!("{:016x}", unique());
        let began = SystemTime::now();
        span.extensions_mut().insert(Open { trace, id, parent, began, fields, error: None });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            values.record(&mut open.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if *event.metadata().level() > Level::WARN {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.0.get("message").and_then(Value::as_str).unwrap_or_default();
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(open) = span.extensions_mut().get_mut::<Open>() {
                open.error = Some(message.to_owned());
            }
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let open = span.extensions_mut().remove::<Open>();
        if let Some(open) = open {
            // If the queue is full, the span is dropped.
            let _ = self.queue.try_send(Item::Span(ended(span.name(), open, SystemTime::now())));
        }
    }
}

/// A span of OTLP.
fn ended(name: &str, open: Open, at: SystemTime) -> Value {
    let nanos = |time: SystemTime| {
        time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
    };
    let Fields(fields) = open.fields;
    // Such as "pass Kafka" and "act restartPod".
    let what = ["act", "kind"].iter().find_map(|field| fields.get(*field)?.as_str());
    let name = what.map_or_else(|| name.to_owned(), |what| format!("{name} {what}"));
    let mut span = Map::new();
    let mut set = |name: &str, value: Value| span.insert(name.to_owned(), value);
    set("traceId", json!(open.trace));
    set("spanId", json!(open.id));
    if let Some(parent) = open.parent {
        set("parentSpanId", json!(parent));
    }
    set("name", json!(name));
    // SPAN_KIND_INTERNAL
    set("kind", json!(1));
    set("startTimeUnixNano", json!(nanos(open.began)));
    set("endTimeUnixNano", json!(nanos(at)));
    set("attributes", json!(attributes_of("gregor.", fields.iter())));
    if let Some(error) = open.error {
        // STATUS_CODE_ERROR
        set("status", json!({ "code": 2, "message": error }));
    }
    Value::Object(span)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Answers one request, and returns its first line and its body.
    fn receive(listener: &TcpListener) -> (String, Value) {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first).unwrap();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(number) = line.strip_prefix("content-length:") {
                length = number.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let mut stream = reader.into_inner();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
            .unwrap();
        (first.trim_end().to_owned(), serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn passes_and_acts_arrive_as_spans() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}/", listener.local_addr().unwrap());
        let received = thread::spawn(move || receive(&listener));
        let traces = Traces::start(&Handle::current(), &endpoint, "me").unwrap();
        let subscriber = tracing_subscriber::registry().with(traces.clone());
        tracing::subscriber::with_default(subscriber, || {
            let pass = tracing::info_span!(target: TARGET, "pass", kind = "Kafka", pass = 7_u64);
            let _pass = pass.enter();
            tracing::info_span!("of something else").in_scope(|| {
                let act = tracing::info_span!(target: TARGET, "act", act = "restartPod");
                act.in_scope(|| tracing::warn!("no answer"));
            });
        });
        traces.flush().await;
        let (first, body) = received.join().unwrap();
        assert_eq!(first, "POST /v1/traces HTTP/1.1");
        let resource = &body["resourceSpans"][0];
        assert!(resource["resource"]["attributes"].to_string().contains("gregor-operator"));
        let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
        let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["act restartPod", "pass Kafka"]);
        let (act, pass) = (&spans[0], &spans[1]);
        assert_eq!(act["traceId"], pass["traceId"]);
        assert_eq!(act["parentSpanId"], pass["spanId"]);
        assert!(pass.get("parentSpanId").is_none());
        assert_eq!(pass["traceId"].as_str().unwrap().len(), 32);
        assert_eq!(act["status"], json!({ "code": 2, "message": "no answer" }));
        let number = json!({ "key": "gregor.pass", "value": { "intValue": "7" } });
        assert!(pass["attributes"].as_array().unwrap().contains(&number), "{pass}");
    }
}
