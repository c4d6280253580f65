//! The archive: a zip file.

use std::io::{Cursor, Read as _, Write as _};

use anyhow::Context as _;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// The snapshot in the archive.
pub(super) const SNAPSHOT: &str = "snapshot.json";

/// What every archive begins with.
const MAGIC: &[u8] = b"PK\x03\x04";

/// No snapshot is larger: a guard against archives that unpack to more than the memory.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;

/// Packs files.
pub(super) fn pack(files: &[(String, Vec<u8>)]) -> anyhow::Result<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, bytes) in files {
        archive.start_file(name.as_str(), options).context("cannot write the archive")?;
        archive.write_all(bytes).context("cannot write the archive")?;
    }
    Ok(archive.finish().context("cannot write the archive")?.into_inner())
}

/// The snapshot in a report. `None` if the file is no archive.
pub(crate) fn snapshot(file: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
    if !file.starts_with(MAGIC) {
        return Ok(None);
    }
    let mut archive = ZipArchive::new(Cursor::new(file)).context("cannot read the archive")?;
    let entry = archive.by_name(SNAPSHOT).context("the archive has no snapshot")?;
    let mut bytes = Vec::new();
    let read = entry.take(SNAPSHOT_BYTES_MAX).read_to_end(&mut bytes);
    read.context("cannot read the snapshot in the archive")?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snapshot_is_found_in_an_archive_and_other_files_are_none() {
        let file = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
        let packed = pack(&[file("logs/a.log", "x"), file(SNAPSHOT, "{}")]).unwrap();
        assert_eq!(snapshot(&packed).unwrap().unwrap(), b"{}");
        assert!(snapshot(b"{ \"format\": 1 }").unwrap().is_none());
        let without = pack(&[file("logs/a.log", "x")]).unwrap();
        assert!(snapshot(&without).unwrap_err().to_string().contains("has no snapshot"));
        assert!(snapshot(&packed[..packed.len() / 2]).is_err());
    }
}
