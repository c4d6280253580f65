//! The manifest of a cache directory: its files with sizes and hashes, written when it is assembled.
//!
//! Names and sizes are compared on every use, which detects a full disk or a half-cleaned cache within a
//! millisecond. Hashes are compared only on request.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use aws_lc_rs::digest;

use crate::FetchError;

/// The manifest's name in a directory.
pub(crate) const FILE: &str = "manifest";

/// Content of one kind of cache directory.
pub(crate) struct Layout {
    /// The first line of its manifests; another header means another layout.
    pub(crate) header: &'static str,
    /// The noun for one of its files, for messages.
    pub(crate) noun: &'static str,
    /// The names of the files, relative to the directory, sorted.
    pub(crate) names: fn(&Path) -> Result<Vec<String>, FetchError>,
    /// Whether a file is complete, as far as the file itself shows.
    pub(crate) is_whole: fn(&mut File) -> io::Result<bool>,
}

/// The files of a directory, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest(Vec<Entry>);

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// Relative to the directory: `libs/kafka-clients-4.3.1.jar`.
    name: String,
    size_bytes: u64,
    sha256: String,
}

impl Manifest {
    /// Lists and hashes all files. `Err(Damaged)` if one is incomplete.
    pub(crate) fn of(root: &Path, layout: &Layout) -> Result<Self, FetchError> {
        let mut entries = Vec::new();
        for name in (layout.names)(root)? {
            let path = root.join(&name);
            let entry = read(&path, &name, layout).map_err(FetchError::io("read", &path))?;
            let Some(entry) = entry else {
                let reason = format!("{name} is not a complete {}", layout.noun);
                return Err(FetchError::Damaged { root: root.to_owned(), reason });
            };
            entries.push(entry);
        }
        Ok(Self(entries))
    }

    /// The manifest of a directory, if it has one of this layout.
    pub(crate) fn stored(root: &Path, layout: &Layout) -> Option<Self> {
        Self::from_text(&std::fs::read_to_string(root.join(FILE)).ok()?, layout)
    }

    /// Names and SHA-256 checksums, sorted by name.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|one| (one.name.as_str(), one.sha256.as_str()))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The file content: a header, then `hash size name` per line.
    pub(crate) fn to_text(&self, layout: &Layout) -> String {
        let line = |one: &Entry| format!("{} {} {}\n", one.sha256, one.size_bytes, one.name);
        std::iter::once(format!("{}\n", layout.header)).chain(self.0.iter().map(line)).collect()
    }

    /// Parses [`Manifest::to_text`]; `None` for anything else, including another layout.
    pub(crate) fn from_text(text: &str, layout: &Layout) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next() != Some(layout.header) {
            return None;
        }
        let entry = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let sha256 = words.next()?.to_owned();
            let size_bytes = words.next()?.parse().ok()?;
            let name = words.next()?.to_owned();
            (sha256.len() == 64).then_some(Entry { name, size_bytes, sha256 })
        };
        lines.map(entry).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty()).map(Self)
    }

    /// The first file that is missing or has another size.
    pub(crate) fn find_missing(&self, root: &Path) -> Option<String> {
        self.0.iter().find_map(|one| match root.join(&one.name).metadata() {
            Ok(meta) if meta.len() == one.size_bytes => None,
            Ok(meta) => {
                let Entry { name, size_bytes, .. } = one;
                Some(format!("{name} has {} bytes instead of {size_bytes}", meta.len()))
            }
            Err(_) => Some(format!("{} is missing", one.name)),
        })
    }

    /// The first difference to the current content.
    pub(crate) fn find_difference(&self, now: &Manifest, noun: &str) -> Option<String> {
        let lost = self.0.iter().find(|one| !now.0.contains(one));
        let added = || now.0.iter().find(|one| self.0.iter().all(|known| known.name != one.name));
        match lost {
            Some(one) => Some(format!("{} is not the {noun} that was downloaded", one.name)),
            None => added().map(|one| format!("{} was not part of the download", one.name)),
        }
    }
}

/// What is wrong with a cache directory, by names and sizes.
pub(crate) fn find_damage(root: &Path, layout: &Layout) -> Option<String> {
    match Manifest::stored(root, layout) {
        Some(manifest) => manifest.find_missing(root),
        None => Some("it has no manifest of this layout".to_owned()),
    }
}

/// Reads all files and compares them with the manifest.
pub(crate) fn verify(root: &Path, layout: &Layout) -> Result<(), FetchError> {
    let now = Manifest::of(root, layout)?;
    let difference = match Manifest::stored(root, layout) {
        Some(known) => known.find_difference(&now, layout.noun),
        None => Some("its manifest cannot be read".to_owned()),
    };
    match difference {
        None => Ok(()),
        Some(reason) => Err(FetchError::Damaged { root: root.to_owned(), reason }),
    }
}

/// Hashes one file; `None` if it is incomplete. The file is also synced to disk, so that a directory whose
/// rename survives a power failure has its files too.
fn read(path: &Path, name: &str, layout: &Layout) -> io::Result<Option<Entry>> {
    let mut file = File::open(path)?;
    if !(layout.is_whole)(&mut file)? {
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
    Ok(Some(Entry { name: name.to_owned(), size_bytes, sha256 }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jars::LAYOUT;
    use std::fs;

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
        let manifest = Manifest::of(home.path(), &LAYOUT).unwrap();
        assert_eq!(manifest.len(), 2);
        assert_eq!(Manifest::from_text(&manifest.to_text(&LAYOUT), &LAYOUT), Some(manifest));
    }

    #[test]
    fn a_file_that_is_no_manifest_is_refused() {
        for text in [
            "",
            "gregor kafka home, layout 0\n",
            LAYOUT.header,
            "x\ny",
            &format!("{}\nab 1 c", LAYOUT.header),
        ] {
            assert_eq!(Manifest::from_text(text, &LAYOUT), None, "{text}");
        }
    }

    #[test]
    fn a_jar_that_is_cut_anywhere_is_found() {
        let whole = small_jar();
        for length in 0..whole.len() {
            let home = home(&[("a.jar", &whole[..length])]);
            let error = Manifest::of(home.path(), &LAYOUT).unwrap_err();
            assert!(matches!(error, FetchError::Damaged { .. }), "{length}: {error}");
        }
    }

    #[test]
    fn a_comment_after_the_directory_is_allowed() {
        let mut jar = small_jar();
        let end = jar.len();
        jar[end - 2..].copy_from_slice(&3_u16.to_le_bytes());
        jar.extend(b"abc");
        assert!(Manifest::of(home(&[("a.jar", &jar)]).path(), &LAYOUT).is_ok());
    }

    #[test]
    fn the_hash_is_sha_256() {
        let home = home(&[("a.jar", &small_jar())]);
        let text = Manifest::of(home.path(), &LAYOUT).unwrap().to_text(&LAYOUT);
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
        let manifest = Manifest::of(home.path(), &LAYOUT).unwrap();
        assert_eq!(manifest.find_missing(home.path()), None);

        let mut other = small_jar();
        other[10] ^= 1;
        fs::write(home.path().join("libs/a.jar"), other).unwrap();
        assert_eq!(manifest.find_missing(home.path()), None);
        let now = Manifest::of(home.path(), &LAYOUT).unwrap();
        let difference = manifest.find_difference(&now, "jar").unwrap();
        assert_eq!(difference, "libs/a.jar is not the jar that was downloaded");

        fs::remove_file(home.path().join("libs/b.jar")).unwrap();
        assert_eq!(manifest.find_missing(home.path()).unwrap(), "libs/b.jar is missing");
        fs::write(home.path().join("libs/a.jar"), b"").unwrap();
        let missing = manifest.find_missing(home.path()).unwrap();
        assert!(missing.starts_with("libs/a.jar has 0 bytes instead of"), "{missing}");
    }
}
