//! Which far blocks hold nothing for a while, and how many they are.
//!
//! The chores look at all far blocks once per second. A block that a tenant has is *idle* if it holds nothing and
//! nothing came into it since the look before. Ready blocks are idle as far as there were as many between two looks.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What the chores saw when they last looked at a block that a tenant has.
#[derive(Debug, Default)]
pub(super) struct BlockLook {
    /// Writes into the block until then.
    writes: AtomicU32,
    is_idle: AtomicBool,
}

impl BlockLook {
    /// A tenant takes the block, after this many writes into it. The next look finds it in use.
    pub(super) fn begin_use(&self, writes: u32) {
        self.is_idle.store(false, Ordering::Relaxed);
        self.writes.store(writes.wrapping_sub(1), Ordering::Relaxed);
    }

    /// Looks at the block after this many writes into it, when it holds so many pages. Returns whether it is idle.
    pub(super) fn look(&self, writes: u32, pages: u32) -> bool {
        let before = self.writes.swap(writes, Ordering::Relaxed);
        let is_idle = pages == 0 && writes == before;
        self.is_idle.store(is_idle, Ordering::Relaxed);
        is_idle
    }

    /// Returns whether the block was idle at the last look.
    pub(super) fn was_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }
}

/// How many blocks are idle.
#[derive(Debug, Default)]
pub(super) struct IdleCounts {
    /// The fewest blocks that were ready at a time since the last look. So many have been there all the time.
    ready: AtomicU32,
    /// The fewest between the last two looks.
    ready_before: AtomicU32,
    /// Blocks that tenants have and that were idle at the last look.
    held: AtomicU32,
}

impl IdleCounts {
    /// Records that only so many blocks are ready now.
    pub(super) fn fewer_ready(&self, ready: u32) {
        self.ready.fetch_min(ready, Ordering::Relaxed);
    }

    /// Records a look, at which so many blocks are ready, and so many are idle that tenants have.
    pub(super) fn look(&self, ready: u32, held: u32) {
        let before = self.ready.swap(ready, Ordering::Relaxed);
        self.ready_before.store(before, Ordering::Relaxed);
        self.held.store(held, Ordering::Relaxed);
    }

    /// Blocks that have been ready for longer than from the last look on.
    pub(super) fn ready(&self) -> u32 {
        let (before, since) = (&self.ready_before, &self.ready);
        let since = since.load(Ordering::Relaxed);
        before.load(Ordering::Relaxed).min(since)
    }

    /// Blocks that tenants have and that were idle at the last look.
    pub(super) fn held(&self) -> u32 {
        self.held.load(Ordering::Relaxed)
    }

    /// Records that a tenant lost an idle block.
    pub(super) fn lose_held(&self) {
        let fewer = |held: u32| held.checked_sub(1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        // If there is none, a look in between has counted anew.
        let _ = self.held.fetch_update(set, fetch, fewer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_idle_if_nothing_came_between_two_looks_and_nothing_is_left() {
        let look = BlockLook::default();
        look.begin_use(7);
        assert!(!look.look(7, 0), "it was taken since the last look");
        assert!(look.look(7, 0) && look.was_idle());
        assert!(!look.look(9, 0), "two pages came and went");
        assert!(!look.look(9, 1), "a page is in it");
        assert!(!look.was_idle());
        assert!(look.look(9, 0), "it went");
        look.begin_use(9);
        assert!(!look.was_idle());
    }

    #[test]
    fn ready_blocks_are_idle_if_they_were_ready_all_the_time_between_two_looks() {
        let idle = IdleCounts::default();
        idle.look(5, 0);
        assert_eq!(idle.ready(), 0, "they came since the look before");
        idle.look(8, 2);
        assert_eq!((idle.ready(), idle.held()), (5, 2));
        idle.fewer_ready(3);
        assert_eq!(idle.ready(), 3, "others were needed");
        idle.look(9, 0);
        assert_eq!(idle.ready(), 3);
        idle.look(9, 0);
        assert_eq!(idle.ready(), 9);
    }
}
