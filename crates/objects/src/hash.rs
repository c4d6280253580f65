//! Short hashes of texts, to detect changes. Not for secrets that could be guessed.

use aws_lc_rs::digest;

/// Eight hexadecimal digits of the SHA-256 of the bytes.
#[must_use]
pub fn short(bytes: &[u8]) -> String {
    hex(&digest::digest(&digest::SHA256, bytes).as_ref()[..4])
}

/// The whole SHA-256 of the bytes, in hexadecimal digits.
#[must_use]
pub fn long(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
