//! A buffer that does not believe lengths.
//!
//! The generated decoders reserve room for as many elements as an array's length claims before they
//! read the first one, so four bytes could ask for hundreds of gigabytes, and a refused allocation
//! aborts the process. In the flexible versions of the protocol every length is an unsigned varint,
//! and the decoders read varints byte by byte through [`Buf::try_get_u8`]: this buffer follows along
//! there and refuses what the bytes left could not back. What a length is for shows only in what is
//! read next: a text's bytes are taken at once, and so are those of a tagged field that the decoder
//! does not know.
//!
//! The rules, checked on every varint:
//! 1. A length is at most the number of bytes left. (Up to [`TAG_MAX`] it may be a tag instead.)
//! 2. Nor is it more than a quarter of them, unless it may be the length of a text: the elements of
//!    arrays in Kafka's answers have four bytes or more, and texts are limited.
//! 3. All arrays of a message together have at most a quarter as many elements as it has bytes, and
//!    [`ELEMENTS_FREE`] more. Else arrays nested in arrays could each claim all that is left. One
//!    claim beyond it passes, since it may be a text's; if it was not, the next one is refused.
//! 4. Tagged fields that the decoder does not know are kept in a map of their own for each struct,
//!    which takes more memory than anything else here: they are at most one in 16 bytes, and
//!    [`UNKNOWN_TAGS_FREE`] more.
//!
//! A boolean is read like a varint and cannot be told from one. Those of Kafka are 0 or 1. From a
//! liar's, with the highest bit set, a varint is followed from too early on: its value then comes out
//! larger than it is, never smaller, and one that would need a sixth byte is refused.

use bytes::{Buf, Bytes, TryGetError};
use kafka_protocol::protocol::buf::{ByteBuf, NotEnoughBytesError};

/// Lengths are 32 bits wide: more than five bytes of seven bits are no length.
const VARINT_BYTES_MAX: u32 = 5;

/// The longest text that Kafka reads or writes, in bytes.
const TEXT_BYTES_MAX: usize = 0x7fff;

/// Numbers of tags are not lengths, but cannot be told from them. Kafka counts them from 0 in each
/// struct, so they are small.
const TAG_MAX: usize = 127;

/// What an element of an array takes at least. An `i32` has four bytes; the smallest struct is a
/// name of one letter with its length, the length of an array, and a count of tagged fields.
const ELEMENT_BYTES_MIN: usize = 4;

/// Room for what is counted as elements but is none: the sizes of tagged fields that the decoder
/// knows (the features in ApiVersions are such), and their tags.
const ELEMENTS_FREE: usize = 4096;

/// A tagged field that a newer Kafka adds to an old version comes about once per partition or topic,
/// and those have some thirty bytes with it.
const BYTES_PER_UNKNOWN_TAG: usize = 16;

/// Room for unknown tagged fields in messages that are short.
const UNKNOWN_TAGS_FREE: usize = 64;

#[derive(Debug)]
pub(super) struct Bounded {
    bytes: Bytes,
    varint: u64,
    varint_bytes: u32,
    /// The two varints read last, while nothing else was read since.
    recent: [Option<u64>; 2],
    elements_left: i64,
    unknown_tags_left: usize,
}

impl Bounded {
    pub(super) fn new(bytes: Bytes) -> Self {
        let elements = bytes.len() / ELEMENT_BYTES_MIN + ELEMENTS_FREE;
        let unknown_tags_left = bytes.len() / BYTES_PER_UNKNOWN_TAG + UNKNOWN_TAGS_FREE;
        let elements_left = i64::try_from(elements).unwrap_or(i64::MAX);
        let recent = [None; 2];
        Self { bytes, varint: 0, varint_bytes: 0, recent, elements_left, unknown_tags_left }
    }

    /// Follows a varint through its bytes.
    fn follow(&mut self, byte: u8) -> Result<(), TryGetError> {
        self.varint |= u64::from(byte & 0x7f) << (7 * self.varint_bytes);
        self.varint_bytes += 1;
        if byte & 0x80 == 0 {
            let value = std::mem::take(&mut self.varint);
            self.varint_bytes = 0;
            return self.claim(value);
        }
        if self.varint_bytes < VARINT_BYTES_MAX {
            return Ok(());
        }
        Err(TryGetError { requested: usize::MAX, available: self.bytes.len() })
    }

    /// Counts a varint as the length that it may be.
    fn claim(&mut self, value: u64) -> Result<(), TryGetError> {
        let left = self.bytes.len();
        let elements = elements(value);
        let backed = elements <= left / ELEMENT_BYTES_MIN
            || (elements <= left && elements <= TEXT_BYTES_MAX)
            || elements < TAG_MAX;
        if !backed || self.elements_left < 0 {
            return Err(TryGetError { requested: elements, available: left });
        }
        self.elements_left -= i64::try_from(elements).unwrap_or(i64::MAX);
        self.recent = [self.recent[1], Some(value)];
        Ok(())
    }

    /// Takes back what was counted for a varint that turned out to be no array's length.
    fn take_back(&mut self, value: u64) {
        self.elements_left += i64::try_from(elements(value)).unwrap_or(i64::MAX);
    }
}

/// A compact length is one more than the elements; zero is "no array".
fn elements(value: u64) -> usize {
    usize::try_from(value.saturating_sub(1)).unwrap_or(usize::MAX)
}

impl Buf for Bounded {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }
    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }
    fn advance(&mut self, count: usize) {
        self.recent = [None; 2];
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
    fn try_get_bytes(&mut self, size: usize) -> Result<Bytes, NotEnoughBytesError> {
        if size > self.bytes.len() {
            return Err(NotEnoughBytesError);
        }
        match std::mem::take(&mut self.recent) {
            [_, Some(length)] if length == size as u64 + 1 => self.take_back(length),
            // Unlike other lengths, the size of a tagged field is not one more than its bytes.
            [Some(tag), Some(length)] if length == size as u64 => {
                self.take_back(tag);
                self.take_back(length);
                let left = self.unknown_tags_left.checked_sub(1);
                self.unknown_tags_left = left.ok_or(NotEnoughBytesError)?;
            }
            _ => {}
        }
        Ok(self.get_bytes(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_varint(buffer: &mut Bounded) -> Result<(), TryGetError> {
        while buffer.try_get_u8()? & 0x80 != 0 {}
        Ok(())
    }

    fn read(bytes: &'static [u8]) -> Result<(), TryGetError> {
        read_varint(&mut Bounded::new(Bytes::from_static(bytes)))
    }

    fn varint(mut value: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    }

    /// A buffer with these varints, and so many bytes behind them.
    fn buffer(varints: &[usize], behind: usize) -> Bounded {
        let mut bytes: Vec<u8> = varints.iter().copied().flat_map(varint).collect();
        bytes.resize(bytes.len() + behind, 0);
        Bounded::new(Bytes::from(bytes))
    }

    #[test]
    fn a_length_within_the_bytes_left_passes() {
        assert!(read(&[3, b'a', b'b']).is_ok());
        assert!(read(&[0]).is_ok());
        assert!(read(&[1]).is_ok());
    }

    #[test]
    fn a_length_beyond_the_bytes_left_is_refused() {
        assert!(read(&[0x81, 0x01, b'a', b'b']).is_err());
        assert!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
        assert!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).is_err());
    }

    #[test]
    fn a_length_behind_a_boolean_that_is_none_is_not_believed() {
        // The decoder takes the first byte for a boolean, and the other five for a length of 1.8
        // billion; read from the first byte on, they would be a zero and a six.
        let bytes = Bytes::from_static(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x07]);
        let mut buffer = Bounded::new(bytes);
        assert!(buffer.try_get_u8().is_ok());
        assert!(read_varint(&mut buffer).is_err());
        // Likewise with fewer bytes, or with something else in between.
        for bytes in [&[0x80, 0xff, 0x7f][..], &[0x80, 0x80, 0xff, 0x7f]] {
            let mut buffer = Bounded::new(Bytes::from_static(bytes));
            assert!(buffer.try_get_u8().is_ok());
            buffer.advance(bytes.len() - 3);
            assert!(read_varint(&mut buffer).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_length_that_no_text_has_is_at_most_a_quarter_of_the_bytes_left() {
        assert!(read_varint(&mut buffer(&[TEXT_BYTES_MAX + 1], TEXT_BYTES_MAX)).is_ok());
        assert!(read_varint(&mut buffer(&[TEXT_BYTES_MAX + 2], TEXT_BYTES_MAX * 2)).is_err());
        assert!(read_varint(&mut buffer(&[100_001], 400_000)).is_ok());
        assert!(read_varint(&mut buffer(&[100_002], 400_000)).is_err());
    }

    #[test]
    fn all_arrays_together_have_a_quarter_as_many_elements_as_there_are_bytes() {
        let mut buffer = buffer(&[10_001; 4], 20_000);
        // Room for some 5,000 + 4,096: the first claim passes, the second might be a text's.
        assert!(read_varint(&mut buffer).is_ok());
        assert!(read_varint(&mut buffer).is_err());
    }

    #[test]
    fn texts_are_no_elements() {
        let mut bytes = Vec::new();
        for _ in 0..100 {
            bytes.extend(varint(20_001));
            bytes.resize(bytes.len() + 20_000, b'x');
        }
        let mut buffer = Bounded::new(Bytes::from(bytes));
        for _ in 0..100 {
            assert!(read_varint(&mut buffer).is_ok());
            assert!(buffer.try_get_bytes(20_000).is_ok());
        }
        assert!(!buffer.has_remaining());
    }

    #[test]
    fn unknown_tagged_fields_are_one_in_16_bytes() {
        let bytes = vec![0; 6400];
        let mut buffer = Bounded::new(Bytes::from(bytes));
        let mut field = || {
            read_varint(&mut buffer).ok()?;
            read_varint(&mut buffer).ok()?;
            buffer.try_get_bytes(0).ok()
        };
        assert_eq!(std::iter::from_fn(&mut field).count(), 400 + UNKNOWN_TAGS_FREE);
    }
}
