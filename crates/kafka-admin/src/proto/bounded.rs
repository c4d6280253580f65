//! A buffer that does not believe lengths.
//!
//! The generated decoders reserve room for as many elements as an array's length claims before they
//! read the first one, so four bytes could ask for hundreds of gigabytes, and a refused allocation
//! aborts the process. In the flexible versions of the protocol every length is an unsigned varint,
//! and the decoders read varints byte by byte through [`Buf::try_get_u8`]: this buffer follows along
//! there and refuses a value that the bytes left could not back.
//!
//! Two rules, both checked on every varint:
//! 1. A length is at most the number of bytes left (each element takes at least one).
//! 2. All lengths of one message together are at most twice its bytes, since no byte is counted more
//!    than twice (once in a tagged field's size, once in what is inside). Without it, arrays nested
//!    in arrays could each claim all that is left.

use bytes::{Buf, Bytes, TryGetError};
use kafka_protocol::protocol::buf::ByteBuf;

/// Lengths are 32 bits wide: more than five bytes of seven bits are no length.
const VARINT_BYTES_MAX: u32 = 5;

/// Room in the budget for tag numbers and other small counts of a message that is almost empty.
const BUDGET_SLACK: u64 = 64;

#[derive(Debug)]
pub(super) struct Bounded {
    bytes: Bytes,
    budget: u64,
    varint: u64,
    varint_bytes: u32,
}

impl Bounded {
    pub(super) fn new(bytes: Bytes) -> Self {
        let budget = 2 * bytes.len() as u64 + BUDGET_SLACK;
        Self { bytes, budget, varint: 0, varint_bytes: 0 }
    }

    /// Follows a varint through its bytes. A boolean comes this way too: it is a varint of one byte.
    fn follow(&mut self, byte: u8) -> Result<(), TryGetError> {
        self.varint |= u64::from(byte & 0x7f) << (7 * self.varint_bytes);
        self.varint_bytes += 1;
        if byte & 0x80 != 0 && self.varint_bytes < VARINT_BYTES_MAX {
            return Ok(());
        }
        // A compact length is one more than the elements; zero is "no array".
        let elements = self.varint.saturating_sub(1);
        self.varint = 0;
        self.varint_bytes = 0;
        if elements > self.bytes.len() as u64 || elements > self.budget {
            let requested = usize::try_from(elements).unwrap_or(usize::MAX);
            return Err(TryGetError { requested, available: self.bytes.len() });
        }
        self.budget -= elements;
        Ok(())
    }
}

impl Buf for Bounded {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }
    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }
    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
    fn try_get_u8(&mut self) -> Result<u8, TryGetError> {
        let byte = self.bytes.try_get_u8()?;
        self.follow(byte)?;
        Ok(byte)
    }
}

impl ByteBuf for Bounded {
    fn peek_bytes(&mut self, range: std::ops::Range<usize>) -> Bytes {
        self.bytes.slice(range)
    }
    fn get_bytes(&mut self, size: usize) -> Bytes {
        self.bytes.split_to(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &'static [u8]) -> Result<(), TryGetError> {
        let mut buffer = Bounded::new(Bytes::from_static(bytes));
        while buffer.try_get_u8()? & 0x80 != 0 {}
        Ok(())
    }

    #[test]
    fn a_length_within_the_bytes_left_passes() {
        assert!(read(&[3, b'a', b'b']).is_ok());
        assert!(read(&[0]).is_ok());
        assert!(read(&[1]).is_ok());
    }

    #[test]
    fn a_length_beyond_the_bytes_left_is_refused() {
        assert!(read(&[4, b'a', b'b']).is_err());
        assert!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
        assert!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).is_err());
    }

    #[test]
    fn the_budget_of_all_lengths_together_is_bounded() {
        let mut bytes = vec![101_u8; 10];
        bytes.extend([0; 100]);
        let mut buffer = Bounded::new(Bytes::from(bytes));
        // 110 bytes back 284 elements in all: two claims of a hundred pass, the third does not.
        assert!(buffer.try_get_u8().is_ok());
        assert!(buffer.try_get_u8().is_ok());
        assert!(buffer.try_get_u8().is_err());
    }
}
