//! Log lines as JSON objects.
//!
//! Each has `timestamp`, `level`, `target` and `message`, the fields of the event, and those of the pass and the act that it
//! belongs to. `cluster`, `pass` and `act` are in every line; they are null outside of a pass or an act.

use std::fmt;
use std::io::Write;

use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The fields that every line has.
const ALWAYS: [&str; 3] = ["cluster", "pass", "act"];

/// The fields of a span or an event.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(pub(super) Map<String, Value>);

impl Fields {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }
}

/// Writes each event as an object in a line of its own.
pub(super) struct Objects<F> {
    make: F,
}

impl<F> Objects<F> {
    pub(super) const fn new(make: F) -> Self {
        Self { make }
    }
}

impl<S, W, F> Layer<S> for Objects<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Write,
    F: Fn() -> W + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line: Map<String, Value> =
            ALWAYS.into_iter().map(|name| (name.to_owned(), Value::Null)).collect();
        let now = OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(fields) = span.extensions().get::<Fields>() {
                line.extend(fields.0.clone());
            }
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        line.extend(fields.0);
        line.insert("timestamp".to_owned(), json!(now));
        line.insert("level".to_owned(), json!(event.metadata().level().as_str()));
        line.insert("target".to_owned(), json!(event.metadata().target()));
        // In one piece, so that lines of other threads are not in the middle of it. There is nowhere to report a failure.
        let _ = (self.make)().write_all(format!("{}\n", Value::Object(line)).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// A writer that keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that are logged.
    fn logged(work: impl FnOnce()) -> Vec<Value> {
        let kept = Kept::default();
        let make = {
            let kept = kept.clone();
            move || kept.clone()
        };
        let subscriber = tracing_subscriber::registry().with(Objects::new(make));
        tracing::subscriber::with_default(subscriber, work);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_line_has_the_cluster_the_pass_and_the_act() {
        let lines = logged(|| {
            tracing::info!("outside");
            let pass = tracing::info_span!("pass", cluster = "", pass = 7);
            let _pass = pass.enter();
            pass.record("cluster", "c");
            tracing::warn!(node = 3, "in a pass");
            let _act = tracing::info_span!("act", act = "restartPod").entered();
            tracing::error!(error = %"x\ny", "in an act");
        });
        let of = |line: &Value| {
            ["cluster", "pass", "act", "level", "message"].map(|name| line[name].clone())
        };
        assert_eq!(
            lines.iter().map(of).collect::<Vec<_>>(),
            [
                [Value::Null, Value::Null, Value::Null, json!("INFO"), json!("outside")],
                [json!("c"), json!(7), Value::Null, json!("WARN"), json!("in a pass")],
                [json!("c"), json!(7), json!("restartPod"), json!("ERROR"), json!("in an act")],
            ]
        );
        assert_eq!((&lines[1]["node"], &lines[2]["error"]), (&json!(3), &json!("x\ny")));
        for line in &lines {
            let timestamp = line["timestamp"].as_str().unwrap();
            assert!(timestamp.starts_with("20") && timestamp.ends_with('Z'), "{timestamp}");
        }
    }
}
