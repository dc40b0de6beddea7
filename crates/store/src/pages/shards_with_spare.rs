//! Which of a tenant's shards have free frames, and which have some to spare, one bit each.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::arena::PageKind;

/// The most shards of a tenant. Frames keep the number of their shard in a byte.
pub(super) const SHARDS_MAX: usize = 256;

/// The bits of a word.
const BITS: usize = u64::BITS as usize;

/// The stock that a search requires of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StockLevel {
    /// At least one free frame, though it may be gone by now.
    Any,
    /// Frames to spare.
    Spare,
}

/// The bits, by stock and kind. A shard changes its own under its lock, and readers may see stale bits.
#[derive(Debug, Default)]
pub(super) struct ShardsWithSpare([[[AtomicU64; SHARDS_MAX / BITS]; 2]; 2]);

impl ShardsWithSpare {
    pub(super) fn set(&self, stock: StockLevel, kind: PageKind, shard: u8) {
        let (word, bit) = self.bit(stock, kind, shard);
        word.fetch_or(bit, Ordering::Relaxed);
    }

    pub(super) fn clear(&self, stock: StockLevel, kind: PageKind, shard: u8) {
        let (word, bit) = self.bit(stock, kind, shard);
        word.fetch_and(!bit, Ordering::Relaxed);
    }

    fn bit(&self, stock: StockLevel, kind: PageKind, shard: u8) -> (&AtomicU64, u64) {
        let shard = usize::from(shard);
        let words = &self.0[stock as usize][kind as usize];
        (&words[shard / BITS], 1 << (shard % BITS))
    }

    /// The next other shard with such a stock, from number `from` on.
    pub(super) fn find(
        &self,
        stock: StockLevel,
        kind: PageKind,
        from: usize,
        but: u8,
    ) -> Option<usize> {
        let words = self.0[stock as usize][kind as usize].iter().enumerate();
        let mut found = words.skip(from / BITS).filter_map(|(n, word)| {
            let mut bits = word.load(Ordering::Relaxed);
            if n == usize::from(but) / BITS {
                bits &= !(1 << (usize::from(but) % BITS));
            }
            if n == from / BITS {
                bits &= u64::MAX << (from % BITS);
            }
            (bits != 0).then(|| n * BITS + bits.trailing_zeros() as usize)
        });
        found.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_shard_with_frames_is_found_until_it_has_none() {
        let (with_spare, kind) = (ShardsWithSpare::default(), PageKind::Ephemeral);
        for (stock, other) in [
            (StockLevel::Any, StockLevel::Spare),
            (StockLevel::Spare, StockLevel::Any),
        ] {
            for shard in [0, 63, 64, 255] {
                with_spare.set(stock, kind, shard);
                assert_eq!(with_spare.find(stock, kind, 0, shard), None);
                assert_eq!(with_spare.find(stock, kind, 0, 7), Some(usize::from(shard)));
                assert_eq!(
                    with_spare.find(stock, kind, usize::from(shard) + 1, 7),
                    None
                );
                assert_eq!(with_spare.find(stock, PageKind::Persistent, 0, 7), None);
                assert_eq!(with_spare.find(other, kind, 0, 7), None);
                with_spare.clear(stock, kind, shard);
                assert_eq!(with_spare.find(stock, kind, 0, 7), None);
            }
        }
    }

    #[test]
    fn each_of_several_is_found_in_turn() {
        let (with_spare, kind) = (ShardsWithSpare::default(), PageKind::Ephemeral);
        for shard in [3, 7, 70, 200] {
            with_spare.set(StockLevel::Any, kind, shard);
        }
        let next = |from: &usize| with_spare.find(StockLevel::Any, kind, from + 1, 7);
        let found: Vec<usize> =
            std::iter::successors(with_spare.find(StockLevel::Any, kind, 0, 7), next).collect();
        assert_eq!(found, [3, 70, 200]);
    }
}
