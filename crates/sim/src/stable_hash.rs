//! Hash tables that hash the same on every run and machine.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table whose keys are numbers and tuples of numbers. Nothing that is printed may depend on its order.
pub(crate) type StableHashMap<K, V> = HashMap<K, V, BuildHasherDefault<StableHasher>>;

/// Multiplies and rotates, one word at a time. The keys are our own page numbers, not an attacker's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StableHasher {
    state: u64,
}

impl Hasher for StableHasher {
    fn finish(&self) -> u64 {
        self.state ^ (self.state >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.state.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.state = mixed ^ (mixed >> 32);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}
