//! Space-time: how long an item has gone without a hit, times its size. Items with least of it survive eviction.
//!
//! A tenant's clock ticks eight times per *turnover*, in which it opens as many segments as it holds. A slot keeps the
//! tick of the last hit in six bits, which wrap. Eviction visits each item about once per turnover. It marks an item
//! that was not hit for long as *never hit* before its tick repeats.

use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks per turnover.
const TURNOVER_TICKS: u64 = 8;

/// Binary digits of the parts of a tick that the clock counts.
const PART_BITS: u32 = 24;

/// Ticks after which stamps repeat.
const STAMPS: u64 = 63;

/// An item that was not hit for this many ticks counts as never hit. Its stamp then does not repeat in the turnover
/// before eviction next visits it, nor in two more.
const OLD_TICKS: u64 = 39;

/// The age of an item that was never hit, in ticks: 16 turnovers. It is finite, so that a small item may outlast a
/// large one that was hit.
const NEVER_TICKS: u64 = 128;

/// At most this fraction of the bytes that are worked through is kept. To free a block then costs copying another.
const KEPT_ONE_IN: u64 = 2;

/// Blocks of work after which past observations are halved.
const WINDOW_BLOCKS: u64 = 32;

/// Binary logarithm of the levels per doubling.
const STEPS_BITS: u32 = 2;

/// Levels by which a cutoff is lowered if it let too much stay.
const CUT_STEP: u8 = 2;

/// The number of levels. The largest space-time is below 2^30.
const LEVELS: usize = 30 << STEPS_BITS;

/// The tick at which an item was last hit, modulo what a slot can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HitStamp(u8);

impl HitStamp {
    pub(crate) const NEVER: HitStamp = HitStamp(0);

    /// The stamp of the low six bits of a word.
    pub(super) fn of_bits(bits: u64) -> HitStamp {
        HitStamp(bits as u8 & STAMPS as u8)
    }

    pub(super) fn bits(self) -> u64 {
        u64::from(self.0)
    }

    fn age(self, now: HitStamp) -> u64 {
        match self {
            HitStamp::NEVER => NEVER_TICKS,
            HitStamp(hit) => (u64::from(now.0) + STAMPS - u64::from(hit)) % STAMPS,
        }
    }

    /// The stamp that a survivor keeps.
    pub(super) fn carried(self, now: HitStamp) -> HitStamp {
        match self.age(now) < OLD_TICKS {
            true => self,
            false => HitStamp::NEVER,
        }
    }

    /// The space-time level of an item of `len` bytes that was last hit at this stamp.
    pub(super) fn level(self, now: HitStamp, len: u64) -> SpaceTimeLevel {
        let space_time = ((self.age(now) + 1) * len).max(1);
        let doublings = space_time.ilog2();
        let steps = (space_time << STEPS_BITS >> doublings) & ((1 << STEPS_BITS) - 1);
        let level = (doublings << STEPS_BITS) + steps as u32;
        SpaceTimeLevel(level as u8).min(SpaceTimeLevel::MOST)
    }
}

/// Space-time on a coarse scale: four levels per doubling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpaceTimeLevel(u8);

impl SpaceTimeLevel {
    /// The lowest level.
    const LEAST: SpaceTimeLevel = SpaceTimeLevel(0);

    /// The highest level.
    const MOST: SpaceTimeLevel = SpaceTimeLevel(LEVELS as u8 - 1);

    /// The level this much lower, if there is one.
    fn lowered(self, by: u8) -> Option<SpaceTimeLevel> {
        self.0.checked_sub(by).map(SpaceTimeLevel)
    }

    /// The least space-time of this level.
    fn least(self) -> u64 {
        let (doublings, steps) = (self.0 >> STEPS_BITS, u64::from(self.0) % (1 << STEPS_BITS));
        ((1 << STEPS_BITS) + steps) << doublings >> STEPS_BITS
    }
}

/// The parts into which items on the bar are divided, to let some of them stay.
const SHARES: u64 = 256;

/// What a release lets stay: everything below the bar, and a part of what is on it. If everything was hit in one tick
/// and has one size, that part is all there is to choose by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReleaseCutoff {
    bar: SpaceTimeLevel,
    share: u64,
    /// When it was made. The clock advances while survivors' segments are opened.
    at: HitStamp,
}

impl ReleaseCutoff {
    /// Returns whether an item that was last hit then stays. On the bar itself its hash decides.
    pub(super) fn spares(self, hit: HitStamp, len: u64, hash: u64) -> bool {
        let level = hit.level(self.at, len);
        level < self.bar || (level == self.bar && hash % SHARES < self.share)
    }

    /// A cutoff that lets less stay. `None` if nothing would stay.
    pub(super) fn lowered(self) -> Option<ReleaseCutoff> {
        let (bar, share) = match (self.bar, self.share) {
            (bar, 1..) => (bar, self.share / 2),
            (SpaceTimeLevel::LEAST, _) => return None,
            (bar, _) => (bar.lowered(CUT_STEP).unwrap_or(SpaceTimeLevel::LEAST), 0),
        };
        Some(ReleaseCutoff { bar, share, ..self })
    }
}

/// A tenant's clock.
#[derive(Debug, Default)]
pub(super) struct TurnoverClock(AtomicU64);

impl TurnoverClock {
    /// The stamp of a hit at this moment; never [`HitStamp::NEVER`].
    pub(super) fn now(&self) -> HitStamp {
        let ticks = self.0.load(Ordering::Relaxed) >> PART_BITS;
        HitStamp((1 + ticks % STAMPS) as u8)
    }

    /// Records that a segment was opened, so that there are `held` of them.
    pub(super) fn advance(&self, held: u32) {
        let parts = (TURNOVER_TICKS << PART_BITS) / u64::from(held.max(1));
        self.0.fetch_add(parts, Ordering::Relaxed);
    }
}

/// Bytes on each level.
#[derive(Clone, Debug)]
pub(super) struct SpaceTimeHistogram([u64; LEVELS]);

impl Default for SpaceTimeHistogram {
    fn default() -> SpaceTimeHistogram {
        SpaceTimeHistogram([0; LEVELS])
    }
}

impl SpaceTimeHistogram {
    pub(super) fn add(&mut self, level: SpaceTimeLevel, len: u64) {
        self.0[usize::from(level.0)] += len;
    }

    /// The level below which everything fits into `bytes`, and how many of [`SHARES`] parts of it fit as well.
    fn fitting(&self, bytes: u64) -> (SpaceTimeLevel, u64) {
        let mut left = bytes;
        for (level, on_level) in self.0.iter().enumerate() {
            match left.checked_sub(*on_level) {
                Some(less) => left = less,
                None => return (SpaceTimeLevel(level as u8), left * SHARES / on_level),
            }
        }
        (SpaceTimeLevel::MOST, SHARES)
    }

    /// The cutoff that lets about `bytes` stay.
    pub(super) fn cut(&self, bytes: u64, at: HitStamp) -> ReleaseCutoff {
        let (bar, share) = self.fitting(bytes);
        ReleaseCutoff { bar, share, at }
    }

    fn fade(&mut self) {
        self.0.iter_mut().for_each(|bytes| *bytes /= 2);
    }
}

/// What eviction saw recently, and the bar by which at most half of it is kept.
#[derive(Clone, Debug)]
pub(super) struct SurvivalBar {
    spread: SpaceTimeHistogram,
    seen: u64,
    kept: u64,
    items: u64,
    /// Bytes of items that were hit, less those of other items that were kept. If nothing is hit, nothing is worth a
    /// copy.
    hit: u64,
    bar: SpaceTimeLevel,
}

impl Default for SurvivalBar {
    /// Before a segment was seen, everything that was hit survives.
    fn default() -> SurvivalBar {
        SurvivalBar {
            spread: SpaceTimeHistogram::default(),
            seen: 0,
            kept: 0,
            items: 0,
            hit: 0,
            bar: SpaceTimeLevel::MOST,
        }
    }
}

impl SurvivalBar {
    /// Returns whether an item of `len` bytes that was last hit at `hit` survives. On the bar itself some do.
    pub(super) fn keeps(&mut self, hit: HitStamp, now: HitStamp, len: u64) -> bool {
        let level = hit.level(now, len);
        self.spread.add(level, len);
        self.seen += len;
        self.items += 1;
        let fits = (self.kept + len) * KEPT_ONE_IN <= self.seen;
        let is_below = level < self.bar || (level == self.bar && fits);
        let keeps = match hit {
            HitStamp::NEVER => is_below && self.spend_hit(len),
            _ => {
                self.hit += len;
                is_below
            }
        };
        self.kept += if keeps { len } else { 0 };
        keeps
    }

    /// The age since its last hit of an item of mean length that just survives, if a turnover takes this long. Tenants
    /// are compared by it, because newcomers leave after a turnover whatever their tenant's hits.
    pub(super) fn bar_age(&self, turnover: u64) -> u64 {
        let mean = (self.seen / self.items.max(1)).max(1);
        let ticks = (self.bar.least() / mean).clamp(1, OLD_TICKS + 1);
        turnover.saturating_mul(ticks) / TURNOVER_TICKS
    }

    fn spend_hit(&mut self, len: u64) -> bool {
        let left = self.hit.checked_sub(len);
        self.hit = left.unwrap_or(self.hit);
        left.is_some()
    }

    /// Moves the bar and lets the past fade.
    pub(super) fn move_bar(&mut self, block_bytes: u64) {
        self.bar = self.spread.fitting(self.seen / KEPT_ONE_IN).0;
        if self.seen > WINDOW_BLOCKS * block_bytes {
            self.seen /= 2;
            self.kept /= 2;
            self.items /= 2;
            self.hit /= 2;
            self.spread.fade();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oracle is the set of survivors: the half that was hit last.
    #[test]
    fn the_bars_age_is_that_of_who_just_survives() {
        let now = HitStamp(40);
        let mut window = SurvivalBar::default();
        let mut see = |hits: &mut dyn Iterator<Item = HitStamp>| {
            let survivors = hits.filter(|hit| window.keeps(*hit, now, 100));
            let oldest = survivors.map(|hit| hit.age(now)).max();
            window.move_bar(1 << 30);
            (oldest, window.bar_age(8000) / 1000)
        };
        for _ in 0..2 {
            see(&mut (9..=40).map(HitStamp));
        }
        let (oldest, age) = see(&mut (9..=40).map(HitStamp));
        assert!(
            age.abs_diff(oldest.expect("some survive")) <= 4,
            "{oldest:?} {age}"
        );
        let mut scan = SurvivalBar::default();
        (0..64).for_each(|_| _ = scan.keeps(HitStamp::NEVER, now, 100));
        scan.move_bar(1 << 30);
        assert_eq!(
            scan.bar_age(8000),
            40_000,
            "what is older counts as never hit"
        );
    }
}
