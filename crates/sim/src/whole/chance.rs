//! A small generator of numbers that is the same everywhere.

/// The generator. The same seed gives the same numbers.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// A generator with this seed.
    #[must_use]
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// A number below `end`, which is not zero.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // SplitMix64: neighbouring seeds have nothing in common.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }

    /// A number from `first` to `last`.
    pub(crate) fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// True in so many cases of a hundred.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let index = self.below(u64::try_from(all.len()).unwrap_or(1));
        all.get(usize::try_from(index).unwrap_or_default()).copied()
    }
}
