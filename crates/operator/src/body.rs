//! Bodies of answers, bounded in size and time whatever the peer says of their length.
//!
//! `read`, `read_large` and `read_lines` are for peers that a user of one namespace may control: Cruise Control and
//! the nodes of a cluster. All their large answers in flight share one budget, so that many of them at once do not
//! exhaust the memory of the operator either. The callers set the deadline.
//!
//! [`Bounded`] is for the API server.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Sleep;

/// Bytes of all answers of untrusted peers that are being read: a sixth of the operator's memory limit.
const BUDGET_BYTES: usize = 64 << 20;
/// The budget is counted in units of this size.
const UNIT_BYTES: usize = 1 << 10;
/// The longest line of a page of metrics; longer than any name and labels.
const LINE_BYTES_MAX: usize = 64 << 10;

static BUDGET: Semaphore = Semaphore::const_new(BUDGET_BYTES / UNIT_BYTES);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a body was not read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It has more bytes than any answer needs.
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    /// A line or an event has.
    #[error("a line of the answer has more than {0} bytes")]
    LineTooLong(usize),
    /// It did not end in time.
    #[error("the answer did not end within {} s", .0.as_secs())]
    Late(Duration),
    /// Answers of other peers use all memory that there is for them.
    #[error("too many answers are being read concurrently")]
    OverBudget,
    /// The connection broke.
    #[error("the answer is truncated")]
    Broken(#[source] BoxError),
}

/// Reads a small body, outside of the budget: what decides about restarts must not wait for large answers.
pub(crate) async fn read<B>(body: B, bytes_max: usize) -> Result<Vec<u8>, BodyError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    read_from(body, bytes_max, None).await
}

/// Reads a body within the budget.
pub(crate) async fn read_large<B>(body: B, bytes_max: usize) -> Result<Vec<u8>, BodyError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    read_from(body, bytes_max, Some(&BUDGET)).await
}

async fn read_from<B>(
    body: B,
    bytes_max: usize,
    budget: Option<&Semaphore>,
) -> Result<Vec<u8>, BodyError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let mut body = std::pin::pin!(body);
    let mut reserved = budget.map(|budget| Reserved { budget, permit: None });
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::Broken(error.into()))?;
        let Ok(data) = frame.into_data() else { continue };
        if all.len() + data.len() > bytes_max {
            return Err(BodyError::TooLarge(bytes_max));
        }
        if let Some(reserved) = &mut reserved {
            reserved.add(data.len())?;
        }
        all.extend_from_slice(&data);
    }
    Ok(all)
}

/// How much of a page is read, and how much of that is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// Bytes that are read.
    pub(crate) bytes_max: usize,
    /// Bytes of the lines that are kept.
    pub(crate) kept_max: usize,
    /// Which lines are kept.
    pub(crate) keep: fn(&[u8]) -> bool,
}

/// Reads a page of lines and keeps only some of them, so that a large page does not have to fit into memory.
pub(crate) async fn read_lines<B>(body: B, page: Page) -> Result<Vec<u8>, BodyError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let mut body = std::pin::pin!(body);
    let (mut kept, mut line, mut seen) = (Vec::new(), Vec::new(), 0);
    let mut reserved = Reserved { budget: &BUDGET, permit: None };
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::Broken(error.into()))?;
        let Ok(data) = frame.into_data() else { continue };
        seen += data.len();
        if seen > page.bytes_max {
            return Err(BodyError::TooLarge(page.bytes_max));
        }
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if line.len() > LINE_BYTES_MAX {
                return Err(BodyError::LineTooLong(LINE_BYTES_MAX));
            }
            if !part.ends_with(b"\n") {
                continue;
            }
            if (page.keep)(&line) {
                if kept.len() + line.len() > page.kept_max {
                    return Err(BodyError::TooLarge(page.kept_max));
                }
                reserved.add(line.len())?;
                kept.extend_from_slice(&line);
            }
            line.clear();
        }
    }
    // What has no end of line broke off.
    Ok(kept)
}

/// A share of the budget, given back when it is dropped.
struct Reserved<'a> {
    budget: &'a Semaphore,
    permit: Option<(SemaphorePermit<'a>, usize)>,
}

impl Reserved<'_> {
    fn add(&mut self, bytes: usize) -> Result<(), BodyError> {
        let (held, wanted) = match &self.permit {
            Some((permit, used)) => (permit.num_permits(), used + bytes),
            None => (0, bytes),
        };
        let missing = wanted.div_ceil(UNIT_BYTES).saturating_sub(held);
        let more = u32::try_from(missing).map_err(|_| BodyError::OverBudget)?;
        let more = self.budget.try_acquire_many(more).map_err(|_| BodyError::OverBudget)?;
        match &mut self.permit {
            Some((permit, used)) => {
                permit.merge(more);
                *used = wanted;
            }
            None => self.permit = Some((more, wanted)),
        }
        Ok(())
    }
}

/// What bounds an answer of the API server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bounds {
    /// One answer.
    Whole {
        /// Its size.
        bytes_max: usize,
        /// The time until its end.
        time_max: Duration,
    },
    /// A stream of events, one in each line.
    Watch {
        /// The size of an event.
        event_bytes_max: usize,
        /// The time until the end of the stream.
        time_max: Duration,
    },
}

/// A body that ends with an error when it exceeds its bounds.
pub(crate) struct Bounded<B> {
    inner: Pin<Box<B>>,
    bounds: Bounds,
    /// Bytes of the answer, or of the event that is being read.
    seen: usize,
    late: Pin<Box<Sleep>>,
}

impl<B> Bounded<B> {
    pub(crate) fn new(inner: B, bounds: Bounds) -> Self {
        let (Bounds::Whole { time_max, .. } | Bounds::Watch { time_max, .. }) = bounds;
        let late = Box::pin(tokio::time::sleep(time_max));
        Self { inner: Box::pin(inner), bounds, seen: 0, late }
    }

    fn count(&mut self, data: &[u8]) -> Result<(), BodyError> {
        match self.bounds {
            Bounds::Whole { bytes_max, .. } => {
                self.seen += data.len();
                if self.seen > bytes_max {
                    return Err(BodyError::TooLarge(bytes_max));
                }
            }
            Bounds::Watch { event_bytes_max, .. } => {
                for part in data.split_inclusive(|byte| *byte == b'\n') {
                    self.seen += part.len();
                    if self.seen > event_bytes_max {
                        return Err(BodyError::LineTooLong(event_bytes_max));
                    }
                    if part.ends_with(b"\n") {
                        self.seen = 0;
                    }
                }
            }
        }
        Ok(())
    }
}

impl<B> Body for Bounded<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.late.as_mut().poll(context).is_ready() {
            let (Bounds::Whole { time_max, .. } | Bounds::Watch { time_max, .. }) = self.bounds;
            return Poll::Ready(Some(Err(BodyError::Late(time_max))));
        }
        let frame = match ready!(self.inner.as_mut().poll_frame(context)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(BodyError::Broken(error.into())))),
            Some(Ok(frame)) => frame,
        };
        if let Some(data) = frame.data_ref()
            && let Err(error) = self.count(data)
        {
            return Poll::Ready(Some(Err(error)));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};

    use super::*;

    fn page(bytes_max: usize, kept_max: usize) -> Page {
        Page { bytes_max, kept_max, keep: |line| line.starts_with(b"a") }
    }

    /// A body in frames of these texts.
    fn frames(parts: &[&'static str]) -> impl Body<Data = Bytes, Error = std::io::Error> {
        let parts: Vec<_> = parts.iter().map(|part| Ok(Frame::data(Bytes::from(*part)))).collect();
        StreamBody::new(futures::stream::iter(parts))
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_bound() {
        let body = || Full::new(Bytes::from_static(b"0123456789"));
        assert_eq!(read(body(), 10).await.unwrap(), b"0123456789");
        assert!(matches!(read(body(), 9).await, Err(BodyError::TooLarge(9))));
    }

    #[tokio::test]
    async fn answers_in_flight_share_a_budget() {
        let budget = Semaphore::new(2);
        let body = |bytes: usize| Full::new(Bytes::from(vec![0; bytes]));
        assert_eq!(read_from(body(2048), 4096, Some(&budget)).await.unwrap().len(), 2048);
        assert!(matches!(
            read_from(body(2049), 4096, Some(&budget)).await,
            Err(BodyError::OverBudget)
        ));
        assert_eq!(budget.available_permits(), 2, "it is given back");
        let other = budget.acquire().await.unwrap();
        assert!(matches!(
            read_from(body(1025), 4096, Some(&budget)).await,
            Err(BodyError::OverBudget)
        ));
        drop(other);
        // Small frames do not round up one by one.
        let small = frames(&["a"; 2048]);
        assert_eq!(read_from(small, 4096, Some(&budget)).await.unwrap().len(), 2048);
    }

    #[tokio::test]
    async fn only_lines_that_matter_are_kept() {
        let body = || frames(&["a1\nb", "2\na", "3\n", "\na4"]);
        assert_eq!(read_lines(body(), page(100, 100)).await.unwrap(), b"a1\na3\n");
        assert!(matches!(read_lines(body(), page(5, 100)).await, Err(BodyError::TooLarge(5))));
        assert!(matches!(read_lines(body(), page(100, 5)).await, Err(BodyError::TooLarge(5))));
        let long = Full::new(Bytes::from(vec![b'b'; LINE_BYTES_MAX + 1]));
        let read = read_lines(long, page(1 << 20, 100)).await;
        assert!(matches!(read, Err(BodyError::LineTooLong(LINE_BYTES_MAX))));
    }
}
