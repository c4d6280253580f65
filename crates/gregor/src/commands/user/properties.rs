//! The properties file of a Java client. It holds keys, so only its owner may read it.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use host::file::{self, Survives};

use super::listener::Entrance;

/// What a client shows.
#[derive(Clone, Copy)]
pub(super) enum Shown<'a> {
    /// A certificate and its key, in PEM.
    Certificate { chain: &'a str, key: &'a str },
    /// The login of a user with a password.
    Login(&'a str),
}

/// The text of the file. `trusted` is in PEM.
pub(super) fn text(entrance: &Entrance, trusted: &str, shown: Shown<'_>) -> String {
    let mut lines = vec![("bootstrap.servers", entrance.bootstrap.as_str())];
    let protocol = match (shown, entrance.tls) {
        (Shown::Certificate { .. }, _) => "SSL",
        (Shown::Login(_), true) => "SASL_SSL",
        (Shown::Login(_), false) => "SASL_PLAINTEXT",
    };
    lines.push(("security.protocol", protocol));
    if let Shown::Login(jaas) = shown {
        lines.push(("sasl.mechanism", "SCRAM-SHA-512"));
        lines.push(("sasl.jaas.config", jaas));
    }
    if entrance.tls {
        lines.push(("ssl.truststore.type", "PEM"));
        lines.push(("ssl.truststore.certificates", trusted));
    }
    if let Shown::Certificate { chain, key } = shown {
        lines.push(("ssl.keystore.type", "PEM"));
        lines.push(("ssl.keystore.certificate.chain", chain));
        lines.push(("ssl.keystore.key", key));
    }
    lines.into_iter().map(|(name, value)| format!("{name}={}\n", escaped(value))).collect()
}

/// A value over as many lines as it has, as properties files have it. White space at the end of the value is
/// not part of it.
fn escaped(value: &str) -> String {
    let lines: Vec<_> = value.trim_end().split('\n').map(escaped_line).collect();
    lines.join("\\n\\\n")
}

/// Java drops white space at the beginning of a line, and reads the file as ISO-8859-1.
fn escaped_line(line: &str) -> String {
    let rendered = control::cluster::properties::render(&[(String::new(), line.to_owned())]);
    // Without the name, which is empty, and the end of the line.
    rendered[1..].trim_end_matches('\n').to_owned()
}

/// A file that was made before anything else is done, so that what is made then has a place to go.
pub(super) struct Reserved {
    path: PathBuf,
    /// Whether it was empty before us.
    is_new: bool,
}

impl Reserved {
    /// Makes the file, for its owner only. One that is there is kept unless `force` is given.
    pub(super) fn new(path: &Path, force: bool) -> anyhow::Result<Self> {
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        match made {
            Ok(_) => Ok(Self { path: path.to_owned(), is_new: true }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && force => {
                Ok(Self { path: path.to_owned(), is_new: false })
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("{} exists: name another file with --out, or use --force", path.display())
            }
            Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
        }
    }

    /// Fills the file, in one step.
    pub(super) fn fill(&self, text: &str) -> anyhow::Result<()> {
        file::write(&self.path, text.as_bytes(), file::PRIVATE, Survives::Machine)
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Takes back a file that got nothing.
    pub(super) fn give_up(&self) {
        if self.is_new {
            // What is left is an empty file, which is harmless.
            let _ = fs::remove_file(&self.path);
        }
    }
}

// The reader is that of the crate which writes the properties of nodes.
#[cfg(test)]
#[path = "../../../../control/src/cluster/properties/java.rs"]
mod java;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn java_reads_what_was_meant(
            bootstrap in any::<String>(),
            trusted in "[ \\t\\PC\\n\\r\\\\=:#!\\u{0}\\u{2028}]{0,40}",
            jaas in "[ \\t\\PC\\n\\r\\\\=:#!\\u{0}\\u{2028}]{0,40}",
        ) {
            let entrance = Entrance { bootstrap: bootstrap.clone(), ..entrance(true) };
            let text = text(&entrance, &trusted, Shown::Login(&jaas));
            prop_assert!(text.is_ascii());
            let expected = [
                ("bootstrap.servers", bootstrap.trim_end()),
                ("security.protocol", "SASL_SSL"),
                ("sasl.mechanism", "SCRAM-SHA-512"),
                ("sasl.jaas.config", jaas.trim_end()),
                ("ssl.truststore.type", "PEM"),
                ("ssl.truststore.certificates", trusted.trim_end()),
            ];
            let found = java::read(&text);
            let found: Vec<_> = found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            prop_assert_eq!(found, expected);
        }
    }

    fn entrance(tls: bool) -> Entrance {
        Entrance {
            name: "l".to_owned(),
            bootstrap: "h:1,i:2".to_owned(),
            tls,
            certificates: Vec::new(),
            own_certificate: false,
        }
    }

    #[test]
    fn a_certificate_is_written_over_lines() {
        let shown = Shown::Certificate { chain: "C1\nC2\n", key: "K\n" };
        let expected = "bootstrap.servers=h:1,i:2\nsecurity.protocol=SSL\n\
            ssl.truststore.type=PEM\nssl.truststore.certificates=T1\\n\\\nT2\n\
            ssl.keystore.type=PEM\nssl.keystore.certificate.chain=C1\\n\\\nC2\n\
            ssl.keystore.key=K\n";
        assert_eq!(text(&entrance(true), "T1\nT2\n", shown), expected);
    }

    #[test]
    fn a_login_needs_trust_only_where_there_is_tls() {
        let expected = "bootstrap.servers=h:1,i:2\nsecurity.protocol=SASL_PLAINTEXT\n\
            sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=a \"b\\\\c\";\n";
        assert_eq!(text(&entrance(false), "T\n", Shown::Login("a \"b\\c\";")), expected);
        let encrypted = text(&entrance(true), "T\n", Shown::Login("x"));
        assert!(encrypted.contains("security.protocol=SASL_SSL\n"), "{encrypted}");
        assert!(encrypted.contains("ssl.truststore.certificates=T\n"), "{encrypted}");
        assert!(!encrypted.contains("keystore"), "{encrypted}");
    }

    #[test]
    fn only_the_owner_reads_the_file_and_none_is_overwritten_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("u.properties");
        let reserved = Reserved::new(&path, false).unwrap();
        reserved.fill("one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let error = Reserved::new(&path, false).err().unwrap().to_string();
        assert!(error.contains("exists: name another file with --out, or use --force"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let again = Reserved::new(&path, true).unwrap();
        again.give_up();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        again.fill("two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let other = dir.path().join("v");
        Reserved::new(&other, false).unwrap().give_up();
        assert!(!other.exists());
    }
}
