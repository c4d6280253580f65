//! The list of a home's jars with their sizes and hashes, written when the home is assembled.
//!
//! Names and sizes are compared every time a home is used: that finds a disk that was full or a
//! cache that was cleaned by halves, in a millisecond. Hashes are compared only when asked for.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use aws_lc_rs::digest;

use crate::FetchError;

/// The manifest's name in a home.
pub(crate) const FILE: &str = "manifest";

/// Raised when a home of an older Gregor must be assembled again (a jar more in the pom).
const HEADER: &str = "gregor kafka home, layout 1";

/// The directories of a home that hold jars.
pub(crate) const JAR_DIRS: [&str; 2] = ["libs", "agents"];

/// The jars of a home, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest(Vec<Jar>);

/// One jar.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Jar {
    /// Relative to the home: `libs/kafka-clients-4.3.1.jar`.
    name: String,
    size_bytes: u64,
    sha256: String,
}

impl Manifest {
    /// Lists and hashes every jar there is. `Err(Damaged)` for one that is not a whole jar.
    pub(crate) fn of_home(root: &Path) -> Result<Self, FetchError> {
        let mut jars = Vec::new();
        for name in jar_names(root)? {
            let path = root.join(&name);
            let jar = read_jar(&path, name.clone()).map_err(FetchError::io("read", &path))?;
            let Some(jar) = jar else {
                let reason = format!("{name} is not a complete jar");
                return Err(FetchError::Damaged { root: root.to_owned(), reason });
            };
            jars.push(jar);
        }
        Ok(Self(jars))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The text of the file: a header, then `hash size name` a line.
    pub(crate) fn to_text(&self) -> String {
        let line = |jar: &Jar| format!("{} {} {}\n", jar.sha256, jar.size_bytes, jar.name);
        std::iter::once(format!("{HEADER}\n")).chain(self.0.iter().map(line)).collect()
    }

    /// Reads [`Manifest::to_text`] back; `None` for anything else, another layout too.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            return None;
        }
        let jar = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let sha256 = words.next()?.to_owned();
            let size_bytes = words.next()?.parse().ok()?;
            let name = words.next()?.to_owned();
            (sha256.len() == 64).then_some(Jar { name, size_bytes, sha256 })
        };
        lines.map(jar).collect::<Option<Vec<_>>>().filter(|jars| !jars.is_empty()).map(Self)
    }

    /// The first jar that is missing or has another size, in words.
    pub(crate) fn find_missing(&self, root: &Path) -> Option<String> {
        self.0.iter().find_map(|jar| match root.join(&jar.name).metadata() {
            Ok(meta) if meta.len() == jar.size_bytes => None,
            Ok(meta) => {
                let Jar { name, size_bytes, .. } = jar;
                Some(format!("{name} has {} bytes instead of {size_bytes}", meta.len()))
            }
            Err(_) => Some(format!("{} is missing", jar.name)),
        })
    }

    /// The first difference to what is there now, in words.
    pub(crate) fn find_difference(&self, now: &Manifest) -> Option<String> {
        let lost = self.0.iter().find(|jar| !now.0.contains(jar));
        let added = || now.0.iter().find(|jar| self.0.iter().all(|known| known.name != jar.name));
        match lost {
            Some(jar) => Some(format!("{} is not the jar that was fetched", jar.name)),
            None => added().map(|jar| format!("{} was not there when it was fetched", jar.name)),
        }
    }
}

/// The names of all jars of a home, sorted. A directory that is not there has none.
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

/// Hashes one jar; `None` if it is cut short. The content is also forced to the disk, so that a
/// home whose rename survives a power cut has its jars too.
fn read_jar(path: &Path, name: String) -> std::io::Result<Option<Jar>> {
    let mut file = File::open(path)?;
    if !is_complete_zip(&mut file)? {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(0))?;
    let mut context = digest::Context::new(&digest::SHA256);
    let mut buffer = vec![0; 1 << 16];
    let mut size_bytes = 0;
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        context.update(&buffer[..n]);
        size_bytes += n as u64;
    }
    file.sync_all()?;
    let sha256 = context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some(Jar { name, size_bytes, sha256 }))
}

/// Whether the zip's directory, which stands at the very end of the file, is all there. A download
/// that was cut short has lost it.
fn is_complete_zip(file: &mut File) -> std::io::Result<bool> {
    /// Size of the end record without its comment, and the longest comment.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest archive with one entry: an empty file called `a`.
    pub(crate) fn small_jar() -> Vec<u8> {
        let mut zip = Vec::new();
        let header =
            [20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        zip.extend(b"PK\x03\x04");
        zip.extend(header);
        zip.push(b'a');
        let offset = zip.len() as u32;
        zip.extend(b"PK\x01\x02");
        zip.extend([20, 0]);
        zip.extend(header);
        zip.extend([0; 14]);
        zip.push(b'a');
        let length = zip.len() as u32 - offset;
        zip.extend(b"PK\x05\x06");
        zip.extend([0, 0, 0, 0, 1, 0, 1, 0]);
        zip.extend(length.to_le_bytes());
        zip.extend(offset.to_le_bytes());
        zip.extend([0, 0]);
        zip
    }

    fn home(jars: &[(&str, &[u8])]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("libs")).unwrap();
        for (name, content) in jars {
            fs::write(home.path().join("libs").join(name), content).unwrap();
        }
        home
    }

    #[test]
    fn a_manifest_survives_its_file() {
        let home = home(&[("a.jar", &small_jar()), ("b c.jar", &small_jar()), ("LICENSE", b"x")]);
        let manifest = Manifest::of_home(home.path()).unwrap();
        assert_eq!(manifest.len(), 2);
        assert_eq!(Manifest::from_text(&manifest.to_text()), Some(manifest));
    }

    #[test]
    fn a_file_that_is_no_manifest_is_refused() {
        for text in
            ["", "gregor kafka home, layout 0\n", HEADER, "x\ny", &format!("{HEADER}\nab 1 c")]
        {
            assert_eq!(Manifest::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_jar_that_is_cut_anywhere_is_found() {
        let whole = small_jar();
        for length in 0..whole.len() {
            let home = home(&[("a.jar", &whole[..length])]);
            let error = Manifest::of_home(home.path()).unwrap_err();
            assert!(matches!(error, FetchError::Damaged { .. }), "{length}: {error}");
        }
    }

    #[test]
    fn a_comment_after_the_directory_is_allowed() {
        let mut jar = small_jar();
        let end = jar.len();
        jar[end - 2..].copy_from_slice(&3_u16.to_le_bytes());
        jar.extend(b"abc");
        assert!(Manifest::of_home(home(&[("a.jar", &jar)]).path()).is_ok());
    }

    #[test]
    fn the_hash_is_sha_256() {
        let home = home(&[("a.jar", &small_jar())]);
        let text = Manifest::of_home(home.path()).unwrap().to_text();
        let output = std::process::Command::new("sha256sum")
            .arg(home.path().join("libs/a.jar"))
            .output()
            .unwrap();
        let expected = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().nth(1).unwrap()[..64], expected[..64]);
    }

    #[test]
    fn sizes_are_compared_cheaply_and_hashes_on_demand() {
        let home = home(&[("a.jar", &small_jar()), ("b.jar", &small_jar())]);
        let manifest = Manifest::of_home(home.path()).unwrap();
        assert_eq!(manifest.find_missing(home.path()), None);

        let mut other = small_jar();
        other[10] ^= 1;
        fs::write(home.path().join("libs/a.jar"), other).unwrap();
        assert_eq!(manifest.find_missing(home.path()), None);
        let now = Manifest::of_home(home.path()).unwrap();
        let difference = manifest.find_difference(&now).unwrap();
        assert_eq!(difference, "libs/a.jar is not the jar that was fetched");

        fs::remove_file(home.path().join("libs/b.jar")).unwrap();
        assert_eq!(manifest.find_missing(home.path()).unwrap(), "libs/b.jar is missing");
        fs::write(home.path().join("libs/a.jar"), b"").unwrap();
        let missing = manifest.find_missing(home.path()).unwrap();
        assert!(missing.starts_with("libs/a.jar has 0 bytes instead of"), "{missing}");
    }
}
