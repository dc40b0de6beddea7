//! The shadow of one tenant: keys of a sample of its pages, without the pages.
//!
//! SHARDS (Waldspurger and others, FAST '15) for an exclusive tier. A page is sampled by its hash, so either all of its
//! accesses are or none; a distance among sampled pages stands for one [`SAMPLE_ONE_IN`] times as long. Where more are
//! sampled than the shadow has room for, those with the highest hashes are let go, and later ones like them ignored:
//! the sample becomes thinner, the distances stand for longer ones (their *s_max*).

use sublet_types::{Curve, Pages, Second};

use super::histogram::Histogram;
use super::sample::Sample;
use super::stack::Stack;

/// Pages for each that a shadow hears of: so few keys cost little, and divided memory within 0.3 % as well as all of them
/// where we tried.
pub const SAMPLE_ONE_IN: u64 = 16;

/// The most pages and holes in a shadow, unless said otherwise. Behind a client, Zipf streams were measured to within
/// 0.7 percent points of hit ratio on average with so many, 2.5 at worst; with 1024 it was 1.0 and 5.
pub const ENTRIES_MAX: usize = 8192;

/// Whether a page with this hash is one that shadows hear of.
pub const fn is_sampled(hash: u64) -> bool {
    hash.is_multiple_of(SAMPLE_ONE_IN)
}

/// What happened to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It was put, or was to be.
    Put,
    /// It was asked for; a hit takes it away.
    Get,
    /// It was asked for; a hit leaves it and makes it young (`keeping` pools, items).
    GetKeeping,
    /// It was flushed.
    Flush,
}

/// How many hits a tenant would have with more or less memory, learnt from its sampled accesses.
#[derive(Clone, Debug)]
pub struct Shadow {
    entries_max: usize,
    sample: Sample,
    /// No tier is larger, so nothing deeper is remembered.
    reach: Pages,
    stack: Stack,
    histogram: Histogram,
}

impl Shadow {
    /// An empty shadow with room for `entries_max` pages, for a tenant that could have at most `reach`.
    pub fn new(now: Second, reach: Pages, entries_max: usize) -> Shadow {
        Shadow {
            entries_max: entries_max.max(1),
            sample: Sample::default(),
            reach,
            stack: Stack::default(),
            histogram: Histogram::new(now),
        }
    }

    /// Hears of an access to a sampled page ([`is_sampled`]).
    pub fn feed(&mut self, hash: u64, access: Access) {
        if !self.sample.has(hash) {
            return;
        }
        match access {
            Access::Put => self.put(hash),
            Access::Get => {
                self.get(hash);
            }
            Access::GetKeeping => {
                if self.get(hash) {
                    self.put(hash);
                }
            }
            Access::Flush => {
                self.stack.take(hash);
            }
        }
    }

    /// Ends an interval in which the tenant had so many gets, sampled or not, and says what it would have
    /// had with more or less memory, lately. `reach` is what it could have from now on.
    pub fn close(&mut self, now: Second, gets: u64, reach: Pages) -> Curve {
        self.reach = reach;
        self.histogram.close(now, gets);
        self.histogram.curve()
    }

    /// Gets in a second, of late: what the curve's hits are a part of.
    pub fn gets_a_second(&self) -> f64 {
        self.histogram.gets_a_second()
    }

    /// Pages for which each entry stands.
    fn scale(&self) -> f64 {
        SAMPLE_ONE_IN as f64 * self.sample.one_in()
    }

    fn get(&mut self, hash: u64) -> bool {
        let scale = self.scale();
        self.histogram.get(scale);
        let above = self.stack.take(hash);
        if let Some(above) = above {
            self.histogram.hit(above, scale);
        }
        above.is_some()
    }

    fn put(&mut self, hash: u64) {
        self.stack.push(hash);
        if self.stack.len() > self.entries_max {
            self.make_room();
        }
    }

    /// Forgets what is out of reach, and thins the sample if that is not enough.
    fn make_room(&mut self) {
        let within_reach = (self.reach.0 as f64 / self.scale()).ceil() as usize;
        self.stack
            .sweep(within_reach.min(self.entries_max), |_| true);
        let staying = Sample::staying(self.entries_max);
        while self.stack.len() > staying && self.sample.thin() {
            let sample = self.sample;
            self.stack.sweep(usize::MAX, |hash| sample.has(hash));
        }
    }
}

#[cfg(test)]
mod tests;
