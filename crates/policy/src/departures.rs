//! Who left, how old, how often used, and whether too soon: learnt from a sample of one tenant's pages or items.
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
//! A *turnover* is over when as many have been evicted since as are here now: whoever was asked for by then would still be
//! here in twice the memory. *Regret* is their part of all that were evicted, known only when their turnover is over, so
//! that it is neither too high at the start nor too low in a rush.

mod recent;
mod spread;

use std::collections::HashMap;
use std::ops::AddAssign;

use sublet_types::Second;

use self::recent::Recent;
use self::spread::Spread;
use crate::decay::kept_after;
use crate::mrc::Sample;

/// The most residents that are followed; as many taken and as many evicted ones at the most.
pub const FOLLOWED_MAX: usize = 4096;

/// Where the sample says so many more residents than there are, the oldest are forgotten: they left unheard.
const STRAY: f64 = 1.25;

/// What happens to one that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stir {
    /// It was put, or stored.
    Put,
    /// It was asked for, and stays if it is here.
    Asked,
    /// It was asked for, and leaves if it is here: an exclusive pool.
    Taken,
    /// It was flushed, deleted, or expired.
    Gone,
    /// It went to make room.
    Evicted,
}

/// What is known of those who were evicted of late; the past fades as a curve's does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Departed {
    /// Seconds from their last put: half were no older, and 95 in 100; `None` while nobody was evicted of late.
    pub age: Option<Quantiles>,
    /// Gets that found them.
    pub uses: Option<Quantiles>,
    /// Their part that was asked for within a turnover, from 0 to 1; `None` while no turnover is over.
    pub regret: Option<f64>,
    /// Sampled ones whose turnover is over, since the start.
    pub judged: u64,
    /// Of these, asked for within it.
    pub regretted: u64,
}

/// Half are no more than the one, 95 in 100 no more than the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
}

/// One that is here.
#[derive(Clone, Copy, Debug)]
struct Resident {
    since: Second,
    uses: u32,
}

/// Follows a sample of one tenant's pages, or items.
#[derive(Clone, Debug)]
pub struct Departures {
    at: Second,
    sample: Sample,
    residents: HashMap<u64, Resident>,
    /// Uses of those who left with a get.
    taken: Recent<u32>,
    /// Whether those who were evicted were asked for since.
    evicted: Recent<bool>,
    ages: Spread,
    uses: Spread,
    /// Since the start.
    judged: Verdicts<u64>,
    /// The same, fading.
    of_late: Verdicts<f64>,
}

/// Those whose turnover is over.
#[derive(Clone, Copy, Debug, Default)]
struct Verdicts<N> {
    all: N,
    regretted: N,
}

impl<N: AddAssign + From<u8>> Verdicts<N> {
    fn add(&mut self, regretted: N) {
        self.all += N::from(1);
        self.regretted += regretted;
    }
}

impl Departures {
    /// Nobody is known yet.
    pub fn new(now: Second) -> Departures {
        Departures {
            at: now,
            sample: Sample::default(),
            residents: HashMap::new(),
            taken: Recent::default(),
            evicted: Recent::default(),
            ages: Spread::default(),
            uses: Spread::default(),
            judged: Verdicts::default(),
            of_late: Verdicts::default(),
        }
    }

    /// Hears what happened to a sampled one, now.
    pub fn hear(&mut self, hash: u64, stir: Stir, now: Second) {
        if !self.sample.has(hash) {
            return;
        }
        match stir {
            Stir::Put => self.put(hash, now),
            Stir::Asked => self.asked(hash, |resident| resident.uses += 1),
            Stir::Taken => {
                self.asked(hash, |_| ());
                if let Some(resident) = self.residents.remove(&hash) {
                    self.taken.push(hash, resident.uses + 1);
                    while self.taken.pop_beyond(FOLLOWED_MAX).is_some() {}
                }
            }
            Stir::Gone => {
                self.residents.remove(&hash);
            }
            Stir::Evicted => self.evict(hash, now),
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

    fn asked(&mut self, hash: u64, found: impl FnOnce(&mut Resident)) {
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
        self.judge();
    }

    /// Whose turnover is over is judged.
    fn judge(&mut self) {
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

    /// Ends an interval at whose end so many sampled ones, or about so many, are here; says what is known.
    pub fn close(&mut self, now: Second, sampled: u64) -> Departed {
        self.forget_strays(sampled);
        let kept = kept_after(now.0.saturating_sub(self.at.0));
        self.at = now.max(self.at);
        self.ages.fade(kept);
        self.uses.fade(kept);
        self.of_late.all *= kept;
        self.of_late.regretted *= kept;
        Departed {
            age: self.ages.quantiles(),
            uses: self.uses.quantiles(),
            regret: (self.of_late.all > 0.0).then(|| self.of_late.regretted / self.of_late.all),
            judged: self.judged.all,
            regretted: self.judged.regretted,
        }
    }

    /// Blocks that are dropped whole take residents with them of whom nothing is heard.
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
