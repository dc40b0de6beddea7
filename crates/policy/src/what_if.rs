//! What would be for so many hits, with so much memory, or under another policy; and which tenants would pay.
//!
//! ```text
//!  a look each second ──1 in 120──▶ History (an hour) ──┬─▶ for_hits, with_memory: least memory on the curves, then who gives
//!                                                       └─▶ replay: a policy decides on each record until it rests
//! ```
//!
//! All answers come from curves, that is, from recent requests, and from two rules:
//!
//! - Who gives way: the tenants that the policy in force would lower, else the tenant that has most above its weighted
//!   share. If all memory is one pool, the oldest goes.
//! - How far a tenant fills what it may hold: as far as it lacked room.
//!
//! Two policies are compared by replaying both. A model says nothing of how long pages take to move.

mod age;
mod grant;
mod history;
mod level;
mod meter;
mod replay;

use sublet_types::{Pages, Second, TenantId, TenantSnapshot, Weight};

pub use self::grant::{GrantOutcome, GrantRefusal, HoldingChange, for_hits, with_memory};
pub use self::history::{EVERY_SECS, HISTORY_BYTES_MAX, History, KEPT_SECS};
pub use self::meter::RateMeter;
pub use self::replay::{PolicyReplay, TenantReplay, replay};
use crate::mrc::MonotoneCurve;

/// A tenant holds what it wants if its puts lack room less often than once in this many seconds.
const SELDOM_SECS: f64 = 1000.0;

/// What a tenant did per second, lately.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TenantRates {
    /// Gets.
    pub gets: f64,
    /// Those of the gets that hit.
    pub hits: f64,
    /// Puts.
    pub puts: f64,
    /// Those of the puts that found no room.
    pub failed: f64,
}

/// All tenants at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryRecord {
    /// When.
    pub at: Second,
    /// What they may hold together.
    pub total: Pages,
    /// Each tenant.
    pub tenants: Vec<TenantRecord>,
}

/// One tenant at that instant.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantRecord {
    /// The tenant.
    pub id: TenantId,
    weight: Weight,
    /// What it has in any case once it asks for it.
    pub floor: Pages,
    ceiling: Option<Pages>,
    /// What it held.
    pub held: Pages,
    used: Pages,
    shared: Pages,
    puts_ever: u64,
    /// What it did.
    pub rates: TenantRates,
    /// Hits per second by memory. `None` while it is not measured.
    hit_curve: Option<MonotoneCurve>,
}

impl TenantRecord {
    /// A tenant as the Memory Manager saw it, with its recent rates.
    pub fn of(tenant: &TenantSnapshot, rates: TenantRates) -> TenantRecord {
        TenantRecord {
            id: tenant.id,
            weight: tenant.weight,
            floor: crate::clamp::floor(tenant),
            ceiling: tenant.ceiling,
            held: tenant.held,
            used: tenant.used,
            shared: tenant.shared,
            puts_ever: tenant.puts_ever,
            rates,
            hit_curve: tenant
                .curve
                .as_ref()
                .map(|curve| MonotoneCurve::of(curve).thinned()),
        }
    }

    /// How much it would fill: all that it may hold if its puts lack room, else what it holds.
    fn wants(&self) -> Pages {
        let most = self.ceiling.unwrap_or(Pages(u64::MAX));
        match self.rates.failed * SELDOM_SECS >= 1.0 {
            true => most,
            false => self.held.min(most),
        }
    }
}

/// What one tenant was asked for over some records, as far as it was measured.
#[derive(Clone, Copy)]
struct TenantHistory<'a> {
    records: &'a [HistoryRecord],
    id: TenantId,
}

impl TenantHistory<'_> {
    fn measured(&self) -> impl Iterator<Item = (&TenantRecord, &MonotoneCurve)> {
        let own = |record: &HistoryRecord| -> Option<usize> {
            record.tenants.iter().position(|party| party.id == self.id)
        };
        self.records.iter().filter_map(move |record| {
            let party = &record.tenants[own(record)?];
            Some((party, party.hit_curve.as_ref()?))
        })
    }

    /// The part of gets that would hit with this much memory, from 0 to 1. `None` if nothing was measured or asked for.
    fn ratio(&self, memory: Pages) -> Option<f64> {
        let (mut gets, mut hits) = (0.0, 0.0);
        for (party, hit_curve) in self.measured() {
            gets += party.rates.gets;
            hits += hit_curve.hits(memory.0);
        }
        (gets > 0.0).then(|| (hits / gets).clamp(0.0, 1.0))
    }

    /// The memory beyond which no curve rises.
    fn reach(&self) -> Pages {
        let ends = self.measured().map(|(_, hit_curve)| hit_curve.end());
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
