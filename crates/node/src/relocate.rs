//! Loads a second JMX exporter in the same JVM.
//!
//! All agents of a JVM share one class loader, and the exporter keeps its metrics in a static registry, so
//! the same jar cannot be loaded twice: the second one finds its names taken and exits the JVM. A copy with
//! its classes in another package has its own registry. The new package name is as long as the old one, so
//! that replacing bytes in place keeps class files valid.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// The package, as in class files and file names, and as in texts.
const PACKAGES: [(&[u8], &[u8]); 2] =
    [(b"io/prometheus/", b"io/gregor_jmx/"), (b"io.prometheus.", b"io.gregor_jmx.")];

/// Fast compression: the file is read once, and may be in memory.
const LEVEL: i64 = 1;

/// Why the jar could not be copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RelocateError {
    #[error("cannot read the agent's jar")]
    Read(#[source] io::Error),
    #[error("the agent's jar is damaged")]
    Jar(#[source] zip::result::ZipError),
    #[error("cannot write a copy of the agent's jar")]
    Write(#[source] io::Error),
    #[error("cannot assemble a copy of the agent's jar")]
    Pack(#[source] zip::result::ZipError),
}

/// Copies the exporter's jar with its classes in another package.
pub(crate) fn relocate(from: &Path, to: &Path) -> Result<(), RelocateError> {
    let file = File::open(from).map_err(RelocateError::Read)?;
    let mut jar = ZipArchive::new(file).map_err(RelocateError::Jar)?;
    let file = File::create(to).map_err(RelocateError::Write)?;
    let mut copy = ZipWriter::new(io::BufWriter::new(file));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(LEVEL));
    for index in 0..jar.len() {
        let mut entry = jar.by_index(index).map_err(RelocateError::Jar)?;
        if entry.is_dir() {
            continue;
        }
        let name = moved(entry.name_raw());
        let name = String::from_utf8_lossy(&name).into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(RelocateError::Read)?;
        copy.start_file(name, options).map_err(RelocateError::Pack)?;
        copy.write_all(&moved(&bytes)).map_err(RelocateError::Write)?;
    }
    let mut file = copy.finish().map_err(RelocateError::Pack)?;
    file.flush().map_err(RelocateError::Write)
}

/// Replaces the package name.
fn moved(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (from, to) in PACKAGES {
        let mut at = 0;
        while let Some(found) = find(&bytes[at..], from) {
            at += found;
            bytes[at..at + to.len()].copy_from_slice(to);
            at += to.len();
        }
    }
    bytes
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_same_files_in_another_package() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a.jar"), dir.path().join("b.jar"));
        let mut jar = ZipWriter::new(File::create(&from).unwrap());
        let options = SimpleFileOptions::default();
        jar.add_directory("io/prometheus/", options).unwrap();
        let class: &[u8] = b"\xca\xfe\0\x16io/prometheus/jmx/X\xffio/prometheus/io.prometheus.";
        let manifest: &[u8] = b"Premain-Class: io.prometheus.jmx.X\n";
        for (name, bytes) in
            [("io/prometheus/jmx/X.class", class), ("META-INF/MANIFEST.MF", manifest)]
        {
            jar.start_file(name, options).unwrap();
            jar.write_all(bytes).unwrap();
        }
        jar.finish().unwrap();
        relocate(&from, &to).unwrap();
        let mut copy = ZipArchive::new(File::open(&to).unwrap()).unwrap();
        let mut read = |name: &str| {
            let mut bytes = Vec::new();
            copy.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        };
        let expected = b"\xca\xfe\0\x16io/gregor_jmx/jmx/X\xffio/gregor_jmx/io.gregor_jmx.";
        assert_eq!(read("io/gregor_jmx/jmx/X.class"), expected);
        assert_eq!(read("META-INF/MANIFEST.MF"), b"Premain-Class: io.gregor_jmx.jmx.X\n");
        assert_eq!(copy.len(), 2);
    }

    #[test]
    fn both_packages_are_equally_long() {
        assert!(PACKAGES.iter().all(|(from, to)| from.len() == to.len()));
    }

    #[test]
    fn what_is_no_jar_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a.jar"), dir.path().join("b.jar"));
        assert!(matches!(relocate(&from, &to), Err(RelocateError::Read(_))));
        std::fs::write(&from, "no jar").unwrap();
        assert!(matches!(relocate(&from, &to), Err(RelocateError::Jar(_))));
    }
}
