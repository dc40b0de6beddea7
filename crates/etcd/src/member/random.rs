//! A member's random numbers, drawn from its seed.

/// Numbers that need not be secret.
#[derive(Clone, Debug)]
pub(super) struct SeededRandom(u64);

impl SeededRandom {
    pub(super) fn new(seed: u64) -> SeededRandom {
        SeededRandom(seed | 1)
    }

    /// Draws the next number: xorshift64*.
    pub(super) fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
