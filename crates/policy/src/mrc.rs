//! `mrc`: targets from measured miss-ratio curves.
//!
//! ```text
//!  puts, gets, flushes ── 1 in 16 ──▶ Shadow ──▶ Curve ──┐
//!                                                        ├──▶ look-ahead ──▶ targets
//!  weights ── half the share of whoever is active ───────┘
//! ```
//!
//! A [`Shadow`] of each tenant keeps the keys of a sample of its pages, far beyond what the tenant holds, and learns
//! how many hits it would have with more or less memory. The policy gives every active tenant a floor of half its
//! weighted share, so that small tenants do not starve, and the rest to whom it brings most hits, by look-ahead. What
//! no curve has a use for is divided by weight.
//!
//! None of Sublet's ancestors does this. The curve is SHARDS' (Waldspurger and others, FAST '15), the division UCP's
//! (Qureshi and Patt, MICRO '06), the half share a guard as in Memshare (Cidon and others, ATC '17).

use sublet_types::{Pages, Snapshot, TenantSnapshot};

use crate::active::Active;
use crate::apportion::apportion;
use crate::clamp;
use crate::decide::Policy;
use crate::decision::Proposal;
use crate::explain::Reason;
use crate::smart_alloc::percent_of;

mod cooling;
mod fenwick;
mod histogram;
mod lookahead;
mod merged;
mod sample;
mod shadow;
mod stack;
mod weighed;

pub(crate) use histogram::{bucket_of, start_of};
pub use merged::{of_both, stretched};
pub(crate) use sample::Sample;
pub use shadow::{Access, ENTRIES_MAX, SAMPLE_ONE_IN, Shadow, is_sampled};
pub use weighed::{ItemAccess, WeighedShadow};

pub(crate) use lookahead::{Ladder, Seat, divide};

use cooling::Cooling;

/// The policy that divides by curves.
#[derive(Clone, Debug)]
pub(crate) struct Mrc {
    floor_percent: f64,
    gain_percent: f64,
    active: Active,
    cooling: Cooling,
}

impl Mrc {
    /// A floor of `floor_percent` of the weighted share for each tenant that put or got in the last `idle_secs`
    /// seconds; another division only where it brings `gain_percent` more hits, and nobody gives and gets within
    /// `cool_secs`.
    pub(crate) fn new(
        floor_percent: f64,
        gain_percent: f64,
        cool_secs: u32,
        idle_secs: u32,
    ) -> Mrc {
        Mrc {
            floor_percent,
            gain_percent,
            active: Active::within(idle_secs),
            cooling: Cooling::of(cool_secs),
        }
    }

    /// Where each tenant begins, how far it may go, and what it gains on the way.
    fn seats(&self, snapshot: &Snapshot) -> Vec<Seat> {
        let claims = self.active.claims(snapshot);
        let shares = apportion(snapshot.total.0, &claims);
        let seat = |(n, tenant): (usize, &TenantSnapshot)| {
            let most = clamp::ceiling(tenant).0;
            let guarded = match is_measured(tenant, shares[n]) {
                true => percent_of(self.floor_percent, shares[n]),
                false => shares[n],
            };
            Seat {
                claim: claims[n],
                is_measured: is_measured(tenant, shares[n]),
                start: guarded.max(clamp::floor(tenant).0).min(most),
                most,
                ladder: tenant.curve.as_ref().map(Ladder::of).unwrap_or_default(),
            }
        };
        let mut seats: Vec<Seat> = snapshot.tenants.iter().enumerate().map(seat).collect();
        self.cooling.bind(snapshot, &mut seats);
        seats
    }

    fn reason(&self, snapshot: &Snapshot, n: usize, seat: &Seat, pages: u64) -> Reason {
        let tenant = &snapshot.tenants[n];
        if !self.active.is_active(tenant, snapshot.at) {
            let secs = self.active.idle_for(tenant, snapshot.at);
            return Reason::Idle { secs };
        }
        if !seat.is_measured {
            return Reason::Unmeasured;
        }
        let before = tenant.target.unwrap_or(tenant.held);
        Reason::Curve {
            hits: seat.ladder.hits(pages),
            hits_before: seat.ladder.hits(before.0),
        }
    }
}

impl Policy for Mrc {
    fn propose(&mut self, snapshot: &Snapshot) -> Vec<Proposal> {
        self.active.notice(snapshot);
        let seats = self.seats(snapshot);
        let divided = lookahead::divide(snapshot.total.0, &seats);
        if let Some(targets) = targets_that_hold(snapshot, &seats, &divided) {
            let gain_percent = gain_percent(&seats, &targets, &divided);
            if gain_percent <= self.gain_percent {
                let steady = |pages| Proposal::of(pages, Reason::Steady { gain_percent });
                return targets.into_iter().map(steady).collect();
            }
        }
        let propose = |(n, pages): (usize, u64)| {
            Proposal::of(pages, self.reason(snapshot, n, &seats[n], pages))
        };
        let proposals: Vec<Proposal> = divided.into_iter().enumerate().map(propose).collect();
        self.cooling.note(snapshot, &proposals);
        proposals
    }
}

/// Whether a tenant's curve tells what its share would bring: not before it has put as much as that. Until then every page
/// looks as if nobody would ask for it again.
pub(crate) fn is_measured(tenant: &TenantSnapshot, share: u64) -> bool {
    tenant.curve.is_some() && tenant.puts_ever >= share
}

/// The targets of now, if they could stay: each within its bounds, and together as much as a new division would give.
fn targets_that_hold(snapshot: &Snapshot, seats: &[Seat], divided: &[u64]) -> Option<Vec<u64>> {
    let targets: Option<Vec<u64>> = snapshot
        .tenants
        .iter()
        .map(|tenant| tenant.target.map(|Pages(pages)| pages))
        .collect();
    let targets = targets?;
    let fits = |(seat, pages): (&Seat, &u64)| (seat.start..=seat.most).contains(pages);
    let sum = |amounts: &[u64]| amounts.iter().map(|&pages| u128::from(pages)).sum::<u128>();
    let in_bounds = seats.iter().zip(&targets).all(fits);
    let all = sum(&targets) >= sum(divided) && sum(&targets) <= u128::from(snapshot.total.0);
    (in_bounds && all).then_some(targets)
}

/// How many more hits one division brings than another, in percent of these.
pub(crate) fn gain_percent(seats: &[Seat], from: &[u64], to: &[u64]) -> f64 {
    let hits = |pages: &[u64]| -> f64 {
        let hits = |(seat, pages): (&Seat, &u64)| seat.ladder.hits(*pages);
        seats.iter().zip(pages).map(hits).sum()
    };
    let (from, to) = (hits(from), hits(to));
    if to <= from {
        0.0
    } else if from > 0.0 {
        (to - from) * 100.0 / from
    } else {
        f64::MAX
    }
}

#[cfg(test)]
mod tests;
