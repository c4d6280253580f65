//! Reads a log file, optionally from its tail, and follows it across rotations.
//!
//! Files are read on the async thread: their content was just written, so it is in the page cache.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::time::Duration;

use super::logs::{LogQuery, Printer};

/// Short enough to be unnoticeable, long enough that an idle follower costs nothing.
const PAUSE: Duration = Duration::from_millis(200);

const BLOCK_BYTES: usize = 64 * 1024;

/// Limits memory for a damaged file without newlines.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// A reader of one log.
pub(super) struct Reader<F> {
    path: PathBuf,
    file: Option<File>,
    /// An incomplete line.
    rest: Vec<u8>,
    printer: Printer,
    follow: bool,
    /// Whether the container still writes.
    goes_on: F,
}

impl<F: Fn() -> bool> Reader<F> {
    /// A missing log is empty: the container may not have started to write.
    pub(super) fn open(path: PathBuf, query: LogQuery, goes_on: F) -> io::Result<Self> {
        let mut file = open(&path)?;
        if let (Some(file), Some(lines)) = (&mut file, query.tail_lines) {
            let start = tail(file, lines)?;
            file.seek(SeekFrom::Start(start))?;
        }
        let follow = query.follow;
        let printer = Printer::new(query);
        Ok(Self { path, file, rest: Vec::new(), printer, follow, goes_on })
    }

    /// The next part, or `None` at the end. Waits for it if the log is followed.
    pub(super) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if self.printer.is_full() {
                return Ok(None);
            }
            // Checked before reading, so that everything written before the end is read.
            let goes_on = self.follow && (self.goes_on)();
            let mut out = Vec::new();
            let found = self.read(&mut out)?;
            if !out.is_empty() {
                return Ok(Some(out));
            }
            if found || self.turn()? {
                continue;
            }
            if !goes_on {
                return Ok(None);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Reads one block. Returns whether there was any data.
    fn read(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        let Some(file) = &mut self.file else { return Ok(false) };
        let mut block = vec![0; BLOCK_BYTES];
        let length = file.read(&mut block)?;
        for piece in block[..length].split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(piece);
            if self.rest.last() == Some(&b'\n') {
                self.rest.pop();
                self.printer.print(&self.rest, out);
                self.rest.clear();
                if self.printer.is_full() {
                    break;
                }
            } else if self.rest.len() > LINE_BYTES_MAX {
                self.rest.clear();
            }
        }
        Ok(length > 0)
    }

    /// Continues with the file that replaced one that was read to its end. Returns whether there may be more
    /// to read.
    fn turn(&mut self) -> io::Result<bool> {
        if !self.follow {
            return Ok(false);
        }
        let now = match fs::metadata(&self.path) {
            Ok(metadata) => metadata.ino(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let Some(file) = &mut self.file else {
            self.file = open(&self.path)?;
            return Ok(true);
        };
        if file.metadata()?.ino() == now {
            return Ok(false);
        }
        // Written between our last read and the rotation.
        if file.stream_position()? < file.metadata()?.len() {
            return Ok(true);
        }
        self.file = open(&self.path)?;
        Ok(true)
    }
}

fn open(path: &PathBuf) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Offset of the last lines of a file. Counts lines of the file, as the kubelet does: each piece of a very
/// long line counts.
fn tail(file: &File, lines: u64) -> io::Result<u64> {
    let end = file.metadata()?.len();
    if lines == 0 {
        return Ok(end);
    }
    let (mut position, mut found) = (end, 0);
    let mut block = vec![0; BLOCK_BYTES];
    while position > 0 {
        let length = position.min(BLOCK_BYTES as u64);
        position -= length;
        let part = &mut block[..usize::try_from(length).unwrap_or(BLOCK_BYTES)];
        file.read_exact_at(part, position)?;
        for (index, _) in part.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let after = position + index as u64 + 1;
            // The newline of the last line does not start a line.
            if after < end {
                found += 1;
                if found == lines {
                    return Ok(after);
                }
            }
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn line(text: &str) -> String {
        format!("2026-11-15T09:00:00.000000000Z stdout F {text}\n")
    }

    fn query(text: &str) -> LogQuery {
        LogQuery::parse(text, Timestamp::UNIX_EPOCH).unwrap()
    }

    async fn all<F: Fn() -> bool>(mut reader: Reader<F>) -> String {
        let mut found = Vec::new();
        while let Some(part) = reader.next().await.unwrap() {
            found.extend(part);
        }
        String::from_utf8(found).unwrap()
    }

    #[tokio::test]
    async fn the_last_lines_are_found_at_any_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        // Longer than a block, so that the search crosses block boundaries.
        let count = 5000;
        let text: String = (0..count).map(|number| line(&number.to_string())).collect();
        assert!(text.len() > 3 * BLOCK_BYTES);
        fs::write(&path, &text).unwrap();
        for lines in [0, 1, 2, 1000, 4999, 5000, 6000] {
            let reader = Reader::open(path.clone(), query(&format!("tailLines={lines}")), || false);
            let found = all(reader.unwrap()).await;
            let expected: Vec<String> =
                (count - lines.min(count)..count).map(|number| number.to_string()).collect();
            assert_eq!(found.lines().collect::<Vec<_>>(), expected, "{lines}");
        }
    }

    #[tokio::test]
    async fn a_log_that_is_not_there_is_empty() {
        let path = tempfile::tempdir().unwrap().path().join("0.log");
        assert_eq!(all(Reader::open(path, query(""), || false).unwrap()).await, "");
    }

    #[tokio::test]
    async fn a_log_is_followed_over_rotations_until_the_container_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let running = Arc::new(AtomicBool::new(true));
        let (state, log) = (running.clone(), path.clone());
        let reader = Reader::open(path, query("follow=true"), move || state.load(Ordering::SeqCst));
        let reading = tokio::spawn(all(reader.unwrap()));
        tokio::spawn(async move {
            let append = |text: &str| {
                let mut file = File::options().append(true).create(true).open(&log).unwrap();
                file.write_all(line(text).as_bytes()).unwrap();
            };
            for round in 0..3 {
                append(&format!("{round}a"));
                tokio::time::sleep(Duration::from_millis(300)).await;
                append(&format!("{round}b"));
                fs::rename(&log, dir.path().join("0.log.1")).unwrap();
                append(&format!("{round}c"));
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            append("last");
            running.store(false, Ordering::SeqCst);
            dir
        })
        .await
        .unwrap();
        assert_eq!(reading.await.unwrap(), "0a\n0b\n0c\n1a\n1b\n1c\n2a\n2b\n2c\nlast\n");
    }
}
