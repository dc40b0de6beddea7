//! What would be: for so many hits, with so much memory, under another policy; and who would pay.
//!
//! ```text
//!  a look each second ──1 in 120──▶ History (an hour) ──┬─▶ for_hits, with_memory: least memory on the curves, then who gives
//!                                                       └─▶ replay: a policy decides on each record until it rests
//! ```
//!
//! All answers come of curves, that is of what was asked lately, and of two rules: who gives way (what the policy in force
//! would lower, else whoever has most above its weighted share, or, where all memory is one pool, what is oldest), and how far a tenant fills what it may (as far as it
//! lacked room). Two policies are compared by replaying both. A model says nothing of how long pages take to move.

mod age;
mod grant;
mod history;
mod level;
mod meter;
mod replay;

use sublet_types::{Pages, Second, TenantId, TenantSnapshot, Weight};

pub use self::grant::{Change, Granted, Refusal, for_hits, with_memory};
pub use self::history::{EVERY_SECS, HISTORY_BYTES_MAX, History, KEPT_SECS};
pub use self::meter::Meter;
pub use self::replay::{Replayed, Settled, replay};
use crate::mrc::Ladder;

/// A tenant whose puts lack room less often than once in so many seconds holds what it wants.
const SELDOM_SECS: f64 = 1000.0;

/// What happened in a second, of late.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Gets.
    pub gets: f64,
    /// Of these, hits.
    pub hits: f64,
    /// Puts.
    pub puts: f64,
    /// Of these, puts that found no room.
    pub failed: f64,
}

/// All tenants at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// When.
    pub at: Second,
    /// What they may hold together.
    pub total: Pages,
    /// Each of them.
    pub tenants: Vec<Party>,
}

/// One tenant at that instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Party {
    /// Who.
    pub id: TenantId,
    weight: Weight,
    /// What it has in any case, once it asks for it.
    pub floor: Pages,
    ceiling: Option<Pages>,
    /// What it held.
    pub held: Pages,
    used: Pages,
    shared: Pages,
    puts_ever: u64,
    /// What it did.
    pub rates: Rates,
    /// Hits in a second by memory; `None` while it is not measured.
    ladder: Option<Ladder>,
}

impl Party {
    /// A tenant as the Memory Manager saw it, with what it did of late.
    pub fn of(tenant: &TenantSnapshot, rates: Rates) -> Party {
        Party {
            id: tenant.id,
            weight: tenant.weight,
            floor: crate::clamp::floor(tenant),
            ceiling: tenant.ceiling,
            held: tenant.held,
            used: tenant.used,
            shared: tenant.shared,
            puts_ever: tenant.puts_ever,
            rates,
            ladder: tenant
                .curve
                .as_ref()
                .map(|curve| Ladder::of(curve).thinned()),
        }
    }

    /// How much it would fill: all that it may where its puts lack room, else what it holds.
    fn wants(&self) -> Pages {
        let most = self.ceiling.unwrap_or(Pages(u64::MAX));
        match self.rates.failed * SELDOM_SECS >= 1.0 {
            true => most,
            false => self.held.min(most),
        }
    }
}

/// What one tenant was asked over some records, as far as it was measured.
#[derive(Clone, Copy)]
struct Asked<'a> {
    records: &'a [Record],
    id: TenantId,
}

impl Asked<'_> {
    fn measured(&self) -> impl Iterator<Item = (&Party, &Ladder)> {
        let own = |record: &Record| -> Option<usize> {
            record.tenants.iter().position(|party| party.id == self.id)
        };
        self.records.iter().filter_map(move |record| {
            let party = &record.tenants[own(record)?];
            Some((party, party.ladder.as_ref()?))
        })
    }

    /// Its part of gets that would be hits with so much memory, from 0 to 1; `None` where nothing was measured or asked.
    fn ratio(&self, memory: Pages) -> Option<f64> {
        let (mut gets, mut hits) = (0.0, 0.0);
        for (party, ladder) in self.measured() {
            gets += party.rates.gets;
            hits += ladder.hits(memory.0);
        }
        (gets > 0.0).then(|| (hits / gets).clamp(0.0, 1.0))
    }

    /// The memory beyond which no curve rises.
    fn reach(&self) -> Pages {
        let ends = self.measured().map(|(_, ladder)| ladder.end());
        Pages(ends.max().unwrap_or(0))
    }

    /// The least memory with that ratio, if any has it.
    fn least(&self, ratio: f64) -> Option<Pages> {
        let has = |memory: u64| {
            self.ratio(Pages(memory))
                .is_some_and(|there| there >= ratio)
        };
        let (mut low, mut high) = (0, self.reach().0);
        if !has(high) {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match has(middle) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        Some(Pages(high))
    }
}

#[cfg(test)]
mod tests;
