//! The log of a container in the CRI format: `<time> <stream> F <line>`, with `P` instead of `F` for an
//! incomplete line.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use k8s_openapi::jiff::Timestamp;

use super::LogSpec;

/// Longer lines are split, as in container runtimes.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// Part of the log's tail that becomes a termination message: Kubernetes' limits.
const TAIL_LINES_MAX: usize = 80;
const TAIL_BYTES_MAX: usize = 2048;

/// One of the two output streams.
#[derive(Debug)]
pub(super) struct Stream {
    name: &'static str,
    rest: Vec<u8>,
}

/// A piece of a stream to be written, and whether it ends a line.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    bytes: Vec<u8>,
    ends_line: bool,
}

impl Stream {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, rest: Vec::new() }
    }

    /// Enters data and returns complete pieces.
    fn take(&mut self, bytes: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(part);
            if self.rest.last() == Some(&b'\n') {
                self.rest.pop();
                pieces.push(Piece { bytes: std::mem::take(&mut self.rest), ends_line: true });
            } else if self.rest.len() >= LINE_BYTES_MAX {
                pieces.push(Piece { bytes: std::mem::take(&mut self.rest), ends_line: false });
            }
        }
        pieces
    }

    /// The remaining piece at the end of the stream.
    fn end(&mut self) -> Option<Piece> {
        let bytes = std::mem::take(&mut self.rest);
        (!bytes.is_empty()).then_some(Piece { bytes, ends_line: true })
    }
}

/// The log file. Output that cannot be written is lost: a full disk must not stop the container.
#[derive(Debug)]
pub(super) struct Log {
    spec: LogSpec,
    file: Option<File>,
    bytes: u64,
    tail: VecDeque<Vec<u8>>,
}

impl Log {
    pub(super) fn open(spec: LogSpec) -> io::Result<Self> {
        let file = append(&spec.path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { spec, file: Some(file), bytes, tail: VecDeque::new() })
    }

    /// Writes the complete pieces of new data.
    pub(super) fn write(&mut self, stream: &mut Stream, bytes: &[u8]) {
        for piece in stream.take(bytes) {
            self.piece(stream.name, &piece, Timestamp::now());
        }
    }

    /// Writes the rest of a stream that has ended.
    pub(super) fn end(&mut self, stream: &mut Stream) {
        if let Some(piece) = stream.end() {
            self.piece(stream.name, &piece, Timestamp::now());
        }
    }

    /// The last lines, as a termination message.
    pub(super) fn tail(&self) -> String {
        let text: Vec<u8> =
            self.tail.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect();
        let from = text.len().saturating_sub(TAIL_BYTES_MAX);
        String::from_utf8_lossy(&text[from..]).into_owned()
    }

    fn piece(&mut self, stream: &str, piece: &Piece, now: Timestamp) {
        let mark = if piece.ends_line { 'F' } else { 'P' };
        let mut line = format!("{now:.9} {stream} {mark} ").into_bytes();
        line.extend_from_slice(&piece.bytes);
        line.push(b'\n');
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.spec.bytes_max {
            self.rotate();
        }
        // One write per line: a reader never sees half of one.
        if self.file.as_mut().is_some_and(|file| file.write_all(&line).is_ok()) {
            self.bytes += line.len() as u64;
        }
        let kept = piece.bytes.len().saturating_sub(TAIL_BYTES_MAX);
        self.tail.push_back(piece.bytes[kept..].to_vec());
        if self.tail.len() > TAIL_LINES_MAX {
            self.tail.pop_front();
        }
    }

    fn rotate(&mut self) {
        let mut old = self.spec.path.clone().into_os_string();
        old.push(".1");
        if fs::rename(&self.spec.path, PathBuf::from(old)).is_ok() {
            self.file = append(&self.spec.path).ok();
            self.bytes = 0;
        }
    }
}

fn append(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pieces: Vec<Piece>) -> Vec<(String, bool)> {
        let text = |piece: Piece| (String::from_utf8(piece.bytes).unwrap(), piece.ends_line);
        pieces.into_iter().map(text).collect()
    }

    #[test]
    fn lines_are_put_together_from_any_pieces() {
        let mut stream = Stream::new("stdout");
        assert_eq!(texts(stream.take(b"a")), []);
        assert_eq!(texts(stream.take(b"b\n\nc")), [("ab".into(), true), (String::new(), true)]);
        assert_eq!(stream.end().unwrap().bytes, b"c");
        assert_eq!(stream.end(), None);
    }

    #[test]
    fn a_long_line_comes_in_pieces() {
        let mut stream = Stream::new("stdout");
        let pieces = stream.take(&vec![b'x'; LINE_BYTES_MAX]);
        assert!(pieces.len() == 1 && !pieces[0].ends_line);
        assert_eq!(texts(stream.take(b"y\n")), [("y".into(), true)]);
    }

    fn log(dir: &tempfile::TempDir, bytes_max: u64) -> Log {
        Log::open(LogSpec { path: dir.path().join("0.log"), bytes_max }).unwrap()
    }

    #[test]
    fn lines_are_in_the_format_of_container_logs() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(&dir, 1000);
        let now: Timestamp = "2026-11-15T01:02:03.5Z".parse().unwrap();
        log.piece("stderr", &Piece { bytes: b"oh no".to_vec(), ends_line: true }, now);
        let text = fs::read_to_string(dir.path().join("0.log")).unwrap();
        assert_eq!(text, "2026-11-15T01:02:03.500000000Z stderr F oh no\n");
        assert_eq!(log.tail(), "oh no\n");
    }

    #[test]
    fn a_full_log_is_moved_and_a_third_one_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, mut stream) = (log(&dir, 100), Stream::new("stdout"));
        for number in 0..20 {
            log.write(&mut stream, format!("line {number} {}\n", "x".repeat(40)).as_bytes());
        }
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert_eq!(names.len(), 2);
        let text = fs::read_to_string(dir.path().join("0.log")).unwrap();
        assert!(text.contains("line 19") && text.len() <= 100, "{text}");
    }

    #[test]
    fn the_tail_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, mut stream) = (log(&dir, 1_000_000), Stream::new("stdout"));
        (0..200)
            .for_each(|_| log.write(&mut stream, b"0123456789012345678901234567890123456789\n"));
        log.write(&mut stream, b"the end\n");
        assert!(log.tail().len() <= TAIL_BYTES_MAX && log.tail().ends_with("the end\n"));
    }
}
