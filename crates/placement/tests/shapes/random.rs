//! Random numbers from a seed: SplitMix64, which is the same on every machine.

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self(seed);
        random.bits();
        random
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From 0 up to 1, without 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// From 0 up to `end`, without it.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((self.unit() * end as f64) as usize).min(end.saturating_sub(1))
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Every order of magnitude is as likely as any other.
    pub(crate) fn magnitude(&mut self, low: usize, high: usize) -> usize {
        let (low, high) = (low.max(1), high.max(low).max(1));
        let drawn = self.between((low as f64).ln(), (high as f64 + 1.0).ln()).exp();
        (drawn as usize).clamp(low, high)
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A number from one up whose tail falls with this power: the smaller the power, the heavier the tail.
    pub(crate) fn power_law(&mut self, power: f64) -> f64 {
        (1.0 - self.unit()).powf(-1.0 / power)
    }

    /// Around one; `spread` is the standard deviation of the logarithm.
    pub(crate) fn around_one(&mut self, spread: f64) -> f64 {
        let normal =
            (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
        (spread * normal).exp()
    }

    pub(crate) fn shuffle<T>(&mut self, of: &mut [T]) {
        for at in (1..of.len()).rev() {
            of.swap(at, self.below(at + 1));
        }
    }
}
