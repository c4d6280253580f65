//! Reads the output of another program.

use std::io::{BufRead as _, BufReader, Read};

/// All lines of a text stream; invalid UTF-8 is replaced.
pub(crate) fn read_lines(stream: impl Read, mut each: impl FnMut(&str)) -> Vec<String> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
        let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        each(&line);
        lines.push(line);
        bytes.clear();
    }
    lines
}
