//! Frames: a length of four bytes, then that many bytes.

use bytes::{Buf, Bytes, BytesMut};

/// What is wrong with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A length that no answer to what was asked has. Bytes of another protocol (TLS, HTTP) read as
    /// such a length.
    #[error(
        "a frame of {length} bytes where at most {limit} are accepted; is the port one of Kafka's, \
         and is it TLS exactly if the client is set to TLS?"
    )]
    TooLong {
        /// The length that was claimed.
        length: u32,
        /// The most that was acceptable at this point.
        limit: usize,
    },
}

/// Collects bytes and gives them back as frames. It holds what has arrived and reserves nothing for
/// what was only announced.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: BytesMut,
}

impl Inbox {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame, without its length.
    pub(super) fn next(&mut self, limit: usize) -> Result<Option<Bytes>, FrameError> {
        let Some(length) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        // Kafka's length is signed; a negative one is among those that are too long.
        let length = u32::from_be_bytes(*length);
        let size = usize::try_from(length).unwrap_or(usize::MAX);
        if size > limit {
            return Err(FrameError::TooLong { length, limit });
        }
        if self.bytes.len() < 4 + size {
            return Ok(None);
        }
        self.bytes.advance(4);
        Ok(Some(self.bytes.split_to(size).freeze()))
    }
}
