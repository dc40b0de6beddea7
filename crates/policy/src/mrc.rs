//! `mrc`: targets from measured miss-ratio curves.
//!
//! ```text
//!  puts, gets, flushes ── 1 in 16 ──▶ Shadow ──▶ Curve ──┐
//!                                                        ├──▶ look-ahead ──▶ targets
//!  weights ── half the share of active tenants ──────────┘
//! ```
//!
//! A [`Shadow`] of each tenant keeps the keys of a sample of its pages, far beyond what the tenant holds. It learns how
//! many hits the tenant would have with more or less memory. The policy gives every active tenant a floor of half its
//! weighted share, so that small tenants do not starve. Look-ahead gives the rest to the tenants that turn it into most
//! hits. What no curve has a use for is divided by weight.
//!
//! None of Sublet's ancestors does this. The curve comes from SHARDS (Waldspurger and others, FAST '15) and the
//! division from UCP (Qureshi and Patt, MICRO '06). The half share is a guard as in Memshare (Cidon and others, ATC
//! '17).

use sublet_types::{Pages, Snapshot, TenantSnapshot};

use crate::active::ActivityTracker;
use crate::apportion::apportion;
use crate::clamp;
use crate::decide::Policy;
use crate::decision::Proposal;
use crate::explain::Reason;
use crate::smart_alloc::percent_of;

mod cooldown;
mod curve_ops;
mod fenwick;
mod histogram;
mod item_shadow;
mod lookahead;
mod sampling_rate;
mod shadow;
mod stack;

pub use curve_ops::{combined, stretched};
pub(crate) use histogram::{bucket_of, start_of};
pub use item_shadow::{ItemAccess, ItemShadow};
pub(crate) use sampling_rate::SamplingRate;
pub use shadow::{ENTRIES_MAX, PageAccess, SAMPLE_ONE_IN, Shadow, is_sampled};

pub(crate) use lookahead::{Contender, MonotoneCurve, divide};

use cooldown::Cooldown;

/// The policy that divides by curves.
#[derive(Clone, Debug)]
pub(crate) struct MrcPolicy {
    floor_percent: f64,
    gain_percent: f64,
    active: ActivityTracker,
    cooling: Cooldown,
}

impl MrcPolicy {
    /// Makes the policy.
    ///
    /// - `floor_percent`: each tenant that put or got in the last `idle_secs` seconds keeps this part of its weighted
    ///   share.
    /// - `gain_percent`: the policy changes the division only if the new one brings this many more hits.
    /// - `cool_secs`: nobody both gives and gets within this time.
    pub(crate) fn new(
        floor_percent: f64,
        gain_percent: f64,
        cool_secs: u32,
        idle_secs: u32,
    ) -> MrcPolicy {
        MrcPolicy {
            floor_percent,
            gain_percent,
            active: ActivityTracker::within(idle_secs),
            cooling: Cooldown::of(cool_secs),
        }
    }

    /// Where each tenant begins, how far it may go, and what it gains on the way.
    fn contenders(&self, snapshot: &Snapshot) -> Vec<Contender> {
        let claims = self.active.claims(snapshot);
        let shares = apportion(snapshot.total.0, &claims);
        let contender = |(n, tenant): (usize, &TenantSnapshot)| {
            let most = clamp::ceiling(tenant).0;
            let guarded = match is_measured(tenant, shares[n]) {
                true => percent_of(self.floor_percent, shares[n]),
                false => shares[n],
            };
            Contender {
                claim: claims[n],
                is_measured: is_measured(tenant, shares[n]),
                start: guarded.max(clamp::floor(tenant).0).min(most),
                most,
                hit_curve: tenant
                    .curve
                    .as_ref()
                    .map(MonotoneCurve::of)
                    .unwrap_or_default(),
            }
        };
        let mut contenders: Vec<Contender> =
            snapshot.tenants.iter().enumerate().map(contender).collect();
        self.cooling.restrict(snapshot, &mut contenders);
        contenders
    }

    fn reason(&self, snapshot: &Snapshot, n: usize, contender: &Contender, pages: u64) -> Reason {
        let tenant = &snapshot.tenants[n];
        if !self.active.is_active(tenant, snapshot.at) {
            let secs = self.active.idle_for(tenant, snapshot.at);
            return Reason::Idle { secs };
        }
        if !contender.is_measured {
            return Reason::Unmeasured;
        }
        let before = tenant.target.unwrap_or(tenant.held);
        Reason::Curve {
            hits: contender.hit_curve.hits(pages),
            hits_before: contender.hit_curve.hits(before.0),
        }
    }
}

impl Policy for MrcPolicy {
    fn propose(&mut self, snapshot: &Snapshot) -> Vec<Proposal> {
        self.active.notice(snapshot);
        let contenders = self.contenders(snapshot);
        let divided = lookahead::divide(snapshot.total.0, &contenders);
        if let Some(targets) = targets_that_hold(snapshot, &contenders, &divided) {
            let gain_percent = gain_percent(&contenders, &targets, &divided);
            if gain_percent <= self.gain_percent {
                let steady = |pages| Proposal::of(pages, Reason::Steady { gain_percent });
                return targets.into_iter().map(steady).collect();
            }
        }
        let propose = |(n, pages): (usize, u64)| {
            Proposal::of(pages, self.reason(snapshot, n, &contenders[n], pages))
        };
        let proposals: Vec<Proposal> = divided.into_iter().enumerate().map(propose).collect();
        self.cooling.record(snapshot, &proposals);
        proposals
    }
}

/// Returns whether a tenant's curve tells what its share would bring. It does so once the tenant has put as much as
/// that. Until then every page looks as if nobody would ask for it again.
pub(crate) fn is_measured(tenant: &TenantSnapshot, share: u64) -> bool {
    tenant.curve.is_some() && tenant.puts_ever >= share
}

/// The present targets if they could stay: each within its bounds, and together as much as a new division would give.
fn targets_that_hold(
    snapshot: &Snapshot,
    contenders: &[Contender],
    divided: &[u64],
) -> Option<Vec<u64>> {
    let targets: Option<Vec<u64>> = snapshot
        .tenants
        .iter()
        .map(|tenant| tenant.target.map(|Pages(pages)| pages))
        .collect();
    let targets = targets?;
    let fits =
        |(contender, pages): (&Contender, &u64)| (contender.start..=contender.most).contains(pages);
    let sum = |amounts: &[u64]| amounts.iter().map(|&pages| u128::from(pages)).sum::<u128>();
    let in_bounds = contenders.iter().zip(&targets).all(fits);
    let all = sum(&targets) >= sum(divided) && sum(&targets) <= u128::from(snapshot.total.0);
    (in_bounds && all).then_some(targets)
}

/// How many more hits division `to` brings than division `from`, in percent of the latter.
pub(crate) fn gain_percent(contenders: &[Contender], from: &[u64], to: &[u64]) -> f64 {
    let hits = |pages: &[u64]| -> f64 {
        let hits = |(contender, pages): (&Contender, &u64)| contender.hit_curve.hits(*pages);
        contenders.iter().zip(pages).map(hits).sum()
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
