//! The file of a backup: a header in one line of JSON, and the encrypted content.
//!
//! 1. The key is derived from the password with PBKDF2; salt and nonce are random for every file.
//! 2. The header is authenticated with the content: an edited header or content is not decrypted.
//! 3. A file of a newer major format is refused before its password is used.

use std::io::{Read as _, Write as _};
use std::num::NonZeroU32;

use anyhow::{Context as _, anyhow, bail, ensure};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{pbkdf2, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

/// The form of the file. Other minor versions are read, other major versions are not.
const FORMAT: (u32, u32) = (1, 0);

/// Iterations of the key derivation: what OWASP recommends for PBKDF2-HMAC-SHA512 is 210,000.
const ITERATIONS: u32 = 600_000;

/// A header that asks for more would keep the reader busy for minutes.
const ITERATIONS_MAX: u32 = 10_000_000;

/// A shorter password is guessed too easily: the file may be stolen and tried at any speed.
pub(super) const PASSWORD_LENGTH_MIN: usize = 12;

/// A guard against files that unpack to more than the memory.
const CONTENT_BYTES_MAX: u64 = 1 << 30;

const HEADER_BYTES_MAX: usize = 4096;
const KEY_LEN: usize = 32;
const SALT_LEN: usize = 32;

/// What is readable without the password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    gregor_backup: String,
    /// Namespace and name of the Kafka.
    cluster: String,
    cipher: String,
    kdf: String,
    iterations: u32,
    salt: String,
    nonce: String,
}

const CIPHER: &str = "AES-256-GCM";
const KDF: &str = "PBKDF2-HMAC-SHA512";

/// Encrypts the content of a backup.
pub(super) fn seal(cluster: &str, password: &str, content: &[u8]) -> anyhow::Result<Vec<u8>> {
    let (mut salt, mut nonce) = ([0; SALT_LEN], [0; NONCE_LEN]);
    rand::fill(&mut salt).and_then(|()| rand::fill(&mut nonce)).map_err(|_| no_entropy())?;
    let header = Header {
        gregor_backup: format!("{}.{}", FORMAT.0, FORMAT.1),
        cluster: cluster.to_owned(),
        cipher: CIPHER.to_owned(),
        kdf: KDF.to_owned(),
        iterations: ITERATIONS,
        salt: STANDARD.encode(salt),
        nonce: STANDARD.encode(nonce),
    };
    let mut file = serde_json::to_vec(&header).context("cannot serialize the header")?;
    file.push(b'\n');
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(content).context("cannot compress the backup")?;
    let mut content = packed.finish().context("cannot compress the backup")?;
    let key = key(password, &salt, ITERATIONS)?;
    let nonce = Nonce::assume_unique_for_key(nonce);
    let sealed = key.seal_in_place_append_tag(nonce, Aad::from(&file), &mut content);
    sealed.map_err(|_| anyhow!("cannot encrypt the backup"))?;
    file.extend(content);
    Ok(file)
}

/// Decrypts a backup.
pub(super) fn open(file: &[u8], password: &str) -> anyhow::Result<Vec<u8>> {
    let end = file.iter().take(HEADER_BYTES_MAX).position(|byte| *byte == b'\n');
    let (header, content) = end.map(|end| file.split_at(end + 1)).context("not a backup")?;
    let read: Header = serde_json::from_slice(header).context("not a backup of gregor")?;
    let major = read.gregor_backup.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let major = major.context("the backup has no format version")?;
    ensure!(
        major <= FORMAT.0,
        "the backup has the format {}, and this gregor reads {}.{}: use a newer gregor",
        read.gregor_backup,
        FORMAT.0,
        FORMAT.1
    );
    ensure!(read.cipher == CIPHER && read.kdf == KDF, "the backup has an unknown encryption");
    let iterations = read.iterations;
    ensure!((1..=ITERATIONS_MAX).contains(&iterations), "the header of the backup is not valid");
    let salt = STANDARD.decode(&read.salt).context("the header of the backup is not valid")?;
    let nonce = STANDARD.decode(&read.nonce).context("the header of the backup is not valid")?;
    let nonce = Nonce::try_assume_unique_for_key(&nonce);
    let nonce = nonce.map_err(|_| anyhow!("the header of the backup is not valid"))?;
    let key = key(password, &salt, iterations)?;
    let mut content = content.to_vec();
    let plain = key.open_in_place(nonce, Aad::from(header), &mut content);
    let plain = plain.map_err(|_| {
        anyhow!("cannot decrypt the backup: the password is wrong, or the file is damaged")
    })?;
    let mut bytes = Vec::new();
    let unpacked = GzDecoder::new(&*plain).take(CONTENT_BYTES_MAX).read_to_end(&mut bytes);
    unpacked.context("cannot decompress the backup")?;
    Ok(bytes)
}

fn key(password: &str, salt: &[u8], iterations: u32) -> anyhow::Result<LessSafeKey> {
    let iterations = NonZeroU32::new(iterations).context("no iterations")?;
    let mut key = [0; KEY_LEN];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA512, iterations, salt, password.as_bytes(), &mut key);
    let key = UnboundKey::new(&AES_256_GCM, &key);
    Ok(LessSafeKey::new(key.map_err(|_| anyhow!("cannot create the key of the backup"))?))
}

fn no_entropy() -> anyhow::Error {
    anyhow!("no random numbers are available")
}

/// The password in the first line of a file.
pub(super) fn password(text: &str) -> anyhow::Result<String> {
    let password = text.lines().next().unwrap_or_default();
    if password.chars().count() < PASSWORD_LENGTH_MIN {
        bail!("the password has fewer than {PASSWORD_LENGTH_MIN} characters");
    }
    Ok(password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWORD: &str = "correct horse battery";

    #[test]
    fn a_backup_is_read_with_its_password_only() {
        let sealed = seal("kafka/my-cluster", PASSWORD, b"the secret content").unwrap();
        assert_eq!(open(&sealed, PASSWORD).unwrap(), b"the secret content");
        let text = String::from_utf8_lossy(&sealed);
        assert!(
            text.starts_with(r#"{"gregorBackup":"1.0","cluster":"kafka/my-cluster""#),
            "{text}"
        );
        assert!(!text.contains("secret content"));
        let wrong = open(&sealed, "correct horse batterz").unwrap_err();
        assert!(wrong.to_string().contains("password is wrong"), "{wrong}");
        let again = seal("kafka/my-cluster", PASSWORD, b"the secret content").unwrap();
        assert_ne!(again, sealed, "salt and nonce are random");
    }

    #[test]
    fn an_edited_file_is_not_read() {
        let sealed = seal("kafka/my-cluster", PASSWORD, b"content").unwrap();
        let header = sealed.iter().position(|byte| *byte == b'\n').unwrap();
        let mut content = sealed.clone();
        *content.last_mut().unwrap() ^= 1;
        assert!(open(&content, PASSWORD).unwrap_err().to_string().contains("damaged"));
        let text = String::from_utf8(sealed[..header].to_vec()).unwrap();
        let with = |from: &str, to: &str| {
            assert!(text.contains(from));
            let mut file = text.replace(from, to).into_bytes();
            file.extend(&sealed[header..]);
            open(&file, PASSWORD).unwrap_err().to_string()
        };
        assert!(with("my-cluster", "my-cluster2").contains("damaged"), "the header counts");
        assert!(with(r#""1.0""#, r#""2.0""#).contains("use a newer gregor"));
        assert!(with(r#""1.0""#, r#""1.7""#).contains("damaged"), "minor versions are read");
        assert!(with("600000", "4000000000").contains("not valid"));
        assert!(with("600000", "0").contains("not valid"));
        assert!(with(CIPHER, "ROT13").contains("unknown encryption"));
        assert!(open(&sealed[..header], PASSWORD).is_err());
        assert!(open(b"PK\x03\x04", PASSWORD).unwrap_err().to_string().contains("not a backup"));
        assert!(open(&[b'x'; 10_000], PASSWORD).unwrap_err().to_string().contains("not a backup"));
    }

    #[test]
    fn a_password_is_the_first_line_and_not_short() {
        assert_eq!(password("twelve chars\n").unwrap(), "twelve chars");
        assert_eq!(password("with a second line\nignored").unwrap(), "with a second line");
        for short in ["", "\n", "elevenchars", "short\nand a long second line"] {
            assert!(password(short).is_err(), "{short:?}");
        }
    }
}
