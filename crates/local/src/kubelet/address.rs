//! Allocates pod addresses from the node's range. Pure.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A range of addresses, such as `127.100.1.0/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    first: u32,
    bits: u32,
}

/// A text that is not an address range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a range of at least two IPv4 addresses, such as 127.100.1.0/24")]
pub struct RangeError(String);

impl FromStr for Range {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let error = || RangeError(text.to_owned());
        let (address, bits) = text.split_once('/').ok_or_else(error)?;
        let address: Ipv4Addr = address.parse().map_err(|_| error())?;
        // Longer prefixes have no addresses between the first and the last.
        let bits = bits.parse::<u32>().ok().filter(|bits| (8..=30).contains(bits));
        Ok(Self::of(address, bits.ok_or_else(error)?))
    }
}

impl Range {
    /// The range around `address` with a prefix of `length` bits.
    pub(crate) fn of(address: Ipv4Addr, length: u32) -> Self {
        let bits = 32 - length.clamp(8, 30);
        Self { first: u32::from(address) >> bits << bits, bits }
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.first), 32 - self.bits)
    }
}

/// The addresses of a range, and which of them are in use.
#[derive(Debug)]
pub(crate) struct Pool {
    range: Range,
    used: BTreeSet<Ipv4Addr>,
    last: u32,
}

impl Pool {
    pub(crate) fn new(range: Range, used: impl IntoIterator<Item = Ipv4Addr>) -> Self {
        let used: BTreeSet<_> = used.into_iter().collect();
        let last = used.last().map_or(0, |address| u32::from(*address).wrapping_sub(range.first));
        Self { range, used, last }
    }

    /// The free address that was unused the longest: a client with an outdated address should find no server
    /// rather than another one. `None` if all are in use.
    pub(crate) fn take(&mut self) -> Option<Ipv4Addr> {
        // Without the first and the last: some programs treat them as network and broadcast addresses.
        let count = (1u32 << self.range.bits) - 2;
        let offsets = (0..count).map(|step| 1 + (self.last.wrapping_add(step)) % count);
        let first = self.range.first;
        let free = offsets
            .map(|offset| (offset, Ipv4Addr::from(first + offset)))
            .find(|(_, address)| !self.used.contains(address));
        let (offset, address) = free?;
        self.last = offset;
        self.used.insert(address);
        Some(address)
    }

    pub(crate) fn give_back(&mut self, address: Ipv4Addr) {
        self.used.remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(pool: &mut Pool, count: usize) -> Vec<u8> {
        (0..count).map_while(|_| pool.take()).map(|address| address.octets()[3]).collect()
    }

    #[test]
    fn addresses_are_taken_in_turn_and_never_twice() {
        let range: Range = "127.100.1.8/29".parse().unwrap();
        let mut pool = Pool::new(range, [Ipv4Addr::new(127, 100, 1, 10)]);
        assert_eq!(addresses(&mut pool, 3), [11, 12, 13]);
        pool.give_back(Ipv4Addr::new(127, 100, 1, 11));
        assert_eq!(addresses(&mut pool, 9), [14, 9, 11]);
        assert_eq!(pool.take(), None);
    }

    #[test]
    fn ranges_are_read_and_written() {
        for (text, shown) in [("127.100.1.7/24", "127.100.1.0/24"), ("10.0.0.0/8", "10.0.0.0/8")] {
            assert_eq!(text.parse::<Range>().unwrap().to_string(), shown);
        }
        for bad in ["", "127.0.0.1", "127.0.0.0/31", "127.0.0.0/x", "x/24", "127.0.0.0/0"] {
            assert!(bad.parse::<Range>().is_err(), "{bad}");
        }
    }
}
