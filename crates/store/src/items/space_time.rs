//! Space-time: how long an item has gone without a hit, times its size. Who has least of it survives eviction.
//!
//! A tenant's clock ticks eight times a *turnover*, in which it opens as many segments as it holds. A slot keeps the tick
//! of the last hit in six bits, which wrap: eviction comes by each item about once a turnover, and calls one that was
//! not hit for long *never hit* before its tick comes round again.

use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks of a turnover.
const TURNOVER_TICKS: u64 = 8;

/// Parts of a tick that the clock counts, as bits.
const PART_BITS: u32 = 24;

/// Ticks after which stamps repeat.
const STAMPS: u64 = 63;

/// An item that was not hit for so many ticks counts as never hit: in the turnover before eviction next comes by, and in
/// two more, its stamp does not come round.
const OLD_TICKS: u64 = 39;

/// The age of an item that was never hit, in ticks: 16 turnovers. Not without end, so that a small one may outlast a large
/// one that was hit.
const NEVER_TICKS: u64 = 128;

/// At most one byte in so many that is worked through is kept: freeing a block then costs copying another.
const KEPT_ONE_IN: u64 = 2;

/// Bytes after which what was seen counts half, in blocks.
const WINDOW_BLOCKS: u64 = 32;

/// Levels of each doubling.
const STEPS_BITS: u32 = 2;

/// Levels by which a cut is lowered that let too much stay.
const CUT_STEP: u8 = 2;

/// Levels that there are: the most space-time is below 2^30.
const LEVELS: usize = 30 << STEPS_BITS;

/// The tick at which an item was last hit, modulo what a slot can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(u8);

impl Stamp {
    pub(crate) const NEVER: Stamp = Stamp(0);

    /// The stamp of the low six bits of a word.
    pub(super) fn of_bits(bits: u64) -> Stamp {
        Stamp(bits as u8 & STAMPS as u8)
    }

    pub(super) fn bits(self) -> u64 {
        u64::from(self.0)
    }

    fn age(self, now: Stamp) -> u64 {
        match self {
            Stamp::NEVER => NEVER_TICKS,
            Stamp(hit) => (u64::from(now.0) + STAMPS - u64::from(hit)) % STAMPS,
        }
    }

    /// What a survivor keeps of it.
    pub(super) fn carried(self, now: Stamp) -> Stamp {
        match self.age(now) < OLD_TICKS {
            true => self,
            false => Stamp::NEVER,
        }
    }

    /// How much space-time an item of `len` bytes that was last hit then has taken.
    pub(super) fn level(self, now: Stamp, len: u64) -> Level {
        let space_time = ((self.age(now) + 1) * len).max(1);
        let doublings = space_time.ilog2();
        let steps = (space_time << STEPS_BITS >> doublings) & ((1 << STEPS_BITS) - 1);
        let level = (doublings << STEPS_BITS) + steps as u32;
        Level(level as u8).min(Level::MOST)
    }
}

/// Space-time, roughly: four levels for each doubling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Level(u8);

impl Level {
    /// None is lower.
    const LEAST: Level = Level(0);

    /// None is higher.
    const MOST: Level = Level(LEVELS as u8 - 1);

    /// The level so many lower, if there is one.
    fn lowered(self, by: u8) -> Option<Level> {
        self.0.checked_sub(by).map(Level)
    }

    /// The least space-time on it.
    fn least(self) -> u64 {
        let (doublings, steps) = (self.0 >> STEPS_BITS, u64::from(self.0) % (1 << STEPS_BITS));
        ((1 << STEPS_BITS) + steps) << doublings >> STEPS_BITS
    }
}

/// Parts of what is on the bar that may stay.
const SHARES: u64 = 256;

/// What a release lets stay: all below the bar, and a part of what is on it. Where all was hit in one tick, and has one size, that
/// part is all there is to tell it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    bar: Level,
    share: u64,
    /// When it was made: the clock goes on while survivors' segments are opened.
    at: Stamp,
}

impl Cut {
    /// Whether an item stays that was last hit then; luck, by its hash, on the bar itself.
    pub(super) fn spares(self, hit: Stamp, len: u64, hash: u64) -> bool {
        let level = hit.level(self.at, len);
        level < self.bar || (level == self.bar && hash % SHARES < self.share)
    }

    /// One that lets less stay; `None` where nothing stays any more.
    pub(super) fn lowered(self) -> Option<Cut> {
        let (bar, share) = match (self.bar, self.share) {
            (bar, 1..) => (bar, self.share / 2),
            (Level::LEAST, _) => return None,
            (bar, _) => (bar.lowered(CUT_STEP).unwrap_or(Level::LEAST), 0),
        };
        Some(Cut { bar, share, ..self })
    }
}

/// A tenant's clock.
#[derive(Debug, Default)]
pub(super) struct Clock(AtomicU64);

impl Clock {
    /// The stamp of a hit at this moment; never [`Stamp::NEVER`].
    pub(super) fn now(&self) -> Stamp {
        let ticks = self.0.load(Ordering::Relaxed) >> PART_BITS;
        Stamp((1 + ticks % STAMPS) as u8)
    }

    /// Hears that a segment was opened, so that there are `held` of them.
    pub(super) fn note_opened(&self, held: u32) {
        let parts = (TURNOVER_TICKS << PART_BITS) / u64::from(held.max(1));
        self.0.fetch_add(parts, Ordering::Relaxed);
    }
}

/// Bytes on each level.
#[derive(Clone, Debug)]
pub(super) struct Spread([u64; LEVELS]);

impl Default for Spread {
    fn default() -> Spread {
        Spread([0; LEVELS])
    }
}

impl Spread {
    pub(super) fn add(&mut self, level: Level, len: u64) {
        self.0[usize::from(level.0)] += len;
    }

    /// The level below which all fits into `bytes`, and which of [`SHARES`] parts of it fit as well.
    fn fitting(&self, bytes: u64) -> (Level, u64) {
        let mut left = bytes;
        for (level, on_level) in self.0.iter().enumerate() {
            match left.checked_sub(*on_level) {
                Some(less) => left = less,
                None => return (Level(level as u8), left * SHARES / on_level),
            }
        }
        (Level::MOST, SHARES)
    }

    /// What lets `bytes` stay, as nearly as can be.
    pub(super) fn cut(&self, bytes: u64, at: Stamp) -> Cut {
        let (bar, share) = self.fitting(bytes);
        Cut { bar, share, at }
    }

    fn fade(&mut self) {
        self.0.iter_mut().for_each(|bytes| *bytes /= 2);
    }
}

/// What eviction lately saw, and the bar by which at most half of it is kept.
#[derive(Clone, Debug)]
pub(super) struct Window {
    spread: Spread,
    seen: u64,
    kept: u64,
    items: u64,
    /// Bytes of items that were hit, less those of others that were kept: where nothing is hit, nothing is worth a copy.
    hit: u64,
    bar: Level,
}

impl Default for Window {
    /// Before a segment was seen, all that was hit survives.
    fn default() -> Window {
        Window {
            spread: Spread::default(),
            seen: 0,
            kept: 0,
            items: 0,
            hit: 0,
            bar: Level::MOST,
        }
    }
}

impl Window {
    /// Whether an item of `len` bytes survives that was last hit at `hit`. On the bar itself some do.
    pub(super) fn keeps(&mut self, hit: Stamp, now: Stamp, len: u64) -> bool {
        let level = hit.level(now, len);
        self.spread.add(level, len);
        self.seen += len;
        self.items += 1;
        let fits = (self.kept + len) * KEPT_ONE_IN <= self.seen;
        let is_below = level < self.bar || (level == self.bar && fits);
        let keeps = match hit {
            Stamp::NEVER => is_below && self.spend_hit(len),
            _ => {
                self.hit += len;
                is_below
            }
        };
        self.kept += if keeps { len } else { 0 };
        keeps
    }

    /// How old an item of mean length is, by its last hit, that just survives, where a turnover takes so long. By this tenants are
    /// compared: newcomers leave after a turnover whatever their tenant's hits.
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

    /// Moves the bar, and lets the past fade.
    pub(super) fn turn(&mut self, block_bytes: u64) {
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

    /// The oracle is who survives: the half hit last.
    #[test]
    fn the_bars_age_is_that_of_who_just_survives() {
        let now = Stamp(40);
        let mut window = Window::default();
        let mut see = |hits: &mut dyn Iterator<Item = Stamp>| {
            let survivors = hits.filter(|hit| window.keeps(*hit, now, 100));
            let oldest = survivors.map(|hit| hit.age(now)).max();
            window.turn(1 << 30);
            (oldest, window.bar_age(8000) / 1000)
        };
        for _ in 0..2 {
            see(&mut (9..=40).map(Stamp));
        }
        let (oldest, age) = see(&mut (9..=40).map(Stamp));
        assert!(
            age.abs_diff(oldest.expect("some survive")) <= 4,
            "{oldest:?} {age}"
        );
        let mut scan = Window::default();
        (0..64).for_each(|_| _ = scan.keeps(Stamp::NEVER, now, 100));
        scan.turn(1 << 30);
        assert_eq!(
            scan.bar_age(8000),
            40_000,
            "what is older counts as never hit"
        );
    }
}
