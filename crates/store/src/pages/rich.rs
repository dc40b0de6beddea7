//! Which of a tenant's shards have free frames to spare: a bit each.

use std::sync::atomic::{AtomicU64, Ordering};

use super::holdings::SHARDS_MAX;
use crate::arena::PageKind;

/// The bits of a word.
const BITS: usize = u64::BITS as usize;

/// The bits, by kind. A shard changes its own under its lock; whoever looks may see what was.
#[derive(Debug, Default)]
pub(super) struct Rich([[AtomicU64; SHARDS_MAX / BITS]; 2]);

impl Rich {
    pub(super) fn set(&self, kind: PageKind, shard: u8) {
        let (word, bit) = self.bit(kind, shard);
        word.fetch_or(bit, Ordering::Relaxed);
    }

    pub(super) fn clear(&self, kind: PageKind, shard: u8) {
        let (word, bit) = self.bit(kind, shard);
        word.fetch_and(!bit, Ordering::Relaxed);
    }

    fn bit(&self, kind: PageKind, shard: u8) -> (&AtomicU64, u64) {
        let shard = usize::from(shard);
        (&self.0[kind as usize][shard / BITS], 1 << (shard % BITS))
    }

    /// A shard that has some to spare, but not this one.
    pub(super) fn find(&self, kind: PageKind, but: u8) -> Option<usize> {
        let but = usize::from(but);
        let words = self.0[kind as usize].iter().enumerate();
        let mut rich = words.filter_map(|(n, word)| {
            let own = if n == but / BITS {
                1 << (but % BITS)
            } else {
                0
            };
            let others = word.load(Ordering::Relaxed) & !own;
            (others != 0).then(|| n * BITS + others.trailing_zeros() as usize)
        });
        rich.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_shard_with_frames_is_found_until_it_has_none() {
        let (rich, kind) = (Rich::default(), PageKind::Ephemeral);
        for shard in [0, 63, 64, 255] {
            rich.set(kind, shard);
            assert_eq!(rich.find(kind, shard), None);
            assert_eq!(rich.find(kind, 7), Some(usize::from(shard)));
            assert_eq!(rich.find(PageKind::Persistent, 7), None);
            rich.clear(kind, shard);
            assert_eq!(rich.find(kind, 7), None);
        }
    }
}
