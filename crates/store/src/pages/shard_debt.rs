//! Decides which of a tenant's shards gives the frame for a new page when a page has to go. It applies if each shard
//! has an order of its own. (The order of `adaptive-mq` spans all shards and chooses itself.)
//!
//! All pages of an object are in one shard. If a shard displaced its own pages only, a new object would never get more
//! frames than its shard had before, however cold the other shards' pages. So the shards behave as if all of a tenant's
//! pages stood in one line. Of the pages that go, each shard gives the same fraction as it has of the frames. A shard
//! that has given more is overdrawn, and takes the next frame from another that is not.

use std::sync::atomic::{AtomicU64, Ordering};

/// The most pages that a shard gives before it checks again what the others gave.
const UNSETTLED_MAX: u32 = 16;

/// A shard checks when it has given this fraction of its pages.
const UNSETTLED_ONE_IN: u32 = 16;

/// A shard may give this fraction of its pages more than it owes, because that much is chance.
const CHANCE_ONE_IN: u32 = 8;

/// What a shard owes the other shards of its tenant.
#[derive(Debug, Default)]
pub(super) struct ShardDebt {
    /// Pages that it gave since it was last settled.
    given: u32,
    /// The number of given pages at which it is settled.
    settled_at: u32,
    /// Pages that all of the tenant's shards had given by then.
    seen: u64,
    /// Pages that it still has to give. Negative if it gave more.
    owed: f64,
    is_overdrawn: bool,
}

/// A shard's share of its tenant's frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShardShare {
    pub(super) own: u32,
    pub(super) all: u32,
}

impl ShardDebt {
    /// Records that a page went for a new one, here or in another shard.
    pub(super) fn record_given(&mut self) {
        self.given += 1;
    }

    /// Returns whether it has given more than it owes, as of the last settling.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.is_overdrawn
    }

    /// Returns whether it is time to settle.
    pub(super) fn is_settling_due(&self) -> bool {
        self.is_overdrawn || self.given >= self.settled_at
    }

    /// Checks what the others gave. `given` counts the pages that all shards gave.
    pub(super) fn settle(&mut self, given: &AtomicU64, part: ShardShare) {
        let own = std::mem::take(&mut self.given);
        let all = match own {
            0 => given.load(Ordering::Relaxed),
            own => given.fetch_add(own.into(), Ordering::Relaxed) + u64::from(own),
        };
        let since = all.saturating_sub(std::mem::replace(&mut self.seen, all));
        let share = f64::from(part.own) / f64::from(part.all.max(1));
        self.settled_at = (part.own / UNSETTLED_ONE_IN).clamp(1, UNSETTLED_MAX);
        // The others may have given as many pages that they have not reported yet.
        let chance = f64::from(part.own / CHANCE_ONE_IN + self.settled_at - 1);
        self.owed += since as f64 * share - f64::from(own);
        // Old debts are forgiven.
        self.owed = self.owed.clamp(-2.0 * chance - 1.0, part.own.into());
        self.is_overdrawn = self.owed < -chance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shards of a tenant as they would be if each put followed these rules.
    struct TestShards {
        given: AtomicU64,
        debt: Vec<ShardDebt>,
        frames: Vec<u32>,
    }

    impl TestShards {
        fn of(frames: &[u32]) -> TestShards {
            TestShards {
                given: AtomicU64::new(0),
                debt: frames.iter().map(|_| ShardDebt::default()).collect(),
                frames: frames.to_vec(),
            }
        }

        fn is_overdrawn(&mut self, shard: usize) -> bool {
            let all = self.frames.iter().sum();
            let own = self.frames[shard];
            let debt = &mut self.debt[shard];
            if debt.is_settling_due() {
                debt.settle(&self.given, ShardShare { own, all });
            }
            debt.is_overdrawn()
        }

        /// Puts a page into a shard, which displaces one. Returns whether the displaced page was of another shard.
        fn put(&mut self, to: usize) -> bool {
            let mut giver = to;
            if self.frames[to] == 0 || self.is_overdrawn(to) {
                let others = (0..self.frames.len()).filter(|n| *n != to);
                let has_some: Vec<usize> = others.filter(|n| self.frames[*n] > 0).collect();
                let owing = has_some.into_iter().find(|n| !self.is_overdrawn(*n));
                giver = owing.unwrap_or(to);
            }
            self.debt[giver].record_given();
            self.frames[giver] -= 1;
            self.frames[to] += 1;
            giver != to
        }
    }

    #[test]
    fn who_is_new_grows_at_the_expense_of_who_is_there() {
        let mut shards = TestShards::of(&[1000, 0, 0]);
        (0..200).for_each(|_| _ = shards.put(1));
        assert!(shards.frames[1] > 150, "{:?}", shards.frames);
        (0..3000).for_each(|_| _ = shards.put(1));
        assert!(shards.frames[1] > 850, "{:?}", shards.frames);
    }

    #[test]
    fn who_puts_as_much_as_he_has_displaces_his_own() {
        let mut shards = TestShards::of(&[1000; 8]);
        let mut random = 88_172_645_463_325_252_u64;
        let mut strange = 0;
        for _ in 0..100_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            strange += u32::from(shards.put(random as usize % 8));
        }
        assert!(strange < 2000, "{strange}");
        assert!(
            shards
                .frames
                .iter()
                .all(|frames| (800..1200).contains(frames))
        );
    }

    #[test]
    fn shards_come_to_have_what_they_put() {
        let mut shards = TestShards::of(&[1000, 1000]);
        for n in 0..20_000 {
            shards.put(usize::from(n % 4 == 0));
        }
        assert!(
            (1300..1750).contains(&shards.frames[0]),
            "three in four: {:?}",
            shards.frames
        );
    }
}
