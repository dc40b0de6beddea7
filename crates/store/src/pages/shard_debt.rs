//! Which of a tenant's shards gives the frame for a new page, when a page has to go for it: where each shard has an order of its own. (That of
//! `adaptive-mq` is one over all shards, and says itself whose turn it is.)
//!
//! All pages of an object are in one shard. Were a shard to displace its own pages only, an object that is new would
//! never have more frames than its shard had before it came, however cold the others'. So it is as if all of a tenant's
//! pages stood in one line: of the pages that go, each shard gives as many as it has of the frames. Whoever has
//! given more than that is overdrawn, and takes the next frame from another that is not.

use std::sync::atomic::{AtomicU64, Ordering};

/// Pages that a shard gives before it looks again what the others gave, at the most.
const UNSETTLED_MAX: u32 = 16;

/// A shard looks when it has given one in so many of its pages.
const UNSETTLED_ONE_IN: u32 = 16;

/// A shard may give one in so many of its pages more than it owes: so much is chance.
const CHANCE_ONE_IN: u32 = 8;

/// What a shard owes the others of its tenant.
#[derive(Debug, Default)]
pub(super) struct ShardDebt {
    /// Pages that it gave since it was settled.
    given: u32,
    /// It is settled when it has given so many.
    settled_at: u32,
    /// Pages that the tenant's shards had given together by then.
    seen: u64,
    /// Pages that it has yet to give; less than none where it gave more.
    owed: f64,
    is_overdrawn: bool,
}

/// A shard's part of what its tenant has for pages, in frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) own: u32,
    pub(super) all: u32,
}

impl ShardDebt {
    /// Hears that a page went for a new one, here or elsewhere.
    pub(super) fn give(&mut self) {
        self.given += 1;
    }

    /// Whether it has given more than it owes, as of when it was settled.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.is_overdrawn
    }

    /// Whether it is time to settle.
    pub(super) fn are_due(&self) -> bool {
        self.is_overdrawn || self.given >= self.settled_at
    }

    /// Looks what the others gave. `given` counts what all shards gave.
    pub(super) fn settle(&mut self, given: &AtomicU64, part: Part) {
        let own = std::mem::take(&mut self.given);
        let all = match own {
            0 => given.load(Ordering::Relaxed),
            own => given.fetch_add(own.into(), Ordering::Relaxed) + u64::from(own),
        };
        let since = all.saturating_sub(std::mem::replace(&mut self.seen, all));
        let share = f64::from(part.own) / f64::from(part.all.max(1));
        self.settled_at = (part.own / UNSETTLED_ONE_IN).clamp(1, UNSETTLED_MAX);
        // As many as that the others may have given, too, and not told yet.
        let chance = f64::from(part.own / CHANCE_ONE_IN + self.settled_at - 1);
        self.owed += since as f64 * share - f64::from(own);
        // What is long past is forgiven.
        self.owed = self.owed.clamp(-2.0 * chance - 1.0, part.own.into());
        self.is_overdrawn = self.owed < -chance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shards of a tenant as they would be, if each put went by these rules.
    struct Shards {
        given: AtomicU64,
        debt: Vec<ShardDebt>,
        frames: Vec<u32>,
    }

    impl Shards {
        fn of(frames: &[u32]) -> Shards {
            Shards {
                given: AtomicU64::new(0),
                debt: frames.iter().map(|_| ShardDebt::default()).collect(),
                frames: frames.to_vec(),
            }
        }

        fn is_overdrawn(&mut self, shard: usize) -> bool {
            let all = self.frames.iter().sum();
            let own = self.frames[shard];
            let debt = &mut self.debt[shard];
            if debt.are_due() {
                debt.settle(&self.given, Part { own, all });
            }
            debt.is_overdrawn()
        }

        /// A page comes to a shard, and displaces one. Says whether that was of another.
        fn put(&mut self, to: usize) -> bool {
            let mut giver = to;
            if self.frames[to] == 0 || self.is_overdrawn(to) {
                let others = (0..self.frames.len()).filter(|n| *n != to);
                let has_some: Vec<usize> = others.filter(|n| self.frames[*n] > 0).collect();
                let owing = has_some.into_iter().find(|n| !self.is_overdrawn(*n));
                giver = owing.unwrap_or(to);
            }
            self.debt[giver].give();
            self.frames[giver] -= 1;
            self.frames[to] += 1;
            giver != to
        }
    }

    #[test]
    fn who_is_new_grows_at_the_expense_of_who_is_there() {
        let mut shards = Shards::of(&[1000, 0, 0]);
        (0..200).for_each(|_| _ = shards.put(1));
        assert!(shards.frames[1] > 150, "{:?}", shards.frames);
        (0..3000).for_each(|_| _ = shards.put(1));
        assert!(shards.frames[1] > 850, "{:?}", shards.frames);
    }

    #[test]
    fn who_puts_as_much_as_he_has_displaces_his_own() {
        let mut shards = Shards::of(&[1000; 8]);
        let mut luck = 88_172_645_463_325_252_u64;
        let mut strange = 0;
        for _ in 0..100_000 {
            luck ^= luck << 13;
            luck ^= luck >> 7;
            luck ^= luck << 17;
            strange += u32::from(shards.put(luck as usize % 8));
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
        let mut shards = Shards::of(&[1000, 1000]);
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
