//! Tracks which pages or items of one tenant left memory: how old, how often used, and whether too soon. It learns from
//! a sample.
//!
//! ```text
//!             put                     evicted
//!  unknown ─────────▶ resident ─────────────────────▶ evicted ──turnover over──▶ judged
//!      ▲                 │  ▲                            │
//!      │ oldest of them  │  │ put: its uses come back    └─ asked for meanwhile: regretted
//!      └──── taken ◀─────┘──┘
//!             a get that takes it away (exclusive pools)
//! ```
//!
//! A *turnover* is over when as many have been evicted since as are here now. A page that was asked for by then would
//! still be here in twice the memory.
//!
//! *Regret* is the part of all evicted ones that was asked for within a turnover. It is known only when their turnover
//! is over. So it is neither too high at the start nor too low in a rush.

mod fading_histogram;
mod recent_queue;

use std::collections::HashMap;
use std::ops::AddAssign;

use sublet_types::Second;

use self::fading_histogram::FadingHistogram;
use self::recent_queue::RecentQueue;
use crate::decay::kept_after;
use crate::mrc::SamplingRate;

/// The most residents that are tracked. At most as many taken ones and as many evicted ones are remembered.
pub const FOLLOWED_MAX: usize = 4096;

/// If the tracker follows this many times as many residents as the sample has, it forgets the oldest: they left without
/// an event.
const STRAY: f64 = 1.25;

/// What happens to a sampled page or item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResidentEvent {
    /// It was put, or stored.
    Put,
    /// It was asked for, and stays if it is here.
    Got,
    /// It was asked for, and leaves if it is here, as in an exclusive pool.
    GotAndRemoved,
    /// It was flushed, deleted, or expired.
    Dropped,
    /// It was evicted to make room.
    Evicted,
}

/// What is known of those that were evicted lately. The past fades as it does for a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvictionStats {
    /// Their age in seconds since their last put: the median and the 95th percentile. `None` if nobody was evicted
    /// lately.
    pub age: Option<Quantiles>,
    /// The number of gets that found them.
    pub uses: Option<Quantiles>,
    /// The part of them that was asked for within a turnover, from 0 to 1. `None` until the first turnover is over.
    pub regret: Option<f64>,
    /// How many sampled ones had their turnover end, since the start.
    pub judged: u64,
    /// How many of these were asked for within it.
    pub regretted: u64,
}

/// Two quantiles of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
}

/// A tracked page or item that is here.
#[derive(Clone, Copy, Debug)]
struct Resident {
    since: Second,
    uses: u32,
}

/// Tracks a sample of one tenant's pages or items.
#[derive(Clone, Debug)]
pub struct EvictionTracker {
    at: Second,
    sample: SamplingRate,
    residents: HashMap<u64, Resident>,
    /// Use counts of those that left with a get.
    taken: RecentQueue<u32>,
    /// For each evicted one, whether it was asked for since.
    evicted: RecentQueue<bool>,
    ages: FadingHistogram,
    uses: FadingHistogram,
    /// Counts since the start.
    judged: RegretCounts<u64>,
    /// The same counts, fading.
    of_late: RegretCounts<f64>,
}

/// Counts of those whose turnover is over.
#[derive(Clone, Copy, Debug, Default)]
struct RegretCounts<N> {
    all: N,
    regretted: N,
}

impl<N: AddAssign + From<u8>> RegretCounts<N> {
    fn add(&mut self, regretted: N) {
        self.all += N::from(1);
        self.regretted += regretted;
    }
}

impl EvictionTracker {
    /// A tracker that knows nobody yet.
    pub fn new(now: Second) -> EvictionTracker {
        EvictionTracker {
            at: now,
            sample: SamplingRate::default(),
            residents: HashMap::new(),
            taken: RecentQueue::default(),
            evicted: RecentQueue::default(),
            ages: FadingHistogram::default(),
            uses: FadingHistogram::default(),
            judged: RegretCounts::default(),
            of_late: RegretCounts::default(),
        }
    }

    /// Records what happened to a sampled page or item at `now`.
    pub fn record(&mut self, hash: u64, event: ResidentEvent, now: Second) {
        if !self.sample.has(hash) {
            return;
        }
        match event {
            ResidentEvent::Put => self.put(hash, now),
            ResidentEvent::Got => self.record_get(hash, |resident| resident.uses += 1),
            ResidentEvent::GotAndRemoved => {
                self.record_get(hash, |_| ());
                if let Some(resident) = self.residents.remove(&hash) {
                    self.taken.push(hash, resident.uses + 1);
                    while self.taken.pop_beyond(FOLLOWED_MAX).is_some() {}
                }
            }
            ResidentEvent::Dropped => {
                self.residents.remove(&hash);
            }
            ResidentEvent::Evicted => self.evict(hash, now),
        }
    }

    fn put(&mut self, hash: u64, now: Second) {
        let before = self.residents.get(&hash).map(|resident| resident.uses);
        let uses = before.or_else(|| self.taken.take(hash)).unwrap_or(0);
        let resident = Resident { since: now, uses };
        self.residents.insert(hash, resident);
        if self.residents.len() > FOLLOWED_MAX {
            self.thin_out();
        }
    }

    fn record_get(&mut self, hash: u64, found: impl FnOnce(&mut Resident)) {
        if let Some(asked_for) = self.evicted.get_mut(hash) {
            *asked_for = true;
        }
        if let Some(resident) = self.residents.get_mut(&hash) {
            found(resident);
        }
    }

    fn evict(&mut self, hash: u64, now: Second) {
        if let Some(resident) = self.residents.remove(&hash) {
            let age = now.0.saturating_sub(resident.since.0);
            self.ages.add(u64::from(age));
            self.uses.add(u64::from(resident.uses));
        }
        self.evicted.push(hash, false);
        self.judge_overdue();
    }

    /// Judges those whose turnover is over.
    fn judge_overdue(&mut self) {
        while let Some(asked_for) = self.evicted.pop_beyond(self.residents.len()) {
            self.judged.add(u64::from(asked_for));
            self.of_late.add(f64::from(u8::from(asked_for)));
        }
        while self.taken.pop_beyond(self.residents.len()).is_some() {}
    }

    fn thin_out(&mut self) {
        self.sample.thin();
        let sample = self.sample;
        let stays = |hash: u64| sample.has(hash);
        self.residents.retain(|hash, _| stays(*hash));
        self.taken.retain(stays);
        self.evicted.retain(stays);
    }

    /// Ends an interval and returns what is known. About `sampled` sampled ones are here at its end.
    pub fn close(&mut self, now: Second, sampled: u64) -> EvictionStats {
        self.forget_strays(sampled);
        let kept = kept_after(now.0.saturating_sub(self.at.0));
        self.at = now.max(self.at);
        self.ages.fade(kept);
        self.uses.fade(kept);
        self.of_late.all *= kept;
        self.of_late.regretted *= kept;
        EvictionStats {
            age: self.ages.quantiles(),
            uses: self.uses.quantiles(),
            regret: (self.of_late.all > 0.0).then(|| self.of_late.regretted / self.of_late.all),
            judged: self.judged.all,
            regretted: self.judged.regretted,
        }
    }

    /// Forgets the oldest residents if there are too many. Blocks that are dropped whole take residents along without
    /// an event.
    fn forget_strays(&mut self, sampled: u64) {
        let here = sampled as f64 * self.sample.share();
        let most = (here * STRAY) as usize + 16;
        let Some(strays) = self.residents.len().checked_sub(most).filter(|n| *n > 0) else {
            return;
        };
        let mut ages: Vec<(Second, u64)> =
            self.residents.iter().map(|(h, r)| (r.since, *h)).collect();
        ages.sort_unstable();
        for (_, hash) in &ages[..strays] {
            self.residents.remove(hash);
        }
    }
}

#[cfg(test)]
mod tests;
