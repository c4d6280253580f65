//! The jars of a Kafka home.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::FetchError;
use crate::manifest::Layout;

/// A Kafka home. The number is increased when homes of an older Gregor must be assembled again (such as for
/// another jar in the pom).
pub(crate) const LAYOUT: Layout = Layout {
    header: "gregor kafka home, layout 1",
    noun: "jar",
    names: jar_names,
    is_whole: is_complete_zip,
};

/// The directories with jars.
const JAR_DIRS: [&str; 2] = ["libs", "agents"];

/// The names of all jars, sorted. A missing directory has none.
pub(crate) fn jar_names(root: &Path) -> Result<Vec<String>, FetchError> {
    let mut names = Vec::new();
    for dir in JAR_DIRS {
        let path = root.join(dir);
        if !path.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&path).map_err(FetchError::io("read", &path))? {
            let name = entry.map_err(FetchError::io("read", &path))?.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(".jar") {
                names.push(format!("{dir}/{name}"));
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Whether the zip's central directory, at the end of the file, is complete. A truncated download has lost
/// it.
fn is_complete_zip(file: &mut File) -> std::io::Result<bool> {
    /// Size of the end record without its comment, and the maximum comment length.
    const END_BYTES: usize = 22;
    const COMMENT_BYTES_MAX: u64 = 0xffff;
    let size = file.metadata()?.len();
    let tail_from = size.saturating_sub(END_BYTES as u64 + COMMENT_BYTES_MAX);
    file.seek(SeekFrom::Start(tail_from))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let number = |at: usize, bytes: usize| {
        tail[at..at + bytes].iter().rev().fold(0_u64, |n, byte| n << 8 | u64::from(*byte))
    };
    let Some(last) = tail.len().checked_sub(END_BYTES) else { return Ok(false) };
    let is_end = |at: &usize| {
        tail[*at..].starts_with(b"PK\x05\x06")
            && at + END_BYTES + usize::try_from(number(at + 20, 2)).unwrap_or(0) == tail.len()
    };
    let Some(end) = (0..=last).rev().find(is_end) else { return Ok(false) };
    let (entries, length, offset) = (number(end + 10, 2), number(end + 12, 4), number(end + 16, 4));
    if entries == 0 || offset + length > tail_from + end as u64 {
        return Ok(false);
    }
    let mut signature = [0; 4];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut signature)?;
    Ok(signature == *b"PK\x01\x02")
}
